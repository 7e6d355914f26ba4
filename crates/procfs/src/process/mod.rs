//! User processes as /proc tells of them.

mod budget;
pub mod cgroup;
mod commands;
pub mod limits;
pub mod maps;
pub mod numa_maps;
mod page_size;
mod previous;
pub mod smaps;
mod statm;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hugewise_model::process::{CgroupMembership, Namespaces, SoftHard};
use hugewise_model::{Mapping, Observed, PageSize, Process, Reason, Unread};

pub use page_size::PageSizeFacts;
pub use previous::PreviousProcesses;

use hugewise_source::{ExpectedProcess, ListedProcess};
use hugewise_source::{FactReader, FileRequest, MAX_FILE, Source, is_too_large};
use status::Matters;

/// What /proc has of processes.
#[derive(Debug)]
pub struct FoundProcesses {
    /// Every user process, by pid; absent where /proc shows none, as in most sosreports.
    pub processes: Observed<Vec<Arc<Process>>>,
    /// Kernel threads and zombies by pid, with their processor time; only for repeated readings.
    pub others: Vec<(u32, Duration)>,
    /// Whether pid 1 is shown.
    pub sees_first: bool,
    /// Shown processes whose status cannot be read.
    pub unseen: u64,
}

/// Reads them, except those that have not run since the reading `before`.
pub fn read(
    door: &mut FactReader<'_>,
    facts: PageSizeFacts<'_>,
    before: Option<PreviousProcesses<'_>>,
) -> FoundProcesses {
    let start = std::time::Instant::now();
    read_timed(door, facts, before, &|| start.elapsed())
}

/// The same with another clock for the time that the reading has taken.
pub(crate) fn read_timed(
    door: &mut FactReader<'_>,
    facts: PageSizeFacts<'_>,
    before: Option<PreviousProcesses<'_>>,
    elapsed: &dyn Fn() -> Duration,
) -> FoundProcesses {
    let none =
        |processes| FoundProcesses { processes, others: Vec::new(), sees_first: false, unseen: 0 };
    let mut listed: Vec<ListedProcess> = match door.list_processes() {
        Observed::Known(listed) => listed,
        other => return none(other.map(|_| Vec::new())),
    };
    if listed.is_empty() {
        return none(Observed::Absent);
    }
    listed.sort_unstable_by_key(|listed| listed.pid);
    listed.dedup_by_key(|listed| listed.pid);
    let mut reader = ProcessReader {
        source: door.source,
        before,
        page_sizes: page_size::PageSizes::new(door.source, facts, elapsed),
        base_page: facts.base_page,
        matters: facts.relevant_mappings(),
        others: Vec::new(),
        unseen: 0,
        is_any: false,
        cgroups: BTreeMap::new(),
        not_read: BTreeMap::new(),
        unread: Vec::new(),
        commands: budget::UserBudget::new(&commands::LIMITS),
        mappings: budget::UserBudget::new(&maps::LIMITS),
    };
    let sees_first = listed.first().is_some_and(|first| first.pid == 1);
    let mut processes = Vec::new();
    for listed in listed.chunks(READ_TOGETHER) {
        reader.read_together(listed, &mut processes);
    }
    // Half of a capture that was unpacked, or the folders without their files.
    let is_lost = processes.is_empty() && reader.others.is_empty() && !reader.is_any;
    let processes = if is_lost {
        Observed::Malformed("/proc lists processes, but has no files for any of them".to_owned())
    } else {
        Observed::Known(processes)
    };
    let mut others = std::mem::take(&mut reader.others);
    others.sort_unstable();
    let unseen = reader.unseen;
    let unread = reader.finish();
    door.unread.extend(unread);
    FoundProcesses { processes, others, sees_first, unseen }
}

/// Inode numbers of a process's namespaces; `process` is a pid or `self`.
pub fn read_namespaces(source: &dyn Source, process: &str) -> Namespaces {
    let inode = |name: &str| {
        source.read_link(&format!("/proc/{process}/ns/{name}")).and_then(|target| inode_of(&target))
    };
    Namespaces { mount: inode("mnt"), pid: inode("pid"), ipc: inode("ipc"), user: inode("user") }
}

/// The number in `mnt:[4026531841]`.
pub fn inode_of(target: &str) -> Observed<u64> {
    let number = target.split_once(":[").and_then(|(_, rest)| rest.strip_suffix(']')?.parse().ok());
    number.map_or_else(|| Observed::Malformed("no namespace".into()), Observed::Known)
}

const MOST_CGROUPS: usize = 1024;
/// Processes whose files are read ahead of one another.
const READ_TOGETHER: usize = 64;

