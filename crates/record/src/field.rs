//! The numbers of a sample, a closed list. New ones are added at the end: a place in the format is
//! never reused.

/// What a field's numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUnit {
    /// Clock ticks of all processors since the boot; the ring's header has the ticks a second.
    Ticks,
    /// Microseconds since the boot.
    Microseconds,
    /// Milliseconds since the boot.
    Milliseconds,
    /// Nanoseconds of processor time of some threads since they began.
    Nanoseconds,
    /// Events since the boot.
    Events,
    /// 1,024 bytes, now.
    Kibibytes,
    /// Things, now.
    Count,
    /// Hundredths, now.
    Hundredths,
    /// Sectors of 512 bytes since the boot.
    Sectors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldSource {
    /// A column of the line `cpu`.
    Cpu(usize),
    Stat,
    Meminfo,
    Vmstat,
    Own,
}

macro_rules! fields {
    ($($field:ident $name:literal $file:expr, $unit:ident;)+) => {
        /// A number of a sample.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`.")] $field,)+
        }

        impl Field {
            /// Every field, by its place in the format.
            pub const ALL: &'static [Self] = &[$(Self::$field),+];

            /// Its name in the kernel's file, behind the file's where several have such names.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$field => $name,)+ }
            }

            /// What it counts.
            pub const fn unit(self) -> FieldUnit {
                match self { $(Self::$field => FieldUnit::$unit,)+ }
            }

            pub(crate) const fn file(self) -> FieldSource {
                match self { $(Self::$field => $file,)+ }
            }
        }
    };
}

