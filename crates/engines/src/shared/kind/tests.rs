use std::collections::BTreeSet;

use hugewise_host::source::MapSource;
use hugewise_model::Observed;

use super::*;
use crate::all_kinds;
use crate::engines::clickhouse::CLICKHOUSE;
use crate::engines::db2::DB2;
use crate::engines::hana::HANA;
use crate::engines::informix::INFORMIX;
use crate::engines::sqlserver::SQL_SERVER;

fn all() -> Vec<Engine> {
    all_kinds()
        .iter()
        .flat_map(|kind| kind.names.iter().map(|(engine, _)| *engine).chain([kind.engine]))
        .collect()
}

#[test]
fn every_engine_is_of_one_kind_and_has_a_name() {
    let mut names = BTreeSet::new();
    for kind in all_kinds() {
        let other = kind.engine == Engine::Other;
        assert_eq!(kind.names.is_empty(), other, "{}", kind.engine);
        assert!(
            other || kind.names.iter().any(|(engine, _)| *engine == kind.engine),
            "{}",
            kind.engine
        );
        for (engine, name) in kind.names {
            assert!(
                names.insert(engine.as_str()) && names.insert(name),
                "{engine} is told apart by its names"
            );
            assert!(std::ptr::eq(EngineKind::for_engine(*engine), *kind), "{engine}");
            let word = engine
                .as_str()
                .bytes()
                .all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit());
            assert!(word && !name.is_empty(), "{engine}");
        }
    }
    assert_eq!(
        all_kinds().last().map(|kind| kind.engine),
        Some(Engine::Other),
        "it takes what is left"
    );
    let last = all().into_iter().max();
    assert_eq!(last, Some(Engine::Other), "and sorts behind all others");
}

#[test]
fn no_two_kinds_have_the_same_programs_or_accounts() {
    let (mut programs, mut accounts) = (BTreeSet::new(), BTreeSet::new());
    for kind in all_kinds() {
        assert!(
            kind.recognition.programs.iter().all(|name| programs.insert(*name)),
            "{:?}",
            kind.recognition.programs
        );
        assert!(
            kind.recognition.accounts.iter().all(|name| accounts.insert(*name)),
            "{:?}",
            kind.recognition.accounts
        );
        let servers = kind.engine != Engine::Other;
        assert_eq!(
            (kind.recognition.programs.is_empty(), kind.recognition.accounts.is_empty()),
            (!servers, !servers),
            "{}",
            kind.engine
        );
    }
}

#[test]
fn options_have_dashes_and_settings_have_none() {
    for kind in all_kinds() {
        assert!(
            kind.capture.options.iter().all(|option| option.starts_with('-')),
            "{}",
            kind.engine
        );
        assert!(
            kind.capture.settings.iter().all(|setting| !setting.starts_with('-')),
            "{}",
            kind.engine
        );
        let unique: BTreeSet<_> = kind.capture.settings.iter().collect();
        assert_eq!(unique.len(), kind.capture.settings.len(), "{}", kind.engine);
    }
}

fn instance(engine: Engine, version: Option<&str>) -> (Host, Instance) {
    let (host, source) = (Host::default(), MapSource::new());
    let mut instance = EngineContext::new(&host, &source).new_instance(
        engine,
        "x".into(),
        &Process::default(),
        Vec::new(),
    );
    instance.version = version.map(str::to_owned).into();
    (host, instance)
}

