//! Captured hosts with something more on them: what no captured one has.

use std::path::Path;

use hugewise_advice::sizing::{PageSizeChoice, Request};
use hugewise_host::Source;
use hugewise_model::{PageCount, PageSize};

use super::world::{World, holds, shown};
use crate::plan::{Change, Plan, Risk, Step};
use crate::planner::{Options, PlanError, plan, to_size};

fn source(fixture: &str) -> Box<dyn Source> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(fixture);
    hugewise_host::source::open(Some(&path)).unwrap()
}

fn defaults() -> (Options, Request) {
    (Options::default(), Request::default())
}

fn step<'a>(plan: &'a Plan, id: &str) -> &'a Step {
    plan.steps.iter().find(|step| step.id == id).unwrap_or_else(|| panic!("no step {id} in\n{}", shown(plan)))
}

fn has(plan: &Plan, id: &str) -> bool {
    plan.steps.iter().any(|step| step.id == id)
}

fn content(plan: &Plan, path: &str) -> String {
    let file = plan.changes().find_map(|(_, change)| match change {
        Change::File(file) if file.path == path => file.after.as_ref(),
        _ => None,
    });
    let file = file.unwrap_or_else(|| panic!("{path} is not written by\n{}", shown(plan)));
    String::from_utf8(file.content.bytes().to_vec()).unwrap()
}

fn commands(step: &Step) -> Vec<String> {
    let command = |change: &Change| match change {
        Change::Command(command) => Some(command.command.join(" ")),
        _ => None,
    };
    step.changes.iter().filter_map(command).collect()
}

#[test]
fn a_file_that_has_the_last_word_is_named_with_its_line() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/zzz-other.conf", "# theirs\nvm.nr_hugepages=8\n");
    let (options, request) = defaults();
    let (plan, _) = holds("zzz", &world, &options, &request);
    let warning = "/etc/sysctl.d/zzz-other.conf:2 has the last word on the 2 MiB pool of the next boot; \
                   take that line out and plan again";
    assert!(plan.warnings.iter().any(|it| it == warning), "{}", shown(&plan));
    // A server that insists would not start after the next boot.
    assert!(!has(&plan, "postgresql-5433"), "{}", shown(&plan));
}

#[test]
fn a_file_that_sorts_before_ours_is_overruled() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/99-theirs.conf", "vm.nr_hugepages=8\n");
    world.put("/usr/lib/tmpfiles.d/theirs.conf", "w /proc/sys/vm/nr_hugepages - - - - 9\n");
    let (options, request) = defaults();
    let (plan, after) = holds("99", &world, &options, &request);
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(537));
    let lines = content(&plan, "/etc/tmpfiles.d/00-hugewise-pools.conf");
    assert!(lines.ends_with("w /proc/sys/vm/nr_hugepages - - - - 537\n"), "{lines}");
}

#[test]
fn somebody_elses_file_of_our_name_is_left_alone() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/zz-hugewise-pool.conf", "vm.nr_hugepages=8\n");
    let (options, request) = defaults();
    let (plan, after) = holds("not ours", &world, &options, &request);
    assert_eq!(after.text("/etc/sysctl.d/zz-hugewise-pool.conf"), "vm.nr_hugepages=8\n");
    assert!(plan.warnings.iter().any(|it| it.contains("was not made by hugewise")), "{}", shown(&plan));
}

