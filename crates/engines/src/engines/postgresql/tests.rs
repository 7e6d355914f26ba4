use std::sync::Arc;

use super::*;
use crate::testing;
use hugewise_host::source::{FilePart, FileRequest, MapSource, Owner, ProcessSource, RawSource};
use hugewise_model::host::User;
use hugewise_model::instance::{Demand, DemandSource, Startup};
use hugewise_model::process::CgroupMembership;
use hugewise_model::{HugePageUse, Mapping, PageCount, Pool};

mod next_start;

pub(super) const DATA: &str = "/var/lib/postgresql/15/main";

fn process(pid: u32, parent: u32, command: &[&str]) -> Process {
    Process {
        pid,
        parent,
        name: "postgres".into(),
        uid: 101,
        command: Observed::Known(command.iter().map(|word| (*word).to_owned()).collect()),
        executable: Observed::Known("/usr/lib/postgresql/15/bin/postgres".into()),
        directory: Observed::Known(DATA.into()),
        page_tables: Observed::Known(Bytes::from_kib(100)),
        mappings: Observed::Known(vec![]),
        ..Process::default()
    }
}

/// The stretch that PostgreSQL 15 maps at shared_buffers=6GB and max_connections=300, of which it
/// says itself that it needs 3156 pages of 2 MiB.
fn memory(page: PageSize) -> Mapping {
    let huge = page > PageSize::KIB_4;
    Mapping {
        start: 0x7f00_0000_0000,
        end: 0x7f00_0000_0000 + if huge { 3156 << 21 } else { (3155 << 21) + 0x7000 },
        shared: true,
        accessible: true,
        offset: 0,
        device: 1,
        inode: 1039,
        name: if huge { "/anon_hugepage (deleted)" } else { "/dev/zero (deleted)" }.into(),
        page_size: Observed::Known(page),
    }
}

fn interlock() -> Mapping {
    Mapping {
        start: 4096,
        end: 8192,
        inode: 10,
        name: "/SYSV00984821 (deleted)".into(),
        ..memory(PageSize::KIB_4)
    }
}

pub(super) fn host(page: PageSize) -> Host {
    let mut main = process(
        100,
        1,
        &[
            "/usr/lib/postgresql/15/bin/postgres",
            "-D",
            DATA,
            "-c",
            "config_file=/etc/postgresql/15/main/postgresql.conf",
        ],
    );
    main.cgroups = Observed::Known(
        [CgroupMembership {
            hierarchy: 0,
            controllers: vec![],
            path: "/system.slice/system-postgresql.slice/postgresql@15-main.service".into(),
        }]
        .into(),
    );
    let mut processes = vec![
        main,
        process(101, 100, &["postgres: 15/main: checkpointer ", ""]),
        process(102, 100, &["postgres: 15/main: alice shop [local] idle", ""]),
        process(103, 100, &["postgres: 15/main: alice shop 10.0.0.7(51234) idle", ""]),
        process(104, 100, &["/usr/lib/postgresql/15/bin/postgres", "-D", DATA]),
        Process { pid: 105, parent: 102, name: "sh".into(), ..Process::default() },
    ];
    for process in processes.iter_mut().take(4) {
        process.mappings = Observed::Known(vec![interlock(), memory(page)]);
    }
    let mut host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known(processes),
        ..Host::default()
    };
    host.accounts.users.insert(101, User { name: "postgres".into(), gid: 104, home: None });
    host
}

pub(super) fn files() -> MapSource {
    MapSource::new()
        .with_file(
            "/etc/postgresql/15/main/postgresql.conf",
            "data_directory = '/var/lib/postgresql/15/main'\nshared_buffers = \
                 6GB\nmax_connections = 300\nhuge_pages = try\n",
        )
        .with_file(&format!("{DATA}/postgresql.auto.conf"), "# no edits\n")
        .with_file(&format!("{DATA}/PG_VERSION"), "15\n")
        .with_file(
            &format!("{DATA}/postmaster.pid"),
            format!("100\n{DATA}\n1795290304\n5432\n/var/run/postgresql\nlocalhost\n  9979937        10\nready   \n"),
        )
}

pub(super) fn only(host: &Host, source: &MapSource) -> Instance {
    let mut found = crate::find_instances(host, source);
    assert_eq!(found.instances.len(), 1);
    found.instances.remove(0)
}