/// Splits /proc/PID/cmdline, without the empty arguments at the end that a rewritten title leaves.
pub fn split_arguments(bytes: &[u8]) -> Vec<String> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match bytes.get(..end) {
        Some(text) if !text.is_empty() => text
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect(),
        _ => Vec::new(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NotRead {
    Denied,
    Malformed(String),
}

struct ProcessReader<'a> {
    source: &'a dyn Source,
    before: Option<PreviousProcesses<'a>>,
    page_sizes: page_size::PageSizes<'a>,
    base_page: Option<PageSize>,
    matters: Matters,
    others: Vec<(u32, Duration)>,
    unseen: u64,
    is_any: bool,
    cgroups: BTreeMap<Vec<u8>, Arc<[CgroupMembership]>>,
    /// Why the file of that name was not read, how many processes' that is, and one of them.
    not_read: BTreeMap<(&'static str, NotRead), (u64, u32)>,
    unread: Vec<Unread>,
    commands: budget::UserBudget,
    mappings: budget::UserBudget,
}

/// A process of which not all is read yet.
enum BegunProcess {
    /// As the reading before has it.
    Recalled(Arc<Process>),
    Read(Box<ReadProcess>),
}

struct ReadProcess {
    listed: ListedProcess,
    cpu_time: Option<Duration>,
    status: status::ProcessStatus,
}

/// Files that the kernel reads without a process's lock.
struct UnlockedFiles {
    memlock: Observed<SoftHard>,
    cgroups: Observed<Arc<[CgroupMembership]>>,
}

impl ProcessReader<'_> {
    /// Reads processes that are listed one after the other.
    fn read_together(&mut self, listed: &[ListedProcess], processes: &mut Vec<Arc<Process>>) {
        let begun: Vec<BegunProcess> =
            listed.iter().filter_map(|listed| self.begin_process(*listed)).collect();
        let expected = begun.iter().filter_map(|begun| match begun {
            BegunProcess::Recalled(_) => None,
            BegunProcess::Read(read) => Some(ExpectedProcess {
                pid: read.listed.pid,
                reads_maps: read.status.could_map(self.matters),
            }),
        });
        let expected: Vec<ExpectedProcess> = expected.collect();
        self.source.processes().read_ahead(&expected);
        // Meanwhile.
        let unlocked: Vec<UnlockedFiles> =
            expected.iter().map(|expected| self.read_unlocked_files(expected.pid)).collect();
        let mut unlocked = unlocked.into_iter();
        for begun in begun {
            match begun {
                BegunProcess::Recalled(process) => processes.push(process),
                BegunProcess::Read(read) => {
                    let unlocked = unlocked.next();
                    processes.extend(unlocked.and_then(|files| self.finish_process(*read, files)));
                }
            }
        }
    }

    /// One process, from the reading before where it has not run since; `None` for kernel threads,
    /// zombies, and what has ended.
    fn begin_process(&mut self, listed: ListedProcess) -> Option<BegunProcess> {
        let Some(before) = self.before else { return self.begin_reading(listed, None) };
        // First of all: whatever it runs from here on is added.
        let Some(cpu_time) = self.source.processes().cpu_time(listed.pid).into_known() else {
            return self.begin_reading(listed, None);
        };
        if let Some(process) = before.unchanged_process(listed, cpu_time) {
            self.count_recalled(process);
            return Some(BegunProcess::Recalled(Arc::clone(process)));
        }
        if before.is_other((listed.pid, cpu_time)) {
            self.others.push((listed.pid, cpu_time));
            return None;
        }
        self.begin_reading(listed, Some(cpu_time))
    }

    fn begin_reading(
        &mut self,
        listed: ListedProcess,
        cpu_time: Option<Duration>,
    ) -> Option<BegunProcess> {
        let status = self.read_status(listed.pid)?;
        if status.size.is_absent() && !status.is_cut_off {
            self.others.extend(cpu_time.map(|cpu_time| (listed.pid, cpu_time)));
            return None;
        }
        Some(BegunProcess::Read(Box::new(ReadProcess { listed, cpu_time, status })))
    }

    fn count_recalled(&mut self, process: &Process) {
        let uid = process.caller.unwrap_or(process.uid);
        let held = process.command.as_known().map_or(0, |command| commands::command_bytes(command));
        self.commands.count_held(uid, held);
        let mappings = process.mappings.as_known().map_or(&[][..], Vec::as_slice);
        let held = mappings.iter().map(|mapping| maps::mapping_weight(&mapping.name)).sum();
        self.mappings.count_held(uid, held);
    }

    fn read_unlocked_files(&mut self, pid: u32) -> UnlockedFiles {
        UnlockedFiles {
            memlock: self.parse_process_file(pid, "limits", limits::parse),
            cgroups: self.read_cgroups(pid),
        }
    }

    /// `None` for what ended while it was read.
    fn finish_process(&mut self, read: ReadProcess, files: UnlockedFiles) -> Option<Arc<Process>> {
        let ReadProcess { listed, cpu_time, status } = read;
        let UnlockedFiles { memlock, cgroups } = files;
        let pid = listed.pid;
        let command = self.read_command(pid, status.real_uid);
        let namespaces = self.read_process_namespaces(pid);
        let executable = self.source.read_link(&format!("/proc/{pid}/exe"));
        self.note_not_read(pid, "exe", &executable);
        let directory = self.source.read_link(&format!("/proc/{pid}/cwd"));
        self.note_not_read(pid, "cwd", &directory);
        // Whoever may not read the link may not open files through it either.
        let root = self.source.read_link(&format!("/proc/{pid}/root"));
        let bytes = self.read_maps(pid, &status);
        // It ended in between: half of a process is none.
        if memlock.is_absent()
            && bytes.is_absent()
            && self.source.read(&format!("/proc/{pid}/status")).is_absent()
        {
            return None;
        }
        let mapped = status.could_map(self.matters).then(|| status.mapped_bytes()).flatten();
        let mut process = Process {
            command,
            memlock,
            cgroups,
            namespaces,
            executable,
            directory,
            root,
            mapped,
            pid,
            identity: listed.identity,
            cpu_time,
            caller: (status.real_uid != status.process.uid).then_some(status.real_uid),
            caller_group: (status.real_gid != status.process.gid).then_some(status.real_gid),
            ..status.process
        };
        process.mappings = self.admit_mappings(&process, status.real_uid, bytes);
        Some(Arc::new(process))
    }

    fn read_process_namespaces(&mut self, pid: u32) -> Namespaces {
        let namespaces = read_namespaces(self.source, &pid.to_string());
        for fact in [&namespaces.mount, &namespaces.pid, &namespaces.ipc, &namespaces.user] {
            if !fact.is_known() && !fact.is_absent() {
                self.note_not_read(pid, "ns", fact);
                break;
            }
        }
        namespaces
    }

    /// The maps file of a process that may have a mapping that matters.
    fn read_maps(&self, pid: u32, status: &status::ProcessStatus) -> Observed<Vec<u8>> {
        // Thousands of shells and sleepers have none, and the kernel is slow with that file.
        if !status.could_map(self.matters) {
            return Observed::Known(Vec::new());
        }
        // Whoever has used up his share keeps the kernel busy no longer.
        let is_used_up = self.mappings.is_used_up(status.real_uid);
        let most = if is_used_up { maps::ORDINARY_TEXT } else { MAX_FILE };
        let path = format!("/proc/{pid}/maps");
        self.source.read_file(&FileRequest::whole_file(&path, most)).map(|part| part.bytes)
    }

    /// The mappings that may matter, with page sizes, within the limit of the user `uid`.
    fn admit_mappings(
        &mut self,
        process: &Process,
        uid: u32,
        bytes: Observed<Vec<u8>>,
    ) -> Observed<Vec<Mapping>> {
        let is_too_large = is_too_large(&bytes);
        let mappings = match bytes {
            Observed::Known(bytes) => self.parse_within_budget(process, uid, &bytes),
            // It is longer than what may still be read of this user.
            _ if is_too_large
                && (self.mappings.is_used_up(uid)
                    || !self.mappings.has_room(uid, maps::LONGEST_TEXT)) =>
            {
                self.mappings.refuse_fact(uid)
            }
            other => {
                if is_too_large {
                    self.mappings.count_held(uid, maps::LONGEST_TEXT);
                }
                other.map(|_| Vec::new())
            }
        };
        if matches!(mappings, Observed::Denied) {
            self.note_not_read(process.pid, "maps", &mappings);
        }
        self.mappings.note_left_out(process.pid, uid, &mappings);
        mappings
    }

    fn parse_within_budget(
        &mut self,
        process: &Process,
        uid: u32,
        bytes: &[u8],
    ) -> Observed<Vec<Mapping>> {
        let maps_hugetlb = process.hugetlb.get().is_some_and(|hugetlb| hugetlb.get() > 0);
        let mut tables = self.page_sizes.start_tables(process.pid);
        let mut mappings = Vec::new();
        let mut held = maps::text_weight(bytes.len());
        let (budget, page_sizes, base) = (&self.mappings, &mut self.page_sizes, self.base_page);
        let is_whole = maps::for_each_line(bytes, |line| {
            if !(line.may_matter() || maps_hugetlb && line.could_be_hugetlb()) {
                return true;
            }
            let mut mapping = line.copy_mapping();
            // What is asked of the kernel counts, whether it is kept or not.
            held = held.saturating_add(maps::mapping_weight(&mapping.name));
            if held > maps::LIMITS.ordinary && !budget.has_room(uid, held) {
                return false;
            }
            mapping.page_size = page_sizes.find_page_size(process, &mapping, &mut tables);
            if maps::is_kept(&mapping, base) {
                mappings.push(mapping);
            }
            true
        });
        match is_whole {
            Ok(true) if self.mappings.has_room(uid, held) => {
                self.mappings.count_held(uid, held);
                mappings.shrink_to_fit();
                Observed::Known(mappings)
            }
            Ok(_) => self.mappings.refuse_fact(uid),
            Err(error) => Observed::Malformed(error.to_string()),
        }
    }

    fn read_status(&mut self, pid: u32) -> Option<status::ProcessStatus> {
        let status =
            self.source.read(&format!("/proc/{pid}/status")).parse(|bytes| status::parse(&bytes));
        self.note_not_read(pid, "status", &status);
        if status.as_known().is_some_and(|status| status.is_cut_off) {
            let why = Reason::Malformed("it is cut off".into());
            self.unread.push(Unread::new(format!("/proc/{pid}/status"), why));
        }
        self.is_any |= !status.is_absent();
        self.unseen += u64::from(!status.is_known() && !status.is_absent());
        let mut status = status.into_known()?;
        self.fill_resident(pid, &mut status);
        Some(status)
    }

    /// Fills in from statm what older kernels' status lacks.
    fn fill_resident(&mut self, pid: u32, status: &mut status::ProcessStatus) {
        let told =
            !status.process.rss_anon.is_absent() || status.is_cut_off || status.size.is_absent();
        let Some(base) = self.base_page.filter(|_| !told) else { return };
        let read = self.parse_process_file(pid, "statm", |bytes| statm::parse(bytes, base));
        status.process.rss_anon = read.clone().map(|read| read.anonymous);
        status.process.rss_shared = read.map(|read| read.shared);
    }

    /// Most processes share their cgroups with others: these are parsed and kept once.
    fn read_cgroups(&mut self, pid: u32) -> Observed<Arc<[CgroupMembership]>> {
        let bytes = self.source.read(&format!("/proc/{pid}/cgroup"));
        if let Some(known) = bytes.as_known().and_then(|bytes| self.cgroups.get(bytes)) {
            return Observed::Known(Arc::clone(known));
        }
        let parsed = bytes.as_ref().parse(|bytes| cgroup::parse(bytes)).map(Arc::from);
        self.note_not_read(pid, "cgroup", &parsed);
        if let (Some(bytes), Some(parsed)) = (bytes.into_known(), parsed.as_known())
            && self.cgroups.len() < MOST_CGROUPS
        {
            self.cgroups.insert(bytes, Arc::clone(parsed));
        }
        parsed
    }

    fn read_command(&mut self, pid: u32, uid: u32) -> Observed<Vec<String>> {
        let read = self
            .source
            .read(&format!("/proc/{pid}/cmdline"))
            .parse(|bytes| commands::parse(&bytes));
        if matches!(read, Observed::Denied) {
            self.note_not_read(pid, "cmdline", &read);
        }
        commands::admit_command(&mut self.commands, pid, uid, read)
    }

    fn parse_process_file<T>(
        &mut self,
        pid: u32,
        name: &'static str,
        parser: impl FnOnce(&[u8]) -> Result<T, hugewise_source::ParseError>,
    ) -> Observed<T> {
        let parsed = self.source.read(&format!("/proc/{pid}/{name}")).parse(|bytes| parser(&bytes));
        self.note_not_read(pid, name, &parsed);
        parsed
    }

    fn note_not_read<T>(&mut self, pid: u32, name: &'static str, fact: &Observed<T>) {
        let why = match fact {
            Observed::Known(_) | Observed::Absent => return,
            Observed::Denied => NotRead::Denied,
            Observed::Malformed(why) => NotRead::Malformed(why.clone()),
        };
        self.not_read.entry((name, why)).or_insert((0, pid)).0 += 1;
    }

    /// What could not be read: one note a file name and reason, not one a process.
    fn finish(self) -> Vec<Unread> {
        let mut unread = self.unread;
        unread.extend(self.page_sizes.unread_questions());
        unread.extend(self.commands.into_unread());
        unread.extend(self.mappings.into_unread());
        for ((name, why), (count, pid)) in self.not_read {
            let what = match count {
                1 => format!("/proc/{pid}/{name}"),
                _ => format!("/proc/PID/{name} of {count} processes"),
            };
            let why = match why {
                NotRead::Denied => Reason::Denied,
                NotRead::Malformed(why) => Reason::Malformed(why),
            };
            unread.push(Unread { what, why });
        }
        unread
    }
}

#[cfg(test)]
mod tests;
