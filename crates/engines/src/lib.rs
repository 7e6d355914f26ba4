//! Recognises the database servers of a host: one file an engine.
//!
//! Everything here is passive: it looks at the processes that the host was read with, and reads
//! the servers' own files through the same [`Source`]. Only [`connect`] talks to a server.

pub mod ase;
mod asleep;
mod bare_segment;
pub mod clickhouse;
pub mod client;
pub mod connect;
pub mod crowd;
pub mod db2;
pub mod describe;
mod described;
mod description;
mod estate;
mod faults;
pub mod hana;
pub mod informix;
pub mod ini;
pub mod jvm;
mod kind;
pub mod log_files;
pub mod logs;
pub mod mongodb;
pub mod mysql;
pub mod named;
mod next;
pub mod options;
pub mod oracle;
pub mod partner;
pub mod postgresql;
mod private;
pub mod proposal;
pub mod qemu;
mod question;
pub mod redis;
pub mod segments;
pub mod settable;
pub mod settings;
pub mod sqlserver;
mod start;
mod starting;
mod sysv;
#[cfg(test)]
mod testing;
mod touched;
mod transparent;
mod unit_start;
pub mod unrecognised;
mod versions;
mod vouch;
pub mod work;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hugewise_host::Source;
use hugewise_host::config::systemd::service_of;
use hugewise_host::source::{Budgets, Limits, Once, Owned, Owner};
use hugewise_model::instance::{Mechanism, SessionModel};
use hugewise_model::{Asked, Bytes, Engine, Host, HugePageUse, Instance, Observed, Process, Reason, Unread};

pub use kind::{
    Beside, By, Describe, Heap, Kind, Message, SettingsBy, SizeOption, Sizes, ThpAdvice, UNTRIED, Vendor,
    VersionUnknown,
};
pub use settable::Settable;
pub use start::{Restarter, Start, Starter, Stretch, Takes};

/// Every engine, in the order in which they are asked; `other` is last, as it takes what is left.
static KINDS: &[&Kind] = &[
    &oracle::KIND,
    &postgresql::KIND,
    &mysql::KIND,
    &jvm::KIND,
    &redis::KIND,
    &mongodb::KIND,
    &qemu::KIND,
    &db2::KIND,
    &hana::KIND,
    &sqlserver::KIND,
    &informix::KIND,
    &clickhouse::KIND,
    &ase::KIND,
    &unrecognised::KIND,
];

/// What an engine looks at.
pub struct Scene<'a> {
    /// The host.
    pub host: &'a Host,
    /// For what belongs to no server; a server's own files are read through [`files_of`](Scene::files_of).
    pub source: &'a dyn Source,
    budgets: Budgets,
    /// Configuration files that were read, by what a capture keeps of their lines.
    lines: RefCell<BTreeMap<String, Line>>,
    /// For logs that are searched for what no file of a server says.
    log_budgets: Budgets,
    /// What earlier readings found, where there were any.
    files: Option<&'a Files>,
}

/// What a capture keeps of a line, see [`Kind::own_line`].
pub type Line = fn(&str) -> Option<String>;

/// What one user's servers have for the search of their last starts in their logs: some of them as far back as a busy instance
/// writes in a year.
const LAST_STARTS: Limits = Limits { bytes: 128 << 20, time: Duration::from_secs(3), ..Limits::LOGS };

/// Unread files of one user's servers that are told one by one.
const MOST_UNREAD: usize = 100;

/// What the engines found, in the order in which they are asked.
#[derive(Default)]
pub struct Found {
    /// Instances.
    pub instances: Vec<Instance>,
    /// Files of theirs that are there and could not be read.
    pub unread: Vec<Unread>,
    /// Configuration files of engines that say what a capture keeps of their lines.
    pub lines: BTreeMap<String, Line>,
    /// How many of them each user's servers have.
    unread_of: BTreeMap<u32, usize>,
    claimed_processes: BTreeSet<u32>,
    claimed_segments: BTreeSet<(u64, u64)>,
}

impl Found {
    /// Takes an instance in; its processes and segments are its own from then on.
    pub fn add(&mut self, instance: Instance) {
        self.claimed_processes.extend(instance.pids.iter().copied());
        self.claimed_segments.extend(instance.segments.iter().map(|segment| segment.identity));
        self.instances.push(instance);
    }

    /// Takes in what could not be read of the files of a process's owner: nobody's many files hide those of others.
    pub fn add_unread(&mut self, process: &Process, unread: Vec<Unread>) {
        let count = self.unread_of.entry(Owner::of(process).uid).or_default();
        for one in unread.into_iter().filter(|one| !Budgets::tells_of(one)) {
            *count += 1;
            if *count <= MOST_UNREAD {
                self.unread.push(one);
            }
        }
    }

