//! What is known of container images: which server they start, and how its settings reach it.

/// How an image starts its server.
#[derive(Debug)]
pub(crate) struct ImageKind {
    /// The end of the repository: `postgres`, `bitnami/postgresql`.
    repositories: &'static [&'static str],
    /// The program that it starts where nothing else is named.
    pub(crate) program: &'static str,
    /// The program's data directory; none where it has no say.
    pub(crate) data: Option<&'static str>,
    /// The variable that names another data directory.
    pub(crate) data_variable: Option<&'static str>,
    /// Files that the image brings or writes at its first start, with what decides in them.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Folders that its configuration is mounted in, where no argument names it.
    pub(crate) config_folders: &'static [&'static str],
    /// Variables whose words its start script hands to the server, in their order.
    pub(crate) option_variables: &'static [&'static str],
    /// It chooses the heap by itself where no variable names one.
    pub(crate) chooses_heap: bool,
}

const PLAIN: ImageKind = ImageKind {
    repositories: &[],
    program: "",
    data: None,
    data_variable: None,
    files: &[],
    config_folders: &[],
    option_variables: &[],
    chooses_heap: false,
};

/// What `initdb` writes where the machine can hold it, and what MySQL's and MariaDB's images bring.
const INITDB: &str = "max_connections = 100\nshared_buffers = 128MB\n";

/// The images' own Dockerfiles and start scripts say all this.
const KINDS: &[ImageKind] = &[
    ImageKind {
        repositories: &["postgres", "postgis/postgis", "pgvector/pgvector", "postgis", "pgvector"],
        program: "postgres",
        data: Some("/var/lib/postgresql/data"),
        data_variable: Some("PGDATA"),
        files: &[("{data}/postgresql.conf", INITDB)],
        ..PLAIN
    },
    ImageKind {
        repositories: &["bitnami/postgresql", "bitnamilegacy/postgresql"],
        program: "postgres",
        data: Some("/bitnami/postgresql/data"),
        data_variable: Some("POSTGRESQL_DATA_DIR"),
        files: &[(
            "{data}/postgresql.conf",
            "max_connections = 100\nshared_buffers = 128MB\ninclude_dir \
             '/opt/bitnami/postgresql/conf/conf.d'\n",
        )],
        config_folders: &["/bitnami/postgresql/conf", "/opt/bitnami/postgresql/conf"],
        option_variables: &["POSTGRESQL_EXTRA_FLAGS"],
        ..PLAIN
    },
    ImageKind {
        repositories: &["mysql", "percona", "percona/percona-server", "mysql/mysql-server"],
        program: "mysqld",
        data: Some("/var/lib/mysql"),
        files: &[
            ("/etc/my.cnf", "!includedir /etc/mysql/conf.d/\n!includedir /etc/my.cnf.d/\n"),
            ("/etc/mysql/conf.d/image.cnf", ""),
            ("/etc/my.cnf.d/image.cnf", ""),
        ],
        config_folders: &["/etc/mysql", "/etc/my.cnf.d", "/etc/my.cnf"],
        ..PLAIN
    },
    ImageKind {
        repositories: &["mariadb", "mariadb/server"],
        program: "mariadbd",
        data: Some("/var/lib/mysql"),
        files: &[
            (
                "/etc/mysql/my.cnf",
                "!includedir /etc/mysql/conf.d/\n!includedir /etc/mysql/mariadb.conf.d/\n",
            ),
            ("/etc/mysql/conf.d/image.cnf", ""),
            ("/etc/mysql/mariadb.conf.d/image.cnf", ""),
        ],
        config_folders: &["/etc/mysql"],
        ..PLAIN
    },
    ImageKind {
        repositories: &["bitnami/mysql", "bitnamilegacy/mysql"],
        program: "mysqld",
        data: Some("/bitnami/mysql/data"),
        files: &[(
            "/opt/bitnami/mysql/conf/my.cnf",
            "!includedir /opt/bitnami/mysql/conf/bitnami/\n",
        )],
        config_folders: &["/opt/bitnami/mysql/conf"],
        option_variables: &["MYSQL_EXTRA_FLAGS"],
        ..PLAIN
    },
    ImageKind {
        repositories: &["bitnami/mariadb", "bitnamilegacy/mariadb"],
        program: "mariadbd",
        data: Some("/bitnami/mariadb/data"),
        files: &[(
            "/opt/bitnami/mariadb/conf/my.cnf",
            "!includedir /opt/bitnami/mariadb/conf/bitnami/\n",
        )],
        config_folders: &["/opt/bitnami/mariadb/conf"],
        option_variables: &["MARIADB_EXTRA_FLAGS"],
        ..PLAIN
    },
    ImageKind {
        repositories: &["mongo", "mongodb/mongodb-community-server", "bitnami/mongodb"],
        program: "mongod",
        data: Some("/data/db"),
        ..PLAIN
    },
    ImageKind {
        repositories: &["redis", "bitnami/redis", "redis/redis-stack-server"],
        program: "redis-server",
        ..PLAIN
    },
    ImageKind {
        repositories: &["valkey", "valkey/valkey", "bitnami/valkey"],
        program: "valkey-server",
        ..PLAIN
    },
    ImageKind {
        repositories: &["elasticsearch/elasticsearch", "elasticsearch", "elasticsearch-oss"],
        program: "java",
        option_variables: &["ES_JAVA_OPTS"],
        chooses_heap: true,
        ..PLAIN
    },
    ImageKind {
        repositories: &["opensearchproject/opensearch", "opensearch"],
        program: "java",
        option_variables: &["OPENSEARCH_JAVA_OPTS"],
        chooses_heap: true,
        ..PLAIN
    },
    ImageKind {
        repositories: &["cassandra"],
        program: "java",
        option_variables: &["JVM_EXTRA_OPTS", "JVM_OPTS"],
        chooses_heap: true,
        ..PLAIN
    },
    ImageKind {
        repositories: &["apache/kafka", "cp-kafka", "bitnami/kafka", "kafka"],
        program: "java",
        option_variables: &["KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_OPTS"],
        chooses_heap: true,
        ..PLAIN
    },
    ImageKind {
        repositories: &["tomcat"],
        program: "java",
        option_variables: &["JAVA_OPTS", "CATALINA_OPTS"],
        ..PLAIN
    },
    ImageKind {
        repositories: &["keycloak/keycloak", "keycloak"],
        program: "java",
        option_variables: &["JAVA_OPTS_KC_HEAP", "JAVA_OPTS", "JAVA_OPTS_APPEND"],
        ..PLAIN
    },
    ImageKind {
        repositories: &["solr"],
        program: "java",
        option_variables: &["SOLR_JAVA_MEM", "GC_TUNE", "SOLR_OPTS"],
        chooses_heap: true,
        ..PLAIN
    },
];

