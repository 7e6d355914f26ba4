use hugewise_host::config::cmdline;
use hugewise_host::source::MapSource;
use hugewise_model::Observed::{Absent, Denied, Known};
use hugewise_model::configuration::{BootEntry, FileLocation};
use hugewise_model::host::NodePool;
use hugewise_model::{Host, PageCount, PageSize};

use super::{
    BootPlace, SettingOutcome, default_size, pool_at_boot, predict_effective_settings,
    predict_overcommit, predict_pool_steps, predict_setting, predict_thp, thp_switch, with_files,
};
use crate::testing::quiet;

/// A host with these files and two nodes.
fn host(source: &MapSource) -> Host {
    let mut host = quiet().host;
    let part = |node| NodePool { node, total: Absent, free: Absent, surplus: Absent };
    if let Known(pools) = &mut host.pools {
        pools.iter_mut().for_each(|pool| pool.nodes = vec![part(0), part(1)]);
    }
    host.configuration.boot = Absent;
    with_files(&host, source)
}

fn systemd() -> MapSource {
    MapSource::new()
        .with_file("/proc/1/comm", "systemd\n")
        .with_folder("/etc/sysctl.d")
        .with_folder("/etc/tmpfiles.d")
}

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

fn steps(source: &MapSource) -> Vec<(u64, String)> {
    predict_pool_steps(&host(source), PageSize::MIB_2)
        .unwrap()
        .into_iter()
        .map(|step| (step.value, step.place.to_string()))
        .collect()
}

fn at(value: u64, place: &str) -> (u64, String) {
    (value, place.to_owned())
}

fn line_of(place: &str) -> BootPlace {
    let (file, line) = place.rsplit_once(':').unwrap();
    BootPlace::File(FileLocation { file: file.into(), line: line.parse().unwrap() })
}

/// TuneD 2.20, `plugin_sysctl.py`: its own settings, then the files of the system once more, after
/// sysinit.target.
#[test]
fn tuned_comes_after_tmpfiles_and_writes_sysctl_files_once_more() {
    let files = systemd()
        .with_file("/etc/sysctl.d/50.conf", "vm.nr_hugepages=100\n")
        .with_file("/etc/tmpfiles.d/50.conf", format!("w {POOL}/nr_hugepages - - - - 200\n"));
    let without = [at(100, "/etc/sysctl.d/50.conf:1"), at(200, "/etc/tmpfiles.d/50.conf:1")];
    assert_eq!(steps(&files), without);
    let tuned = files.with_file("/etc/tuned/active_profile", "db\n").with_file(
        "/usr/lib/tuned/db/tuned.conf",
        "[sysctl]\nvm.nr_hugepages=>150\nvm.swappiness=1\n",
    );
    let with = [at(200, "/usr/lib/tuned/db/tuned.conf:2"), at(100, "/etc/sysctl.d/50.conf:1")];
    assert_eq!(steps(&tuned)[2..], with);
    let off = tuned.with_file("/etc/tuned/tuned-main.conf", "reapply_sysctl = 0\n");
    assert_eq!(steps(&off).last(), Some(&at(200, "/usr/lib/tuned/db/tuned.conf:2")));
}

#[test]
fn files_of_nodes_add_up() {
    let node = |id: u32| {
        format!("/sys/devices/system/node/node{id}/hugepages/hugepages-2048kB/nr_hugepages")
    };
    let files = systemd().with_file(
        "/etc/tmpfiles.d/50.conf",
        format!("w {} - - - - 10\nw {} - - - - 5\nw {} - - - - 9\n", node(0), node(1), node(7)),
    );
    let found = pool_at_boot(&host(&files), PageSize::MIB_2).unwrap();
    assert_eq!(found.total, PageCount(15));
    assert_eq!(found.nodes, [(0, PageCount(10)), (1, PageCount(5))]);
    assert_eq!(steps(&files), [at(15, "/etc/tmpfiles.d/50.conf:2")]);
    // The pool's own number moves pages from and to all nodes.
    let spread = files.clone().with_file("/etc/sysctl.d/50.conf", "vm.nr_hugepages=100\n");
    assert_eq!(pool_at_boot(&host(&spread), PageSize::MIB_2).unwrap().total, PageCount(15));
    let one = files.with_file("/etc/tmpfiles.d/50.conf", format!("w {} - - - - 10\n", node(0)));
    let one = one.with_file("/etc/sysctl.d/50.conf", "vm.nr_hugepages=100\n");
    assert_eq!(pool_at_boot(&host(&one), PageSize::MIB_2).unwrap().total, PageCount(60));
    let mut blind = host(&one);
    (blind.nodes, blind.pools) = (Absent, Absent);
    assert!(pool_at_boot(&blind, PageSize::MIB_2).is_err());
}

