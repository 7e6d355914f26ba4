//! The kernel's report when it kills a process for memory: who asked, what every process held, who
//! was killed.
//!
//! Linux mm/oom_kill.c dump_header(), dump_tasks() and __oom_kill_process(), 2.6.9 to 6.18: until
//! 4.15 the table of tasks has the number of page tables (nr_ptes), since then their bytes.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::Bytes;

use super::memory_info::MemoryInfo;
use super::oom_limit::{LimitSigns, OomLimit};
use crate::event::{LogEvent, LogEventKind};
use crate::page::bytes_from_f64;

/// Bytes of a process's name (TASK_COMM_LEN).
const LONGEST_NAME: usize = 15;
const MOST_NAMES: usize = 1024;
const NAMED: usize = 2;
/// Bytes of a program's page tables that are worth a word.
const LARGE_TABLES: f64 = 64.0 * 1024.0 * 1024.0;
/// Bytes of a page table with base pages of the same size. With base pages of 64 KiB it takes 64 KiB
/// on arm64 and 4 KiB on POWER (PTE_FRAG_SIZE), and the report does not tell them apart.
const TABLE: f64 = 4096.0;
const TABLE_BYTES: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct OomReport {
    invoker: String,
    /// Whether somebody asked for the kill (SysRq f), and nobody lacked memory.
    by_hand: bool,
    columns: Vec<String>,
    /// Processes, page tables and resident memory, by program.
    programs: BTreeMap<String, OomProgramTotals>,
    memory: MemoryInfo,
    cgroup: Option<String>,
    limit: LimitSigns,
    /// The table of tasks, which only a kill prints.
    has_table: bool,
    /// The process that the kernel chose, before it says that it killed it or a child of it.
    chosen: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OomProgramTotals {
    processes: u64,
    tables: f64,
    tables_told: bool,
    resident: f64,
}

impl OomReport {
    /// `oracle invoked oom-killer: gfp_mask=0x201da, order=0`; up to Linux 2.6.18 without a name;
    /// the kernel asks itself with `order=-1` (SysRq f).
    pub(super) fn from_first_line(message: &str) -> Option<Self> {
        let (invoker, rest) = match message.strip_prefix("oom-killer: gfp_mask=") {
            Some(rest) => ("", rest),
            None => message.split_once(" invoked oom-killer:")?,
        };
        let by_hand = word_after(rest, "order=") == Some("-1");
        // What stands before a name is not the kernel's.
        let name = if invoker.len() <= LONGEST_NAME { invoker } else { last_word(invoker) };
        let limit = LimitSigns::of_request(rest);
        Some(Self { invoker: name.to_owned(), by_hand, limit, ..Self::default() })
    }

    /// A report whose beginning is missing, of what it said of memory.
    pub(super) fn from_memory(memory: MemoryInfo) -> Self {
        Self { memory, ..Self::default() }
    }

    /// A report whose beginning is missing, of its table of tasks.
    pub(super) fn from_table(message: &str) -> Option<Self> {
        let is_title = message.starts_with("Tasks state (memory values in pages):");
        is_title.then(|| Self { has_table: true, ..Self::default() })
    }

    /// Takes over that another report of the same program was of a cgroup.
    pub(super) fn follow_precedent(&mut self, limited: &BTreeSet<String>) {
        if limited.contains(&self.invoker) {
            self.limit.note_precedent();
        }
    }

    /// Who asked, and who was killed, where it was at a cgroup's limit.
    pub(super) fn limited_programs(&self, message: &str) -> Vec<String> {
        if self.limit.settle() != OomLimit::Cgroup {
            return Vec::new();
        }
        let victim = Killed::from_message(message).map(|killed| killed.name.to_owned());
        let asked = Some(self.invoker.clone()).filter(|name| !name.is_empty());
        asked.into_iter().chain(victim).collect()
    }

    /// Whether a line is such a message, with nothing before it.
    pub(super) fn is_first_line(line: &str) -> bool {
        let before = line.split_once("oom-killer:").map(|(before, _)| before);
        let name = before.map(|before| before.strip_suffix(" invoked ").unwrap_or(before));
        Self::from_first_line(line).is_some() && name.is_some_and(|name| name.len() <= LONGEST_NAME)
    }

    /// A report whose beginning is missing: of the line that names whom the kernel chose, as grep
    /// leaves it.
    pub(super) fn from_choice(message: &str) -> Option<Self> {
        let mut report = Self::default();
        report.note_choice(message);
        report.chosen.is_some().then(|| {
            report.note_limit(message);
            report
        })
    }

    /// The same of a kill by SysRq, which comes next.
    pub(super) fn from_manual_order(message: &str) -> Option<Self> {
        let ordered = message.starts_with("sysrq: ") || message.starts_with("SysRq : ");
        let by_hand = ordered && message.trim_end().ends_with("Manual OOM execution");
        by_hand.then(|| Self { by_hand, ..Self::default() })
    }

    /// Whether it is an order to kill, and no line of its report has come.
    pub(super) fn is_order(&self) -> bool {
        self.by_hand && self.invoker.is_empty() && self.programs.is_empty()
    }

    /// Takes over that somebody ordered the kill.
    pub(super) const fn continue_order(&mut self, by_hand: bool) {
        self.by_hand |= by_hand;
    }

    /// Returns an event if the line says who was killed, or that the kernel gave up.
    pub(super) fn parse_line(&mut self, message: &str) -> Option<LogEvent> {
        if let Some(killed) = Killed::from_message(message) {
            self.limit.note_words(killed.limit);
            return Some(self.kill_event(&killed.describe_victim(), killed.name));
        }
        if let Some(reason) = message.strip_prefix("Kernel panic - not syncing: ")
            && is_lack_of_memory(reason)
        {
            return Some(self.panic_event(reason));
        }
        self.note_limit(message);
        self.note_choice(message);
        if let Some(inside) = message.strip_prefix('[')
            && let Some((inside, rest)) = inside.split_once(']')
        {
            self.push_task_row(inside.trim(), rest);
        } else {
            self.memory.parse_line(message);
        }
        None
    }

    fn note_limit(&mut self, message: &str) {
        self.limit.note_line(message);
        if let Some(group) = word_after(message, "oom_memcg=")
            .or_else(|| word_after(message, "as a result of limit of "))
        {
            self.cgroup = Some(group.to_owned());
        }
    }

    /// `Out of memory: Kill process 17982 (java) score 77 or sacrifice child`, up to 2.6.35 `kill
    /// process 17982 (java) score 77 or a child`, and since 4.19
    /// `oom-kill:constraint=CONSTRAINT_NONE,...,task=java,pid=17982,uid=500`.
    fn note_choice(&mut self, message: &str) {
        if let Some(rest) = message.strip_prefix("oom-kill:constraint=") {
            if let (Some(name), Some(pid)) = (word_after(rest, ",task="), word_after(rest, ",pid="))
            {
                self.chosen = Some((name.to_owned(), pid.to_owned()));
            }
            return;
        }
        let before = ["Out of memory: ", "Memory cgroup out of memory: ", "Out of Memory: "];
        let chosen = before.iter().find_map(|before| {
            let rest = message.strip_prefix(before)?;
            let rest = rest.strip_prefix("Kill process ").or(rest.strip_prefix("kill process "))?;
            let (rest, _) = rest.split_once(" score ")?;
            let (pid, name) = rest.split_once(" (")?;
            let is_number = pid.bytes().all(|digit| digit.is_ascii_digit());
            Some((name.strip_suffix(')').filter(|_| is_number)?.to_owned(), pid.to_owned()))
        });
        self.chosen = chosen.or(self.chosen.take());
    }

    /// What a report says that is cut off before the kill.
    pub(super) fn into_cut_event(self) -> Option<LogEvent> {
        if let Some((name, pid)) = &self.chosen {
            return Some(self.kill_event(&format!("{name} (pid {pid})"), name));
        }
        // An order without its report: nothing came of it.
        if self.by_hand {
            return None;
        }
        let who = if self.invoker.is_empty() { "a process" } else { &self.invoker };
        let rest = "the log ends before it says whom the kernel killed";
        if self.has_table && self.invoker.is_empty() && !self.limit.is_of_host() {
            let what = "the kernel killed a process for memory, for the host's or at a limit: the \
                        log has only its table of tasks";
            return Some(LogEvent::new(LogEventKind::UnitKilled, what));
        }
        Some(match self.limit.settle() {
            OomLimit::Cgroup => LogEvent::new(
                LogEventKind::CgroupOutOfMemory,
                format!("had no memory for {who} within its cgroup's limit; {rest}"),
            ),
            OomLimit::Host | OomLimit::Nodes => self.with_memory(LogEvent::new(
                LogEventKind::OomCutOff,
                format!("had no memory for {who} and looked for a process to kill; {rest}"),
            )),
        })
    }

    fn panic_event(&self, reason: &str) -> LogEvent {
        if self.by_hand {
            let what = format!(
                "the kernel panicked, as somebody had it kill by hand (SysRq f), not for a lack of \
                 memory: {reason}"
            );
            return LogEvent::new(LogEventKind::Panic, what);
        }
        if self.memory.has_plenty() {
            let what = format!(
                "the kernel panicked, as it lacked memory of some kind and had much of others: \
                 {reason}"
            );
            return LogEvent::new(LogEventKind::Panic, what);
        }
        let order = if reason.contains("panic_on_oom") { " (vm.panic_on_oom)" } else { "" };
        let mut what = format!("panicked, because the host was out of memory{order}");
        if !self.invoker.is_empty() {
            what.push_str(&format!(", when {} asked for more", self.invoker));
        }
        self.describe_rest(&mut what);
        self.with_memory(LogEvent::new(LogEventKind::OutOfMemory, what))
    }

    fn with_memory(&self, event: LogEvent) -> LogEvent {
        let told = self.programs.values().any(|held| held.tables_told);
        let tables: f64 = self.programs.values().map(|held| held.tables).sum();
        let memory = self.memory.to_report(told.then(|| bytes_from_f64(tables)));
        LogEvent { memory, ..event }
    }

    fn push_task_row(&mut self, inside: &str, rest: &str) {
        if inside == "pid" {
            self.columns = rest.split_ascii_whitespace().map(str::to_owned).collect();
            self.programs.clear();
            return;
        }
        let is_number = !inside.is_empty() && inside.bytes().all(|digit| digit.is_ascii_digit());
        let Some(named) = self.columns.len().checked_sub(1).filter(|_| is_number) else { return };
        let mut words = rest.split_ascii_whitespace();
        let values = (0..named).map(|_| words.next()?.parse::<f64>().ok());
        let Some(values) = values.collect::<Option<Vec<f64>>>() else { return };
        let name = words.collect::<Vec<_>>().join(" ");
        if name.is_empty()
            || (self.programs.len() >= MOST_NAMES && !self.programs.contains_key(&name))
        {
            return;
        }
        let value_of = |column: &str| {
            values.get(self.columns.iter().position(|name| name == column)?).copied()
        };
        let counted =
            || Some(value_of("nr_ptes")? * TABLE + value_of("nr_pmds").unwrap_or(0.0) * TABLE);
        let is_sized = self.memory.base_page().is_none_or(|page| page == TABLE_BYTES);
        let tables = value_of("pgtables_bytes").or_else(|| counted().filter(|_| is_sized));
        let resident = value_of("rss").unwrap_or(0.0);
        let held = self.programs.entry(name).or_default();
        held.processes += 1;
        held.tables += tables.unwrap_or(0.0);
        held.tables_told |= tables.is_some();
        held.resident += resident;
    }

    fn kill_event(&self, victim: &str, name: &str) -> LogEvent {
        let mut what = format!("killed {victim}");
        if self.by_hand {
            what.push_str(" by hand (SysRq f), not for a lack of memory");
            return LogEvent::new(LogEventKind::ManualKill, what);
        }
        let kind = match self.limit.settle() {
            OomLimit::Cgroup => {
                let group =
                    self.cgroup.as_deref().map(|group| format!(" {group}")).unwrap_or_default();
                what.push_str(&format!(": the cgroup{group} had reached its memory limit"));
                LogEventKind::CgroupOutOfMemory
            }
            OomLimit::Nodes => {
                what.push_str(": the NUMA nodes that it may use were out of memory");
                LogEventKind::OutOfMemory
            }
            OomLimit::Host if self.memory.has_plenty() => {
                what.push_str(": no memory of the kind that was asked for, and much of others");
                LogEventKind::UnitKilled
            }
            OomLimit::Host => {
                what.push_str(": the host was out of memory");
                LogEventKind::OutOfMemory
            }
        };
        if !self.invoker.is_empty() && self.invoker != name {
            what.push_str(&format!(", and {} asked for more", self.invoker));
        }
        self.describe_rest(&mut what);
        let event = LogEvent::new(kind, what);
        if kind == LogEventKind::OutOfMemory { self.with_memory(event) } else { event }
    }

    fn describe_rest(&self, what: &mut String) {
        for words in self.describe_holders().into_iter().chain(self.memory.describe_pools()) {
            what.push_str("; ");
            what.push_str(&words);
        }
    }

    /// Programs with the most page tables, if these are large, and the one with the most memory.
    fn describe_holders(&self) -> Vec<String> {
        let mut all: Vec<(&String, &OomProgramTotals)> = self.programs.iter().collect();
        all.sort_by(|(_, one), (_, other)| other.tables.total_cmp(&one.tables));
        let large = |held: &OomProgramTotals| held.tables_told && held.tables >= LARGE_TABLES;
        let count = |held: &OomProgramTotals| match held.processes {
            1 => "1 process".to_owned(),
            many => format!("{many} processes"),
        };
        let mut lines: Vec<String> = all
            .iter()
            .filter(|(_, held)| large(held))
            .take(NAMED)
            .map(|(name, held)| {
                format!(
                    "{} of {name} held {} of page tables",
                    count(held),
                    bytes_from_f64(held.tables)
                )
            })
            .collect();
        let most =
            all.iter().max_by(|(_, one), (_, other)| one.resident.total_cmp(&other.resident));
        // Shared memory counts in each process that touched it: the sum of several means nothing.
        if let (Some(page), Some((name, held))) = (self.memory.base_page(), most)
            && held.processes == 1
            && held.resident > 0.0
        {
            let held = bytes_from_f64(held.resident * Bytes(page).as_f64());
            lines.push(format!("{name} had {held} in memory"));
        }
        lines
    }
}

struct Killed<'a> {
    pid: &'a str,
    name: &'a str,
    /// KiB of private and shared memory.
    anonymous: Option<u64>,
    shared: Option<u64>,
    tables: Option<u64>,
    /// What was exhausted, where the line says it.
    limit: Option<OomLimit>,
}

