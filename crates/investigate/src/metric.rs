//! What a series can hold: a closed list, so that every reader means the same by a name.

/// What the numbers of a metric count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricUnit {
    /// 0 to 100 of all processors' time, or of the interval; of one processor for a kernel thread.
    Percent,
    /// At the sample's moment.
    Bytes,
    /// In the interval that the sample ends.
    BytesPerSecond,
    /// Events or pages of base size, in the interval that the sample ends.
    PerSecond,
    /// Things, at the sample's moment.
    Count,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])* $metric:ident $name:literal $unit:ident;)+) => {
        /// One column of a series.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $(#[doc = $name] $(#[doc = $doc])* $metric,)+
        }

        impl Metric {
            /// Every metric, in the order in which columns are written.
            pub const ALL: &'static [Self] = &[$(Self::$metric),+];

            /// The column's name, which ends in its unit.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$metric => $name,)+
                }
            }

            /// What its numbers count.
            pub const fn unit(self) -> MetricUnit {
                match self {
                    $(Self::$metric => MetricUnit::$unit,)+
                }
            }
        }
    };
}

metrics! {
    /// Time in user mode, guests included, nice excluded, as `sar -u` has it. `vmstat` adds nice:
    /// there [`Metric::CpuNice`] is absent.
    CpuUser "cpu_user_percent" Percent;
    /// Time in user mode at lowered priority, with niced guests' time in it.
    CpuNice "cpu_nice_percent" Percent;
    /// Time in the kernel, interrupts included, as `sar -u` and `vmstat` have it.
    CpuSystem "cpu_system_percent" Percent;
    /// Idle with a disk request outstanding.
    CpuIowait "cpu_iowait_percent" Percent;
    /// Taken by the hypervisor.
    CpuSteal "cpu_steal_percent" Percent;
    /// Idle otherwise.
    CpuIdle "cpu_idle_percent" Percent;
    /// The part of [`Metric::CpuSystem`] in hardware interrupts.
    CpuIrq "cpu_irq_percent" Percent;
    /// The part of [`Metric::CpuSystem`] in soft interrupts.
    CpuSoftirq "cpu_softirq_percent" Percent;
    /// The part of [`Metric::CpuUser`] spent by guests.
    CpuGuest "cpu_guest_percent" Percent;
    /// kswapd, all of them, of one processor.
    KswapdCpu "kswapd_cpu_percent" Percent;
    /// kcompactd, all of them, of one processor.
    KcompactdCpu "kcompactd_cpu_percent" Percent;
    /// khugepaged, of one processor.
    KhugepagedCpu "khugepaged_cpu_percent" Percent;
    Processors "processors" Count;

    MemTotal "mem_total_bytes" Bytes;
    MemFree "mem_free_bytes" Bytes;
    MemAvailable "mem_available_bytes" Bytes;
    Buffers "buffers_bytes" Bytes;
    Cached "cached_bytes" Bytes;
    Active "active_bytes" Bytes;
    Inactive "inactive_bytes" Bytes;
    Dirty "dirty_bytes" Bytes;
    Writeback "writeback_bytes" Bytes;
    /// AnonPages.
    Anon "anon_bytes" Bytes;
    /// AnonHugePages: THP in use.
    AnonHuge "anon_huge_bytes" Bytes;
    Mapped "mapped_bytes" Bytes;
    Shmem "shmem_bytes" Bytes;
    Slab "slab_bytes" Bytes;
    /// SReclaimable.
    SlabReclaimable "slab_reclaimable_bytes" Bytes;
    KernelStack "kernel_stack_bytes" Bytes;
    PageTables "page_tables_bytes" Bytes;
    VmallocUsed "vmalloc_used_bytes" Bytes;
    /// Committed_AS.
    Committed "committed_bytes" Bytes;

    /// The pool of the default huge page size: HugePages_Total times Hugepagesize.
    HugeTotal "huge_total_bytes" Bytes;
    /// HugePages_Free: reserved pages are in it.
    HugeFree "huge_free_bytes" Bytes;
    HugeReserved "huge_reserved_bytes" Bytes;
    HugeSurplus "huge_surplus_bytes" Bytes;
    /// Hugetlb: pools of all sizes together.
    HugetlbAll "hugetlb_all_bytes" Bytes;

    SwapTotal "swap_total_bytes" Bytes;
    SwapFree "swap_free_bytes" Bytes;
    /// SwapTotal less SwapFree.
    SwapUsed "swap_used_bytes" Bytes;
    SwapCached "swap_cached_bytes" Bytes;
    /// Pages of base size swapped in; pages of 4 KiB where the source counts KiB (`vmstat`).
    SwapIn "swap_in_pages_per_second" PerSecond;
    /// Pages of base size swapped out.
    SwapOut "swap_out_pages_per_second" PerSecond;

    /// Read from disks (pgpgin; `vmstat`'s bi).
    PagedIn "paged_in_bytes_per_second" BytesPerSecond;
    /// Written to disks (pgpgout; `vmstat`'s bo).
    PagedOut "paged_out_bytes_per_second" BytesPerSecond;
    /// Page faults, major ones included.
    Faults "faults_per_second" PerSecond;
    /// Page faults that waited for a disk.
    MajorFaults "major_faults_per_second" PerSecond;
    /// Pages put on the free lists.
    Freed "freed_pages_per_second" PerSecond;
    /// Pages scanned by kswapd.
    ScanKswapd "scan_kswapd_per_second" PerSecond;
    /// Pages scanned by processes that had to reclaim themselves.
    ScanDirect "scan_direct_per_second" PerSecond;
    /// Pages scanned by either, where the source does not tell them apart.
    Scan "scan_pages_per_second" PerSecond;
    /// Pages reclaimed by either.
    Steal "steal_pages_per_second" PerSecond;
    /// Allocations that had to reclaim (allocstall, all zones).
    AllocStall "alloc_stall_per_second" PerSecond;
    /// Allocations that had to compact (compact_stall).
    CompactStall "compact_stall_per_second" PerSecond;
    CompactFail "compact_fail_per_second" PerSecond;
    CompactSuccess "compact_success_per_second" PerSecond;
    ThpFaultAlloc "thp_fault_alloc_per_second" PerSecond;
    ThpFaultFallback "thp_fault_fallback_per_second" PerSecond;
    ThpCollapse "thp_collapse_per_second" PerSecond;
    /// thp_split_page, or thp_split before Linux 4.5.
    ThpSplit "thp_split_per_second" PerSecond;
    OomKill "oom_kill_per_second" PerSecond;

    /// Processes and threads created.
    Forks "forks_per_second" PerSecond;
    ContextSwitches "context_switches_per_second" PerSecond;
    Interrupts "interrupts_per_second" PerSecond;
    /// TCP connections accepted: logins over the network.
    TcpPassive "tcp_passive_per_second" PerSecond;
    /// Tasks that run or want to.
    RunQueue "run_queue" Count;
    /// Tasks, threads among them (`plist-sz`; /proc/loadavg's fourth field).
    Tasks "tasks" Count;
    /// Processes, without their threads (`ps`, `top`).
    Processes "processes" Count;
    /// Processes that serve one session each: Oracle's dedicated servers, PostgreSQL's backends.
    Sessions "sessions" Count;
    /// Requests that wait at the busiest disk, or are worked on there.
    DiskQueue "disk_queue" Count;
    /// Tasks that wait for a disk.
    Blocked "blocked" Count;
    Load1 "load_1" Count;
    Load5 "load_5" Count;
    Load15 "load_15" Count;

    /// Part of the interval in which some task waited for a processor (PSI).
    PressureCpuSome "pressure_cpu_some_percent" Percent;
    /// Part of the interval in which some task waited for a disk.
    PressureIoSome "pressure_io_some_percent" Percent;
    /// Part of the interval in which all tasks waited for a disk.
    PressureIoFull "pressure_io_full_percent" Percent;
    /// Part of the interval in which some task waited for memory.
    PressureMemorySome "pressure_memory_some_percent" Percent;
    /// Part of the interval in which all tasks waited for memory.
    PressureMemoryFull "pressure_memory_full_percent" Percent;
}

impl Metric {
    /// Whether nothing is judged by it: an investigation without series may leave it out.
    pub const fn is_only_told(self) -> bool {
        matches!(
            self,
            Self::CpuIrq
                | Self::CpuSoftirq
                | Self::CpuGuest
                | Self::Active
                | Self::Inactive
                | Self::Dirty
                | Self::Writeback
                | Self::Anon
                | Self::AnonHuge
                | Self::Mapped
                | Self::Slab
                | Self::SlabReclaimable
                | Self::KernelStack
                | Self::VmallocUsed
                | Self::HugeSurplus
                | Self::SwapFree
                | Self::SwapCached
                | Self::Faults
                | Self::MajorFaults
                | Self::Freed
                | Self::CompactSuccess
                | Self::ThpFaultAlloc
                | Self::ThpCollapse
                | Self::ThpSplit
                | Self::ContextSwitches
                | Self::Interrupts
                | Self::Load5
                | Self::Load15
        )
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}
