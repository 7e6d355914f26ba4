//! Pods of a manifest: those that it has, and those that its templates make.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::config_maps::{ConfigMaps, Lookup};
use crate::resources::ContainerResources;
use crate::yaml::YamlNode;

/// What makes pods.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) line: u64,
    /// Pods of it that may run on one node at once.
    pub(crate) pods_per_node: u64,
    pub(crate) containers: Vec<ContainerSpec>,
    pub(crate) volumes: Vec<HugePageVolume>,
    /// Groups that its processes have, by `securityContext`.
    pub(crate) groups: Vec<u64>,
    /// The template that says how many pods there are, with its line.
    pub(crate) open_count: Option<(u64, String)>,
}

/// An `emptyDir` whose medium is huge pages.
#[derive(Debug)]
pub(crate) struct HugePageVolume {
    pub(crate) name: String,
    /// The scalar `HugePages` or `HugePages-2Mi`.
    pub(crate) medium: Rc<YamlNode>,
}

/// A container as the manifest has it.
#[derive(Debug)]
pub(crate) struct ContainerSpec {
    pub(crate) name: String,
    pub(crate) line: u64,
    pub(crate) is_init: bool,
    pub(crate) image: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, EnvValue>,
    /// Sources of the environment that are not in the manifest.
    pub(crate) missing_env: Vec<String>,
    /// Mounted files, by path.
    pub(crate) files: BTreeMap<String, MountedFile>,
    /// Folders that are mounted from what is not in the manifest, by path.
    pub(crate) missing_mounts: BTreeMap<String, String>,
    pub(crate) hugetlbfs_mounts: Vec<String>,
    pub(crate) resources: ContainerResources,
    pub(crate) has_ipc_lock: bool,
    /// Templates in what decides how it starts.
    pub(crate) open: Vec<String>,
    /// What an operator that makes this container does, as it changes what the manifest says.
    pub(crate) made_by: Option<MadeBy>,
}

/// How an operator starts the server of a container that it makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeBy {
    /// The server's program and arguments, as the operator runs it.
    pub(crate) words: Vec<String>,
    /// Files that the operator writes.
    pub(crate) files: Vec<(String, Rc<str>)>,
    pub(crate) version: Option<String>,
    pub(crate) notes: Vec<String>,
    /// What it chooses by itself, which matters where the server asks for huge pages.
    pub(crate) questions: Vec<String>,
    /// Where the manifest has the settings that the operator puts into the arguments.
    pub(crate) set_in: &'static str,
    /// The container's resources are in no place that this manifest has.
    pub(crate) is_elsewhere: bool,
}

