//! User processes as /proc tells of them.

pub mod cgroup;
mod commands;
mod earlier;
pub mod limits;
pub mod maps;
pub mod numa_maps;
mod page_size;
pub mod smaps;
mod statm;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hugewise_model::process::{CgroupMembership, Namespaces};
use hugewise_model::{Bytes, Mapping, Observed, PageSize, Process, Reason, Unread};

pub use earlier::Earlier;
use earlier::Turn;
pub(crate) use page_size::BUDGET;
pub use page_size::Facts;
pub(crate) use page_size::from_tables;

use crate::source::{self, Listed, Next};
use crate::{Door, Source};
use status::Matters;

/// What /proc has of processes.
#[derive(Debug)]
pub struct Found {
    /// Every user process, by pid. Absent where /proc shows none, as in most sosreports.
    pub processes: Observed<Vec<Arc<Process>>>,
    /// What is none, by pid, with what it had run; noted for who reads again alone.
    pub others: Vec<(u32, Duration)>,
    /// Whether the first process is among those that are shown.
    pub sees_first: bool,
    /// Processes that are shown and of which not even the status can be read.
    pub unseen: u64,
}

/// Reads what there is. What has not run since an earlier reading is not read again.
pub fn read(door: &mut Door<'_>, facts: Facts<'_>, earlier: Option<Earlier<'_>>) -> Found {
    let start = std::time::Instant::now();
    read_timed(door, facts, earlier, &|| start.elapsed())
}

/// The same with a clock of one's own: `elapsed` says how long the reading has taken so far.
pub(crate) fn read_timed(
    door: &mut Door<'_>,
    facts: Facts<'_>,
    earlier: Option<Earlier<'_>>,
    elapsed: &dyn Fn() -> Duration,
) -> Found {
    let none = |processes| Found { processes, others: Vec::new(), sees_first: false, unseen: 0 };
    let mut listed: Vec<Listed> = match door.processes() {
        Observed::Known(listed) => listed,
        other => return none(other.map(|_| Vec::new())),
    };
    if listed.is_empty() {
        return none(Observed::Absent);
    }
    listed.sort_unstable_by_key(|listed| listed.pid);
    listed.dedup_by_key(|listed| listed.pid);
    let mut reader = Reader {
        source: door.source,
        earlier,
        page_sizes: page_size::PageSizes::new(door.source, facts, elapsed),
        base_page: facts.base_page,
        matters: facts.matters(),
        others: Vec::new(),
        unseen: 0,
        is_any: false,
        cgroups: BTreeMap::new(),
        denied: BTreeMap::new(),
        unread: Vec::new(),
        commands: commands::Commands::default(),
    };
    let sees_first = listed.first().is_some_and(|first| first.pid == 1);
    let mut known = Vec::with_capacity(listed.len());
    let mut before = earlier.map(|earlier| earlier.in_order()).unwrap_or_default();
    for listed in listed {
        known.extend(reader.known(listed, before.next(listed.pid)).map(|known| (listed, known)));
    }
    for (_, known) in &known {
        if let Known::Still(process) | Known::Turn(process) = known {
            reader.commands.count(process.caller.unwrap_or(process.uid), &process.command);
        }
    }
    let next = |(listed, known): &(Listed, Known)| match known {
        Known::Still(_) | Known::Turn(_) => None,
        Known::Ran(before, _) => Some(Next { pid: listed.pid, known: source::Known::Ran(Arc::clone(before)) }),
        Known::Rested(before) => Some(Next { pid: listed.pid, known: source::Known::Rested(Arc::clone(before)) }),
        Known::Not(_) => Some(Next { pid: listed.pid, known: source::Known::Nothing }),
    };
    door.source.ahead(&known.iter().filter_map(next).collect::<Vec<_>>(), reader.matters);
    let processes = known.into_iter().filter_map(|(listed, known)| match known {
        Known::Still(process) => Some(process),
        Known::Turn(process) => reader.seen_again(process),
        Known::Ran(before, cpu_time) => reader.again(&before, Since::Ran(cpu_time)),
        Known::Rested(before) => {
            let now = reader.again(&before, Since::Rested);
            now.map(|now| if now == before { before } else { now })
        }
        Known::Not(cpu_time) => reader.process(listed, cpu_time),
    });
    let processes: Vec<_> = processes.collect();
    // Half of a capture that was unpacked, or the folders without what was in them.
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
    Found { processes, others, sees_first, unseen }
}