#[test]
fn what_could_not_be_read_leaves_it_unknown() {
    let mut unread =
        host(&systemd().with_file("/etc/sysctl.d/50.conf", "vm.nr_overcommit_hugepages=0x10\n"));
    assert_eq!(
        predict_overcommit(&unread, PageSize::MIB_2).unwrap().last().map(|step| step.value),
        Some(16)
    );
    assert_eq!(predict_overcommit(&unread, PageSize::GIB_1).unwrap(), []);
    unread.configuration.boot = Denied;
    assert!(predict_pool_steps(&unread, PageSize::MIB_2).is_err());
    assert!(predict_setting(&unread, "kernel.shmmax").is_err());
    assert!(predict_overcommit(&unread, PageSize::MIB_2).is_ok());
    unread.configuration.tmpfiles = Denied;
    assert!(predict_overcommit(&unread, PageSize::MIB_2).is_err());
    assert!(predict_thp(&unread).is_err());
    let tuned = host(
        &systemd()
            .with_file("/etc/tuned/active_profile", "db\n")
            .with_file("/usr/lib/tuned/db/tuned.conf", "[sysctl]\na.b=1\n")
            .with_denied("/etc/sysctl.conf"),
    );
    assert!(predict_pool_steps(&tuned, PageSize::MIB_2).is_err());
}

#[test]
fn settings_are_what_the_kernel_makes_of_them() {
    let files = systemd()
        .with_file(
            "/etc/sysctl.d/50.conf",
            "kernel.shmmax=0x1000 # bytes\nkernel.shmall=12k\nvm.hugetlb_shm_group=-1\n",
        )
        .with_file("/etc/tmpfiles.d/50.conf", "w /proc/sys/kernel/shm{max,all} - - - - 010\n");
    let value = |key: &str| {
        predict_setting(&host(&files), key)
            .unwrap()
            .into_iter()
            .map(|step| step.value)
            .collect::<Vec<_>>()
    };
    assert_eq!(value("kernel.shmmax"), ["4096", "8"]);
    assert_eq!(value("kernel.shmall"), ["8"]);
    assert_eq!(value("vm.hugetlb_shm_group"), ["-1"]);
}

#[test]
fn thp_goes_by_words_that_the_kernel_knows() {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let files = systemd().with_file(
        "/etc/tmpfiles.d/50.conf",
        format!(
            "w {folder}/enabled - - - - never # no\nw {folder}/defrag - - - - defer+madvise\nw \
             {folder}/hugepages-*/enabled - - - - inherit\n"
        ),
    );
    let mut host = host(&files);
    host.command_line = Known(
        ["transparent_hugepage=madvise", "transparent-hugepage=sometimes"]
            .map(String::from)
            .to_vec(),
    );
    let last = |file: &str| thp_switch(&host, file).unwrap().pop().map(|step| step.value);
    assert_eq!(last("enabled").as_deref(), Some("madvise"));
    assert_eq!(last("defrag").as_deref(), Some("defer+madvise"));
    assert_eq!(last("hugepages-64kB/enabled").as_deref(), Some("inherit"));
    assert_eq!(last("shmem_enabled"), None);
}

#[test]
fn the_next_boots_default_size_is_what_its_command_line_says() {
    let mut host = host(&systemd().with_file("/etc/sysctl.d/50.conf", "vm.nr_hugepages=3\n"));
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    host.architecture = Known("x86_64".into());
    host.default_huge_page = Known(PageSize::GIB_1);
    host.command_line = Known(words("default_hugepagesz=1G"));
    assert_eq!(default_size(&host), Some(PageSize::GIB_1));
    let place = FileLocation { file: "/boot/grub/grub.cfg".into(), line: 9 };
    host.configuration.boot = Known(BootEntry {
        loader: hugewise_model::configuration::BootLoader::Grub,
        command_line: words("quiet hugepagesz=2M hugepages=\"5\""),
        place,
    });
    assert_eq!(default_size(&host), Some(PageSize::MIB_2));
    let values: Vec<u64> = predict_pool_steps(&host, PageSize::MIB_2)
        .unwrap()
        .into_iter()
        .map(|step| step.value)
        .collect();
    assert_eq!(values, [5, 3]);
    assert!(cmdline::huge_page_words(&["hugepages=1", "--", "hugepages=2"]).ignored.is_empty());
}

const OURS: &str = "/etc/sysctl.d/zz-hugewise-pool.conf";

fn word(source: &MapSource, path: &str, text: &str) -> SettingOutcome {
    let mut words = predict_effective_settings(&host(source), source, path, text);
    assert_eq!(words.len(), 1, "{words:?}");
    words.remove(0).outcome
}

