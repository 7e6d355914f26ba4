//! Captured hosts with something more on them: what no captured one has.

use std::path::Path;

use hugewise_diagnose::sizing::Request;
use hugewise_host::Source;
use hugewise_model::PageSize;

use super::world::{World, holds, shown};
use crate::plan::{Change, Plan, PoolRef, Risk, Step};
use crate::planner::{PlanOptions, build_plan};
use hugewise_diagnose::target::to_size;

pub(super) fn source(fixture: &str) -> Box<dyn Source> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(fixture);
    hugewise_host::source::open_source(Some(&path)).unwrap()
}

pub(super) fn defaults() -> (PlanOptions, Request) {
    (PlanOptions::default(), Request::default())
}

pub(super) fn step<'a>(plan: &'a Plan, id: &str) -> &'a Step {
    plan.steps
        .iter()
        .find(|step| step.id == id)
        .unwrap_or_else(|| panic!("no step {id} in\n{}", shown(plan)))
}

pub(super) fn has(plan: &Plan, id: &str) -> bool {
    plan.steps.iter().any(|step| step.id == id)
}

pub(super) fn content(plan: &Plan, path: &str) -> String {
    let file = plan.changes().find_map(|(_, change)| match change {
        Change::File(file) if file.path == path => file.after.as_ref(),
        _ => None,
    });
    let file = file.unwrap_or_else(|| panic!("{path} is not written by\n{}", shown(plan)));
    String::from_utf8(file.content.bytes().to_vec()).unwrap()
}

pub(super) fn commands(step: &Step) -> Vec<String> {
    let command = |change: &Change| match change {
        Change::Command(command) => Some(command.command.join(" ")),
        _ => None,
    };
    step.changes.iter().filter_map(command).collect()
}

/// Has the server of `no-pool-postgresql` take its configuration from where Debian's packages keep
/// it, with `more` in the folder that it includes.
pub(super) fn as_debian_has_it(world: &mut World<'_>, more: &str) {
    const CONFIG: &str = "/etc/postgresql/15/main/postgresql.conf";
    let pid = world.look().instances[0].pid;
    let arguments = format!("/proc/{pid}/cmdline");
    let words = world.text(&arguments).trim_end_matches('\0').to_owned();
    world.put(&arguments, format!("{words}\0-c\0config_file={CONFIG}\0"));
    let text = world.text("/srv/databases/b/main/postgresql.conf");
    world.put(CONFIG, format!("{text}include_dir = 'conf.d'\n"));
    world.put("/etc/postgresql/15/main/conf.d/10.conf", more);
}

/// What a server's own file includes is its owner's word, and no folder for root to write to.
#[test]
fn nothing_is_written_where_a_server_says() {
    let base = source("no-pool-postgresql");
    for folder in ["conf.d", "/etc/ssh/sshd_config.d", "/etc/postgresql/15/main/conf.d"] {
        let config = "/srv/databases/b/main/postgresql.conf";
        let mut world = World::new(&*base);
        world.put(config, format!("{}include_dir = '{folder}'\n", world.text(config)));
        let absolute = if folder.starts_with('/') {
            folder.to_owned()
        } else {
            format!("/srv/databases/b/main/{folder}")
        };
        world.put(&format!("{absolute}/10.conf"), "work_mem = 4MB\n");
        let (options, request) = defaults();
        let (plan, _) = holds("included", &world, &options, &request);
        let written = plan.changes().filter_map(|(_, change)| match change {
            Change::File(file) => Some(file.path.as_str()),
            _ => None,
        });
        assert_eq!(
            written.filter(|path| path.starts_with(&absolute)).count(),
            0,
            "{folder}\n{}",
            shown(&plan)
        );
    }
}

