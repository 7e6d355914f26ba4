//! Processes: what /proc says of each.

use std::fmt::Write as _;

use super::files::FixtureFiles;
use super::machine::FixtureMachine;
use super::memlock::FixtureMemlock;
use super::{KIB_IN_HUGE, KIB_IN_MIB};

/// Page tables of a process for its program, libraries, stack and private memory: KiB. An idle
/// dedicated server of 11.2 had about 530 on huge pages (Ronny Egner, "MEMORY_TARGET (SGA_TARGET)
/// or HugePages", the second of its measurements: 52 MB for 100 logins).
const OWN_TABLES: u64 = 512;

/// KiB that one page of page tables (4 KiB) maps: of the lowest level, and of the one above it.
const LOWEST: u64 = 2 * KIB_IN_MIB;
const ABOVE: u64 = KIB_IN_MIB << 10;
const PAGE_OF_TABLES: u64 = 4;

/// KiB of its program and libraries that a process maps, and what it has touched of them.
const OF_FILES: u64 = 400_000;
const FILES_TOUCHED: u64 = 40_000;

/// A stretch of shared memory that a process maps.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) device: &'static str,
    pub(crate) inode: u64,
    pub(crate) name: String,
    pub(crate) huge: bool,
    /// KiB of it that the process has touched.
    pub(crate) touched: u64,
}

impl Mapped {
    fn mapped_kib(&self) -> u64 {
        self.bytes >> 10
    }

    /// KiB of page tables: 8 bytes a page, in pages of 4 KiB, on each level that has more than one.
    fn page_table_kib(&self) -> u64 {
        let lowest = if self.huge { 0 } else { self.touched.div_ceil(LOWEST) };
        (lowest + self.touched.div_ceil(ABOVE)) * PAGE_OF_TABLES
    }
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct FixtureProcess {
    pub(crate) command: Vec<String>,
    /// As the kernel keeps it; cut to 15 bytes.
    pub(crate) name: String,
    pub(crate) executable: String,
    pub(crate) directory: String,
    pub(crate) uid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) memlock: FixtureMemlock,
    pub(crate) cgroup: String,
    /// KiB of private memory.
    pub(crate) private: u64,
    pub(crate) mapped: Vec<Mapped>,
    /// Inodes of the sockets that it holds.
    pub(crate) sockets: Vec<u64>,
    /// Whether the page sizes of its mappings are to be told: of one process of a server.
    pub(crate) tells_pages: bool,
}

impl FixtureProcess {
    /// KiB of page tables.
    pub(crate) fn page_table_kib(&self) -> u64 {
        OWN_TABLES + self.mapped.iter().map(Mapped::page_table_kib).sum::<u64>()
    }

    /// KiB that it has touched of shared memory on base pages, or of huge pages.
    fn touched_kib(&self, huge: bool) -> u64 {
        self.mapped
            .iter()
            .filter(|mapped| mapped.huge == huge)
            .map(|other_mapped| other_mapped.touched)
            .sum()
    }
}

/// All processes of a host, and the connections that they hold.
#[derive(Debug)]
pub(crate) struct FixtureProcesses {
    all: Vec<FixtureProcess>,
    /// Lines of /proc/PID/net/tcp without their number.
    connections: Vec<String>,
    tells_rss: bool,
    tells_huge: bool,
}

/// The first process that is no init.
const FIRST: usize = 4100;

impl FixtureProcesses {
    pub(crate) fn new(machine: &FixtureMachine) -> Self {
        Self {
            all: Vec::new(),
            connections: Vec::new(),
            // RssShmem came with Linux 4.5, HugetlbPages with 4.4 (proc(5)).
            tells_rss: machine.is_kernel(4, 5),
            tells_huge: machine.is_kernel(4, 4),
        }
    }

    /// Adds one; its pid.
    pub(crate) fn push(&mut self, process: FixtureProcess) -> usize {
        self.all.push(process);
        FIRST + self.all.len() - 1
    }

    /// An established connection from a client to this port; the inode of its socket.
    pub(crate) fn add_connection(&mut self, client: [u8; 4], port: u16, uid: u32) -> u64 {
        let number = self.connections.len();
        let inode = 900_000 + u64::try_from(number).unwrap_or_default();
        let address = u32::from_ne_bytes(client);
        let line = format!(
            "0100000A:{port:04X} {address:08X}:{:04X} 01 00000000:00000000 00:00000000 00000000 \
                 {uid:5}        0 {inode} 1 \
             0000000000000000 20 4 30 10 -1",
            30_000 + number % 30_000
        );
        self.connections.push(line);
        inode
    }

    /// KiB of page tables of all of them.
    pub(crate) fn page_table_kib(&self) -> u64 {
        self.all.iter().map(FixtureProcess::page_table_kib).sum()
    }

    /// KiB of private memory of all of them.
    pub(crate) fn private_kib(&self) -> u64 {
        self.all.iter().map(|process| process.private).sum()
    }