/// Variables by which the start scripts of many Java images take options.
pub(crate) const USUAL_JAVA_VARIABLES: [&str; 3] = ["JAVA_OPTS", "JVM_OPTS", "JAVA_ARGS"];
/// Variables that every Java machine, or its launcher, reads by itself.
pub(crate) const JAVA_VARIABLES: [&str; 3] =
    ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// Images that are a Java machine and whose tags are its releases.
const JDK_IMAGES: [&str; 7] = [
    "eclipse-temurin",
    "openjdk",
    "amazoncorretto",
    "sapmachine",
    "zulu-openjdk",
    "liberica-openjdk-debian",
    "bellsoft-liberica",
];

/// The parts of `registry:5000/library/postgres:16.4-alpine@sha256:...` that matter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ImageName<'a> {
    repository: &'a str,
    tag: Option<&'a str>,
}

impl<'a> ImageName<'a> {
    pub(crate) fn parse(image: &'a str) -> Self {
        let named = image.split('@').next().unwrap_or_default();
        let last = named.rfind('/').map_or(0, |at| at + 1);
        let colon = named.get(last..).and_then(|name| name.find(':')).map(|at| last + at);
        match colon {
            Some(colon) => Self {
                repository: named.get(..colon).unwrap_or_default(),
                tag: named.get(colon + 1..),
            },
            None => Self { repository: named, tag: None },
        }
    }

    /// The kind of the image, the longest end of its name first.
    pub(crate) fn find_kind(&self) -> Option<&'static ImageKind> {
        let ends = |end: &&&str| {
            let before = self.repository.strip_suffix(**end);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        let length =
            |kind: &&ImageKind| kind.repositories.iter().filter(ends).map(|end| end.len()).max();
        KINDS.iter().filter(|kind| length(kind).is_some()).max_by_key(length)
    }

    /// The release of its Java machine, where the tag tells: `21` of `eclipse-temurin:21-jre`, `17`
    /// of `tomcat:10.1-jdk17-temurin`.
    pub(crate) fn java_release(&self) -> Option<String> {
        let name = self.repository.rsplit('/').next().unwrap_or_default();
        if JDK_IMAGES.contains(&name) {
            return self.version();
        }
        self.tag?.split(['-', '_']).find_map(|part| {
            let release = ["jdk", "jre", "java"].iter().find_map(|word| part.strip_prefix(word))?;
            let is_number = release.bytes().all(|digit| digit.is_ascii_digit());
            (is_number && !release.is_empty()).then(|| release.to_owned())
        })
    }

    /// The version that the tag begins with: `16.4` of `16.4-alpine`, `8u442` of `8u442-jre`.
    pub(crate) fn version(&self) -> Option<String> {
        let tag = self.tag?.trim_start_matches('v');
        let is_part = |sign: char| sign.is_ascii_digit() || sign == '.' || sign == 'u';
        let end = tag.find(|sign| !is_part(sign)).unwrap_or(tag.len());
        let version = tag.get(..end)?.trim_end_matches(['.', 'u']);
        version.starts_with(|sign: char| sign.is_ascii_digit()).then(|| version.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_the_end_of_their_names() {
        let of = |image: &'static str| {
            let name = ImageName::parse(image);
            (name.find_kind().map(|kind| kind.program), name.version())
        };
        let known = |program: &'static str, version: &str| {
            (Some(program), Some(version.to_owned()).filter(|version| !version.is_empty()))
        };
        assert_eq!(of("postgres:16.4-alpine"), known("postgres", "16.4"));
        assert_eq!(of("registry:5000/library/postgres:17"), known("postgres", "17"));
        assert_eq!(
            of("docker.io/bitnami/postgresql:16.3.0-debian-12-r1"),
            known("postgres", "16.3.0")
        );
        assert_eq!(of("postgres@sha256:0123"), known("postgres", ""));
        assert_eq!(of("postgres:latest"), known("postgres", ""));
        assert_eq!(of("mariadb:11.8"), known("mariadbd", "11.8"));
        assert_eq!(of("quay.io/keycloak/keycloak:26.0"), known("java", "26.0"));
        assert_eq!(of("nginx:1.27"), (None, Some("1.27".into())));
        assert_eq!(of("mypostgres:16"), (None, Some("16".into())));
        let java = |image: &'static str| ImageName::parse(image).java_release();
        assert_eq!(java("eclipse-temurin:8u442-b06-jre").as_deref(), Some("8u442"));
        assert_eq!(java("tomcat:10.1-jdk17-temurin").as_deref(), Some("17"));
        assert_eq!(java("shop/app:3.1"), None);
    }
}