#[test]
fn postgresql_takes_a_drop_in_where_its_configuration_includes_a_folder() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    as_debian_has_it(&mut world, "work_mem = 4MB\n");
    let (options, request) = defaults();
    let (plan, _) = holds("conf.d", &world, &options, &request);
    let text = content(&plan, "/etc/postgresql/15/main/conf.d/zz-hugewise.conf");
    assert_eq!(text, "# Made by hugewise. To undo: hugewise undo\nhuge_pages = on\n");

    // postgresql.auto.conf is read after all of it.
    world.put("/srv/databases/b/main/postgresql.auto.conf", "huge_pages = 'try'\n");
    let (plan, _) = holds("auto.conf", &world, &options, &request);
    let alter = step(&plan, "postgresql-5433");
    let Change::Command(command) = &alter.changes[0] else { panic!("{alter:?}") };
    assert_eq!(
        command.undo.as_ref().unwrap().last().unwrap(),
        "ALTER SYSTEM SET huge_pages = 'try'"
    );
    assert_eq!(command.user.as_deref(), Some("postgres"));

    // The command line is read after that.
    let pid = world.look().instances[0].pid;
    let arguments = format!("/proc/{pid}/cmdline");
    let words = world.text(&arguments).trim_end_matches('\0').to_owned();
    world.put(&arguments, format!("{words}\0-c\0huge_pages=try\0"));
    let (plan, _) = holds("command line", &world, &options, &request);
    assert!(!has(&plan, "postgresql-5433"));
    let by_hand = plan
        .instructions
        .iter()
        .find(|instruction| instruction.title == "postgresql 5433: huge_pages = on")
        .unwrap();
    assert!(by_hand.text.contains("command line has the last word"), "{}", by_hand.text);
}

#[test]
fn a_server_insists_only_where_its_pages_are_sure() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    for options in [
        PlanOptions { keep_partial: true, ..PlanOptions::default() },
        PlanOptions { boot: false, ..PlanOptions::default() },
        PlanOptions { now: false, ..PlanOptions::default() },
    ] {
        let (plan, _) = holds("not sure", &world, &options, &Request::default());
        assert!(!shown(&plan).contains("huge_pages = on"), "{options:?}\n{}", shown(&plan));
    }
    // One that does not ask is set to try then.
    let mut world = world.clone();
    let config = "/srv/databases/b/main/postgresql.conf";
    world.put(config, world.text(config).replace("huge_pages = try", "huge_pages = off"));
    let options = PlanOptions {
        keep_partial: true,
        instances: vec!["5433".into()],
        ..PlanOptions::default()
    };
    let (plan, _) = holds("off", &world, &options, &Request::default());
    assert_eq!(step(&plan, "postgresql-5433").title, "postgresql 5433: huge_pages = try");
}

#[test]
fn a_server_is_restarted_where_it_was_named_and_nowhere_else() {
    let base = source("arm64-64k-pages");
    let mut world = World::new(&*base);
    // Pages of 512 MiB are made of free memory alone.
    let meminfo = world
        .text("/proc/meminfo")
        .replace("MemFree:        12582912 kB", "MemFree:        41943040 kB");
    world.put("/proc/meminfo", &meminfo);
    let options = PlanOptions { restart: vec!["5432".into()], ..PlanOptions::default() };
    let (plan, after) = holds("restart", &world, &options, &Request::default());
    let restart = step(&plan, "restart-postgresql-5432");
    assert_eq!(restart.risk, Risk::Restart);
    assert_eq!(commands(restart), ["/usr/bin/systemctl restart postgresql.service"]);
    assert_eq!(plan.steps.last().unwrap().id, restart.id, "after everything that it needs");
    assert_eq!(after.restarted, ["postgresql.service"]);
    let (plan, _) = holds("no restart", &world, &PlanOptions::default(), &Request::default());
    assert!(plan.steps.iter().all(|step| !step.id.starts_with("restart-")));
    assert!(
        plan.instructions.iter().any(|instruction| instruction.title == "restart postgresql 5432")
    );
}

#[test]
fn names_that_nobody_has_are_refused() {
    let base = source("no-pool-postgresql");
    let seen = World::new(&*base).look();
    for options in [
        PlanOptions { instances: vec!["5434".into()], ..PlanOptions::default() },
        PlanOptions { restart: vec!["5434".into()], ..PlanOptions::default() },
    ] {
        let error =
            build_plan(&seen.host, &seen.instances, &seen.assessment, None, &*base, &options)
                .unwrap_err();
        assert_eq!(error.to_string(), "no instance is called 5434; this host has postgresql 5433");
    }
}

