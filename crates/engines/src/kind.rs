//! What an engine's folder registers: everything about its kind that the other rooms need to know.

use hugewise_host::Source;
use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::Shape;
use hugewise_model::instance::Setting;
use hugewise_model::{Bytes, Engine, Host, Instance, Level, Process, Trait};

use crate::description::{DescribeError, Described, Description};
use crate::estate::Estate;
use crate::logs::Format;
use crate::proposal::Proposal;
use crate::question::{Answer, Ask};
use crate::settable::Settable;
use crate::start::{Restarter, Start, Starter};
use crate::starting::Starting;
use crate::work::WorkMemory;
use crate::{Found, Scene};

/// An engine, or several that are one but for their names.
pub struct Kind {
    /// Its kind, or its main one where two share a file.
    pub engine: Engine,
    /// All the engines that it finds, and what people call each.
    pub names: &'static [(Engine, &'static str)],
    /// Whether it was tried on a real server. Of one that was not, [`UNTRIED`] is said wherever people ask for more.
    pub tried: bool,

    // Recognising.
    /// Names of its programs; one that ends in `*` begins so.
    pub programs: &'static [&'static str],
    /// Finds its running instances.
    pub find: fn(&Scene<'_>, &mut Found),
    /// Finds those that belong to the host and do not run.
    pub(crate) asleep: fn(&mut Estate<'_>),
    /// What another command line makes of its servers; none where no command line decides on huge pages.
    pub(crate) starting: Option<&'static Starting>,
    /// How the names of the services begin that its packages bring.
    pub(crate) services: &'static [&'static str],
    /// Accounts that are made for its servers, by its packages and its documentation: a server of this kind that runs as
    /// one of them is known to root.
    pub accounts: &'static [&'static str],
    /// The folder of the host that only root makes, and below which a program lies that runs as the account made for it alone:
    /// what is given are the program's path and the account's name. None where that account is none of its kind's.
    pub folder_of_account: for<'a> fn(&'a str, &str) -> Option<&'a str>,
    /// The name of a main process's program, where it is not the process's own name.
    pub program_of_main: Option<&'static str>,

    // What is read, and kept by a capture.
    /// Options of its command lines that are read here: a capture keeps these and drops all others.
    /// An option named without its value keeps the value behind `=` or in the next word. With their
    /// dashes; an option that is named as a setting is kept by that.
    pub options: &'static [&'static str],
    /// Settings of its configuration files that are read here: a capture keeps these lines and drops all others.
    pub settings: &'static [&'static str],
    /// Those of its settings and options whose values are paths or names; all others are numbers, sizes and a few words.
    pub texts: &'static [(&'static str, Shape)],
    /// Programs beside its servers whose command lines a capture keeps as far: they start these, or belong to them.
    pub companions: &'static [&'static str],
    /// How the names of mappings begin that tell of its memory, with nothing but a number behind that.
    pub mappings: &'static [&'static str],
    /// Files that it maps and that are read, by what is in their paths.
    pub mapped_files: &'static [&'static str],
    /// What a capture keeps of a line of its servers' own configuration files that sets nothing which is read: of one that they
    /// refuse as much as shows that. No value that can be a secret, and no name that is not known.
    pub own_line: Option<fn(&str) -> Option<String>>,
    /// What a capture keeps of titles, arguments and files that have a form of their own.
    pub forms: Forms,
    /// Whether the working directory of its process is read: it holds the data, or completes a path of its arguments.
    pub(crate) reads_folder: fn(&Process) -> bool,
    /// Its configuration is below its owner's home folder.
    pub reads_home: bool,
    /// Where a running one may write its log, the best place first, as it names it. The text is the root folder that its
    /// paths are below for the reader.
    pub(crate) logs: fn(&Host, &dyn Source, &str, &Instance) -> Vec<String>,
    /// The format of its logs.
    pub(crate) log_format: Option<&'static Format>,

    /// Its messages about memory, explained.
    pub messages: &'static [Message],

    // Asking.
    /// Describes one that does not run, by what people say of it.
    pub describe: Option<(By, Describe)>,
    /// Asks a running one, and takes its answer in.
    pub(crate) connect: Option<(Ask, Answer)>,

    // Its memory and its sessions.
    /// How it starts.
    pub start: Start,
    /// The setting by which each of its processes touches all of the server's memory as it starts, where it has one and that
    /// is so: a login waits for it.
    pub touches_all: for<'a> fn(&'a Instance) -> Option<&'a Setting>,
    /// The setting by which it locks all of its System V segments as it starts, and does not start where it may not.
    pub locks_all: for<'a> fn(&'a Instance) -> Option<&'a Setting>,
    /// What it makes of THP set to `always`; none where it says nothing.
    pub thp: fn(&Host, &Instance) -> Result<Option<ThpAdvice>, VersionUnknown>,
    /// The same in words, with its source, for the page of the rule about it; none where it says nothing.
    pub thp_in_words: Option<&'static str>,
    /// What the vendor of a server says of its memory beyond huge pages, where it is one that says so.
    pub vendor: fn(&Instance) -> Option<&'static Vendor>,
    /// Its heap, where its settings say how large that may be.
    pub heap: fn(&Instance) -> Option<Heap>,
    /// Whether all of its private memory is touched as it starts, so that nobody waits for a page of it later.
    pub touches_heap: fn(&Instance) -> bool,
    /// Why pages of 1 GiB are nothing for it.
    pub against_gib_pages: Option<&'static str>,
    /// The setting that names the page size it asks for; none where it takes the host's.
    pub page_size_by: Option<&'static str>,
    /// Whether an instance's settings name the page size it takes; one that names none takes what is the default as it starts.
    pub names_page_size: fn(&Instance) -> bool,
    /// Whether an instance can be told which page size to take.
    pub takes_page_size: fn(&Instance) -> bool,
    /// Only its own settings put its memory on huge pages: one that is on them and no longer asks was changed since its start.
    pub only_by_settings: bool,
    /// A small one that does not ask for huge pages is no database worth a word.
    pub often_small: bool,
    /// Its sessions can be counted from outside, and its settings say how many there may be: a count that is not known is
    /// a fact that is missing.
    pub counts_sessions: bool,
    /// How fewer sessions of it can do the same work, in words.
    pub fewer_sessions: &'static str,
    /// The pool of threads that serves its sessions, by its settings and in words: few of them work at a time then, however many
    /// there are. None where each has a process or thread of its own.
    pub thread_pool: fn(&Instance) -> Option<String>,
    /// All its processes have its memory at one address: they are forked from the one that mapped it, or ask for that address.
    pub one_address: bool,
    /// A setting that makes the pieces larger in which its processes map private memory, with their size: its name promises
    /// larger pages.
    pub private_piece: fn(&Instance) -> Option<(&Setting, Bytes)>,
    /// Private memory that its settings grant its sessions.
    pub work_memory: fn(&Host, &Instance) -> WorkMemory,
    /// Page tables of one of its processes that touches nothing of its segments, with base pages of 4 KiB.
    pub process_tables: Bytes,

    // What is done about it.
    /// Commands that make an instance ask for huge pages, and refuse to start without them where the second argument says so
    /// and it can; what only people can do begins with `#`.
    pub ask: fn(&Host, &Instance, bool) -> Vec<String>,
    /// The same in a word: `huge_pages=try`.
    pub asks_by: &'static str,
    /// What tells how many pages a start with other settings needs, where hugewise itself cannot: `a restart will tell`.
    pub tells_demand: &'static str,
    /// The setting that puts memory that cannot be on huge pages where it can be; none where it has none.
    pub can_by: Option<&'static str>,
    /// The same in the words of one server, where more than a setting's name tells.
    pub can_how: Option<fn(&Instance) -> String>,
    /// The settings by which one server's memory that cannot be on huge pages would be where it can, with no less of it than
    /// now; none where nothing is to be proposed.
    pub proposal: fn(&Host, &Instance) -> Option<Proposal>,
    /// The setting that has it refuse a start without huge pages; none where it has none. Of one server
    /// [`insist_of`](Kind::insist_of) tells.
    pub insists_by: Option<&'static str>,
    /// Whether an instance's release knows that setting.
    pub can_insist: fn(&Instance) -> bool,
    /// Who changes its settings, as a plan sees it.
    pub settings_by: SettingsBy,
    /// Who restarts it, where its service may not.
    pub starter: Option<Starter>,
    /// What else than its service restarts one, where hugewise may.
    pub restarter: Option<Restarter>,
}

