use super::*;
use hugewise_source::map::MapSource;

fn found(source: &MapSource) -> Vec<String> {
    read(&mut FactReader::new(source)).pools.iter().map(ToString::to_string).collect()
}

fn thp(source: &MapSource) -> Vec<(Option<String>, String)> {
    let found = read(&mut FactReader::new(source)).thp.into_iter();
    found.map(|thp_writer| (thp_writer.value.clone(), thp_writer.to_string())).collect()
}

const WRITES: &str = "#!/bin/sh\n# pages\nsysctl -w vm.nr_hugepages=100\n";

#[test]
fn scripts_that_a_boot_starts() {
    for (path, line) in [
        ("/etc/rc.local", 3),
        ("/etc/rc.d/rc.local", 3),
        ("/var/lib/cloud/scripts/per-boot/10-pages", 3),
        ("/etc/init.d/boot.local", 3),
    ] {
        assert_eq!(found(&MapSource::new().with_file(path, WRITES)), [format!("{path}:{line}")]);
    }
    let linked = MapSource::new()
        .with_link("/etc/rc.local", "rc.d/rc.local")
        .with_file("/etc/rc.d/rc.local", WRITES);
    assert_eq!(found(&linked), ["/etc/rc.d/rc.local:3"]);
    // An init script counts where a run level starts it.
    let idle = MapSource::new().with_file("/etc/init.d/pages", WRITES);
    assert!(found(&idle).is_empty());
    assert!(found(&idle.with_file("/etc/rc3.d/K10pages", "")).is_empty());
    let started = MapSource::new()
        .with_file("/etc/init.d/pages", WRITES)
        .with_link("/etc/rc3.d/S10pages", "../init.d/pages");
    assert_eq!(found(&started), ["/etc/init.d/pages:3"]);
}

#[test]
fn tables_of_cron_and_cloud_init_count_where_a_boot_carries_them_out() {
    let table = "MAILTO=root\n0 1 * * * root sysctl -w vm.nr_hugepages=1\n@reboot root sysctl -w \
         vm.nr_hugepages=1\n";
    assert_eq!(
        found(&MapSource::new().with_file("/etc/cron.d/pages", table)),
        ["/etc/cron.d/pages:3"]
    );
    assert_eq!(
        found(&MapSource::new().with_file("/var/spool/cron/root", table)),
        ["/var/spool/cron/root:3"]
    );
    let config = "#cloud-config\nruncmd:\n - sysctl -w vm.nr_hugepages=1\nbootcmd:\n - echo\n - [ \
         sysctl, -w, vm.nr_hugepages=1 ]\nusers:\n - sysctl -w vm.nr_hugepages=1\n";
    let cloud = MapSource::new().with_file("/etc/cloud/cloud.cfg.d/99-pages.cfg", config);
    assert_eq!(found(&cloud), ["/etc/cloud/cloud.cfg.d/99-pages.cfg:6"]);
    assert!(found(&cloud.with_file("/etc/cloud/cloud-init.disabled", "")).is_empty());
}

#[test]
fn a_unit_may_name_the_pool_in_its_environment() {
    for environment in
        ["POOL=/proc/sys/vm/nr_hugepages", "\"N=512\" \"POOL=/proc/sys/vm/nr_hugepages\""]
    {
        for variable in ["$POOL", "${POOL}", "$$POOL"] {
            let unit = format!(
                "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo 512 > {variable}'\n\
                 Environment={environment}\n"
            );
            let source =
                MapSource::new().with_file("/etc/systemd/system/pages.service", &unit).with_link(
                    "/etc/systemd/system/multi-user.target.wants/pages.service",
                    "/etc/systemd/system/pages.service",
                );
            assert_eq!(found(&source), ["/etc/systemd/system/pages.service:3"], "{unit}");
        }
    }
    // It says where, and nothing writes there.
    let unit = "[Service]\nEnvironment=POOL=/proc/sys/vm/nr_hugepages\nExecStart=/bin/cat $POOL\n";
    let source = MapSource::new().with_file("/etc/systemd/system/pages.service", unit).with_link(
        "/etc/systemd/system/multi-user.target.wants/pages.service",
        "/etc/systemd/system/pages.service",
    );
    assert!(found(&source).is_empty());
}