#[test]
fn postgresql_takes_a_drop_in_where_its_configuration_includes_a_folder() {
    let base = source("no-pool-postgresql");
    let config = "/srv/databases/b/main/postgresql.conf";
    let mut world = World::new(&*base);
    world.put(config, format!("{}include_dir = 'conf.d'\n", world.text(config)));
    world.put("/srv/databases/b/main/conf.d/10.conf", "work_mem = 4MB\n");
    let (options, request) = defaults();
    let (plan, _) = holds("conf.d", &world, &options, &request);
    let text = content(&plan, "/srv/databases/b/main/conf.d/zz-hugewise.conf");
    assert_eq!(text, "# Made by hugewise. To take it back: hugewise undo\nhuge_pages = on\n");

    // postgresql.auto.conf is read after all of it.
    world.put("/srv/databases/b/main/postgresql.auto.conf", "huge_pages = 'try'\n");
    let (plan, _) = holds("auto.conf", &world, &options, &request);
    let alter = step(&plan, "postgresql-5433");
    let Change::Command(command) = &alter.changes[0] else { panic!("{alter:?}") };
    assert_eq!(command.undo.as_ref().unwrap().last().unwrap(), "ALTER SYSTEM SET huge_pages = 'try'");
    assert_eq!(command.user.as_deref(), Some("postgres"));

    // The command line is read after that.
    let pid = world.look().instances[0].pid;
    let arguments = format!("/proc/{pid}/cmdline");
    let words = world.text(&arguments).trim_end_matches('\0').to_owned();
    world.put(&arguments, format!("{words}\0-c\0huge_pages=try\0"));
    let (plan, _) = holds("command line", &world, &options, &request);
    assert!(!has(&plan, "postgresql-5433"));
    let by_hand = plan.instructions.iter().find(|it| it.title == "postgresql 5433: huge_pages = on").unwrap();
    assert!(by_hand.text.contains("command line has the last word"), "{}", by_hand.text);
}

#[test]
fn a_server_insists_only_where_its_pages_are_sure() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    for options in [
        Options { keep_partial: true, ..Options::default() },
        Options { boot: false, ..Options::default() },
        Options { now: false, ..Options::default() },
    ] {
        let (plan, _) = holds("not sure", &world, &options, &Request::default());
        assert!(!shown(&plan).contains("huge_pages = on"), "{options:?}\n{}", shown(&plan));
    }
    // One that does not ask is set to try then.
    let mut world = world.clone();
    let config = "/srv/databases/b/main/postgresql.conf";
    world.put(config, world.text(config).replace("huge_pages = try", "huge_pages = off"));
    let options = Options { keep_partial: true, instances: vec!["5433".into()], ..Options::default() };
    let (plan, _) = holds("off", &world, &options, &Request::default());
    assert_eq!(step(&plan, "postgresql-5433").title, "postgresql 5433: huge_pages = try");
}

#[test]
fn a_server_is_restarted_where_it_was_named_and_nowhere_else() {
    let base = source("arm64-64k-pages");
    let world = World::new(&*base);
    let options = Options { restart: vec!["5432".into()], ..Options::default() };
    let (plan, after) = holds("restart", &world, &options, &Request::default());
    let restart = step(&plan, "restart-postgresql-5432");
    assert_eq!(restart.risk, Risk::Restart);
    assert_eq!(commands(restart), ["/usr/bin/systemctl restart postgresql.service"]);
    assert_eq!(plan.steps.last().unwrap().id, restart.id, "after everything that it needs");
    assert_eq!(after.restarted, ["postgresql.service"]);
    let (plan, _) = holds("no restart", &world, &Options::default(), &Request::default());
    assert!(plan.steps.iter().all(|step| !step.id.starts_with("restart-")));
    assert!(plan.instructions.iter().any(|it| it.title == "restart postgresql 5432"));
}

#[test]
fn names_that_nobody_has_are_refused() {
    let base = source("no-pool-postgresql");
    let seen = World::new(&*base).look();
    for options in [
        Options { instances: vec!["5434".into()], ..Options::default() },
        Options { restart: vec!["5434".into()], ..Options::default() },
    ] {
        let error = plan(&seen.host, &seen.instances, &seen.assessment, None, &*base, &options).unwrap_err();
        assert_eq!(error.to_string(), "no instance 5434: here are postgresql 5433");
    }
}

fn gib_pages_at_boot() -> Options {
    Options { page_size: Some(PageSize::GIB_1), now: false, ..Options::default() }
}

#[test]
fn pages_of_1_gib_go_on_the_command_line_through_grubs_drop_in() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    let options = gib_pages_at_boot();
    let (plan, after) = holds("grub", &world, &options, &Request::default());
    let boot = step(&plan, "pools-command-line");
    assert_eq!(boot.risk, Risk::Reboot);
    assert_eq!(commands(boot), ["/usr/sbin/update-grub"]);
    assert_eq!(
        content(&plan, "/etc/default/grub.d/zz-hugewise.cfg"),
        "# Made by hugewise. To take it back: hugewise undo\n\
         GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepagesz=1G hugepages=2\"\n"
    );
    assert_eq!(after.pages_after_boot(PageSize::GIB_1), PageCount(2));
    assert!(after.text("/boot/grub/grub.cfg").contains("quiet hugepagesz=1G hugepages=2\n"));
    // The server has to ask for them.
    let (plan, _) = holds("grub and server", &world, &Options { now: true, ..options }, &Request::default());
    assert!(shown(&plan).contains("huge_page_size = 1GB"), "{}", shown(&plan));
}

