use super::*;
use crate::plan::{HostIdentity, PoolRef};
use crate::{Risk, Step};
use hugewise_model::PageSize;

fn checked(change: impl Into<Change>) -> Result<(), String> {
    let mut plan = Plan::new(HostIdentity::default(), "");
    plan.steps.push(Step::new("s", "", Risk::Safe, "").with_change(change));
    check_plan_allowed(&plan).map_err(|error| error.to_string())
}

fn written(path: &str, text: &str) -> bool {
    checked(FileChange::write(path, text)).is_ok()
}

fn run(words: &[&str]) -> bool {
    let menu = words
        .last()
        .copied()
        .filter(|last| last.starts_with("/boot/"))
        .unwrap_or("/boot/grub/grub.cfg");
    checked(CommandChange::new(words.iter().copied(), "").with_rewritten_file(menu)).is_ok()
}

fn set(path: &str, value: &str) -> bool {
    checked(ValueChange::new(path, value)).is_ok()
}

#[test]
fn drop_ins_of_every_kind_pass() {
    assert!(written(
        "/etc/sysctl.d/zz-hugewise-pool.conf",
        "# ours\nvm.nr_hugepages = 300\nkernel.shmall=4294967296\n"
    ));
    assert!(written(
        "/etc/tmpfiles.d/00-hugewise-pools.conf",
        "w /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages - - - - 3\n\
         w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n"
    ));
    assert!(written(
        "/etc/security/limits.d/zz-hugewise.conf",
        "postgres - memlock unlimited\noracle hard memlock 64\n"
    ));
    assert!(written(
        "/etc/systemd/system/postgresql@15-main.service.d/zz-hugewise.conf",
        "[Service]\nLimitMEMLOCK=infinity\n"
    ));
    assert!(written(
        "/etc/default/grub.d/zz-hugewise.cfg",
        "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepagesz=1G hugepages=0:2,1:3 \
             transparent_hugepage=never\"\n"
    ));
    assert!(written(
        "/etc/tuned/profiles/hugewise/tuned.conf",
        "[main]\nsummary=As before, and \
             THP\ninclude=virtual-guest,oracle\n\n[vm]\ntransparent_hugepages=never\n"
    ));
    assert!(written("/etc/mysql/conf.d/zz-hugewise.cnf", "[mysqld]\nlarge_pages = ON\n"));
    assert!(written(
        "/etc/postgresql/15/main/conf.d/zz-hugewise.conf",
        "huge_pages = on\nhuge_page_size = '2MB'\n"
    ));
}

#[test]
fn nothing_else_is_written() {
    let harmless = "vm.nr_hugepages = 1\n";
    for path in [
        "/etc/sysctl.d/99-other.conf",
        "/etc/sysctl.d/../cron.d/hugewise.conf",
        "/etc/sysctl.d/hugewise.conf/../../passwd",
        "/etc/sysctl.d/sub/zz-hugewise.conf",
        "/etc/cron.d/hugewise",
        "/root/.ssh/authorized_keys",
        "etc/sysctl.d/zz-hugewise-pool.conf",
    ] {
        assert!(!written(path, harmless), "{path}");
    }
    for (path, text) in [
        ("/etc/sysctl.d/zz-hugewise-pool.conf", "kernel.core_pattern = |/tmp/x\n"),
        ("/etc/sysctl.d/zz-hugewise-pool.conf", "vm.nr_hugepages = 1; x\n"),
        ("/etc/tmpfiles.d/00-hugewise-pools.conf", "w /etc/passwd - - - - x\n"),
        ("/etc/tmpfiles.d/00-hugewise-pools.conf", "f /etc/cron.d/x 0644 root root - x\n"),
        (
            "/etc/tmpfiles.d/00-hugewise-pools.conf",
            "w /sys/kernel/mm/../../kernel/uevent_helper - - - - x\n",
        ),
        ("/etc/systemd/system/x.service.d/zz-hugewise.conf", "[Service]\nExecStartPre=/tmp/x\n"),
        (
            "/etc/default/grub.d/zz-hugewise.cfg",
            "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX init=/bin/sh\"\n",
        ),
        (
            "/etc/default/grub.d/zz-hugewise.cfg",
            "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX $(/tmp/x)\"\n",
        ),
        ("/etc/default/grub.d/zz-hugewise.cfg", "/tmp/x\n"),
        ("/etc/default/grub.d/zz-hugewise.cfg", "# x\r/tmp/x\n"),
        // Blanks to Unicode, and the beginning of a command's name to a shell.
        ("/etc/default/grub.d/zz-hugewise.cfg", "\u{a0}# || /tmp/x\n"),
        ("/etc/default/grub.d/zz-hugewise.cfg", "\u{2003}#|/tmp/x\n"),
        ("/etc/default/grub.d/zz-hugewise.cfg", "\u{3000}\n"),
        ("/etc/sysctl.d/zz-hugewise-pool.conf", "\u{a0}vm.nr_hugepages = 1\n"),
        ("/etc/sysctl.d/zz-hugewise-pool.conf", "vm.nr_hugepages\u{a0}= 1\n"),
        (
            "/etc/systemd/system/x.service.d/zz-hugewise.conf",
            "[Service]\nLimitMEMLOCK=\u{a0}infinity\n",
        ),
        ("/etc/tuned/hugewise/tuned.conf", "[script]\nscript=/tmp/x\n"),
        ("/etc/tuned/hugewise/tuned.conf", "[main]\ninclude=${f:exec:/tmp/x}\n"),
        ("/etc/tuned/hugewise/tuned.conf", "[main]\nsummary=${f:exec:/tmp/x}\n"),
        ("/etc/mysql/conf.d/zz-hugewise.cnf", "[mysqld]\nplugin_load_add=/tmp/x\n"),
        ("/etc/postgresql/15/main/conf.d/zz-hugewise.conf", "archive_command = '/tmp/x'\n"),
        ("/etc/security/limits.d/zz-hugewise.conf", "* - nproc unlimited\n"),
        ("/etc/security/limits.d/zz-hugewise.conf", "* - memlock unlimited\n"),
        ("/etc/security/limits.d/zz-hugewise.conf", "@users - memlock unlimited\n"),
        ("/etc/security/limits.d/zz-hugewise.conf", "1000:60000 - memlock unlimited\n"),
        ("/etc/sysctl.d/zz-hugewise-shm-group.conf", "vm.hugetlb_shm_group = 65534\n"),
    ] {
        assert!(!written(path, text), "{path}: {text}");
    }
    let loose = FileChange::write("/etc/sysctl.d/zz-hugewise-pool.conf", harmless);
    assert!(checked(loose.clone().owned_by(0, 0, 0o666)).is_err());
    assert!(checked(loose.clone().owned_by(1000, 0, 0o644)).is_err());
    assert!(checked(loose.owned_by(0, 0, 0o4644)).is_err());
}