#[test]
fn units_count_where_something_wants_them() {
    let unit = "[Service]\nExecStart=/usr/bin/true\nExecStartPost=/bin/sh -c 'echo 5 > \
         /proc/sys/vm/nr_hugepages'\nExecStop=/sbin/sysctl -w vm.nr_hugepages=0\n";
    let off = || MapSource::new().with_file("/etc/systemd/system/pages.service", unit);
    assert!(found(&off()).is_empty());
    let wants = "/etc/systemd/system/multi-user.target.wants";
    let on =
        off().with_link(&format!("{wants}/pages.service"), "/etc/systemd/system/pages.service");
    assert_eq!(found(&on), ["/etc/systemd/system/pages.service:3"]);
    let by_timer = off().with_link(
        "/etc/systemd/system/timers.target.wants/pages.timer",
        "/lib/systemd/system/pages.timer",
    );
    assert_eq!(found(&by_timer), ["/etc/systemd/system/pages.service:3"]);
    // Red Hat's documents put unit and script below /usr/lib.
    let red_hat = MapSource::new()
        .with_file(
            "/usr/lib/systemd/system/hugetlb.service",
            "[Service]\nExecStart=/usr/lib/systemd/hugetlb-reserve.sh\n",
        )
        .with_link(
            "/etc/systemd/system/sysinit.target.wants/hugetlb.service",
            "/usr/lib/systemd/system/hugetlb.service",
        )
        .with_file(
            "/etc/systemd/system/sysinit.target.wants/hugetlb.service",
            "[Service]\nExecStart=/usr/lib/systemd/hugetlb-reserve.sh\n",
        )
        .with_file(
            "/usr/lib/systemd/hugetlb-reserve.sh",
            "#!/bin/sh\necho 4 > \
                 /sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages\n",
        );
    let red_hat = found(&red_hat);
    assert_eq!(red_hat.len(), 1);
    assert!(
        red_hat[0].starts_with("/usr/lib/systemd/hugetlb-reserve.sh:2 (started by /"),
        "{red_hat:?}"
    );
    let added = MapSource::new().with_file(
        "/etc/systemd/system/postgresql@.service.d/pages.conf",
        "[Service]\nExecStartPre=+/sbin/sysctl -w vm.nr_hugepages=5\n",
    );
    assert!(found(&added).is_empty());
    let added = added.with_link(
        "/run/systemd/generator/postgresql.service.wants/postgresql@15-main.service",
        "/lib/x",
    );
    assert_eq!(found(&added), ["/etc/systemd/system/postgresql@.service.d/pages.conf:2"]);
}

#[test]
fn scripts_are_looked_into_one_step_deep() {
    let by = |script: &str, text: &str| {
        let local = format!("#!/bin/sh\n/bin/sh {script} now\n");
        found(&MapSource::new().with_file("/etc/rc.local", local).with_file(script, text))
    };
    assert_eq!(by("/opt/db/pages", WRITES), ["/opt/db/pages:3 (started by /etc/rc.local:2)"]);
    assert!(by("/opt/db/pages", &WRITES[2..]).is_empty(), "what is no script is a program");
    assert!(by("/home/eve/pages.sh", WRITES).is_empty());
    let deeper = MapSource::new()
        .with_file("/etc/rc.local", "/opt/one.sh\n")
        .with_file("/opt/one.sh", "#!/bin/sh\n/opt/two.sh\n")
        .with_file("/opt/two.sh", WRITES);
    assert!(found(&deeper).is_empty());
    let large = format!("{WRITES}{}", "#".repeat(300 << 10));
    assert!(by("/opt/db/pages", &large).is_empty());
}