#[test]
fn words_of_others_for_the_same_size_are_not_fought() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("hugepagesz=1G hugepages=1");
    let options = gib_pages_at_boot();
    let (plan, _) = holds("collision", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    let by_hand = plan.instructions.iter().find(|it| it.title.contains("command line")).unwrap();
    assert!(by_hand.text.contains("/boot/grub/grub.cfg:2 names pages of 1 GiB already"), "{}", by_hand.text);
}

#[test]
fn a_later_drop_in_that_forgets_what_was_there_is_found() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    world.put("/etc/default/grub.d/zzz.cfg", "GRUB_CMDLINE_LINUX=\"console=ttyS0\"\n");
    let options = gib_pages_at_boot();
    let (plan, _) = holds("later drop-in", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    assert!(shown(&plan).contains("/etc/default/grub.d/zzz.cfg is read after"), "{}", shown(&plan));
}

#[test]
fn a_missing_update_grub_is_replaced_by_grub_mkconfig() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    world.files.set("/usr/sbin/update-grub", None);
    let options = gib_pages_at_boot();
    let (plan, _) = holds("no update-grub", &world, &options, &Request::default());
    assert_eq!(commands(step(&plan, "pools-command-line")), ["/usr/sbin/grub-mkconfig -o /boot/grub/grub.cfg"]);
    world.put("/usr/sbin/grub-mkconfig", "# upstream's, which reads /etc/default/grub alone\n");
    let (plan, _) = holds("no drop-ins", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    assert!(shown(&plan).contains("grub-mkconfig reads no drop-ins here"), "{}", shown(&plan));
}

#[test]
fn red_hat_keeps_its_command_lines_through_grubby() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/boot/grub2/grub.cfg", "blscfg\n");
    let entry = "title Linux\nversion 6.1\nlinux /vmlinuz\noptions root=1 ro\n";
    world.put("/boot/loader/entries/m-6.1.conf", entry);
    world.put("/usr/sbin/grubby", "ELF");
    world.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    let options = gib_pages_at_boot();
    let (plan, after) = holds("grubby", &world, &options, &Request::default());
    let boot = step(&plan, "pools-command-line");
    let Change::Command(command) = &boot.changes[0] else { panic!("{boot:?}") };
    assert_eq!(command.command, ["/usr/sbin/grubby", "--update-kernel=ALL", "--args=hugepagesz=1G hugepages=2"]);
    assert_eq!(command.files, ["/boot/loader/entries/m-6.1.conf", "/etc/default/grub"]);
    assert_eq!(after.pages_after_boot(PageSize::GIB_1), PageCount(2));
}

#[test]
fn systemd_boots_command_line_is_not_ours_to_write() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/efi/loader/loader.conf", "default *\n");
    world.put("/efi/loader/entries/debian.conf", "title Debian\nversion 6.1\nlinux /vmlinuz\noptions root=1\n");
    let options = gib_pages_at_boot();
    let (plan, _) = holds("systemd-boot", &world, &options, &Request::default());
    let by_hand = plan.instructions.iter().find(|it| it.title.contains("command line")).unwrap();
    assert!(by_hand.text.contains("hugepagesz=1G hugepages=2"), "{}", by_hand.text);
    assert!(by_hand.text.contains("systemd-boot takes its command line from"), "{}", by_hand.text);
    // tmpfiles.d tries, early in the boot.
    let lines = content(&plan, "/etc/tmpfiles.d/00-hugewise-pools.conf");
    assert!(lines.contains("w /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages - - - - 2\n"), "{lines}");
}

