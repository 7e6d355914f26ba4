//! Recognises the database servers of a host. Each engine has a folder below `engines`; `shared`
//! holds what several have in common. All of it only reads, through one [`Source`]; [`connect`]
//! alone talks to a server.

mod engines;
mod shared;
#[cfg(test)]
mod testing;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hugewise_host::Source;
use hugewise_host::config::systemd::service_of;
use hugewise_host::source::{Budgets, MemoizedSource, Owner, OwnerReadLimits, OwnerSource};
use hugewise_model::{Bytes, Engine, Host, Instance, Observed, Process, Reason, Unread};

use engines::{KINDS, unrecognized};
pub use engines::{informix, jvm, mongodb, mysql, oracle, postgresql, redis};
pub use shared::description::{CompanionServer, DescribedBy, SizeOption, SizeOptions};
pub use shared::kind::{
    CaptureRules, Describe, EngineKind, Heap, LineRedactor, LogSources, MemoryBehavior, Message,
    PageSizeChoice, Recognition, RestartBehavior, SessionBehavior, SettingAdvice, SettingsBy,
    ThpAdvice, ThpBehavior, UNTRIED, Vendor, VersionUnknown,
};
pub use shared::other_holders::{OtherHolders, find_other_holders};
pub use shared::settable::Settable;
pub use shared::start::{
    ExternalStarter, MemoryStretch, Restarter, StartBehavior, Takes, TouchedAtStart,
};
pub use shared::{
    client, connect, describe, failover_peer, ini, instance_names, log_files, logs, options,
    proposal, session_activity, settable, settings, work_memory,
};
use shared::{stopped, trusted_by, unit_start};

/// A host and its files, as the engines read them.
pub struct EngineContext<'a> {
    /// The host.
    pub host: &'a Host,
    /// For files of no server; [`files_of`](EngineContext::files_of) reads a server's own.
    pub source: &'a dyn Source,
    budgets: Budgets,
    lines: RefCell<BTreeMap<String, LineRedactor>>,
    log_budgets: Budgets,
    files: Option<&'a EngineFileCache>,
}

/// Limits for the search of a user's logs: a busy instance's last start may be a year back.
const LAST_STARTS: OwnerReadLimits =
    OwnerReadLimits { bytes: 128 << 20, time: Duration::from_secs(3), ..OwnerReadLimits::LOGS };

const MOST_UNREAD: usize = 100;

/// What the engines found.
#[derive(Default)]
pub struct FoundInstances {
    /// Sorted by engine and name.
    pub instances: Vec<Instance>,
    /// Their files that exist and could not be read.
    pub unread: Vec<Unread>,
    /// Configuration files of engines that say what a capture keeps of their lines.
    pub lines: BTreeMap<String, LineRedactor>,
    unread_of: BTreeMap<u32, usize>,
    claimed_processes: BTreeSet<u32>,
    claimed_segments: BTreeSet<(u64, u64)>,
}

impl FoundInstances {
    /// Adds an instance and claims its processes and segments.
    pub fn add(&mut self, instance: Instance) {
        self.claimed_processes.extend(instance.pids.iter().copied());
        self.claimed_segments.extend(instance.segments.iter().map(|segment| segment.identity));
        self.instances.push(instance);
    }

    /// Adds what could not be read of an owner's files, up to a limit for each owner.
    pub fn add_unread(&mut self, process: &Process, unread: Vec<Unread>) {
        let count = self.unread_of.entry(Owner::from_process(process).uid).or_default();
        for one in unread.into_iter().filter(|one| !Budgets::tells_of(one)) {
            *count += 1;
            if *count <= MOST_UNREAD {
                self.unread.push(one);
            }
        }
    }

    fn leave_out(&mut self) {
        for (uid, count) in std::mem::take(&mut self.unread_of) {
            if let Some(more) = count.checked_sub(MOST_UNREAD).filter(|more| *more > 0) {
                let why = Reason::from_text(format!("{more} more could not be read"));
                self.unread.push(Unread::new(format!("files of user {uid}'s servers"), why));
            }
        }
    }

