use super::*;
use crate::source::map::MapSource;

fn found(source: &MapSource) -> Vec<String> {
    read(&mut Door::new(source)).iter().map(ToString::to_string).collect()
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
        assert_eq!(found(&MapSource::new().file(path, WRITES)), [format!("{path}:{line}")]);
    }
    let linked = MapSource::new().link("/etc/rc.local", "rc.d/rc.local").file("/etc/rc.d/rc.local", WRITES);
    assert_eq!(found(&linked), ["/etc/rc.d/rc.local:3"]);
    // An init script counts where a run level starts it.
    let idle = MapSource::new().file("/etc/init.d/pages", WRITES);
    assert!(found(&idle).is_empty());
    assert!(found(&idle.file("/etc/rc3.d/K10pages", "")).is_empty());
    let started = MapSource::new().file("/etc/init.d/pages", WRITES).link("/etc/rc3.d/S10pages", "../init.d/pages");
    assert_eq!(found(&started), ["/etc/init.d/pages:3"]);
}

#[test]
fn tables_of_cron_and_cloud_init_count_where_a_boot_carries_them_out() {
    let table = "MAILTO=root\n0 1 * * * root sysctl -w vm.nr_hugepages=1\n@reboot root sysctl -w vm.nr_hugepages=1\n";
    assert_eq!(found(&MapSource::new().file("/etc/cron.d/pages", table)), ["/etc/cron.d/pages:3"]);
    assert_eq!(found(&MapSource::new().file("/var/spool/cron/root", table)), ["/var/spool/cron/root:3"]);
    let config = "#cloud-config\nruncmd:\n - sysctl -w vm.nr_hugepages=1\nbootcmd:\n - echo\n - [ sysctl, -w, vm.nr_hugepages=1 ]\nusers:\n - sysctl -w vm.nr_hugepages=1\n";
    let cloud = MapSource::new().file("/etc/cloud/cloud.cfg.d/99-pages.cfg", config);
    assert_eq!(found(&cloud), ["/etc/cloud/cloud.cfg.d/99-pages.cfg:6"]);
    assert!(found(&cloud.file("/etc/cloud/cloud-init.disabled", "")).is_empty());
}

#[test]
fn units_count_where_something_wants_them() {
    let unit = "[Service]\nExecStart=/usr/bin/true\nExecStartPost=/bin/sh -c 'echo 5 > /proc/sys/vm/nr_hugepages'\nExecStop=/sbin/sysctl -w vm.nr_hugepages=0\n";
    let off = || MapSource::new().file("/etc/systemd/system/pages.service", unit);
    assert!(found(&off()).is_empty());
    let wants = "/etc/systemd/system/multi-user.target.wants";
    let on = off().link(&format!("{wants}/pages.service"), "/etc/systemd/system/pages.service");
    assert_eq!(found(&on), ["/etc/systemd/system/pages.service:3"]);
    let by_timer = off().link("/etc/systemd/system/timers.target.wants/pages.timer", "/lib/systemd/system/pages.timer");
    assert_eq!(found(&by_timer), ["/etc/systemd/system/pages.service:3"]);
    // Red Hat's documents put unit and script below /usr/lib.
    let red_hat = MapSource::new()
        .file("/usr/lib/systemd/system/hugetlb.service", "[Service]\nExecStart=/usr/lib/systemd/hugetlb-reserve.sh\n")
        .link("/etc/systemd/system/sysinit.target.wants/hugetlb.service", "/usr/lib/systemd/system/hugetlb.service")
        .file(
            "/etc/systemd/system/sysinit.target.wants/hugetlb.service",
            "[Service]\nExecStart=/usr/lib/systemd/hugetlb-reserve.sh\n",
        )
        .file(
            "/usr/lib/systemd/hugetlb-reserve.sh",
            "#!/bin/sh\necho 4 > /sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages\n",
        );
    let red_hat = found(&red_hat);
    assert_eq!(red_hat.len(), 1);
    assert!(red_hat[0].starts_with("/usr/lib/systemd/hugetlb-reserve.sh:2 (started by /"), "{red_hat:?}");
    let added = MapSource::new().file(
        "/etc/systemd/system/postgresql@.service.d/pages.conf",
        "[Service]\nExecStartPre=+/sbin/sysctl -w vm.nr_hugepages=5\n",
    );
    assert!(found(&added).is_empty());
    let added = added.link("/run/systemd/generator/postgresql.service.wants/postgresql@15-main.service", "/lib/x");
    assert_eq!(found(&added), ["/etc/systemd/system/postgresql@.service.d/pages.conf:2"]);
}