#[test]
fn a_processor_without_1_gib_pages_is_refused_them_with_the_reason() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    let cpuinfo = world.text("/proc/cpuinfo").replace(" pdpe1gb", "");
    world.put("/proc/cpuinfo", cpuinfo);
    let seen = world.look();
    let page_size = Some(PageSize::GIB_1);
    let options = Options { instances: vec!["5433".into()], page_size, ..Options::default() };
    assert_eq!(crate::planner::check(&seen.host, &seen.instances, &options), Err(PlanError::NoGibPages));
    // Where a sizing chose them all the same.
    let request = Request { page_size: PageSizeChoice::Size(PageSize::GIB_1), ..Request::default() };
    let sizing = seen.sizing(&options, &request);
    let options = Options { page_size: None, ..options };
    let error = plan(&seen.host, &seen.instances, &seen.assessment, sizing.as_ref(), &world.files, &options);
    assert_eq!(error, Err(PlanError::NoGibPages));
    assert!(PlanError::NoGibPages.to_string().contains("pdpe1gb"));
}

#[test]
fn early_reservation_takes_the_default_size_to_the_command_line() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    let options = Options { early: true, ..Options::default() };
    let (plan, after) = holds("early", &world, &options, &Request::default());
    assert!(content(&plan, "/etc/default/grub.d/zz-hugewise.cfg").contains("hugepagesz=2M hugepages=537"));
    assert!(!has(&plan, "pools-boot"), "{}", shown(&plan));
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(537));
    // Where a file has another number, it comes after the command line: it has to say the same.
    world.put("/etc/sysctl.d/50.conf", "vm.nr_hugepages = 1\n");
    let (plan, after) = holds("early and sysctl", &world, &options, &Request::default());
    assert!(has(&plan, "pools-boot"), "{}", shown(&plan));
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(537));
}

#[test]
fn tuned_keeps_thp_through_a_profile_that_includes_the_active_one() {
    let base = source("arm64-64k-pages");
    let mut world = World::new(&*base);
    world.put_process(900, "tuned");
    world.put("/usr/sbin/tuned-adm", "#!/usr/bin/python3\n");
    world.put("/etc/tuned/active_profile", "throughput-performance virtual-guest\n");
    world.put("/usr/lib/tuned/throughput-performance/tuned.conf", "[vm]\ntransparent_hugepages=always\n");
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
    assert!(tuned.sysctl.iter().any(|it| it.key == "vm.dirty_ratio"), "what was active stays in force");

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
    world.put(config, format!("{}\n!includedir /srv/databases/my/conf.d/\n", world.text(config)));
    world.put("/srv/databases/my/conf.d/50-server.cnf", "[mariadbd]\nlarge_pages = OFF\n");
    let (options, request) = defaults();
    let (plan, _) = holds("mariadb", &world, &options, &request);
    let text = content(&plan, "/srv/databases/my/conf.d/zz-hugewise.cnf");
    assert!(text.ends_with("[mysqld]\nlarge_pages = ON\n"), "{text}");
    assert!(step(&plan, "mariadb-3306").expects.iter().any(|it| it.code == "HW403"));
}

#[test]
fn memlock_is_set_for_log_ins_and_for_the_unit() {
    let base = source("rhel7-oracle-memlock");
    let mut world = World::new(&*base);
    world.files.set("/etc/security/limits.conf", None);
    let (options, request) = defaults();
    let (plan, _) = holds("memlock", &world, &options, &request);
    let text = content(&plan, "/etc/security/limits.d/zz-hugewise.conf");
    assert!(text.ends_with("\noracle - memlock unlimited\n"), "{text}");
    assert_eq!(
        content(&plan, "/etc/systemd/system/dbora.service.d/zz-hugewise.conf"),
        "# Made by hugewise. To take it back: hugewise undo\n[Service]\nLimitMEMLOCK=infinity\n"
    );
    assert_eq!(commands(step(&plan, "memlock-dbora.service")), ["/usr/bin/systemctl daemon-reload"]);

    world.put("/etc/systemd/system/dbora.service.d/zzz.conf", "[Service]\nLimitMEMLOCK=64K\n");
    let (plan, _) = holds("memlock overridden", &world, &options, &request);
    assert!(!has(&plan, "memlock-dbora.service"));
    let place = "/etc/systemd/system/dbora.service.d/zzz.conf:2";
    assert!(plan.warnings.iter().any(|it| it.starts_with(place)), "{}", shown(&plan));
}

