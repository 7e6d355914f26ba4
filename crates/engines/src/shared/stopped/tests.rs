use hugewise_host::source::MapSource;
use hugewise_model::host::User;
use hugewise_model::instance::Startup;
use hugewise_model::process::CgroupMembership;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{Engine, PageCount, PageSize};

use super::*;
use crate::shared::discovery::MOST;
use crate::testing;

fn host(processes: Vec<Process>) -> Host {
    let mut host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known(processes),
        ..Host::default()
    };
    for (uid, name) in
        [(0, "root"), (101, "postgres"), (102, "mysql"), (54321, "oracle"), (4242, "mallory")]
    {
        host.accounts.users.insert(uid, User { name: name.into(), gid: uid, home: None });
    }
    host
}

fn init() -> Process {
    Process { pid: 1, name: "systemd".into(), ..Process::default() }
}

/// Those that do not run, of a host on which these do.
fn asleep_beside(source: &MapSource, mut processes: Vec<Process>) -> Vec<Instance> {
    processes.insert(0, init());
    let found = crate::find_instances(&host(processes), source);
    found.instances.into_iter().filter(Instance::is_stopped).collect()
}

fn asleep(source: &MapSource) -> Vec<Instance> {
    asleep_beside(source, Vec::new())
}

fn at_boot(instance: &Instance) -> (&str, &str) {
    instance
        .stopped
        .as_ref()
        .map(|asleep| (asleep.at_boot.as_str(), asleep.at_boot.boot_evidence()))
        .unwrap()
}

fn pages(instance: &Instance) -> Option<u64> {
    instance.next.as_known()?.demands.first().map(|demand| demand.pages.get())
}

fn running(pid: u32, words: &[&str], directory: &str, unit: &str) -> Process {
    let program = options::file_name(words[0]).to_owned();
    let membership = CgroupMembership {
        hierarchy: 0,
        controllers: Vec::new(),
        path: format!("/system.slice/{unit}"),
    };
    Process {
        pid,
        name: program,
        uid: 101,
        command: Observed::Known(words.iter().map(|word| (*word).to_owned()).collect()),
        directory: Some(directory.to_owned()).filter(|text| !text.is_empty()).into(),
        cgroups: Observed::Known([membership].into()),
        mappings: Observed::Known(Vec::new()),
        ..Process::default()
    }
}

/// A cluster of Debian's whose `postgres -C shared_memory_size_in_huge_pages` says 537 (PostgreSQL
/// 15).
fn cluster(start: &str) -> MapSource {
    MapSource::new()
        .with_file(
            "/etc/postgresql/15/b/postgresql.conf",
            "data_directory = '/srv/pg/b'\nshared_buffers=1GB\nhuge_pages=on\nport=5444\n",
        )
        .with_file("/etc/postgresql/15/b/start.conf", start)
        .with_file("/srv/pg/b/PG_VERSION", "15\n")
}

#[test]
fn a_cluster_that_is_down_is_known_by_its_folder() {
    let all = asleep(&cluster("auto\n"));
    let [one] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        (one.title().as_str(), one.pid, one.asked),
        ("postgresql 5444", 0, HugePageMode::Must)
    );
    assert_eq!(
        (one.owner.as_str(), one.trusted_by.as_slice()),
        ("postgres", &[TrustReason::Listed][..])
    );
    let most = one.possible_demands.first().map(|demand| demand.pages.get()).unwrap();
    assert!(
        pages(one).is_some_and(|least| least <= 537) && (537..=548).contains(&most),
        "{:?} {most}",
        pages(one)
    );
    assert_eq!(at_boot(one), ("yes", "start.conf=auto (/etc/postgresql/15/b/start.conf)"));
    assert_eq!(one.stopped.as_ref().unwrap().known_by, "/etc/postgresql/15/b/postgresql.conf");
    assert!(
        one.segments.is_empty()
            && one.setting.as_ref().unwrap().to_string().contains("postgresql.conf:3")
    );
}

