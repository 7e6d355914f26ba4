//! What a login may lock, against pam_limits itself: what su gives a user by rules of all kinds.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hugewise_diagnose::login;
use hugewise_host::FactReader;
use hugewise_host::config::limits;
use hugewise_model::process::SoftHard;
use hugewise_model::{Bytes, Host, Limit, Observed, Process};
use hugewise_testkit::{Skip, require};

use crate::real::{harness, namespace};

const USER: &str = "hwuser";
const UID: u32 = 54321;
const GROUPS: [(u32, &str); 2] = [(54321, "hwinstall"), (54322, "hwdba")];

/// Domains that are about the user in some way, and others that nearly are.
const DOMAINS: [&str; 21] = [
    "hwuser",
    "hwuser",
    "other",
    "*",
    "@hwinstall",
    "@hwdba",
    "@other",
    "%hwdba",
    "54321",
    ":54321",
    ":54400",
    "54321:",
    "54322:",
    "54000:55000",
    "@:54321",
    "@:54322",
    "@54000:55000",
    "@54322:54322",
    "@54322:",
    ":",
    "@:",
];
const KINDS: [&str; 4] = ["soft", "hard", "-", "weird"];
const VALUES: [&str; 10] =
    ["64", "8192", "4096", "1000", "unlimited", "-1", "infinity", "lots", "100k", "0"];

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all[usize::try_from(self.0 >> 33).unwrap() % all.len()]
    }
}

fn limit(text: &str) -> Limit {
    text.trim().parse().map_or(Limit::Unlimited, |kib| Limit::At(Bytes::from_kib(kib)))
}

/// Soft and hard memlock of a session.
fn session(su: &Path) -> Result<(Limit, Limit), Skip> {
    let script = "ulimit -S -l; ulimit -H -l";
    let output = Command::new(su).args(["-s", "/bin/bash", USER, "-c", script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(limit);
    lines
        .next()
        .zip(lines.next())
        .ok_or_else(|| Skip(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The host as far as a login goes: this system, and a first process with these limits.
fn host(first: SoftHard) -> Host {
    let mut host = hugewise_host::read(&*hugewise_host::source::open_source(None).unwrap());
    let first = Process { pid: 1, memlock: Observed::Known(first), ..Process::default() };
    host.processes = Observed::Known(vec![Arc::new(first)]);
    host
}

#[test]
fn su_gives_what_is_read() {
    if !require!(namespace::inside("pam::su_gives_what_is_read")) {
        return;
    }
    let pam = fs::read_to_string("/etc/pam.d/su").unwrap_or_default();
    let asks = pam
        .lines()
        .any(|line| !line.trim_start().starts_with('#') && line.contains("pam_limits.so"));
    let is_debian = fs::exists("/etc/debian_version").unwrap();
    require!(
        (asks && is_debian)
            .then_some(())
            .ok_or_else(|| Skip("su asks no pam_limits of Debian's here".into()))
    );
    let su = require!(harness::program(&["/usr/bin/su", "/bin/su"]));
    let prlimit = require!(harness::program(&["/usr/bin/prlimit"]));
    let append = |file: &str, line: String| {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, format!("{text}{line}\n")).unwrap();
    };
    append("/etc/passwd", format!("{USER}:x:{UID}:{}::/:/bin/sh", GROUPS[0].0));
    append("/etc/shadow", format!("{USER}:*:19000:0:99999:7:::"));
    append("/etc/group", format!("{}:x:{}:", GROUPS[0].1, GROUPS[0].0));
    append("/etc/group", format!("{}:x:{}:{USER}", GROUPS[1].1, GROUPS[1].0));
    fs::remove_dir_all("/etc/security/limits.d").ok();
    // The first process of the namespace: whoever opens the session has other limits. Without
    // CAP_SYS_RESOURCE no session has more than who opens it.
    let at = |kib| Limit::At(Bytes::from_kib(kib));
    let most = limit(
        &String::from_utf8(
            Command::new("bash").args(["-c", "ulimit -H -l"]).output().unwrap().stdout,
        )
        .unwrap(),
    );
    let first = SoftHard { soft: at(100), hard: at(2048) };
    let memlock = format!("--memlock={}:{}", 100 << 10, 2048 << 10);
    require!(
        Command::new(prlimit)
            .args(["--pid", "1", &memlock])
            .status()
            .unwrap()
            .success()
            .then_some(())
            .ok_or_else(|| Skip("the first process keeps its limits".into()))
    );
    let mut host = host(first);
    let source = hugewise_host::source::open_source(None).unwrap();
    let mut dice = Dice(1);
    let mut compared = 0;
    for round in 0..200 {
        let mut text = String::new();
        for _ in 0..=round % 5 {
            let words = [dice.of(&DOMAINS), dice.of(&KINDS), "memlock", dice.of(&VALUES)];
            writeln!(text, "{}", words.join(" ")).unwrap();
        }
        fs::write("/etc/security/limits.conf", &text).unwrap();
        host.configuration.limits = limits::read(&mut FactReader::new(&*source));
        let groups = GROUPS.map(|(gid, name)| (gid, name.to_owned()));
        let hard =
            limits::for_user(host.configuration.limits.as_known().unwrap(), USER, UID, &groups)
                .hard;
        let hard = hard.map_or(first.hard, |(limit, _)| limit);
        if hard > most {
            continue;
        }
        let read = (login::of_log_in(&host, UID).limit, hard);
        let (soft, hard) = require!(session(&su));
        assert_eq!(read, (Observed::Known(soft), hard), "{text}");
        compared += 1;
    }
    assert!(compared > 100, "only {compared} were compared");
}