/// Whether a process has the name, the user and the groups that it had, and is a user process still.
fn is_same_program(before: &Process, status: &status::Status) -> bool {
    let caller = (status.real_uid != status.uid).then_some(status.real_uid);
    let caller_group = (status.real_gid != status.gid).then_some(status.real_gid);
    status.size.is_known()
        && (&status.name, &status.groups, &status.namespace_pids)
            == (&before.name, &before.groups, &before.namespace_pids)
        && (status.uid, status.gid, caller, caller_group)
            == (before.uid, before.gid, before.caller, before.caller_group)
}

/// Inode numbers of a process's namespaces; `process` is a pid or `self`.
pub fn namespaces(source: &dyn Source, process: &str) -> Namespaces {
    let inode = |name: &str| source.link(&format!("/proc/{process}/ns/{name}")).and_then(|target| inode_of(&target));
    Namespaces { mount: inode("mnt"), pid: inode("pid"), ipc: inode("ipc"), user: inode("user") }
}

/// The number in `mnt:[4026531841]`.
pub(crate) fn inode_of(target: &str) -> Observed<u64> {
    let number = target.split_once(":[").and_then(|(_, rest)| rest.strip_suffix(']')?.parse().ok());
    number.map_or_else(|| Observed::Malformed("no namespace".into()), Observed::Known)
}

/// Texts of /proc/PID/cgroup that are kept while processes are read.
const MOST_CGROUPS: usize = 1024;