/// What a variable of the environment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnvValue {
    /// As written: references such as `$(NAME)` are in it.
    Known(Rc<str>),
    /// It comes from this, which is not in the manifest.
    Missing(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MountedFile {
    Text(Rc<str>),
    /// A template writes it, or a part of it.
    Open(String),
}

/// All documents, `List`s taken apart.
pub(crate) fn list_objects(documents: &[Rc<YamlNode>]) -> Vec<Rc<YamlNode>> {
    let mut objects = Vec::new();
    for document in documents {
        let kind = document.text_of("kind").unwrap_or_default();
        match document.get("items").filter(|_| kind.ends_with("List")) {
            Some(items) => objects.extend(items.items().cloned()),
            None => objects.push(Rc::clone(document)),
        }
    }
    objects
}

/// The workload that an object of Kubernetes itself makes.
pub(crate) fn read_workload(object: &Rc<YamlNode>, maps: &ConfigMaps) -> Option<Workload> {
    let kind = object.text_of("kind")?;
    let spec = object.get("spec")?;
    let pod = match kind {
        "Pod" => spec,
        "StatefulSet"
        | "Deployment"
        | "ReplicaSet"
        | "DaemonSet"
        | "Job"
        | "ReplicationController" => spec.get("template")?.get("spec")?,
        "CronJob" => spec.get("jobTemplate")?.get("spec")?.get("template")?.get("spec")?,
        _ => return None,
    };
    let count = |name: &str| spec.text_of(name).and_then(|text| text.parse::<u64>().ok());
    let replicas = match kind {
        "Pod" | "DaemonSet" => 1,
        "Job" => count("parallelism").unwrap_or(1),
        "CronJob" => {
            let job = spec.get("jobTemplate").and_then(|job| job.get("spec"));
            let parallel = job.and_then(|job| job.text_of("parallelism")?.parse().ok());
            parallel.unwrap_or(1)
        }
        _ => count("replicas").unwrap_or(1),
    };
    let open =
        ["replicas", "parallelism"].into_iter().filter_map(|key| spec.get(key)).find_map(|count| {
            Some((count.line, format!("how many pods: {}", count.template.as_ref()?)))
        });
    let (name, namespace) = names_of(object);
    let mut workload = read_pod(pod, &namespace, maps);
    workload.open_count = open;
    workload.pods_per_node = if is_alone_on_its_node(pod) { replicas.min(1) } else { replicas };
    Some(Workload { kind: kind.to_owned(), name, namespace, line: object.line, ..workload })
}

/// Name and namespace of an object.
pub(crate) fn names_of(object: &YamlNode) -> (String, String) {
    let metadata = object.get("metadata");
    let of = |key: &str| metadata.and_then(|metadata| metadata.text_of(key));
    let name = of("name").or_else(|| of("generateName")).unwrap_or("without a name");
    (name.to_owned(), of("namespace").unwrap_or("default").to_owned())
}

fn read_pod(pod: &Rc<YamlNode>, namespace: &str, maps: &ConfigMaps) -> Workload {
    let security = pod.get("securityContext");
    let number = |node: &YamlNode| node.text().and_then(|text| text.parse().ok());
    let of = |key: &str| security.and_then(|security| security.get(key));
    let supplemental = of("supplementalGroups").into_iter().flat_map(|groups| groups.items());
    let single = ["fsGroup", "runAsGroup"].into_iter().filter_map(of);
    let groups = supplemental.chain(single).filter_map(|node| number(node)).collect();
    let volumes: Vec<&Rc<YamlNode>> =
        pod.get("volumes").into_iter().flat_map(|volumes| volumes.items()).collect();
    let reader = ContainerReader { volumes: &volumes, namespace, maps };
    let list = |key: &str, is_init: bool| {
        let containers = pod.get(key).into_iter().flat_map(|list| list.items());
        containers.map(|one| reader.read_container(one, is_init)).collect::<Vec<_>>()
    };
    let mut containers = list("initContainers", true);
    containers.extend(list("containers", false));
    let huge = volumes.iter().filter_map(|volume| {
        let medium = volume.value_at_path(&["emptyDir"])?.get("medium")?;
        let is_huge = medium.text()?.starts_with("HugePages");
        let name = volume.text_of("name")?.to_owned();
        is_huge.then(|| HugePageVolume { name, medium: Rc::clone(medium) })
    });
    Workload {
        kind: String::new(),
        name: String::new(),
        namespace: String::new(),
        line: pod.line,
        pods_per_node: 1,
        containers,
        volumes: huge.collect(),
        groups,
        open_count: None,
    }
}

/// Whether no two of a workload's pods may share a node.
fn is_alone_on_its_node(pod: &YamlNode) -> bool {
    const HARD: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = pod.value_at_path(&["affinity", "podAntiAffinity", HARD]);
    let mut terms = terms.into_iter().flat_map(YamlNode::items);
    terms.any(|term| term.text_of("topologyKey") == Some("kubernetes.io/hostname"))
}

struct ContainerReader<'a> {
    volumes: &'a [&'a Rc<YamlNode>],
    namespace: &'a str,
    maps: &'a ConfigMaps,
}