/// postgresql-common: `auto` is started where postgresql.service is; `manual` and `disabled` are
/// not.
#[test]
fn start_conf_and_the_service_of_all_clusters_say_whether_the_boot_starts_one() {
    let told = |source: &MapSource| {
        let all = asleep(source);
        (at_boot(&all[0]).0.to_owned(), all[0].startup.clone())
    };
    assert_eq!(told(&cluster("manual\n")).0, "no");
    let (word, startup) = told(&cluster("disabled\n"));
    assert!(word == "no" && matches!(startup, Some(Startup::Never(_))));
    let service = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let disabled = cluster("auto")
        .with_folder("/run/systemd/generator")
        .with_file("/usr/lib/systemd/system/postgresql.service", service);
    assert_eq!(at_boot(&asleep(&disabled)[0]), ("no", "postgresql.service is disabled"));
    let masked =
        cluster("auto").with_link("/etc/systemd/system/postgresql@15-b.service", "/dev/null");
    assert!(matches!(told(&masked).1, Some(Startup::Never(why)) if why.contains("masked")));
}

/// PostgreSQL 15: `FATAL: data directory "/srv/pg/b" does not exist`, and without its PG_VERSION
/// `"/srv/pg/b" is not a valid data directory`.
#[test]
fn a_cluster_without_data_is_started_by_nobody() {
    let config = "data_directory = '/srv/pg/gone'\nshared_buffers=1GB\nhuge_pages=on\n";
    let all = asleep(&cluster("auto\n").with_file("/etc/postgresql/15/b/postgresql.conf", config));
    let why = "its data is not there: no /srv/pg/gone/PG_VERSION";
    assert_eq!(at_boot(&all[0]), ("no", why));
    assert!(matches!(&all[0].startup, Some(Startup::Never(said)) if said == why));
    let denied = cluster("auto\n").with_denied("/srv/pg/b/PG_VERSION");
    assert_eq!(at_boot(&asleep(&denied)[0]).0, "yes", "it is there");
}

#[test]
fn of_lists_that_cannot_be_read_nobody_knows_who_is_on_them() {
    let known_by = |source: &MapSource| {
        let found = crate::find_instances(&host(vec![init()]), source);
        let told = |instance: &Instance| {
            assert_eq!((instance.asked, instance.next.is_known()), (HugePageMode::Unknown, false));
            assert_eq!(at_boot(instance).0, "unknown");
            (
                instance.title(),
                found
                    .unread
                    .iter()
                    .any(|unread| Some(unread.what.as_str()) == instance.name.strip_prefix("of ")),
            )
        };
        found.instances.iter().map(told).collect::<Vec<_>>()
    };
    for (engine, path) in [
        ("oracle", "/etc/oratab"),
        ("qemu", "/etc/libvirt/qemu"),
        ("postgresql", "/etc/postgresql"),
    ] {
        assert_eq!(
            known_by(&MapSource::new().with_denied(path)),
            [(format!("{engine} of {path}"), true)]
        );
    }
    let odd =
        MapSource::new().with_file("/etc/libvirt/qemu/g.xml", "<domain><name>g</name></domain>");
    assert_eq!(known_by(&odd), [("qemu of /etc/libvirt/qemu/g.xml".to_owned(), true)]);
    // What the guest of that name has is seen where it runs.
    let main = running(9, &["qemu-system-x86_64", "-name", "guest=g"], "/", "machine.scope");
    assert_eq!(asleep_beside(&odd, vec![main]).len(), 0);
}

#[test]
fn a_cluster_that_runs_is_listed_once() {
    let config = "config_file=/etc/postgresql/15/b/postgresql.conf";
    let postgres = "/usr/lib/postgresql/15/bin/postgres";
    for main in [
        running(
            9,
            &[postgres, "-D", "/srv/pg/b", "-c", config],
            "/srv/pg/b",
            "postgresql@15-b.service",
        ),
        // By hand, on a folder that a link leads to; one whose folder may not be seen; one that its
        // lock file knows.
        running(9, &[postgres, "-D", "/srv/pg/b"], "/mnt/disk/b", "ssh.service"),
        running(9, &[postgres, "-c", config], "", "ssh.service"),
        running(9, &[postgres], "", "ssh.service"),
    ] {
        assert_eq!(
            asleep_beside(&cluster("auto"), vec![main.clone()]).len(),
            0,
            "{:?}",
            main.command
        );
    }
    let locked =
        cluster("auto").with_file("/srv/pg/b/postmaster.pid", "9\n/srv/pg/b\n1\n5444\n/run\n*\n");
    let elsewhere = running(9, &[postgres, "-D", "/data"], "/data", "ssh.service");
    assert_eq!(asleep_beside(&locked, vec![elsewhere.clone()]).len(), 0);
    assert_eq!(asleep_beside(&locked, Vec::new()).len(), 1, "nothing has that pid");
    assert_eq!(asleep_beside(&cluster("auto"), vec![elsewhere]).len(), 1, "another one runs");
}

