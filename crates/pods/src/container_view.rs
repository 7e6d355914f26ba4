//! The machine that a container takes itself to be on, and what an engine makes of it.
//!
//! Nothing here knows what a server needs: a source is made of the container's command line, files
//! and limits, and the engines read it as they read a host.

use hugewise_engines::describe::describe_command_line;
use hugewise_host::Source;
use hugewise_host::source::MapSource;
use hugewise_model::{Engine, Instance, PageSize};

use crate::images::ImageKind;
use crate::node::NodeFacts;
use crate::start::{ServerStart, file_name};
use crate::workload::{ContainerSpec, MountedFile};

/// The pid that the server has in its view.
const SERVER: u32 = 7;
/// A mounted file of more bytes is not read; none that sets anything is as large.
const LARGEST_FILE: usize = 256 << 10;

/// A server as its engine describes it.
pub(crate) struct ViewedServer {
    pub(crate) instance: Instance,
    /// Files that the server reads and the manifest lacks, or that no engine understands.
    pub(crate) unread: Vec<String>,
}

/// What the engine says of a container's server.
pub(crate) fn view_server(
    container: &ContainerSpec,
    start: &ServerStart,
    node: Option<&NodeFacts>,
) -> Option<ViewedServer> {
    let mut view = ContainerView { source: MapSource::new(), missing: Vec::new() };
    view.add_machine(container, node);
    view.add_files(container, start);
    if start.engine == Engine::Jvm {
        view.add_java_release(start);
        return view.describe_java(start);
    }
    view.add_process(container, start);
    let (_, mut found) = hugewise_engines::read_host_and_instances(&view.source);
    let at = found.instances.iter().position(|instance| instance.pid == SERVER)?;
    let instance = found.instances.swap_remove(at);
    let mut unread: Vec<String> = Vec::new();
    for one in found.unread {
        // The view has no more than what decides.
        if view.missing.iter().any(|(path, _)| one.what.starts_with(path.as_str())) {
            continue;
        }
        let is_config = [".conf", ".cnf", ".ini"].iter().any(|end| one.what.contains(end));
        if is_config {
            unread.push(format!("{}: {}", one.what, one.why));
        }
    }
    unread.extend(view.missing.into_iter().map(|(path, what)| format!("{what} ({path})")));
    Some(ViewedServer { instance, unread })
}

struct ContainerView {
    source: MapSource,
    /// Paths that the server reads and the manifest lacks, with where they come from.
    missing: Vec<(String, String)>,
}

impl ContainerView {
    fn edit(&mut self, change: impl FnOnce(MapSource) -> MapSource) {
        self.source = change(std::mem::take(&mut self.source));
    }

    fn add_file(&mut self, path: &str, text: impl AsRef<[u8]>) {
        self.edit(|source| source.with_file(path, text));
    }

    /// Memory and processors are those of its limits, or the node's.
    fn add_machine(&mut self, container: &ContainerSpec, node: Option<&NodeFacts>) {
        let resources = &container.resources;
        let node_memory = node.and_then(|node| node.memory).map(|memory| memory.get());
        let memory = match (resources.memory_limit(), node_memory) {
            (Some(limit), Some(all)) => Some(limit.min(all)),
            (limit, all) => limit.or(all),
        };
        let mut sizes: Vec<PageSize> = resources.page_sizes().into_iter().collect();
        sizes.push(PageSize::MIB_2);
        let default = node.and_then(|node| node.default_page).unwrap_or(PageSize::MIB_2);
        let total =
            memory.map_or(String::new(), |memory| format!("MemTotal: {} kB\n", memory >> 10));
        let meminfo = format!(
            "{total}HugePages_Total: 1\nHugePages_Free: 1\nHugePages_Rsvd: 0\nHugePages_Surp: 0\n\
             Hugepagesize: {} kB\n",
            default.bytes().get() >> 10
        );
        self.add_file("/proc/meminfo", meminfo);
        for size in sizes {
            let folder =
                format!("/sys/kernel/mm/hugepages/hugepages-{}kB", size.bytes().get() >> 10);
            for (name, count) in [
                ("nr_hugepages", "1"),
                ("free_hugepages", "1"),
                ("resv_hugepages", "0"),
                ("surplus_hugepages", "0"),
                ("nr_overcommit_hugepages", "0"),
            ] {
                self.add_file(&format!("{folder}/{name}"), count);
            }
        }
        let processors = match (resources.cpu_limit(), node.and_then(|node| node.processors)) {
            (Some(limit), Some(all)) => Some(limit.min(all)),
            (limit, all) => limit.or(all),
        };
        if let Some(count) = processors.filter(|count| *count > 0) {
            let list = if count == 1 { "0".to_owned() } else { format!("0-{}", count - 1) };
            self.add_file("/sys/devices/system/cpu/online", list);
        }
    }

