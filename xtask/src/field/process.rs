//! A process of a described host: what /proc says of it.

use std::fmt::Write as _;

use hugewise_testkit::oracle_fixtures::FixtureFiles;

use super::host::{Words, parse_kib};

/// A stretch of memory that the process maps.
struct FieldMapping {
    start: u64,
    kind: String,
    size_kib: u64,
    page_kib: u64,
    touched_kib: u64,
    number: u64,
    key: u32,
}

impl FieldMapping {
    fn is_huge(&self) -> bool {
        self.page_kib > 64
    }

    fn is_private(&self) -> bool {
        self.kind == "private"
    }

    fn name(&self) -> String {
        match self.kind.as_str() {
            "sysv" => format!("/SYSV{:08x} (deleted)", self.key),
            "shared" | "private" if self.is_huge() => "/anon_hugepage (deleted)".to_owned(),
            "shared" => "/dev/zero (deleted)".to_owned(),
            "private" => String::new(),
            path => path.to_owned(),
        }
    }
}

/// One process, or several alike.
pub(crate) struct FieldProcess {
    pid: u64,
    user: String,
    command: Vec<String>,
    facts: Words,
    cgroup: Option<String>,
    executable: Option<String>,
    directory: String,
    name: Option<String>,
    mappings: Vec<FieldMapping>,
}

impl FieldProcess {
    /// `PID USER COMMAND...`; spaces inside a word are written `\s`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let pid = words.next().and_then(|word| word.parse().ok()).ok_or("process PID")?;
        let user = words.next().ok_or("process PID USER")?.to_owned();
        let command: Vec<String> = words.map(|word| word.replace("\\s", " ")).collect();
        if command.is_empty() {
            return Err("process without command".to_owned());
        }
        Ok(Self {
            pid,
            user,
            command,
            facts: Words::default(),
            cgroup: None,
            executable: None,
            directory: "/".to_owned(),
            name: None,
            mappings: Vec::new(),
        })
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// KiB of shared memory on base pages.
    pub(crate) fn base_shared_kib(&self) -> u64 {
        let shared = |one: &&FieldMapping| !one.is_huge() && !one.is_private();
        self.mappings.iter().filter(shared).map(|one| one.touched_kib).sum()
    }

    /// A line about the process named last.
    pub(crate) fn take_fact(&mut self, key: &str, rest: &str) -> Result<(), String> {
        match key {
            "facts" => self.facts = Words::split(rest),
            "cgroup" => self.cgroup = Some(rest.to_owned()),
            "unit" => self.cgroup = Some(format!("0::/system.slice/{rest}")),
            "exe" => self.executable = Some(rest.to_owned()),
            "cwd" => rest.clone_into(&mut self.directory),
            "name" => self.name = Some(rest.to_owned()),
            "map" => {
                let words = Words::split(rest);
                let size_kib = words.kib("size")?.ok_or("map without size")?;
                let page_kib = words.kib("page")?.unwrap_or(4);
                let number = words.named("id").and_then(|id| id.parse().ok());
                let key = words.named("key").unwrap_or("0");
                let last = self.mappings.last();
                let start = last.map_or(0x7f00_0000_0000, |one| one.start + (one.size_kib << 10));
                self.mappings.push(FieldMapping {
                    start: start.next_multiple_of(1 << 30),
                    kind: words.first().replace("\\s", " "),
                    size_kib,
                    page_kib,
                    touched_kib: words.named("touched").map_or(Ok(size_kib), parse_kib)?,
                    number: number.unwrap_or(self.mappings.len() as u64 + 40),
                    key: u32::from_str_radix(key, 16).map_err(|_| "key is no hex number")?,
                });
            }
            _ => return Err(format!("unknown {key}")),
        }
        Ok(())
    }

