#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]
//! One gathering asks the machine for each file of its configuration once.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hugewise_model::configuration::WrittenPool;
use hugewise_model::process::CgroupMembership;
use hugewise_model::{Observed, Process};

use hugewise_host::config::{scripts, services, systemd};
use hugewise_host::source::{
    FilePart, FileRequest, MachineFacts, MapSource, MemoizedSource, Owner, ProcessSource,
    RawSource, RecordingSource,
};
use hugewise_host::{FactReader, Source};

/// Counts what a source is asked for, by question and path.
struct Counting<'a> {
    source: &'a dyn Source,
    asked: RefCell<BTreeMap<(&'static str, String), u32>>,
}

impl<'a> Counting<'a> {
    fn new(source: &'a dyn Source) -> Self {
        Self { source, asked: RefCell::default() }
    }

    fn count(&self, question: &'static str, path: &str) {
        *self.asked.borrow_mut().entry((question, path.to_owned())).or_default() += 1;
    }

    /// Whatever was asked for more often than once.
    fn doubles(&self) -> Vec<(&'static str, String, u32)> {
        let asked = self.asked.borrow();
        asked
            .iter()
            .filter(|(_, count)| **count > 1)
            .map(|((what, path), count)| (*what, path.clone(), *count))
            .collect()
    }

    fn has_asked(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        self.asked
            .borrow()
            .keys()
            .filter(|(_, path)| wanted(path))
            .map(|(_, path)| path.clone())
            .collect()
    }
}

impl RawSource for Counting<'_> {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        self.count(if request.is_glance { "glance" } else { "content" }, request.path);
        self.source.read_file(request)
    }

    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        self.count("names", folder);
        self.source.folder_names(folder, reader, most)
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        self.count("link", path);
        self.source.link_target(path, reader)
    }

    fn processes(&self) -> &dyn ProcessSource {
        self.source.processes()
    }

    fn machine_facts(&self) -> MachineFacts {
        self.source.machine_facts()
    }
}

const UNITS: &str = "/usr/lib/systemd/system";

/// A merged /usr, a server of a package that the boot starts and that runs, one of people's own
/// that does not, and a service that writes a pool.
fn host() -> MapSource {
    let file = |command: &str| {
        format!("[Service]\nUser=db\nExecStart={command}\n[Install]\nWantedBy=a.target\n")
    };
    MapSource::new()
        .with_link("/lib", "usr/lib")
        .with_folder("/run/systemd/generator")
        .with_file(&format!("{UNITS}/mariadb.service"), file("/usr/sbin/mariadbd"))
        .with_file(
            &format!("{UNITS}/mariadb.service.d/limits.conf"),
            "[Service]\nLimitMEMLOCK=infinity\n",
        )
        .with_file(&format!("{UNITS}/ssh.service"), file("/usr/sbin/sshd"))
        .with_file("/etc/systemd/system/own.service", file("/opt/bin/postgres -D /d"))
        .with_file(
            "/etc/systemd/system/pool.service",
            "[Service]\nExecStart=/bin/sh -c 'echo 8 > /proc/sys/vm/nr_hugepages'\n",
        )
        .with_link("/etc/systemd/system/mysql.service", &format!("{UNITS}/mariadb.service"))
        .with_link(
            "/etc/systemd/system/a.target.wants/mariadb.service",
            &format!("{UNITS}/mariadb.service"),
        )
        .with_link(
            "/etc/systemd/system/a.target.wants/ssh.service",
            &format!("{UNITS}/ssh.service"),
        )
        .with_link(
            "/etc/systemd/system/a.target.wants/pool.service",
            "/etc/systemd/system/pool.service",
        )
}

/// A process of mariadb's unit.
fn process() -> Process {
    let membership = CgroupMembership {
        hierarchy: 0,
        controllers: Vec::new(),
        path: "/system.slice/mariadb.service".to_owned(),
    };
    Process {
        pid: 7,
        cgroups: Observed::Known([membership].into_iter().collect()),
        ..Process::default()
    }
}

/// What the three readers of units find.
fn gathered(
    source: &dyn Source,
) -> (
    Vec<WrittenPool>,
    Vec<hugewise_model::configuration::ServiceUnit>,
    Vec<services::ServiceDefinition>,
) {
    let mut door = FactReader::new(source);
    let writers = scripts::read(&mut door).pools.into_iter().map(|writer| writer.pool).collect();
    let units = systemd::read_units(&mut door, [&process()]);
    let ours = |words: &[String]| words.first().is_some_and(|first| first.ends_with("/postgres"));
    let services =
        services::read_services(&mut door, &|name| name.starts_with("mariadb"), &ours, &|_| false);
    (writers, units, services)
}