#[test]
fn scripts_of_those_who_are_not_root_are_theirs() {
    let of_unit = |user: &str, start: &str| {
        let wants = "/etc/systemd/system/multi-user.target.wants/app.service";
        let unit = format!("[Service]\n{user}ExecStart={start}\n");
        let source = MapSource::new()
            .with_file("/etc/systemd/system/app.service", unit.clone())
            .with_file(wants, unit)
            .with_link(wants, "/etc/systemd/system/app.service");
        found(&source.with_file("/srv/app/run.sh", WRITES)).len()
    };
    assert_eq!(of_unit("", "/srv/app/run.sh"), 1);
    assert_eq!(of_unit("User=root\n", "-/srv/app/run.sh"), 1);
    assert_eq!(of_unit("User=app\n", "/srv/app/run.sh"), 0);
    assert_eq!(of_unit("User=app\n", "-+/srv/app/run.sh"), 1);
    // What the unit says is root's word.
    assert_eq!(of_unit("User=app\n", "/bin/sh -c 'sudo sysctl -w vm.nr_hugepages=1'"), 1);
    let of_job = |table: &str, job: &str| {
        found(
            &MapSource::new()
                .with_file(table, format!("@reboot {job}\n"))
                .with_file("/srv/app/run.sh", WRITES),
        )
        .len()
    };
    assert_eq!(of_job("/etc/cron.d/app", "root /srv/app/run.sh"), 1);
    assert_eq!(of_job("/etc/cron.d/app", "app /srv/app/run.sh"), 0);
    assert_eq!(of_job("/var/spool/cron/root", "/srv/app/run.sh"), 1);
}

#[test]
fn what_is_denied_is_noted() {
    let source =
        MapSource::new().with_denied("/etc/rc.local").with_denied("/etc/cloud/cloud.cfg.d/90.cfg");
    let mut door = FactReader::new(&source);
    assert!(read(&mut door).pools.is_empty());
    assert_eq!(
        door.unread.iter().map(|unread| unread.what.as_str()).collect::<Vec<_>>(),
        ["/etc/rc.local"]
    );
}

#[test]
fn a_distilled_file_says_the_same_and_nothing_else() {
    let scripts = BTreeSet::from(["/opt/pages.sh".to_owned()]);
    for (path, text) in [
        (
            "/etc/rc.local",
            "#!/bin/sh\nTOKEN=S3\nmount -o password=S3 /x\necho 5 > /proc/sys/vm/nr_hugepages # \
                 S3\n/opt/pages.sh S3\n",
        ),
        (
            "/etc/cron.d/a",
            "MAILTO=S3\n@reboot S3 curl -u S3 x; sysctl -w vm.nr_hugepages=5\n* * * * * S3 \
                 /opt/pages.sh\n@reboot root /opt/pages.sh\n@reboot S3 /opt/pages.sh\n",
        ),
        (
            "/etc/udev/rules.d/9.rules",
            "# S3\nSUBSYSTEM==\"S3\", SYSCTL{vm/nr_hugepages}=\"5\"\nACTION==\"add\", \
                 RUN+=\"/opt/pages.sh S3\"\n",
        ),
        (
            "/etc/network/interfaces",
            "iface S3 inet\n  wpa-psk S3\n  up sysctl -w vm.nr_hugepages=5\n  post-up \
                 /opt/pages.sh S3\n",
        ),
        (
            "/etc/cloud/cloud.cfg",
            "password: S3\nbootcmd:\n - S3\n - sysctl -w vm.nr_hugepages=5\n - /opt/pages.sh\nx: \
                 S3\n",
        ),
    ] {
        let kept = distill_script(path, text.as_bytes(), &scripts);
        let plain = String::from_utf8(kept.clone()).unwrap();
        assert!(!plain.contains("S3"), "{plain}");
        assert_eq!(plain.lines().count(), text.lines().count());
        let read = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            found(&MapSource::new().with_file(path, text).with_file("/opt/pages.sh", WRITES))
        };
        assert_eq!(read(&kept), read(text.as_bytes()));
        assert_eq!(read(&kept).len(), 2, "{path}");
    }
}

