//! A host's daily capture as systemd sends it: its day comes, the hardened unit sends, and what
//! arrives tells what root's check tells.

use std::fmt::Write;

use super::served::{security, summary};
use super::{check, must_find};
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sent",
    shows: "hugewise-capture.timer sends a capture when its day comes, whole under its hardened \
         unit, and says what went wrong where nobody takes it",
    run,
};

const FILES: [(&str, &str); 2] = [
    (
        "hugewise-capture.service",
        include_str!("../../../../packaging/systemd/hugewise-capture.service"),
    ),
    (
        "hugewise-capture.timer",
        include_str!("../../../../packaging/systemd/hugewise-capture.timer"),
    ),
];

/// Takes whatever is put, a file each in `/run/inbox`.
const STORE: &str = r#"use strict;
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1:8123', Listen => 5, ReuseAddr => 1) or die "listen: $!";
mkdir '/run/inbox';
my $count = 0;
while (my $client = $listener->accept) {
    my $head = '';
    while (my $line = <$client>) { last if $line =~ /^\r?\n$/; $head .= $line }
    my ($left) = $head =~ /^content-length:\s*(\d+)/im or next;
    my $body = '';
    while ($left > 0) {
        my $got = read($client, $body, $left, length $body) or last;
        $left -= $got;
    }
    open(my $file, '>', '/run/inbox/part') or die "open: $!";
    print $file $body;
    close $file;
    rename '/run/inbox/part', '/run/inbox/' . $count++ . '.tar.gz' unless $left;
    print $client "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    close $client;
}
"#;

/// What nobody may read in a journal.
const TOKEN: &str = "c4d1f0aa7b";

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    let mut setup = "set -e\ncp /usr/local/bin/hugewise /usr/bin/hugewise\n".to_owned();
    for (name, text) in FILES {
        writeln!(setup, "cat >/etc/systemd/system/{name} <<'end of file'\n{text}\nend of file")?;
    }
    machine.must(&format!(
        "{setup}cat >/run/store <<'end of file'\n{STORE}end of file\nsystemctl daemon-reload\n"
    ))?;

    // Nobody has said where to.
    machine.must("systemctl start hugewise-capture.service")?;
    let state = machine
        .must("systemctl show hugewise-capture.service --property ConditionResult --value")?;
    ensure(state.trim() == "no", || format!("without a target it was started: {state}"))?;

    machine.must(&format!(
        "set -e
mkdir -p /etc/hugewise
umask 077
echo 'http://127.0.0.1:8123/in?token={TOKEN}' >/etc/hugewise/capture-target
systemd-run --quiet --unit store perl /run/store
for second in $(seq 60); do [ -d /run/inbox ] && break; sleep 1; done
systemctl enable --now hugewise-capture.timer
"
    ))?;
    machine.must("sleep 5; [ -z \"$(ls /run/inbox)\" ]")?;
    // Within six hours of midnight.
    machine.must(
        "date -s 'tomorrow 06:00:05' >/dev/null
for second in $(seq 600); do [ -e /run/inbox/0.tar.gz ] && exit; sleep 1; done
date >&2
systemctl list-timers --all --no-pager hugewise-capture.timer >&2
journalctl -u hugewise-capture.timer -u hugewise-capture.service --no-pager >&2
exit 1
",
    )?;
    machine.must("while systemctl is-active --quiet hugewise-capture.service; do sleep 1; done")?;
    let ended =
        machine.must("systemctl show hugewise-capture.service --property Result --value")?;
    ensure(ended.trim() == "success", || format!("the service ended with {ended}"))?;

    let by_root = check(&mut machine)?;
    must_find(stage, &by_root, "HW201")?;
    let said = machine.run("hugewise check --root /run/inbox/0.tar.gz --format json")?;
    ensure(said.code <= 1, || {
        format!("check of what was sent ended with {}: {}", said.code, said.err)
    })?;
    let (root, sent) = (summary(&by_root), summary(&serde_json::from_str(&said.out)?));
    ensure(root == sent, || format!("root sees {root:#}\nwhat was sent tells {sent:#}"))?;
    stage.report(
        "what the timer sent tells the same instances, chains and findings, and nothing is unread",
    );

    // The store is gone.
    let failed = machine.run("systemctl stop store; systemctl start hugewise-capture.service")?;
    ensure(failed.code != 0, || "it says that it sent where nobody takes anything".to_owned())?;
    let journal = machine.must("journalctl -u hugewise-capture --no-pager")?;
    ensure(journal.contains("127.0.0.1:8123"), || {
        format!("the journal does not say where to:\n{journal}")
    })?;
    ensure(!journal.contains(TOKEN), || format!("the journal has the token:\n{journal}"))?;
    let why = journal.lines().rev().find(|line| line.contains("hugewise[")).unwrap_or_default();
    stage.report(why.split_once(": ").map_or(why, |(_, said)| said));
    machine.must("[ -z \"$(find /tmp /var/tmp -name '*hugewise*')\" ]")?;
    stage.report(&security(&mut machine, "hugewise-capture")?);
    machine.power_off()
}
