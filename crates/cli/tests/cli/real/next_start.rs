//! What servers will ask for at their next start, by settings that were changed since this one.
//!
//! The truth is the server's own word once it is down, or what the kernel says is taken once it has
//! started anew.

use std::process::Command;

use hugewise_host::source::LiveSource;
use hugewise_lab::guard::PoolGuard;
use hugewise_model::instance::NextStart;
use hugewise_model::{HugePageMode, Instance, Observed, PageCount, PageSize};
use hugewise_testkit::require;

use crate::real::harness::{self, HUGEWISE};
use crate::real::postgresql::Cluster;
use crate::real::{jvm, mariadb};

/// The instance of that process, as its engine finds it on this machine.
fn instance(pid: u32) -> Instance {
    let live = LiveSource::new();
    let host = hugewise_host::read(&live);
    let found = hugewise_engines::find_instances(&host, &live).instances;
    found.into_iter().find(|instance| instance.pid == pid).expect("the server")
}

fn next(pid: u32) -> Observed<NextStart> {
    instance(pid).next
}

/// Whether the true number of pages lies between the least and the most of the one demand of a next
/// start.
#[track_caller]
fn assert_near(next: &NextStart, truth: u64) {
    let [demand] = next.demands.as_slice() else { panic!("{next:?}") };
    assert!(demand.error_percent().is_some(), "an estimate: {demand:?}");
    let between = demand.at_least().pages.get()..=demand.at_most().pages.get();
    assert!(between.contains(&truth), "{demand:?} and in truth {truth}");
}

#[test]
fn of_postgresql_whose_file_was_changed() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    for (pool, on_huge) in [(0, false), (400, true)] {
        require!(guard.set_pool(PageSize::MIB_2, PageCount(pool)));
        let server = cluster.start("shared_buffers = 256MB\nmax_connections = 50");
        assert_eq!(next(server.pid), Observed::Absent);
        cluster.configure(
            "shared_buffers = 256MB\nmax_connections = 50\nwork_mem = 8MB\nhuge_page_size = 2MB",
        );
        assert_eq!(next(server.pid), Observed::Absent, "nothing was changed that matters");

        let larger = "shared_buffers = 600MB\nmax_connections = 300\nhuge_pages = on";
        cluster.configure(larger);
        let next = next(server.pid).into_known().expect("another start");
        assert_eq!(next.asked, HugePageMode::Must);
        let now = instance(server.pid);
        let held = now.demand.as_ref().expect("what it holds").pages.get();
        drop(server);
        assert_near(&next, cluster.pages());
        cluster.configure("shared_buffers = 256MB\nmax_connections = 50");
        assert_eq!(
            held,
            cluster.pages(),
            "what runs needs what it was started with (on huge pages: {on_huge})"
        );
    }
}

/// What is said of its next start, by `check` with these arguments.
fn after_restart(pid: u32, arguments: &[&str]) -> (String, String) {
    let checked = harness::check_with(arguments);
    let restart = &checked.instance("postgresql", pid)["moments"]["restart"];
    (harness::text(&restart["state"]), restart["why"].as_str().unwrap_or_default().to_owned())
}

/// Its pool holds what it has mapped to the page. A hundred connections more come to a hundredth of
/// its memory: its files tell that, and so does the server itself.
#[test]
fn of_postgresql_with_more_connections_in_an_exact_pool() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    let settings = |connections: u32| {
        format!(
            "shared_buffers = 512MB\nhuge_pages = on\nmax_connections = {connections}\nautovacuum \
                 = off"
        )
    };
    cluster.configure(&settings(100));
    let pages = cluster.pages();
    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages)));
    let server = cluster.start(&settings(100));
    let pid = server.pid;
    for arguments in [&[][..], &["--connect"]] {
        assert_eq!(after_restart(pid, arguments).0, "all", "nothing was changed: {arguments:?}");
    }

    cluster.configure(&settings(200));
    let needs = [&[][..], &["--connect"]].map(|arguments| {
        let (state, why) = after_restart(pid, arguments);
        assert_eq!(state, "does_not_start", "{arguments:?}: {why}");
        let number =
            why.trim_start_matches("needs ").trim_start_matches("about ").split(' ').next();
        number.and_then(|number| number.parse::<u64>().ok()).unwrap_or_else(|| panic!("{why}"))
    });
    drop(server);

    // In truth it does not start, and needs what was said.
    let mut command = cluster.command("postgres");
    let output = command.arg("-D").arg(cluster.data()).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && log.contains("could not map anonymous shared memory"),
        "{log}"
    );
    let truth = cluster.pages();
    let near = |said: &u64| (truth..=truth + 1).contains(said);
    assert!(
        truth > pages && needs.iter().all(near),
        "said {needs:?}, in truth {truth}, before {pages}"
    );
}