#[test]
fn lines_that_switch_thp_are_found_with_their_word() {
    let never = |place: &str| vec![(Some("never".to_owned()), place.to_owned())];
    // Red Hat's and Oracle's documents have these lines for rc.local.
    let rc_local = "#!/bin/sh\nif test -f /sys/kernel/mm/transparent_hugepage/enabled; then\n\
        echo never > /sys/kernel/mm/transparent_hugepage/enabled\nfi\n\
        if test -f /sys/kernel/mm/redhat_transparent_hugepage/defrag; then\n\
        echo never > /sys/kernel/mm/redhat_transparent_hugepage/defrag\nfi\n";
    assert_eq!(
        thp(&MapSource::new().with_file("/etc/rc.d/rc.local", rc_local)),
        never("/etc/rc.d/rc.local:3")
    );
    // MongoDB's init script.
    let script = "#!/bin/bash\ncase $1 in\n  start)\n    if [ -d \
         /sys/kernel/mm/transparent_hugepage ]; then\n\
        thp_path=/sys/kernel/mm/transparent_hugepage\n    elif [ -d \
         /sys/kernel/mm/redhat_transparent_hugepage ]; then\n\
        thp_path=/sys/kernel/mm/redhat_transparent_hugepage\n    fi\n    echo 'never' > \
         ${thp_path}/enabled\n\
        echo 'never' > ${thp_path}/defrag\nesac\n";
    let init =
        MapSource::new().with_file("/etc/init.d/disable-transparent-hugepages", script).with_link(
            "/etc/rc.d/rc3.d/S50disable-transparent-hugepages",
            "../init.d/disable-transparent-hugepages",
        );
    assert_eq!(thp(&init), never("/etc/init.d/disable-transparent-hugepages:9"));
    let unit = "[Service]\nExecStart=/bin/sh -c 'echo never | tee \
         /sys/kernel/mm/transparent_hugepage/enabled > /dev/null'\n";
    let wants = "/etc/systemd/system/basic.target.wants/thp.service";
    let on = MapSource::new()
        .with_file("/etc/systemd/system/thp.service", unit)
        .with_link(wants, "/etc/systemd/system/thp.service");
    assert_eq!(thp(&on), never("/etc/systemd/system/thp.service:2"));
    for (line, word) in [
        ("echo \"$1\" > /sys/kernel/mm/transparent_hugepage/enabled", Some(None)),
        ("echo always>/sys/kernel/mm/transparent_hugepage/enabled", Some(Some("always"))),
        (
            "echo never; echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            Some(Some("madvise")),
        ),
        ("cat /sys/kernel/mm/transparent_hugepage/enabled", None),
        ("grep never /sys/kernel/mm/transparent_hugepage/enabled > /dev/null", None),
        ("echo never > /sys/kernel/mm/transparent_hugepage/defrag", None),
    ] {
        let found =
            thp(&MapSource::new().with_file("/etc/rc.local", format!("#!/bin/sh\n{line}\n")));
        let expected =
            word.map(|word: Option<&str>| (word.map(str::to_owned), "/etc/rc.local:2".to_owned()));
        assert_eq!(found, Vec::from_iter(expected), "{line}");
    }
}

/// RHEL 6 has the scripts in /etc/rc.d/init.d and the links in /etc/rc.d/rcN.d, with /etc/init.d
/// and /etc/rcN.d links to them.
#[test]
fn init_scripts_count_without_systemd() {
    let rhel6 = MapSource::new()
        .with_file("/proc/1/comm", "init\n")
        .with_file("/etc/rc.d/rc.sysinit", "apply_sysctl\n")
        .with_file("/etc/init.d/pages", WRITES)
        .with_link("/etc/rc.d/rc5.d/S10pages", "../init.d/pages");
    assert_eq!(found(&rhel6), ["/etc/init.d/pages:3"]);
    // SUSE's links, which are in /etc/init.d, and its scripts of the boot itself.
    let suse = MapSource::new()
        .with_file("/etc/init.d/pages", WRITES)
        .with_link("/etc/init.d/rc3.d/S10pages", "../pages");
    assert_eq!(found(&suse), ["/etc/init.d/pages:3"]);
    let boot = MapSource::new()
        .with_file("/etc/init.d/boot.pages", WRITES)
        .with_link("/etc/init.d/boot.d/S10boot.pages", "../boot.pages");
    assert_eq!(found(&boot), ["/etc/init.d/boot.pages:3"]);
}