#[test]
fn a_name_that_several_have_means_none_of_them() {
    let base = source("no-pool-postgresql");
    let seen = World::new(&*base).look();
    let one = seen.instances.iter().find(|instance| instance.name == "5433").unwrap();
    let called = |pid: u32, vouched: bool| {
        let mut other = one.clone();
        (other.name, other.pid) = (format!("5433 pid {pid}"), pid);
        other.trusted_by.retain(|_| vouched);
        other
    };
    let options = |name: &str| PlanOptions { restart: vec![name.into()], ..PlanOptions::default() };
    let mut both = [called(7, true), called(8, true)];
    let error =
        crate::planner::mark_named_instances(&mut both, &options("5433")).unwrap_err().to_string();
    let names = "\"postgresql 5433 pid 7\", \"postgresql 5433 pid 8\"";
    assert_eq!(error, format!("several instances are called 5433; choose one: {names}"));
    crate::planner::mark_named_instances(&mut both, &options("5433 pid 8")).unwrap();
    assert_eq!(
        both.map(|instance| instance.trusted_by.last()
            == Some(&hugewise_model::trusted_by::TrustReason::Named)),
        [false, true]
    );

    // A stranger's own word for himself does not name him.
    let mut stranger = [called(9, false)];
    let error = crate::planner::mark_named_instances(&mut stranger, &options("5433"))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("name it with its pid: \"postgresql 5433 pid 9\""), "{error}");
    crate::planner::mark_named_instances(&mut stranger, &options("postgresql 5433 pid 9")).unwrap();
}

#[test]
fn whoever_names_a_server_plans_for_no_other_that_perhaps_never_asks() {
    let base = source("no-pool-postgresql");
    let seen = World::new(&*base).look();
    let named = seen.instances.iter().find(|instance| instance.name == "5433").unwrap();
    let mut other = named.clone();
    (other.name, other.asked) = ("other".into(), hugewise_model::HugePageMode::Unknown);
    let instances = [named.clone(), other];
    let sized = |options: &PlanOptions| {
        let sized = to_size(&seen.host, &instances, &seen.assessment, options.target_wish());
        sized.into_iter().map(|instance| instance.name).collect::<Vec<_>>()
    };
    assert_eq!(
        sized(&PlanOptions { instances: vec!["5433".into()], ..PlanOptions::default() }),
        ["5433"]
    );
    assert_eq!(sized(&PlanOptions::default()), ["5433", "other"]);
}

#[test]
fn pages_on_demand_beyond_the_hosts_memory_are_refused() {
    let base = source("no-pool-postgresql");
    let seen = World::new(&*base).look();
    let overcommit = vec![(PageSize::MIB_2, hugewise_model::PageCount(i64::MAX.unsigned_abs()))];
    let options = PlanOptions { overcommit, ..PlanOptions::default() };
    let error = build_plan(&seen.host, &seen.instances, &seen.assessment, None, &*base, &options)
        .unwrap_err();
    assert!(error.to_string().contains("more than the host's memory"), "{error}");
}

#[test]
fn whoever_may_be_restarted_and_cannot_be_is_named() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let options = PlanOptions { restart: vec!["5433".into()], ..PlanOptions::default() };
    let (plan, _) = holds("no unit", &world, &options, &Request::default());
    let said = "postgresql 5433 is not restarted: no systemd service runs it alone, and it is not \
         a known Debian cluster";
    assert!(plan.warnings.iter().any(|text| text == said), "{}", shown(&plan));
    assert!(
        plan.instructions.iter().any(|instruction| instruction.title == "restart postgresql 5433"),
        "{}",
        shown(&plan)
    );
}

