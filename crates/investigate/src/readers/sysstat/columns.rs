//! The headings of sar's tables and sadf's keys, and their metrics.

use hugewise_model::KernelRelease;

use super::known_defects;
use super::version::SysstatVersion;
use crate::{Metric, Series};

pub(super) type SarReadings = Vec<(&'static str, f64)>;
/// sar's heading, sadf's group and key, metric, and factor from its unit to the metric's.
type SarHeadingSpec = (&'static str, &'static str, &'static str, Metric, f64);
const CPU: &str = "cpu-load";
const PAGING: &str = "paging";
const MEMORY: &str = "memory";
const KIB: f64 = 1024.0;

const WORDS: &[SarHeadingSpec] = &[
    ("%iowait", CPU, "iowait", Metric::CpuIowait, 1.0),
    ("%steal", CPU, "steal", Metric::CpuSteal, 1.0),
    ("%idle", CPU, "idle", Metric::CpuIdle, 1.0),
    ("%irq", CPU, "irq", Metric::CpuIrq, 1.0),
    ("%soft", CPU, "soft", Metric::CpuSoftirq, 1.0),
    ("%guest", CPU, "guest", Metric::CpuGuest, 1.0),
    ("proc/s", "process-and-context-switch", "proc", Metric::Forks, 1.0),
    ("cswch/s", "process-and-context-switch", "cswch", Metric::ContextSwitches, 1.0),
    ("intr/s", "interrupts", "sum", Metric::Interrupts, 1.0),
    ("pswpin/s", "swap-pages", "pswpin", Metric::SwapIn, 1.0),
    ("pswpout/s", "swap-pages", "pswpout", Metric::SwapOut, 1.0),
    ("pgpgin/s", PAGING, "pgpgin", Metric::PagedIn, KIB),
    ("pgpgout/s", PAGING, "pgpgout", Metric::PagedOut, KIB),
    ("fault/s", PAGING, "fault", Metric::Faults, 1.0),
    ("majflt/s", PAGING, "majflt", Metric::MajorFaults, 1.0),
    ("pgfree/s", PAGING, "pgfree", Metric::Freed, 1.0),
    ("pgscank/s", PAGING, "pgscank", Metric::ScanKswapd, 1.0),
    ("pgscand/s", PAGING, "pgscand", Metric::ScanDirect, 1.0),
    ("pgsteal/s", PAGING, "pgsteal", Metric::Steal, 1.0),
    ("kbmemfree", MEMORY, "memfree", Metric::MemFree, KIB),
    ("kbavail", MEMORY, "avail", Metric::MemAvailable, KIB),
    ("kbbuffers", MEMORY, "buffers", Metric::Buffers, KIB),
    ("kbcached", MEMORY, "cached", Metric::Cached, KIB),
    ("kbcommit", MEMORY, "commit", Metric::Committed, KIB),
    ("kbactive", MEMORY, "active", Metric::Active, KIB),
    ("kbinact", MEMORY, "inactive", Metric::Inactive, KIB),
    ("kbdirty", MEMORY, "dirty", Metric::Dirty, KIB),
    ("kbanonpg", MEMORY, "anonpg", Metric::Anon, KIB),
    ("kbslab", MEMORY, "slab", Metric::Slab, KIB),
    ("kbkstack", MEMORY, "kstack", Metric::KernelStack, KIB),
    ("kbpgtbl", MEMORY, "pgtbl", Metric::PageTables, KIB),
    ("kbvmused", MEMORY, "vmused", Metric::VmallocUsed, KIB),
    ("kbshared", MEMORY, "shared", Metric::Shmem, KIB),
    ("kbswpfree", MEMORY, "swpfree", Metric::SwapFree, KIB),
    ("kbswpused", MEMORY, "swpused", Metric::SwapUsed, KIB),
    ("kbswpcad", MEMORY, "swpcad", Metric::SwapCached, KIB),
    ("kbhugfree", "hugepages", "hugfree", Metric::HugeFree, KIB),
    ("kbhugrsvd", "hugepages", "hugrsvd", Metric::HugeReserved, KIB),
    ("kbhugsurp", "hugepages", "hugsurp", Metric::HugeSurplus, KIB),
    ("runq-sz", "queue", "runq-sz", Metric::RunQueue, 1.0),
    ("plist-sz", "queue", "plist-sz", Metric::Tasks, 1.0),
    ("blocked", "queue", "blocked", Metric::Blocked, 1.0),
    ("ldavg-1", "queue", "ldavg-1", Metric::Load1, 1.0),
    ("ldavg-5", "queue", "ldavg-5", Metric::Load5, 1.0),
    ("ldavg-15", "queue", "ldavg-15", Metric::Load15, 1.0),
    ("passive/s", "net-tcp", "passive", Metric::TcpPassive, 1.0),
    ("%scpu", "psi-cpu", "some_avg", Metric::PressureCpuSome, 1.0),
    ("%sio", "psi-io", "some_avg", Metric::PressureIoSome, 1.0),
    ("%fio", "psi-io", "full_avg", Metric::PressureIoFull, 1.0),
    ("%smem", "psi-mem", "some_avg", Metric::PressureMemorySome, 1.0),
    ("%fmem", "psi-mem", "full_avg", Metric::PressureMemoryFull, 1.0),
];

/// Parts of one metric: `-u` has user and system with their parts, `-u ALL` without.
const PARTS: &[(&str, &str, &str)] = &[
    ("%user", CPU, "user"),
    ("%usr", CPU, "usr"),
    ("%system", CPU, "system"),
    ("%sys", CPU, "sys"),
    ("%nice", CPU, "nice"),
    ("%gnice", CPU, "gnice"),
    ("kbmemused", MEMORY, "memused"),
    ("%memused", MEMORY, "memused-percent"),
    ("kbhugused", "hugepages", "hugused"),
];

pub(super) fn find_heading(text: &str) -> Option<&'static str> {
    // sadf has another word than sar.
    let text = if text == "kbshmem" { "kbshared" } else { text };
    let words = WORDS.iter().map(|(word, ..)| *word).chain(PARTS.iter().map(|(word, ..)| *word));
    words.into_iter().find(|word| *word == text)
}

pub(super) fn find_heading_for_key(group: &str, key: &str) -> Option<&'static str> {
    let words = WORDS
        .iter()
        .map(|(word, group, key, ..)| (*word, *group, *key))
        .chain(PARTS.iter().copied());
    words.into_iter().find(|(_, text, name)| *text == group && *name == key).map(|(word, ..)| word)
}

