//! The kernel's files about the machine as a whole, held open and read into one buffer: no sample
//! allocates or opens anything.

mod byte_words;
mod counters;
mod disks;
mod kmsg;
mod open_file;
mod pools;

pub(crate) use byte_words::{parse_number, split_words};
pub(crate) use kmsg::KernelMessages;
pub use kmsg::parse_kernel_message as kernel_message;
pub(crate) use open_file::OpenKernelFile;

use crate::field::Field;
use crate::sample::HostSample;
use counters::FieldLines;
use pools::PoolFileSet;

/// Bytes of the largest file: /proc/stat has thousands of interrupts on large machines.
pub(crate) const BUFFER: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct KernelFiles {
    stat: OpenKernelFile,
    meminfo: (OpenKernelFile, FieldLines),
    vmstat: (OpenKernelFile, FieldLines),
    loadavg: OpenKernelFile,
    pressure: [(OpenKernelFile, Option<Field>, Option<Field>); 3],
    disks: OpenKernelFile,
    tcp: OpenKernelFile,
    pools: PoolFileSet,
}

/// What is left out of samples that take too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spare {
    pub(crate) nodes: bool,
    pub(crate) disks: bool,
}

impl KernelFiles {
    pub(crate) fn open(missing: &mut Vec<String>) -> Self {
        let mut held = |path: &str| {
            let held = OpenKernelFile::open(path);
            if let Some(why) = held.missing_reason() {
                missing.push(format!("{path}: {why}"));
            }
            held
        };
        use Field::{
            PressureCpuSome, PressureIoFull, PressureIoSome, PressureMemoryFull, PressureMemorySome,
        };
        Self {
            stat: held("/proc/stat"),
            meminfo: (held("/proc/meminfo"), FieldLines::for_meminfo()),
            vmstat: (held("/proc/vmstat"), FieldLines::for_vmstat()),
            loadavg: held("/proc/loadavg"),
            pressure: [
                // With a task on the processor, not all tasks can wait for one.
                (held("/proc/pressure/cpu"), Some(PressureCpuSome), None),
                (held("/proc/pressure/io"), Some(PressureIoSome), Some(PressureIoFull)),
                (held("/proc/pressure/memory"), Some(PressureMemorySome), Some(PressureMemoryFull)),
            ],
            disks: held("/proc/diskstats"),
            tcp: held("/proc/net/snmp"),
            pools: PoolFileSet::open(missing),
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8], spare: Spare, sample: &mut HostSample) {
        if let Some(text) = self.stat.read(buffer) {
            counters::parse_stat(text, sample);
        }
        if let Some(text) = self.meminfo.0.read(buffer) {
            self.meminfo.1.read(text, sample);
        }
        if let Some(text) = self.vmstat.0.read(buffer) {
            self.vmstat.1.read(text, sample);
        }
        if let Some(text) = self.loadavg.read(buffer) {
            counters::parse_loadavg(text, sample);
        }
        for (held, some, full) in &self.pressure {
            if let Some(text) = held.read(buffer) {
                counters::parse_pressure(text, *some, *full, sample);
            }
        }
        self.pools.read(buffer, !spare.nodes, sample);
        if spare.disks {
            return;
        }
        if let Some(text) = self.disks.read(buffer) {
            disks::read(text, sample);
        }
        if let Some(text) = self.tcp.read(buffer) {
            counters::parse_tcp(text, sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says to others at the same time, a little more or less.
    #[test]
    fn a_sample_of_this_host_is_what_its_files_say() {
        let mut missing = Vec::new();
        let mut kernel = KernelFiles::open(&mut missing);
        let (mut buffer, mut sample) = (vec![0; BUFFER], HostSample::default());
        for _ in 0..3 {
            sample.clear();
            kernel.read(&mut buffer, Spare::default(), &mut sample);
        }
        let text = |path: &str| {
            let mut buffer = vec![0; BUFFER];
            let held = OpenKernelFile::open(path);
            String::from_utf8(held.read(&mut buffer).unwrap().to_vec()).unwrap()
        };
        let meminfo = text("/proc/meminfo");
        let said = |text: &str, name: &str| {
            let line =
                text.lines().find(|line| line.split([':', ' ']).next() == Some(name)).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        for (name, field) in [
            ("MemTotal", Field::MemTotal),
            ("SwapTotal", Field::SwapTotal),
            ("Hugepagesize", Field::HugePageSize),
        ] {
            assert_eq!(sample.get(field), Some(said(&meminfo, name)), "{name}");
        }
        let vmstat = text("/proc/vmstat");
        for (name, field) in [
            ("pgfault", Field::Faults),
            ("pgfree", Field::Freed),
            ("compact_stall", Field::CompactStall),
        ] {
            let (now, before) = (said(&vmstat, name), sample.get(field).unwrap());
            assert!(before <= now && now - before < 1_000_000, "{name} {before} {now}");
        }
        let stalls: u64 = vmstat
            .lines()
            .filter(|line| line.starts_with("allocstall"))
            .map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap())
            .sum();
        assert!(sample.get(Field::AllocStall).unwrap() <= stalls);
        let stat = text("/proc/stat");
        let cpus = stat
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
            .count();
        assert_eq!(sample.get(Field::Processors), u64::try_from(cpus).ok());
        assert!(sample.get(Field::ContextSwitches).unwrap() <= said(&stat, "ctxt"));
        assert!(sample.get(Field::CpuUser).is_some() && sample.get(Field::Tasks).unwrap() > 1);
        assert!(sample.get(Field::Running).unwrap() >= 1);
    }
}