/// Whoever can write where it is listed, set or started decides what the boot has to have ready.
#[test]
fn a_stopped_server_is_listed_by_nobody_elses_word() {
    let listed = |source: &MapSource, path: &str, owner: u32| {
        let live = Host { live: true, ..host(vec![init()]) };
        let found = crate::find_instances(&live, &source.clone().with_owner(path, owner));
        let one = found.instances.into_iter().find(Instance::is_stopped).unwrap();
        let failed: Vec<String> = one.trust.failed.into_iter().map(|(_, why)| why).collect();
        (one.trusted_by, failed.join("; "))
    };
    let path = "/etc/systemd/system/postgresql-16.service";
    let by_unit = MapSource::new()
        .with_folder("/run/systemd/generator")
        .with_file("/pg/16/data/PG_VERSION", "16\n")
        .with_file("/pg/16/data/postgresql.conf", "huge_pages=try\nshared_buffers=2GB\n")
        .with_file(path, unit("/usr/pgsql-16/bin/postgres -D /pg/16/data"))
        .with_owner(path, 0);
    let by_folder = cluster("auto\n");
    for (source, path, reason) in [
        (&by_folder, "/srv/pg/b", TrustReason::Listed),
        (&by_unit, "/pg/16", TrustReason::Unit),
        (&by_unit, "/pg/16/data/postgresql.conf", TrustReason::Unit),
    ] {
        assert_eq!(listed(source, path, 101).0, [reason], "{path}");
        let (reasons, failed) = listed(source, path, 4242);
        assert!(failed.contains(&format!("{path} belongs to user 4242")), "{path}: {failed}");
        assert_eq!(reasons, [], "{path}");
    }
    // Whose the file is that lists it is the server's owner, and here no account for servers.
    for path in ["/etc/postgresql/15", "/etc/postgresql/15/b/postgresql.conf"] {
        assert_eq!(listed(&by_folder, path, 4242).0, [], "{path}");
    }
    assert_eq!(listed(&by_unit, path, 0).0, [TrustReason::Unit]);
    assert_eq!(listed(&by_unit, path, 101).0, [], "its account's own unit file");
}

#[test]
fn what_cannot_be_read_is_unknown_and_what_does_not_ask_is_left_out() {
    let denied =
        cluster("auto").with_file("/etc/postgresql/15/b/postgresql.conf", "include 'more.conf'\n");
    let all = asleep(&denied.with_denied("/etc/postgresql/15/b/more.conf"));
    assert_eq!((all[0].asked, all[0].next.is_known()), (HugePageMode::Unknown, false));
    let off = cluster("auto").with_file("/etc/postgresql/15/b/postgresql.conf", "huge_pages=off\n");
    assert_eq!(asleep(&off).len(), 0);
    // Nobody knows who runs where nobody can be seen.
    let blind = Host { processes: Observed::Denied, ..host(Vec::new()) };
    assert!(crate::find_instances(&blind, &cluster("auto")).instances.is_empty());
}

fn unit(program: &str) -> String {
    format!(
        "[Service]\nUser=postgres\nEnvironment=PGDATA=/pg/16/data/\nExecStart={program}\n[Install]\nWantedBy=a.target\n"
    )
}

