//! A host from a short description: `host.txt` of a case.
//!
//! One fact a line; lines that begin with `| ` are the text of the file named before them. The rest
//! of the host is that of a plain machine, and its figures follow from those that are told.

use std::collections::BTreeMap;

use hugewise_testkit::oracle_fixtures::FixtureFiles;

use super::process::FieldProcess;

/// Words of a line: those with `=` by their names, the others in their order.
#[derive(Default)]
pub(crate) struct Words {
    plain: Vec<String>,
    named: BTreeMap<String, String>,
}

impl Words {
    pub(crate) fn split(text: &str) -> Self {
        let mut words = Self::default();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => {
                    words.named.insert(name.to_owned(), value.to_owned());
                }
                None => words.plain.push(word.to_owned()),
            }
        }
        words
    }

    pub(crate) fn first(&self) -> &str {
        self.plain.first().map_or("", String::as_str)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    /// A size in KiB.
    pub(crate) fn kib(&self, name: &str) -> Result<Option<u64>, String> {
        self.named(name).map(parse_kib).transpose()
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        let Some(text) = self.named(name) else { return Ok(0) };
        text.parse().map_err(|_| format!("{name}={text}: no number"))
    }
}

/// `64G`, `512M`, `4K` in KiB.
pub(crate) fn parse_kib(text: &str) -> Result<u64, String> {
    for (unit, shift) in [('K', 0), ('M', 10), ('G', 20)] {
        if let Some(digits) = text.strip_suffix(unit) {
            let count: u64 = digits.parse().map_err(|_| format!("{text}: no size"))?;
            return Ok(count << shift);
        }
    }
    Err(format!("{text}: no size with K, M or G"))
}

/// /proc/1/status.
const STATUS_OF_INIT: &str = "\
Name:\tsystemd\nState:\tS (sleeping)\nTgid:\t1\nPid:\t1\nPPid:\t0\n\
Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t \n\
VmSize:\t170000 kB\nVmRSS:\t12000 kB\nVmPTE:\t90 kB\nVmSwap:\t0 kB\nThreads:\t1\n\
CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\n\
CapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n";

/// What a machine has mounted, with control groups of version 2.
const MOUNTS: &str = "\
24 1 253:0 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw
35 24 0:31 / /dev/hugepages rw,relatime shared:15 - hugetlbfs hugetlbfs rw,pagesize=2M
";
/// The same with version 1.
const MOUNTS_OF_CGROUPS_1: &str = "\
24 1 253:0 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup/hugetlb rw,nosuid shared:9 - cgroup cgroup rw,hugetlb
31 24 0:27 / /sys/fs/cgroup/systemd rw shared:8 - cgroup cgroup rw,name=systemd
35 24 0:31 / /dev/hugepages rw,relatime shared:15 - hugetlbfs hugetlbfs rw
";

/// The heading of /proc/sysvipc/shm.
const SEGMENTS: &str = "       key      shmid perms                  size  cpid  lpid nattch   \
uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  \
swap\n";

/// A pool of one page size.
struct FieldPool {
    page_kib: u64,
    words: Words,
}

/// The host while its description is read.
struct FieldHost {
    files: FixtureFiles,
    kernel: String,
    processors: u64,
    is_arm: bool,
    memory: Words,
    pools: Vec<FieldPool>,
    processes: Vec<FieldProcess>,
    accounts: BTreeMap<String, u32>,
    segments: String,
    mapped_kib: u64,
}

/// Makes the host that a text describes.
pub(crate) fn make_host(text: &str) -> Result<FixtureFiles, String> {
    let mut host = FieldHost {
        files: FixtureFiles::default(),
        kernel: "5.15.0-100-generic".to_owned(),
        processors: 8,
        is_arm: false,
        memory: Words::split("total=64G free=20G available=40G"),
        pools: Vec::new(),
        processes: Vec::new(),
        accounts: BTreeMap::from([("root".to_owned(), 0)]),
        segments: String::new(),
        mapped_kib: 0,
    };
    host.add_defaults();
    let mut file: Option<(String, String)> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(content) = line.strip_prefix('|') {
            let (_, text) = file.as_mut().ok_or("text before any file")?;
            text.push_str(content.strip_prefix(' ').unwrap_or(content));
            text.push('\n');
            continue;
        }
        if let Some((path, text)) = file.take() {
            host.files.add_file(&path, text);
        }
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let (key, rest) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        if key == "file" {
            file = Some((rest.to_owned(), String::new()));
            continue;
        }
        host.take_fact(key, rest).map_err(|problem| format!("line {}: {problem}", at + 1))?;
    }
    if let Some((path, text)) = file.take() {
        host.files.add_file(&path, text);
    }
    host.finish()
}