/// A sosreport has no maps: the settings say how large, what was touched on which pages.
#[test]
fn without_maps_its_settings_and_what_was_touched_tell() {
    let with = |huge: u64, base: u64| {
        let mut host = host(PageSize::KIB_4);
        for process in testing::processes(&mut host) {
            process.mappings = Observed::Absent;
            process.hugetlb = Observed::Known(Bytes::from_mib(huge));
            process.rss_shmem = Observed::Known(Bytes::from_mib(base));
        }
        only(&host, &files())
    };
    let on_base = with(0, 900);
    assert_eq!((on_base.huge_pages, on_base.segments.len()), (HugePageUse::None, 1));
    assert!(on_base.segment_bytes() > Bytes::from_gib(6));
    assert_eq!(with(900, 1).huge_pages, HugePageUse::All);
    assert_eq!(with(0, 0).huge_pages, HugePageUse::Unknown);
}

#[test]
fn a_debian_cluster_is_described_whole() {
    let instance = only(&host(PageSize::KIB_4), &files());
    assert_eq!(instance.title(), "postgresql 15/main");
    assert_eq!(instance.pids, [100, 101, 102, 103, 104]);
    assert_eq!(instance.version, Observed::Known("15".into()));
    assert_eq!(instance.owner, "postgres");
    assert_eq!(instance.unit.as_deref(), Some("postgresql@15-main.service"));
    assert_eq!(instance.endpoints, ["5432", "/var/run/postgresql/.s.PGSQL.5432"]);
    assert_eq!((instance.sessions.get(), instance.max_sessions.get()), (Some(2), Some(300)));
    assert_eq!(instance.asked, HugePageMode::Try);
    assert_eq!(
        instance.setting.as_ref().map(ToString::to_string).as_deref(),
        Some("huge_pages=try (/etc/postgresql/15/main/postgresql.conf:4)")
    );
    assert_eq!(instance.page_tables, Observed::Known(Bytes::from_kib(500)));
    assert_eq!((instance.segments.len(), instance.segments[0].mappers), (1, 4));
    assert_eq!(instance.huge_pages, HugePageUse::None);
    assert!(!instance.containered);
}

#[test]
fn the_demand_is_the_servers_own_number_on_either_page() {
    for (page, use_now) in
        [(PageSize::KIB_4, HugePageUse::None), (PageSize::MIB_2, HugePageUse::All)]
    {
        let instance = only(&host(page), &files());
        let pages = PageCount(3156);
        assert_eq!(
            instance.demand,
            Some(Demand { page_size: PageSize::MIB_2, pages, source: DemandSource::Measured })
        );
        assert_eq!(instance.huge_pages, use_now);
    }
}

#[test]
fn the_estimate_keeps_to_its_error() {
    // Mebibytes that PostgreSQL 15 says.
    let said = [
        (128, 100, 143),
        (128, 1000, 184),
        (1024, 100, 1074),
        (1024, 1000, 1115),
        (8192, 100, 8399),
    ];
    let more = [(65536, 1000, 67045), (262_144, 100, 267_394), (262_144, 1000, 267_435)];
    for (buffers, connections, mebibytes) in said.into_iter().chain(more) {
        let mut host = host(PageSize::KIB_4);
        testing::processes(&mut host)
            .into_iter()
            .for_each(|process| process.mappings = Observed::Denied);
        let conf = format!("shared_buffers = {buffers}MB\nmax_connections = {connections}\n");
        let instance =
            only(&host, &files().with_file("/etc/postgresql/15/main/postgresql.conf", conf));
        let demand = instance.demand.unwrap();
        assert!(demand.error_percent().is_some_and(|percent| percent <= 1), "{demand:?}");
        let truth = demand.page_size.pages_for(Bytes(mebibytes << 20));
        assert!(
            (demand.at_least().pages..=demand.pages).contains(&truth),
            "{buffers} {connections}: {demand:?}"
        );
        assert_eq!(instance.huge_pages, HugePageUse::Unknown);
    }
}