#[test]
fn a_data_directory_that_a_unit_names() {
    let base = || {
        MapSource::new()
            .with_folder("/run/systemd/generator")
            .with_file("/pg/16/data/PG_VERSION", "16\n")
            .with_file("/pg/16/data/postgresql.conf", "huge_pages=try\nshared_buffers=2GB\n")
    };
    let path = "/usr/lib/systemd/system/postgresql-16.service";
    for program in [
        "/usr/pgsql-16/bin/postgres -D ${PGDATA}",
        "/usr/pgsql-16/bin/pg_ctl start -D ${PGDATA} -s -w",
        "/usr/bin/postmaster",
    ] {
        let all = asleep(&base().with_file(path, unit(program)));
        let [one] = all.as_slice() else { panic!("{program}: {all:?}") };
        assert_eq!(
            (one.title().as_str(), one.owner.as_str()),
            ("postgresql 16/data", "postgres"),
            "{program}"
        );
        assert_eq!(
            (one.unit.as_deref(), one.trusted_by.as_slice()),
            (Some("postgresql-16.service"), &[TrustReason::Unit][..])
        );
        assert_eq!(at_boot(one), ("no", "postgresql-16.service is disabled"));
        assert!(pages(one).is_some_and(|pages| (1024..1100).contains(&pages)));
    }
    let source = base()
        .with_file(path, unit("/usr/pgsql-16/bin/postgres -D ${PGDATA} -c shared_buffers=1GB"));
    let enabled =
        source.clone().with_link("/etc/systemd/system/a.target.wants/postgresql-16.service", path);
    let all = asleep(&enabled);
    assert_eq!(at_boot(&all[0]).0, "yes");
    assert_eq!(
        all[0].settings["shared_buffers"].to_string(),
        format!("shared_buffers=1GB ({path})")
    );
    let main = running(
        9,
        &["/usr/pgsql-16/bin/postgres", "-D", "/pg/16/data/"],
        "/pg/16/data",
        "postgresql-16.service",
    );
    assert_eq!(asleep_beside(&enabled, vec![main]).len(), 0);
    // A package that nobody has made a cluster with.
    let empty = MapSource::new().with_file(path, unit("/usr/pgsql-16/bin/postgres -D ${PGDATA}"));
    assert_eq!(asleep(&empty).len(), 0);
}

#[test]
fn services_of_mysql_and_mariadb() {
    let with = |program: &str, options: &str| {
        let unit = format!("[Service]\nUser=mysql\nExecStart={program} $MYSQLD_OPTS\n");
        MapSource::new()
            .with_file("/usr/lib/systemd/system/mariadb.service", unit)
            .with_file(
                "/etc/my.cnf",
                format!("[mysqld]\ndatadir=/data\ninnodb_buffer_pool_size=1G\n{options}"),
            )
            .with_file("/data/mysql_upgrade_info", "10.11.19-MariaDB\n")
    };
    for program in ["/usr/sbin/mariadbd", "/usr/bin/mysqld_safe"] {
        let all = asleep(&with(program, "large_pages=1\n"));
        let [one] = all.as_slice() else { panic!("{program}: {all:?}") };
        assert_eq!(
            (one.engine, one.asked, one.owner.as_str()),
            (Engine::MariaDb, HugePageMode::Try, "mysql")
        );
        assert_eq!(
            (pages(one), one.data_directory.as_known().map(String::as_str)),
            (Some(648), Some("/data")),
            "{program}"
        );
        assert_eq!(at_boot(one).0, "unknown");
    }
    assert_eq!(asleep(&with("/usr/sbin/mariadbd", "")).len(), 0, "large_pages is off by default");
    let main = running(9, &["/usr/sbin/mariadbd", "--datadir=/data"], "/data", "ssh.service");
    assert_eq!(asleep_beside(&with("/usr/sbin/mariadbd", "large_pages=1\n"), vec![main]).len(), 0);
}

#[test]
fn java_machines_that_services_start() {
    let with = |flags: &str| {
        let unit =
            format!("[Service]\nUser=app\nExecStart=/usr/bin/java {flags} -jar /opt/app.jar\n");
        MapSource::new().with_file("/etc/systemd/system/app.service", unit)
    };
    let all = asleep(&with("-Xmx2g -Xms2g -XX:+UseLargePages"));
    assert_eq!((all[0].title().as_str(), all[0].asked), ("jvm app.jar", HugePageMode::Try));
    assert!(pages(&all[0]).is_some_and(|pages| pages > 1024));
    assert_eq!(asleep(&with("-Xmx2g")).len(), 0);
}