    pub(crate) fn add(&self, files: &mut FixtureFiles) {
        let mut table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
                 retrnsmt   uid  timeout inode\n"
            .to_owned();
        for (number, line) in self.connections.iter().enumerate() {
            let _ = writeln!(table, "{number:4}: {line}");
        }
        for (at, process) in self.all.iter().enumerate() {
            let pid = FIRST + at;
            let folder = format!("/proc/{pid}");
            files.add_file(
                &format!("{folder}/cmdline"),
                process.command.iter().map(|word| format!("{word}\0")).collect::<String>(),
            );
            files.add_file(&format!("{folder}/cgroup"), &process.cgroup);
            files.read_link(&format!("{folder}/exe"), &process.executable);
            files.read_link(&format!("{folder}/cwd"), &process.directory);
            files.add_file(&format!("{folder}/limits"), render_limits(process.memlock));
            files.add_file(&format!("{folder}/status"), self.render_status(pid, process));
            files.add_file(&format!("{folder}/maps"), render_maps(process));
            files.add_file(&format!("{folder}/statm"), render_statm(process));
            if process.tells_pages {
                files.add_file(&format!("{folder}/numa_maps"), numa_maps(process));
            }
            for (number, inode) in process.sockets.iter().enumerate() {
                files.read_link(
                    &format!("{folder}/fd/{}", 10 + number),
                    &format!("socket:[{inode}]"),
                );
            }
            if !process.sockets.is_empty() || process.tells_pages {
                files.add_file(&format!("{folder}/net/tcp"), &table);
            }
        }
    }

    fn render_status(&self, pid: usize, process: &FixtureProcess) -> String {
        let name: String = process.name.chars().take(15).collect();
        let ids = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
        let groups: String = process.groups.iter().map(|group| format!("{group} ")).collect();
        let (shared, huge) = (process.touched_kib(false), process.touched_kib(true));
        let size =
            process.mapped.iter().map(Mapped::mapped_kib).sum::<u64>() + process.private + OF_FILES;
        let resident = shared + process.private + FILES_TOUCHED;
        let mut text = format!(
            "Name:\t{name}\nState:\tS \
                 (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t1\nTracerPid:\t0\nUid:\t{}\nGid:\t{}\nFDSize:\t256\n\
             Groups:\t{groups}\nVmPeak:\t{size} kB\nVmSize:\t{size} kB\nVmLck:\t0 \
                 kB\nVmHWM:\t{resident} kB\nVmRSS:\t{resident} kB\n",
            ids(process.uid),
            ids(process.groups.first().copied().unwrap_or_default()),
        );
        if self.tells_rss {
            let _ = writeln!(
                text,
                "RssAnon:\t{} kB\nRssFile:\t{FILES_TOUCHED} kB\nRssShmem:\t{shared} kB",
                process.private
            );
        }
        let _ = writeln!(
            text,
            "VmData:\t{} kB\nVmStk:\t136 kB\nVmExe:\t180000 kB\nVmLib:\t16000 kB\nVmPTE:\t{} kB",
            process.private,
            process.page_table_kib()
        );
        if self.tells_huge {
            let _ = writeln!(text, "VmSwap:\t0 kB\nHugetlbPages:\t{huge} kB");
        }
        text + "Threads:\t1\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
    }
}

/// Pages of 4 KiB: in all, resident, and of these shared; hugetlb pages are in none but the first.
fn render_statm(process: &FixtureProcess) -> String {
    let size =
        process.mapped.iter().map(Mapped::mapped_kib).sum::<u64>() + process.private + OF_FILES;
    let shared = process.touched_kib(false) + FILES_TOUCHED;
    format!(
        "{} {} {} 45000 0 {} 0\n",
        size / 4,
        (shared + process.private) / 4,
        shared / 4,
        process.private / 4
    )
}

/// /proc/PID/limits, as far as it matters.
fn render_limits(memlock: FixtureMemlock) -> String {
    let shown = match memlock {
        FixtureMemlock::Unlimited => "unlimited".to_owned(),
        FixtureMemlock::Kib(kib) => (kib << 10).to_string(),
    };
    format!(
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max processes             16384                16384                processes \n\
         Max open files            65536                65536                files     \n\
         Max locked memory         {shown:<20} {shown:<20} bytes     \n"
    )
}

fn render_maps(process: &FixtureProcess) -> String {
    let mut text =
        format!("00400000-0b000000 r-xp 00000000 fd:03 671102 {:>26}{}\n", "", process.executable);
    for one in &process.mapped {
        let _ = writeln!(
            text,
            "{:08x}-{:08x} rw-s 00000000 {} {} {:>20}{}",
            one.start,
            one.start + one.bytes,
            one.device,
            one.inode,
            "",
            one.name
        );
    }
    text + "7ffd1c000000-7ffd1c021000 rw-p 00000000 00:00 0 [stack]\n"
}

fn numa_maps(process: &FixtureProcess) -> String {
    let line = |one: &Mapped| {
        let (unit, word, kib) =
            if one.huge { (KIB_IN_HUGE, " huge", KIB_IN_HUGE) } else { (4, "", 4) };
        let pages = one.touched / unit;
        let name = one.name.replace(' ', "\\040");
        format!(
            "{:08x} default file={name}{word} dirty={pages} N0={pages} kernelpagesize_kB={kib}\n",
            one.start
        )
    };
    process.mapped.iter().map(line).collect()
}
