//! What an engine's folder registers of its kind.

#[cfg(test)]
mod tests;

use hugewise_host::Source;
use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::ValueShape;
use hugewise_model::instance::ServerSetting;
use hugewise_model::{Bytes, Engine, Host, Instance, Level, Process};

use crate::shared::description::{DescribeError, Described, DescribedBy, Description};
use crate::shared::discovery::Discovery;
use crate::shared::live_query::{ApplyLiveReply, BuildLiveQuery};
use crate::shared::logs::{MessageMeanings, ServerLogFormat};
use crate::shared::proposal::Proposal;
use crate::shared::settable::Settable;
use crate::shared::start::{ExternalStarter, Restarter, StartBehavior};
use crate::shared::starting::Starting;
use crate::shared::work_memory::WorkMemory;
use crate::{EngineContext, FoundInstances};

/// An engine, or several that differ only in their names.
pub struct EngineKind {
    /// The main one where two share a folder.
    pub engine: Engine,
    /// All its engines, and what people call each.
    pub names: &'static [(Engine, &'static str)],
    /// Whether it was tried on a real server; reports say [`UNTRIED`] of one that was not.
    pub tried: bool,
    /// How to recognise its servers.
    pub recognition: Recognition,
    /// What is read of it, and kept by a capture.
    pub capture: CaptureRules,
    /// Its logs.
    pub logs: LogSources,
    /// Describes a server that does not run, by what people say of it.
    pub describe: Option<(DescribedBy, Describe)>,
    pub(crate) connect: Option<(BuildLiveQuery, ApplyLiveReply)>,
    /// How it starts.
    pub start: StartBehavior,
    /// Who restarts it, and with which command line.
    pub restart: RestartBehavior,
    /// What it makes of THP.
    pub thp: ThpBehavior,
    /// How it comes to its page size.
    pub page_size: PageSizeChoice,
    /// Its memory beyond what the pages of its segments tell.
    pub memory: MemoryBehavior,
    /// Its sessions.
    pub sessions: SessionBehavior,
    /// The settings that decide on huge pages.
    pub settings: SettingAdvice,
}

impl EngineKind {
    pub(crate) const PLAIN: Self = Self {
        engine: Engine::Other,
        names: &[],
        tried: true,
        recognition: Recognition::PLAIN,
        capture: CaptureRules::PLAIN,
        logs: LogSources::PLAIN,
        describe: None,
        connect: None,
        start: StartBehavior::PLAIN,
        restart: RestartBehavior::PLAIN,
        thp: ThpBehavior::PLAIN,
        page_size: PageSizeChoice::PLAIN,
        memory: MemoryBehavior::PLAIN,
        sessions: SessionBehavior::PLAIN,
        settings: SettingAdvice::PLAIN,
    };

    /// What people call one of its engines.
    pub fn name_of(&self, engine: Engine) -> &'static str {
        self.names.iter().find(|(one, _)| *one == engine).map_or(engine.as_str(), |(_, name)| name)
    }

    /// Whether a program of that name is one of its servers.
    pub fn is_server_program(&self, program: &str) -> bool {
        self.recognition.programs.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => program.starts_with(start),
            None => program == *name,
        })
    }

    /// Whether a service or an init script of that name is likely to start its servers.
    pub fn is_service(&self, name: &str) -> bool {
        self.recognition.services.iter().any(|start| name.starts_with(start))
    }

    /// Whether a program or script of that name starts its servers, or keeps them up.
    pub(crate) fn is_wrapper(&self, program: &str) -> bool {
        self.recognition.wrappers.contains(&program)
    }

    /// Whether a unit that runs this program starts one of its servers, itself or through another.
    pub(crate) fn may_be_started_by(&self, program: &str) -> bool {
        self.is_server_program(program) || self.recognition.companions.contains(&program)
    }
}