#[test]
fn a_group_that_others_use_already_is_not_taken_from_them() {
    let base = source("oracle-many-sessions");
    let mut world = World::new(&*base);
    world.put("/proc/sys/vm/hugetlb_shm_group", "500\n");
    let (options, request) = defaults();
    let (plan, _) = holds("group", &world, &options, &request);
    assert!(!has(&plan, "shm-group"));
    let by_hand = plan.instructions.iter().find(|it| it.text.contains("usermod -aG")).unwrap();
    assert!(by_hand.text.contains("usermod -aG 500 oracle") || by_hand.text.contains("usermod -aG hugepages oracle"));
}

#[test]
fn shared_memory_limits_grow_with_what_is_planned() {
    let base = source("rhel7-oracle-memlock");
    let mut world = World::new(&*base);
    world.put("/proc/sys/kernel/shmmax", "1073741824\n");
    world.put("/proc/sys/kernel/shmall", "4194304\n");
    let (options, request) = defaults();
    let (plan, after) = holds("shm limits", &world, &options, &request);
    let limits = step(&plan, "shm-limits");
    assert!(limits.expects.iter().any(|it| it.code == "HW304"), "{}", shown(&plan));
    let settings = after.look().host.kernel_settings;
    let largest = after.look().instances[0].segments.iter().map(|segment| segment.size).max().unwrap();
    assert!(settings.shmmax.get().unwrap() >= largest);
}

#[test]
fn pages_on_demand_are_set_and_kept() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let overcommit = vec![(PageSize::MIB_2, PageCount(100)), (PageSize::GIB_1, PageCount(1))];
    let options = Options { overcommit, ..Options::default() };
    let (plan, _) = holds("overcommit", &world, &options, &Request::default());
    assert!(
        content(&plan, "/etc/sysctl.d/zz-hugewise-overcommit.conf").ends_with("vm.nr_overcommit_hugepages = 100\n")
    );
    let file = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_overcommit_hugepages";
    assert!(content(&plan, "/etc/tmpfiles.d/00-hugewise-overcommit.conf").contains(&format!("w {file} - - - - 1\n")));
}

#[test]
fn engines_that_disagree_on_thp_meet_at_madvise() {
    let base = source("arm64-64k-pages");
    let mut world = World::new(&*base);
    world.put_process(950, "mongod");
    world.put("/proc/950/cmdline", "/usr/bin/mongod\0--config\0/etc/mongod.conf\0");
    let seen = world.look();
    let found = seen.instances.iter().any(|it| it.engine == hugewise_model::Engine::MongoDb);
    assert!(found, "the stand-in for MongoDB is not taken for one");
    let (options, request) = defaults();
    // Its version is in no file: its wish is not guessed.
    let (plan, _) = holds("mongodb", &world, &options, &request);
    assert!(plan.warnings.iter().any(|it| it.contains("version of mongodb")), "{}", shown(&plan));
    assert_eq!(step(&plan, "thp").title, "transparent huge pages: madvise");
}

#[test]
fn only_what_was_named_is_planned_for() {
    let base = source("two-clusters-one-too-big");
    let world = World::new(&*base);
    let options = Options { instances: vec!["15/main".into()], ..Options::default() };
    let (plan, _) = holds("named", &world, &options, &Request::default());
    assert!(!shown(&plan).contains("postgresql-5433"), "{}", shown(&plan));
    let seen = world.look();
    let both = to_size(&seen.instances, &seen.assessment, &options);
    assert_eq!(both.len(), 2, "the other one asks for pages of the same pool");
}

#[test]
fn a_page_size_is_not_forced_on_a_server_that_cannot_take_it() {
    let base = source("idle-pool-mariadb");
    let world = World::new(&*base);
    let mut options = Options { page_size: Some(PageSize::GIB_1), ..Options::default() };
    let (plan, _) = holds("1 GiB for MariaDB", &world, &options, &Request::default());
    assert!(plan.steps.is_empty(), "{}", shown(&plan));
    assert!(plan.warnings.iter().any(|it| it.starts_with("mariadb 3306 takes pages of the default size alone")));
    options.instances = vec!["3306".into()];
    let seen = world.look();
    let error = crate::planner::plan(&seen.host, &seen.instances, &seen.assessment, None, &world.files, &options);
    assert_eq!(error.unwrap_err().to_string(), "mariadb 3306 takes pages of the default size alone: none of 1 GiB");
}