/// Debian's pg_ctlcluster starts no cluster that start.conf disables: whoever stops it has it down.
#[test]
fn a_server_that_nothing_would_start_again_is_not_stopped() {
    let base = source("no-pool-postgresql");
    for (word, restarted) in [("auto", true), ("disabled", false)] {
        let mut world = World::new(&*base);
        as_debian_has_it(&mut world, "huge_pages = try\n");
        world.put("/etc/postgresql/15/main/start.conf", format!("{word}\n"));
        let name = world.look().instances[0].name.clone();
        let options = PlanOptions { restart: vec![name], ..PlanOptions::default() };
        let plan = world.plan(&options, &Request::default());
        let refused =
            plan.warnings.iter().any(|text| text.contains("is not restarted: start.conf=disabled"));
        let any = plan.steps.iter().any(|step| step.id.starts_with("restart-"))
            || plan
                .instructions
                .iter()
                .any(|instruction| instruction.title.starts_with("restart postgresql"));
        assert_eq!((any, refused), (restarted, !restarted), "{word}\n{}", shown(&plan));
    }
}

/// TuneD is to start at the boot and does not run now: no profile is given to it, and `check` says
/// the same as the plan.
#[test]
fn a_profile_that_has_the_last_word_on_thp_is_named_by_check_and_plan() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/tuned/active_profile", "mydb\n");
    world.put(
        "/etc/tuned/mydb/tuned.conf",
        "[main]\nsummary=x\n[vm]\ntransparent_hugepages=always\n",
    );
    let (options, request) = defaults();
    let seen = world.look();
    let finding = seen
        .assessment
        .findings
        .iter()
        .find(|other_finding| other_finding.code.as_str() == "HW602")
        .unwrap();
    let said = "set transparent huge pages to madvise at each boot too: change \
         /etc/tuned/mydb/tuned.conf:4, which has the last \
                word and sets always";
    assert_eq!(finding.fix, [said]);
    let (plan, _) = holds("a profile without TuneD", &world, &options, &request);
    let by_hand = plan
        .instructions
        .iter()
        .find(|instruction| instruction.title.starts_with("transparent huge pages: madvise"))
        .unwrap();
    assert_eq!(
        by_hand.text.trim(),
        "# change /etc/tuned/mydb/tuned.conf:4 to madvise, because it has the last word"
    );
}

#[test]
fn tuned_keeps_thp_through_a_profile_that_includes_the_active_one() {
    let base = source("arm64-64k-pages");
    let mut world = World::new(&*base);
    world.put_process(900, "tuned");
    world.put("/usr/sbin/tuned-adm", "#!/usr/bin/python3\n");
    world.put("/etc/tuned/active_profile", "throughput-performance virtual-guest\n");
    world.put(
        "/usr/lib/tuned/throughput-performance/tuned.conf",
        "[vm]\ntransparent_hugepages=always\n",
    );
    world.put("/usr/lib/tuned/virtual-guest/tuned.conf", "[sysctl]\nvm.dirty_ratio=30\n");
    let (options, request) = defaults();
    let (plan, after) = holds("tuned", &world, &options, &request);
    let thp = step(&plan, "thp");
    assert_eq!(commands(thp), ["/usr/sbin/tuned-adm profile hugewise"]);
    let text = content(&plan, "/etc/tuned/hugewise/tuned.conf");
    assert!(text.contains("include=throughput-performance,virtual-guest\n"), "{text}");
    assert!(text.ends_with("[vm]\ntransparent_hugepages=madvise\n"), "{text}");
    let Some(Change::Command(command)) = thp.changes.last() else { panic!("{thp:?}") };
    assert_eq!(
        command.undo.as_ref().unwrap()[1..],
        ["profile", "throughput-performance", "virtual-guest"].map(String::from)
    );
    let tuned = after.look().host.configuration.tuned.into_known().unwrap();
    assert!(
        tuned.sysctl.iter().any(|sysctl_assignment| sysctl_assignment.key == "vm.dirty_ratio"),
        "what was active stays in force"
    );

    // Another wish later keeps what our profile includes.
    let mut later = after.clone();
    later.put("/etc/tuned/hugewise/tuned.conf", text.replace("madvise", "always"));
    let enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
    later.put(enabled, "[always] madvise never\n");
    let (plan, _) = holds("tuned again", &later, &options, &request);
    assert_eq!(content(&plan, "/etc/tuned/hugewise/tuned.conf"), text);

    // TuneD leaves THP alone where the command line names it.
    world.put("/proc/cmdline", "root=1 transparent_hugepage=always\n");
    let (plan, _) = holds("tuned and command line", &world, &options, &request);
    assert!(commands(step(&plan, "thp")).is_empty(), "{}", shown(&plan));
    assert!(content(&plan, "/etc/tmpfiles.d/00-hugewise-thp.conf").contains("- - - - madvise"));
}