    /// Whether an instance has that process.
    pub fn has_process(&self, pid: u32) -> bool {
        self.claimed_processes.contains(&pid)
    }

    /// Whether an instance has the segment of that [identity](hugewise_model::Segment::identity).
    pub fn has_segment(&self, identity: (u64, u64)) -> bool {
        self.claimed_segments.contains(&identity)
    }
}

fn each_known<T>(list: &Observed<Vec<T>>) -> impl Iterator<Item = &T> {
    list.as_known().into_iter().flatten()
}

/// Every engine, in the order in which they are asked.
pub fn all_kinds() -> &'static [&'static EngineKind] {
    KINDS
}

impl EngineKind {
    /// The kind of an engine.
    pub fn for_engine(engine: Engine) -> &'static Self {
        let named = |kind: &&&Self| {
            kind.engine == engine || kind.names.iter().any(|(one, _)| *one == engine)
        };
        KINDS.iter().find(named).copied().unwrap_or(&unrecognized::KIND)
    }
}

/// Everything but services that restarts servers.
pub fn all_restarters() -> impl Iterator<Item = &'static Restarter> {
    KINDS.iter().filter_map(|kind| kind.restart.restarter.as_ref())
}

/// What a plan can set.
pub fn all_settables() -> impl Iterator<Item = &'static Settable> {
    KINDS.iter().filter_map(|kind| match kind.settings.changed_by {
        SettingsBy::Plan(settable) => Some(settable),
        SettingsBy::Person | SettingsBy::Nobody => None,
    })
}

/// Reads a host and its servers. Each file is read once, so that everything speaks of one moment.
pub fn read_host_and_instances(source: &dyn Source) -> (Host, FoundInstances) {
    let source = MemoizedSource::new(source);
    let host = hugewise_host::read(&source);
    let found = find_instances(&host, &source);
    (host, found)
}

/// Running and stopped servers of a host, by engine and name; names are unique within an engine.
pub fn find_instances(host: &Host, source: &dyn Source) -> FoundInstances {
    find_after(host, source, None)
}

/// What was read of one machine's files within the last minute, for repeated readings.
#[derive(Debug, Default)]
pub struct EngineFileCache {
    /// Files of the host.
    pub host: hugewise_host::config::HostConfigCache,
    /// Files of the kernel.
    pub kernel: hugewise_host::kernel::KernelFactCache,
    asleep: stopped::StoppedServerCache,
    last_starts: oracle::last_start::LastStarts,
}

/// [`find_instances`] for repeated readings: takes from `files` what is less than a minute old.
pub fn find_after(
    host: &Host,
    source: &dyn Source,
    files: Option<&EngineFileCache>,
) -> FoundInstances {
    let scene = EngineContext { files, ..EngineContext::new(host, source) };
    let mut found = find_running_instances(&scene);
    stopped::add_stopped_servers(&scene, &mut found, files);
    found.instances.sort_by(|a, b| (a.engine, &a.name, a.pid).cmp(&(b.engine, &b.name, b.pid)));
    found.unread.append(&mut scene.budgets.unread_notes());
    found.unread.append(&mut scene.log_budgets.unread_notes());
    found.lines = scene.lines.take();
    found.leave_out();
    found.unread.sort();
    found.unread.dedup();
    found
}

fn find_running_instances(scene: &EngineContext<'_>) -> FoundInstances {
    let (host, source) = (scene.host, scene.source);
    let mut found = FoundInstances::default();
    for kind in KINDS {
        (kind.recognition.find_running)(scene, &mut found);
    }
    trusted_by::fill_trusted_by(host, source, &mut found.instances);
    trusted_by::limit_untrusted(host, &mut found);
    unit_start::fill_in(scene, &mut found);
    trusted_by::withdraw_where_others_write(scene, &mut found.instances);
    make_names_unique(&mut found.instances);
    found
}

