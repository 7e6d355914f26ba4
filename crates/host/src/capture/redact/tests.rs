//! What a capture keeps of each kind of file, and what it does not.

use proptest::prelude::*;

use super::*;
use crate::capture::Forms;

fn kept(path: &str, text: &str) -> String {
    let keeps =
        Keeps { settings: vec!["huge_pages", "cacheSizeGB", "sga_target"], ..Keeps::default() };
    String::from_utf8(redact_file(path, text.as_bytes(), &keeps).unwrap()).unwrap()
}

#[test]
fn boot_loaders_keep_what_brings_huge_pages() {
    assert_eq!(
        kept(
            "/boot/loader/entries/a.conf",
            "title A\noptions root=x $kernelopts hugepages=3 k=S3 $tuned_params\n"
        ),
        "title A\noptions $kernelopts hugepages=3 $tuned_params\n"
    );
    assert_eq!(
        kept(
            "/boot/grub2/grubenv",
            "# GRUB Environment Block\nsaved_entry=a\nkernelopts=root=x hugepages=3 S3\nother=S3\n"
        ),
        "# GRUB Environment Block\nsaved_entry=a\nkernelopts=hugepages=3\n\n"
    );
    let entry = "set default=\"0\"\nmenuentry 'A' --class x \
         {\n\tlinux /vmlinuz root=x hugepages=3 S3\n\tinitrd /i\n}\n";
    assert_eq!(
        kept("/boot/grub/grub.cfg", entry),
        "set default=\"0\"\nmenuentry 'A' --class x {\n\tlinux /vmlinuz hugepages=3\n\n}\n"
    );
}

#[test]
fn what_a_server_refuses_is_refused_without_its_words() {
    let text_of = |value: &str| kept("/d/postgresql.conf", &format!("huge_pages = {value}\n"));
    // A number with its unit, and something behind it: two values to PostgreSQL.
    assert_eq!(text_of("12S3cret9"), "huge_pages = ? ?\n");
    assert_eq!(text_of("12kB"), "huge_pages = 12kB\n");
    assert_eq!(text_of("S3cret9"), "huge_pages = ?\n");
    assert_eq!(text_of("'S3' S3"), "huge_pages = '?' ?\n");
}

#[test]
fn a_home_is_kept_only_of_who_has_files_in_it_that_are_read() {
    let mut keeps = Keeps::default();
    keeps.servers.users = [7, 8, 9].into();
    keeps.servers.homes = [7, 9].into();
    let text = "db2inst1:x:7:70:S3:/home/db2inst1:/bin/sh\nora:x:8:80:S3:/home/S3:/bin/sh\nodd:x:9:90::/S3 token:/bin/sh\nme:x:5:5::/S3:\n";
    let kept =
        String::from_utf8(redact_file("/etc/passwd", text.as_bytes(), &keeps).unwrap()).unwrap();
    assert_eq!(kept, "db2inst1:x:7:70::/home/db2inst1:\nora:x:8:80:::\nodd:x:9:90:::\n\n");
}

#[test]
fn of_mounts_the_hugetlbfs_ones_are_kept_without_what_else_they_bear() {
    assert_eq!(
        kept(
            "/etc/fstab",
            "//s/share /mnt cifs username=u,password=S3 0 0\nS3 /huge hugetlbfs \
                 gid=S3,pagesize=1G 0 0\n\
             S3 /late hugetlbfs noauto,x-systemd.automount,x-systemd.S3,size=50%,size=S3 0 0\n"
        ),
        "\nnone /huge hugetlbfs pagesize=1G 0 0\nnone /late hugetlbfs \
             noauto,x-systemd.automount,size=50% 0 0\n"
    );
}

#[test]
fn servers_files_keep_settings_and_their_line_numbers() {
    assert_eq!(
        kept(
            "/etc/postgresql/15/main/postgresql.conf",
            "# S3\nhuge_pages = on # S3\nprimary_conninfo = 'password=S3'\ninclude_dir 'conf.d'"
        ),
        "\nhuge_pages = on\n\ninclude_dir 'conf.d'"
    );
    assert_eq!(
        kept(
            "/etc/mongod.conf",
            "security:\n  keyFile: S3\nstorage:\n  engineConfig:\n    cacheSizeGB: 2\n"
        ),
        "x:\n\nx:\n  x:\n    cacheSizeGB: 2\n"
    );
    assert_eq!(
        kept("/u01/dbs/initPROD.ora", "*.sga_target=1g\n*.other='S3'\n"),
        "*.sga_target=1g\n\n"
    );
    static LINES: Forms = Forms {
        text: Some(|name, bytes| {
            (name == "own.bin").then(|| bytes.iter().map(|byte| byte ^ 1).collect())
        }),
        ..Forms::NONE
    };
    let keeps = Keeps { settings: vec!["sga_target"], forms: vec![&LINES], ..Keeps::default() };
    let hidden: Vec<u8> =
        b"*.other='S3'\n*.sga_target=1g\n".iter().map(|byte| byte ^ 1).chain([0]).collect();
    let kept = |name: &str| {
        redact_file(name, &hidden, &keeps).map(|kept| String::from_utf8(kept).unwrap())
    };
    assert_eq!(kept("/u01/dbs/own.bin").as_deref(), Some("*.sga_target=1g\n"));
    assert_eq!(kept("/u01/dbs/other.bin"), None, "a binary file that nobody knows");
}