impl FieldHost {
    fn add_defaults(&mut self) {
        let settings = [
            ("kernel/hostname", "db1"),
            ("kernel/shmmax", "18446744073692774399"),
            ("kernel/shmall", "18446744073692774399"),
            ("kernel/shmmni", "4096"),
            ("vm/hugetlb_shm_group", "0"),
            ("vm/overcommit_memory", "0"),
            ("vm/overcommit_ratio", "50"),
            ("vm/swappiness", "60"),
            ("vm/min_free_kbytes", "67584"),
            ("vm/max_map_count", "65530"),
        ];
        for (name, value) in settings {
            self.files.add_file(&format!("/proc/sys/{name}"), format!("{value}\n"));
        }
        let proc_one = [
            ("comm", "systemd\n"),
            ("cmdline", "/sbin/init\0"),
            ("cgroup", "0::/init.scope\n"),
            ("status", STATUS_OF_INIT),
        ];
        for (name, text) in proc_one {
            self.files.add_file(&format!("/proc/1/{name}"), text);
        }
        for of in ["1", "self"] {
            for (name, number) in [
                ("mnt", 4_026_531_840_u64),
                ("pid", 4_026_531_836),
                ("ipc", 4_026_531_839),
                ("user", 4_026_531_837),
            ] {
                self.files
                    .read_link(&format!("/proc/{of}/ns/{name}"), &format!("{name}:[{number}]"));
            }
        }
        self.files.add_file("/proc/self/mountinfo", MOUNTS);
        self.files
            .add_file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n");
        self.files.add_file("/etc/hostname", "db1\n");
        self.files.add_file("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet\n");
        self.files.add_file("/etc/security/limits.conf", "");
        self.files.add_file("/etc/sysctl.conf", "");
        self.add_thp(&Words::split("madvise defrag=madvise shmem=never"));
    }

    fn take_fact(&mut self, key: &str, rest: &str) -> Result<(), String> {
        let words = Words::split(rest);
        match key {
            "os" => {
                let (id, version) = rest.split_once(' ').ok_or("os ID VERSION")?;
                let name = format!("ID={id}\nNAME=\"{id}\"\n");
                let version = format!("VERSION_ID=\"{version}\"\nPRETTY_NAME=\"{rest}\"\n");
                self.files.add_file("/etc/os-release", name + &version);
            }
            "kernel" => rest.clone_into(&mut self.kernel),
            // Control groups of version 1, as kernels before systemd 247 have them mounted.
            "cgroup1" => self.files.add_file("/proc/self/mountinfo", MOUNTS_OF_CGROUPS_1),
            // The first process of a system without systemd.
            "init" => {
                self.files.add_file("/proc/1/comm", "init\n");
                let status = self.files.text("/proc/1/status").unwrap_or_default();
                let status = status.replace("Name:\tsystemd", "Name:\tinit");
                self.files.add_file("/proc/1/status", status);
            }
            // RHEL before 7 has no os-release.
            "release" => self.files.add_file("/etc/redhat-release", format!("{rest}\n")),
            "arch" => self.is_arm = rest == "aarch64",
            "cpus" => self.processors = rest.parse().map_err(|_| "no number of processors")?,
            "memory" => self.memory = words,
            "huge" => {
                let page_kib = parse_kib(words.first())?;
                self.pools.push(FieldPool { page_kib, words });
            }
            "thp" => self.add_thp(&words),
            "boot" => self.files.add_file("/proc/cmdline", format!("{rest}\n")),
            "sysctl" => {
                let (name, value) = rest.split_once(' ').ok_or("sysctl NAME VALUE")?;
                let path = format!("/proc/sys/{}", name.replace('.', "/"));
                self.files.add_file(&path, format!("{value}\n"));
            }
            "link" => {
                let (path, target) = rest.split_once(' ').ok_or("link PATH TARGET")?;
                self.files.read_link(path, target);
            }
            "user" => {
                let (name, uid) = rest.split_once(' ').ok_or("user NAME UID")?;
                self.accounts.insert(name.to_owned(), uid.parse().map_err(|_| "no uid")?);
            }
            "process" => self.processes.push(FieldProcess::parse(rest)?),
            _ => {
                let process = self.processes.last_mut().ok_or_else(|| format!("unknown {key}"))?;
                process.take_fact(key, rest)?;
            }
        }
        Ok(())
    }