/// What is said of a kind that was never [`tried`](Kind::tried).
pub const UNTRIED: &str = "based on its vendor's documents, not tested on a real server";

/// A message of a server, or a setting that people meet with one, and what it has to do with huge pages.
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
    /// Whether somebody means it by that word: in any case, with the colon that logs have behind it, and a number with or without
    /// the zeros before it.
    pub fn is(&self, word: &str) -> bool {
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
    /// Its heap is to take no more than half of memory, and to stay below what compressed references reach.
    pub heap: bool,
    /// How it keeps its memory from being swapped out, where it is to.
    pub lock: Option<&'static str>,
    /// The kernel is not to compact memory for its transparent huge pages.
    pub no_defrag: bool,
}

/// A heap of objects that refer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// What it may grow to.
    pub most: Bytes,
    /// What compressed references reach, where that is less: its references take twice the room.
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

/// What people describe a server by that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its configuration file.
    Config,
    /// Its data directory, its configuration file, or both.
    Files,
    /// The size of its memory, or its configuration file.
    Sizes(&'static Sizes),
    /// Its command line, which begins like this one.
    Command(&'static str),
    /// Nothing that belongs to an engine.
    Segment,
}

/// Options that describe a server by its sizes.
#[derive(Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The size of its memory.
    pub size: SizeOption,
    /// What it may be made to grow to, where that is more.
    pub most: SizeOption,
    /// How many processes it may have.
    pub sessions: SizeOption,
    /// Servers of its kind that often run beside it.
    pub beside: &'static [Beside],
}