    fn add_files(&mut self, container: &ContainerSpec, start: &ServerStart) {
        let data = data_folder(container, start);
        for (path, text) in start.kind.map_or(&[][..], |kind| kind.files) {
            let path = path.replace("{data}", data.as_deref().unwrap_or_default());
            self.add_file(&path, format!("{text}{}", initdb_settings(container)));
        }
        for (path, text) in container.made_by.iter().flat_map(|made| &made.files) {
            self.add_file(path, text.as_bytes());
        }
        if let Some((data, version)) = data.as_ref().zip(start.version.as_ref()) {
            let (file, text) = version_file(start.engine, version);
            self.add_file(&format!("{data}/{file}"), text);
        }
        for (path, file) in &container.files {
            match file {
                MountedFile::Text(text) if text.len() <= LARGEST_FILE => {
                    self.add_file(path, text.as_bytes());
                }
                MountedFile::Text(_) => self.add_missing(path, "a file too large to be read"),
                MountedFile::Open(template) => self.add_missing(path, template),
            }
        }
        for (path, what) in &container.missing_mounts {
            if is_read_by_server(path, container, start) {
                self.add_missing(path, what);
            }
        }
        self.add_named_files(container, start);
    }

    fn add_missing(&mut self, path: &str, what: &str) {
        self.edit(|source| source.with_malformed(path, what));
        self.missing.push((path.to_owned(), what.to_owned()));
    }

    /// A configuration file that the command line names has to be somewhere.
    fn add_named_files(&mut self, container: &ContainerSpec, start: &ServerStart) {
        const OPTIONS: [&str; 4] =
            ["config_file=", "--config=", "--defaults-file=", "--defaults-extra-file="];
        let named = start.words.iter().filter_map(|word| {
            OPTIONS.iter().find_map(|option| Some(word.split_once(option)?.1.to_owned()))
        });
        for path in named.filter(|path| path.starts_with('/')).collect::<Vec<_>>() {
            let is_known = self.source.read(&path).is_known()
                || self.missing.iter().any(|(known, _)| path.starts_with(known.as_str()));
            if !is_known {
                let image = container.image.as_deref().unwrap_or("without a name");
                self.add_missing(&path, &format!("a file of the image {image}"));
            }
        }
    }

    /// The server's process, before it has mapped anything.
    fn add_process(&mut self, container: &ContainerSpec, start: &ServerStart) {
        let program = start.words.first().map_or("", |word| file_name(word)).to_owned();
        let folder = format!("/proc/{SERVER}");
        let status = format!(
            "Name:\t{program}\nState:\tS (sleeping)\nPPid:\t1\nUid:\t999\t999\t999\t999\n\
             Gid:\t999\t999\t999\t999\nGroups:\t\nVmSize:\t1 kB\nHugetlbPages:\t0 kB\n\
             CapEff:\t0000000000000000\n"
        );
        self.add_file(&format!("{folder}/status"), status);
        let mut command = start.words.join("\0");
        command.push('\0');
        self.add_file(&format!("{folder}/cmdline"), command);
        self.add_file(&format!("{folder}/maps"), "");
        self.add_file(&format!("{folder}/limits"), "");
        let data = data_folder(container, start).unwrap_or_else(|| "/".to_owned());
        self.edit(|source| {
            source
                .with_link(&format!("{folder}/exe"), &format!("/usr/bin/{program}"))
                .with_link(&format!("{folder}/cwd"), &data)
                .with_link(&format!("{folder}/root"), "/")
        });
    }

