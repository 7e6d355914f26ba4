//! Operators' resources: the pods that they make, as far as they decide on huge pages.

use std::rc::Rc;

use crate::config_maps::{ConfigMaps, Lookup};
use crate::images::ImageName;
use crate::resources::ContainerResources;
use crate::workload::{ContainerSpec, MadeBy, MountedFile, Workload, names_of};
use crate::yaml::YamlNode;

/// An operator's resource that makes database servers.
struct OperatorKind {
    /// The beginning of `apiVersion`.
    group: &'static str,
    kind: &'static str,
    read: fn(&OperatorSpec<'_>) -> Vec<OperatedPod>,
}

/// By each operator's own definition of its resource.
const KINDS: [OperatorKind; 9] = [
    OperatorKind { group: "postgresql.cnpg.io/", kind: "Cluster", read: read_cloud_native_pg },
    OperatorKind {
        group: "postgres-operator.crunchydata.com/",
        kind: "PostgresCluster",
        read: read_crunchy,
    },
    OperatorKind { group: "pgv2.percona.com/", kind: "PerconaPGCluster", read: read_crunchy },
    OperatorKind { group: "acid.zalan.do/", kind: "postgresql", read: read_zalando },
    OperatorKind {
        group: "pxc.percona.com/",
        kind: "PerconaXtraDBCluster",
        read: read_percona_mysql,
    },
    OperatorKind { group: "ps.percona.com/", kind: "PerconaServerMySQL", read: read_percona_mysql },
    OperatorKind { group: "k8s.mariadb.com/", kind: "MariaDB", read: read_mariadb },
    OperatorKind { group: "enterprise.mariadb.com/", kind: "MariaDB", read: read_mariadb },
    OperatorKind { group: "mysql.oracle.com/", kind: "InnoDBCluster", read: read_innodb_cluster },
];

struct OperatorSpec<'a> {
    spec: &'a Rc<YamlNode>,
    namespace: &'a str,
    maps: &'a ConfigMaps,
}

/// Pods that an operator makes alike.
struct OperatedPod {
    container: &'static str,
    /// The mapping that has `resources`.
    place: Rc<YamlNode>,
    replicas: u64,
    /// No two of them share a node.
    is_alone: bool,
    image: Option<String>,
    made_by: MadeBy,
    open: Vec<String>,
}

/// The pods of an operator's resource, one workload for each set that is alike.
pub(crate) fn read_operated(object: &Rc<YamlNode>, maps: &ConfigMaps) -> Vec<Workload> {
    let kind = object.text_of("kind").unwrap_or_default();
    let group = object.text_of("apiVersion").unwrap_or_default();
    let own = KINDS.iter().find(|one| one.kind == kind && group.starts_with(one.group));
    let (Some(own), Some(spec)) = (own, object.get("spec")) else { return Vec::new() };
    let (name, namespace) = names_of(object);
    let spec = OperatorSpec { spec, namespace: &namespace, maps };
    let pods = (own.read)(&spec).into_iter();
    pods.map(|pod| Workload {
        kind: kind.to_owned(),
        name: name.clone(),
        namespace: namespace.clone(),
        line: object.line,
        pods_per_node: if pod.is_alone { pod.replicas.min(1) } else { pod.replicas },
        containers: vec![pod.into_container()],
        volumes: Vec::new(),
        groups: Vec::new(),
        open_count: None,
    })
    .collect()
}

impl OperatedPod {
    fn into_container(self) -> ContainerSpec {
        ContainerSpec {
            image: self.image,
            open: self.open,
            made_by: Some(self.made_by),
            ..ContainerSpec::new(self.container, &self.place)
        }
    }
}

/// CloudNativePG sets these before the user's own parameters ("PostgreSQL configuration").
const CLOUD_NATIVE_PG_DEFAULTS: [(&str, &str); 3] =
    [("max_worker_processes", "32"), ("shared_memory_type", "mmap"), ("wal_level", "logical")];