#[test]
fn settings_decide_what_is_asked_for() {
    let asked = |conf: &str| {
        let instance = only(
            &host(PageSize::KIB_4),
            &files().with_file("/etc/postgresql/15/main/postgresql.conf", conf),
        );
        (
            instance.asked,
            instance.asked_page_size,
            instance.setting.map(|setting| setting.to_string()),
        )
    };
    let (state, page, setting) = asked("");
    assert_eq!((state, page), (HugePageMode::Try, Observed::Known(PageSize::MIB_2)));
    assert_eq!(setting.as_deref(), Some("huge_pages=try (default)"));
    assert_eq!(asked("huge_pages = ON\nhuge_page_size = 1GB").0, HugePageMode::Must);
    assert_eq!(asked("huge_page_size = 1GB").1, Observed::Known(PageSize::GIB_1));
    assert_eq!(asked("huge_page_size = 2048").1, Observed::Known(PageSize::MIB_2));
    // mmap(2) is asked for pages of the power of two that it fits into.
    assert_eq!(asked("huge_page_size = 3MB").1, Observed::Known(PageSize::from_kib(4096).unwrap()));
    assert_eq!(asked("huge_page_size = 1500kB").1, Observed::Known(PageSize::MIB_2));
    assert_eq!(asked("huge_pages = off").0, HugePageMode::No);
    let (state, _, setting) = asked("huge_pages = on\nshared_memory_type = sysv");
    assert_eq!(state, HugePageMode::Cannot);
    assert!(setting.unwrap().starts_with("shared_memory_type=sysv"));
    assert_eq!(asked("huge_pages = 'on").0, HugePageMode::Unknown);
}

/// Releases 9.4 to 18 have huge_pages; 9.3 knows no setting of that name and would not start.
#[test]
fn a_release_without_the_setting_cannot_use_huge_pages() {
    let asked = |version: &str| {
        let source = files().with_file(&format!("{DATA}/PG_VERSION"), format!("{version}\n"));
        let instance = only_of(&host(PageSize::KIB_4), &source);
        (instance.asked, instance.mechanism, instance.demand.is_some())
    };
    for version in ["8.4", "9.1", "9.3"] {
        assert_eq!(asked(version), (HugePageMode::Cannot, Mechanism::None, false), "{version}");
    }
    for version in ["9.4", "9.6", "10", "18"] {
        assert_eq!(asked(version), (HugePageMode::Try, Mechanism::Mmap, true), "{version}");
    }
}

#[test]
fn an_ordinary_user_sees_the_server_and_no_default_that_may_be_wrong() {
    let mut host = host(PageSize::KIB_4);
    for process in testing::processes(&mut host) {
        process.executable = Observed::Denied;
        process.directory = Observed::Denied;
        process.mappings = Observed::Denied;
    }
    let source =
        MapSource::new().with_denied("/etc/postgresql/15/main/postgresql.conf").with_denied(DATA);
    let found = crate::find_instances(&host, &source);
    let instance = &found.instances[0];
    assert_eq!(found.instances.len(), 1);
    assert_eq!(instance.name, "15/main");
    assert_eq!(instance.sessions, Observed::Known(2));
    assert_eq!(
        (instance.asked, instance.huge_pages),
        (HugePageMode::Unknown, HugePageUse::Unknown)
    );
    assert!(!instance.max_sessions.is_known());
    assert!(instance.setting.is_none() && instance.demand.is_none());
    assert!(!found.unread.is_empty());
}

#[test]
fn the_command_line_holds_where_no_file_may_be_seen() {
    let mut host = host(PageSize::KIB_4);
    let command = "/usr/lib/postgresql/15/bin/postgres -D data -p 6101 -c huge_pages=on"
        .split(' ')
        .map(String::from);
    testing::processes(&mut host)[0].command = Observed::Known(command.collect());
    for process in testing::processes(&mut host) {
        process.directory = Observed::Denied;
        process.executable = Observed::Denied;
    }
    let found = crate::find_instances(&host, &MapSource::new());
    let instance = &found.instances[0];
    assert_eq!((instance.name.as_str(), instance.asked), ("6101", HugePageMode::Must));
    assert_eq!(instance.version, Observed::Known("15".into()));
    assert_eq!(instance.max_sessions, Observed::Denied);
    assert_eq!(found.unread[0].what, "/proc/100/cwd");
}

#[test]
fn a_server_in_a_container_is_read_through_its_root() {
    let mut host = host(PageSize::KIB_4);
    host.namespaces.mount = Observed::Known(1);
    for process in testing::processes(&mut host) {
        process.namespaces.mount = Observed::Known(2);
        process.namespace_pids = vec![process.pid, process.pid - 99];
    }
    let source = MapSource::new()
        .with_file(&format!("/proc/100/root{DATA}/PG_VERSION"), "15")
        .with_file(
            &format!("/proc/100/root{DATA}/postmaster.pid"),
            format!("1\n{DATA}\n1\n6000\n/tmp\n\n"),
        )
        .with_file("/proc/100/root/etc/postgresql/15/main/postgresql.conf", "huge_pages = on\n")
        // The host's own files of that name are another server's.
        .with_file("/etc/postgresql/15/main/postgresql.conf", "huge_pages = off\n");
    let instance = only(&host, &source);
    assert_eq!((instance.asked, instance.containered), (HugePageMode::Must, true));
    assert_eq!(instance.endpoints, ["/tmp/.s.PGSQL.6000"]);
}