#[test]
fn whoever_reads_units_has_each_file_and_folder_asked_for_once() {
    let host = host();
    let counting = Counting::new(&host);
    let found = gathered(&MemoizedSource::new(&counting));
    assert_eq!(found, gathered(&host), "it changes nothing of what is found");
    let (writers, units, services) = found;
    assert_eq!(writers, [WrittenPool::Default]);
    assert_eq!(units[0].files.len(), 2);
    let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["mariadb.service", "own.service"]);
    assert_eq!(counting.doubles(), []);
    // What the names of a folder do not show is not looked for, nor anything by another name of its
    // folder.
    assert_eq!(counting.has_asked(|path| path.starts_with("/lib/")), [""; 0]);
    assert_eq!(
        counting.has_asked(|path| path.starts_with(&format!("{UNITS}/own.service"))),
        [""; 0]
    );
}

#[test]
fn without_it_they_ask_again_and_again() {
    let host = host();
    let counting = Counting::new(&host);
    gathered(&counting);
    assert!(!counting.doubles().is_empty());
}

#[test]
fn a_lib_of_its_own_is_read_for_itself() {
    let host =
        MapSource::new().with_file("/lib/x", "of /lib").with_file("/usr/lib/x", "of /usr/lib");
    let once = MemoizedSource::new(&host);
    assert_eq!(once.read("/lib/x"), Observed::Known(b"of /lib".to_vec()));
    assert_eq!(once.read("/usr/lib/x"), Observed::Known(b"of /usr/lib".to_vec()));
    let merged =
        MapSource::new().with_link("/lib", "/usr/lib").with_file("/usr/lib/x", "of /usr/lib");
    assert_eq!(
        MemoizedSource::new(&merged).read("/lib/x"),
        Observed::Known(b"of /usr/lib".to_vec())
    );
}

#[test]
fn what_is_denied_or_leads_nowhere_is_told_as_ever() {
    let host = MapSource::new()
        .with_denied("/etc/closed")
        .with_denied("/etc/a.d/closed")
        .with_link("/etc/a.d/nowhere", "/none")
        .with_link("/etc/b.d", "a.d")
        .with_file("/etc/a.d/there", "x");
    let once = MemoizedSource::new(&host);
    for _ in 0..2 {
        for folder in ["/etc/a.d", "/etc/b.d", "/etc/closed", "/etc/none"] {
            assert_eq!(once.list_folder(folder), host.list_folder(folder), "{folder}");
            for name in ["closed", "nowhere", "there", "none", "../a.d/there", "./there", "/there"]
            {
                let path = format!("{folder}/{name}");
                assert_eq!(once.read(&path), host.read(&path), "{path}");
                assert_eq!(once.read_limited(&path, 10), host.read_limited(&path, 10), "{path}");
                assert_eq!(once.read_link(&path), Source::read_link(&host, &path), "{path}");
                assert_eq!(once.list_folder(&path), host.list_folder(&path), "{path}");
            }
        }
    }
}

#[test]
fn a_recording_has_what_was_read_and_nothing_that_was_only_glanced_at() {
    let host = MapSource::new()
        .with_file("/etc/a", "a")
        .with_file("/etc/b", "b")
        .with_file("/etc/large", "longer than that");
    let recording = RecordingSource::new(&host);
    let once = MemoizedSource::new(&recording);
    for path in ["/etc/a", "/etc/b"] {
        assert!(once.read_limited(path, 10).is_known());
    }
    assert!(matches!(once.read_limited("/etc/large", 10), Observed::Malformed(_)));
    assert_eq!(once.read("/etc/b"), Observed::Known(b"b".to_vec()));
    assert!(once.read("/etc/large").is_known(), "a glance's bound is its own");
    assert!(matches!(once.read_limited("/etc/large", 10), Observed::Malformed(_)));
    let kept: Vec<String> = recording.seen.borrow().files.keys().cloned().collect();
    assert_eq!(kept, ["/etc/b", "/etc/large"]);
}

/// A server's settings come from some files that each of them is looked for in.
#[test]
fn a_servers_own_files_are_asked_for_once_an_owner() {
    let host = MapSource::new().with_file("/d/a.conf", "x = 1").with_file("/d/b.conf", "y = 2");
    let counting = Counting::new(&host);
    let once = MemoizedSource::new(&counting);
    let owner = |uid| Owner { uid, ..Owner::default() };
    for _ in 0..3 {
        assert_eq!(once.read_as(&owner(5), "/d/a.conf", 100), Observed::Known(b"x = 1".to_vec()));
        assert_eq!(once.read_as(&owner(5), "/d/none", 100), Observed::Absent);
        assert_eq!(once.folder_names("/d", Some(&owner(5)), 100), host.list_folder("/d"));
        assert_eq!(once.folder_names("/d/a.conf", Some(&owner(5)), 100), Observed::Absent);
    }
    assert_eq!(counting.doubles(), []);
    assert_eq!(once.read_as(&owner(6), "/d/a.conf", 100), Observed::Known(b"x = 1".to_vec()));
    assert_eq!(
        counting.doubles(),
        [("content", "/d/a.conf".to_owned(), 2)],
        "each owner has rights of his own"
    );
}