/// f5, f6, f11 and f13 of a reader's hosts, and their like.
#[test]
fn hooks_rules_and_profiles_count() {
    for (path, text, line) in [
        ("/etc/network/if-up.d/huge", WRITES, 3),
        ("/etc/network/if-pre-up.d/huge", WRITES, 3),
        ("/etc/NetworkManager/dispatcher.d/50-huge", WRITES, 3),
        ("/etc/networkd-dispatcher/routable.d/huge", WRITES, 3),
        ("/etc/libvirt/hooks/qemu", "#!/bin/sh\nhugeadm --pool-pages-min 2MB:100\n", 2),
        ("/etc/libvirt/hooks/qemu.d/huge", WRITES, 3),
        (
            "/etc/network/interfaces",
            "iface eth0 inet dhcp\n  post-up sysctl -w vm.nr_hugepages=100\n",
            2,
        ),
        (
            "/etc/udev/rules.d/99-huge.rules",
            "# x\nSUBSYSTEM==\"node\", ATTR{hugepages/hugepages-2048kB/nr_hugepages}=\"100\"\n",
            2,
        ),
        (
            "/etc/udev/rules.d/99-huge.rules",
            "RUN+=\"/bin/sh -c 'echo 5 > /proc/sys/vm/nr_hugepages'\"\n",
            1,
        ),
    ] {
        assert_eq!(found(&MapSource::new().with_file(path, text)), [format!("{path}:{line}")]);
    }
    for (path, text) in [
        // run-parts(8) takes no name with a dot.
        ("/etc/network/if-up.d/huge.sh", WRITES),
        ("/etc/NetworkManager/dispatcher.d/huge~", WRITES),
        ("/etc/network/interfaces", "  down sysctl -w vm.nr_hugepages=100\n"),
        (
            "/etc/udev/rules.d/99-huge.rules",
            "ATTR{hugepages/hugepages-2048kB/nr_hugepages}==\"100\", NAME=\"x\"\n",
        ),
        ("/etc/udev/rules.d/99-huge.rules.off", "SYSCTL{vm/nr_hugepages}=\"5\"\n"),
    ] {
        assert!(found(&MapSource::new().with_file(path, text)).is_empty(), "{path}: {text}");
    }
    let by_rule = MapSource::new()
        .with_file("/etc/udev/rules.d/9.rules", "RUN+=\"/opt/p.sh add\"\n")
        .with_file("/opt/p.sh", WRITES);
    assert_eq!(found(&by_rule), ["/opt/p.sh:3 (started by /etc/udev/rules.d/9.rules:1)"]);
    let profile = MapSource::new()
        .with_file("/etc/tuned/active_profile", "mine\n")
        .with_file("/etc/tuned/mine/tuned.conf", "[main]\n[script]\nscript=${i:PROFILE_DIR}/s.sh\n")
        .with_file("/etc/tuned/mine/s.sh", WRITES);
    assert_eq!(
        found(&profile),
        ["/etc/tuned/mine/s.sh:3 (started by /etc/tuned/mine/tuned.conf:3)"]
    );
    let idle = profile.with_file("/etc/tuned/active_profile", "other\n");
    assert!(found(&idle).is_empty());
    let of_sysfs = MapSource::new().with_file("/etc/tuned/active_profile", "mine\n").with_file(
        "/etc/tuned/mine/tuned.conf",
        "[sysfs]\n/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages=5\n",
    );
    assert_eq!(found(&of_sysfs), ["/etc/tuned/mine/tuned.conf:2"]);
}

/// MongoDB's documents have a unit that basic.target wants and that comes after sysinit.target.
#[test]
fn a_unit_that_switches_thp_says_when() {
    let order = |text: &str| {
        let unit = format!(
            "{text}[Service]\nExecStart=/bin/sh -c 'echo never > \
                 /sys/kernel/mm/transparent_hugepage/enabled'\n"
        );
        let wants = "/etc/systemd/system/basic.target.wants/thp.service";
        let on = MapSource::new()
            .with_file("/etc/systemd/system/thp.service", unit)
            .with_link(wants, "/etc/systemd/system/thp.service");
        read(&mut FactReader::new(&on)).thp.remove(0).order
    };
    assert_eq!(order(""), BootOrder::Last);
    assert_eq!(
        order("[Unit]\nDefaultDependencies=no\nAfter=sysinit.target local-fs.target\n"),
        BootOrder::Last
    );
    assert_eq!(
        order("[Unit]\nDefaultDependencies=no\nBefore=systemd-tmpfiles-setup.service\n"),
        BootOrder::First
    );
    assert_eq!(order("[Unit]\nDefaultDependencies=no\n"), BootOrder::Beside);
}