pub(super) fn set_sample_values(
    series: &mut Series,
    row: usize,
    said: &SarReadings,
    kernel: Option<&KernelRelease>,
) {
    let get = |word: &str| said.iter().find(|(said, _)| *said == word).map(|(_, value)| *value);
    for (word, value) in said {
        let known = WORDS.iter().find(|(text, ..)| text == word);
        if let Some((.., metric, factor)) = known
            && !(*value == 0.0 && known_defects::never_zero(*metric, kernel))
        {
            series.set_at(row, *metric, value * factor);
        }
    }
    let sum = |first: Option<f64>, rest: &[&str]| {
        first.map(|first| first + rest.iter().filter_map(|word| get(word)).sum::<f64>())
    };
    let composed = [
        (Metric::CpuUser, get("%user").or_else(|| sum(get("%usr"), &["%guest"])), 1.0),
        (Metric::CpuSystem, get("%system").or_else(|| sum(get("%sys"), &["%irq", "%soft"])), 1.0),
        (Metric::CpuNice, sum(get("%nice"), &["%gnice"]), 1.0),
        (
            Metric::SwapTotal,
            get("kbswpfree").zip(get("kbswpused")).map(|(free, used)| free + used),
            KIB,
        ),
        (
            Metric::HugeTotal,
            get("kbhugfree").zip(get("kbhugused")).map(|(free, used)| free + used),
            KIB,
        ),
        (Metric::MemTotal, compute_total_memory(get), KIB),
    ];
    for (metric, value, factor) in composed {
        if let Some(value) = value {
            series.set_at(row, metric, value * factor);
        }
    }
}

/// All memory in KiB. Used memory is what is not free, or, since 11.2, neither free nor in buffers,
/// caches and slab; its percentage tells which.
fn compute_total_memory(get: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let (free, used, share) = (get("kbmemfree")?, get("kbmemused")?, get("%memused")?);
    let not_free = free + used;
    let caches =
        get("kbbuffers").zip(get("kbcached")).map(|(buffers, cached)| not_free + buffers + cached);
    let slab = caches.zip(get("kbslab")).map(|(caches, slab)| caches + slab);
    let candidates =
        [Some(not_free), slab, caches, get("kbavail").map(|available| available + used)];
    let off = |total: &f64| (used / total * 100.0 - share).abs();
    // Printed to two digits.
    candidates
        .into_iter()
        .flatten()
        .filter(|total| off(total) <= 0.005_001)
        .min_by(|one, other| off(one).total_cmp(&off(other)))
}

fn least_version(series: &Series) -> SysstatVersion {
    let has = |metric| series.column(metric).is_some();
    if has(Metric::Shmem) {
        SysstatVersion(12, 7, 8, 0)
    } else if has(Metric::HugeReserved) {
        SysstatVersion(12, 1, 1, 0)
    } else if has(Metric::MemAvailable) {
        SysstatVersion(11, 5, 3, 0)
    } else {
        SysstatVersion(9, 0, 0, 0)
    }
}

/// Drops what is known to be false in text that lacks the version that wrote the data.
pub(super) fn distrust_metrics(series: &mut Series, kernel: Option<&KernelRelease>) {
    let Some(kernel) = kernel else { return };
    for (metric, _) in known_defects::untrusted_metrics(least_version(series), kernel) {
        let zero = series
            .column(metric)
            .is_some_and(|column| column.iter().all(|(_, value)| value == 0.0));
        let told = match metric {
            Metric::Steal if series.column(metric).is_some() => {
                "older versions of sysstat count each page twice here"
            }
            // A version that finds any looks in the right place.
            _ if zero => "older versions of sysstat write 0 on Linux 4.8 and later",
            _ => continue,
        };
        series.distrust_metric(metric, told);
    }
}