    fn add_thp(&mut self, words: &Words) {
        let switch = |choices: &[&str], chosen: &str| {
            let shown: Vec<String> = choices
                .iter()
                .map(|word| if *word == chosen { format!("[{word}]") } else { (*word).to_owned() })
                .collect();
            shown.join(" ") + "\n"
        };
        let folder = "/sys/kernel/mm/transparent_hugepage";
        let enabled = switch(&["always", "madvise", "never"], words.first());
        self.files.add_file(&format!("{folder}/enabled"), enabled);
        let defrag = words.named("defrag").unwrap_or("madvise");
        let choices = ["always", "defer", "defer+madvise", "madvise", "never"];
        self.files.add_file(&format!("{folder}/defrag"), switch(&choices, defrag));
        let shmem = words.named("shmem").unwrap_or("never");
        let choices = ["always", "within_size", "advise", "never", "deny", "force"];
        self.files.add_file(&format!("{folder}/shmem_enabled"), switch(&choices, shmem));
        self.files.add_file(&format!("{folder}/hpage_pmd_size"), "2097152\n");
    }

    fn finish(mut self) -> Result<FixtureFiles, String> {
        let machine = if self.is_arm { "aarch64" } else { "x86_64" };
        self.files.add_file(
            "/proc/version",
            format!("Linux version {} (build@{machine}) (gcc) #1 SMP {machine}\n", self.kernel),
        );
        self.files.add_file("/proc/sys/kernel/osrelease", format!("{}\n", self.kernel));
        let model = if self.is_arm {
            "Features\t: fp asimd\nCPU implementer\t: 0x41\n"
        } else {
            "vendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\n\
             flags\t\t: fpu pse pse36 pdpe1gb rdtscp lm\n"
        };
        let processors = (0..self.processors).map(|at| format!("processor\t: {at}\n{model}\n"));
        self.files.add_file("/proc/cpuinfo", processors.collect::<String>());
        let last = self.processors.saturating_sub(1);
        self.files.add_file("/sys/devices/system/cpu/online", format!("0-{last}\n"));
        self.files.add_file(
            "/proc/buddyinfo",
            "Node 0, zone   Normal  812 401 290 166 80 41 12 5 2 1 3\n",
        );
        let processes = std::mem::take(&mut self.processes);
        let mut tables = 0;
        for process in &processes {
            if !self.accounts.contains_key(process.user()) {
                let uid = 110 + u32::try_from(self.accounts.len()).unwrap_or_default();
                self.accounts.insert(process.user().to_owned(), uid);
            }
            let uid = self.accounts.get(process.user()).copied().unwrap_or_default();
            tables += process.add_files(uid, &mut self.files, &mut self.segments);
            self.mapped_kib = self.mapped_kib.max(process.base_shared_kib());
        }
        self.files.add_file("/proc/sysvipc/shm", SEGMENTS.to_owned() + &self.segments);
        self.add_accounts();
        self.add_memory(tables)?;
        self.add_pools()?;
        Ok(self.files)
    }

    fn add_accounts(&mut self) {
        if self.files.text("/etc/passwd").is_some() {
            return;
        }
        let line = |(name, uid): (&String, &u32)| {
            format!("{name}:x:{uid}:{uid}::/var/lib/{name}:/bin/bash\n")
        };
        let accounts: String = self.accounts.iter().map(line).collect();
        self.files.add_file("/etc/passwd", accounts);
        let line = |(name, uid): (&String, &u32)| format!("{name}:x:{uid}:\n");
        let groups: String = self.accounts.iter().map(line).collect();
        self.files.add_file("/etc/group", groups);
    }

