//! What captured folders and tars share: how a host's facts are found in them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::host::TlbLevel;
use hugewise_model::{Observed, PageSize, Reason, Unread};
use serde::{Deserialize, Serialize};

use super::sosreport::{self, PsRow};
use super::{
    FileExtent, FilePart, FileRequest, ListedProcess, MachineFacts, Owner, ProcessSource,
    RawSource, Source, processes_by_name, split_process_root,
};

/// A capture's own facts.
pub const NOTE: &str = "/hugewise/capture.json";
/// A capture's answers of PROCMAP_QUERY: lines of pid, first address in hexadecimal, page size in
/// bytes.
pub const PAGE_SIZES: &str = "/hugewise/page_sizes";
/// `schema` of [`Note`].
pub const SCHEMA: &str = "hugewise.capture/1";

/// Files of a folder or tar, as [`Source`] reads them.
pub(crate) trait CapturedFiles {
    fn list_folder(&self, folder: &str) -> Observed<Vec<String>>;
    fn read_link(&self, path: &str) -> Observed<String>;
    fn read(&self, path: &str) -> Observed<Vec<u8>>;
    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<FilePart> {
        self.read(path).map(|bytes| FilePart::from_whole(&bytes, before, max))
    }
}

/// `/hugewise/capture.json`: what files alone cannot say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// The version of the format: [`SCHEMA`].
    pub schema: String,
    /// Seconds since the epoch.
    pub read_at: Option<i64>,
    /// Effective user id of the reader.
    pub read_as: Option<u32>,
    /// AT_PAGESZ.
    pub base_page_bytes: Option<PageSize>,
    /// `uname -m`.
    pub architecture: Option<String>,
    /// What CPUID says of the translation buffers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tlb: Vec<TlbLevel>,
    /// Whether the reader's root folder was the host's.
    pub own_root: Option<bool>,
    /// What kept the reader from seeing every process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
    /// Whether CPUID said anything of the translation buffers.
    pub tlb_known: bool,
    /// Paths that the reader was not allowed to see; `link:/PATH` for the link only.
    pub denied: Vec<String>,
    /// Paths that could not be read for a reason of their own.
    pub malformed: BTreeMap<String, String>,
    /// Links that cannot be links of the capture.
    pub links: BTreeMap<String, String>,
    /// All names of folders that the capture holds in part.
    pub lists: BTreeMap<String, Vec<String>>,
    /// Files that were read and not kept, as they may hold secrets.
    pub omitted: Vec<String>,
    /// By process id and path: whether a server's file changed since the process began.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub changed_since_start: BTreeMap<u32, BTreeMap<String, bool>>,
    /// By the file compared with, and path: whether the path changed after that file was written.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub changed_after: BTreeMap<String, BTreeMap<String, bool>>,
}

#[derive(Debug)]
pub(crate) struct CapturedSource<F> {
    files: F,
    note: Note,
    denied: BTreeSet<String>,
    problems: Vec<Unread>,
    torn: Option<String>,
    page_sizes: BTreeMap<(u32, u64), PageSize>,
    listed: OnceCell<BTreeMap<u32, PsRow>>,
    machine: OnceCell<MachineFacts>,
}

impl<F: CapturedFiles> CapturedSource<F> {
    pub(crate) fn new(files: F) -> Self {
        let note: Observed<Note> = files.read(NOTE).parse(|bytes| serde_json::from_slice(&bytes));
        let why = note.unknown_reason().filter(|_| !note.is_absent());
        let mut broken = why.map(|why| Unread { what: NOTE.to_owned(), why });
        let note = note.into_known().unwrap_or_default();
        if broken.is_none() && !note.schema.is_empty() && note.schema != SCHEMA {
            let why = Reason::Malformed(format!("schema is {:?}, not {SCHEMA:?}", note.schema));
            broken = Some(Unread { what: NOTE.to_owned(), why });
        }
        let page_sizes = files
            .read(PAGE_SIZES)
            .into_known()
            .map(|bytes| parse_page_sizes(&bytes))
            .unwrap_or_default();
        let denied = note.denied.iter().cloned().collect();
        Self {
            files,
            note,
            denied,
            problems: broken.into_iter().collect(),
            torn: None,
            page_sizes,
            listed: OnceCell::new(),
            machine: OnceCell::new(),
        }
    }

