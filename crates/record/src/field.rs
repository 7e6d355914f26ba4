//! What a sample holds: a closed list of numbers, each with its place in the format. New ones are added at the end: a place is
//! never given to another number.

/// What a field's numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Clock ticks of all processors since the boot; how many are a second is said in the ring's header.
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

impl Unit {
    /// Whether the number only grows until the next boot.
    pub const fn is_counter(self) -> bool {
        !matches!(self, Self::Kibibytes | Self::Count | Self::Hundredths)
    }
}

/// The kernel's file that a field is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    /// /proc/stat, its line `cpu`: the number of the column.
    Cpu(usize),
    /// /proc/stat, a line by its name.
    Stat,
    /// /proc/meminfo.
    Meminfo,
    /// /proc/vmstat.
    Vmstat,
    /// Worked out in a way of its own.
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

            /// As the kernel's file calls it, behind the file where several have such names.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$field => $name,)+ }
            }

            /// What it counts.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$field => Unit::$unit,)+ }
            }

            pub(crate) const fn file(self) -> File {
                match self { $(Self::$field => $file,)+ }
            }
        }
    };
}

fields! {
    CpuUser "cpu.user" File::Cpu(0), Ticks;
    CpuNice "cpu.nice" File::Cpu(1), Ticks;
    CpuSystem "cpu.system" File::Cpu(2), Ticks;
    CpuIdle "cpu.idle" File::Cpu(3), Ticks;
    CpuIowait "cpu.iowait" File::Cpu(4), Ticks;
    CpuIrq "cpu.irq" File::Cpu(5), Ticks;
    CpuSoftirq "cpu.softirq" File::Cpu(6), Ticks;
    CpuSteal "cpu.steal" File::Cpu(7), Ticks;
    CpuGuest "cpu.guest" File::Cpu(8), Ticks;
    CpuGuestNice "cpu.guest_nice" File::Cpu(9), Ticks;
    Processors "processors" File::Own, Count;
    Interrupts "intr" File::Stat, Events;
    ContextSwitches "ctxt" File::Stat, Events;
    Forks "processes" File::Stat, Events;
    Running "procs_running" File::Stat, Count;
    Blocked "procs_blocked" File::Stat, Count;
    Load1 "load_1" File::Own, Hundredths;
    Load5 "load_5" File::Own, Hundredths;
    Load15 "load_15" File::Own, Hundredths;
    Tasks "tasks" File::Own, Count;

    MemTotal "MemTotal" File::Meminfo, Kibibytes;
    MemFree "MemFree" File::Meminfo, Kibibytes;
    MemAvailable "MemAvailable" File::Meminfo, Kibibytes;
    Buffers "Buffers" File::Meminfo, Kibibytes;
    Cached "Cached" File::Meminfo, Kibibytes;
    SwapCached "SwapCached" File::Meminfo, Kibibytes;
    Active "Active" File::Meminfo, Kibibytes;
    Inactive "Inactive" File::Meminfo, Kibibytes;
    ActiveAnon "Active(anon)" File::Meminfo, Kibibytes;
    InactiveAnon "Inactive(anon)" File::Meminfo, Kibibytes;
    ActiveFile "Active(file)" File::Meminfo, Kibibytes;
    InactiveFile "Inactive(file)" File::Meminfo, Kibibytes;
    Unevictable "Unevictable" File::Meminfo, Kibibytes;
    Mlocked "Mlocked" File::Meminfo, Kibibytes;
    SwapTotal "SwapTotal" File::Meminfo, Kibibytes;
    SwapFree "SwapFree" File::Meminfo, Kibibytes;
    Dirty "Dirty" File::Meminfo, Kibibytes;
    Writeback "Writeback" File::Meminfo, Kibibytes;
    AnonPages "AnonPages" File::Meminfo, Kibibytes;
    Mapped "Mapped" File::Meminfo, Kibibytes;
    Shmem "Shmem" File::Meminfo, Kibibytes;
    Slab "Slab" File::Meminfo, Kibibytes;
    SlabReclaimable "SReclaimable" File::Meminfo, Kibibytes;
    KernelStack "KernelStack" File::Meminfo, Kibibytes;
    PageTables "PageTables" File::Meminfo, Kibibytes;
    SecPageTables "SecPageTables" File::Meminfo, Kibibytes;
    CommitLimit "CommitLimit" File::Meminfo, Kibibytes;
    Committed "Committed_AS" File::Meminfo, Kibibytes;
    VmallocUsed "VmallocUsed" File::Meminfo, Kibibytes;
    Percpu "Percpu" File::Meminfo, Kibibytes;
    AnonHuge "AnonHugePages" File::Meminfo, Kibibytes;
    ShmemHuge "ShmemHugePages" File::Meminfo, Kibibytes;
    HugeTotal "HugePages_Total" File::Meminfo, Count;
    HugeFree "HugePages_Free" File::Meminfo, Count;
    HugeReserved "HugePages_Rsvd" File::Meminfo, Count;
    HugeSurplus "HugePages_Surp" File::Meminfo, Count;
    HugePageSize "Hugepagesize" File::Meminfo, Kibibytes;
    Hugetlb "Hugetlb" File::Meminfo, Kibibytes;

    PagedIn "pgpgin" File::Vmstat, Events;
    PagedOut "pgpgout" File::Vmstat, Events;
    SwapIn "pswpin" File::Vmstat, Events;
    SwapOut "pswpout" File::Vmstat, Events;
    Faults "pgfault" File::Vmstat, Events;
    MajorFaults "pgmajfault" File::Vmstat, Events;
    Freed "pgfree" File::Vmstat, Events;
    ScanKswapd "pgscan_kswapd" File::Vmstat, Events;
    ScanDirect "pgscan_direct" File::Vmstat, Events;
    ScanKhugepaged "pgscan_khugepaged" File::Vmstat, Events;
    StealKswapd "pgsteal_kswapd" File::Vmstat, Events;
    StealDirect "pgsteal_direct" File::Vmstat, Events;
    StealKhugepaged "pgsteal_khugepaged" File::Vmstat, Events;
    DirectThrottle "pgscan_direct_throttle" File::Vmstat, Events;
    AllocStall "allocstall" File::Vmstat, Events;
    OomKill "oom_kill" File::Vmstat, Events;
    DropPagecache "drop_pagecache" File::Vmstat, Events;
    Refault "workingset_refault" File::Vmstat, Events;
    CompactStall "compact_stall" File::Vmstat, Events;
    CompactFail "compact_fail" File::Vmstat, Events;
    CompactSuccess "compact_success" File::Vmstat, Events;
    CompactMigrateScanned "compact_migrate_scanned" File::Vmstat, Events;
    CompactFreeScanned "compact_free_scanned" File::Vmstat, Events;
    CompactDaemonWake "compact_daemon_wake" File::Vmstat, Events;
    HugetlbFail "htlb_buddy_alloc_fail" File::Vmstat, Events;
    HugetlbSuccess "htlb_buddy_alloc_success" File::Vmstat, Events;
    ThpFaultAlloc "thp_fault_alloc" File::Vmstat, Events;
    ThpFaultFallback "thp_fault_fallback" File::Vmstat, Events;
    ThpCollapse "thp_collapse_alloc" File::Vmstat, Events;
    ThpCollapseFailed "thp_collapse_alloc_failed" File::Vmstat, Events;
    ThpSplitPage "thp_split_page" File::Vmstat, Events;
    ThpSplitPmd "thp_split_pmd" File::Vmstat, Events;
    NumaMigrated "numa_pages_migrated" File::Vmstat, Events;
    Dirtied "nr_dirtied" File::Vmstat, Events;

    PressureCpuSome "pressure.cpu.some" File::Own, Microseconds;
    PressureIoSome "pressure.io.some" File::Own, Microseconds;
    PressureIoFull "pressure.io.full" File::Own, Microseconds;
    PressureMemorySome "pressure.memory.some" File::Own, Microseconds;
    PressureMemoryFull "pressure.memory.full" File::Own, Microseconds;

    DiskReads "disk.reads" File::Own, Events;
    DiskSectorsRead "disk.sectors_read" File::Own, Sectors;
    DiskWrites "disk.writes" File::Own, Events;
    DiskSectorsWritten "disk.sectors_written" File::Own, Sectors;
    DiskInFlight "disk.in_flight" File::Own, Count;
    DiskBusy "disk.busy" File::Own, Milliseconds;
    DiskWeighted "disk.weighted" File::Own, Milliseconds;
    Disks "disk.disks" File::Own, Count;

    TcpPassiveOpens "tcp.passive_opens" File::Own, Events;
    TcpEstablished "tcp.established" File::Own, Count;

    KswapdCpu "kswapd.cpu" File::Own, Nanoseconds;
    KcompactdCpu "kcompactd.cpu" File::Own, Nanoseconds;
    KhugepagedCpu "khugepaged.cpu" File::Own, Nanoseconds;
    RecorderCpu "recorder.cpu" File::Own, Nanoseconds;
}

/// How many there are.
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
