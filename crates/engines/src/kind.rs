//! What an engine's folder registers: everything about its kind that the other rooms need to know.

use hugewise_host::Source;
use hugewise_host::capture::Rewrite;
use hugewise_model::{Engine, Host, Instance, Level, Process};

use crate::connect::Question;
use crate::connect::Sockets;
use crate::description::{DescribeError, Described, Description};
use crate::{Found, Scene};

/// An engine, or several that are one but for their names.
pub struct Kind {
    /// Its kind, or its main one where two share a file.
    pub engine: Engine,
    /// All the engines that it finds, and what people call each.
    pub names: &'static [(Engine, &'static str)],
    /// Names of its programs; one that ends in `*` begins so.
    pub programs: &'static [&'static str],
    /// Finds its running instances.
    pub find: fn(&Scene<'_>, &mut Found),
    /// Accounts that are made for its servers, by its packages and its documentation: a server of this kind that runs as
    /// one of them is known to root.
    pub accounts: &'static [&'static str],
    /// Options of its command lines that are read here: a capture keeps these and drops all others.
    /// An option named without its value keeps the value behind `=` or in the next word. With their
    /// dashes; an option that is named as a setting is kept by that.
    pub options: &'static [&'static str],
    /// Settings of its configuration files that are read here: a capture keeps these lines and drops all others.
    pub settings: &'static [&'static str],
    /// What a capture keeps of files in a format of their own, by path and content; none of a file that is not its own.
    pub rewrite: Option<Rewrite>,
    /// Describes one that does not run.
    pub describe: Option<Describe>,
    /// Asks a running one, and takes its answer in.
    pub(crate) connect: Option<(Ask, Answer)>,
    /// What it makes of THP set to `always`; none where it says nothing.
    pub thp: fn(&Host, &Instance) -> Result<Option<ThpAdvice>, VersionUnknown>,
    /// Commands that make an instance ask for huge pages, and refuse to start without them where the second argument says so
    /// and it can; what only people can do begins with `#`.
    pub ask: fn(&Instance, bool) -> Vec<String>,
    /// Whether an instance can be told which page size to take.
    pub takes_page_size: fn(&Instance) -> bool,
    /// Where a running one may write its log, the best place first, as it names it. The text is the root folder that its
    /// paths are below for the reader.
    pub(crate) logs: fn(&Host, &dyn Source, &str, &Instance) -> Vec<String>,
    /// Whether the working directory of its process is read: it holds the data, or completes a path of its arguments.
    pub(crate) reads_folder: fn(&Process) -> bool,
}

/// How a server is described that does not run; with the last argument its own program may be asked.
pub type Describe = fn(&Host, &dyn Source, &Description, bool) -> Result<Described, DescribeError>;
/// How a running server is asked.
pub(crate) type Ask = fn(&Instance, &Sockets<'_>) -> Result<Question, String>;
/// How its answer is taken in.
pub(crate) type Answer = fn(&Host, &mut Instance, &str) -> Result<(), String>;

/// What an engine makes of THP set to `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThpAdvice {
    /// It says never or madvise; `always` is as bad as this for it.
    Against(Level),
    /// It asks for `always`.
    For,
}

/// The advice hangs on a version that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionUnknown {
    /// Why it is not.
    pub why: String,
}

impl std::fmt::Display for VersionUnknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "version: {}", self.why)
    }
}

impl std::error::Error for VersionUnknown {}

impl Kind {
    /// What a kind has that says nothing of its own.
    pub(crate) const PLAIN: Self = Self {
        engine: Engine::Other,
        names: &[],
        programs: &[],
        find: |_, _| {},
        accounts: &[],
        options: &[],
        settings: &[],
        rewrite: None,
        describe: None,
        connect: None,
        thp: |_, _| Ok(None),
        ask: |_, _| vec!["# turn huge pages on in its own settings, where it has them".into()],
        takes_page_size: |_| false,
        logs: |_, _, _, _| Vec::new(),
        reads_folder: |_| false,
    };

    /// Whether a program of that name is one of its servers.
    pub fn runs(&self, program: &str) -> bool {
        self.programs.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => program.starts_with(start),
            None => program == *name,
        })
    }
}