    /// The same host, from files that could be read in part only.
    pub(crate) fn with_problems(mut self, problems: Vec<Unread>, torn: Option<String>) -> Self {
        self.problems.splice(..0, problems);
        Self { torn, ..self }
    }

    /// What the note says of a path, for every question or for this one (`read:`, `list:`,
    /// `link:`).
    fn noted_refusal<T>(&self, question: &str, path: &str) -> Option<Observed<T>> {
        // Most hosts have none, and are asked thousands of questions.
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

    /// The same path from the host's root, where the process has the host's root and no copy of it.
    fn on_host<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (root, rest) = split_process_root(path)?;
        let process = root.strip_suffix("/root")?;
        if self.files.list_folder(root).is_known() {
            return None;
        }
        let own = self.read_link(&format!("{process}/ns/mnt"));
        let same = own
            .as_known()
            .is_none_or(|own| self.read_link("/proc/self/ns/mnt").as_known() == Some(own));
        // With the slash before REST.
        same.then(|| path.get(path.len() - rest.len() - 1..)).flatten()
    }

    fn ps_rows(&self) -> &BTreeMap<u32, PsRow> {
        self.listed.get_or_init(|| {
            let folder = "/sos_commands/process";
            let names = self.files.list_folder(folder).into_known().unwrap_or_default();
            let names = names.iter().filter(|name| name.starts_with("ps_"));
            let texts =
                names.filter_map(|name| self.files.read(&format!("{folder}/{name}")).into_known());
            sosreport::parse_ps_tables(texts)
        })
    }

    /// A file that a sosreport lacks, from what it has in another form.
    fn reconstruct_file(&self, path: &str) -> Observed<Vec<u8>> {
        if path == "/etc/passwd" {
            let status = |pid: u32| self.files.read(&format!("/proc/{pid}/status")).into_known();
            return sosreport::build_passwd(self.ps_rows(), status).into();
        }
        let Some((pid, name)) = path.strip_prefix("/proc/").and_then(|rest| rest.split_once('/'))
        else {
            return Observed::Absent;
        };
        let row = pid.parse().ok().and_then(|pid: u32| self.ps_rows().get(&pid));
        match (row, name) {
            (Some(row), "cmdline") => row.to_cmdline().into(),
            (Some(row), "status") => row.to_status().into(),
            _ => Observed::Absent,
        }
    }

    /// sos keeps no folders before 4.1, and 2,048 at most since.
    fn with_listed(&self, names: Vec<String>) -> Vec<String> {
        let listed = self
            .ps_rows()
            .iter()
            .filter(|(_, row)| row.to_status().is_some())
            .map(|(pid, _)| pid.to_string());
        let all: BTreeSet<String> = names.into_iter().chain(listed).collect();
        all.into_iter().collect()
    }

    fn derive_machine(&self) -> MachineFacts {
        let note = &self.note;
        let architecture = note
            .architecture
            .clone()
            .or_else(|| sosreport::find_architecture(|path| self.files.read(path).into_known()));
        let base_page =
            note.base_page_bytes.or_else(|| self.derive_base_page(architecture.as_deref()));
        let read_at = note.read_at.or_else(|| {
            ["/date", "/sos_commands/date/date", "/sos_commands/date/date_--utc"].iter().find_map(
                |path| {
                    self.files
                        .read(path)
                        .into_known()
                        .and_then(|text| sosreport::parse_date(&String::from_utf8_lossy(&text)))
                },
            )
        });
        MachineFacts {
            live: false,
            base_page: base_page.into(),
            read_at: read_at.into(),
            read_as: note.read_as.into(),
            own_root: note.own_root.into(),
            hidden: note.hidden.clone(),
            architecture: architecture.into(),
            tlb: note.tlb_known.then(|| note.tlb.clone()).into(),
        }
    }