/// The most connections that take no more pages than `least` do.
fn most_connections(cluster: &Cluster, least: u32, settings: impl Fn(u32) -> String) -> u32 {
    let pages = |connections: u32| {
        cluster.configure(&settings(connections));
        cluster.pages()
    };
    let room = pages(least);
    // A page of 2 MiB is less than 60 of them.
    let (mut fits, mut does_not) = (least, least + 60);
    assert!(pages(does_not) > room);
    while does_not - fits > 1 {
        let middle = u32::midpoint(fits, does_not);
        if pages(middle) > room {
            does_not = middle;
        } else {
            fits = middle;
        }
    }
    fits
}

/// It remembers what it was started with: where its memory ends a few KiB before its last page
/// does, an edit that changes nothing of that leaves its next start as it is, though its files come
/// to one page more for all that they tell.
#[test]
fn of_postgresql_whose_file_was_edited_in_an_exact_pool() {
    let settings = |connections: u32| {
        format!(
            "shared_buffers = 128MB\nhuge_pages = on\nautovacuum = off\nmax_connections = \
                 {connections}"
        )
    };
    for cluster in [Cluster::debian("postgres"), Cluster::registry("postgres")] {
        let cluster = require!(cluster);
        let guard = require!(PoolGuard::take_for_test());
        let most = most_connections(&cluster, 100, settings);
        cluster.configure(&settings(most));
        let pages = cluster.pages();
        require!(guard.set_pool(PageSize::MIB_2, PageCount(pages)));
        let server = cluster.start(&settings(most));
        let before = harness::check();
        assert_eq!(
            harness::text(
                &before.instance("postgresql", server.pid)["moments"]["restart"]["state"]
            ),
            "all"
        );

        let folder = harness::folder();
        let foretold = |pid: u32, name: &str| {
            let target = folder.path().join(name);
            harness::must(Command::new(HUGEWISE).args(["capture", "-o"]).arg(&target));
            let captured = after_restart(pid, &["--root", target.to_str().unwrap()]);
            assert_eq!(captured, after_restart(pid, &[]), "{name}");
            captured.0
        };
        cluster.configure(&format!("{}\nwork_mem = 8MB", settings(most)));
        assert_eq!(foretold(server.pid, "edited"), "all");
        assert_eq!(foretold(server.pid, "edited.tar.gz"), "all");
        assert_eq!(harness::check().code, before.code, "an edit that nothing hangs on");
        // What no file tells of a server that runs may be new. In truth both need a page more.
        for more in
            [format!("{}\ntrack_activity_query_size = 1500", settings(most)), settings(most + 1)]
        {
            cluster.configure(&more);
            assert_eq!(foretold(server.pid, &format!("{}", more.len())), "unknown", "{more}");
        }
        drop(server);
        assert_eq!(cluster.pages(), pages + 1);

        // Where there is room for more, one more is told from none and is known to fit.
        let server = cluster.start(&settings(most - 20));
        cluster.configure(&settings(most - 19));
        assert_eq!(foretold(server.pid, "more"), "all");
        let next = match next(server.pid) {
            Observed::Known(next) => next,
            unknown => panic!("another start is {unknown:?}"),
        };
        assert_eq!(
            next.setting.as_ref().map(|setting| setting.name.as_str()),
            Some("max_connections")
        );
        let [demand] = next.demands.as_slice() else { panic!("{next:?}") };
        drop(server);
        assert_eq!((demand.at_most().pages.get(), cluster.pages()), (pages, pages));
        drop(cluster.start(&settings(most - 19)));
    }
}

