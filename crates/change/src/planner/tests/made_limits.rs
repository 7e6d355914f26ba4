//! Limits and groups, on captured hosts with something more on them.

use hugewise_diagnose::boot::{self, ShmLimit};

use super::made_hosts::{commands, content, defaults, has, source, step};
use super::world::{World, holds, shown};

#[test]
fn memlock_is_set_for_log_ins_and_for_the_unit() {
    let base = source("rhel7-oracle-memlock");
    let mut world = World::new(&*base);
    world.files.set_file("/etc/security/limits.conf", None);
    let (options, request) = defaults();
    let (plan, _) = holds("memlock", &world, &options, &request);
    let text = content(&plan, "/etc/security/limits.d/zz-hugewise.conf");
    assert!(text.ends_with("\noracle - memlock unlimited\n"), "{text}");
    assert_eq!(
        content(&plan, "/etc/systemd/system/dbora.service.d/zz-hugewise.conf"),
        "# Made by hugewise. To undo: hugewise undo\n[Service]\nLimitMEMLOCK=infinity\n"
    );
    assert_eq!(
        commands(step(&plan, "memlock-dbora.service")),
        ["/usr/bin/systemctl daemon-reload"]
    );

    world.put("/etc/systemd/system/dbora.service.d/zzz.conf", "[Service]\nLimitMEMLOCK=64K\n");
    let (plan, _) = holds("memlock overridden", &world, &options, &request);
    assert!(!has(&plan, "memlock-dbora.service"));
    let place = "/etc/systemd/system/dbora.service.d/zzz.conf:2";
    assert!(plan.warnings.iter().any(|text| text.starts_with(place)), "{}", shown(&plan));
}

/// A line that has the last word on the pool keeps the boot from bringing all pages: a limit costs
/// nothing, and with use_large_pages=ONLY its server would be down without.
#[test]
fn memlock_is_set_whoever_has_the_last_word_on_the_pool() {
    let base = source("rhel7-oracle-memlock");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/zzz-last.conf", "vm.nr_hugepages = 4000\n");
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    let by_hand = "zzz-last.conf:1, which has the last word";
    assert!(
        plan.instructions.iter().any(|instruction| instruction.title.contains(by_hand)),
        "{}",
        shown(&plan)
    );
    assert!(has(&plan, "memlock-dbora.service"), "{}", shown(&plan));
}

/// A limit that stands in a file which systemd has yet to load helps no restart.
#[test]
fn a_unit_that_systemd_has_yet_to_load_is_loaded() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/rhel7-oracle-memlock");
    let unit = "/etc/systemd/system/dbora.service";
    for (after, expected) in [(true, &["/usr/bin/systemctl daemon-reload"][..]), (false, &[])] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("host");
        let copied =
            std::process::Command::new("cp").arg("-r").arg(fixture).arg(&root).status().unwrap();
        assert!(copied.success());
        let note = serde_json::json!({
            "schema": "hugewise.capture/1",
            "changed_since_start": { "4100": { unit: true, "/run/systemd/systemd-units-load": false } },
            "changed_after": { "/run/systemd/systemd-units-load": { unit: after } },
        });
        std::fs::create_dir_all(root.join("hugewise")).unwrap();
        std::fs::write(root.join("hugewise/capture.json"), note.to_string()).unwrap();
        let text = std::fs::read_to_string(root.join(&unit[1..])).unwrap();
        std::fs::write(
            root.join(&unit[1..]),
            format!("{text}\n[Service]\nLimitMEMLOCK=infinity\n"),
        )
        .unwrap();
        let base = hugewise_host::source::FolderSource::open(&root).unwrap();
        let world = World::new(&base);
        let (options, request) = defaults();
        let (plan, _) = holds("a unit not yet loaded", &world, &options, &request);
        let steps = plan.steps.iter().filter(|step| step.id == "memlock-dbora.service");
        assert_eq!(steps.flat_map(commands).collect::<Vec<_>>(), expected, "{}", shown(&plan));
    }
}

#[test]
fn a_group_that_others_use_already_is_not_taken_from_them() {
    let base = source("oracle-many-sessions");
    let mut world = World::new(&*base);
    world.put("/proc/sys/vm/hugetlb_shm_group", "500\n");
    let (options, request) = defaults();
    let (plan, _) = holds("group", &world, &options, &request);
    assert!(!has(&plan, "shm-group"));
    let by_hand = plan
        .instructions
        .iter()
        .find(|instruction| instruction.text.contains("usermod -aG"))
        .unwrap();
    assert!(
        by_hand.text.contains("usermod -aG 500 oracle")
            || by_hand.text.contains("usermod -aG hugepages oracle")
    );
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
    assert!(
        limits.expects.iter().any(|expected_resolution| expected_resolution.code == "HW304"),
        "{}",
        shown(&plan)
    );
    let settings = after.look().host.kernel_settings;
    let largest =
        after.look().instances[0].segments.iter().map(|segment| segment.size).max().unwrap();
    assert!(settings.shmmax.get().unwrap() >= largest);
}

#[test]
fn what_the_boot_allows_beyond_the_need_of_now_stays() {
    let base = source("rhel7-oracle-memlock");
    let mut world = World::new(&*base);
    world.put("/proc/sys/kernel/shmmax", "1073741824\n");
    world.put("/proc/sys/kernel/shmall", "4194304\n");
    let files = "kernel.shmmax = 4398046511104\nkernel.shmall = 1073741824\n";
    world.put("/etc/sysctl.d/99-zzz.conf", files);
    let (options, request) = defaults();
    let (_, after) = holds("shm limits of the boot", &world, &options, &request);
    let host = after.look().host;
    assert_eq!(host.kernel_settings.shmmax.get().unwrap().get(), 4_398_046_511_104);
    for (limit, expected) in
        [(ShmLimit::Largest, 4_398_046_511_104), (ShmLimit::All, 1_073_741_824)]
    {
        assert_eq!(boot::shm_limit(&host, limit).unwrap(), expected, "{limit:?}");
    }
}