impl ContainerReader<'_> {
    fn read_container(&self, node: &Rc<YamlNode>, is_init: bool) -> ContainerSpec {
        let mut open = Vec::new();
        let mut words = |key: &str| {
            let items = node.get(key).into_iter().flat_map(|list| list.items());
            let items = items.map(|item| {
                open.extend(item.template.clone());
                item.text().unwrap_or_default().to_owned()
            });
            items.collect::<Vec<_>>()
        };
        let (command, args) = (words("command"), words("args"));
        for key in ["image", "command", "args"] {
            open.extend(node.get(key).and_then(|value| value.template.clone()));
        }
        let add = node.value_at_path(&["securityContext", "capabilities", "add"]);
        let mut added = add.into_iter().flat_map(YamlNode::items).filter_map(|one| one.text());
        let has_ipc_lock = added.any(|name| ["IPC_LOCK", "CAP_IPC_LOCK", "ALL"].contains(&name));
        // A sidecar stays beside the others.
        let is_sidecar = node.text_of("restartPolicy") == Some("Always");
        let mut container = ContainerSpec {
            is_init: is_init && !is_sidecar,
            image: node.text_of("image").map(str::to_owned),
            command,
            args,
            has_ipc_lock,
            open,
            ..ContainerSpec::new(node.text_of("name").unwrap_or("without a name"), node)
        };
        self.read_env_sources(node, &mut container);
        self.read_env(node, &mut container);
        self.read_mounts(node, &mut container);
        container
    }

    fn read_env_sources(&self, node: &YamlNode, container: &mut ContainerSpec) {
        for source in node.get("envFrom").into_iter().flat_map(|list| list.items()) {
            let prefix = source.text_of("prefix").unwrap_or_default();
            for (key, kind) in [("configMapRef", "ConfigMap"), ("secretRef", "Secret")] {
                let Some(reference) = source.get(key) else { continue };
                let name = reference.text_of("name").unwrap_or_default();
                match self.maps.find(kind, self.namespace, name) {
                    Some(map) => container.env.extend(map.iter().map(|(name, value)| {
                        let value = match value {
                            MountedFile::Text(text) => EnvValue::Known(Rc::clone(text)),
                            MountedFile::Open(template) => EnvValue::Missing(template.clone()),
                        };
                        (format!("{prefix}{name}"), value)
                    })),
                    None => container.missing_env.push(format!("{kind} {name} (envFrom)")),
                }
            }
        }
    }

    fn read_env(&self, node: &YamlNode, container: &mut ContainerSpec) {
        for variable in node.get("env").into_iter().flat_map(|list| list.items()) {
            let Some(name) = variable.text_of("name") else { continue };
            let value = match (variable.get("value"), variable.get("valueFrom")) {
                (Some(value), _) => match &value.template {
                    Some(template) => EnvValue::Missing(template.clone()),
                    None => EnvValue::Known(value.text().unwrap_or_default().into()),
                },
                (None, Some(from)) => self.value_from(from, container),
                (None, None) => EnvValue::Known("".into()),
            };
            container.env.insert(name.to_owned(), value);
        }
    }

    fn value_from(&self, from: &YamlNode, container: &ContainerSpec) -> EnvValue {
        for (key, kind) in [("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")] {
            let Some(reference) = from.get(key) else { continue };
            let name = reference.text_of("name").unwrap_or_default();
            let wanted = reference.text_of("key").unwrap_or_default();
            return match self.maps.find_key(kind, self.namespace, name, wanted) {
                Lookup::Found(MountedFile::Text(text)) => EnvValue::Known(text.clone()),
                Lookup::Found(MountedFile::Open(template)) => EnvValue::Missing(template.clone()),
                Lookup::Missing => EnvValue::Missing(format!("{kind} {name}, key {wanted}")),
            };
        }
        if let Some(field) = from.get("resourceFieldRef") {
            return container_field(field, container);
        }
        let field = from.value_at_path(&["fieldRef"]).and_then(|field| field.text_of("fieldPath"));
        EnvValue::Missing(format!("the pod's field {}", field.unwrap_or("without a name")))
    }

    fn read_mounts(&self, node: &YamlNode, container: &mut ContainerSpec) {
        for mount in node.get("volumeMounts").into_iter().flat_map(|list| list.items()) {
            let (Some(name), Some(path)) = (mount.text_of("name"), mount.text_of("mountPath"))
            else {
                continue;
            };
            let path = path.trim_end_matches('/');
            let Some(volume) =
                self.volumes.iter().find(|volume| volume.text_of("name") == Some(name))
            else {
                continue;
            };
            let medium = volume.value_at_path(&["emptyDir"]).and_then(|dir| dir.text_of("medium"));
            if medium.is_some_and(|medium| medium.starts_with("HugePages")) {
                container.hugetlbfs_mounts.push(path.to_owned());
            }
            let sub_path = mount.text_of("subPath");
            self.mount_volume(volume, path, sub_path, container);
        }
    }

    fn mount_volume(
        &self,
        volume: &YamlNode,
        path: &str,
        sub_path: Option<&str>,
        container: &mut ContainerSpec,
    ) {
        let projected = volume.value_at_path(&["projected", "sources"]);
        let sources = projected.into_iter().flat_map(YamlNode::items).map(AsRef::as_ref);
        let kinds = [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("secret", "Secret", "name"),
        ];
        for source in std::iter::once(volume).chain(sources) {
            for (key, kind, name_key) in kinds {
                let Some(reference) = source.get(key) else { continue };
                let Some(name) = reference.text_of(name_key) else { continue };
                let Some(map) = self.maps.find(kind, self.namespace, name) else {
                    container.missing_mounts.insert(path.to_owned(), format!("{kind} {name}"));
                    continue;
                };
                for (file, text) in chosen_files(map, reference) {
                    let place = match sub_path {
                        None => format!("{path}/{file}"),
                        Some(sub_path) if sub_path == file => path.to_owned(),
                        Some(_) => continue,
                    };
                    container.files.insert(place, text.clone());
                }
            }
        }
    }
}