#[test]
fn a_path_inside_a_container_counts_as_the_path_that_it_is() {
    assert_eq!(redact_file("/proc/7/root/etc/shadow", b"a:S3", &Keeps::default()), None);
    assert_eq!(redact_file("/proc/7/environ", b"S3", &Keeps::default()), None);
    assert_eq!(redact_file("/proc/7/root/proc/8/environ", b"S3", &Keeps::default()), None);
}

#[test]
fn comments_hold_secrets_and_go() {
    for (path, text, left) in [
        ("/etc/x.conf", "huge_pages = 'on'\t# S3 'x'", "huge_pages = 'on'"),
        ("/etc/x.conf", "huge_pages = 'on'# S3 'x'", "huge_pages = 'on'"),
        ("/etc/x.conf", "huge_pages = 'a # b' # S3", "huge_pages = '?'"),
        ("/etc/x.conf", "huge_pages = 'it''s # b' # S3", "huge_pages = '?'"),
        ("/etc/x.conf", "huge_pages = on 'S3'", "huge_pages = on ?"),
        ("/etc/x.conf", "huge_pages = 'on' S3", "huge_pages = '?' ?"),
        ("/etc/x.conf", "huge_pages = S3", "huge_pages = ?"),
        ("/etc/x.conf", "[mysqld;S3]", "[-]"),
        ("/etc/x.conf", "[mysqld] S3", "[mysqld]"),
        ("/etc/sysctl.d/a.conf", "vm.nr_hugepages = 8 ; S3", "vm.nr_hugepages = ?"),
        ("/etc/security/limits.conf", "* soft memlock 8 S3", "* soft memlock 8"),
        ("/etc/security/limits.conf", "* soft memlock S3", "* soft memlock ?"),
        ("/etc/x.conf", "huge_pages = on # it's S3", "huge_pages = on"),
        ("/etc/x.conf", "huge_pages = 'on # S3", "huge_pages = '?"),
        ("/etc/sysctl.d/a.conf", "vm.nr_hugepages = 8 # S3", "vm.nr_hugepages = 8 #"),
        (
            "/etc/tmpfiles.d/a.conf",
            "w /proc/sys/vm/nr_hugepages - - - - 8 # S3",
            "w /proc/sys/vm/nr_hugepages - - - - 8 #",
        ),
        (
            "/etc/tuned/a/tuned.conf",
            "transparent_hugepages=never # S3",
            "transparent_hugepages=never #",
        ),
        ("/etc/tuned/a/tuned.conf", "#transparent_hugepages=S3", ""),
        (
            "/etc/tuned/a/tuned.conf",
            "cpuinfo_regex=${x_cpuinfo_regex}",
            "cpuinfo_regex=${x_cpuinfo_regex}",
        ),
        ("/etc/tuned/a/tuned.conf", "x_cpuinfo_regex=CPU part # S3", "x_cpuinfo_regex=CPU part #"),
        ("/var/log/dmesg", "[0] Command line: hugepages=8 luks.key=S3", ""),
        ("/var/log/kern.log", "Jan 1 db1 S3: Out of memory: S3", "Out of memory"),
        ("/var/log/dmesg", "[0] Unknown kernel command line parameters \"hugepages=8 key=S3\"", ""),
        ("/var/log/dmesg", "[0] HugeTLB: registered 2.00 MiB", "[0] HugeTLB: registered 2.00 MiB"),
    ] {
        assert_eq!(kept(path, text), left, "{path}");
    }
}

#[test]
fn a_link_to_a_secret_by_the_name_of_a_servers_file_gives_nothing_away() {
    let shadow = "root:$6$S3:1:2:3:::\nbin:*:1:2:3:::\n";
    for path in ["/d/mysql_upgrade_info", "/d/postmaster.opts", "/d/my.cnf"] {
        assert_eq!(kept(path, shadow).trim(), "", "{path}");
    }
    for path in
        ["/proc/thread-self/environ", "/proc/7/environ", "/proc/kallsyms", "/sys/firmware/x"]
    {
        assert_eq!(redact_file(path, b"S3", &Keeps::default()), None, "{path}");
    }
}

proptest! {
    #[test]
    fn whatever_stands_around_it_a_secret_goes(before: Vec<u8>, after: Vec<u8>, kind in 0_usize..8) {
        let paths = [
            "/etc/systemd/system/a.service", "/boot/grub/grub.cfg", "/etc/passwd", "/etc/group", "/etc/sysctl.conf",
            "/etc/tuned/a/tuned.conf", "/etc/my.cnf", "/etc/tmpfiles.d/a.conf",
        ];
        let text = [&before[..], b"\npassword = S3cret\nsecret=S3cret S3cret\n", &after].concat();
        let kept = redact_file(paths[kind], &text, &Keeps::default()).unwrap_or_default();
        prop_assert!(!String::from_utf8_lossy(&kept).contains("S3cret"), "{kept:?}");
    }

    #[test]
    fn what_a_sosreport_has_of_sysctl_keeps_what_is_read(name in "[a-z_]{1,9}") {
        let text = format!("kernel.osrelease = 5.4.17\nnet.{name} = S3cret\nvm.nr_hugepages = 7\n");
        let kept = kept("/sos_commands/kernel/sysctl_-a", &text);
        prop_assert_eq!(kept, "kernel.osrelease = 5.4.17\n\nvm.nr_hugepages = 7\n");
    }

    #[test]
    fn lines_keep_their_numbers(text in "[a-z =\\\\#\n]{0,80}") {
        let lines = |text: &str| text.matches('\n').count();
        for path in ["/etc/systemd/system/a.service", "/etc/sysctl.conf", "/etc/my.cnf", "/boot/grub/grub.cfg"] {
            prop_assert_eq!(lines(&kept(path, &text)), lines(&text));
        }
    }
}
