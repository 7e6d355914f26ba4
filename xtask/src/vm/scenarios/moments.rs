//! What check foretells of now, of PostgreSQL's next restart and of the next boot, beside what systemd and the kernel make
//! of it, where it takes a command line, a processor's largest pages, or the order of systemd's own services.

use serde_json::Value;

use super::check;
use crate::Failure;
use crate::vm::host::postgresql;
use crate::vm::machine::Machine;
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "moments",
    shows: "now, the next restart and the next boot as check foretells them, and as they come: command line, 1 GiB pages, \
            files that lose",
    run,
};

/// A set-up, from a machine that has booted without anything that is about huge pages.
struct SetUp {
    name: &'static str,
    /// Brings it about.
    arrange: &'static str,
    /// Of the three moments, as the kernel and the server were seen to make them.
    expected: [&'static str; 3],
}

/// Functions for the set-ups, and an end to the one before.
const WORDS: &str = "set -e
pool() { echo $2 >/sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages; [ $(cat /sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages) = $2 ]; }
settings() { printf '%s\\n' \"$@\" >/etc/postgresql/15/main/conf.d/w-moments.conf; }
restart() { systemctl restart postgresql@15-main; }
line() { echo \"GRUB_CMDLINE_LINUX_DEFAULT=\\\"\\$GRUB_CMDLINE_LINUX_DEFAULT $*\\\"\" >/etc/default/grub.d/moments.cfg; update-grub 2>/dev/null; }
";

/// Undoes a set-up: pools and files are as after a boot without anything that is about huge pages.
const FORGET: &str =
    "rm -f /etc/postgresql/15/main/conf.d/w-moments.conf /etc/sysctl.d/*moments.conf /etc/tmpfiles.d/*moments.conf
if [ -e /etc/default/grub.d/moments.cfg ]; then rm /etc/default/grub.d/moments.cfg; update-grub 2>/dev/null; fi
for pool in /sys/kernel/mm/hugepages/hugepages-*; do echo 0 >$pool/nr_hugepages; done
echo 0 >/proc/sys/vm/nr_overcommit_hugepages
systemctl reset-failed postgresql@15-main
systemctl restart postgresql@15-main
";

const SET_UPS: [SetUp; 5] = [
    SetUp {
        name: "a page of 1 GiB, made at run time alone",
        arrange: "settings 'huge_page_size = 1GB' 'shared_buffers = 800MB'; pool 1048576 1; restart",
        expected: ["all", "all", "none"],
    },
    SetUp {
        name: "a page of 1 GiB, on the next command line alone, and the server must have it since it started",
        arrange: "line hugepagesz=1G hugepages=1; settings 'huge_page_size = 1GB' 'shared_buffers = 800MB' 'huge_pages = on'",
        expected: ["none", "does_not_start", "all"],
    },
    SetUp {
        name: "300 pages on the next command line, and a file that says 0",
        arrange: "line hugepages=300; echo 'vm.nr_hugepages = 0' >/etc/sysctl.d/10-moments.conf; pool 2048 300; restart",
        expected: ["all", "all", "none"],
    },
    SetUp {
        name: "300 pages in sysctl.d, and tmpfiles.d writes 20",
        arrange: "echo 'vm.nr_hugepages = 300' >/etc/sysctl.d/50-moments.conf
echo 'w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 20' >/etc/tmpfiles.d/moments.conf
settings 'huge_pages = on'; pool 2048 300; restart",
        expected: ["all", "all", "does_not_start"],
    },
    SetUp {
        name: "20 pages on the next command line, and the rest beyond the pool",
        arrange: "line hugepages=20; echo 'vm.nr_overcommit_hugepages = 280' >/etc/sysctl.d/50-moments.conf",
        expected: ["none", "none", "all"],
    },
];

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    // With less there is no gibibyte free in one piece even as the kernel starts.
    let mut machine = stage.boot(&disk, Hardware { memory_mib: 6144, ..Hardware::default() })?;
    let mut wrong = Vec::new();
    for set_up in &SET_UPS {
        stage.say(set_up.name);
        machine.must(&format!("{WORDS}{}", set_up.arrange))?;
        let foretold = foretold(&check(&mut machine)?)?;
        let now = seen(&mut machine)?;
        // A start that fails is what it is about.
        machine.run("systemctl restart postgresql@15-main")?;
        let restarted = seen(&mut machine)?;
        machine = stage.reboot(machine)?;
        let booted = seen(&mut machine)?;
        let seen = [now, restarted, booted];
        stage.say(&format!("foretold {foretold:?}, seen {seen:?}"));
        for ((moment, foretold), (seen, expected)) in
            MOMENTS.into_iter().zip(&foretold).zip(seen.into_iter().zip(set_up.expected))
        {
            // A set-up that is not what it says proves nothing, whatever was foretold of it.
            if seen != expected || foretold != seen {
                let name = set_up.name;
                wrong.push(format!("{name}: {moment}: foretold {foretold}, seen {seen}, meant to be {expected}"));
            }
        }
        machine.must(FORGET)?;
    }
    let (set_ups, forecasts) = (SET_UPS.len(), SET_UPS.len() * MOMENTS.len());
    stage.say(&format!("verdict: {set_ups} set-ups, {forecasts} forecasts, {} wrong", wrong.len()));
    ensure(wrong.is_empty(), || wrong.join("\n"))?;
    machine.power_off()
}

/// As check has them in JSON.
const MOMENTS: [&str; 3] = ["now", "restart", "reboot"];

/// What check says of PostgreSQL at each moment.
fn foretold(check: &Value) -> Result<[String; 3], Failure> {
    let instances = check["instances"].as_array().map(Vec::as_slice).unwrap_or_default();
    let server = instances.iter().find(|instance| instance["engine"] == "postgresql");
    let server = server.ok_or_else(|| format!("no PostgreSQL: {:#}", check["instances"]))?;
    let at = |moment: &str| {
        server.pointer(&format!("/moments/{moment}/state")).and_then(Value::as_str).unwrap_or("missing").to_owned()
    };
    Ok(MOMENTS.map(at))
}

/// What the kernel says of it.
fn seen(machine: &mut Machine) -> Result<&'static str, Failure> {
    let active = machine.run("systemctl is-active postgresql@15-main.service")?;
    if active.code != 0 {
        return Ok("does_not_start");
    }
    let server = postgresql(machine)?;
    // Base pages hold the System V interlock and no more, where the rest is in the pool.
    Ok(match (server.huge, server.base) {
        (0, _) => "none",
        (_, base) if base < 64 => "all",
        _ => "partly",
    })
}
