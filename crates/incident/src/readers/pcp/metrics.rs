//! PCP's names for what a series holds, and the units that its Linux agent counts in (`pminfo -d`).

use crate::Metric;

/// How a column's number becomes the metric's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Of {
    /// At its moment, so many times its unit.
    Moment(f64),
    /// A counter, so many times its unit, a second.
    Rate(f64),
    /// A counter of microseconds, as a share of the interval.
    Share,
    /// A counter of processors' time, which is a part of all such.
    Time,
    /// The same, a part of another part.
    Within,
    /// A size or a text that others need.
    Fact,
}

const KIB: f64 = 1024.0;

/// PCP's names, ours, and the unit. Names of one metric in different versions or kernels are added: no archive has both,
/// or they are zones of one sum.
pub(super) const METRICS: &[(&str, Option<Metric>, Of)] = &[
    ("kernel.all.cpu.user", Some(Metric::CpuUser), Of::Time),
    ("kernel.all.cpu.nice", Some(Metric::CpuNice), Of::Time),
    ("kernel.all.cpu.sys", Some(Metric::CpuSystem), Of::Time),
    ("kernel.all.cpu.idle", Some(Metric::CpuIdle), Of::Time),
    ("kernel.all.cpu.wait.total", Some(Metric::CpuIowait), Of::Time),
    ("kernel.all.cpu.irq.hard", Some(Metric::CpuIrq), Of::Time),
    ("kernel.all.cpu.irq.soft", Some(Metric::CpuSoftirq), Of::Time),
    ("kernel.all.cpu.steal", Some(Metric::CpuSteal), Of::Time),
    ("kernel.all.cpu.guest", Some(Metric::CpuGuest), Of::Within),
    ("hinv.ncpu", Some(Metric::Processors), Of::Moment(1.0)),
    ("mem.physmem", Some(Metric::MemTotal), Of::Moment(KIB)),
    ("mem.util.free", Some(Metric::MemFree), Of::Moment(KIB)),
    ("mem.util.available", Some(Metric::MemAvailable), Of::Moment(KIB)),
    ("mem.util.bufmem", Some(Metric::Buffers), Of::Moment(KIB)),
    ("mem.util.cached", Some(Metric::Cached), Of::Moment(KIB)),
    ("mem.util.active", Some(Metric::Active), Of::Moment(KIB)),
    ("mem.util.inactive", Some(Metric::Inactive), Of::Moment(KIB)),
    ("mem.util.dirty", Some(Metric::Dirty), Of::Moment(KIB)),
    ("mem.util.writeback", Some(Metric::Writeback), Of::Moment(KIB)),
    ("mem.util.anonpages", Some(Metric::Anon), Of::Moment(KIB)),
    ("mem.util.anonhugepages", Some(Metric::AnonHuge), Of::Moment(KIB)),
    ("mem.util.mapped", Some(Metric::Mapped), Of::Moment(KIB)),
    ("mem.util.shmem", Some(Metric::Shmem), Of::Moment(KIB)),
    ("mem.util.slab", Some(Metric::Slab), Of::Moment(KIB)),
    ("mem.util.slabReclaimable", Some(Metric::SlabReclaimable), Of::Moment(KIB)),
    ("mem.util.kernelStack", Some(Metric::KernelStack), Of::Moment(KIB)),
    ("mem.util.pageTables", Some(Metric::PageTables), Of::Moment(KIB)),
    ("mem.util.vmallocUsed", Some(Metric::VmallocUsed), Of::Moment(KIB)),
    ("mem.util.committed_AS", Some(Metric::Committed), Of::Moment(KIB)),
    ("mem.util.hugepagesTotalBytes", Some(Metric::HugeTotal), Of::Moment(1.0)),
    ("mem.util.hugepagesFreeBytes", Some(Metric::HugeFree), Of::Moment(1.0)),
    ("mem.util.hugepagesRsvdBytes", Some(Metric::HugeReserved), Of::Moment(1.0)),
    ("mem.util.hugepagesSurpBytes", Some(Metric::HugeSurplus), Of::Moment(1.0)),
    ("mem.util.swapTotal", Some(Metric::SwapTotal), Of::Moment(KIB)),
    ("mem.util.swapFree", Some(Metric::SwapFree), Of::Moment(KIB)),
    ("swap.used", Some(Metric::SwapUsed), Of::Moment(1.0)),
    ("mem.util.swapCached", Some(Metric::SwapCached), Of::Moment(KIB)),
    ("mem.vmstat.pswpin", Some(Metric::SwapIn), Of::Rate(1.0)),
    ("mem.vmstat.pswpout", Some(Metric::SwapOut), Of::Rate(1.0)),
    ("mem.vmstat.pgpgin", Some(Metric::PagedIn), Of::Rate(KIB)),
    ("mem.vmstat.pgpgout", Some(Metric::PagedOut), Of::Rate(KIB)),
    ("mem.vmstat.pgfault", Some(Metric::Faults), Of::Rate(1.0)),
    ("mem.vmstat.pgmajfault", Some(Metric::MajorFaults), Of::Rate(1.0)),
    ("mem.vmstat.pgfree", Some(Metric::Freed), Of::Rate(1.0)),
    ("mem.vmstat.pgscan_kswapd_total", Some(Metric::ScanKswapd), Of::Rate(1.0)),
    ("mem.vmstat.pgscan_direct_total", Some(Metric::ScanDirect), Of::Rate(1.0)),
    ("mem.vmstat.pgsteal_kswapd", Some(Metric::Steal), Of::Rate(1.0)),
    ("mem.vmstat.pgsteal_direct", Some(Metric::Steal), Of::Rate(1.0)),
    ("mem.vmstat.allocstall", Some(Metric::AllocStall), Of::Rate(1.0)),
    ("mem.vmstat.allocstall_dma", Some(Metric::AllocStall), Of::Rate(1.0)),
    ("mem.vmstat.allocstall_dma32", Some(Metric::AllocStall), Of::Rate(1.0)),
    ("mem.vmstat.allocstall_normal", Some(Metric::AllocStall), Of::Rate(1.0)),
    ("mem.vmstat.allocstall_high", Some(Metric::AllocStall), Of::Rate(1.0)),
    ("mem.vmstat.allocstall_movable", Some(Metric::AllocStall), Of::Rate(1.0)),
    ("mem.vmstat.compact_stall", Some(Metric::CompactStall), Of::Rate(1.0)),
    ("mem.vmstat.compact_fail", Some(Metric::CompactFail), Of::Rate(1.0)),
    ("mem.vmstat.compact_success", Some(Metric::CompactSuccess), Of::Rate(1.0)),
    ("mem.vmstat.thp_fault_alloc", Some(Metric::ThpFaultAlloc), Of::Rate(1.0)),
    ("mem.vmstat.thp_fault_fallback", Some(Metric::ThpFaultFallback), Of::Rate(1.0)),
    ("mem.vmstat.thp_collapse_alloc", Some(Metric::ThpCollapse), Of::Rate(1.0)),
    ("mem.vmstat.thp_split", Some(Metric::ThpSplit), Of::Rate(1.0)),
    ("mem.vmstat.thp_split_page", Some(Metric::ThpSplit), Of::Rate(1.0)),
    ("mem.vmstat.oom_kill", Some(Metric::OomKill), Of::Rate(1.0)),
    ("kernel.all.sysfork", Some(Metric::Forks), Of::Rate(1.0)),
    ("kernel.all.pswitch", Some(Metric::ContextSwitches), Of::Rate(1.0)),
    ("kernel.all.intr", Some(Metric::Interrupts), Of::Rate(1.0)),
    ("network.tcp.passiveopens", Some(Metric::TcpPassive), Of::Rate(1.0)),
    ("kernel.all.runnable", Some(Metric::RunQueue), Of::Moment(1.0)),
    // The same, where the archive has it.
    ("kernel.all.running", Some(Metric::RunQueue), Of::Moment(1.0)),
    ("kernel.all.blocked", Some(Metric::Blocked), Of::Moment(1.0)),
    ("kernel.all.nprocs", Some(Metric::Tasks), Of::Moment(1.0)),
    ("kernel.all.pressure.cpu.some.total", Some(Metric::PressureCpuSome), Of::Share),
    ("kernel.all.pressure.io.some.total", Some(Metric::PressureIoSome), Of::Share),
    ("kernel.all.pressure.io.full.total", Some(Metric::PressureIoFull), Of::Share),
    ("kernel.all.pressure.memory.some.total", Some(Metric::PressureMemorySome), Of::Share),
    ("kernel.all.pressure.memory.full.total", Some(Metric::PressureMemoryFull), Of::Share),
    ("kernel.all.load", None, Of::Fact),
    ("kernel.uname.release", None, Of::Fact),
    ("kernel.uname.machine", None, Of::Fact),
    ("hinv.hugepagesize", None, Of::Fact),
];

/// What pmrep calls the instances of `kernel.all.load`.
pub(super) const LOADS: &[(&str, Metric)] = &[
    ("kernel.all.load-1 minute", Metric::Load1),
    ("kernel.all.load-5 minute", Metric::Load5),
    ("kernel.all.load-15 minute", Metric::Load15),
];