    /// Adds its files and segments; the KiB of its page tables.
    pub(crate) fn add_files(
        &self,
        uid: u32,
        files: &mut FixtureFiles,
        segments: &mut String,
    ) -> u64 {
        let count = self.facts.named("count").and_then(|count| count.parse().ok()).unwrap_or(1);
        for pid in self.pid..self.pid + count {
            let folder = format!("/proc/{pid}");
            let line: String = self.command.iter().map(|word| format!("{word}\0")).collect();
            files.add_file(&format!("{folder}/cmdline"), line);
            files.add_file(&format!("{folder}/comm"), self.short_name() + "\n");
            let cgroup = self.cgroup.as_deref().unwrap_or("0::/user.slice");
            files.add_file(&format!("{folder}/cgroup"), format!("{cgroup}\n"));
            files.read_link(&format!("{folder}/exe"), &self.executable());
            files.read_link(&format!("{folder}/cwd"), &self.directory);
            for (name, own, of_host) in [
                ("mnt", 4_026_532_801_u64, 4_026_531_840_u64),
                ("pid", 4_026_532_803, 4_026_531_836),
                ("ipc", 4_026_532_802, 4_026_531_839),
                ("user", 4_026_531_837, 4_026_531_837),
            ] {
                let number = if self.is_contained() { own } else { of_host };
                files.read_link(&format!("{folder}/ns/{name}"), &format!("{name}:[{number}]"));
            }
            files.add_file(&format!("{folder}/limits"), self.render_limits());
            files.add_file(&format!("{folder}/status"), self.render_status(pid, uid));
            files.add_file(&format!("{folder}/maps"), self.render_maps());
            files.add_file(&format!("{folder}/numa_maps"), self.render_numa_maps());
        }
        for one in self.mappings.iter().filter(|one| one.kind == "sysv") {
            let line = format!(
                "{:>10} {:>10}   600 {:>21} {:>5} {:>5} {count:>6} {uid:>5} {uid:>5} {uid:>5} \
                 {uid:>5} 1759900000 1759900000 1759890000 {:>21} {:>21}\n",
                one.key,
                one.number,
                one.size_kib << 10,
                self.pid,
                self.pid,
                one.touched_kib << 10,
                0
            );
            if !segments.contains(&format!(" {:>10}   600 ", one.number)) {
                segments.push_str(&line);
            }
        }
        self.page_table_kib() * count
    }

    /// Whether its cgroup is that of a container.
    fn is_contained(&self) -> bool {
        let cgroup = self.cgroup.as_deref().unwrap_or_default();
        ["kubepods", "docker"].iter().any(|word| cgroup.contains(word))
    }

    fn executable(&self) -> String {
        let first = self.command.first().map_or("", String::as_str);
        self.executable.clone().unwrap_or_else(|| first.to_owned())
    }

    fn short_name(&self) -> String {
        let executable = self.executable();
        let last = executable.rsplit('/').next().unwrap_or_default();
        self.name.as_deref().unwrap_or(last).chars().take(15).collect()
    }

    fn page_table_kib(&self) -> u64 {
        let base = |one: &FieldMapping| if one.is_huge() { 0 } else { one.touched_kib / 512 };
        let given = self.facts.kib("tables").ok().flatten();
        given.unwrap_or(200 + self.mappings.iter().map(base).sum::<u64>())
    }

