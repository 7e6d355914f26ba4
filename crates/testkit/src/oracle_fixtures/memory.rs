//! What the machine's memory holds: each sum from what has it.

use std::fmt;

use super::database::Database;
use super::files::FixtureFiles;
use super::instance;
use super::machine::FixtureMachine;
use super::process::FixtureProcesses;
use super::segments::FixtureSegment;
use super::{KIB_IN_HUGE, KIB_IN_MIB};

/// Page tables of processes that no file tells of: KiB.
const TABLES_OF_OTHERS: u64 = 4 * KIB_IN_MIB;
/// What a kernel keeps for itself beside slab and page tables: KiB.
const OF_KERNEL: u64 = 64 * KIB_IN_MIB;

/// Memory that does not hold what it is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoesNotFit {
    /// KiB there are.
    pub memory: u64,
    /// KiB wanted.
    pub wanted: u64,
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the machine has {} kB, and what it is to hold comes to {} kB",
            self.memory, self.wanted
        )
    }
}

impl std::error::Error for DoesNotFit {}

/// Sums in KiB, and pages of the pool.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    tables: u64,
    private: u64,
    shared: u64,
    page_cache: u64,
    free_pages: u64,
    reserved: u64,
    segments: String,
}

impl Totals {
    pub(crate) fn from_machine(
        machine: &FixtureMachine,
        databases: &[Database],
        layout: &[Vec<FixtureSegment>],
        processes: &FixtureProcesses,
    ) -> Result<Self, DoesNotFit> {
        let all = || layout.iter().flatten();
        let huge = |segment: &&FixtureSegment| segment.huge;
        let taken: u64 =
            all().filter(huge).map(|segment| segment.size_kib().div_ceil(KIB_IN_HUGE)).sum();
        let reserved: u64 = all().filter(huge).map(|segment| segment.untouched / KIB_IN_HUGE).sum();
        if taken > machine.pool {
            return Err(DoesNotFit {
                memory: machine.pool * KIB_IN_HUGE,
                wanted: taken * KIB_IN_HUGE,
            });
        }
        let shared = all().filter(|segment| !segment.huge).map(FixtureSegment::resident_kib).sum();
        let tables = processes.page_table_kib() + TABLES_OF_OTHERS;
        let private = processes.private_kib() + machine.private;
        let rest = machine.free + machine.buffers + machine.slab + OF_KERNEL;
        let wanted = tables + private + shared + rest + machine.pool * KIB_IN_HUGE;
        let page_cache = machine
            .memory
            .checked_sub(wanted)
            .ok_or(DoesNotFit { memory: machine.memory, wanted })?;
        let free_pages = machine.pool + reserved - taken;
        let segments = instance::system_v(machine, databases, layout);
        Ok(Self { tables, private, shared, page_cache, free_pages, reserved, segments })
    }
}

pub(crate) fn add(machine: &FixtureMachine, totals: &Totals, files: &mut FixtureFiles) {
    let (swap, swapped) = machine.swap;
    let mut fields: Vec<(&str, u64)> =
        vec![("MemTotal", machine.memory), ("MemFree", machine.free)];
    if machine.is_kernel(3, 14) {
        fields.push(("MemAvailable", machine.free + totals.page_cache * 9 / 10 + machine.slab / 2));
    }
    let cached = totals.shared + totals.page_cache;
    fields.extend([
        ("Buffers", machine.buffers),
        ("Cached", cached),
        ("SwapCached", 0),
        ("Active", cached / 2 + totals.private),
        ("Inactive", cached / 2),
        ("SwapTotal", swap),
        ("SwapFree", swap - swapped),
        ("AnonPages", totals.private),
        ("Mapped", totals.shared),
    ]);
    // Shmem came with Linux 2.6.32, the two parts of Slab with 2.6.19 (proc(5)).
    if machine.is_kernel(2, 7) {
        fields.extend([("Shmem", totals.shared), ("SReclaimable", machine.slab / 2)]);
    }
    let limit = (machine.memory - machine.pool * KIB_IN_HUGE) / 2 + swap;
    fields.extend([
        ("Slab", machine.slab),
        ("PageTables", totals.tables),
        ("CommitLimit", limit),
        ("Committed_AS", totals.private + totals.shared),
    ]);
    if machine.thp.is_some() {
        fields.push(("AnonHugePages", 0));
    }
    let pages = [
        ("HugePages_Total", machine.pool),
        ("HugePages_Free", totals.free_pages),
        ("HugePages_Rsvd", totals.reserved),
        ("HugePages_Surp", 0),
    ];
    let value = |name: &str, value: u64| {
        let printed = machine.meminfo.iter().find(|(other, _)| *other == name);
        printed.map_or(value, |(_, value)| *value)
    };
    let mut text = String::new();
    for (name, kib) in fields {
        text += &format!("{:<16}{:>10} kB\n", format!("{name}:"), value(name, kib));
    }
    for (name, count) in pages {
        text += &format!("{:<16}{:>10}\n", format!("{name}:"), value(name, count));
    }
    text += &format!("{:<16}{:>10} kB\n", "Hugepagesize:", KIB_IN_HUGE);
    files.add_file("/proc/meminfo", text);
    files.add_file("/proc/sysvipc/shm", &totals.segments);
    let node = "/sys/devices/system/node/node0";
    files.add_file(
        &format!("{node}/meminfo"),
        format!(
            "Node 0 MemTotal:       {} kB\nNode 0 MemFree:        {} kB\n",
            machine.memory, machine.free
        ),
    );
    files.add_file("/proc/sys/vm/nr_hugepages", format!("{}\n", machine.pool));
    // The folders came with Linux 2.6.27.
    if machine.is_kernel(2, 7) {
        let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB";
        let numbers = [
            ("nr_hugepages", machine.pool),
            ("free_hugepages", totals.free_pages),
            ("resv_hugepages", totals.reserved),
            ("surplus_hugepages", 0),
            ("nr_overcommit_hugepages", 0),
        ];
        for (name, count) in numbers {
            files.add_file(&format!("{pool}/{name}"), format!("{count}\n"));
            if matches!(name, "nr_hugepages" | "free_hugepages" | "surplus_hugepages") {
                files.add_file(
                    &format!("{node}/hugepages/hugepages-2048kB/{name}"),
                    format!("{count}\n"),
                );
            }
        }
    }
}