/// Libraries that it loads where a parameter of theirs is set.
const MANAGED_LIBRARIES: [&str; 4] =
    ["pg_stat_statements", "auto_explain", "pgaudit", "pg_failover_slots"];

fn read_cloud_native_pg(given: &OperatorSpec<'_>) -> Vec<OperatedPod> {
    let spec = given.spec;
    let mut server = PostgresWords::new(spec.value_at_path(&["postgresql", "parameters"]));
    let mut libraries: Vec<String> =
        list_texts(spec.value_at_path(&["postgresql", "shared_preload_libraries"]));
    let managed = MANAGED_LIBRARIES.iter().filter(|name| server.has_prefix(name));
    libraries.extend(managed.map(|name| (*name).to_owned()));
    libraries.dedup();
    server.add_defaults(&CLOUD_NATIVE_PG_DEFAULTS);
    if !libraries.is_empty() {
        server.add("shared_preload_libraries", &libraries.join(","));
    }
    let image = spec.text_of("imageName").map(str::to_owned);
    let by_catalog =
        spec.value_at_path(&["imageCatalogRef"]).and_then(|catalog| catalog.text_of("major"));
    let version = image.as_deref().and_then(|image| ImageName::parse(image).version());
    let version = version.or_else(|| by_catalog.map(str::to_owned));
    let affinity = spec.value_at_path(&["affinity"]);
    let is_alone = affinity.and_then(|affinity| affinity.text_of("podAntiAffinityType"));
    vec![OperatedPod {
        container: "postgres",
        place: Rc::clone(spec),
        replicas: count_of(spec, "instances", 1),
        is_alone: is_alone == Some("required"),
        image,
        open: server.open.clone(),
        made_by: server.into_made_by("spec.postgresql.parameters", version),
    }]
}

/// Crunchy's operator and Percona's, which is built of it.
fn read_crunchy(given: &OperatorSpec<'_>) -> Vec<OperatedPod> {
    let spec = given.spec;
    let version = spec.text_of("postgresVersion").map(str::to_owned);
    let sets: Vec<&Rc<YamlNode>> =
        spec.get("instances").into_iter().flat_map(|list| list.items()).collect();
    let has_pages = |set: &&Rc<YamlNode>| {
        let limits = ContainerResources::read(set).limits;
        limits.iter().any(|(name, one)| name.starts_with("hugepages-") && one.amount.round_up() > 0)
    };
    // internal/postgres/huge_pages.go: `try` where an instance has a limit, otherwise `off`.
    let default = if sets.iter().any(has_pages) { "try" } else { "off" };
    let by_patroni =
        spec.value_at_path(&["patroni", "dynamicConfiguration", "postgresql", "parameters"]);
    let pod = |set: &Rc<YamlNode>| {
        let mut server = PostgresWords::new(by_patroni);
        server.read_more(spec.value_at_path(&["config", "parameters"]));
        server.add_defaults(&[("huge_pages", default), ("wal_level", "logical")]);
        OperatedPod {
            container: "database",
            place: Rc::clone(set),
            replicas: count_of(set, "replicas", 1),
            is_alone: false,
            image: spec.text_of("image").map(str::to_owned),
            open: server.open.clone(),
            made_by: MadeBy {
                notes: vec![
                    "the operator sets huge_pages to try once an instance has a limit on huge \
                     pages, and otherwise to off"
                        .to_owned(),
                ],
                ..server.into_made_by("its parameters", version.clone())
            },
        }
    };
    sets.into_iter().map(pod).collect()
}

