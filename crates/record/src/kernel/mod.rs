//! The kernel's files about the machine as a whole: held open, read from their beginning into one buffer, and put into a sample.
//! Nothing is allocated and nothing opened once they are held.

mod counters;
mod disks;
mod held;
mod kmsg;
mod pools;
mod words;

pub(crate) use held::Held;
pub(crate) use kmsg::Messages;
pub use kmsg::event as kernel_message;
pub(crate) use words::{Words, number, word};

use crate::field::Field;
use crate::sample::Sample;
use counters::Lines;
use pools::Pools;

/// Bytes of the largest file: /proc/stat has a number for each interrupt, of which large machines have thousands.
pub(crate) const BUFFER: usize = 256 << 10;

/// All of them.
#[derive(Debug)]
pub(crate) struct Kernel {
    stat: Held,
    meminfo: (Held, Lines),
    vmstat: (Held, Lines),
    loadavg: Held,
    pressure: [(Held, Option<Field>, Option<Field>); 3],
    disks: Held,
    tcp: Held,
    pools: Pools,
}

/// Parts that may be left out of a sample that takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spare {
    /// Without the pools of nodes.
    pub(crate) nodes: bool,
    /// Without disks and TCP.
    pub(crate) disks: bool,
}

impl Kernel {
    /// Opens them; those that are not there, or closed to this program, are named.
    pub(crate) fn open(missing: &mut Vec<String>) -> Self {
        let mut held = |path: &str| {
            let held = Held::open(path);
            if let Some(why) = held.missing() {
                missing.push(format!("{path}: {why}"));
            }
            held
        };
        use Field::{PressureCpuSome, PressureIoFull, PressureIoSome, PressureMemoryFull, PressureMemorySome};
        Self {
            stat: held("/proc/stat"),
            meminfo: (held("/proc/meminfo"), Lines::meminfo()),
            vmstat: (held("/proc/vmstat"), Lines::vmstat()),
            loadavg: held("/proc/loadavg"),
            pressure: [
                // Of all tasks none can wait for a processor that none of them runs on.
                (held("/proc/pressure/cpu"), Some(PressureCpuSome), None),
                (held("/proc/pressure/io"), Some(PressureIoSome), Some(PressureIoFull)),
                (held("/proc/pressure/memory"), Some(PressureMemorySome), Some(PressureMemoryFull)),
            ],
            disks: held("/proc/diskstats"),
            tcp: held("/proc/net/snmp"),
            pools: Pools::open(missing),
        }
    }

    /// Reads all of them into a sample.
    pub(crate) fn read(&mut self, buffer: &mut [u8], spare: Spare, sample: &mut Sample) {
        if let Some(text) = self.stat.read(buffer) {
            counters::stat(text, sample);
        }
        if let Some(text) = self.meminfo.0.read(buffer) {
            self.meminfo.1.read(text, sample);
        }
        if let Some(text) = self.vmstat.0.read(buffer) {
            self.vmstat.1.read(text, sample);
        }
        if let Some(text) = self.loadavg.read(buffer) {
            counters::loadavg(text, sample);
        }
        for (held, some, full) in &self.pressure {
            if let Some(text) = held.read(buffer) {
                counters::pressure(text, *some, *full, sample);
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
            counters::tcp(text, sample);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What the kernel says to others at the same time, a little more or less.
    #[test]
    fn a_sample_of_this_host_is_what_its_files_say() {
        let mut missing = Vec::new();
        let mut kernel = Kernel::open(&mut missing);
        let (mut buffer, mut sample) = (vec![0; BUFFER], Sample::default());
        for _ in 0..3 {
            sample.clear();
            kernel.read(&mut buffer, Spare::default(), &mut sample);
        }
        let text = |path: &str| {
            let mut buffer = vec![0; BUFFER];
            let held = Held::open(path);
            String::from_utf8(held.read(&mut buffer).unwrap().to_vec()).unwrap()
        };
        let meminfo = text("/proc/meminfo");
        let said = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.split([':', ' ']).next() == Some(name)).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        for (name, field) in
            [("MemTotal", Field::MemTotal), ("SwapTotal", Field::SwapTotal), ("Hugepagesize", Field::HugePageSize)]
        {
            assert_eq!(sample.get(field), Some(said(&meminfo, name)), "{name}");
        }
        let vmstat = text("/proc/vmstat");
        for (name, field) in
            [("pgfault", Field::Faults), ("pgfree", Field::Freed), ("compact_stall", Field::CompactStall)]
        {
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
        let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
        assert_eq!(sample.get(Field::Processors), u64::try_from(cpus).ok());
        assert!(sample.get(Field::ContextSwitches).unwrap() <= said(&stat, "ctxt"));
        assert!(sample.get(Field::CpuUser).is_some() && sample.get(Field::Tasks).unwrap() > 1);
        assert!(sample.get(Field::Running).unwrap() >= 1);
    }
}