/// A library takes what it likes: that it took it is known of files that are as they were, here and
/// in a capture, and of a server that says so itself.
#[test]
fn of_postgresql_in_an_exact_pool_by_its_capture() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    let settings = "shared_buffers = 640MB\nhuge_pages = on\nautovacuum = \
         off\nshared_preload_libraries = pg_stat_statements";
    cluster.configure(settings);
    require!(guard.set_pool(PageSize::MIB_2, PageCount(cluster.pages())));
    let server = cluster.start(settings);
    let folder = harness::folder();
    let captured = |name: &str| {
        let target = folder.path().join(name);
        harness::must(Command::new(HUGEWISE).args(["capture", "-o"]).arg(&target));
        after_restart(server.pid, &["--root", target.to_str().unwrap()]).0
    };
    let live = after_restart(server.pid, &[]).0;
    assert_eq!([live.as_str(), &captured("a"), &captured("a.tar.gz")], ["all"; 3]);
    cluster.configure(&format!("{settings}\nwork_mem = 8MB"));
    let live = after_restart(server.pid, &[]).0;
    assert_eq!([live.as_str(), &captured("b"), &captured("b.tar.gz")], ["unknown"; 3]);
    assert_eq!(after_restart(server.pid, &["--connect"]).0, "all", "nothing waits for a start");
    // Of what its libraries take, too: the server knows that it waits for a start, and not how much
    // it is.
    cluster.configure(&format!("{settings}\npg_stat_statements.max = 100000"));
    assert_eq!(after_restart(server.pid, &["--connect"]).0, "unknown");
}