fn read_zalando(given: &OperatorSpec<'_>) -> Vec<OperatedPod> {
    let spec = given.spec;
    let postgresql = spec.get("postgresql");
    let parameters = postgresql.and_then(|postgresql| postgresql.get("parameters"));
    let mut server = PostgresWords::new(parameters.map(AsRef::as_ref));
    // Spilo's configure_spilo.py, which takes a fifth of the memory for shared_buffers.
    let chosen = ["shared_buffers", "max_connections"];
    let missing: Vec<String> = chosen
        .iter()
        .filter(|name| !server.has(name))
        .map(|name| format!("{name}: Spilo chooses it by the memory that it finds"))
        .collect();
    server.add_defaults(&[
        ("shared_preload_libraries", "bg_mon,pg_stat_statements,pgextwlist,pg_auth_mon,set_user"),
        ("autovacuum_max_workers", "5"),
    ]);
    let version = postgresql.and_then(|one| one.text_of("version")).map(str::to_owned);
    vec![OperatedPod {
        container: "postgres",
        place: Rc::clone(spec),
        replicas: count_of(spec, "numberOfInstances", 1),
        is_alone: false,
        image: spec.text_of("dockerImage").map(str::to_owned),
        open: server.open.clone(),
        made_by: MadeBy {
            questions: missing,
            ..server.into_made_by("spec.postgresql.parameters", version)
        },
    }]
}

/// Percona's two operators for MySQL choose what the configuration does not name by the memory.
fn read_percona_mysql(given: &OperatorSpec<'_>) -> Vec<OperatedPod> {
    let Some(node) = given.spec.get("pxc").or_else(|| given.spec.get("mysql")) else {
        return Vec::new();
    };
    let topology =
        node.value_at_path(&["affinity"]).and_then(|one| one.text_of("antiAffinityTopologyKey"));
    let image = node.text_of("image");
    let version = image.and_then(|image| mysql_version(&ImageName::parse(image)));
    let mut pod = given.mysql_pod(node, "mysqld", node.get("configuration"), version);
    let configuration = node.text_of("configuration").unwrap_or_default();
    if !configuration.contains("innodb_buffer_pool_size") {
        let question = "innodb_buffer_pool_size: the operator chooses it by the memory";
        pod.made_by.questions.push(question.to_owned());
    }
    pod.replicas = count_of(node, "size", 3);
    pod.is_alone = topology.is_none_or(|key| key == "kubernetes.io/hostname");
    vec![pod]
}

/// `8.0.36` of `percona-xtradb-cluster:8.0.36-28.1`; images of a whole product have other tags.
fn mysql_version(image: &ImageName<'_>) -> Option<String> {
    image.version().filter(|version| version.starts_with(['5', '8', '9']))
}

fn read_mariadb(given: &OperatorSpec<'_>) -> Vec<OperatedPod> {
    let spec = given.spec;
    let version = spec.text_of("image").and_then(|image| ImageName::parse(image).version());
    let mut pod = given.mysql_pod(spec, "mariadbd", spec.get("myCnf"), version);
    if let Some(reference) = spec.get("myCnfConfigMapKeyRef") {
        let of = |key: &str| reference.text_of(key).unwrap_or_default();
        match given.maps.find_key("ConfigMap", given.namespace, of("name"), of("key")) {
            Lookup::Found(MountedFile::Text(text)) => {
                pod.made_by.files = vec![(MY_CNF.to_owned(), Rc::clone(text))];
            }
            Lookup::Found(MountedFile::Open(template)) => pod.open.push(template.clone()),
            Lookup::Missing => {
                pod.open.push(format!("ConfigMap {} (myCnfConfigMapKeyRef)", of("name")));
            }
        }
    }
    pod.replicas = count_of(spec, "replicas", 1);
    let anti = spec.value_at_path(&["affinity"]).and_then(|one| one.text_of("antiAffinityEnabled"));
    pod.is_alone = anti == Some("true");
    vec![pod]
}