const SWITCHES_OFF: &str = "[Service]\nType=oneshot\n\
                            ExecStart=/bin/sh -c 'echo never > /sys/kernel/mm/transparent_hugepage/enabled'\n\
                            [Install]\nWantedBy=multi-user.target\n";

/// systemd.unit(5): `Wants=` of a unit that is started starts others; a link in `X.service.wants`
/// counts where X is started.
#[test]
fn a_unit_starts_with_the_boot_where_what_wants_it_does() {
    let thp_off = "/usr/lib/systemd/system/thp-off.service";
    let wants = |who: &str| format!("[Unit]\nWants={who} other.service\n[Service]\nExecStart=/x\n");
    let app = MapSource::new()
        .with_file(thp_off, SWITCHES_OFF)
        .with_file("/usr/lib/systemd/system/app.service", wants("thp-off.service"));
    assert_eq!(thp(&app), [], "nobody starts app.service");
    let link = "/etc/systemd/system/multi-user.target.wants/app.service";
    let started = app.clone().with_link(link, "/usr/lib/systemd/system/app.service");
    let never = [(Some("never".to_owned()), format!("{thp_off}:3"))];
    assert_eq!(thp(&started), never);
    let asleep =
        app.clone().with_link("/etc/systemd/system/suspend.target.wants/app.service", "/x");
    assert_eq!(thp(&asleep), [], "no boot comes to suspend.target");
    let packaged = "/usr/lib/systemd/system/sysinit.target.wants/app.service";
    assert_eq!(thp(&app.clone().with_link(packaged, "../app.service")), never);
    let masked = ("/etc/systemd/system/app.service", "/dev/null");
    let masked = app.clone().with_link(packaged, "../app.service").with_link(masked.0, masked.1);
    assert_eq!(thp(&masked), []);
    // Units that want each other are read once.
    let round = started.with_file(thp_off, format!("[Unit]\nWants=app.service\n{SWITCHES_OFF}"));
    assert_eq!(thp(&round).len(), 1);

    let required = "/etc/systemd/system/mongodb.service.requires/thp-off.service";
    let by_server = MapSource::new().with_file(thp_off, SWITCHES_OFF).with_link(required, thp_off);
    assert_eq!(thp(&by_server), [], "there is no mongodb.service");
    let enabled = "/etc/systemd/system/multi-user.target.wants/mongodb.service";
    assert_eq!(thp(&by_server.clone().with_link(enabled, "/lib/x")).len(), 1);
    let script = by_server.with_link("/etc/rc2.d/S20mongodb", "../init.d/mongodb");
    assert_eq!(thp(&script).len(), 1, "systemd makes a unit of an init script");
}

/// Before the merge of /usr a program was in one of the two folders: status=203/EXEC.
#[test]
fn a_command_without_its_program_does_nothing() {
    let unit = SWITCHES_OFF.replace("/bin/sh", "/usr/bin/sh");
    let source = MapSource::new().with_file("/etc/systemd/system/thp-off.service", unit).with_link(
        "/etc/systemd/system/multi-user.target.wants/thp-off.service",
        "../thp-off.service",
    );
    assert_eq!(thp(&source).len(), 1, "nothing is known of the folders");
    let split = source.with_file("/bin/sh", "").with_file("/usr/bin/tee", "");
    assert_eq!(thp(&split), []);
    assert_eq!(thp(&split.with_file("/usr/bin/sh", "")).len(), 1);
}

#[test]
fn the_switch_of_rhel_6_is_none_elsewhere() {
    let switch = "/sys/kernel/mm/redhat_transparent_hugepage/enabled";
    let plain = format!("#!/bin/sh\necho never > {switch}\n");
    let either = "#!/bin/sh\nif [ -d /sys/kernel/mm/transparent_hugepage ]; then\n\
                  p=/sys/kernel/mm/transparent_hugepage\nelse\n\
                  p=/sys/kernel/mm/redhat_transparent_hugepage\nfi\necho never > $p/enabled\n";
    let found = |text: &str, is_rhel_6: bool| {
        let source = MapSource::new().with_file("/etc/rc.local", text);
        let source = if is_rhel_6 { source.with_file(switch, "[always] never\n") } else { source };
        thp(&source).len()
    };
    assert_eq!([found(&plain, false), found(&plain, true)], [0, 1]);
    assert_eq!([found(either, false), found(either, true)], [1, 1]);
}