#[test]
fn mariadb_takes_a_drop_in_in_a_folder_that_it_reads() {
    let base = source("idle-pool-mariadb");
    let mut world = World::new(&*base);
    let config = "/srv/databases/my/my.cnf";
    world.put(config, format!("{}\n!includedir /etc/mysql/mariadb.conf.d/\n", world.text(config)));
    world.put("/etc/mysql/mariadb.conf.d/50-server.cnf", "[mariadbd]\nlarge_pages = OFF\n");
    let (options, request) = defaults();
    let (plan, _) = holds("mariadb", &world, &options, &request);
    let text = content(&plan, "/etc/mysql/mariadb.conf.d/zz-hugewise.cnf");
    assert!(text.ends_with("[mysqld]\nlarge_pages = ON\n"), "{text}");
    assert!(
        step(&plan, "mariadb-3306")
            .expects
            .iter()
            .any(|expected_resolution| expected_resolution.code == "HW403")
    );
}

/// Debian's unit has mounts of its own (ProtectSystem=full): the server's files are read below
/// /proc/PID/root, where a drop-in of the plan has to be seen as well.
#[test]
fn mariadb_as_it_is_packaged_takes_a_drop_in_though_its_unit_has_mounts_of_its_own() {
    let base = source("packaged-mariadb");
    let mut world = World::new(&*base);
    let pid = world
        .look()
        .instances
        .iter()
        .find(|instance| instance.title() == "mariadb 3306")
        .unwrap()
        .pid;
    assert!(base.read(&format!("/proc/{pid}/root/etc/mysql/my.cnf")).is_known());
    world.files = world.files.found_by([pid]);
    let (options, request) = defaults();
    let options =
        PlanOptions { instances: vec!["3306".into()], restart: vec!["3306".into()], ..options };
    let (plan, _) = holds("packaged mariadb", &world, &options, &request);
    let text = content(&plan, "/etc/mysql/mariadb.conf.d/zz-hugewise.cnf");
    assert!(text.ends_with("[mysqld]\nlarge_pages = ON\n"), "{text}");
    assert!(has(&plan, "restart-mariadb-3306"), "{}", shown(&plan));
}

#[test]
fn engines_that_disagree_on_thp_meet_at_madvise() {
    let base = source("arm64-64k-pages");
    let mut world = World::new(&*base);
    world.put_process(950, "mongod");
    world.put("/proc/950/cmdline", "/usr/bin/mongod\0--config\0/etc/mongod.conf\0");
    let seen = world.look();
    let found =
        seen.instances.iter().any(|instance| instance.engine == hugewise_model::Engine::MongoDb);
    assert!(found, "the stand-in for MongoDB is not taken for one");
    let (options, request) = defaults();
    // Its version is in no file: its wish is not guessed.
    let (plan, _) = holds("mongodb", &world, &options, &request);
    assert!(
        plan.warnings.iter().any(|text| text.contains("makes of THP: its version is not known")),
        "{}",
        shown(&plan)
    );
    assert_eq!(step(&plan, "thp").title, "transparent huge pages: madvise");
}

#[test]
fn only_what_was_named_is_planned_for() {
    let base = source("two-clusters-one-too-big");
    let world = World::new(&*base);
    let options = PlanOptions { instances: vec!["15/main".into()], ..PlanOptions::default() };
    let (plan, _) = holds("named", &world, &options, &Request::default());
    assert!(!shown(&plan).contains("postgresql-5433"), "{}", shown(&plan));
    let seen = world.look();
    let both = to_size(&seen.host, &seen.instances, &seen.assessment, options.target_wish());
    assert_eq!(both.len(), 2, "the other one asks for pages of the same pool");
}