/// An option of `hugewise size`.
#[derive(Debug, PartialEq, Eq)]
pub struct SizeOption {
    /// Without its dashes.
    pub option: &'static str,
    /// What it says.
    pub help: &'static str,
}

/// A server beside the one that is described.
#[derive(Debug, PartialEq, Eq)]
pub struct Beside {
    /// The size of its memory.
    pub size: SizeOption,
    /// That size where none is given, as people write it.
    pub usual: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What marks it.
    pub marked: Trait,
}

impl Sizes {
    /// The options.
    pub fn options(&'static self) -> impl Iterator<Item = &'static str> {
        let beside = self.beside.iter().map(|beside| &beside.size);
        [&self.size, &self.most, &self.sessions].into_iter().chain(beside).map(|of| of.option)
    }
}

/// How a server is described that does not run; with the last argument its own program may be asked.
pub type Describe = fn(&Host, &dyn Source, &Description, bool) -> Result<Described, DescribeError>;

/// What an engine makes of THP set to `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThpAdvice {
    /// It says never or madvise; `always` is as bad as this for it.
    Against(Level),
    /// It says never; `always` is as bad as this for it. Under madvise it has none either, as it asks for none.
    Never(Level),
    /// It asks for `always`.
    For,
}

/// The advice hangs on a version that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version: {why}")]
pub struct VersionUnknown {
    /// Why it is not.
    pub why: String,
}

impl Kind {
    /// What puts a server's memory that cannot be on huge pages where it can be; none where nothing does.
    pub fn how_it_can(&self, instance: &Instance) -> Option<String> {
        self.can_how.map(|how| how(instance)).or_else(|| self.can_by.map(str::to_owned))
    }

    /// The setting that has this server refuse a start without huge pages; none where its release has none.
    pub fn insist_of(&self, instance: &Instance) -> Option<&'static str> {
        self.insists_by.filter(|_| (self.can_insist)(instance))
    }

    /// What a kind has that says nothing of its own.
    pub(crate) const PLAIN: Self = Self {
        engine: Engine::Other,
        names: &[],
        tried: true,
        programs: &[],
        find: |_, _| {},
        asleep: |_| {},
        starting: None,
        services: &[],
        accounts: &[],
        folder_of_account: |_, _| None,
        program_of_main: None,
        options: &[],
        settings: &[],
        texts: &[],
        companions: &[],
        mappings: &[],
        mapped_files: &[],
        own_line: None,
        forms: Forms::NONE,
        reads_folder: |_| false,
        reads_home: false,
        logs: |_, _, _, _| Vec::new(),
        log_format: None,
        messages: &[],
        describe: None,
        connect: None,
        start: Start::PLAIN,
        touches_all: |_| None,
        locks_all: |_| None,
        private_piece: |_| None,
        thp: |_, _| Ok(None),
        thp_in_words: None,
        vendor: |_| None,
        heap: |_| None,
        touches_heap: |_| false,
        against_gib_pages: None,
        page_size_by: None,
        names_page_size: |_| false,
        takes_page_size: |_| false,
        only_by_settings: false,
        often_small: false,
        counts_sessions: false,
        fewer_sessions: "fewer connections in each client's own pool, or a pooler in front",
        thread_pool: |_| None,
        one_address: true,
        work_memory: |_, _| WorkMemory::default(),
        process_tables: Bytes::from_kib(54),
        ask: |_, _, _| vec!["# turn huge pages on in its own settings, if it has such settings".into()],
        asks_by: "in its own settings",
        tells_demand: "only its next start tells",
        can_by: None,
        can_how: None,
        proposal: |_, _| None,
        insists_by: None,
        can_insist: |_| true,
        settings_by: SettingsBy::Person,
        starter: None,
        restarter: None,
    };

    /// What people call one of its engines.
    pub fn name_of(&self, engine: Engine) -> &'static str {
        self.names.iter().find(|(one, _)| *one == engine).map_or(engine.as_str(), |(_, name)| name)
    }

    /// Whether a program of that name is one of its servers.
    pub fn runs(&self, program: &str) -> bool {
        self.programs.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => program.starts_with(start),
            None => program == *name,
        })
    }

    /// Whether a unit that runs a program of that name starts one of its servers, itself or through another program.
    pub(crate) fn starts(&self, program: &str) -> bool {
        self.runs(program) || self.companions.contains(&program)
    }
}