/// How servers of an engine are recognised.
pub struct Recognition {
    /// Names of its programs; one that ends in `*` is a prefix.
    pub programs: &'static [&'static str],
    /// Programs that start its servers or belong to them; a capture keeps their command lines too.
    pub companions: &'static [&'static str],
    /// Programs and scripts that units name and that start its servers, or keep them up.
    pub wrappers: &'static [&'static str],
    pub(crate) services: &'static [&'static str],
    /// Accounts that its packages and documentation make: root trusts a server that runs as one.
    pub accounts: &'static [&'static str],
    /// The folder, which only root makes, that holds the program of an account made for it alone:
    /// by the program's path and the account's name. None where the account is not of this kind.
    pub folder_of_account: for<'a> fn(&'a str, &str) -> Option<&'a str>,
    /// The name of a main process's program, where it differs from the process's name.
    pub main_program: Option<&'static str>,
    /// Finds its running instances.
    pub find_running: fn(&EngineContext<'_>, &mut FoundInstances),
    pub(crate) find_stopped: fn(&mut Discovery<'_>),
}

impl Recognition {
    pub(crate) const PLAIN: Self = Self {
        programs: &[],
        companions: &[],
        wrappers: &[],
        services: &[],
        accounts: &[],
        folder_of_account: |_, _| None,
        main_program: None,
        find_running: |_, _| {},
        find_stopped: |_| {},
    };
}

/// What is read of an engine's servers and kept by a capture, which drops everything else.
pub struct CaptureRules {
    /// Options of its command lines, with their dashes. One that is named without its value keeps
    /// the value behind `=` or in the next word; one that is also a setting is kept by that.
    pub options: &'static [&'static str],
    /// Settings of its configuration files.
    pub settings: &'static [&'static str],
    /// Settings and options whose values are paths or names, not numbers, sizes or a few words.
    pub value_shapes: &'static [(&'static str, ValueShape)],
    /// Prefixes of the names of mappings that tell of its memory; only a number follows them.
    pub mappings: &'static [&'static str],
    /// Parts of the paths of mapped files that are read.
    pub mapped_files: &'static [&'static str],
    /// What is kept of a line of its own configuration files that sets nothing which is read:
    /// enough to show that the servers refuse it, but no possible secret and no unknown name.
    pub redact_line: Option<LineRedactor>,
    /// What is kept of titles, arguments and files that have a form of their own.
    pub forms: Forms,
    pub(crate) reads_working_directory: fn(&Process) -> bool,
    /// Its configuration is below its owner's home folder.
    pub reads_home: bool,
}

/// See [`CaptureRules::redact_line`].
pub type LineRedactor = fn(&str) -> Option<String>;

impl CaptureRules {
    pub(crate) const PLAIN: Self = Self {
        options: &[],
        settings: &[],
        value_shapes: &[],
        mappings: &[],
        mapped_files: &[],
        redact_line: None,
        forms: Forms::NONE,
        reads_working_directory: |_| false,
        reads_home: false,
    };
}

/// An engine's logs.
pub struct LogSources {
    /// Where a running server may write its log, the best place first, below the given root folder.
    pub(crate) paths: fn(&Host, &dyn Source, &str, &Instance) -> Vec<String>,
    pub(crate) format: Option<&'static ServerLogFormat>,
    /// Its messages about memory, explained.
    pub messages: &'static [Message],
    /// What its messages mean, for whoever reads its log.
    pub(crate) meanings: MessageMeanings,
}

impl LogSources {
    pub(crate) const PLAIN: Self =
        Self { paths: |_, _, _, _| Vec::new(), format: None, messages: &[], meanings: &[] };
}

/// Who restarts an engine's servers, and with which command line.
pub struct RestartBehavior {
    /// Who does, where its service may not.
    pub starter: Option<ExternalStarter>,
    /// What else than its service does, where hugewise may run it.
    pub restarter: Option<Restarter>,
    /// What another command line changes; none where no command line decides on huge pages.
    pub(crate) command_line: Option<&'static Starting>,
}

impl RestartBehavior {
    pub(crate) const PLAIN: Self = Self { starter: None, restarter: None, command_line: None };

    pub(crate) const fn by_own_tools(
        whose: &'static str,
        how: fn(&Host, &Instance) -> Vec<String>,
    ) -> Self {
        let starter = ExternalStarter {
            whose,
            by: "its own tools",
            how,
            limits: |_, _| None,
            agent: |_, _| None,
        };
        Self { starter: Some(starter), ..Self::PLAIN }
    }
}

/// What an engine makes of transparent huge pages.
pub struct ThpBehavior {
    /// What a server makes of THP set to `always`; none where it says nothing.
    pub advise: fn(&Host, &Instance) -> Result<Option<ThpAdvice>, VersionUnknown>,
    /// The same in words, with its source, for the page of the rule about it.
    pub summary: Option<&'static str>,
}

impl ThpBehavior {
    pub(crate) const PLAIN: Self = Self { advise: |_, _| Ok(None), summary: None };
}