/// The keys of a map as files: all, or those of `items` under other names.
fn chosen_files<'a>(
    map: &'a BTreeMap<String, MountedFile>,
    reference: &YamlNode,
) -> Vec<(String, &'a MountedFile)> {
    match reference.get("items") {
        None => map.iter().map(|(key, text)| (key.clone(), text)).collect(),
        Some(items) => {
            let chosen = items.items().filter_map(|item| {
                let text = map.get(item.text_of("key")?)?;
                Some((item.text_of("path")?.to_owned(), text))
            });
            chosen.collect()
        }
    }
}

/// `limits.memory` and the like in whole divisors, rounded up.
fn container_field(field: &YamlNode, container: &ContainerSpec) -> EnvValue {
    let resource = field.text_of("resource").unwrap_or_default();
    let (side, name) = resource.split_once('.').unwrap_or(("", resource));
    let side = match side {
        "limits" => &container.resources.limits,
        _ => &container.resources.requests,
    };
    let divisor = field.text_of("divisor").and_then(crate::quantity::Quantity::parse);
    let divisor = divisor.map_or(1, |divisor| divisor.round_up()).max(1);
    match side.get(name) {
        Some(amount) => {
            let count = amount.amount.round_up().div_ceil(divisor);
            EnvValue::Known(count.to_string().into())
        }
        None => EnvValue::Missing(format!("{resource}, which the node decides")),
    }
}

impl ContainerSpec {
    /// A container whose resources are in `place`, and nothing else of it yet.
    pub(crate) fn new(name: &str, place: &Rc<YamlNode>) -> Self {
        Self {
            name: name.to_owned(),
            line: place.line,
            is_init: false,
            image: None,
            command: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            missing_env: Vec::new(),
            files: BTreeMap::new(),
            missing_mounts: BTreeMap::new(),
            hugetlbfs_mounts: Vec::new(),
            resources: ContainerResources::read(place),
            has_ipc_lock: false,
            open: Vec::new(),
            made_by: None,
        }
    }

    /// What a variable holds, as the container sees it. An `Err` names what is missing.
    pub(crate) fn env_value(&self, name: &str) -> Option<Result<String, String>> {
        match self.env.get(name)? {
            EnvValue::Known(text) => Some(Ok(self.expand_references(text))),
            EnvValue::Missing(what) => Some(Err(format!("{what}, for the variable {name}"))),
        }
    }

    /// `$(NAME)` where that variable is known, `$$(NAME)` as `$(NAME)`; anything else stays.
    pub(crate) fn expand_references(&self, text: &str) -> String {
        let mut expanded = String::new();
        self.expand_into(text, &mut { MOST_REFERENCES }, DEEPEST_REFERENCE, &mut expanded);
        expanded
    }

    fn expand_into(&self, text: &str, budget: &mut usize, depth: usize, expanded: &mut String) {
        let mut rest = text;
        let has_room =
            |budget: usize, expanded: &str| budget > 0 && expanded.len() <= LONGEST_EXPANSION;
        while let Some(at) = rest.find('$').filter(|_| has_room(*budget, expanded)) {
            *budget -= 1;
            let (before, from) = rest.split_at(at);
            expanded.push_str(before);
            let name = from.strip_prefix("$(").and_then(|inner| inner.split_once(')'));
            let value = name.and_then(|(name, after)| Some((self.env.get(name)?, after)));
            match (from.strip_prefix("$$"), value) {
                (Some(escaped), _) => {
                    expanded.push('$');
                    rest = escaped;
                }
                (None, Some((EnvValue::Known(value), after))) if depth > 0 => {
                    self.expand_into(value, budget, depth - 1, expanded);
                    rest = after;
                }
                _ => {
                    expanded.push('$');
                    rest = from.get(1..).unwrap_or_default();
                }
            }
        }
        expanded.push_str(rest);
    }
}

/// Variables that refer to variables could grow without end.
const LONGEST_EXPANSION: usize = 128 << 10;
const MOST_REFERENCES: usize = 10_000;
const DEEPEST_REFERENCE: usize = 8;