#[test]
fn who_has_the_last_word_on_a_file_that_is_not_there_yet() {
    let text = "vm.nr_hugepages = 512\n";
    let plain = systemd().with_file("/etc/sysctl.d/50.conf", "vm.nr_hugepages=1\n");
    assert_eq!(word(&plain, OURS, text), SettingOutcome::Wins);
    // Without systemd, sysctl.conf is read last, whatever its name.
    let procps = plain
        .clone()
        .with_file("/proc/1/comm", "init\n")
        .with_file("/etc/sysctl.conf", "\nvm.nr_hugepages=3\n");
    let lost = |place: &str, value: &str| SettingOutcome::Loses {
        place: line_of(place),
        value: value.into(),
    };
    assert_eq!(word(&procps, OURS, text), lost("/etc/sysctl.conf:2", "3"));
    let later =
        plain.clone().with_file("/usr/lib/sysctl.d/zzz.conf", "vm.nr_h*=7\nvm/nr_hugepages=0x4\n");
    assert_eq!(word(&later, OURS, text), lost("/usr/lib/sysctl.d/zzz.conf:2", "4"));
    let twin =
        plain.clone().with_file("/usr/lib/sysctl.d/zzz.conf", "vm.nr_hugepages_mempolicy=6\n");
    assert_eq!(word(&twin, OURS, text), lost("/usr/lib/sysctl.d/zzz.conf:1", "6"));
    let same = plain
        .clone()
        .with_file("/etc/tmpfiles.d/a.conf", format!("w {POOL}/nr_hugepages - - - - 512\n"));
    assert_eq!(
        word(&same, OURS, text),
        SettingOutcome::Agrees { place: line_of("/etc/tmpfiles.d/a.conf:1") }
    );
    let other =
        plain.clone().with_file("/etc/tmpfiles.d/a.conf", format!("w {POOL}/nr_huge* - - - - 9\n"));
    assert_eq!(word(&other, OURS, text), lost("/etc/tmpfiles.d/a.conf:1", "9"));
    // A file of a stronger folder hides it; a value that the kernel refuses is none.
    let weak = OURS.replace("/etc/", "/usr/lib/");
    assert_eq!(
        word(&plain.clone().with_link(OURS, "/dev/null"), &weak, text),
        SettingOutcome::Unheard
    );
    assert_eq!(word(&plain, OURS, "vm.nr_hugepages = lots\n"), SettingOutcome::Unheard);
    assert!(matches!(
        word(&plain.with_denied("/etc/tmpfiles.d/a.conf"), OURS, text),
        SettingOutcome::Unknown(_)
    ));
    assert_eq!(
        predict_effective_settings(&host(&systemd()), &systemd(), "/etc/my.cnf", "a=1\n"),
        []
    );
}

#[test]
fn nodes_have_their_own_last_word() {
    let node = |id: u32| {
        format!("/sys/devices/system/node/node{id}/hugepages/hugepages-2048kB/nr_hugepages")
    };
    let source =
        systemd().with_file("/etc/tmpfiles.d/50.conf", format!("w {} - - - - 5\n", node(1)));
    let path = "/etc/tmpfiles.d/00-ours.conf";
    assert_eq!(word(&source, path, &format!("w {} - - - - 10\n", node(0))), SettingOutcome::Wins);
    assert_eq!(
        word(&source, path, &format!("w {POOL}/nr_hugepages - - - - 10\n")),
        SettingOutcome::Loses { place: line_of("/etc/tmpfiles.d/50.conf:1"), value: "5".into() }
    );
    let overcommit = format!("w {POOL}/nr_overcommit_hugepages - - - - 10\n");
    assert_eq!(word(&source, path, &overcommit), SettingOutcome::Wins);
    let thp = "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n";
    let tuned = source
        .with_file("/etc/tuned/active_profile", "db\n")
        .with_file("/usr/lib/tuned/db/tuned.conf", "[vm]\ntransparent_hugepages=never\n");
    assert_eq!(
        word(&tuned, path, thp),
        SettingOutcome::Loses {
            place: line_of("/usr/lib/tuned/db/tuned.conf:2"),
            value: "never".into()
        }
    );
}

/// `apply_sysctl` of initscripts: /etc/sysctl.conf, then /etc/sysctl.d; before it, and on RHEL 4,
/// /etc/sysctl.conf alone. Nothing of theirs reads tmpfiles.d.
#[test]
fn without_systemd_a_script_decides_who_has_the_last_word() {
    let text = "vm.nr_hugepages = 512\n";
    let files = MapSource::new()
        .with_file("/proc/1/comm", "init\n")
        .with_file("/etc/sysctl.conf", "vm.nr_hugepages=3\n")
        .with_file("/etc/sysctl.d/50", "vm.nr_hugepages=4\n")
        .with_folder("/etc/tmpfiles.d");
    let lost = |place: &str, value: &str| SettingOutcome::Loses {
        place: line_of(place),
        value: value.into(),
    };
    let thp = "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n";
    let path = "/etc/tmpfiles.d/00-ours.conf";
    for (script, of_folder, of_conf) in [
        ("apply_sysctl\n", SettingOutcome::Wins, lost("/etc/sysctl.d/50:1", "4")),
        ("action x sysctl -e -p /etc/sysctl.conf\n", SettingOutcome::Unheard, SettingOutcome::Wins),
    ] {
        let host = files.clone().with_file("/etc/rc.d/rc.sysinit", script);
        assert_eq!(word(&host, OURS, text), of_folder, "{script}");
        assert_eq!(word(&host, "/etc/sysctl.conf", text), of_conf, "{script}");
        assert_eq!(word(&host, path, thp), SettingOutcome::Unheard, "{script}");
    }
    let debian = files.with_file("/etc/init.d/procps", "$DAEMON --system\n");
    assert_eq!(word(&debian, OURS, text), lost("/etc/sysctl.conf:1", "3"));
    assert_eq!(word(&debian, path, thp), SettingOutcome::Unheard);
}