/// How an engine comes to the size of its pages.
pub struct PageSizeChoice {
    /// The setting that names the page size it asks for; none where it takes the host's.
    pub setting: Option<&'static str>,
    /// Whether settings name the page size; one that names none takes the default at its start.
    pub is_named: fn(&Instance) -> bool,
    /// Whether an instance can be told which page size to take.
    pub can_be_named: fn(&Instance) -> bool,
    /// The line of its settings that has it ask for all its memory on pages of that size.
    pub assignment: fn(hugewise_model::PageSize) -> Option<String>,
    /// Why pages of 1 GiB are nothing for it.
    pub against_gib_pages: Option<&'static str>,
}

impl PageSizeChoice {
    pub(crate) const PLAIN: Self = Self {
        setting: None,
        is_named: |_| false,
        can_be_named: |_| false,
        assignment: |_| None,
        against_gib_pages: None,
    };
}

/// What an engine does with its memory.
pub struct MemoryBehavior {
    /// Its heap, where its settings say how large that may be.
    pub heap: fn(&Instance) -> Option<Heap>,
    /// What the vendor of a server says of its memory beyond huge pages.
    pub vendor: fn(&Instance) -> Option<&'static Vendor>,
    /// Whether it touches all its private memory at the start, so that nobody waits for it later.
    pub touches_heap: fn(&Instance) -> bool,
    /// A setting that maps private memory in larger pieces (their size): its name promises pages.
    pub private_piece: fn(&Instance) -> Option<(&ServerSetting, Bytes)>,
    /// Private memory that its settings grant its sessions.
    pub work_memory: fn(&Host, &Instance) -> WorkMemory,
    /// Page tables of a process that touches nothing of its segments, with base pages of 4 KiB.
    pub process_tables: Bytes,
    /// All its processes map its memory at one address, by a fork or by asking for that address.
    pub one_address: bool,
    /// A small server that does not ask for huge pages is no database worth a word.
    pub often_small: bool,
    /// The setting by which each process touches all memory as it starts: a login waits for that.
    pub touches_all: for<'a> fn(&'a Instance) -> Option<&'a ServerSetting>,
    /// The setting by which it locks its System V segments at the start, or fails.
    pub locks_all: for<'a> fn(&'a Instance) -> Option<&'a ServerSetting>,
}

impl MemoryBehavior {
    pub(crate) const PLAIN: Self = Self {
        heap: |_| None,
        vendor: |_| None,
        touches_heap: |_| false,
        private_piece: |_| None,
        work_memory: |_, _| WorkMemory::default(),
        process_tables: Bytes::from_kib(54),
        one_address: true,
        often_small: false,
        touches_all: |_| None,
        locks_all: |_| None,
    };
}

/// The sessions of an engine's servers.
pub struct SessionBehavior {
    /// Sessions can be counted from outside and settings limit them: an unknown count is missing.
    pub are_counted: bool,
    /// How fewer sessions can do the same work, in words.
    pub fewer: &'static str,
    /// The thread pool that serves them, in words; none where each has a process or thread.
    pub thread_pool: fn(&Instance) -> Option<String>,
}

impl SessionBehavior {
    pub(crate) const PLAIN: Self = Self {
        are_counted: false,
        fewer: "fewer connections in each client's own pool, or a pooler in front",
        thread_pool: |_| None,
    };
}

/// The settings of an engine that decide on huge pages, and who changes them.
pub struct SettingAdvice {
    /// Commands that make a server ask for huge pages, and insist on them where the last argument
    /// says so and it can; what only people can do begins with `#`.
    pub commands: fn(&Host, &Instance, bool) -> Vec<String>,
    /// The setting that makes it ask: `huge_pages=try`.
    pub asks_by: &'static str,
    /// What tells the demand of a start with other settings: `a restart will tell`.
    pub tells_demand: &'static str,
    /// The setting that puts memory that cannot be on huge pages where it can be.
    pub can_by: Option<&'static str>,
    /// The same in the words of one server, where the setting's name is not enough.
    pub can_how: Option<fn(&Instance) -> String>,
    /// Settings that move one server's memory to where huge pages can hold it, and shrink nothing.
    pub proposal: fn(&Host, &Instance) -> Option<Proposal>,
    /// The setting that refuses a start without huge pages; see also
    /// [`insisting_setting`](Self::insisting_setting).
    pub insists_by: Option<&'static str>,
    /// Whether an instance's release knows that setting.
    pub can_insist: fn(&Instance) -> bool,
    /// Who changes its settings, as a plan sees it.
    pub changed_by: SettingsBy,
    /// Only its own settings put its memory on huge pages: one that is on them and no longer asks
    /// was changed since its start.
    pub only_by_settings: bool,
}