/// A path of a log as a server names it, below its data directory where it is no absolute one.
pub(crate) fn beneath(folder: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hugewise_host::capture::reads_options_of;
    use hugewise_host::source::MapSource;
    use hugewise_model::Observed;

    use super::*;
    use crate::{kind_of, kinds};

    const ALL: [Engine; 10] = [
        Engine::Oracle,
        Engine::PostgreSql,
        Engine::MySql,
        Engine::MariaDb,
        Engine::Jvm,
        Engine::Redis,
        Engine::Valkey,
        Engine::MongoDb,
        Engine::Qemu,
        Engine::Other,
    ];

    /// A new engine does not compile until it is in the list above.
    const fn place(engine: Engine) -> usize {
        match engine {
            Engine::Oracle => 0,
            Engine::PostgreSql => 1,
            Engine::MySql => 2,
            Engine::MariaDb => 3,
            Engine::Jvm => 4,
            Engine::Redis => 5,
            Engine::Valkey => 6,
            Engine::MongoDb => 7,
            Engine::Qemu => 8,
            Engine::Other => 9,
        }
    }

    #[test]
    fn every_engine_is_of_one_kind_and_has_a_name() {
        for (at, engine) in ALL.into_iter().enumerate() {
            assert_eq!(place(engine), at);
            let of =
                kinds().iter().filter(|kind| kind.engine == engine || kind.names.iter().any(|one| one.0 == engine));
            assert_eq!(of.count(), 1, "{engine}");
            let kind = kind_of(engine).unwrap();
            let named = kind.names.iter().find(|(one, _)| *one == engine);
            assert!(named.is_some_and(|(_, name)| !name.is_empty()) || engine == Engine::Other, "{engine}");
        }
        assert_eq!(kinds().last().map(|kind| kind.engine), Some(Engine::Other), "it takes what is left");
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

    /// What is listed in other rooms has every kind of server in it.
    #[test]
    fn every_list_of_the_product_has_every_kind() {
        const LOOKED_FOR: &str = include_str!("../../report/src/text/nothing.rs");
        const SIZED: &str = include_str!("../../../docs/sizing.md");
        const DESCRIBED: &str = include_str!("../../cli/src/described.rs");
        for kind in kinds().iter().filter(|kind| kind.engine != Engine::Other) {
            for (engine, name) in kind.names {
                assert!(LOOKED_FOR.contains(&format!("\"{name}\")")), "{engine} is not said to be looked for");
                if kind.describe.is_some() {
                    assert!(DESCRIBED.contains(&format!("Engine::{engine:?}")), "{engine} cannot be described");
                    let word = match engine {
                        Engine::Jvm => "Java",
                        Engine::Qemu => "QEMU",
                        _ => name,
                    };
                    assert!(SIZED.contains(word), "{engine} is not in docs/sizing.md");
                }
            }
            for program in kind.programs {
                let captured = reads_options_of(&program.replace('*', "x86_64"));
                assert!(captured, "a capture drops the options of {program}");
            }
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

    /// Redis, Valkey, Oracle: never or madvise; MongoDB: off up to 7, `always` from 8 on, where its allocator is for the
    /// processor.
    #[test]
    fn what_each_makes_of_thp() {
        let of = |engine, version| {
            let (host, instance) = instance(engine, version);
            (kind_of(engine).unwrap().thp)(&host, &instance)
        };
        let against = |level| Ok(Some(ThpAdvice::Against(level)));
        for engine in [Engine::Oracle, Engine::Redis, Engine::Valkey] {
            assert_eq!(of(engine, None), against(Level::Warn), "{engine}");
        }
        assert_eq!(of(Engine::PostgreSql, None), against(Level::Info));
        assert_eq!(of(Engine::MongoDb, Some("7.0.5")), against(Level::Warn));
        assert_eq!(of(Engine::MongoDb, Some("v8.0.1")), Ok(Some(ThpAdvice::For)));
        assert!(of(Engine::MongoDb, None).is_err());
        for engine in [Engine::MySql, Engine::MariaDb, Engine::Jvm, Engine::Qemu, Engine::Other] {
            assert_eq!(of(engine, None), Ok(None), "{engine}");
        }
        let (mut host, instance) = instance(Engine::MongoDb, Some("8.0.1"));
        host.architecture = Observed::Known("s390x".into());
        assert_eq!((kind_of(Engine::MongoDb).unwrap().thp)(&host, &instance), against(Level::Warn));
    }

    #[test]
    fn each_says_how_it_is_made_to_ask_and_whether_for_a_page_size() {
        for engine in ALL {
            let kind = kind_of(engine).unwrap();
            let (_, instance) = instance(engine, None);
            for must in [false, true] {
                assert!(!(kind.ask)(&instance, must).is_empty(), "{engine}");
            }
            let takes = matches!(engine, Engine::Jvm | Engine::Qemu | Engine::Other);
            assert_eq!((kind.takes_page_size)(&instance), takes, "{engine}");
        }
    }
}
