//! What captured folders and tars have in common: how a host's facts are found in what it left behind.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Observed, PageSize, Reason, Unread};
use serde::{Deserialize, Serialize};

use super::sosreport::{self, Row};
use super::{Machine, Owner, Part, Source, split_process_root};
use crate::process;

/// Where a capture keeps its own facts.
pub(crate) const NOTE: &str = "/hugewise/capture.json";
/// Where a capture keeps what PROCMAP_QUERY said: lines of pid, first address in hexadecimal, page size in bytes.
pub(crate) const PAGE_SIZES: &str = "/hugewise/page_sizes";
/// `schema` of [`Note`].
pub(crate) const SCHEMA: &str = "hugewise.capture/1";

/// Files as they lie in a folder or tar.
pub(crate) trait Files {
    /// As [`Source::read`].
    fn read(&self, path: &str) -> Observed<Vec<u8>>;
    /// As [`Source::read_part`].
    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.read(path).map(|bytes| Part::of(&bytes, before, max))
    }
    /// As [`Source::list`].
    fn list(&self, folder: &str) -> Observed<Vec<String>>;
    /// As [`Source::link`].
    fn link(&self, path: &str) -> Observed<String>;
    /// As [`Source::problems`].
    fn problems(&self) -> Vec<Unread> {
        Vec::new()
    }
    /// As [`Source::torn`].
    fn torn(&self) -> Option<String> {
        None
    }
}

/// `/hugewise/capture.json`: what files alone cannot say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Note {
    pub(crate) schema: String,
    /// Seconds since the epoch.
    pub(crate) read_at: Option<i64>,
    pub(crate) read_as: Option<u32>,
    pub(crate) base_page_bytes: Option<PageSize>,
    pub(crate) architecture: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tlb: Vec<Tlb>,
    /// Whether the reader's root folder was the host's.
    pub(crate) own_root: Option<bool>,
    /// What kept the reader from seeing every process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hidden: Option<String>,
    /// Whether CPUID told anything of the translation buffers.
    pub(crate) tlb_known: bool,
    /// Paths that the reader was not allowed to see; `link:/PATH` where only the link could not.
    pub(crate) denied: Vec<String>,
    /// Paths that could not be read for a reason of their own.
    pub(crate) malformed: BTreeMap<String, String>,
    /// Links that cannot be links of the capture.
    pub(crate) links: BTreeMap<String, String>,
    /// Folders of which the capture does not hold every name, with all names.
    pub(crate) lists: BTreeMap<String, Vec<String>>,
    /// Files that were read and not kept, since nobody vouches that they hold no secrets.
    pub(crate) omitted: Vec<String>,
    /// Of the files that servers read, by process id and path: whether it was changed, or put there, since the process began.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) changed_since_start: BTreeMap<u32, BTreeMap<String, bool>>,
    /// By the file that was held against, and path: whether that was changed, or put there, after the file was last written.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) changed_after: BTreeMap<String, BTreeMap<String, bool>>,
}

/// One translation buffer, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tlb {
    pub(crate) level: u8,
    pub(crate) holds: TlbHolds,
    pub(crate) page_bytes: PageSize,
    pub(crate) entries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TlbHolds {
    Data,
    Instructions,
    Both,
}

/// A host that left files behind.
#[derive(Debug)]
pub(crate) struct Captured<F> {
    files: F,
    note: Note,
    denied: BTreeSet<String>,
    /// A note that is there and cannot be understood.
    broken: Option<Unread>,
    page_sizes: BTreeMap<(u32, u64), PageSize>,
    listed: OnceCell<BTreeMap<u32, Row>>,
    machine: OnceCell<Machine>,
    /// How long tables have been looked through for page sizes.
    spent: Cell<std::time::Duration>,
}

impl<F: Files> Captured<F> {
    pub(crate) fn new(files: F) -> Self {
        let note: Observed<Note> = files.read(NOTE).parse(|bytes| serde_json::from_slice(&bytes));
        let why = note.why().filter(|_| !note.is_absent());
        let mut broken = why.map(|why| Unread { what: NOTE.to_owned(), why });
        let note = note.into_known().unwrap_or_default();
        if broken.is_none() && !note.schema.is_empty() && note.schema != SCHEMA {
            let why = Reason::Malformed(format!("schema is {:?}, not {SCHEMA:?}", note.schema));
            broken = Some(Unread { what: NOTE.to_owned(), why });
        }
        let page_sizes = files.read(PAGE_SIZES).into_known().map(|bytes| parse_page_sizes(&bytes)).unwrap_or_default();
        let denied = note.denied.iter().cloned().collect();
        Self {
            files,
            note,
            denied,
            broken,
            page_sizes,
            listed: OnceCell::new(),
            machine: OnceCell::new(),
            spent: Cell::default(),
        }
    }