impl SettingAdvice {
    pub(crate) const PLAIN: Self = Self {
        commands: |_, _, _| {
            vec!["# turn huge pages on in its own settings, if it has such settings".into()]
        },
        asks_by: "in its own settings",
        tells_demand: "only its next start tells",
        can_by: None,
        can_how: None,
        proposal: |_, _| None,
        insists_by: None,
        can_insist: |_| true,
        changed_by: SettingsBy::Person,
        only_by_settings: false,
    };

    /// What moves this server's memory to where huge pages can hold it.
    pub fn how_it_can(&self, instance: &Instance) -> Option<String> {
        self.can_how.map(|how| how(instance)).or_else(|| self.can_by.map(str::to_owned))
    }

    /// The setting that has this server refuse a start without huge pages, if its release has one.
    pub fn insisting_setting(&self, instance: &Instance) -> Option<&'static str> {
        self.insists_by.filter(|_| (self.can_insist)(instance))
    }
}

/// What reports say of a kind that was never [`tried`](EngineKind::tried).
pub const UNTRIED: &str = "based on its vendor's documents, not tested on a real server";

/// A message of a server, or a setting that people meet with one, about huge pages.
#[derive(Debug)]
pub struct Message {
    /// How people look it up: `ORA-27102`.
    pub name: &'static str,
    /// Its own words.
    pub says: &'static str,
    /// What it means.
    pub means: &'static str,
    /// Where to look.
    pub look: &'static str,
    /// Codes of the rules that find its causes.
    pub rules: &'static [&'static str],
    /// Where that is documented.
    pub sources: &'static [&'static str],
}

impl Message {
    /// Whether a word means it: in any case, with or without the colon of logs or leading zeros.
    pub fn matches_word(&self, word: &str) -> bool {
        let plain = |word: &str| {
            let word = word.trim().trim_end_matches(':').to_ascii_uppercase();
            match word.strip_prefix("ORA-") {
                Some(number) => format!("ORA-{}", number.trim_start_matches('0')),
                None => word.strip_suffix("_HINT").map(str::to_owned).unwrap_or(word),
            }
        };
        plain(word) == plain(self.name)
    }
}

/// What a vendor says of a server's memory.
#[derive(Debug)]
pub struct Vendor {
    /// What people call the server.
    pub name: &'static str,
    /// Its heap should take at most half of memory, and stay within compressed references.
    pub heap: bool,
    /// How it keeps its memory from being swapped out, where it is to.
    pub lock: Option<&'static str>,
    /// The kernel is not to compact memory for its transparent huge pages.
    pub no_defrag: bool,
    /// What it makes of THP set to `always`, where it says so.
    pub thp: Option<ThpAdvice>,
}

/// A heap of objects that refer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// What it may grow to.
    pub most: Bytes,
    /// What compressed references reach, where less: beyond it references are twice as large.
    pub beyond: Option<Bytes>,
}

/// Who makes a server ask for huge pages.
#[derive(Clone, Copy)]
pub enum SettingsBy {
    /// A step of a plan.
    Plan(&'static Settable),
    /// A person: what to do is said.
    Person,
    /// Nobody: it has no such setting.
    Nobody,
}

/// Describes a server that does not run; with the last argument its program may be asked.
pub type Describe = fn(&Host, &dyn Source, &Description, bool) -> Result<Described, DescribeError>;

/// What an engine makes of THP set to `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThpAdvice {
    /// It says never or madvise; `always` is as bad as this for it.
    Against(Level),
    /// It says never (`always` is as bad for it); as it asks for none, it has none under madvise.
    Never(Level),
    /// It says madvise, as it asks for some itself; `always` is as bad as this for it.
    Madvise(Level),
    /// It asks for `always`.
    For,
}

/// The advice depends on an unknown version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version: {why}")]
pub struct VersionUnknown {
    /// Why it is not.
    pub why: String,
}

/// A log's path as a server names it, below its data directory unless it is absolute.
pub(crate) fn resolve_log_path(folder: &str, path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}