/// The dispatcher of many guides starts `qemu.d/GUEST/HOOK/STATE/*`, with a size in a variable.
#[test]
fn a_guests_own_hook_makes_its_pages() {
    let hook = "/etc/libvirt/hooks/qemu.d/win10/prepare/begin/pages.sh";
    let text = "#!/bin/bash\nfunction make {\n  \
                P=/sys/devices/system/node/node0/hugepages/hugepages-\"$SIZE\"kB/nr_hugepages\n  \
                echo $N > $P\n}\nmake\n";
    assert_eq!(found(&MapSource::new().with_file(hook, text)), [format!("{hook}:4")]);
    assert!(looks_through("/etc/libvirt/hooks/qemu.d/win10/prepare/begin"));
}

/// systemd.service(5): then `User` applies to ExecStart alone.
#[test]
fn what_comes_before_a_server_may_run_as_root() {
    let helper = "#!/bin/bash\nT=/sys/kernel/mm/transparent_hugepage\n\
                  (echo never > ${T}/enabled 2> /dev/null || exit 1) || true\n";
    let unit = |more: &str| {
        format!(
            "[Service]\nUser=mongod\n{more}ExecStartPre=/usr/bin/helper.sh\nExecStart=/usr/bin/mongod\n"
        )
    };
    let found = |more: &str| {
        let file = "/usr/lib/systemd/system/mongod.service";
        let source = MapSource::new()
            .with_file("/usr/bin/helper.sh", helper)
            .with_file(file, unit(more))
            .with_link("/etc/systemd/system/multi-user.target.wants/mongod.service", file);
        thp(&source).len()
    };
    assert_eq!([found(""), found("PermissionsStartOnly=true\n")], [0, 1]);
}

/// A package's script without `.sh` in its name, as Percona's ps_mysqld_helper is one; and the
/// stages of elemental and Kairos.
#[test]
fn scripts_of_packages_and_stages_are_read() {
    let file = "/usr/lib/systemd/system/allocator.service";
    let clears = "#!/bin/bash\necho 0 > /sys/devices/system/node/$NODE/hugepages/hugepages-$KEY/nr_hugepages\n";
    let unit = |kind: &str| format!("[Service]\nType={kind}\nExecStart=/usr/bin/allocator\n");
    let with = |kind: &str, program: &str| {
        let source = MapSource::new()
            .with_file(file, unit(kind))
            .with_file("/usr/bin/allocator", program)
            .with_link("/etc/systemd/system/multi-user.target.wants/allocator.service", file);
        found(&source)
    };
    for kind in ["oneshot", "simple", "forking"] {
        assert_eq!(with(kind, clears), [format!("/usr/bin/allocator:2 (started by {file}:3)")]);
    }
    let as_mysql = |more: &str| format!("forking\nUser=mysql\n{more}ExecStartPre=/bin/true");
    assert!(with(&as_mysql(""), clears).is_empty());
    let start_alone = "PermissionsStartOnly=true\nExecStartPre=/usr/bin/allocator\n";
    assert_eq!(with(&as_mysql(start_alone), clears).len(), 1);
    assert!(with("oneshot", &clears.replace("#!", "ELF")).is_empty());
    let stages = "name: x\nstages:\n  initramfs:\n  - sysctl:\n      vm.nr_hugepages: \"1024\"\n";
    for folder in ["/system/oem", "/oem", "/usr/local/cloud-config"] {
        let path = format!("{folder}/93_spdk.yaml");
        let source = MapSource::new().with_file(&path, stages);
        assert_eq!(found(&source), [format!("{path}:5")]);
        let kept = distill_script(&path, stages.as_bytes(), &BTreeSet::new());
        assert_eq!(found(&MapSource::new().with_file(&path, kept)), [format!("{path}:5")]);
    }
}