/// Splits /proc/PID/cmdline into its arguments, without the empty ones at the end that a rewritten title leaves.
pub fn arguments(bytes: &[u8]) -> Vec<String> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match bytes.get(..end) {
        Some(text) if !text.is_empty() => {
            text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// What is known of a process before it is read.
enum Known {
    /// All of it: it has not run since the reading before.
    Still(Arc<Process>),
    /// The same, but for what others may have changed of it.
    Turn(Arc<Process>),
    /// That it has not run since the reading before; yet all is read but its title and what it maps still.
    Rested(Arc<Process>),
    /// Who it is: it has run since the reading before, so much by now.
    Ran(Arc<Process>, Duration),
    /// Nothing but what it has run so far, where that is asked.
    Not(Option<Duration>),
}

/// What a process that is read again has done since.
#[derive(Clone, Copy)]
enum Since {
    /// It has run so much by now.
    Ran(Duration),
    /// Nothing.
    Rested,
}

struct Reader<'a> {
    source: &'a dyn Source,
    earlier: Option<Earlier<'a>>,
    page_sizes: page_size::PageSizes<'a>,
    base_page: Option<PageSize>,
    /// Which mappings can matter.
    matters: Matters,
    others: Vec<(u32, Duration)>,
    /// Processes of which not even the status can be read.
    unseen: u64,
    /// Whether anything is there of any of them.
    is_any: bool,
    /// By the text of /proc/PID/cgroup.
    cgroups: BTreeMap<Vec<u8>, Arc<[CgroupMembership]>>,
    /// How many processes' file of that name could not be seen, and one of them.
    denied: BTreeMap<&'static str, (u64, u32)>,
    unread: Vec<Unread>,
    commands: commands::Commands,
}

impl Reader<'_> {
    /// What is known of a process before it is read; `None` where it is no user process.
    fn known(&mut self, listed: Listed, before: Option<&Arc<Process>>) -> Option<Known> {
        let pid = listed.pid;
        let Some(earlier) = self.earlier else { return Some(Known::Not(None)) };
        // Before all the rest: whatever it runs from here on is added.
        let cpu_time = self.source.cpu_time(pid).into_known();
        if let Some((process, turn)) = earlier.still(listed, before, cpu_time) {
            let process = Arc::clone(process);
            return Some(match turn {
                Turn::None => Known::Still(process),
                Turn::Sums => Known::Turn(process),
                Turn::Whole => Known::Rested(process),
            });
        }
        if let Some((before, cpu_time)) = cpu_time.and_then(|time| Some((earlier.ran(listed, before)?, time))) {
            return Some(Known::Ran(Arc::clone(before), cpu_time));
        }
        if let Some(other) = cpu_time.map(|cpu_time| (pid, cpu_time))
            && (earlier.is_other(other) || (earlier.was_other(pid) && self.has_no_program(pid)))
        {
            self.others.push(other);
            return None;
        }
        Some(Known::Not(cpu_time))
    }

    /// Whether the kernel names no program that it runs: so it is with its own threads and with zombies (fs/proc/base.c,
    /// `proc_exe_link`), whoever had that number before. Dozens of them run all the time, and a whole status costs more.
    fn has_no_program(&self, pid: u32) -> bool {
        self.source.link(&format!("/proc/{pid}/exe")).is_absent()
    }

    /// One process; `None` for kernel threads, zombies, and what ended while it was read.
    fn process(&mut self, listed: Listed, cpu_time: Option<Duration>) -> Option<Arc<Process>> {
        let Listed { pid, identity } = listed;
        let other = cpu_time.map(|cpu_time| (pid, cpu_time));
        let status = self.status(pid)?;
        if status.size.is_absent() && !status.is_cut_off {
            self.others.extend(other);
            return None;
        }
        let command = self.command(pid, status.real_uid);
        let memlock = self.file(pid, "limits", limits::parse);
        let cgroups = self.cgroups(pid).map(|cgroups| self.as_before([pid, status.parent], cgroups));
        let namespaces = self.namespaces(pid);
        let executable = self.source.link(&format!("/proc/{pid}/exe"));
        self.note(pid, "exe", &executable);
        let directory = self.source.link(&format!("/proc/{pid}/cwd"));
        self.note(pid, "cwd", &directory);
        // Who may not look there may not open files through it either.
        let root = self.source.link(&format!("/proc/{pid}/root"));
        let (mapped, mappings) = self.mappings(pid, &status);
        // It ended in between: half of a process is none.
        if memlock.is_absent() && mappings.is_absent() && self.source.read(&format!("/proc/{pid}/status")).is_absent() {
            return None;
        }
        let mut process = Process {
            pid,
            identity,
            parent: status.parent,
            name: status.name,
            command,
            uid: status.uid,
            caller: (status.real_uid != status.uid).then_some(status.real_uid),
            gid: status.gid,
            caller_group: (status.real_gid != status.gid).then_some(status.real_gid),
            groups: status.groups,
            threads: status.threads,
            cpu_time,
            page_tables: status.page_tables,
            hugetlb: status.hugetlb,
            rss_shmem: status.rss_shmem,
            rss_anon: status.rss_anon,
            rss_shared: status.rss_shared,
            swap: status.swap,
            locked: status.locked,
            ipc_lock: status.ipc_lock,
            thp_enabled: status.thp_enabled,
            nodes_allowed: status.nodes_allowed,
            memlock,
            cgroups,
            namespaces,
            namespace_pids: status.namespace_pids,
            executable,
            directory,
            root,
            mapped,
            mappings: Observed::Absent,
        };
        process.mappings = self.with_page_sizes(&process, mappings);
        Some(Arc::new(process))
    }

    fn namespaces(&mut self, pid: u32) -> Namespaces {
        let namespaces = namespaces(self.source, &pid.to_string());
        for fact in [&namespaces.mount, &namespaces.pid, &namespaces.ipc, &namespaces.user] {
            if !fact.is_known() && !fact.is_absent() {
                self.note(pid, "ns", fact);
                break;
            }
        }
        namespaces
    }

    /// How much a process maps, where its mappings were looked at, and those of them that may matter, without their page sizes.
    fn mappings(&mut self, pid: u32, status: &status::Status) -> (Option<[Bytes; 4]>, Observed<Vec<Mapping>>) {
        // Thousands of shells and sleepers have none, and the kernel takes its time over that file.
        if !status.could_map(self.matters) {
            return (None, Observed::Known(Vec::new()));
        }
        let maps_hugetlb = status.hugetlb.get().is_some_and(|hugetlb| hugetlb.get() > 0);
        let mappings = self.file(pid, "maps", |bytes| {
            maps::parse_kept(bytes, |line| line.matters() || (maps_hugetlb && line.could_be_hugetlb()))
        });
        (status.mapped(), mappings)
    }

    /// The mappings that matter with the sizes of their pages.
    fn with_page_sizes(&mut self, process: &Process, mappings: Observed<Vec<Mapping>>) -> Observed<Vec<Mapping>> {
        let mut mappings = mappings;
        if let Observed::Known(mappings) = &mut mappings {
            self.page_sizes.fill(process, mappings);
            let base = self.base_page;
            mappings.retain(|mapping| {
                let huge = mapping.page_size.get().is_some_and(|size| Some(size) > base);
                huge || mapping.shared
                    || maps::LARGE_PRIVATE <= mapping.size().get()
                    || mapping.page_size.get().is_none()
            });
        }
        mappings
    }

    /// A process that is the one that it was when it was read. Where it has run since, what its program and its user set up for
    /// it and leave alone then is as it was, as long as it has the same ones; where it has not, its title is. `None` where it has
    /// ended.
    fn again(&mut self, before: &Process, since: Since) -> Option<Arc<Process>> {
        let pid = before.pid;
        let listed = Listed { pid, identity: before.identity };
        let cpu_time = match since {
            Since::Ran(cpu_time) => Some(cpu_time),
            Since::Rested => before.cpu_time,
        };
        let status = self.status(pid)?;
        let executable = self.source.link(&format!("/proc/{pid}/exe"));
        if !is_same_program(before, &status) || executable != before.executable {
            return self.process(listed, cpu_time);
        }
        let (command, memlock, cgroups, namespaces, root) = match since {
            Since::Ran(_) => (
                self.command(pid, status.real_uid),
                before.memlock.clone(),
                before.cgroups.clone(),
                before.namespaces.clone(),
                before.root.clone(),
            ),
            Since::Rested => {
                self.commands.count(status.real_uid, &before.command);
                let memlock = self.file(pid, "limits", limits::parse);
                let cgroups = self.cgroups(pid).map(|cgroups| self.as_before([pid, status.parent], cgroups));
                let root = self.source.link(&format!("/proc/{pid}/root"));
                (before.command.clone(), memlock, cgroups, self.namespaces(pid), root)
            }
        };
        let directory = self.source.link(&format!("/proc/{pid}/cwd"));
        self.note(pid, "cwd", &directory);
        let mut process = Process {
            pid,
            identity: before.identity,
            parent: status.parent,
            name: status.name.clone(),
            command,
            uid: status.uid,
            caller: before.caller,
            gid: status.gid,
            caller_group: before.caller_group,
            groups: status.groups.clone(),
            threads: status.threads.clone(),
            cpu_time,
            page_tables: status.page_tables.clone(),
            hugetlb: status.hugetlb.clone(),
            rss_shmem: status.rss_shmem.clone(),
            rss_anon: status.rss_anon.clone(),
            rss_shared: status.rss_shared.clone(),
            swap: status.swap.clone(),
            locked: status.locked.clone(),
            ipc_lock: status.ipc_lock.clone(),
            thp_enabled: status.thp_enabled.clone(),
            nodes_allowed: status.nodes_allowed.clone(),
            memlock,
            cgroups,
            namespaces,
            namespace_pids: status.namespace_pids.clone(),
            executable,
            directory,
            root,
            mapped: before.mapped,
            mappings: Observed::Absent,
        };
        process.mappings = if self.source.maps_hold(pid) {
            before.mappings.clone()
        } else {
            let (mapped, mappings) = self.mappings(pid, &status);
            process.mapped = mapped;
            self.with_page_sizes(&process, mappings)
        };
        Some(Arc::new(process))
    }

    /// A process that has not run since it was read, with what reclaim may have changed of it; `None` where it has ended.
    fn seen_again(&mut self, before: Arc<Process>) -> Option<Arc<Process>> {
        let pid = before.pid;
        let status = self.status(pid)?;
        if (&status.name, status.uid, &status.namespace_pids) != (&before.name, before.uid, &before.namespace_pids) {
            return self.process(Listed { pid, identity: before.identity }, before.cpu_time);
        }
        if status.size.is_absent() && !status.is_cut_off {
            return None;
        }
        // Where nothing changed, which is nearly always, there is no second copy.
        let is_same = before.parent == status.parent
            && (&before.page_tables, &before.hugetlb, &before.swap, &before.locked)
                == (&status.page_tables, &status.hugetlb, &status.swap, &status.locked)
            && (&before.rss_shmem, &before.rss_anon) == (&status.rss_shmem, &status.rss_anon)
            && before.rss_shared == status.rss_shared;
        if is_same {
            return Some(before);
        }
        let (page_tables, hugetlb, swap, locked) = (status.page_tables, status.hugetlb, status.swap, status.locked);
        let (rss_shmem, rss_anon, rss_shared) = (status.rss_shmem, status.rss_anon, status.rss_shared);
        let (parent, before) = (status.parent, Arc::unwrap_or_clone(before));
        Some(Arc::new(Process {
            parent,
            page_tables,
            hugetlb,
            swap,
            locked,
            rss_shmem,
            rss_anon,
            rss_shared,
            ..before
        }))
    }

    fn status(&mut self, pid: u32) -> Option<status::Status> {
        let status = self.source.read(&format!("/proc/{pid}/status")).parse(|bytes| status::parse(&bytes));
        self.note(pid, "status", &status);
        if status.known().is_some_and(|status| status.is_cut_off) {
            let why = Reason::Malformed("it is cut off".into());
            self.unread.push(Unread::new(format!("/proc/{pid}/status"), why));
        }
        self.is_any |= !status.is_absent();
        self.unseen += u64::from(!status.is_known() && !status.is_absent());
        let mut status = status.into_known()?;
        self.resident(pid, &mut status);
        Some(status)
    }

    /// What the kernel tells elsewhere of the memory that a process has touched, where its status does not.
    fn resident(&mut self, pid: u32, status: &mut status::Status) {
        let told = !status.rss_anon.is_absent() || status.is_cut_off || status.size.is_absent();
        let Some(base) = self.base_page.filter(|_| !told) else { return };
        let read = self.file(pid, "statm", |bytes| statm::parse(bytes, base));
        status.rss_anon = read.clone().map(|read| read.anonymous);
        status.rss_shared = read.map(|read| read.shared);
    }

    /// Most processes are in the cgroups of some other one: these are parsed and kept once.
    fn cgroups(&mut self, pid: u32) -> Observed<Arc<[CgroupMembership]>> {
        let bytes = self.source.read(&format!("/proc/{pid}/cgroup"));
        if let Some(known) = bytes.known().and_then(|bytes| self.cgroups.get(bytes)) {
            return Observed::Known(Arc::clone(known));
        }
        let parsed = bytes.as_ref().parse(|bytes| cgroup::parse(bytes)).map(Arc::from);
        self.note(pid, "cgroup", &parsed);
        if let (Some(bytes), Some(parsed)) = (bytes.into_known(), parsed.known())
            && self.cgroups.len() < MOST_CGROUPS
        {
            self.cgroups.insert(bytes, Arc::clone(parsed));
        }
        parsed
    }

    /// The memberships that the process or its parent had in the reading before, where these are the same: processes that
    /// are read again at different readings share theirs still.
    fn as_before(&self, pids: [u32; 2], cgroups: Arc<[CgroupMembership]>) -> Arc<[CgroupMembership]> {
        let earlier = pids.into_iter().filter_map(|pid| self.earlier?.process(pid)?.cgroups.known());
        earlier.into_iter().find(|before| **before == cgroups).map_or(cgroups, Arc::clone)
    }

    fn command(&mut self, pid: u32, uid: u32) -> Observed<Vec<String>> {
        let read = self.source.read(&format!("/proc/{pid}/cmdline")).parse(|bytes| commands::parse(&bytes));
        if matches!(read, Observed::Denied) {
            self.note(pid, "cmdline", &read);
        }
        self.commands.keep(pid, uid, read)
    }

    fn file<T>(
        &mut self,
        pid: u32,
        name: &'static str,
        parser: impl FnOnce(&[u8]) -> Result<T, crate::ParseError>,
    ) -> Observed<T> {
        let parsed = self.source.read(&format!("/proc/{pid}/{name}")).parse(|bytes| parser(&bytes));
        self.note(pid, name, &parsed);
        parsed
    }

    fn note<T>(&mut self, pid: u32, name: &'static str, fact: &Observed<T>) {
        match fact {
            Observed::Known(_) | Observed::Absent => {}
            Observed::Denied => self.denied.entry(name).or_insert((0, pid)).0 += 1,
            Observed::Malformed(why) => {
                self.unread.push(Unread::new(format!("/proc/{pid}/{name}"), Reason::Malformed(why.clone())));
            }
        }
    }

    /// What could not be read: one line a file name, not one a process.
    fn finish(self) -> Vec<Unread> {
        let mut unread = self.unread;
        unread.extend(self.page_sizes.unread());
        unread.extend(self.commands.unread());
        for (name, (count, pid)) in self.denied {
            let what = match count {
                1 => format!("/proc/{pid}/{name}"),
                _ => format!("/proc/PID/{name} of {count} processes"),
            };
            unread.push(Unread { what, why: Reason::Denied });
        }
        unread
    }
}

#[cfg(test)]
mod tests;
