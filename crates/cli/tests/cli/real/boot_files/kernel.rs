//! What the kernel makes of what is written, and what a whole boot's files come to: the real
//! programs write to the real kernel.

use std::fs;
use std::process::Command;

use hugewise_diagnose::boot;
use hugewise_host::config::kernel_value::{sysctl_count, sysfs_count};
use hugewise_host::source::LiveSource;
use hugewise_lab::guard::PoolGuard;
use hugewise_model::{Host, Observed, PageSize};
use hugewise_testkit::require;

use super::forms::{POOL, THP, VALUES};
use super::{FOLDERS, Form, Programs, own_folders, place, started_by};
use crate::real::{harness, namespace};

/// More numbers, some of them too long.
const NUMBERS: [&str; 14] = [
    "",
    " ",
    " 7",
    "7 ",
    "\t7\t",
    "18446744073709551615",
    "0xffffffffffffffff",
    "0x10000000000000000",
    "01777777777777777777777",
    "12345678901234567890",
    "123456789012345678901 5",
    "5                              6",
    "0x5 0x6",
    "--5",
];

/// kernel.shmall of a namespace of its own has the parser of vm.nr_hugepages, and nobody else sees
/// it.
#[test]
fn the_kernel_takes_counts_as_foretold() {
    let _ = require!(harness::program(&["/usr/bin/unshare"]));
    let texts: Vec<&str> = VALUES.into_iter().chain(NUMBERS).collect();
    let script = "for text in \"$@\"; do echo 111 > /proc/sys/kernel/shmall\n\
                  printf '%s\\n' \"$text\" 2>/dev/null > /proc/sys/kernel/shmall; cat \
         /proc/sys/kernel/shmall; done";
    let mut command = Command::new("unshare");
    let output = command.args(["--ipc", "sh", "-c", script, "sh"]).args(&texts).output().unwrap();
    let found: Vec<u64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(found.len(), texts.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for (text, found) in texts.iter().zip(found) {
        assert_eq!(sysctl_count(text).unwrap_or(111), found, "{text:?}");
    }
}

fn number(file: &str) -> u64 {
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// Values that the kernel could take for a pool are small: this machine's memory is others' too.
fn is_small(value: Option<u64>) -> bool {
    value.is_none_or(|value| value <= 200)
}

#[test]
fn the_kernel_takes_pages_as_foretold() {
    let _guard = require!(PoolGuard::take_for_test());
    let pool = format!("{POOL}/nr_hugepages");
    for (file, foretell) in [
        (pool.as_str(), sysfs_count as fn(&str) -> Option<u64>),
        ("/proc/sys/vm/nr_hugepages", sysctl_count),
    ] {
        for text in VALUES
            .into_iter()
            .chain(NUMBERS)
            .chain(["7\n", "7\n\n"])
            .filter(|text| is_small(foretell(text)))
        {
            fs::write(&pool, "3").unwrap();
            // An empty write is none at all.
            let _ = fs::write(file, text);
            assert_eq!(foretell(text).unwrap_or(3), number(&pool), "{file}: {text:?}");
        }
    }
}

/// Both mechanisms at once: text of sysctl.d, text of tmpfiles.d.
const BOOTS: [(&str, &str); 24] = [
    ("vm.nr_hugepages=11", ""),
    ("vm.nr_hugepages=11 # pages", ""),
    ("vm.nr_hugepages=0x11", ""),
    ("vm.nr_hugepages=011", ""),
    ("vm.nr_hugepages=11\nvm.nr_hugepages=junk", ""),
    ("vm.nr_hugepages=11\nvm.nr_hugepages", ""),
    ("vm.nr_hugepages=11\n-vm.nr_hugepages", ""),
    ("vm.nr_hugepages=11\nvm.nr_hugepages_mempolicy=12", ""),
    ("vm.nr_hugepages_mempolicy=12\nvm.nr_hugepages=11", ""),
    ("vm.nr_hugepages=11\nvm.nr_hugepages_mempolicy=12\nvm.nr_hugepages=11", ""),
    ("vm.nr_hugepages=11\nvm.nr_*=12", ""),
    ("vm.nr_*=12\nvm.nr_hugepages=11", ""),
    ("vm.nr_*=12\n-vm.nr_hugepages\n-vm.nr_hugepages_mempolicy", ""),
    ("vm.nr_overcommit_hugepages=0x20", "w P/nr_overcommit_hugepages - - - - 33\n"),
    ("vm.nr_hugepages=11", "w P/nr_hugepages - - - - 12\n"),
    ("vm.nr_hugepages=11", "w P/nr_hugepages - - - - 12 # pages\n"),
    ("vm.nr_hugepages=11", "w P/nr_hugepages - - - - 0x12\n"),
    ("vm.nr_hugepages=11", "w P/nr_hugepages - - - - 012\n"),
    ("vm.nr_hugepages=11", "w /proc/sys/vm/nr_hugepages - - - - 012 # pages\n"),
    ("vm.nr_hugepages=11", "w+ P/nr_hugepages - - - - 12\nw+ P/nr_hugepages - - - - 13\n"),
    ("", "w P/nr_hugepages - - - - 12\nf+ P/nr_hugepages - - - - 13\n"),
    ("", "f+ P/nr_hugepages - - - - 13\nf+ /proc/sys/vm/nr_hugepages - - - - 14\n"),
    (
        "vm.nr_hugepages=11",
        "w /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages - - - - 12\n",
    ),
    (
        "vm.nr_hugepages=11",
        "w /sys/devices/system/node/node9/hugepages/hugepages-2048kB/nr_hugepages - - - - 12\n",
    ),
];

/// Texts for THP's switch.
const SWITCHES: [&str; 7] =
    ["madvise", "never", "always\\n", "never # no", "\"never\"", "Never", "inherit"];

/// This machine as its next boot would find it, of whatever is in the folders now.
fn at_boot(host: &Host, live: &LiveSource) -> Host {
    let mut after = boot::with_files(host, &started_by(live, "systemd"));
    after.configuration.boot = Observed::Absent;
    after.configuration.tuned = Observed::Absent;
    after
}

#[test]
fn a_boot_ends_as_foretold() {
    if !require!(namespace::inside("boot_files::kernel::a_boot_ends_as_foretold")) {
        return;
    }
    let programs = require!(Programs::find());
    let _guard = require!(PoolGuard::take_for_test());
    own_folders(&FOLDERS);
    let live = LiveSource::new();
    let host = hugewise_host::read(&live);
    assert_eq!(
        boot::default_size(&host),
        Some(PageSize::MIB_2),
        "this test's files are about pages of 2 MiB"
    );
    let form = |sysctl: &str, tmpfiles: &str| Form {
        name: String::new(),
        files: vec![
            ("/etc/sysctl.d/50.conf".into(), sysctl.as_bytes().to_vec()),
            (
                "/usr/lib/tmpfiles.d/50.conf".into(),
                tmpfiles.replace("P/", &format!("{POOL}/")).into_bytes(),
            ),
        ],
    };
    for (sysctl, tmpfiles) in BOOTS {
        place(&form(sysctl, tmpfiles));
        for file in ["nr_hugepages", "nr_overcommit_hugepages"] {
            fs::write(format!("{POOL}/{file}"), "0").unwrap();
        }
        programs.systemd_sysctl();
        programs.systemd_tmpfiles();
        let after = at_boot(&host, &live);
        let pool = boot::pool_at_boot(&after, PageSize::MIB_2).unwrap();
        assert_eq!(
            pool.total.get(),
            number(&format!("{POOL}/nr_hugepages")),
            "{sysctl:?} and {tmpfiles:?}: {pool:?}"
        );
        let on_demand = boot::predict_overcommit(&after, PageSize::MIB_2)
            .unwrap()
            .last()
            .map_or(0, |step| step.value);
        assert_eq!(
            on_demand,
            number(&format!("{POOL}/nr_overcommit_hugepages")),
            "{sysctl:?} and {tmpfiles:?}"
        );
    }
    for text in SWITCHES {
        place(&form("", &format!("w {THP}/enabled - - - - {text}\n")));
        fs::write(format!("{THP}/enabled"), "madvise").unwrap();
        programs.systemd_tmpfiles();
        let steps = boot::predict_thp(&at_boot(&host, &live)).unwrap();
        let foretold = steps.last().map_or("madvise", |step| step.value.as_str());
        let found = fs::read_to_string(format!("{THP}/enabled")).unwrap();
        assert!(found.contains(&format!("[{foretold}]")), "{text:?}: {found} and not {foretold}");
    }
    eprintln!("whole boots: all {} agreed with the kernel", BOOTS.len() + SWITCHES.len());
}