fn read_innodb_cluster(given: &OperatorSpec<'_>) -> Vec<OperatedPod> {
    let spec = given.spec;
    let containers = spec.value_at_path(&["podSpec", "containers"]);
    let mut containers = containers.into_iter().flat_map(YamlNode::items);
    let version = spec.text_of("version").map(str::to_owned);
    let Some(container) = containers.find(|one| one.text_of("name") == Some("mysql")) else {
        // Nothing says what it may have: the operator's own sidecar has no huge pages either.
        let mut pod = given.mysql_pod(spec, "mysqld", spec.get("mycnf"), version);
        pod.replicas = count_of(spec, "instances", 1);
        pod.made_by.is_elsewhere = true;
        return vec![pod];
    };
    let mut pod = given.mysql_pod(container, "mysqld", spec.get("mycnf"), version);
    pod.replicas = count_of(spec, "instances", 1);
    vec![pod]
}

const MY_CNF: &str = "/etc/my.cnf";

impl OperatorSpec<'_> {
    fn mysql_pod(
        &self,
        place: &Rc<YamlNode>,
        program: &str,
        configuration: Option<&Rc<YamlNode>>,
        version: Option<String>,
    ) -> OperatedPod {
        let open = configuration.and_then(|text| text.template.clone());
        let text = configuration.and_then(|text| text.text()).unwrap_or_default();
        // Where a file has no group, the operators put the server's before it.
        let text = if text.contains('[') { text.to_owned() } else { format!("[mysqld]\n{text}") };
        let words = [program.to_owned(), format!("--defaults-file={MY_CNF}")];
        OperatedPod {
            container: "mysql",
            place: Rc::clone(place),
            replicas: 1,
            is_alone: false,
            image: place.text_of("image").map(str::to_owned),
            open: open.into_iter().collect(),
            made_by: MadeBy {
                words: words.to_vec(),
                files: vec![(MY_CNF.to_owned(), text.into())],
                version,
                set_in: "its arguments",
                ..MadeBy::default()
            },
        }
    }
}

/// A PostgreSQL server's parameters, the last of a name counting.
struct PostgresWords {
    parameters: Vec<(String, String)>,
    open: Vec<String>,
}

impl PostgresWords {
    fn new(parameters: Option<&YamlNode>) -> Self {
        let mut words = Self { parameters: Vec::new(), open: Vec::new() };
        words.read_more(parameters);
        words
    }

    fn read_more(&mut self, parameters: Option<&YamlNode>) {
        for (name, value) in parameters.map(YamlNode::entries).unwrap_or_default() {
            match (name.text(), value.text(), &value.template) {
                (Some(name), _, Some(template)) => {
                    self.open.push(format!("{template} ({name})"));
                }
                (Some(name), Some(text), None) => self.add(name, text),
                _ => {}
            }
        }
    }

    fn add(&mut self, name: &str, value: &str) {
        self.parameters.push((name.to_ascii_lowercase(), value.to_owned()));
    }

    fn add_defaults(&mut self, defaults: &[(&str, &str)]) {
        let own: Vec<(String, String)> = defaults
            .iter()
            .filter(|(name, _)| !self.has(name))
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        self.parameters.splice(..0, own);
    }

    fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|(own, _)| own == name)
    }

    fn has_prefix(&self, prefix: &str) -> bool {
        let is_of =
            |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
        self.parameters.iter().any(|(name, _)| is_of(name))
    }

    fn into_made_by(self, set_in: &'static str, version: Option<String>) -> MadeBy {
        let mut words = vec!["postgres".to_owned(), "-D".to_owned(), DATA.to_owned()];
        for (name, value) in self.parameters {
            words.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        let files = vec![(format!("{DATA}/postgresql.conf"), "".into())];
        MadeBy { words, files, version, set_in, ..MadeBy::default() }
    }
}

const DATA: &str = "/pgdata";

fn list_texts(list: Option<&YamlNode>) -> Vec<String> {
    let items = list.into_iter().flat_map(YamlNode::items);
    items.filter_map(|item| item.text().map(str::to_owned)).collect()
}

fn count_of(node: &YamlNode, key: &str, default: u64) -> u64 {
    node.text_of(key).and_then(|text| text.parse().ok()).unwrap_or(default)
}