#[test]
fn scripts_are_looked_into_one_step_deep() {
    let by = |script: &str, text: &str| {
        let local = format!("#!/bin/sh\n/bin/sh {script} now\n");
        found(&MapSource::new().file("/etc/rc.local", local).file(script, text))
    };
    assert_eq!(by("/opt/db/pages", WRITES), ["/opt/db/pages:3 (started by /etc/rc.local:2)"]);
    assert!(by("/opt/db/pages", &WRITES[2..]).is_empty(), "what is no script is a program");
    assert!(by("/home/eve/pages.sh", WRITES).is_empty());
    let deeper = MapSource::new()
        .file("/etc/rc.local", "/opt/one.sh\n")
        .file("/opt/one.sh", "#!/bin/sh\n/opt/two.sh\n")
        .file("/opt/two.sh", WRITES);
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
            .file("/etc/systemd/system/app.service", unit.clone())
            .file(wants, unit)
            .link(wants, "/etc/systemd/system/app.service");
        found(&source.file("/srv/app/run.sh", WRITES)).len()
    };
    assert_eq!(of_unit("", "/srv/app/run.sh"), 1);
    assert_eq!(of_unit("User=root\n", "-/srv/app/run.sh"), 1);
    assert_eq!(of_unit("User=app\n", "/srv/app/run.sh"), 0);
    assert_eq!(of_unit("User=app\n", "-+/srv/app/run.sh"), 1);
    // What the unit says is root's word.
    assert_eq!(of_unit("User=app\n", "/bin/sh -c 'sudo sysctl -w vm.nr_hugepages=1'"), 1);
    let of_job = |table: &str, job: &str| {
        found(&MapSource::new().file(table, format!("@reboot {job}\n")).file("/srv/app/run.sh", WRITES)).len()
    };
    assert_eq!(of_job("/etc/cron.d/app", "root /srv/app/run.sh"), 1);
    assert_eq!(of_job("/etc/cron.d/app", "app /srv/app/run.sh"), 0);
    assert_eq!(of_job("/var/spool/cron/root", "/srv/app/run.sh"), 1);
}

#[test]
fn what_is_denied_is_noted() {
    let source = MapSource::new().denied("/etc/rc.local").denied("/etc/cloud/cloud.cfg.d/90.cfg");
    let mut door = Door::new(&source);
    assert!(read(&mut door).is_empty());
    assert_eq!(door.unread.iter().map(|unread| unread.what.as_str()).collect::<Vec<_>>(), ["/etc/rc.local"]);
}

#[test]
fn a_distilled_file_says_the_same_and_nothing_else() {
    let scripts = BTreeSet::from(["/opt/pages.sh".to_owned()]);
    for (path, text) in [
        (
            "/etc/rc.local",
            "#!/bin/sh\nTOKEN=S3\nmount -o password=S3 /x\necho 5 > /proc/sys/vm/nr_hugepages # S3\n/opt/pages.sh S3\n",
        ),
        (
            "/etc/cron.d/a",
            "MAILTO=S3\n@reboot S3 curl -u S3 x; sysctl -w vm.nr_hugepages=5\n* * * * * S3 /opt/pages.sh\n@reboot root /opt/pages.sh\n@reboot S3 /opt/pages.sh\n",
        ),
        (
            "/etc/cloud/cloud.cfg",
            "password: S3\nbootcmd:\n - S3\n - sysctl -w vm.nr_hugepages=5\n - /opt/pages.sh\nx: S3\n",
        ),
    ] {
        let kept = distilled(path, text.as_bytes(), &scripts);
        let plain = String::from_utf8(kept.clone()).unwrap();
        assert!(!plain.contains("S3"), "{plain}");
        assert_eq!(plain.lines().count(), text.lines().count());
        let read = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            found(&MapSource::new().file(path, text).file("/opt/pages.sh", WRITES))
        };
        assert_eq!(read(&kept), read(text.as_bytes()));
        assert_eq!(read(&kept).len(), 2, "{path}");
    }
}