    /// Says how many there were beyond those that are told.
    fn leave_out(&mut self) {
        for (uid, count) in std::mem::take(&mut self.unread_of) {
            if let Some(more) = count.checked_sub(MOST_UNREAD).filter(|more| *more > 0) {
                let what = format!("files of user {uid}'s servers");
                self.unread.push(Unread { what, why: Reason::untold(format!("{more} more could not be read")) });
            }
        }
    }

    /// Whether some instance has that process already.
    pub fn has_process(&self, pid: u32) -> bool {
        self.claimed_processes.contains(&pid)
    }

    /// Whether some instance has that segment already, by its [identity](hugewise_model::Segment::identity).
    pub fn has_segment(&self, identity: (u64, u64)) -> bool {
        self.claimed_segments.contains(&identity)
    }
}

/// Every engine that is looked for.
pub fn kinds() -> &'static [&'static Kind] {
    KINDS
}

impl Kind {
    /// The kind that an engine is of.
    pub fn of(engine: Engine) -> &'static Self {
        let named = |kind: &&&Self| kind.engine == engine || kind.names.iter().any(|(one, _)| *one == engine);
        KINDS.iter().find(named).copied().unwrap_or(&unrecognised::KIND)
    }
}

/// What else than services restarts servers, of all kinds.
pub fn restarters() -> impl Iterator<Item = &'static Restarter> {
    KINDS.iter().filter_map(|kind| kind.restarter.as_ref())
}

/// What a plan sets, of all kinds.
pub fn settables() -> impl Iterator<Item = &'static Settable> {
    KINDS.iter().filter_map(|kind| match kind.settings_by {
        SettingsBy::Plan(settable) => Some(settable),
        SettingsBy::Person | SettingsBy::Nobody => None,
    })
}

/// A host and its servers. What files of the host say is asked for once: all that is told speaks of one moment.
pub fn gather(source: &dyn Source) -> (Host, Found) {
    let source = Once::new(source);
    let host = hugewise_host::read(&source);
    let found = find(&host, &source);
    (host, found)
}

/// The servers of a host, those that run and those that belong to it and do not, by engine and name; no two of an engine have
/// the same name.
pub fn find(host: &Host, source: &dyn Source) -> Found {
    find_after(host, source, None)
}

/// What earlier readings made of one machine's files, for who reads it again and again.
#[derive(Debug, Default)]
pub struct Files {
    /// Those of the host.
    pub host: hugewise_host::config::Files,
    asleep: asleep::Known,
    last_starts: oracle::last_start::LastStarts,
}

/// The same for who looks at one host again and again: of files that were not changed since, what was made of them is taken,
/// and what does not run is looked at in [turns](hugewise_host::source::Turns).
pub fn find_after(host: &Host, source: &dyn Source, files: Option<&Files>) -> Found {
    let scene = Scene { files, ..Scene::new(host, source) };
    let mut found = running(&scene);
    asleep::add(&scene, &mut found, files);
    found.instances.sort_by(|a, b| (a.engine, &a.name, a.pid).cmp(&(b.engine, &b.name, b.pid)));
    found.unread.append(&mut scene.budgets.unread());
    found.unread.append(&mut scene.log_budgets.unread());
    found.lines = scene.lines.take();
    found.leave_out();
    found.unread.sort();
    found.unread.dedup();
    found
}

/// Those that run.
fn running(scene: &Scene<'_>) -> Found {
    let (host, source) = (scene.host, scene.source);
    let mut found = Found::default();
    for kind in KINDS {
        (kind.find)(scene, &mut found);
    }
    vouch::vouch(host, source, &mut found.instances);
    vouch::bound_strangers(host, &mut found);
    unit_start::fill_in(scene, &mut found);
    make_names_unique(&mut found.instances);
    found
}

/// Whether the working directory of an instance's process is read: it holds the data, or completes a path of its arguments.
pub fn reads_folder_of(engine: Engine, process: &Process) -> bool {
    (Kind::of(engine).reads_folder)(process)
}

/// Appends the pid to names that several instances of an engine have, and to names that look like that: who is vouched for
/// keeps his name, whatever others call themselves.
fn make_names_unique(instances: &mut [Instance]) {
    let mut bearers = BTreeMap::<(Engine, String), (usize, usize)>::new();
    for instance in &*instances {
        let (all, vouched) = bearers.entry((instance.engine, instance.name.clone())).or_default();
        *all += 1;
        *vouched += usize::from(instance.is_vouched());
    }
    for instance in instances {
        let (all, vouched) = bearers.get(&(instance.engine, instance.name.clone())).copied().unwrap_or_default();
        let alone = if instance.is_vouched() { vouched == 1 } else { all == 1 };
        let keeps = alone && !has_pid(&instance.name);
        if !keeps {
            instance.name = format!("{} pid {}", instance.name, instance.pid);
        }
    }
}

/// Whether a name ends as those do that are made unique.
fn has_pid(name: &str) -> bool {
    let digits = |pid: &str| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    name.rsplit_once(" pid ").is_some_and(|(_, pid)| digits(pid))
}