#[test]
fn instances_of_oratab() {
    let home = "/u01/app/oracle/product/19.3.0/db";
    let with = |table: &str, file: &str| {
        MapSource::new()
            .with_file("/etc/oratab", table)
            .with_file(&format!("{home}/dbs/initPROD.ora"), file)
    };
    let file = "*.sga_target=8G\n*.use_large_pages=ONLY\nprocesses=500\n";
    let all = asleep(&with(&format!("PROD:{home}:N\nGONE:/u01/other:Y\n"), file));
    let [one] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        (one.title().as_str(), one.asked, one.owner.as_str()),
        ("oracle PROD", HugePageMode::Must, "oracle")
    );
    assert_eq!(
        (pages(one), one.version.as_known().map(String::as_str)),
        (Some(4100), Some("19.3.0"))
    );
    assert_eq!(at_boot(one), ("no", "N (/etc/oratab:1)"));
    let yes = with(&format!("PROD:{home}:Y\n"), file);
    assert_eq!(at_boot(&asleep(&yes)[0]).0, "unknown");
    let unit =
        format!("[Service]\nUser=oracle\nType=forking\nExecStart={home}/bin/dbstart {home}\n");
    let path = "/etc/systemd/system/dbora.service";
    let started = yes
        .with_file(path, unit)
        .with_link("/etc/systemd/system/multi-user.target.wants/dbora.service", path);
    assert_eq!(at_boot(&asleep(&started)[0]).0, "yes");
    let clustered = started.with_file("/etc/oracle/olr.loc", "olrconfig_loc=/x\n");
    assert_eq!(at_boot(&asleep(&clustered)[0]).0, "unknown");
    // In ASM, where nobody reads it.
    let in_asm = asleep(&with(&format!("PROD:{home}:N\n"), "SPFILE='+DATA/prod/spfileprod.ora'\n"));
    assert_eq!((in_asm[0].asked, pages(&in_asm[0])), (HugePageMode::Unknown, None));
    // What it noted at its last start stands in for what nobody reads, with its date; what the file
    // says counts.
    let noted = "2023-04-27T15:18:31.192974-04:00\nSystem parameters with non-default \
         values:\n  sga_target               = \
         8G\n  use_large_pages          = \"ONLY\"\n  processes                = 500\n";
    let alert = "/u01/app/oracle/diag/rdbms/prod/PROD/trace/alert_PROD.log";
    let by_log = |file: &str| {
        asleep(&with(&format!("PROD:{home}:N\n"), file).with_file(alert, noted)).remove(0)
    };
    let one = by_log("SPFILE='+DATA/prod/spfileprod.ora'\n");
    assert_eq!((one.asked, pages(&one)), (HugePageMode::Must, Some(4100)));
    assert!(one.setting.unwrap().to_string().contains("2023-04-27"));
    assert_eq!(by_log("SPFILE='+DATA/x.ora'\nuse_large_pages=TRUE\n").asked, HugePageMode::Try);
    assert_eq!(pages(&by_log("sga_target=4G\n")), Some(2052), "files that are all there say all");
    // The list has the database, whose instance on this node has a number.
    let pmon = |sid: &str| Process {
        executable: Observed::Known(format!("{home}/bin/oracle")),
        ..running(9, &[&format!("ora_pmon_{sid}")], home, "ssh.service")
    };
    let alone = |sid: &str, count: [usize; 2]| {
        let source = with(&format!("PROD:{home}:N\n"), file);
        assert_eq!(asleep_beside(&source, vec![pmon(sid)]).len(), count[0], "{sid}");
        let grid = source.with_file("/etc/oracle/olr.loc", "olrconfig_loc=/x\n");
        assert_eq!(
            asleep_beside(&grid, vec![pmon(sid)]).len(),
            count[1],
            "{sid} with Grid Infrastructure"
        );
    };
    for (sid, count) in [("PROD", [0, 0]), ("PROD1", [1, 0]), ("PROD_2", [1, 0]), ("PRODX", [1, 1])]
    {
        alone(sid, count);
    }
    // What has a line of its own is a database of its own.
    for grid in [false, true] {
        let source = with(&format!("PROD:{home}:N\nPROD2:{home}:N\n"), file);
        let source = if grid {
            source.with_file("/etc/oracle/olr.loc", "olrconfig_loc=/x\n")
        } else {
            source
        };
        let all = asleep_beside(&source, vec![pmon("PROD2")]);
        assert_eq!(all.iter().map(Instance::title).collect::<Vec<_>>(), ["oracle PROD"], "{grid}");
    }
    let clusterware = Process { pid: 8, name: "ohasd.bin".into(), ..Process::default() };
    let source = with(&format!("PROD:{home}:N\n"), file);
    assert_eq!(asleep_beside(&source, vec![clusterware, pmon("PROD1")]).len(), 0);
}