    /// What the note says of a path: for every question, or for this one (`read:`, `list:`, `link:`) alone.
    fn refused<T>(&self, question: &str, path: &str) -> Option<Observed<T>> {
        // Of most hosts nothing was: they are asked thousands of questions.
        if self.denied.is_empty() && self.note.malformed.is_empty() {
            return None;
        }
        let one = format!("{question}:{path}");
        let keys = [path, one.as_str()];
        if keys.iter().any(|key| self.denied.contains(*key)) {
            return Some(Observed::Denied);
        }
        let why = keys.iter().find_map(|key| self.note.malformed.get(*key));
        why.map(|why| Observed::Malformed(why.clone()))
    }

    /// The same path from the host's own root, where a process's root is not in the capture and is the host's.
    fn on_host<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (root, rest) = split_process_root(path)?;
        let process = root.strip_suffix("/root")?;
        if self.files.list(root).is_known() {
            return None;
        }
        let own = self.link(&format!("{process}/ns/mnt"));
        let same = own.known().is_none_or(|own| self.link("/proc/self/ns/mnt").known() == Some(own));
        // The slash before REST belongs to the answer.
        same.then(|| path.get(path.len() - rest.len() - 1..)).flatten()
    }

    /// Processes as `ps` of a sosreport lists them.
    fn listed(&self) -> &BTreeMap<u32, Row> {
        self.listed.get_or_init(|| {
            let folder = "/sos_commands/process";
            let names = self.files.list(folder).into_known().unwrap_or_default();
            let names = names.iter().filter(|name| name.starts_with("ps_"));
            let texts = names.filter_map(|name| self.files.read(&format!("{folder}/{name}")).into_known());
            sosreport::rows(texts)
        })
    }

    /// What a sosreport tells in other words than the file that is not in it.
    fn retold(&self, path: &str) -> Observed<Vec<u8>> {
        if path == "/etc/passwd" {
            let status = |pid: u32| self.files.read(&format!("/proc/{pid}/status")).into_known();
            return sosreport::accounts(self.listed(), status).into();
        }
        let Some((pid, name)) = path.strip_prefix("/proc/").and_then(|rest| rest.split_once('/')) else {
            return Observed::Absent;
        };
        let row = pid.parse().ok().and_then(|pid: u32| self.listed().get(&pid));
        match (row, name) {
            (Some(row), "cmdline") => row.arguments().into(),
            (Some(row), "status") => row.status().into(),
            _ => Observed::Absent,
        }
    }

    /// Processes that `ps` lists beside those that have a folder: sos keeps none before 4.1, and 2,048 at most since.
    fn with_listed(&self, names: Vec<String>) -> Vec<String> {
        let listed = self.listed().iter().filter(|(_, row)| row.status().is_some()).map(|(pid, _)| pid.to_string());
        let all: BTreeSet<String> = names.into_iter().chain(listed).collect();
        all.into_iter().collect()
    }

    fn derive_machine(&self) -> Machine {
        let note = &self.note;
        let architecture =
            note.architecture.clone().or_else(|| sosreport::architecture(|path| self.files.read(path).into_known()));
        let base_page = note.base_page_bytes.or_else(|| self.derive_base_page(architecture.as_deref()));
        let read_at = note.read_at.or_else(|| {
            ["/date", "/sos_commands/date/date", "/sos_commands/date/date_--utc"].iter().find_map(|path| {
                self.files.read(path).into_known().and_then(|text| sosreport::date(&String::from_utf8_lossy(&text)))
            })
        });
        let tlb = note.tlb.iter().map(Tlb::level).collect();
        Machine {
            live: false,
            base_page: base_page.into(),
            read_at: read_at.into(),
            read_as: note.read_as.into(),
            own_root: note.own_root.into(),
            hidden: note.hidden.clone(),
            architecture: architecture.into(),
            tlb: note.tlb_known.then_some(tlb).into(),
        }
    }

    fn derive_base_page(&self, architecture: Option<&str>) -> Option<PageSize> {
        let pmd = self.files.read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").into_known();
        let pmd = pmd.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.trim().parse::<u64>().ok());
        // A table is one page of 8-byte entries, so a page-table page of base pages maps page * page / 8 bytes.
        if let Some(page) = (12..=16).map(|bits| 1_u64 << bits).find(|page| Some(page * page / 8) == pmd) {
            return PageSize::new(page);
        }
        if matches!(architecture, Some("x86_64" | "i686" | "i386")) {
            return Some(PageSize::KIB_4);
        }
        let pids = self.files.list("/proc").into_known().unwrap_or_default();
        let pids = pids.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let smaps = pids.filter_map(|pid| self.files.read(&format!("/proc/{pid}/smaps")).into_known());
        if let Some(page) = smaps.filter_map(|smaps| process::smaps::smallest_page(&smaps).ok().flatten()).min() {
            return Some(page);
        }
        let processor = self.files.read("/proc/cpuinfo").into_known()?;
        let x86 = processor.starts_with(b"vendor_id") || processor.windows(10).any(|part| part == b"\nvendor_id");
        x86.then_some(PageSize::KIB_4)
    }
}