    fn add_java_release(&mut self, start: &ServerStart) {
        let Some(version) = &start.version else { return };
        // 8u442 calls itself 1.8.0_442.
        let version = match version.split_once('u') {
            Some(("8", update)) => format!("1.8.0_{update}"),
            _ => version.clone(),
        };
        let program = start.words.first().map_or("java", String::as_str);
        let home = program.rsplit_once("/bin/").map_or("/usr", |(home, _)| home).to_owned();
        self.add_file(&format!("{home}/release"), format!("JAVA_VERSION=\"{version}\"\n"));
    }

    fn describe_java(self, start: &ServerStart) -> Option<ViewedServer> {
        let host = hugewise_host::read(&self.source);
        let described = describe_command_line(&host, &self.source, start.words.clone())?;
        let unread = self.missing.into_iter().map(|(path, what)| format!("{what} ({path})"));
        let mut unread: Vec<String> = unread.collect();
        unread.extend(described.unread.iter().map(|one| format!("{}: {}", one.what, one.why)));
        Some(ViewedServer { instance: described.instance, unread })
    }
}

/// What `POSTGRES_INITDB_ARGS` has initdb write (`-c NAME=VALUE`, `--set NAME=VALUE` since 16).
fn initdb_settings(container: &ContainerSpec) -> String {
    let given = container.env_value("POSTGRES_INITDB_ARGS").and_then(Result::ok);
    let given = given.unwrap_or_default();
    let words: Vec<&str> = given.split_whitespace().collect();
    let behind = words.windows(2).filter_map(|pair| match pair {
        ["-c" | "--set", assignment] => Some(*assignment),
        _ => None,
    });
    let glued = words.iter().filter_map(|word| word.strip_prefix("--set="));
    let assignments = behind.chain(glued).filter_map(|assignment| assignment.split_once('='));
    assignments.map(|(name, value)| format!("{name} = '{value}'\n")).collect()
}

/// The server's data directory, by its words, its environment or its image.
fn data_folder(container: &ContainerSpec, start: &ServerStart) -> Option<String> {
    let words = &start.words;
    let behind = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1).cloned()
    };
    let glued =
        |option: &str| words.iter().find_map(|word| word.strip_prefix(option)).map(str::to_owned);
    let by_words = match start.engine {
        Engine::PostgreSql => {
            behind("-D").or_else(|| glued("-D").filter(|folder| !folder.is_empty()))
        }
        Engine::MySql | Engine::MariaDb => glued("--datadir=").or_else(|| behind("--datadir")),
        _ => None,
    };
    let variable = |kind: &ImageKind| container.env_value(kind.data_variable?)?.ok();
    let of_image = |kind: &ImageKind| variable(kind).or_else(|| kind.data.map(str::to_owned));
    let of_image = by_words.or_else(|| start.kind.and_then(of_image));
    let usual = || match start.engine {
        Engine::PostgreSql => Some("/var/lib/postgresql/data".to_owned()),
        Engine::MySql | Engine::MariaDb => Some("/var/lib/mysql".to_owned()),
        _ => None,
    };
    let folder = of_image.or_else(usual)?;
    folder.starts_with('/').then(|| folder.trim_end_matches('/').to_owned())
}

/// The file that tells an engine its version: as the servers write it.
fn version_file(engine: Engine, version: &str) -> (&'static str, String) {
    match engine {
        Engine::PostgreSql => {
            let major = version.split('.').next().unwrap_or_default();
            ("PG_VERSION", format!("{major}\n"))
        }
        Engine::MariaDb => ("mysql_upgrade_info", format!("{}-MariaDB\n", three_parts(version))),
        _ => ("mysql_upgrade_info", format!("{}\n", three_parts(version))),
    }
}

/// `8.4.0` of `8.4`: the first of the series, as the tag names no other.
fn three_parts(version: &str) -> String {
    let missing = 2_usize.saturating_sub(version.matches('.').count());
    format!("{version}{}", ".0".repeat(missing))
}

/// Whether a server reads what is mounted at a path: its words name it, or its image does.
fn is_read_by_server(path: &str, container: &ContainerSpec, start: &ServerStart) -> bool {
    let within = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let folders = start.kind.map_or(&[][..], |kind| kind.config_folders);
    let data = data_folder(container, start);
    let conf = data.map(|data| format!("{data}/postgresql.conf"));
    start.words.iter().any(|word| word.contains(path))
        || folders.iter().any(|folder| within(folder, path) || within(path, folder))
        || conf.is_some_and(|conf| conf == path)
}