impl<'a> Scene<'a> {
    /// A host, and where its servers' files come from.
    pub const fn new(host: &'a Host, source: &'a dyn Source) -> Self {
        let lines = RefCell::new(BTreeMap::new());
        Self {
            host,
            source,
            budgets: Budgets::new(Limits::CONFIGURATION),
            lines,
            log_budgets: Budgets::new(LAST_STARTS),
            files: None,
        }
    }

    /// A server's logs, as its owner may read them.
    fn logs_of(&self, process: &Process) -> Owned<'_> {
        self.log_budgets.of(self.source, process)
    }

    /// Notes the configuration files that a server of a kind was found to have.
    fn note_files(&self, kind: &Kind, files: &[String]) {
        if let Some(line) = kind.own_line {
            self.lines.borrow_mut().extend(files.iter().map(|file| (file.clone(), line)));
        }
    }

    /// A server's files, as its owner may read them: everything that a process, its arguments or its configuration names is
    /// read through this.
    pub fn files_of(&self, process: &Process) -> Owned<'_> {
        self.budgets.of(self.source, process)
    }

    /// Files that the host has for all its servers, as the reader may read them, where the process has the host's files.
    fn host_files_for(&self, process: &Process) -> Owned<'_> {
        if options::sees_other_files(self.host, process) {
            return self.files_of(process);
        }
        self.budgets.for_host_files(self.source, process)
    }

    /// An instance with what its processes alone tell: owner, unit, page tables, container. All
    /// that depends on the engine is unknown or empty, for the caller to fill in.
    pub fn instance(&self, engine: Engine, name: String, main: &Process, mut pids: Vec<u32>) -> Instance {
        pids.push(main.pid);
        pids.sort_unstable();
        pids.dedup();
        Instance {
            engine,
            name,
            pid: main.pid,
            version: Observed::Absent,
            owner: self.host.accounts.user_name(main.uid),
            data_directory: Observed::Absent,
            endpoints: Vec::new(),
            sessions: Observed::Absent,
            crowd: Observed::Absent,
            max_sessions: Observed::Absent,
            session_model: SessionModel::Processes,
            asked: Asked::Unknown,
            setting: None,
            asked_page_size: Observed::Absent,
            mechanism: Mechanism::Mmap,
            segments: Vec::new(),
            huge_pages: HugePageUse::Unknown,
            demand: None,
            beside: Vec::new(),
            next: Observed::Absent,
            at_boot: Observed::Absent,
            perhaps: Vec::new(),
            on_smaller: Vec::new(),
            page_tables: self.page_tables(main, &pids),
            unit: service_of(main).map(str::to_owned),
            unit_is_its_own: false,
            startup: None,
            asleep: None,
            vouchers: Vec::new(),
            touched: Observed::Absent,
            transparent: Observed::Absent,
            containered: options::is_contained(self.host, self.source, main),
            settings: BTreeMap::new(),
            traits: Vec::new(),
            pids,
        }
    }

    /// Sum of the page tables of `pids`; as unknown as those of any of them. Children come and go, so one that ended
    /// meanwhile counts nothing.
    fn page_tables(&self, main: &Process, pids: &[u32]) -> Observed<Bytes> {
        let there = pids.iter().filter_map(|pid| self.host.process(*pid));
        there.fold(main.page_tables.as_ref().map(|_| Bytes::ZERO), |sum, process| {
            sum.and_then(|sum| process.page_tables.as_ref().map(|own| [sum, *own].into_iter().sum()))
        })
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::vouch::Voucher;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever servers call themselves, and whoever speaks for them: no two of a host have one id, and one that is
        /// vouched for and has a name of its own keeps it.
        #[test]
        fn no_two_instances_of_a_host_have_one_id(
            all in proptest::collection::vec((0_usize..2, 0_usize..7, any::<bool>()), 1..9),
        ) {
            const NAMES: [&str; 7] =
                ["PROD", "PROD pid 1", "PROD pid 2", "PROD pid 3 pid 4", "15/main", " pid 1", "PROD pid x"];
            let (host, source) = (Host::default(), MapSource::new());
            let scene = Scene::new(&host, &source);
            let pids = (1_u32..).zip(&all);
            let mut instances: Vec<Instance> = pids
                .map(|(pid, (engine, name, vouched))| {
                    let main = Process { pid, ..Process::default() };
                    let engine = [Engine::Oracle, Engine::PostgreSql][*engine];
                    let mut instance = scene.instance(engine, NAMES[*name].into(), &main, Vec::new());
                    instance.vouchers = vouched.then_some(Voucher::Account).into_iter().collect();
                    instance
                })
                .collect();
            let before: Vec<_> = instances.iter().map(|it| (it.id(), it.is_vouched())).collect();
            make_names_unique(&mut instances);
            let ids: BTreeSet<_> = instances.iter().map(Instance::id).collect();
            prop_assert_eq!(ids.len(), instances.len());
            let handles: BTreeSet<_> = instances.iter().map(Instance::handle).collect();
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