impl Tlb {
    pub(crate) fn of(level: &hugewise_model::host::TlbLevel) -> Self {
        use hugewise_model::host::TlbHolds as Model;
        let holds = match level.holds {
            Model::Data => TlbHolds::Data,
            Model::Instructions => TlbHolds::Instructions,
            Model::Both => TlbHolds::Both,
        };
        Self { level: level.level, holds, page_bytes: level.page_size, entries: level.entries }
    }

    fn level(&self) -> hugewise_model::host::TlbLevel {
        use hugewise_model::host::TlbHolds as Model;
        let holds = match self.holds {
            TlbHolds::Data => Model::Data,
            TlbHolds::Instructions => Model::Instructions,
            TlbHolds::Both => Model::Both,
        };
        hugewise_model::host::TlbLevel { level: self.level, holds, page_size: self.page_bytes, entries: self.entries }
    }
}

impl<F: Files> Source for Captured<F> {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        if let Some(refused) = self.refused("read", path) {
            return refused;
        }
        self.files
            .read(path)
            .or_else_absent(|| self.on_host(path).map_or(Observed::Absent, |path| self.files.read(path)))
            .or_else_absent(|| self.retold(path))
    }

    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        if let Some(refused) = self.refused("read", path) {
            return refused;
        }
        let part = |path: &str| self.files.read_part(path, before, max);
        part(path).or_else_absent(|| self.on_host(path).map_or(Observed::Absent, part))
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        if let Some(refused) = self.refused("list", folder) {
            return refused;
        }
        if let Some(names) = self.note.lists.get(folder) {
            // Whoever laid more into the capture wants it to be seen.
            let more = self.files.list(folder).into_known().unwrap_or_default();
            let mut names: Vec<String> = names.iter().cloned().chain(more).collect();
            names.sort();
            names.dedup();
            return Observed::Known(names);
        }
        let there = self.files.list(folder);
        if folder == "/proc" {
            return there.map(|names| self.with_listed(names));
        }
        there.or_else_absent(|| self.on_host(folder).map_or(Observed::Absent, |folder| self.files.list(folder)))
    }

    fn link(&self, path: &str) -> Observed<String> {
        if let Some(refused) = self.refused("link", path) {
            return refused;
        }
        if let Some(target) = self.note.links.get(path) {
            return Observed::Known(target.clone());
        }
        let there = self.files.link(path);
        let there = there.or_else_absent(|| self.on_host(path).map_or(Observed::Absent, |path| self.files.link(path)));
        // Tars that were written piece by piece have the root folder so.
        there.map(|target| if target == "//" { "/".to_owned() } else { target })
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        if let Some(size) = self.page_sizes.get(&(pid, start)) {
            return Observed::Known(*size);
        }
        if !self.page_sizes.is_empty() {
            return Observed::Absent;
        }
        // Each answer reads the tables of a process anew; who made the capture decides how long they are.
        if self.spent.get() >= process::BUDGET {
            return Observed::Absent;
        }
        let started = std::time::Instant::now();
        let base_page = self.machine.get_or_init(|| self.derive_machine()).base_page.get();
        let answer = process::from_tables(self, pid, start, base_page);
        self.spent.set(self.spent.get().saturating_add(started.elapsed()));
        answer
    }

    fn changed_since_start(&self, _: &Owner, path: &str, pid: u32) -> Observed<bool> {
        self.note.changed_since_start.get(&pid).and_then(|files| files.get(path)).copied().into()
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        self.note.changed_after.get(than).and_then(|files| files.get(path)).copied().into()
    }

    fn machine(&self) -> Machine {
        self.machine.get_or_init(|| self.derive_machine()).clone()
    }

    fn problems(&self) -> Vec<Unread> {
        let mut problems = self.files.problems();
        problems.extend(self.broken.clone());
        problems
    }

    fn torn(&self) -> Option<String> {
        self.files.torn()
    }
}