/// Servers as files that are laid out otherwise describe them, as a plan would leave them. Names
/// and vouchers stay, and no other process is looked at.
pub fn redescribe_instances(
    host: &Host,
    source: &dyn Source,
    instances: &[&Instance],
) -> Vec<Instance> {
    let scene = EngineContext::new(host, source);
    let wanted: BTreeSet<u32> = instances.iter().map(|instance| instance.pid).collect();
    let processes = each_known(&host.processes).map(|process| process.pid);
    let mut found = FoundInstances {
        claimed_processes: processes.filter(|pid| !wanted.contains(pid)).collect(),
        ..FoundInstances::default()
    };
    let is_of = |kind: &EngineKind| {
        instances
            .iter()
            .any(|instance| EngineKind::for_engine(instance.engine).engine == kind.engine)
    };
    for kind in KINDS.iter().filter(|kind| is_of(kind)) {
        (kind.recognition.find_running)(&scene, &mut found);
    }
    trusted_by::fill_trusted_by(host, source, &mut found.instances);
    unit_start::fill_in(&scene, &mut found);
    let by_services = |instance: &&Instance| instance.is_stopped() || instance.boot_unit.is_some();
    if instances.iter().any(by_services) {
        stopped::add_stopped_servers(&scene, &mut found, None);
    }
    let mut described = Vec::new();
    for then in found.instances {
        let is_same = |now: &&&Instance| match then.pid {
            0 => now.id() == then.id(),
            pid => now.pid == pid,
        };
        if let Some(now) = instances.iter().find(is_same) {
            let (name, vouchers) = (now.name.clone(), now.trusted_by.clone());
            described.push(Instance { name, trusted_by: vouchers, ..then });
        }
    }
    described
}

/// Whether the working directory of a server's process is read for its data or a relative path.
pub fn reads_folder_of(engine: Engine, process: &Process) -> bool {
    (EngineKind::for_engine(engine).capture.reads_working_directory)(process)
}

/// Appends the pid to names that are not unique, or end like that. An instance that is vouched for
/// keeps its name, whatever others call themselves.
fn make_names_unique(instances: &mut [Instance]) {
    let mut bearers = BTreeMap::<(Engine, String), (usize, usize)>::new();
    for instance in &*instances {
        let (all, vouched) = bearers.entry((instance.engine, instance.name.clone())).or_default();
        *all += 1;
        *vouched += usize::from(instance.is_trusted());
    }
    for instance in instances {
        let (all, vouched) =
            bearers.get(&(instance.engine, instance.name.clone())).copied().unwrap_or_default();
        let alone = if instance.is_trusted() { vouched == 1 } else { all == 1 };
        let keeps = alone && !has_pid(&instance.name);
        if !keeps {
            instance.name = format!("{} pid {}", instance.name, instance.pid);
        }
    }
}

fn has_pid(name: &str) -> bool {
    name.rsplit_once(" pid ").is_some_and(|(_, pid)| options::is_number(pid))
}

impl<'a> EngineContext<'a> {
    /// A host, read through `source`.
    pub const fn new(host: &'a Host, source: &'a dyn Source) -> Self {
        let lines = RefCell::new(BTreeMap::new());
        Self {
            host,
            source,
            budgets: Budgets::new(OwnerReadLimits::CONFIGURATION),
            lines,
            log_budgets: Budgets::new(LAST_STARTS),
            files: None,
        }
    }