    fn derive_base_page(&self, architecture: Option<&str>) -> Option<PageSize> {
        let pmd =
            self.files.read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").into_known();
        let pmd =
            pmd.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.trim().parse::<u64>().ok());
        // A table is one page of 8-byte entries and maps page * page / 8 bytes.
        if let Some(page) =
            (12..=16).map(|bits| 1_u64 << bits).find(|page| Some(page * page / 8) == pmd)
        {
            return PageSize::new(page);
        }
        if matches!(architecture, Some("x86_64" | "i686" | "i386")) {
            return Some(PageSize::KIB_4);
        }
        let pids = self.files.list_folder("/proc").into_known().unwrap_or_default();
        let pids = pids.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let smaps =
            pids.filter_map(|pid| self.files.read(&format!("/proc/{pid}/smaps")).into_known());
        if let Some(page) = smaps.filter_map(|smaps| smallest_page(&smaps)).min() {
            return Some(page);
        }
        let processor = self.files.read("/proc/cpuinfo").into_known()?;
        let x86 = processor.starts_with(b"vendor_id")
            || processor.windows(10).any(|part| part == b"\nvendor_id");
        x86.then_some(PageSize::KIB_4)
    }
}

/// A process always has base pages; `None` where a size is invalid.
fn smallest_page(smaps: &[u8]) -> Option<PageSize> {
    let lines = smaps.split(|byte| *byte == b'\n');
    let sizes = lines.filter_map(|line| line.strip_prefix(b"KernelPageSize:"));
    let parse = |size: &[u8]| {
        let kib = std::str::from_utf8(size).ok()?.trim().strip_suffix("kB")?.trim().parse().ok()?;
        PageSize::from_kib(kib)
    };
    sizes.map(parse).collect::<Option<Vec<_>>>()?.into_iter().min()
}

impl<F: CapturedFiles> RawSource for CapturedSource<F> {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        let path = request.path;
        if let Some(refused) = self.noted_refusal("read", path) {
            return refused;
        }
        if let FileExtent::Last { before, most } = request.extent {
            let part = |path: &str| self.files.read_part(path, before, most);
            return part(path).or_else_absent(|| self.on_host(path).map_or(Observed::Absent, part));
        }
        let whole = self
            .files
            .read(path)
            .or_else_absent(|| {
                self.on_host(path).map_or(Observed::Absent, |path| self.files.read(path))
            })
            .or_else_absent(|| self.reconstruct_file(path));
        request.answer_from(whole)
    }

    fn folder_names(&self, folder: &str, _: Option<&Owner>, _: u64) -> Observed<Vec<String>> {
        if let Some(refused) = self.noted_refusal("list", folder) {
            return refused;
        }
        if let Some(names) = self.note.lists.get(folder) {
            // Whoever added files to the capture wants them seen.
            let more = self.files.list_folder(folder).into_known().unwrap_or_default();
            let mut names: Vec<String> = names.iter().cloned().chain(more).collect();
            names.sort();
            names.dedup();
            return Observed::Known(names);
        }
        let there = self.files.list_folder(folder);
        if folder == "/proc" {
            return there.map(|names| self.with_listed(names));
        }
        there.or_else_absent(|| {
            self.on_host(folder).map_or(Observed::Absent, |folder| self.files.list_folder(folder))
        })
    }

    fn link_target(&self, path: &str, _: Option<&Owner>) -> Observed<String> {
        if let Some(refused) = self.noted_refusal("link", path) {
            return refused;
        }
        if let Some(target) = self.note.links.get(path) {
            return Observed::Known(target.clone());
        }
        let there = self.files.read_link(path).or_else_absent(|| {
            self.on_host(path).map_or(Observed::Absent, |path| self.files.read_link(path))
        });
        // Tars that were written piece by piece name the root folder so.
        there.map(|target| if target == "//" { "/".to_owned() } else { target })
    }

    fn processes(&self) -> &dyn ProcessSource {
        self
    }
    fn changed_since_start(&self, _: &Owner, path: &str, pid: u32) -> Observed<bool> {
        self.note.changed_since_start.get(&pid).and_then(|files| files.get(path)).copied().into()
    }
    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        self.note.changed_after.get(than).and_then(|files| files.get(path)).copied().into()
    }
    fn machine_facts(&self) -> MachineFacts {
        self.machine.get_or_init(|| self.derive_machine()).clone()
    }

    fn list_problems(&self) -> Vec<Unread> {
        self.problems.clone()
    }

    fn truncated_at(&self) -> Option<String> {
        self.torn.clone()
    }
}