    fn render_limits(&self) -> String {
        let memlock = self.facts.named("memlock").unwrap_or("8192K");
        let bytes =
            parse_kib(memlock).map_or_else(|_| memlock.to_owned(), |kib| (kib << 10).to_string());
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max processes             63000                63000                processes \n\
             Max open files            65536                65536                files     \n\
             Max locked memory         {bytes:<20} {bytes:<20} bytes     \n\
             Max address space         unlimited            unlimited            bytes     \n"
        )
    }

    fn render_status(&self, pid: u64, uid: u32) -> String {
        let kib = |name: &str| self.facts.kib(name).ok().flatten().unwrap_or(0);
        let sum = |huge: bool, private: bool| -> u64 {
            let chosen = |one: &&FieldMapping| one.is_huge() == huge && one.is_private() == private;
            self.mappings.iter().filter(chosen).map(|one| one.touched_kib).sum()
        };
        let size: u64 = self.mappings.iter().map(|one| one.size_kib).sum();
        let anon = sum(false, true) + 20_000;
        let shared = sum(false, false);
        let huge = sum(true, true) + sum(true, false);
        let told =
            |name: &str, otherwise: &str| self.facts.named(name).unwrap_or(otherwise).to_owned();
        let capabilities = told("caps", "0000000000000000");
        let ids = format!("{uid}\t{uid}\t{uid}\t{uid}");
        let in_kib = |count: u64| format!("{count} kB");
        let resident = in_kib(anon + shared + 30_000);
        let fields = [
            ("Name", self.short_name()),
            ("Umask", "0022".to_owned()),
            ("State", "S (sleeping)".to_owned()),
            ("Tgid", pid.to_string()),
            ("Pid", pid.to_string()),
            ("PPid", told("parent", "1")),
            ("TracerPid", "0".to_owned()),
            ("Uid", ids.clone()),
            ("Gid", ids),
            ("FDSize", "256".to_owned()),
            ("Groups", format!("{uid} ")),
            ("VmPeak", in_kib(size + 300_000)),
            ("VmSize", in_kib(size + 300_000)),
            ("VmLck", in_kib(kib("locked"))),
            ("VmPin", in_kib(0)),
            ("VmHWM", resident.clone()),
            ("VmRSS", resident),
            ("RssAnon", in_kib(anon)),
            ("RssFile", in_kib(30_000)),
            ("RssShmem", in_kib(shared)),
            ("VmData", in_kib(anon)),
            ("VmStk", in_kib(136)),
            ("VmExe", in_kib(9_000)),
            ("VmLib", in_kib(16_000)),
            ("VmPTE", in_kib(self.page_table_kib())),
            ("VmSwap", in_kib(kib("swapped"))),
            ("HugetlbPages", in_kib(huge)),
            ("Threads", told("threads", "1")),
            ("CapInh", "0000000000000000".to_owned()),
            ("CapPrm", capabilities.clone()),
            ("CapEff", capabilities),
            ("CapBnd", "000001ffffffffff".to_owned()),
            ("THP_enabled", told("thp", "1")),
        ];
        fields.iter().map(|(name, value)| format!("{name}:\t{value}\n")).collect()
    }

    fn render_maps(&self) -> String {
        let mut text = format!(
            "55d0c0000000-55d0c0900000 r-xp 00000000 fd:00 671102                     {}\n",
            self.executable()
        );
        for one in &self.mappings {
            let device = if one.is_huge() { "00:0f" } else { "00:01" };
            let (device, number) =
                if one.name().is_empty() { ("00:00", 0) } else { (device, one.number) };
            let mode = if one.is_private() { "rw-p" } else { "rw-s" };
            let end = one.start + (one.size_kib << 10);
            let line = format!("{:x}-{end:x} {mode} 00000000 {device} {number}", one.start);
            let _ = writeln!(text, "{}", format!("{line:<72} {}", one.name()).trim_end());
        }
        text + "7ffd1c000000-7ffd1c021000 rw-p 00000000 00:00 0                          [stack]\n"
    }

    fn render_numa_maps(&self) -> String {
        let line = |one: &FieldMapping| {
            let pages = one.touched_kib / one.page_kib;
            let word = if one.is_huge() { " huge" } else { "" };
            let name = one.name().replace(' ', "\\040");
            let file = if name.is_empty() { String::new() } else { format!(" file={name}") };
            let kind = if name.is_empty() { "anon" } else { "dirty" };
            format!(
                "{:x} default{file}{word} {kind}={pages} N0={pages} kernelpagesize_kB={}\n",
                one.start, one.page_kib
            )
        };
        self.mappings.iter().map(line).collect()
    }
}