/// A path of a log as a server names it, below its data directory where it is no absolute one.
pub(crate) fn beneath(folder: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hugewise_host::source::MapSource;
    use hugewise_model::Observed;

    use super::*;
    use crate::clickhouse::CLICKHOUSE;
    use crate::db2::DB2;
    use crate::hana::HANA;
    use crate::informix::INFORMIX;
    use crate::kinds;
    use crate::sqlserver::SQL_SERVER;

    /// Every engine of every kind.
    fn all() -> Vec<Engine> {
        kinds().iter().flat_map(|kind| kind.names.iter().map(|(engine, _)| *engine).chain([kind.engine])).collect()
    }

    #[test]
    fn every_engine_is_of_one_kind_and_has_a_name() {
        let mut names = BTreeSet::new();
        for kind in kinds() {
            let other = kind.engine == Engine::Other;
            assert_eq!(kind.names.is_empty(), other, "{}", kind.engine);
            assert!(other || kind.names.iter().any(|(engine, _)| *engine == kind.engine), "{}", kind.engine);
            for (engine, name) in kind.names {
                assert!(names.insert(engine.as_str()) && names.insert(name), "{engine} is told apart by its names");
                assert!(std::ptr::eq(Kind::of(*engine), *kind), "{engine}");
                let word = engine.as_str().bytes().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit());
                assert!(word && !name.is_empty(), "{engine}");
            }
        }
        assert_eq!(kinds().last().map(|kind| kind.engine), Some(Engine::Other), "it takes what is left");
        let last = all().into_iter().max();
        assert_eq!(last, Some(Engine::Other), "and sorts behind all others");
    }

    #[test]
    fn no_two_kinds_have_the_same_programs_or_accounts() {
        let (mut programs, mut accounts) = (BTreeSet::new(), BTreeSet::new());
        for kind in kinds() {
            assert!(kind.programs.iter().all(|name| programs.insert(*name)), "{:?}", kind.programs);
            assert!(kind.accounts.iter().all(|name| accounts.insert(*name)), "{:?}", kind.accounts);
            let servers = kind.engine != Engine::Other;
            assert_eq!((kind.programs.is_empty(), kind.accounts.is_empty()), (!servers, !servers), "{}", kind.engine);
        }
    }

    #[test]
    fn options_have_dashes_and_settings_have_none() {
        for kind in kinds() {
            assert!(kind.options.iter().all(|option| option.starts_with('-')), "{}", kind.engine);
            assert!(kind.settings.iter().all(|setting| !setting.starts_with('-')), "{}", kind.engine);
            let unique: BTreeSet<_> = kind.settings.iter().collect();
            assert_eq!(unique.len(), kind.settings.len(), "{}", kind.engine);
        }
    }

    fn instance(engine: Engine, version: Option<&str>) -> (Host, Instance) {
        let (host, source) = (Host::default(), MapSource::new());
        let mut instance = Scene::new(&host, &source).instance(engine, "x".into(), &Process::default(), Vec::new());
        instance.version = version.map(str::to_owned).into();
        (host, instance)
    }

    /// Redis, Valkey, Oracle, ClickHouse: never or madvise; MongoDB: off up to 7, `always` from 8 on, where its allocator is for
    /// the processor; SQL Server: `always`. Of Db2 and Informix no advice was found.
    #[test]
    fn what_each_makes_of_thp() {
        let of = |engine, version| {
            let (host, instance) = instance(engine, version);
            (Kind::of(engine).thp)(&host, &instance)
        };
        let against = |level| Ok(Some(ThpAdvice::Against(level)));
        for engine in [Engine::Oracle, Engine::Redis, Engine::Valkey, CLICKHOUSE, HANA] {
            assert_eq!(of(engine, None), against(Level::Warn), "{engine}");
        }
        assert_eq!(of(Engine::PostgreSql, None), against(Level::Info));
        assert_eq!(of(Engine::MongoDb, Some("7.0.5")), against(Level::Warn));
        assert_eq!(of(Engine::MongoDb, Some("v8.0.1")), Ok(Some(ThpAdvice::For)));
        assert!(of(Engine::MongoDb, None).is_err());
        assert_eq!(of(SQL_SERVER, None), Ok(Some(ThpAdvice::For)));
        for engine in [Engine::MySql, Engine::MariaDb, Engine::Jvm, Engine::Qemu, DB2, INFORMIX, Engine::Other] {
            assert_eq!(of(engine, None), Ok(None), "{engine}");
        }
        let (mut host, instance) = instance(Engine::MongoDb, Some("8.0.1"));
        host.architecture = Observed::Known("s390x".into());
        assert_eq!((Kind::of(Engine::MongoDb).thp)(&host, &instance), against(Level::Warn));
    }

    /// Whoever has a word on THP says it for people too. A version decides for some: any of them will do.
    #[test]
    fn who_has_a_word_on_thp_says_it_in_words() {
        for engine in all() {
            let (host, instance) = instance(engine, Some("1.0"));
            let kind = Kind::of(engine);
            let has_one = !matches!((kind.thp)(&host, &instance), Ok(None));
            assert_eq!(has_one, kind.thp_in_words.is_some(), "{engine}");
            let sourced = kind.thp_in_words.is_none_or(|words| words.ends_with(')') && words.contains('('));
            assert!(sourced, "{engine} names no source");
        }
    }

    #[test]
    fn a_message_is_meant_however_it_is_written() {
        let meant = |word: &str| {
            let all = kinds().iter().flat_map(|kind| kind.messages).filter(|message| message.is(word));
            all.map(|message| message.name).collect::<Vec<_>>()
        };
        for word in ["ORA-04030", "ora-4030", " ORA-04030 ", "ORA-04030:"] {
            assert_eq!(meant(word), ["ORA-04030"]);
        }
        assert_eq!(meant("ora-445"), ["ORA-00445"]);
        assert_eq!(meant("_realfree_heap_pagesize_hint"), ["_realfree_heap_pagesize"]);
        assert!(meant("ORA-").is_empty() && meant("4030").is_empty() && meant("").is_empty());
    }

    #[test]
    fn each_says_how_it_is_made_to_ask() {
        for engine in all() {
            let kind = Kind::of(engine);
            let (host, instance) = instance(engine, None);
            for must in [false, true] {
                assert!(!(kind.ask)(&host, &instance, must).is_empty(), "{engine}");
            }
            if let Some(setting) = kind.insists_by {
                // What a remedy says in a word is what the plan says in commands.
                let (name, value) = setting.split_once('=').unwrap();
                let told = (kind.ask)(&host, &instance, true).join(" ");
                assert!(told.contains(name) && told.contains(value), "{engine}: {told}");
            }
            // What a plan sets is what is said in a word.
            if let SettingsBy::Plan(settable) = kind.settings_by {
                let same = |(name, value): (&str, &str), told: &str| {
                    let (said, to) = told.split_once('=').unwrap();
                    assert!(
                        crate::options::same_name(name, said) && value == to,
                        "{engine}: {name}={value}, and {told}"
                    );
                };
                same(settable.asks, kind.asks_by);
                assert_eq!(settable.insists.is_some(), kind.insists_by.is_some(), "{engine}");
                assert_eq!(settable.can.is_some(), kind.can_by.is_some(), "{engine}");
                assert_eq!(settable.page_size.map(|setting| setting.name), kind.page_size_by, "{engine}");
                settable.insists.zip(kind.insists_by).into_iter().for_each(|(set, told)| same(set, told));
                settable.can.zip(kind.can_by).into_iter().for_each(|(set, told)| same(set, told));
            }
        }
    }

    #[test]
    fn texts_are_of_what_is_read() {
        for kind in kinds() {
            for (name, _) in kind.texts {
                let plain = |it: &str| it.trim_start_matches('-').replace('-', "_").to_ascii_lowercase();
                let read = kind
                    .options
                    .iter()
                    .chain(kind.settings)
                    .any(|it| plain(it) == plain(name) || plain(it).rsplit('.').next() == Some(&plain(name)));
                let include = ["include", "includedir", "include_dir", "include_if_exists", "ifile", "spfile"];
                let inside = ["mem-path", "memory-backend", "oracle_home"];
                assert!(
                    read || include.contains(name) || inside.contains(name),
                    "{} does not read {name}",
                    kind.engine
                );
            }
        }
    }
}