/// systemd gives a service mounts of its own for `ProtectHome=` or `PrivateTmp=`: it is the host's
/// all the same, unless its cgroup, its processes or its root tell otherwise.
#[test]
fn a_service_with_mounts_of_its_own_is_in_no_container() {
    let contained = |cgroup: &str, pids: u64, root: &str| {
        let mut host = host(PageSize::KIB_4);
        host.namespaces.mount = Observed::Known(1);
        host.namespaces.pid = Observed::Known(4);
        for process in testing::processes(&mut host) {
            process.namespaces.mount = Observed::Known(2);
            process.namespaces.pid = Observed::Known(pids);
            process.root = Observed::Known(root.into());
            let path = cgroup.into();
            process.cgroups = Observed::Known(
                [CgroupMembership { hierarchy: 0, controllers: Vec::new(), path }].into(),
            );
        }
        let source = MapSource::new()
            .with_file(&format!("/proc/100/root{DATA}/PG_VERSION"), "15")
            .with_file(
                &format!("/proc/100/root{DATA}/postmaster.pid"),
                format!("100\n{DATA}\n1\n6000\n/tmp\n\n"),
            )
            .with_file(
                "/proc/100/root/etc/postgresql/15/main/postgresql.conf",
                "huge_pages = on\n",
            );
        only(&host, &source).containered
    };
    let unit = "/system.slice/system-postgresql.slice/postgresql@15-main.service";
    assert!(!contained(unit, 4, "/"));
    assert!(contained(unit, 5, "/"), "processes of its own");
    assert!(contained(unit, 4, "/srv/chroot"), "a root of its own");
    assert!(contained(&format!("{unit}/libpod-payload-4711"), 4, "/"), "a container below a unit");
    assert!(contained("/user.slice/user-1000.slice/session-1.scope", 4, "/"), "a session's");
}

/// The kernel names the working directory of a chroot as the reader would, and the mount namespace
/// is the host's.
#[test]
fn a_server_in_a_chroot_is_read_through_its_root() {
    let mut host = host(PageSize::KIB_4);
    host.namespaces.mount = Observed::Known(1);
    for process in testing::processes(&mut host) {
        process.namespaces.mount = Observed::Known(1);
        process.root = Observed::Known("/srv/chroot".into());
        process.directory = Observed::Known(format!("/srv/chroot{DATA}"));
    }
    let source = MapSource::new()
        .with_file(&format!("/proc/100/root{DATA}/PG_VERSION"), "15")
        .with_file(
            &format!("/proc/100/root{DATA}/postmaster.pid"),
            format!("100\n{DATA}\n1\n6000\n/tmp\n\n"),
        )
        .with_file("/proc/100/root/etc/postgresql/15/main/postgresql.conf", "huge_pages = on\n")
        .with_file("/etc/postgresql/15/main/postgresql.conf", "huge_pages = off\n");
    let instance = only(&host, &source);
    assert_eq!((instance.asked, instance.containered), (HugePageMode::Must, true));
    assert_eq!(instance.data_directory, Observed::Known(DATA.into()));
    assert_eq!(instance.endpoints, ["/tmp/.s.PGSQL.6000"]);
}

#[test]
fn a_lock_of_another_server_says_nothing() {
    let stale = files()
        .with_file(&format!("{DATA}/postmaster.pid"), format!("99\n{DATA}\n1\n7777\n/tmp\n*\n"));
    assert_eq!(only(&host(PageSize::KIB_4), &stale).endpoints, ["5432"]);
    for text in ["", "100", "100\n", "x\n", "-100\n/d\n1\n"] {
        let source = files().with_file(&format!("{DATA}/postmaster.pid"), text);
        assert_eq!(only(&host(PageSize::KIB_4), &source).name, "15/main", "{text:?}");
    }
}