/// A server's own files may name any folder as one of theirs.
#[test]
fn settings_of_servers_go_to_their_packages_folders_alone() {
    for folder in [
        "/etc/ssh/sshd_config.d",
        "/etc/apt/apt.conf.d",
        "/etc/sudoers.d",
        "/etc/ld.so.conf.d",
        "/etc/systemd/system.conf.d",
        "/etc/systemd/system",
        "/etc/postgresql/15/main/conf.d/more",
        "/etc/postgresql/15/../../ssh/conf.d",
        "/etc/postgresql/15/.../conf.d",
        "/etc/postgresql/../main/conf.d",
        "/etc/postgresql//main/conf.d",
        "/etc/postgresql/15/a\nb/conf.d",
        "/etc/mysql",
        "/etc/mysql/../ssh",
        "/etc/my.cnf.d/",
        "/var/lib/pgsql/15/data/conf.d",
        "/home/mallory/conf.d",
        "/root",
        "",
    ] {
        assert!(!written(&format!("{folder}/zz-hugewise.conf"), "huge_pages = on\n"), "{folder}");
        assert!(
            !written(&format!("{folder}/zz-hugewise.cnf"), "[mysqld]\nlarge_pages = ON\n"),
            "{folder}"
        );
    }
    for unit in
        ["x", "x.socket", ".service", "-x.service", "a b.service", "..", "x.service.d/y.service"]
    {
        let path = format!("/etc/systemd/system/{unit}.d/zz-hugewise.conf");
        assert!(!written(&path, "[Service]\nLimitMEMLOCK=infinity\n"), "{unit}");
    }
}

