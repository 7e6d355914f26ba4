//! Set-ups that take a machine of their own: pages of 1 GiB, which a host that has run for long has
//! in no piece, and limits that root itself may not raise everywhere.
//!
//! Two boots with one command line and the same files. In the first, somebody has changed what a
//! running host can be changed in; check is asked, the stand-in is looked at and started again. The
//! second is the next boot.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hugewise_testkit::Skip;
use hugewise_testkit::require;
use hugewise_testkit::virtual_machine::{InitramfsArchive, VirtualMachine};

use super::forecast::{Forecast, Moment};
use crate::real::{harness, oracle, vm};

const COMMAND_LINE: &str =
    "default_hugepagesz=2M hugepagesz=1G hugepages=1 hugepagesz=2M hugepages=40";

/// What both boots run. A set-up is its name, the value of `use_large_pages`, the stand-in's
/// arguments, and what is done to the running machine before and after the start.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp
mount -t tmpfs shm /dev/shm
boot=first
grep -q boot=second /proc/cmdline && boot=second
# A gibibyte in one piece is there once what lies in it has moved away: the kernel is asked more than once.
pool() {
    for again in 1 2 3; do
        echo $2 > /sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages
        [ "$(cat /sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages)" -ge $2 ] && break
        echo 3 > /proc/sys/vm/drop_caches
        echo 1 > /proc/sys/vm/compact_memory
        sleep 1
    done
}
start() {
    rm -f /tmp/said /tmp/stop
    mkfifo /tmp/stop
    /app/home/bin/oracle --as oracle:PROD --sessions 1 --touch 0 "$@" < /tmp/stop > /tmp/said 2>&1 &
    child=$!
    exec 3> /tmp/stop
    until grep -q '^ready' /tmp/said; do
        kill -0 $child 2> /dev/null || return 0
        usleep 50000
    done
}
stop() {
    exec 3>&-
    wait
}
look() {
    for pid in /proc/[0-9]*; do
        grep -q ora_pmon_PROD $pid/cmdline 2> /dev/null && break
    done
    if ! grep -q '^ready' /tmp/said; then
        echo "@@seen $name $1 does_not_start $(tail -n 1 /tmp/said)"
        return
    fi
    awk -v moment="$name $1" '
        /^[0-9a-f]+-[0-9a-f]+ / { of_server = ($6 ~ "^/SYSV") }
        of_server && /^Size:/ { size = $2 }
        of_server && /^KernelPageSize:/ { if ($2 > 4) huge += size; else base += size }
        END {
            state = huge == 0 ? "none" : base == 0 ? "all" : "partly"
            print "@@seen", moment, state, huge / 1024, "MiB on huge pages,", base / 1024, "MiB on base pages"
        }' $pid/smaps
}
set_up() {
    name=$1
    before=$2
    after=$3
    shift 3
    if [ $boot = second ]; then
        start "$@"
        look reboot
        stop
        return
    fi
    $before
    start "$@"
    $after
    echo "@@begin $name"
    /app/hugewise check --format json
    echo "@@end $?"
    look now
    stop
    start "$@"
    look restart
    stop
    # As the second boot will find it.
    pool 1048576 1
    pool 2048 40
    echo 0 > /proc/sys/vm/hugetlb_shm_group
}
policy() { echo "*.use_large_pages='$1'" > /app/home/dbs/initPROD.ora; }
nothing() { :; }
more() { pool 2048 100; }
second_gibibyte() { pool 1048576 2; }
fewer() { pool 2048 0; pool 1048576 0; }
unlimited() { more; ulimit -l unlimited; }
group() { more; echo 54321 > /proc/sys/vm/hugetlb_shm_group; }
policy TRUE
set_up second_gibibyte second_gibibyte nothing --segments 1G,1G --pages 1G --fall-back
set_up two_sizes more nothing --segments 1G,128M --pages graded --fall-back
set_up two_sizes_taken_away more fewer --segments 1G,128M --pages graded --fall-back
policy ONLY
set_up two_sizes_must more nothing --segments 1G,128M --pages graded
policy TRUE
set_up group_at_run_time group nothing --segments 128M --pages 2M --fall-back --user 54321:54321
set_up unlimited_memlock unlimited nothing --segments 128M --pages 2M --fall-back --user 54321:54321
echo "@@done"
poweroff -f
"#;

const SET_UPS: [&str; 6] = [
    "two_sizes",
    "two_sizes_taken_away",
    "second_gibibyte",
    "two_sizes_must",
    "group_at_run_time",
    "unlimited_memlock",
];

fn boot(which: &str) -> Result<String, Skip> {
    let mut files = InitramfsArchive::with_busybox()?;
    let (hugewise, oracle) = (Path::new(harness::HUGEWISE), oracle::program());
    files.add_file("init", 0o755, INIT.as_bytes());
    files.copy_as(hugewise, "app/hugewise").unwrap();
    files.copy_as(oracle, "app/home/bin/oracle").unwrap();
    files.libraries_of(&[hugewise, oracle]).unwrap();
    files.add_folder("app/home/dbs");
    files.add_file("etc/hostname", 0o644, b"gibibytes\n");
    files.add_file(
        "etc/passwd",
        0o644,
        b"root:x:0:0::/:/bin/sh\noracle:x:54321:54321::/app/home:/bin/sh\n",
    );
    files.add_file("etc/group", 0o644, b"root:x:0:\noracle:x:54321:\n");
    let kernel_arguments = format!("{COMMAND_LINE} boot={which}");
    let machine = VirtualMachine { files, memory_mib: 6144, options: Vec::new(), kernel_arguments };
    let mut console = String::new();
    machine.run(Duration::from_secs(300), &mut |line| {
        console.push_str(line);
        console.push('\n');
    })?;
    assert!(console.contains("@@done"), "the machine did not finish:\n{console}");
    Ok(console)
}

/// What the machine saw, by set-up and moment: the state, and the figures behind it.
fn seen(console: &str) -> BTreeMap<(String, String), (String, String)> {
    let lines = console.lines().filter_map(|line| line.split_once("@@seen ")).map(|(_, rest)| rest);
    let one = |line: &str| {
        let mut words = line.splitn(4, ' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        ((next(), next()), (next(), next()))
    };
    lines.map(one).collect()
}

#[test]
fn memory_of_several_page_sizes_and_a_boot_that_is_one() {
    let before = require!(boot("first"));
    let after = require!(boot("second"));
    let mut seen_all = seen(&before);
    seen_all.extend(seen(&after));
    let mut wrong = Vec::new();
    for name in SET_UPS {
        let check = vm::case(&before, name);
        let instances = check.json["instances"].as_array().unwrap();
        let instance = instances.iter().find(|instance| instance["name"] == "PROD");
        let pid =
            instance.unwrap_or_else(|| panic!("{name}: {:#}", check.json))["pid"].as_u64().unwrap();
        let forecast = Forecast::of(&check, "oracle", u32::try_from(pid).unwrap());
        let mut line = format!("moments  machine: {name}  {}", forecast.title);
        for moment in [Moment::Now, Moment::Restart, Moment::Reboot] {
            let (state, evidence) = &seen_all[&(name.to_owned(), moment.as_str().to_owned())];
            let right = forecast.state(moment) == state;
            line.push_str(&format!(
                "  {moment} {}{}{state}",
                forecast.state(moment),
                if right { " = " } else { " WRONG, seen " }
            ));
            if !right {
                wrong.push(format!(
                    "{name} at {moment}: foretold {} ({}), seen {state} ({evidence})",
                    forecast.state(moment),
                    forecast.why(moment)
                ));
            }
        }
        eprintln!("{line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