impl<F: CapturedFiles> ProcessSource for CapturedSource<F> {
    fn list_processes(&self) -> Observed<Vec<ListedProcess>> {
        processes_by_name(self.list_folder("/proc"), |_| None)
    }
    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.page_sizes.get(&(pid, start)).copied().into()
    }
}

/// Invalid lines are skipped: their mappings get another answer.
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
    use crate::tree::Tree;

    fn captured(files: &[(&str, &str)]) -> CapturedSource<Tree> {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.put_file(path, Observed::Known(text.as_bytes().to_vec()));
        }
        CapturedSource::new(tree)
    }

    #[test]
    fn a_process_has_some_memory_on_base_pages() {
        let smaps = b"Size: 820 kB\nKernelPageSize:     2048 kB\nKernelPageSize:   4 kB\n";
        assert_eq!(smallest_page(smaps), Some(PageSize::KIB_4));
        assert_eq!(smallest_page(b"KernelPageSize: 4 kB\nKernelPageSize: 3 kB"), None);
    }

    #[test]
    fn the_base_page_is_told_by_the_size_that_one_table_maps() {
        let with = |pmd: &str| {
            let path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
            captured(&[(path, pmd)]).machine_facts().base_page.get().map(|page| page.bytes().get())
        };
        assert_eq!(with("2097152\n"), Some(4096));
        assert_eq!(with("33554432\n"), Some(16384));
        assert_eq!(with("536870912\n"), Some(65536));
        assert_eq!(with("17\n"), None);
        let smaps = "1000-2000 r--p 0 0:0 0\nKernelPageSize:       64 kB\n";
        assert_eq!(
            captured(&[("/proc/1/smaps", smaps)]).machine_facts().base_page,
            Observed::Known(PageSize::new(65536).unwrap())
        );
        let processor = "processor\t: 0\nvendor_id\t: GenuineIntel\n";
        assert_eq!(
            captured(&[("/proc/cpuinfo", processor)]).machine_facts().base_page,
            Observed::Known(PageSize::KIB_4)
        );
    }

    #[test]
    fn a_sosreport_tells_in_its_own_places() {
        let host = captured(&[
            (
                "/uname",
                "Linux db7 5.14.0-503.el9.aarch64 #1 SMP Thu Jan 1 00:00:00 UTC 2024 aarch64 \
                     aarch64 aarch64 GNU/Linux\n",
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
        let machine = host.machine_facts();
        assert_eq!(machine.architecture, Observed::Known("aarch64".into()));
        assert_eq!(machine.read_at, Observed::Known(1_709_296_496));
        assert_eq!(
            host.read("/proc/812/cmdline"),
            Observed::Known(b"/usr/bin/postgres\0-D\0/data\0".to_vec())
        );
        assert_eq!(
            host.read("/proc/813/cmdline"),
            Observed::Known(b"postgres: background writer\0".to_vec())
        );
        assert_eq!(host.read("/proc/814/cmdline"), Observed::Absent);
        assert_eq!(host.read("/proc/812/root/etc/x"), Observed::Known(b"host".to_vec()));
    }

    #[test]
    fn page_sizes_come_from_the_capture() {
        let kept = captured(&[(PAGE_SIZES, "7 7f00 2097152\nnonsense\n")]);
        assert_eq!(kept.mapping_page_size(7, 0x7f00), Observed::Known(PageSize::MIB_2));
        assert_eq!(kept.mapping_page_size(8, 0x7f00), Observed::Absent);
    }

    #[test]
    fn a_broken_note_is_a_problem() {
        assert_eq!(captured(&[(NOTE, "{")]).list_problems().len(), 1);
        assert_eq!(captured(&[(NOTE, "{\"schema\":\"other/9\"}")]).list_problems().len(), 1);
        assert_eq!(captured(&[(NOTE, "{\"schema\":\"hugewise.capture/1\"}")]).list_problems(), []);
    }
}