#[test]
fn servers_of_one_name_are_told_apart() {
    let mut host = host(PageSize::KIB_4);
    let mut other = process(200, 1, &["postgres", "-D", DATA]);
    other.directory = Observed::Known("/srv/copy/15/main".into());
    // A server that a backend of the first has started is one of its own.
    let mut third = process(300, 102, &["postgres", "-D", "/srv/c"]);
    third.directory = Observed::Known("/srv/c".into());
    if let Observed::Known(processes) = &mut host.processes {
        processes.extend([other, third].map(Arc::new));
    }
    let names: Vec<_> = crate::find_instances(&host, &files())
        .instances
        .into_iter()
        .map(|instance| instance.name)
        .collect();
    assert_eq!(names, ["15/main pid 100", "15/main pid 200", "c"]);
}

#[test]
fn versions_and_names_come_from_paths_too() {
    assert_eq!(version_in_path("/usr/lib/postgresql/15/bin/postgres").as_deref(), Some("15"));
    assert_eq!(version_in_path("/usr/pgsql-9.6/bin/postgres").as_deref(), Some("9.6"));
    assert_eq!(version_in_path("/opt/bin/postgres"), None);
    let main = Process { pid: 7, ..Process::default() };
    assert_eq!(
        choose_instance_name(Some("/srv/data"), Some("sales"), Some("5433"), &main),
        "sales"
    );
    assert_eq!(choose_instance_name(Some("/srv/data"), Some(""), Some("5433"), &main), "5433");
    assert_eq!(choose_instance_name(Some("/srv/data"), None, None, &main), "data");
    assert_eq!(choose_instance_name(None, None, None, &main), "7");
}

proptest::proptest! {
    #[test]
    fn locks_and_versions_are_read_back(pid in 1..4_194_304_u32, port in 1..65_536_u32, major in 10..19_u32) {
        let lock = parse_lock(format!("{pid}\n/data\n1700000000\n{port}\n/run/postgresql\n*\n").as_bytes()).unwrap();
        proptest::prop_assert_eq!((lock.pid, lock.port, lock.socket_folder.as_str(), lock.listens), (pid, port.to_string(), "/run/postgresql", true));
        proptest::prop_assert_eq!(parse_version(format!("{major}\n").as_bytes()), Ok(major.to_string()));
    }
}

/// `start.conf` beside the configuration that pg_ctlcluster names (postgresql-common 248): a
/// cluster is started by the boot only where it says `auto`, and by nobody where it says
/// `disabled`.
#[test]
fn debians_start_conf_says_whether_a_cluster_comes_up_again() {
    const FILE: &str = "/etc/postgresql/15/main/start.conf";
    let startup = |text: &str| only(&host(PageSize::KIB_4), &files().with_file(FILE, text)).startup;
    assert_eq!(startup("# c\n\nauto\n"), None);
    assert_eq!(
        startup("# c\n\nmanual\n"),
        Some(Startup::NotAtBoot(format!("start.conf=manual ({FILE}:3)")))
    );
    assert_eq!(
        startup("disabled # by hand\n"),
        Some(Startup::Never(format!("start.conf=disabled ({FILE}:1)")))
    );
    assert_eq!(startup("off\n"), Some(Startup::Never(format!("start.conf is invalid ({FILE}:1)"))));
    assert_eq!(only(&host(PageSize::KIB_4), &files()).startup, None);
}

/// A source that knows when its files were changed: whether the settings were since the start, and
/// whether the clock was set forward.
struct Dated<'a>(&'a dyn hugewise_host::Source, bool, bool);

impl RawSource for Dated<'_> {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        self.0.read_file(request)
    }

    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        self.0.folder_names(folder, reader, most)
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        self.0.link_target(path, reader)
    }

    fn processes(&self) -> &dyn ProcessSource {
        self.0.processes()
    }

    fn changed_since_start(
        &self,
        _: &hugewise_host::source::Owner,
        path: &str,
        _: u32,
    ) -> Observed<bool> {
        Observed::Known(match options::file_name(path) {
            "postgresql.auto.conf" => self.1,
            // A server writes it once it has started, which a clock that was set forward since
            // makes look older than its start.
            "postmaster.pid" => !self.2,
            _ => false,
        })
    }

    fn machine_facts(&self) -> hugewise_host::source::MachineFacts {
        self.0.machine_facts()
    }
}

fn only_of(host: &Host, source: &dyn hugewise_host::Source) -> Instance {
    let mut found = crate::find_instances(host, source).instances;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