/// Redis, Valkey, Oracle, ClickHouse: never or madvise; MongoDB: off up to 7, `always` from 8
/// on, where its allocator is for the processor; SQL Server: `always`. Of Db2 and Informix no
/// advice was found.
#[test]
fn what_each_makes_of_thp() {
    let thp_advice_of = |engine, version| {
        let (host, instance) = instance(engine, version);
        (EngineKind::for_engine(engine).thp.advise)(&host, &instance)
    };
    let against = |level| Ok(Some(ThpAdvice::Against(level)));
    for engine in [Engine::Oracle, Engine::Redis, Engine::Valkey, CLICKHOUSE, HANA] {
        assert_eq!(thp_advice_of(engine, None), against(Level::Warn), "{engine}");
    }
    assert_eq!(thp_advice_of(Engine::PostgreSql, None), against(Level::Info));
    let off = Ok(Some(ThpAdvice::Never(Level::Warn)));
    assert_eq!(thp_advice_of(Engine::MongoDb, Some("7.0.5")), off);
    assert_eq!(thp_advice_of(Engine::MongoDb, Some("v8.0.1")), Ok(Some(ThpAdvice::For)));
    assert!(thp_advice_of(Engine::MongoDb, None).is_err());
    assert_eq!(thp_advice_of(SQL_SERVER, None), Ok(Some(ThpAdvice::For)));
    for engine in
        [Engine::MySql, Engine::MariaDb, Engine::Jvm, Engine::Qemu, DB2, INFORMIX, Engine::Other]
    {
        assert_eq!(thp_advice_of(engine, None), Ok(None), "{engine}");
    }
    let (mut host, instance) = instance(Engine::MongoDb, Some("8.0.1"));
    host.architecture = Observed::Known("s390x".into());
    assert_eq!((EngineKind::for_engine(Engine::MongoDb).thp.advise)(&host, &instance), off);
}

/// Whoever has a word on THP says it for people too. A version decides for some: any of them
/// will do. In a JVM it is what runs there.
#[test]
fn who_has_a_word_on_thp_says_it_in_words() {
    for engine in all() {
        let (host, instance) = instance(engine, Some("1.0"));
        let kind = EngineKind::for_engine(engine);
        let is_silent = matches!((kind.thp.advise)(&host, &instance), Ok(None));
        let has_one = !is_silent || engine == Engine::Jvm;
        assert_eq!(has_one, kind.thp.summary.is_some(), "{engine}");
        let sourced =
            kind.thp.summary.is_none_or(|words| words.ends_with(')') && words.contains('('));
        assert!(sourced, "{engine} names no source");
    }
}

#[test]
fn a_message_is_meant_however_it_is_written() {
    let meant = |word: &str| {
        let all = all_kinds()
            .iter()
            .flat_map(|kind| kind.logs.messages)
            .filter(|message| message.matches_word(word));
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
        let kind = EngineKind::for_engine(engine);
        let (host, instance) = instance(engine, None);
        for must in [false, true] {
            assert!(!(kind.settings.commands)(&host, &instance, must).is_empty(), "{engine}");
        }
        if let Some(setting) = kind.settings.insists_by {
            // What a remedy says in a word is what the plan says in commands.
            let (name, value) = setting.split_once('=').unwrap();
            let told = (kind.settings.commands)(&host, &instance, true).join(" ");
            assert!(told.contains(name) && told.contains(value), "{engine}: {told}");
        }
        // What a plan sets is what is said in a word.
        if let SettingsBy::Plan(settable) = kind.settings.changed_by {
            let same = |(name, value): (&str, &str), told: &str| {
                let (said, to) = told.split_once('=').unwrap();
                assert!(
                    crate::shared::options::same_name(name, said) && value == to,
                    "{engine}: {name}={value}, and {told}"
                );
            };
            same(settable.asks, kind.settings.asks_by);
            assert_eq!(settable.insists.is_some(), kind.settings.insists_by.is_some(), "{engine}");
            assert_eq!(settable.can.is_some(), kind.settings.can_by.is_some(), "{engine}");
            assert_eq!(
                settable.page_size.map(|setting| setting.name),
                kind.page_size.setting,
                "{engine}"
            );
            settable
                .insists
                .zip(kind.settings.insists_by)
                .into_iter()
                .for_each(|(set, told)| same(set, told));
            settable
                .can
                .zip(kind.settings.can_by)
                .into_iter()
                .for_each(|(set, told)| same(set, told));
        }
    }
}

#[test]
fn texts_are_of_what_is_read() {
    for kind in all_kinds() {
        for (name, _) in kind.capture.value_shapes {
            let plain =
                |text: &str| text.trim_start_matches('-').replace('-', "_").to_ascii_lowercase();
            let read = kind.capture.options.iter().chain(kind.capture.settings).any(|text| {
                plain(text) == plain(name) || plain(text).rsplit('.').next() == Some(&plain(name))
            });
            let include =
                ["include", "includedir", "include_dir", "include_if_exists", "ifile", "spfile"];
            let inside = ["mem-path", "memory-backend", "oracle_home", "xlp"];
            assert!(
                read || include.contains(name) || inside.contains(name),
                "{} does not read {name}",
                kind.engine
            );
        }
    }
}