impl<'a> Killed<'a> {
    /// `Out of memory: Killed process 4711 (oracle) total-vm:9273712kB, anon-rss:123kB, ...`, on
    /// older kernels `Killed process 4711, UID 500, (oracle) total-vm:...`, on late ones of RHEL 7
    /// `Killed process 4711 (oracle), UID 500, total-vm:...`, on RHEL 4 and 5 nothing behind the name
    /// but a dot.
    fn from_message(message: &'a str) -> Option<Self> {
        let at = message.find("Killed process ")?;
        let limit = match message.get(..at)?.trim_end() {
            "" => None,
            "Out of memory:" | "Out of Memory:" | "Out of memory (oom_kill_allocating_task):" => {
                Some(OomLimit::Host)
            }
            "Memory cgroup out of memory:" => Some(OomLimit::Cgroup),
            "No available memory (MPOL_BIND):" | "No available memory in cpuset:" => {
                Some(OomLimit::Nodes)
            }
            _ => return None,
        };
        let rest = message.get(at + "Killed process ".len()..)?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        // A process that imitates this with its name has a bracket behind the name.
        let (pid, rest) = rest.split_at_checked(end).filter(|(pid, _)| !pid.is_empty())?;
        let (_, rest) = rest.split_once('(')?;
        let (name, figures) = match rest.split_once("), UID ").or_else(|| rest.split_once(") ")) {
            Some(split) => split,
            None => (rest.trim_end_matches(['.', ',']).strip_suffix(')')?, ""),
        };
        let kib = |text: &str| {
            word_after(figures, text)?
                .trim_end_matches(',')
                .trim_end_matches("kB")
                .parse::<u64>()
                .ok()
        };
        let shared =
            [kib("file-rss:"), kib("shmem-rss:")].into_iter().flatten().reduce(u64::saturating_add);
        let (anonymous, tables) = (kib("anon-rss:"), kib("pgtables:"));
        Some(Self { pid, name, anonymous, shared, tables, limit })
    }

    fn describe_victim(&self) -> String {
        let amount = |kib: Option<u64>, text: &str| {
            kib.filter(|kib| *kib > 0).map(|kib| format!("{} {text}", Bytes::from_kib(kib)))
        };
        let held = [
            amount(self.anonymous, "private"),
            amount(self.shared, "shared"),
            amount(self.tables, "of page tables"),
        ];
        let held: Vec<String> = held.into_iter().flatten().collect();
        format!(
            "{} (pid {}{}{})",
            self.name,
            self.pid,
            if held.is_empty() { "" } else { ", " },
            held.join(", ")
        )
    }
}

/// Whether a panic's reason is that memory was exhausted. Linux mm/oom_kill.c, 2.6.16 to 6.18.
fn is_lack_of_memory(reason: &str) -> bool {
    ["Out of memory", "out of memory", "System is deadlocked on memory"]
        .iter()
        .any(|begin| reason.starts_with(begin))
}

fn last_word(text: &str) -> &str {
    text.rsplit(char::is_whitespace).next().unwrap_or(text)
}

pub(super) fn word_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.get(text.find(name)? + name.len()..)?;
    rest.split([' ', ',']).next().filter(|word| !word.is_empty())
}