#[test]
fn pages_of_another_size_for_now_alone_are_not_given_back_by_the_next_plan() {
    let base = source("two-clusters-one-too-big");
    let world = World::new(&*base);
    let page_size = Some(PageSize::GIB_1);
    let options = PlanOptions { page_size, shrink: true, boot: false, ..PlanOptions::default() };
    let request = Request {
        page_size: hugewise_diagnose::sizing::PageSizeChoice::Size(PageSize::GIB_1),
        ..Request::default()
    };
    holds("1 GiB, shrunk, now alone", &world, &options, &request);
}

#[test]
fn a_page_size_is_not_forced_on_a_server_that_cannot_take_it() {
    let base = source("idle-pool-mariadb");
    let world = World::new(&*base);
    let mut options = PlanOptions { page_size: Some(PageSize::GIB_1), ..PlanOptions::default() };
    let (plan, _) = holds("1 GiB for MariaDB", &world, &options, &Request::default());
    assert!(plan.steps.is_empty(), "{}", shown(&plan));
    assert!(
        plan.warnings
            .iter()
            .any(|text| text.starts_with("mariadb 3306 can use only the default page size"))
    );
    options.instances = vec!["3306".into()];
    let seen = world.look();
    let error = crate::planner::build_plan(
        &seen.host,
        &seen.instances,
        &seen.assessment,
        None,
        &world.files,
        &options,
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "mariadb 3306 can use only the default page size, not 1 GiB"
    );
}

#[test]
fn a_size_of_thp_that_is_always_follows_the_top_switch_again() {
    let base = source("two-clusters-one-too-big");
    let mut world = World::new(&*base);
    let file = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
    world.put(file, "[always] inherit madvise never\n");
    let (options, request) = defaults();
    let (plan, after) = holds("a size", &world, &options, &request);
    assert!(
        step(&plan, "thp")
            .expects
            .iter()
            .any(|expected_resolution| expected_resolution.code == "HW501")
    );
    assert_eq!(after.text(file), "always [inherit] madvise never\n");
    assert!(
        content(&plan, "/etc/tmpfiles.d/00-hugewise-thp.conf")
            .contains(&format!("w {file} - - - - inherit\n"))
    );
}

#[test]
fn a_java_heap_is_asked_for_by_hand() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.put_process(950, "java");
    world.put("/proc/950/cmdline", "/usr/bin/java\0-Xms4g\0-Xmx4g\0-jar\0app.jar\0");
    world.put("/proc/950/maps", "700000000-800000000 rw-p 00000000 00:00 0 \n");
    let found = world
        .look()
        .instances
        .into_iter()
        .find(|instance| instance.engine == hugewise_model::Engine::Jvm);
    let found = found.expect("a JVM");
    let options = PlanOptions { instances: vec![found.title()], ..PlanOptions::default() };
    let (plan, _) = holds("java", &world, &options, &Request::default());
    let by_hand = plan
        .instructions
        .iter()
        .find(|instruction| instruction.title.ends_with("have it ask for huge pages"))
        .unwrap();
    assert!(by_hand.text.contains("-XX:+UseLargePages"), "{}", by_hand.text);
    assert!(has(&plan, "pool-2M-now"), "{}", shown(&plan));
}

#[test]
fn what_copies_the_settings_or_shares_the_pools_is_warned_of() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/proc/cmdline", "quiet crashkernel=512M\n");
    world.put("/etc/rear/local.conf", "OUTPUT=ISO\n");
    world.put_process(950, "kubelet");
    let (options, request) = defaults();
    let (plan, _) = holds("copies", &world, &options, &request);
    for start in [
        "the kdump image copies",
        "the rescue image (ReaR) copies",
        "an image of this host",
        "kubelet",
    ] {
        assert!(
            plan.warnings.iter().any(|text| text.starts_with(start)),
            "{start}\n{}",
            shown(&plan)
        );
    }
}