#[test]
fn of_mariadb_whose_pool_was_changed() {
    let installed = require!(mariadb::Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    for pool in [0, 400] {
        require!(guard.set_pool(PageSize::MIB_2, PageCount(pool)));
        let server = installed.start("large_pages");
        assert_eq!(next(server.pid), Observed::Absent);
        installed.configure("large_pages\ninnodb_buffer_pool_size=768M");
        let next = next(server.pid).into_known().expect("another start");
        drop(server);
        require!(guard.set_pool(PageSize::MIB_2, PageCount(700)));
        let server = installed.start("large_pages\ninnodb_buffer_pool_size=768M");
        let taken = harness::kernel::hugetlb_reserved();
        drop(server);
        assert_near(&next, taken);
    }
}

/// Each of these takes what the virtual machine itself takes of a pool that has more.
#[test]
fn of_java_by_what_its_compilers_and_collectors_are_told() {
    let guard = require!(PoolGuard::take_for_test());
    let all = 900;
    require!(guard.set_pool(PageSize::MIB_2, PageCount(all)));
    for flags in [
        "-XX:+UseG1GC -Xmx512m -Xint",
        "-XX:+UseSerialGC -Xmx512m -XX:TieredStopAtLevel=1",
        "-XX:+UseParallelGC -Xmx512m -XX:CompilationMode=high-only",
        "-XX:+UnlockExperimentalVMOptions -XX:+UseEpsilonGC -Xmx512m",
        "-XX:+UseG1GC -Xmx512m -XX:ObjectAlignmentInBytes=16",
        "-XX:+UseG1GC -XX:MaxRAM=2g",
        "-XX:+UseZGC -Xms512m -Xmx512m",
        "-XX:+UseShenandoahGC -Xmx512m",
    ] {
        let folder = harness::folder();
        let flags: Vec<&str> = flags.split(' ').chain(["-XX:+UseLargePages"]).collect();
        let server = require!(jvm::start_as(&folder, &flags));
        let taken = harness::kernel::hugetlb_reserved();
        let described =
            [&["--engine", "jvm", "--", "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"], &flags[..]]
                .concat();
        assert_eq!(crate::real::size::pages(&described), taken, "{flags:?}\n{}", server.log());
    }
}

#[test]
fn a_captured_java_machine_has_the_name_that_it_has_here() {
    let folder = harness::folder();
    let java = require!(harness::program(&[
        "/usr/lib/jvm/java-17-openjdk-amd64/bin/java",
        "/usr/bin/java"
    ]));
    let _guard = require!(PoolGuard::take_for_test());
    let mut command = Command::new(java);
    command.args([
        "-Xmx300m",
        "-XX:+UseSerialGC",
        "-XX:+UseLargePages",
        "-m",
        "java.rmi/sun.rmi.registry.RegistryImpl",
        "0",
    ]);
    let mut server = harness::Server::start(
        &mut command,
        &folder.path().join("log"),
        rustix::process::Signal::TERM,
    );
    server.wait_for("its heap", |pid| {
        harness::kernel::status(pid, "Threads:").filter(|threads| *threads > 8)
    });
    let live = harness::check();
    let name = harness::text(&live.instance("jvm", server.pid)["name"]);
    assert_eq!(name, "java.rmi/sun.rmi.registry.RegistryImpl");
    let archive = folder.path().join("host.tar");
    harness::must(Command::new(HUGEWISE).args(["capture", "-o"]).arg(&archive));
    let there = harness::check_with(&["--root", archive.to_str().unwrap()]);
    assert_eq!(harness::text(&there.instance("jvm", server.pid)["name"]), name);
}

/// A memory cgroup of version 1 or 2 of its own, gone when it is dropped.
struct MemoryCgroup {
    folder: std::path::PathBuf,
    limit: &'static str,
}

impl MemoryCgroup {
    fn new() -> Result<Self, hugewise_testkit::Skip> {
        let places =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (root, limit) in places {
            let folder =
                std::path::PathBuf::from(format!("{root}/hugewise-test-{}", std::process::id()));
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let made = Self { folder, limit };
            if made.folder.join(limit).exists() {
                return Ok(made);
            }
        }
        Err(hugewise_testkit::Skip("no memory cgroup can be made here".into()))
    }

    fn limit_to(&self, bytes: u64) {
        std::fs::write(self.folder.join(self.limit), bytes.to_string()).expect("a limit");
    }

    fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.folder.display())
    }

    /// What OpenJDK itself says its heap will be in here.
    fn heap_of(&self, flags: &[&str]) -> u64 {
        let java = format!(
            "{}; exec java {} -XX:+PrintFlagsFinal -version",
            self.enter(),
            flags.join(" ")
        );
        let output = Command::new("sh").args(["-c", &java]).output().expect("java");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text
            .lines()
            .find(|line| line.contains(" MaxHeapSize "))
            .unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().nth(3).and_then(|size| size.parse().ok()).expect("a size")
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // The last process may take a moment to leave.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// The memory that a machine sees is its cgroup's, then as now.
#[test]
fn of_a_java_machine_whose_cgroup_was_changed() {
    let cgroup = require!(MemoryCgroup::new());
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(700)));
    const GIB: u64 = 1 << 30;
    let flags = [
        "-XX:MaxRAMPercentage=50 -XX:InitialRAMPercentage=50",
        "-XX:+UseParallelGC",
        "-XX:+UseLargePages -XX:+AlwaysPreTouch",
    ];
    cgroup.limit_to(2 * GIB);
    assert_eq!(cgroup.heap_of(&flags), GIB, "half of what its cgroup allows");
    let java = format!(
        "{}; exec java {} -m java.rmi/sun.rmi.registry.RegistryImpl 0",
        cgroup.enter(),
        flags.join(" ")
    );
    let folder = harness::folder();
    let mut command = Command::new("sh");
    command.args(["-c", &java]);
    let mut server = harness::Server::start(
        &mut command,
        &folder.path().join("log"),
        rustix::process::Signal::TERM,
    );
    server.wait_for("its heap", |pid| (harness::kernel::hugetlb_bytes(pid) >= GIB).then_some(()));
    assert_eq!(next(server.pid), Observed::Absent, "the same limit, the same heap");
    // By less than the estimate's error.
    cgroup.limit_to(2 * GIB + GIB / 16);
    assert_eq!(next(server.pid), Observed::Absent, "a little more is no other start");
    cgroup.limit_to(4 * GIB);
    let next = next(server.pid).into_known().expect("another start");
    let heap = cgroup.heap_of(&flags);
    assert_eq!(heap, 2 * GIB);
    let pages: u64 = next.demands.iter().map(|demand| demand.pages.get()).sum();
    let setting = next.setting.as_ref().expect("what decides").to_string();
    assert!(
        setting.contains(cgroup.limit) && setting.contains(&(4 * GIB).to_string()),
        "{setting}"
    );
    drop(server);
    // The truth is what the kernel says is taken once it has started anew.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(1400)));
    let mut command = Command::new("sh");
    command.args(["-c", &java]);
    let mut server = harness::Server::start(
        &mut command,
        &folder.path().join("log2"),
        rustix::process::Signal::TERM,
    );
    server.wait_for("its heap", |pid| (harness::kernel::hugetlb_bytes(pid) >= heap).then_some(()));
    // Reserved pages count: the code cache is taken whole and touched as it fills.
    let count = |name: &str| -> u64 {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}");
        std::fs::read_to_string(path).expect("the pool").trim().parse().expect("a number")
    };
    let truth = count("nr_hugepages") - count("free_hugepages") + count("resv_hugepages");
    assert!(pages.abs_diff(truth) * 100 <= truth * 10, "foretold {pages}, in truth {truth}");
}