#[test]
fn kernel_values_that_this_is_about_pass_and_no_others() {
    assert!(set("/proc/sys/vm/hugetlb_shm_group", "117"));
    assert!(set("/proc/sys/kernel/shmmax", "18446744073692774399"));
    assert!(set("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "inherit"));
    assert!(set("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "5"));
    assert!(!set("/proc/sys/kernel/core_pattern", "1"));
    assert!(!set("/proc/sys/vm/hugetlb_shm_group", "117\n1"));
    assert!(!set("/proc/sys/vm/hugetlb_shm_group", "65534"));
    assert!(!set("/proc/sys/vm/../kernel/core_pattern", "1"));
    assert!(!set("/sys/kernel/mm/transparent_hugepage/enabled", "sometimes"));
    let pool = PoolRef { page_size: PageSize::GIB_1, node: Some(1) };
    assert!(checked(ValueChange::for_pool(pool, 3)).is_ok());
    // Written without being counted back, a shortfall would go unnoticed.
    assert!(!set("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "5"));
    assert!(checked(ValueChange::only_pool(PageSize::MIB_2, 3)).is_ok());
    assert!(!set("/proc/sys/vm/nr_hugepages", "3"));
    assert!(
        checked(ValueChange { pool: Some(pool), ..ValueChange::only_pool(PageSize::GIB_1, 3) })
            .is_err()
    );
    assert!(set("/sys/kernel/mm/redhat_transparent_hugepage/enabled", "never"));
    assert!(!set("/sys/kernel/mm/redhat_transparent_hugepage/enabled", "sometimes"));
    let other = ValueChange {
        pool: Some(pool),
        ..ValueChange::for_pool(PoolRef { node: None, ..pool }, 3)
    };
    assert!(checked(other).is_err());
}

#[test]
fn commands_of_a_plan_pass_and_no_others() {
    assert!(run(&["/usr/sbin/update-grub"]));
    assert!(run(&["/usr/sbin/grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"]));
    assert!(run(&["/usr/sbin/grubby", "--update-kernel=ALL", "--args=hugepagesz=1G hugepages=4"]));
    assert!(run(&[
        "/usr/sbin/grubby",
        "--update-kernel=ALL",
        "--remove-args=hugepagesz=1G hugepages"
    ]));
    assert!(run(&["/usr/bin/systemctl", "restart", "postgresql@15-main.service"]));
    assert!(run(&["/usr/sbin/tuned-adm", "profile", "virtual-guest", "oracle"]));
    assert!(run(&["/usr/bin/pg_ctlcluster", "15", "main", "restart"]));
    assert!(!run(&["/usr/bin/systemctl", "restart", "--root=/tmp/x.service"]));
    assert!(!run(&["/usr/bin/systemctl", "link", "/tmp/x.service"]));
    assert!(!run(&["/usr/sbin/grub2-mkconfig", "-o", "/etc/passwd"]));
    assert!(!run(&["/usr/sbin/grub2-mkconfig", "-o", "/boot/../etc/passwd"]));
    assert!(!run(&["/usr/sbin/grubby", "--update-kernel=ALL", "--args=init=/bin/sh"]));
    assert!(!run(&["/tmp/update-grub"]));
    assert!(!run(&["/usr/bin/../../tmp/update-grub"]));
    assert!(!run(&["update-grub"]));
    assert!(!run(&["/bin/sh", "-c", "id"]));
    assert!(!run(&[]));

    let psql = |sql: &str, user: &str| {
        let words = [
            "/usr/bin/psql",
            "-X",
            "-h",
            "/var/run/postgresql",
            "-p",
            "5432",
            "-d",
            "postgres",
            "-c",
            sql,
        ];
        checked(CommandChange::new(words, "").as_user(user)).is_ok()
    };
    assert!(psql("ALTER SYSTEM SET huge_pages = 'on'", "postgres"));
    assert!(psql("ALTER SYSTEM RESET huge_page_size", "postgres"));
    assert!(!psql("ALTER SYSTEM SET huge_pages = 'on'", "root"));
    assert!(!psql("ALTER SYSTEM SET archive_command = 'x'", "postgres"));
    assert!(!psql("ALTER SYSTEM SET huge_pages = 'on'; DROP TABLE x; --'", "postgres"));
    assert!(!psql("\\! id", "postgres"));

    let update = || {
        CommandChange::new(["/usr/sbin/update-grub"], "").with_rewritten_file("/boot/grub/grub.cfg")
    };
    let rewriting = |path: &str| checked(update().with_rewritten_file(path)).is_ok();
    assert!(rewriting("/boot/grub/grub.cfg") && rewriting("/srv/pg/postgresql.auto.conf"));
    assert!(!rewriting("/etc/shadow") && !rewriting("/boot/../etc/shadow"));
    let undone =
        CommandChange::new(["/usr/sbin/update-grub"], "").undone_by(["/bin/sh", "-c", "id"]);
    assert!(checked(undone).is_err_and(|why| why.contains("/bin/sh")));
}

/// A file that a command makes anew is put back by an undo: it has to be named, and has to be a
/// boot loader's.
#[test]
fn a_boot_loaders_command_names_its_own_file() {
    let made = |words: &[&str], files: &[&str]| {
        let command = CommandChange::new(words.iter().copied(), "");
        checked(files.iter().fold(command, |command, file| command.with_rewritten_file(*file)))
            .is_ok()
    };
    let mkconfig =
        |file: &str, files: &[&str]| made(&["/usr/sbin/grub2-mkconfig", "-o", file], files);
    for menu in ["/boot/grub2/grub.cfg", "/boot/efi/EFI/redhat/grub.cfg"] {
        assert!(mkconfig(menu, &[menu]), "{menu}");
        assert!(!mkconfig(menu, &[]) && !mkconfig(menu, &["/boot/grub/grub.cfg"]), "{menu}");
    }
    for other in
        ["/boot/vmlinuz-6.1.0", "/boot/grub2/../vmlinuz", "/boot/grub2/grubenv", "/boot/grub.cfg/x"]
    {
        assert!(!mkconfig(other, &[other]), "{other}");
    }
    assert!(
        !made(&["/usr/sbin/update-grub"], &[])
            && !made(&["/usr/sbin/update-grub"], &["/boot/vmlinuz-6.1.0"])
    );
    assert!(made(&["/usr/sbin/update-grub"], &["/boot/grub/grub.cfg"]));
    let grubby = ["/usr/sbin/grubby", "--update-kernel=ALL", "--args=hugepages=4"];
    assert!(made(
        &grubby,
        &["/boot/loader/entries/*.conf", "/etc/default/grub", "/boot/grub2/grubenv"]
    ));
    assert!(!made(&grubby, &[]) && !made(&grubby, &["/boot/loader/entries/vmlinuz"]));
}