fields! {
    CpuUser "cpu.user" FieldSource::Cpu(0), Ticks;
    CpuNice "cpu.nice" FieldSource::Cpu(1), Ticks;
    CpuSystem "cpu.system" FieldSource::Cpu(2), Ticks;
    CpuIdle "cpu.idle" FieldSource::Cpu(3), Ticks;
    CpuIowait "cpu.iowait" FieldSource::Cpu(4), Ticks;
    CpuIrq "cpu.irq" FieldSource::Cpu(5), Ticks;
    CpuSoftirq "cpu.softirq" FieldSource::Cpu(6), Ticks;
    CpuSteal "cpu.steal" FieldSource::Cpu(7), Ticks;
    CpuGuest "cpu.guest" FieldSource::Cpu(8), Ticks;
    CpuGuestNice "cpu.guest_nice" FieldSource::Cpu(9), Ticks;
    Processors "processors" FieldSource::Own, Count;
    Interrupts "intr" FieldSource::Stat, Events;
    ContextSwitches "ctxt" FieldSource::Stat, Events;
    Forks "processes" FieldSource::Stat, Events;
    Running "procs_running" FieldSource::Stat, Count;
    Blocked "procs_blocked" FieldSource::Stat, Count;
    Load1 "load_1" FieldSource::Own, Hundredths;
    Load5 "load_5" FieldSource::Own, Hundredths;
    Load15 "load_15" FieldSource::Own, Hundredths;
    Tasks "tasks" FieldSource::Own, Count;

    MemTotal "MemTotal" FieldSource::Meminfo, Kibibytes;
    MemFree "MemFree" FieldSource::Meminfo, Kibibytes;
    MemAvailable "MemAvailable" FieldSource::Meminfo, Kibibytes;
    Buffers "Buffers" FieldSource::Meminfo, Kibibytes;
    Cached "Cached" FieldSource::Meminfo, Kibibytes;
    SwapCached "SwapCached" FieldSource::Meminfo, Kibibytes;
    Active "Active" FieldSource::Meminfo, Kibibytes;
    Inactive "Inactive" FieldSource::Meminfo, Kibibytes;
    ActiveAnon "Active(anon)" FieldSource::Meminfo, Kibibytes;
    InactiveAnon "Inactive(anon)" FieldSource::Meminfo, Kibibytes;
    ActiveFile "Active(file)" FieldSource::Meminfo, Kibibytes;
    InactiveFile "Inactive(file)" FieldSource::Meminfo, Kibibytes;
    Unevictable "Unevictable" FieldSource::Meminfo, Kibibytes;
    Mlocked "Mlocked" FieldSource::Meminfo, Kibibytes;
    SwapTotal "SwapTotal" FieldSource::Meminfo, Kibibytes;
    SwapFree "SwapFree" FieldSource::Meminfo, Kibibytes;
    Dirty "Dirty" FieldSource::Meminfo, Kibibytes;
    Writeback "Writeback" FieldSource::Meminfo, Kibibytes;
    AnonPages "AnonPages" FieldSource::Meminfo, Kibibytes;
    Mapped "Mapped" FieldSource::Meminfo, Kibibytes;
    Shmem "Shmem" FieldSource::Meminfo, Kibibytes;
    Slab "Slab" FieldSource::Meminfo, Kibibytes;
    SlabReclaimable "SReclaimable" FieldSource::Meminfo, Kibibytes;
    KernelStack "KernelStack" FieldSource::Meminfo, Kibibytes;
    PageTables "PageTables" FieldSource::Meminfo, Kibibytes;
    SecPageTables "SecPageTables" FieldSource::Meminfo, Kibibytes;
    CommitLimit "CommitLimit" FieldSource::Meminfo, Kibibytes;
    Committed "Committed_AS" FieldSource::Meminfo, Kibibytes;
    VmallocUsed "VmallocUsed" FieldSource::Meminfo, Kibibytes;
    Percpu "Percpu" FieldSource::Meminfo, Kibibytes;
    AnonHuge "AnonHugePages" FieldSource::Meminfo, Kibibytes;
    ShmemHuge "ShmemHugePages" FieldSource::Meminfo, Kibibytes;
    HugeTotal "HugePages_Total" FieldSource::Meminfo, Count;
    HugeFree "HugePages_Free" FieldSource::Meminfo, Count;
    HugeReserved "HugePages_Rsvd" FieldSource::Meminfo, Count;
    HugeSurplus "HugePages_Surp" FieldSource::Meminfo, Count;
    HugePageSize "Hugepagesize" FieldSource::Meminfo, Kibibytes;
    Hugetlb "Hugetlb" FieldSource::Meminfo, Kibibytes;

    PagedIn "pgpgin" FieldSource::Vmstat, Events;
    PagedOut "pgpgout" FieldSource::Vmstat, Events;
    SwapIn "pswpin" FieldSource::Vmstat, Events;
    SwapOut "pswpout" FieldSource::Vmstat, Events;
    Faults "pgfault" FieldSource::Vmstat, Events;
    MajorFaults "pgmajfault" FieldSource::Vmstat, Events;
    Freed "pgfree" FieldSource::Vmstat, Events;
    ScanKswapd "pgscan_kswapd" FieldSource::Vmstat, Events;
    ScanDirect "pgscan_direct" FieldSource::Vmstat, Events;
    ScanKhugepaged "pgscan_khugepaged" FieldSource::Vmstat, Events;
    StealKswapd "pgsteal_kswapd" FieldSource::Vmstat, Events;
    StealDirect "pgsteal_direct" FieldSource::Vmstat, Events;
    StealKhugepaged "pgsteal_khugepaged" FieldSource::Vmstat, Events;
    DirectThrottle "pgscan_direct_throttle" FieldSource::Vmstat, Events;
    AllocStall "allocstall" FieldSource::Vmstat, Events;
    OomKill "oom_kill" FieldSource::Vmstat, Events;
    DropPagecache "drop_pagecache" FieldSource::Vmstat, Events;
    Refault "workingset_refault" FieldSource::Vmstat, Events;
    CompactStall "compact_stall" FieldSource::Vmstat, Events;
    CompactFail "compact_fail" FieldSource::Vmstat, Events;
    CompactSuccess "compact_success" FieldSource::Vmstat, Events;
    CompactMigrateScanned "compact_migrate_scanned" FieldSource::Vmstat, Events;
    CompactFreeScanned "compact_free_scanned" FieldSource::Vmstat, Events;
    CompactDaemonWake "compact_daemon_wake" FieldSource::Vmstat, Events;
    HugetlbFail "htlb_buddy_alloc_fail" FieldSource::Vmstat, Events;
    HugetlbSuccess "htlb_buddy_alloc_success" FieldSource::Vmstat, Events;
    ThpFaultAlloc "thp_fault_alloc" FieldSource::Vmstat, Events;
    ThpFaultFallback "thp_fault_fallback" FieldSource::Vmstat, Events;
    ThpCollapse "thp_collapse_alloc" FieldSource::Vmstat, Events;
    ThpCollapseFailed "thp_collapse_alloc_failed" FieldSource::Vmstat, Events;
    ThpSplitPage "thp_split_page" FieldSource::Vmstat, Events;
    ThpSplitPmd "thp_split_pmd" FieldSource::Vmstat, Events;
    NumaMigrated "numa_pages_migrated" FieldSource::Vmstat, Events;
    Dirtied "nr_dirtied" FieldSource::Vmstat, Events;

    PressureCpuSome "pressure.cpu.some" FieldSource::Own, Microseconds;
    PressureIoSome "pressure.io.some" FieldSource::Own, Microseconds;
    PressureIoFull "pressure.io.full" FieldSource::Own, Microseconds;
    PressureMemorySome "pressure.memory.some" FieldSource::Own, Microseconds;
    PressureMemoryFull "pressure.memory.full" FieldSource::Own, Microseconds;

    DiskReads "disk.reads" FieldSource::Own, Events;
    DiskSectorsRead "disk.sectors_read" FieldSource::Own, Sectors;
    DiskWrites "disk.writes" FieldSource::Own, Events;
    DiskSectorsWritten "disk.sectors_written" FieldSource::Own, Sectors;
    DiskInFlight "disk.in_flight" FieldSource::Own, Count;
    DiskBusy "disk.busy" FieldSource::Own, Milliseconds;
    DiskWeighted "disk.weighted" FieldSource::Own, Milliseconds;
    Disks "disk.disks" FieldSource::Own, Count;

    TcpPassiveOpens "tcp.passive_opens" FieldSource::Own, Events;
    TcpEstablished "tcp.established" FieldSource::Own, Count;

    KswapdCpu "kswapd.cpu" FieldSource::Own, Nanoseconds;
    KcompactdCpu "kcompactd.cpu" FieldSource::Own, Nanoseconds;
    KhugepagedCpu "khugepaged.cpu" FieldSource::Own, Nanoseconds;
    RecorderCpu "recorder.cpu" FieldSource::Own, Nanoseconds;
}

/// The number of fields.
pub const FIELDS: usize = Field::ALL.len();

impl Field {
    /// Its place in [`Field::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_list_and_names_are_distinct() {
        let mut names: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
        assert!(Field::ALL.iter().enumerate().all(|(place, field)| field.index() == place));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FIELDS);
    }
}
