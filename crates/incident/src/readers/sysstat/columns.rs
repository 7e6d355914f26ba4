//! The words of sar and sadf for what is in their tables, and what they mean.

use hugewise_model::KernelRelease;

use super::trust;
use super::version::Version;
use crate::{Metric, Series};

/// What one sample says: sar's column headings with their numbers.
pub(super) type Said = Vec<(&'static str, f64)>;

/// sar's column heading, sadf's group and key, the metric and how often the heading's unit goes into the metric's.
type Word = (&'static str, &'static str, &'static str, Metric, f64);

const CPU: &str = "cpu-load";
const PAGING: &str = "paging";
const MEMORY: &str = "memory";
const KIB: f64 = 1024.0;

/// Words that stand for one metric each.
const WORDS: &[Word] = &[
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

/// Words that make a metric only together with others: `-u` has user and system with their parts, `-u ALL` without.
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

/// The word of a column heading of sar, where it is one of those that are read.
pub(super) fn heading(text: &str) -> Option<&'static str> {
    // sadf's word for it is another than sar's.
    let text = if text == "kbshmem" { "kbshared" } else { text };
    let words = WORDS.iter().map(|(word, ..)| *word).chain(PARTS.iter().map(|(word, ..)| *word));
    words.into_iter().find(|word| *word == text)
}

/// The word of a key in a group of sadf.
pub(super) fn key(group: &str, key: &str) -> Option<&'static str> {
    let words = WORDS.iter().map(|(word, group, key, ..)| (*word, *group, *key)).chain(PARTS.iter().copied());
    words.into_iter().find(|(_, of, name)| *of == group && *name == key).map(|(word, ..)| word)
}

/// Sets in a row what was said of it.
pub(super) fn set(series: &mut Series, row: usize, said: &Said, kernel: Option<&KernelRelease>) {
    let get = |word: &str| said.iter().find(|(said, _)| *said == word).map(|(_, value)| *value);
    for (word, value) in said {
        let known = WORDS.iter().find(|(of, ..)| of == word);
        if let Some((.., metric, factor)) = known
            && !(*value == 0.0 && trust::never_zero(*metric, kernel))
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
        (Metric::SwapTotal, get("kbswpfree").zip(get("kbswpused")).map(|(free, used)| free + used), KIB),
        (Metric::HugeTotal, get("kbhugfree").zip(get("kbhugused")).map(|(free, used)| free + used), KIB),
        (Metric::MemTotal, memory(get), KIB),
    ];
    for (metric, value, factor) in composed {
        if let Some(value) = value {
            series.set_at(row, metric, value * factor);
        }
    }
}

/// All memory in KiB. Used memory is what is not free, or, since 11.2, neither free nor in buffers, caches and slab:
/// its share of all tells which.
fn memory(get: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let (free, used, share) = (get("kbmemfree")?, get("kbmemused")?, get("%memused")?);
    let not_free = free + used;
    let caches = get("kbbuffers").zip(get("kbcached")).map(|(buffers, cached)| not_free + buffers + cached);
    let slab = caches.zip(get("kbslab")).map(|(caches, slab)| caches + slab);
    let candidates = [Some(not_free), slab, caches, get("kbavail").map(|available| available + used)];
    let off = |total: &f64| (used / total * 100.0 - share).abs();
    // Printed to two digits.
    candidates
        .into_iter()
        .flatten()
        .filter(|total| off(total) <= 0.005_001)
        .min_by(|one, other| off(one).total_cmp(&off(other)))
}

/// The least that the version can be, by the words that it has.
fn version(series: &Series) -> Version {
    let has = |metric| series.column(metric).is_some();
    if has(Metric::Shmem) {
        Version(12, 7, 8, 0)
    } else if has(Metric::HugeReserved) {
        Version(12, 1, 1, 0)
    } else if has(Metric::MemAvailable) {
        Version(11, 5, 3, 0)
    } else {
        Version(9, 0, 0, 0)
    }
}

/// Takes out what is known to be false in a text that does not say which version wrote the data.
pub(super) fn distrust(series: &mut Series, kernel: Option<&KernelRelease>) {
    let Some(kernel) = kernel else { return };
    for (metric, _) in trust::lies(version(series), kernel) {
        let zero = series.column(metric).is_some_and(|column| column.iter().all(|(_, value)| value == 0.0));
        let told = match metric {
            Metric::Steal if series.column(metric).is_some() => "older versions of sysstat count each page twice here",
            // Whoever finds some looks in the right place.
            _ if zero => "older versions of sysstat write 0 on Linux 4.8 and later",
            _ => continue,
        };
        series.distrust(metric, told);
    }
}
