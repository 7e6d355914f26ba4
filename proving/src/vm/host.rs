//! What a machine's host is like, seen past hugewise: its files, the kernel's values, where a
//! server's memory lies.

use super::machine::Machine;
use hugewise_testkit::tools::Failure;

/// Every file, folder and link that a plan could touch, with owner, mode and hash, and every value
/// of the kernel.
const SNAPSHOT: &str = r#"cd /
places='etc boot usr/lib/systemd usr/lib/sysctl.d usr/lib/tmpfiles.d usr/lib/tuned root var/spool home'
find $places -xdev -printf 'path %p %y %m %U %G %l\n' 2>/dev/null | sort
find $places var/lib/postgresql/*/main/postgresql.auto.conf -xdev -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum
for file in /proc/cmdline /proc/sys/vm/*huge* /proc/sys/vm/overcommit* /proc/sys/vm/max_map_count /proc/sys/vm/swappiness \
    /proc/sys/kernel/shm* /proc/sys/kernel/sem /sys/kernel/mm/transparent_hugepage/* \
    /sys/kernel/mm/transparent_hugepage/khugepaged/{defrag,max_ptes_none,scan_sleep_millisecs} \
    /sys/kernel/mm/hugepages/*/nr_{,overcommit_}hugepages /sys/devices/system/node/node*/hugepages/*/nr_hugepages; do
    [ -f "$file" ] && echo "value $file $(cat $file)"
done
systemctl show 'postgresql@*-main.service' mariadb redis-server --property LimitMEMLOCK,DropInPaths,FragmentPath
"#;

/// A host at one moment.
#[derive(PartialEq, Eq)]
pub(crate) struct Snapshot(Vec<String>);

impl Snapshot {
    /// Of this machine, now.
    pub(crate) fn record(machine: &mut Machine) -> Result<Self, Failure> {
        let text = machine.must(SNAPSHOT)?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // A snapshot of nothing would be equal to any other.
        let has = |wanted: &str| lines.iter().any(|line| line.contains(wanted));
        for wanted in [
            "  boot/grub/grub.cfg",
            "  etc/fstab",
            "value /proc/sys/vm/nr_hugepages",
            "LimitMEMLOCK=",
        ] {
            if !has(wanted) {
                return Err(format!("a snapshot without `{wanted}`:\n{text}").into());
            }
        }
        Ok(Self(lines))
    }

    /// Fails with the lines that differ.
    pub(crate) fn must_be(&self, before: &Self) -> Result<(), Failure> {
        let only = |one: &Self, other: &Self, sign: char| -> Vec<String> {
            one.0
                .iter()
                .filter(|line| !other.0.contains(line))
                .map(|line| format!("{sign} {line}"))
                .collect()
        };
        let mut differences = only(before, self, '-');
        differences.extend(only(self, before, '+'));
        if differences.is_empty() && self == before {
            return Ok(());
        }
        Err(format!("the host is not as before:\n{}", differences.join("\n")).into())
    }

    /// Without the lines that begin so.
    pub(crate) fn without(&self, begin: &str) -> Self {
        Self(self.0.iter().filter(|line| !line.starts_with(begin)).cloned().collect())
    }

    /// How many files' hashes it holds.
    pub(crate) fn files(&self) -> usize {
        self.0.iter().filter(|line| line.get(64..66) == Some("  ")).count()
    }

    /// How many values of the kernel it holds.
    pub(crate) fn values(&self) -> usize {
        self.0.iter().filter(|line| line.starts_with("value ")).count()
    }
}

/// The shared memory that PostgreSQL's first process maps, in MiB, by the kernel's page sizes.
pub(crate) struct Server {
    /// In huge pages.
    pub(crate) huge: u64,
    /// In base pages.
    pub(crate) base: u64,
}

/// What tells why a server did not start.
const WHY: &str = "cat /proc/cmdline; grep -H . /sys/kernel/mm/hugepages/*/nr_hugepages
systemctl status 'postgresql@*-main.service' --no-pager --lines 0
tail -n 20 /var/log/postgresql/postgresql-*-main.log
grep -rH . /etc/postgresql/*/main/conf.d /etc/default/grub.d /etc/sysctl.d/*hugewise* \
     /etc/tmpfiles.d/*hugewise* 2>/dev/null
grep -m 1 'linux.*hugepages' /boot/grub/grub.cfg; hugewise undo --list";

/// PostgreSQL as systemd started it: a process outside its unit is an error.
pub(crate) fn postgresql(machine: &mut Machine) -> Result<Server, Failure> {
    let unit = machine.run("systemctl is-active 'postgresql@*-main.service'")?;
    if unit.code != 0 {
        let why = machine.run(WHY)?;
        return Err(
            format!("PostgreSQL's unit is {}\n{}{}", unit.out.trim(), why.out, why.err).into()
        );
    }
    let text = machine.must(
        r#"pid=$(head -1 /var/lib/postgresql/*/main/postmaster.pid)
grep -q 'postgresql@[0-9]*-main.service' /proc/$pid/cgroup || { echo "process $pid is not of the unit" >&2; exit 1; }
awk '/^[0-9a-f]+-/ { shared = ($2 ~ /s$/) } shared && /^Size:/ { size = $2 }
    shared && /^KernelPageSize:/ { if ($2 == 4) base += size; else huge += size }
    END { print int(huge / 1024), int(base / 1024) }' /proc/$pid/smaps"#,
    )?;
    let numbers: Vec<u64> =
        text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        [huge, base] => Ok(Server { huge: *huge, base: *base }),
        _ => Err(format!("no sizes of PostgreSQL: {text}").into()),
    }
}
