//! The report that the kernel writes when it kills a process for memory: who asked, what every process held, who was killed.
//!
//! Linux mm/oom_kill.c dump_header(), dump_tasks() and __oom_kill_process(): the table of tasks has counted page tables by
//! their number (nr_ptes) until 4.15 and by their bytes since then.

use std::collections::BTreeMap;

use hugewise_model::{Bytes, PageSize};

use crate::event::{Event, EventKind};
use crate::page::bytes;

/// Programs of one report whose sums are kept.
const MOST_NAMES: usize = 1024;
/// Programs that are named with what they held.
const NAMED: usize = 2;
/// A program's page tables are worth a word from here on.
const LARGE_TABLES: f64 = 64.0 * 1024.0 * 1024.0;
/// What a page table takes where the base page is this too. With base pages of 64 KiB it takes 64 KiB on arm64 and 4 KiB on
/// POWER (PTE_FRAG_SIZE), and the report does not say which it is: there the number tells no size.
const TABLE: f64 = 4096.0;

/// What is gathered of one report.
#[derive(Debug, Default)]
pub(super) struct Report {
    invoker: String,
    /// Names of the table's columns behind the pid in brackets.
    columns: Vec<String>,
    /// Processes, page tables in bytes and pages in memory, by program.
    programs: BTreeMap<String, Held>,
    /// The base page in bytes, as the lists of free stretches tell it.
    page: Option<f64>,
    /// Pools: pages, free pages, bytes of a page.
    pools: BTreeMap<u64, (u64, u64)>,
    cgroup: Option<String>,
    is_cgroup: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    processes: u64,
    tables: f64,
    tables_told: bool,
    resident: f64,
}

impl Report {
    /// A report that begins with this line: `oracle invoked oom-killer: gfp_mask=0x201da, order=0`.
    pub(super) fn begins(message: &str) -> Option<Self> {
        let (invoker, _) = message.split_once(" invoked oom-killer:")?;
        Some(Self { invoker: invoker.to_owned(), ..Self::default() })
    }

    /// Takes a line of the report; an event where it says who was killed.
    pub(super) fn line(&mut self, message: &str) -> Option<Event> {
        if let Some(killed) = Killed::of(message) {
            self.is_cgroup |= killed.cgroup;
            return Some(self.event(&killed));
        }
        self.is_cgroup |= message.contains("constraint=CONSTRAINT_MEMCG")
            || message.starts_with("Memory cgroup out of memory")
            || message.contains(" killed as a result of limit of ");
        if let Some(group) = after(message, "oom_memcg=").or_else(|| after(message, "as a result of limit of ")) {
            self.cgroup = Some(group.to_owned());
        }
        if let Some(inside) = message.strip_prefix('[')
            && let Some((inside, rest)) = inside.split_once(']')
        {
            self.row(inside.trim(), rest);
        } else if self.page.is_none() && message.starts_with("Node ") && message.contains("kB (") {
            self.page = smallest(message);
        } else if message.contains("hugepages_total=") {
            self.pool(message);
        }
        None
    }

    fn row(&mut self, inside: &str, rest: &str) {
        if inside == "pid" {
            self.columns = rest.split_ascii_whitespace().map(str::to_owned).collect();
            self.programs.clear();
            return;
        }
        let is_number = !inside.is_empty() && inside.bytes().all(|digit| digit.is_ascii_digit());
        let Some(named) = self.columns.len().checked_sub(1).filter(|_| is_number) else { return };
        let mut words = rest.split_ascii_whitespace();
        let mut values: Vec<f64> = Vec::with_capacity(named);
        for _ in 0..named {
            let Some(value) = words.next().and_then(|word| word.parse::<f64>().ok()) else { return };
            values.push(value);
        }
        let name = words.collect::<Vec<_>>().join(" ");
        if name.is_empty() || (self.programs.len() >= MOST_NAMES && !self.programs.contains_key(&name)) {
            return;
        }
        let of = |column: &str| values.get(self.columns.iter().position(|name| name == column)?).copied();
        let counted = || Some(of("nr_ptes")? * TABLE + of("nr_pmds").unwrap_or(0.0) * TABLE);
        let tables = of("pgtables_bytes")
            .or_else(|| if self.page.is_none_or(|page| page.total_cmp(&TABLE).is_eq()) { counted() } else { None });
        let resident = of("rss").unwrap_or(0.0);
        let held = self.programs.entry(name).or_default();
        held.processes += 1;
        held.tables += tables.unwrap_or(0.0);
        held.tables_told |= tables.is_some();
        held.resident += resident;
    }

    /// `Node 0 hugepages_total=17410 hugepages_free=17000 hugepages_surp=0 hugepages_size=2048kB`
    fn pool(&mut self, message: &str) {
        let of = |name: &str| after(message, name)?.trim_end_matches("kB").parse::<u64>().ok();
        if let (Some(total), Some(free), Some(size)) =
            (of("hugepages_total="), of("hugepages_free="), of("hugepages_size="))
        {
            let (all, left) = self.pools.entry(size).or_default();
            *all = all.saturating_add(total);
            *left = left.saturating_add(free);
        }
    }