    fn add_memory(&mut self, tables: u64) -> Result<(), String> {
        let total = self.memory.kib("total")?.ok_or("memory without total")?;
        let free = self.memory.kib("free")?.unwrap_or(total / 4);
        let available = self.memory.kib("available")?.unwrap_or(total / 2);
        let swap = self.memory.kib("swap")?.unwrap_or(0);
        let swapped = self.memory.kib("swapped")?.unwrap_or(0);
        let tables = self.memory.kib("tables")?.unwrap_or(tables + 20_000);
        let anon = self.memory.kib("anon")?.unwrap_or(1 << 20);
        let transparent = self.memory.kib("anonhuge")?.unwrap_or(0);
        let shared = self.mapped_kib;
        let mut text = String::new();
        let fields = [
            ("MemTotal", total),
            ("MemFree", free),
            ("MemAvailable", available),
            ("Buffers", 120_000),
            ("Cached", available.saturating_sub(free) + shared),
            ("SwapCached", 0),
            ("Active", anon + shared),
            ("Inactive", available.saturating_sub(free)),
            ("SwapTotal", swap),
            ("SwapFree", swap.saturating_sub(swapped)),
            ("Dirty", 800),
            ("AnonPages", anon),
            ("Mapped", shared + 200_000),
            ("Shmem", shared),
            ("SReclaimable", 300_000),
            ("SUnreclaim", 150_000),
            ("Slab", 450_000),
            ("KernelStack", 9_000),
            ("PageTables", tables),
            ("CommitLimit", total / 2 + swap),
            ("Committed_AS", anon + shared),
            ("AnonHugePages", transparent),
        ];
        for (name, kib) in fields {
            text += &format!("{:<16}{kib:>10} kB\n", format!("{name}:"));
        }
        text += &self.default_pool_lines()?;
        self.files.add_file("/proc/meminfo", text);
        let swaps = if swap > 0 {
            format!("/dev/dm-1 partition {swap} {swapped} -2\n")
        } else {
            String::new()
        };
        let heading = "Filename\tType\tSize\tUsed\tPriority\n";
        self.files.add_file("/proc/swaps", heading.to_owned() + &swaps);
        self.files.add_file(
            "/sys/devices/system/node/node0/meminfo",
            format!("Node 0 MemTotal:       {total} kB\nNode 0 MemFree:        {free} kB\n"),
        );
        Ok(())
    }

    /// What /proc/meminfo says of the pool of the default size.
    fn default_pool_lines(&self) -> Result<String, String> {
        let mut text = String::new();
        let default = self.pools.first();
        let counts = [
            ("HugePages_Total", "total"),
            ("HugePages_Free", "free"),
            ("HugePages_Rsvd", "rsvd"),
            ("HugePages_Surp", "surp"),
        ];
        for (name, word) in counts {
            let count = default.map_or(Ok(0), |pool| pool.words.number(word))?;
            text += &format!("{:<16}{count:>10}\n", format!("{name}:"));
        }
        let page = default.map_or(2048, |pool| pool.page_kib);
        text += &format!("{:<16}{page:>10} kB\n", "Hugepagesize:");
        Ok(text)
    }

    fn add_pools(&mut self) -> Result<(), String> {
        let mut pools = std::mem::take(&mut self.pools);
        for page_kib in [2048, 1 << 20] {
            if !self.is_arm && pools.iter().all(|pool| pool.page_kib != page_kib) {
                pools.push(FieldPool { page_kib, words: Words::default() });
            }
        }
        for (at, pool) in pools.iter().enumerate() {
            let count = |word: &str| pool.words.number(word);
            let folder = format!("hugepages/hugepages-{}kB", pool.page_kib);
            let files = [
                ("nr_hugepages", count("total")?),
                ("nr_hugepages_mempolicy", count("total")?),
                ("free_hugepages", count("free")?),
                ("resv_hugepages", count("rsvd")?),
                ("surplus_hugepages", count("surp")?),
                ("nr_overcommit_hugepages", count("over")?),
            ];
            for (name, value) in files {
                let text = format!("{value}\n");
                self.files.add_file(&format!("/sys/kernel/mm/{folder}/{name}"), &text);
                if matches!(name, "nr_hugepages" | "free_hugepages" | "surplus_hugepages") {
                    let path = format!("/sys/devices/system/node/node0/{folder}/{name}");
                    if self.files.text(&path).is_none() {
                        self.files.add_file(&path, &text);
                    }
                }
                if at == 0 && matches!(name, "nr_hugepages" | "nr_overcommit_hugepages") {
                    self.files.add_file(&format!("/proc/sys/vm/{name}"), &text);
                }
            }
        }
        Ok(())
    }
}