#[test]
fn a_server_that_does_not_ask_is_left_alone_and_named() {
    let base = source("idle-pool-mariadb");
    let mut world = World::new(&*base);
    let pool = PoolRef { page_size: PageSize::MIB_2, node: None };
    world.set_pool(pool, 0);
    let (options, request) = defaults();
    let (plan, _) = holds("not asking", &world, &options, &request);
    assert!(plan.steps.is_empty(), "{}", shown(&plan));
    let warning = "mariadb 3306 does not ask for huge pages, so the plan leaves it alone; \
         --instance 3306 includes it";
    let named = |plan: &Plan| plan.warnings.iter().any(|text| text == warning);
    assert!(named(&plan), "{}", shown(&plan));
    let options = PlanOptions { instances: vec!["3306".into()], ..options };
    let (plan, _) = holds("asked for", &world, &options, &request);
    assert!(!plan.steps.is_empty() && !named(&plan), "{}", shown(&plan));
}

/// 128 MiB: `check` shows that it has no huge pages, and a plan without a word would contradict it.
#[test]
fn a_server_that_is_small_is_left_alone_and_named() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    let listed = base.list_folder("/proc");
    for path in listed.as_known().unwrap().iter().map(|pid| format!("/proc/{pid}/maps")) {
        let Some(maps) =
            base.read(&path).as_known().map(|maps| String::from_utf8(maps.to_vec()).unwrap())
        else {
            continue;
        };
        world.put(&path, maps.replace("7f5f720e6000-7f5fb523e000", "7f5f720e6000-7f5f7a0e6000"));
    }
    world.put("/srv/databases/b/main/postgresql.conf", "shared_buffers = 120MB\n");
    let (options, request) = defaults();
    let (plan, _) = holds("small", &world, &options, &request);
    let warning = "postgresql 5433 has less than 256.0 MiB on base pages, so no huge pages are \
         planned for it; --instance 5433 \
                   includes it";
    let named = |plan: &Plan| plan.warnings.iter().any(|text| text == warning);
    assert!(plan.steps.is_empty() && named(&plan), "{}", shown(&plan));
    let options = PlanOptions { instances: vec!["5433".into()], ..options };
    let (plan, _) = holds("small and named", &world, &options, &request);
    assert!(has(&plan, "pool-2M-now") && !named(&plan), "{}", shown(&plan));
}

/// The pages that it would take are given back: it is not told to ask for them in the same plan.
#[test]
fn nobody_is_told_to_ask_for_pages_that_are_given_back() {
    let base = source("idle-pool-mariadb");
    let options = PlanOptions { shrink: true, ..PlanOptions::default() };
    let (plan, _) = holds("given back", &World::new(&*base), &options, &Request::default());
    assert!(has(&plan, "pool-2M-now") && plan.instructions.is_empty(), "{}", shown(&plan));
    assert!(
        plan.warnings.iter().any(|text| text.contains("--instance 3306 includes it")),
        "{}",
        shown(&plan)
    );
    // Named, it is to have them, and the pool keeps them.
    let options = PlanOptions { instances: vec!["3306".into()], ..options };
    let (plan, _) = holds("kept", &World::new(&*base), &options, &Request::default());
    assert!(
        plan.instructions.iter().any(|instruction| instruction.text.contains("large-pages = ON")),
        "{}",
        shown(&plan)
    );
}

#[test]
fn a_right_to_pages_that_are_there_already_is_worth_a_restart() {
    let base = source("rhel7-oracle-memlock");
    let mut world = World::new(&*base);
    // A kernel that goes by the group; and pages of a size that Oracle does not take are asked for.
    world.put("/proc/sys/kernel/osrelease", "5.15.0-101.el9uek.x86_64\n");
    let options = PlanOptions { page_size: Some(PageSize::GIB_1), ..PlanOptions::default() };
    let (plan, _) = holds("group alone", &world, &options, &Request::default());
    assert!(has(&plan, "shm-group"), "{}", shown(&plan));
    assert!(
        plan.instructions.iter().any(|instruction| instruction.title == "restart oracle ERP"),
        "{}",
        shown(&plan)
    );
}