/// As of those that run: the owner's groups by the account files, and the limit and cgroup of the
/// service that starts it.
#[test]
fn who_starts_one_that_is_down_is_known() {
    let home = "/u01/db";
    let unit = format!(
        "[Service]\nUser=oracle\nSlice=db.slice\nLimitMEMLOCK=64K\nExecStart={home}/bin/dbstart\n"
    );
    let source = |letter: &str| {
        MapSource::new()
            .with_file("/etc/oratab", format!("PROD:{home}:{letter}\n"))
            .with_file(
                &format!("{home}/dbs/initPROD.ora"),
                "*.sga_target=8G\n*.use_large_pages=ONLY\n",
            )
            .with_file("/etc/systemd/system/dbora.service", &unit)
    };
    let whose = |source: &MapSource| asleep(source).pop().unwrap().stopped.unwrap();
    let started = whose(&source("Y"));
    let process = started.process.unwrap();
    assert_eq!(
        (process.uid, process.gid, process.ipc_lock),
        (54321, 54321, Observed::Known(false))
    );
    let unit = started.unit.unwrap();
    assert_eq!(
        (unit.name.as_str(), unit.cgroup.as_str()),
        ("dbora.service", "/db.slice/dbora.service")
    );
    assert!(
        unit.memlock
            .as_known()
            .is_some_and(|(soft, ..)| soft.allows(hugewise_model::Bytes::from_kib(64)))
    );
    assert_eq!(whose(&source("N")).unit, None, "that one has to be started by hand");
    // No account file has any of Oracle's: nobody knows whose it is.
    let mut unknown = host(vec![init()]);
    unknown.accounts.users.remove(&54321);
    let found = crate::find_instances(&unknown, &source("Y"));
    assert!(
        found.instances[0].stopped.as_ref().is_some_and(|asleep| asleep.process.is_none()),
        "{found:?}",
        found = found.instances
    );
}

#[test]
fn guests_that_libvirt_has_defined() {
    let guest = |backing: &str| {
        format!(
            "<domain type='kvm'><name>db</name><uuid>a1</uuid><memory \
             unit='KiB'>2097152</memory>{backing}</domain>"
        )
    };
    let huge =
        "<memoryBacking><hugepages><page size='1048576' unit='KiB'/></hugepages></memoryBacking>";
    let source = MapSource::new()
        .with_file("/etc/libvirt/qemu/db.xml", guest(huge))
        .with_folder("/etc/libvirt/qemu/networks");
    let all = asleep(&source);
    let [one] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        (one.title().as_str(), one.asked, at_boot(one).0),
        ("qemu db", HugePageMode::Must, "no")
    );
    let demand = &one.next.as_known().unwrap().demands[0];
    assert_eq!(
        (demand.page_size, demand.pages, one.next.as_known().unwrap().demands.len()),
        (PageSize::GIB_1, PageCount(2), 1)
    );
    let starts =
        source.clone().with_link("/etc/libvirt/qemu/autostart/db.xml", "/etc/libvirt/qemu/db.xml");
    assert_eq!(at_boot(&asleep(&starts)[0]).0, "yes");
    let masked = |source: MapSource, name: &str| {
        source.with_link(&format!("/etc/systemd/system/{name}"), "/dev/null")
    };
    let half = masked(starts.clone(), "libvirtd.service")
        .with_file("/usr/lib/systemd/system/virtqemud.service", "[Service]\n");
    assert_eq!(at_boot(&asleep(&half)[0]).0, "yes", "the other one may");
    let neither = masked(masked(starts.clone(), "libvirtd.service"), "virtqemud.service");
    assert_eq!(
        at_boot(&asleep(&neither)[0]),
        ("no", "virtqemud.service is masked (/etc/systemd/system/virtqemud.service)")
    );
    for words in
        [["qemu-system-x86_64", "-name", "guest=db,debug-threads=on"], ["kvm", "-uuid", "A1"]]
    {
        assert_eq!(
            asleep_beside(&source, vec![running(9, &words, "/", "machine.scope")]).len(),
            0,
            "{words:?}"
        );
    }
    assert_eq!(asleep(&MapSource::new().with_file("/etc/libvirt/qemu/db.xml", guest(""))).len(), 0);
    let several = "<memoryBacking><hugepages><page size='2' unit='M' \
        nodeset='0'/></hugepages></memoryBacking>";
    let untold = asleep(&MapSource::new().with_file("/etc/libvirt/qemu/db.xml", guest(several)));
    assert_eq!((untold[0].asked, pages(&untold[0])), (HugePageMode::Unknown, None));
}