    fn parent_of(&self, process: &Process) -> Option<&'a Process> {
        self.host.find_process(process.parent).filter(|parent| parent.pid != process.pid)
    }

    fn logs_of(&self, process: &Process) -> OwnerSource<'_> {
        self.log_budgets.for_owner(self.source, process)
    }

    fn note_files(&self, kind: &EngineKind, files: &[String]) {
        if let Some(line) = kind.capture.redact_line {
            self.lines.borrow_mut().extend(files.iter().map(|file| (file.clone(), line)));
        }
    }

    /// Reads a server's files with its owner's rights: all paths that a process, its arguments or
    /// its configuration name go through this.
    pub fn files_of(&self, process: &Process) -> OwnerSource<'_> {
        self.budgets.for_owner(self.source, process)
    }

    /// Where the files and folders lie by which a process was described.
    fn paths_believed(&self, pid: u32) -> BTreeSet<String> {
        self.budgets.paths_believed(pid)
    }

    /// Files of the host for all servers, with the reader's rights where the process sees them.
    fn host_files_for(&self, process: &Process) -> OwnerSource<'_> {
        if options::sees_other_files(self.host, process) {
            return self.files_of(process);
        }
        self.budgets.for_host_files(self.source, process)
    }

    /// An instance with owner, unit, page tables and container; the caller fills in the rest.
    pub fn new_instance(
        &self,
        engine: Engine,
        name: String,
        main: &Process,
        mut pids: Vec<u32>,
    ) -> Instance {
        pids.push(main.pid);
        pids.sort_unstable();
        pids.dedup();
        Instance {
            engine,
            name,
            pid: main.pid,
            owner: self.host.accounts.user_name(main.uid),
            page_tables: self.page_tables(main, &pids),
            unit: service_of(main).map(str::to_owned),
            containered: options::is_contained(self.host, main),
            pids,
            ..Instance::default()
        }
    }

    /// Sum of the page tables of `pids`; children that have ended meanwhile count nothing.
    fn page_tables(&self, main: &Process, pids: &[u32]) -> Observed<Bytes> {
        let there = pids.iter().filter_map(|pid| self.host.find_process(*pid));
        there.fold(main.page_tables.as_ref().map(|_| Bytes::ZERO), |sum, process| {
            sum.and_then(|sum| {
                process.page_tables.as_ref().map(|own| [sum, *own].into_iter().sum())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::trusted_by::TrustReason;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever servers call themselves, and whoever speaks for them: no two of a host have one
        /// id, and one that is vouched for and has a name of its own keeps it.
        #[test]
        fn no_two_instances_of_a_host_have_one_id(
            all in proptest::collection::vec((0_usize..2, 0_usize..7, any::<bool>()), 1..9),
        ) {
            const NAMES: [&str; 7] =
                ["PROD", "PROD pid 1", "PROD pid 2", "PROD pid 3 pid 4", "15/main", " pid 1", "PROD pid x"];
            let (host, source) = (Host::default(), MapSource::new());
            let scene = EngineContext::new(&host, &source);
            let pids = (1_u32..).zip(&all);
            let mut instances: Vec<Instance> = pids
                .map(|(pid, (engine, name, vouched))| {
                    let main = Process { pid, ..Process::default() };
                    let engine = [Engine::Oracle, Engine::PostgreSql][*engine];
                    let mut instance = scene.new_instance(engine, NAMES[*name].into(), &main, Vec::new());
                    instance.trusted_by = vouched.then_some(TrustReason::Account).into_iter().collect();
                    instance
                })
                .collect();
            let before: Vec<_> = instances.iter().map(|instance| (instance.id(), instance.is_trusted())).collect();
            make_names_unique(&mut instances);
            let ids: BTreeSet<_> = instances.iter().map(Instance::id).collect();
            prop_assert_eq!(ids.len(), instances.len());
            let handles: BTreeSet<_> = instances.iter().map(Instance::unique_title).collect();
            prop_assert_eq!(handles.len(), instances.len());
            for (instance, (id, vouched)) in instances.iter().zip(&before) {
                let namesakes = before.iter().filter(|(other, vouched)| other == id && *vouched).count();
                if *vouched && namesakes == 1 && !has_pid(&id.name) {
                    prop_assert_eq!(&instance.id(), id);
                }
            }
        }
    }
}