/// Lines that make no sense are left out: their mappings are then asked for another way.
fn parse_page_sizes(bytes: &[u8]) -> BTreeMap<(u32, u64), PageSize> {
    let text = String::from_utf8_lossy(bytes);
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let pid = words.next()?.parse().ok()?;
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(((pid, start), PageSize::new(words.next()?.parse().ok()?)?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::source::tree::Tree;

    fn captured(files: &[(&str, &str)]) -> Captured<Tree> {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.put_file(path, Observed::Known(text.as_bytes().to_vec()));
        }
        Captured::new(tree)
    }

    #[test]
    fn the_base_page_is_told_by_the_size_that_one_table_maps() {
        let with = |pmd: &str| {
            let path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
            captured(&[(path, pmd)]).machine().base_page.get().map(|page| page.bytes().get())
        };
        assert_eq!(with("2097152\n"), Some(4096));
        assert_eq!(with("33554432\n"), Some(16384));
        assert_eq!(with("536870912\n"), Some(65536));
        assert_eq!(with("17\n"), None);
        let smaps = "1000-2000 r--p 0 0:0 0\nKernelPageSize:       64 kB\n";
        assert_eq!(
            captured(&[("/proc/1/smaps", smaps)]).machine().base_page,
            Observed::Known(PageSize::new(65536).unwrap())
        );
        let processor = "processor\t: 0\nvendor_id\t: GenuineIntel\n";
        assert_eq!(captured(&[("/proc/cpuinfo", processor)]).machine().base_page, Observed::Known(PageSize::KIB_4));
    }

    #[test]
    fn a_sosreport_tells_in_its_own_places() {
        let host = captured(&[
            (
                "/uname",
                "Linux db7 5.14.0-503.el9.aarch64 #1 SMP Thu Jan 1 00:00:00 UTC 2024 aarch64 aarch64 aarch64 GNU/Linux\n",
            ),
            ("/date", "Fri Mar  1 12:34:56 UTC 2024\n"),
            (
                "/sos_commands/process/ps_auxwwwm",
                "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n\
              postgres 812 0.0 0.1 1 2 ? Ss Feb29 0:01 /usr/bin/postgres -D /data\n\
              postgres 813 0.0 0.1 1 2 ? Ss Feb29 0:01 postgres: background writer\n",
            ),
            ("/etc/x", "host"),
        ]);
        let machine = host.machine();
        assert_eq!(machine.architecture, Observed::Known("aarch64".into()));
        assert_eq!(machine.read_at, Observed::Known(1_709_296_496));
        assert_eq!(host.read("/proc/812/cmdline"), Observed::Known(b"/usr/bin/postgres\0-D\0/data\0".to_vec()));
        assert_eq!(host.read("/proc/813/cmdline"), Observed::Known(b"postgres: background writer\0".to_vec()));
        assert_eq!(host.read("/proc/814/cmdline"), Observed::Absent);
        assert_eq!(host.read("/proc/812/root/etc/x"), Observed::Known(b"host".to_vec()));
    }

    #[test]
    fn page_sizes_come_from_the_capture_or_from_tables() {
        let kept = captured(&[(PAGE_SIZES, "7 7f00 2097152\nnonsense\n")]);
        assert_eq!(kept.mapping_page_size(7, 0x7f00), Observed::Known(PageSize::MIB_2));
        assert_eq!(kept.mapping_page_size(8, 0x7f00), Observed::Absent);
        let numa = captured(&[("/proc/7/numa_maps", "7f00 default huge kernelpagesize_kB=1048576\n")]);
        assert_eq!(numa.mapping_page_size(7, 0x7f00), Observed::Known(PageSize::GIB_1));
    }

    #[test]
    fn tables_are_looked_through_for_a_bounded_time() {
        let numa = captured(&[("/proc/7/numa_maps", "7f00 default huge kernelpagesize_kB=1048576\n")]);
        assert!(numa.mapping_page_size(7, 0x7f00).is_known());
        numa.spent.set(process::BUDGET);
        assert_eq!(numa.mapping_page_size(7, 0x7f00), Observed::Absent);
    }

    #[test]
    fn a_broken_note_is_a_problem() {
        assert_eq!(captured(&[(NOTE, "{")]).problems().len(), 1);
        assert_eq!(captured(&[(NOTE, "{\"schema\":\"other/9\"}")]).problems().len(), 1);
        assert_eq!(captured(&[(NOTE, "{\"schema\":\"hugewise.capture/1\"}")]).problems(), []);
    }
}