/// What the boot brings of the first server of a host, by which service.
fn boot_of(source: &MapSource, main: Process) -> (Option<String>, Option<String>) {
    let found = crate::find_instances(&host(vec![init(), main]), source);
    let mut runs = found.instances.into_iter().filter(|instance| instance.pid == 9);
    let instance = runs.next().expect("it runs");
    let setting = instance.at_boot.as_known().and_then(|next| next.setting.clone());
    (instance.boot_unit.map(|unit| unit.name), setting.map(|setting| setting.to_string()))
}

/// `systemctl enable` of a service, and a DBA who has started its server from a shell.
#[test]
fn what_was_started_by_hand_is_started_by_its_service_at_the_boot() {
    let path = "/etc/systemd/system/pg.service";
    let link = "/etc/systemd/system/a.target.wants/pg.service";
    let runs = "/usr/pgsql-16/bin/postgres -D /pg/16/data";
    let base = |command: &str| {
        MapSource::new()
            .with_folder("/run/systemd/generator")
            .with_file("/pg/16/data/PG_VERSION", "16\n")
            .with_file("/pg/16/data/postgresql.conf", "huge_pages=try\nshared_buffers=2GB\n")
            .with_file(path, unit(command))
    };
    let by_hand = |unit: &str| {
        running(9, &["/usr/pgsql-16/bin/postgres", "-D", "/pg/16/data"], "/pg/16/data", unit)
    };
    let service = || Some("pg.service".to_owned());
    let enabled = |command: &str| base(command).with_link(link, path);
    assert_eq!(boot_of(&enabled(runs), by_hand("session-3.scope")), (service(), None));
    let other = enabled(&format!("{runs} -c shared_buffers=1GB"));
    let buffers = Some(format!("shared_buffers=1GB ({path}:4)"));
    assert_eq!(boot_of(&other, by_hand("session-3.scope")), (service(), buffers));
    // One that is not enabled, one of another server, and its own service.
    assert_eq!(boot_of(&base(runs), by_hand("session-3.scope")).0, None);
    let elsewhere = enabled("/usr/pgsql-16/bin/postgres -D /pg/17/data");
    assert_eq!(boot_of(&elsewhere, by_hand("session-3.scope")).0, None);
    assert_eq!(boot_of(&enabled(runs), by_hand("pg.service")).0, None);
}

#[test]
fn an_instance_with_a_y_is_started_by_the_service_of_dbstart() {
    let path = "/etc/systemd/system/dbora.service";
    let link = "/etc/systemd/system/multi-user.target.wants/dbora.service";
    let home = "/u01/app/oracle/product/19.0.0/db";
    let with = |letter: &str| {
        let unit = format!("[Service]\nUser=oracle\nType=forking\nExecStart={home}/bin/dbstart\n");
        MapSource::new()
            .with_folder("/run/systemd/generator")
            .with_file(path, format!("{unit}[Install]\nWantedBy=multi-user.target\n"))
            .with_link(link, path)
            .with_file("/etc/oratab", format!("PROD:{home}:{letter}\n"))
            .with_file(&format!("{home}/dbs/initPROD.ora"), "*.sga_target=8G\n")
    };
    let monitor = || Process {
        uid: 54321,
        name: "ora_pmon_prod".into(),
        executable: Observed::Known(format!("{home}/bin/oracle")),
        ..running(9, &["ora_pmon_PROD"], home, "session-3.scope")
    };
    assert_eq!(boot_of(&with("Y"), monitor()).0.as_deref(), Some("dbora.service"));
    assert_eq!(boot_of(&with("N"), monitor()).0, None);
}