    fn event(&self, killed: &Killed<'_>) -> Event {
        let mut what = format!("killed {}", killed.words());
        let kind = if self.is_cgroup {
            let group = self.cgroup.as_deref().map(|group| format!(" {group}")).unwrap_or_default();
            what.push_str(&format!(": the cgroup{group} had reached its memory limit"));
            EventKind::CgroupOutOfMemory
        } else {
            what.push_str(": the host was out of memory");
            EventKind::OutOfMemory
        };
        if !self.invoker.is_empty() && self.invoker != killed.name {
            what.push_str(&format!(", and {} asked for more", self.invoker));
        }
        for line in self.holders() {
            what.push_str("; ");
            what.push_str(&line);
        }
        for (size, (total, free)) in self.pools.iter().filter(|(_, (total, _))| *total > 0) {
            let page = PageSize::from_kib(*size).map_or_else(|| format!("{size} KiB"), |page| page.to_string());
            what.push_str(&format!("; {total} huge pages of {page}, {free} of them free"));
        }
        Event::new(kind, what)
    }

    /// Programs with the most page tables, where these are large, and the one with the most memory.
    fn holders(&self) -> Vec<String> {
        let mut all: Vec<(&String, &Held)> = self.programs.iter().collect();
        all.sort_by(|(_, one), (_, other)| other.tables.total_cmp(&one.tables));
        let large = |held: &Held| held.tables_told && held.tables >= LARGE_TABLES;
        let count = |held: &Held| match held.processes {
            1 => "1 process".to_owned(),
            many => format!("{many} processes"),
        };
        let mut lines: Vec<String> = all
            .iter()
            .filter(|(_, held)| large(held))
            .take(NAMED)
            .map(|(name, held)| format!("{} of {name} held {} of page tables", count(held), bytes(held.tables)))
            .collect();
        let most = all.iter().max_by(|(_, one), (_, other)| one.resident.total_cmp(&other.resident));
        // Shared memory counts once for each process that has touched it, so only what one process has is told.
        if let (Some(page), Some((name, held))) = (self.page, most)
            && held.processes == 1
            && held.resident > 0.0
        {
            lines.push(format!("{name} had {} in memory", bytes(held.resident * page)));
        }
        lines
    }
}

/// Who was killed.
struct Killed<'a> {
    pid: &'a str,
    name: &'a str,
    /// What it held: private, and shared, in KiB.
    anonymous: Option<u64>,
    shared: Option<u64>,
    tables: Option<u64>,
    cgroup: bool,
}

impl<'a> Killed<'a> {
    /// `Out of memory: Killed process 4711 (oracle) total-vm:9273712kB, anon-rss:123kB, ...`, and what older kernels write:
    /// `Killed process 4711, UID 500, (oracle) total-vm:...`.
    fn of(message: &'a str) -> Option<Self> {
        let at = message.find("Killed process ")?;
        let before = message.get(..at)?.trim_end();
        if !matches!(
            before,
            "" | "Out of memory:" | "Memory cgroup out of memory:" | "Out of memory (oom_kill_allocating_task):"
        ) {
            return None;
        }
        let rest = message.get(at + "Killed process ".len()..)?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        // A process that names itself so has a bracket behind its name.
        let (pid, rest) = rest.split_at_checked(end).filter(|(pid, _)| !pid.is_empty())?;
        let (name, figures) = rest.split_once('(')?.1.split_once(") ")?;
        let kib = |of: &str| after(figures, of)?.trim_end_matches(',').trim_end_matches("kB").parse::<u64>().ok();
        let shared = [kib("file-rss:"), kib("shmem-rss:")].into_iter().flatten().reduce(u64::saturating_add);
        Some(Self {
            pid,
            name,
            anonymous: kib("anon-rss:"),
            shared,
            tables: kib("pgtables:"),
            cgroup: before.starts_with("Memory cgroup"),
        })
    }

    fn words(&self) -> String {
        let amount =
            |kib: Option<u64>, of: &str| kib.filter(|kib| *kib > 0).map(|kib| format!("{} {of}", Bytes::from_kib(kib)));
        let held =
            [amount(self.anonymous, "private"), amount(self.shared, "shared"), amount(self.tables, "of page tables")];
        let held: Vec<String> = held.into_iter().flatten().collect();
        format!("{} (pid {}{}{})", self.name, self.pid, if held.is_empty() { "" } else { ", " }, held.join(", "))
    }
}

/// The word behind some text, up to a blank or a comma.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.get(text.find(name)? + name.len()..)?;
    rest.split([' ', ',']).next().filter(|word| !word.is_empty())
}

/// The smallest stretch in a list of free ones, which is a base page: `Node 0 DMA: 1*4kB (U) 0*8kB ...`.
fn smallest(message: &str) -> Option<f64> {
    let (_, first) = message.split_ascii_whitespace().find_map(|word| word.split_once('*'))?;
    Some(first.trim_end_matches("kB").parse::<f64>().ok()? * 1024.0)
}
