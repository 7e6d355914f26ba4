//! PCP's names of metrics, and the units of its Linux agent (`pminfo -d`).

use crate::Metric;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PcpConversion {
    /// A momentary value, times its unit.
    Moment(f64),
    /// A counter, times its unit, a second.
    Rate(f64),
    /// A counter of microseconds, as a share of the interval.
    Share,
    /// A counter of processors' time, which is a part of all of it.
    Time,
    /// The same, contained in another part.
    Within,
}

const KIB: f64 = 1024.0;

/// PCP's name, ours, and the unit. Names of one metric are added: zones, or never in one archive.
pub(super) const METRICS: &[(&str, Metric, PcpConversion)] = &[
    ("kernel.all.cpu.user", Metric::CpuUser, PcpConversion::Time),
    ("kernel.all.cpu.nice", Metric::CpuNice, PcpConversion::Time),
    ("kernel.all.cpu.sys", Metric::CpuSystem, PcpConversion::Time),
    ("kernel.all.cpu.idle", Metric::CpuIdle, PcpConversion::Time),
    ("kernel.all.cpu.wait.total", Metric::CpuIowait, PcpConversion::Time),
    ("kernel.all.cpu.irq.hard", Metric::CpuIrq, PcpConversion::Time),
    ("kernel.all.cpu.irq.soft", Metric::CpuSoftirq, PcpConversion::Time),
    ("kernel.all.cpu.steal", Metric::CpuSteal, PcpConversion::Time),
    ("kernel.all.cpu.guest", Metric::CpuGuest, PcpConversion::Within),
    ("hinv.ncpu", Metric::Processors, PcpConversion::Moment(1.0)),
    ("mem.physmem", Metric::MemTotal, PcpConversion::Moment(KIB)),
    ("mem.util.free", Metric::MemFree, PcpConversion::Moment(KIB)),
    ("mem.util.available", Metric::MemAvailable, PcpConversion::Moment(KIB)),
    ("mem.util.bufmem", Metric::Buffers, PcpConversion::Moment(KIB)),
    ("mem.util.cached", Metric::Cached, PcpConversion::Moment(KIB)),
    ("mem.util.active", Metric::Active, PcpConversion::Moment(KIB)),
    ("mem.util.inactive", Metric::Inactive, PcpConversion::Moment(KIB)),
    ("mem.util.dirty", Metric::Dirty, PcpConversion::Moment(KIB)),
    ("mem.util.writeback", Metric::Writeback, PcpConversion::Moment(KIB)),
    ("mem.util.anonpages", Metric::Anon, PcpConversion::Moment(KIB)),
    ("mem.util.anonhugepages", Metric::AnonHuge, PcpConversion::Moment(KIB)),
    ("mem.util.mapped", Metric::Mapped, PcpConversion::Moment(KIB)),
    ("mem.util.shmem", Metric::Shmem, PcpConversion::Moment(KIB)),
    ("mem.util.slab", Metric::Slab, PcpConversion::Moment(KIB)),
    ("mem.util.slabReclaimable", Metric::SlabReclaimable, PcpConversion::Moment(KIB)),
    ("mem.util.kernelStack", Metric::KernelStack, PcpConversion::Moment(KIB)),
    ("mem.util.pageTables", Metric::PageTables, PcpConversion::Moment(KIB)),
    ("mem.util.vmallocUsed", Metric::VmallocUsed, PcpConversion::Moment(KIB)),
    ("mem.util.committed_AS", Metric::Committed, PcpConversion::Moment(KIB)),
    ("mem.util.hugepagesTotalBytes", Metric::HugeTotal, PcpConversion::Moment(1.0)),
    ("mem.util.hugepagesFreeBytes", Metric::HugeFree, PcpConversion::Moment(1.0)),
    ("mem.util.hugepagesRsvdBytes", Metric::HugeReserved, PcpConversion::Moment(1.0)),
    ("mem.util.hugepagesSurpBytes", Metric::HugeSurplus, PcpConversion::Moment(1.0)),
    ("mem.util.swapTotal", Metric::SwapTotal, PcpConversion::Moment(KIB)),
    ("mem.util.swapFree", Metric::SwapFree, PcpConversion::Moment(KIB)),
    ("swap.used", Metric::SwapUsed, PcpConversion::Moment(1.0)),
    ("mem.util.swapCached", Metric::SwapCached, PcpConversion::Moment(KIB)),
    ("mem.vmstat.pswpin", Metric::SwapIn, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pswpout", Metric::SwapOut, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pgpgin", Metric::PagedIn, PcpConversion::Rate(KIB)),
    ("mem.vmstat.pgpgout", Metric::PagedOut, PcpConversion::Rate(KIB)),
    ("mem.vmstat.pgfault", Metric::Faults, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pgmajfault", Metric::MajorFaults, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pgfree", Metric::Freed, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pgscan_kswapd_total", Metric::ScanKswapd, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pgscan_direct_total", Metric::ScanDirect, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pgsteal_kswapd", Metric::Steal, PcpConversion::Rate(1.0)),
    ("mem.vmstat.pgsteal_direct", Metric::Steal, PcpConversion::Rate(1.0)),
    ("mem.vmstat.allocstall", Metric::AllocStall, PcpConversion::Rate(1.0)),
    ("mem.vmstat.allocstall_dma", Metric::AllocStall, PcpConversion::Rate(1.0)),
    ("mem.vmstat.allocstall_dma32", Metric::AllocStall, PcpConversion::Rate(1.0)),
    ("mem.vmstat.allocstall_normal", Metric::AllocStall, PcpConversion::Rate(1.0)),
    ("mem.vmstat.allocstall_high", Metric::AllocStall, PcpConversion::Rate(1.0)),
    ("mem.vmstat.allocstall_movable", Metric::AllocStall, PcpConversion::Rate(1.0)),
    ("mem.vmstat.compact_stall", Metric::CompactStall, PcpConversion::Rate(1.0)),
    ("mem.vmstat.compact_fail", Metric::CompactFail, PcpConversion::Rate(1.0)),
    ("mem.vmstat.compact_success", Metric::CompactSuccess, PcpConversion::Rate(1.0)),
    ("mem.vmstat.thp_fault_alloc", Metric::ThpFaultAlloc, PcpConversion::Rate(1.0)),
    ("mem.vmstat.thp_fault_fallback", Metric::ThpFaultFallback, PcpConversion::Rate(1.0)),
    ("mem.vmstat.thp_collapse_alloc", Metric::ThpCollapse, PcpConversion::Rate(1.0)),
    ("mem.vmstat.thp_split", Metric::ThpSplit, PcpConversion::Rate(1.0)),
    ("mem.vmstat.thp_split_page", Metric::ThpSplit, PcpConversion::Rate(1.0)),
    ("mem.vmstat.oom_kill", Metric::OomKill, PcpConversion::Rate(1.0)),
    ("kernel.all.sysfork", Metric::Forks, PcpConversion::Rate(1.0)),
    ("kernel.all.pswitch", Metric::ContextSwitches, PcpConversion::Rate(1.0)),
    ("kernel.all.intr", Metric::Interrupts, PcpConversion::Rate(1.0)),
    ("network.tcp.passiveopens", Metric::TcpPassive, PcpConversion::Rate(1.0)),
    ("kernel.all.runnable", Metric::RunQueue, PcpConversion::Moment(1.0)),
    // An archive has the one or the other.
    ("kernel.all.running", Metric::RunQueue, PcpConversion::Moment(1.0)),
    ("kernel.all.blocked", Metric::Blocked, PcpConversion::Moment(1.0)),
    ("kernel.all.nprocs", Metric::Tasks, PcpConversion::Moment(1.0)),
    ("kernel.all.pressure.cpu.some.total", Metric::PressureCpuSome, PcpConversion::Share),
    ("kernel.all.pressure.io.some.total", Metric::PressureIoSome, PcpConversion::Share),
    ("kernel.all.pressure.io.full.total", Metric::PressureIoFull, PcpConversion::Share),
    ("kernel.all.pressure.memory.some.total", Metric::PressureMemorySome, PcpConversion::Share),
    ("kernel.all.pressure.memory.full.total", Metric::PressureMemoryFull, PcpConversion::Share),
];

/// Names that are no figures by themselves.
pub(super) const FACTS: [&str; 5] = [
    "kernel.all.load",
    "kernel.all.uptime",
    "kernel.uname.release",
    "kernel.uname.machine",
    "hinv.hugepagesize",
];

/// pmrep's names of the instances of `kernel.all.load`.
pub(super) const LOADS: &[(&str, Metric)] = &[
    ("kernel.all.load-1 minute", Metric::Load1),
    ("kernel.all.load-5 minute", Metric::Load5),
    ("kernel.all.load-15 minute", Metric::Load15),
];