#[test]
fn names_are_unique_beside_those_that_run() {
    let source = cluster("auto")
        .with_file("/etc/postgresql/14/b/postgresql.conf", "data_directory='/mnt/pg/b'\n")
        .with_file("/mnt/pg/b/PG_VERSION", "14\n");
    let main = running(
        9,
        &["/usr/lib/postgresql/15/bin/postgres", "-D", "/other/b"],
        "/other/b",
        "x.service",
    );
    let found = crate::find_instances(&host(vec![init(), main]), &source);
    let names: BTreeSet<String> = found.instances.iter().map(Instance::title).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// However many are listed, what is looked at has an end, and that is said.
#[test]
fn of_lists_without_end_some_are_looked_at() {
    let guest = |at: usize| {
        format!(
            "<domain><name>g{at}</name><memory>2097152</memory><memoryBacking><hugepages/></memoryBacking></domain>"
        )
    };
    let source = (0..400).fold(MapSource::new(), |source, at| {
        source.with_file(&format!("/etc/libvirt/qemu/g{at}.xml"), guest(at))
    });
    let found = crate::find_instances(&host(vec![init()]), &source);
    assert_eq!(found.instances.len(), MOST);
    assert!(
        found.unread.iter().any(|unread| unread.what == "qemu servers that do not run"),
        "{:?}",
        found.unread
    );
}

/// A unit of more words than any start has: which server it is is known, and nothing of what it
/// asks for.
#[test]
fn a_service_that_is_started_by_more_words_than_are_read_may_ask_for_anything() {
    let unit = format!(
        "[Service]\nEnvironment=A='{}'\nExecStart=/usr/sbin/mysqld {}\n",
        "x ".repeat(3000),
        "$A ".repeat(3000)
    );
    let found =
        asleep(&MapSource::new().with_file("/etc/systemd/system/mysqld.service", unit.clone()));
    let said: Vec<_> = found.iter().map(|instance| (instance.asked, at_boot(instance).0)).collect();
    assert_eq!(said, [(HugePageMode::Unknown, "unknown")]);
    // By its program, whatever it is called.
    let found = asleep(&MapSource::new().with_file("/etc/systemd/system/shop.service", unit));
    assert_eq!(found.len(), 1);
}

/// Patroni's own files, and the numbers of the cluster above. What a stranger's Patroni would start
/// nobody vouches for.
#[test]
fn a_server_that_patroni_is_to_start_is_known_by_its_file() {
    let source = MapSource::new()
        .with_file(
            "/etc/patroni.yml",
            "scope: main\npostgresql:\n  data_dir: /srv/pg/b\n  bin_dir: /opt/pg/bin\n",
        )
        .with_file("/srv/pg/b/PG_VERSION", "15\n")
        .with_file("/srv/pg/b/postgresql.conf", "shared_buffers=1GB\nhuge_pages=on\nport=5444\n");
    let words = ["/usr/bin/python3", "/usr/bin/patroni", "/etc/patroni.yml"];
    let patroni = |uid| Process { uid, ..running(900, &words, "", "patroni.service") };
    let all = asleep_beside(&source, vec![patroni(101)]);
    let [one] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((one.asked, one.owner.as_str()), (HugePageMode::Must, "postgres"));
    assert_eq!(at_boot(one), ("yes", "Patroni runs (pid 900) and starts it (/etc/patroni.yml)"));
    assert!(one.is_trusted());
    assert!(asleep_beside(&source, vec![patroni(4242)]).iter().all(|one| !one.is_trusted()));
    let server = ["/opt/pg/bin/postgres", "-D", "/srv/pg/b"];
    let runs = running(901, &server, "/srv/pg/b", "patroni.service");
    assert!(asleep_beside(&source, vec![patroni(101), runs]).is_empty());
}
