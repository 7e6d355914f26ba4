//! Compares what servers' logs say with what the servers map.

use hugewise_diagnose::coverage::Coverage;
use hugewise_engines::EngineKind;
use hugewise_engines::logs::{LogReport, LogVerdict};
use hugewise_model::{Engine, Instance};
use hugewise_report::LogDisagreement;

/// Each log's instance: the only one of its engine, or the one that its path names.
pub(crate) fn match_logs(instances: &[Instance], logs: &[LogReport]) -> Vec<Option<usize>> {
    let count_of = |log: &LogReport| {
        let kin = |engine: Engine| {
            std::ptr::eq(EngineKind::for_engine(engine), EngineKind::for_engine(log.engine))
        };
        let same: Vec<usize> = (0..instances.len())
            .filter(|at| instances.get(*at).is_some_and(|instance| kin(instance.engine)))
            .collect();
        if let [only] = same.as_slice() {
            return Some(*only);
        }
        let named = |at: &&usize| {
            instances.get(**at).is_some_and(|instance| path_names_instance(&log.path, instance))
        };
        let mut named = same.iter().filter(named);
        named.next().filter(|_| named.next().is_none()).copied()
    };
    logs.iter().map(count_of).collect()
}

fn path_names_instance(path: &str, instance: &Instance) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let within = instance.data_directory.as_known().is_some_and(|folder| {
        path.strip_prefix(folder.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
    });
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let name = instance.name.replace('/', "-");
    within
        || stem == name
        || stem.ends_with(&format!("_{name}"))
        || stem.ends_with(&format!("-{name}"))
}

pub(crate) fn find_disagreements(
    instances: &[Instance],
    standings: &[Coverage],
    logs: &[LogReport],
    matched: &[Option<usize>],
) -> Vec<LogDisagreement> {
    let pairs = logs.iter().zip(matched).filter_map(|(log, at)| {
        let (instance, mapped) = (instances.get((*at)?)?, standings.get((*at)?)?);
        let agree = match (log.verdict, mapped) {
            (LogVerdict::Unknown, _) | (_, Coverage::Unknown | Coverage::NotCounted(_)) => true,
            (says, mapped) => says.as_str() == mapped.as_str(),
        };
        (!agree).then(|| LogDisagreement {
            instance: instance.title(),
            log: log.path.clone(),
            says: log.verdict,
            mapped: mapped.clone(),
        })
    });
    pairs.collect()
}

/// Mappings decide for running servers, logs for others.
pub(crate) fn worst_standing(
    standings: &[Coverage],
    logs: &[LogReport],
    matched: &[Option<usize>],
) -> Coverage {
    let alone = logs.iter().zip(matched).filter(|(_, at)| at.is_none()).filter_map(|(log, _)| {
        match log.verdict {
            LogVerdict::Partly => Some(Coverage::Partly),
            LogVerdict::None | LogVerdict::Failed | LogVerdict::Died => Some(Coverage::None),
            // That a server which is not seen to run was once on huge pages proves nothing.
            LogVerdict::All | LogVerdict::Unknown => None,
        }
    });
    let all = standings.iter().cloned().chain(alone);
    let counted: Vec<Coverage> =
        all.filter(|standing| !matches!(standing, Coverage::NotCounted(_))).collect();
    let has = |wanted: &Coverage| counted.contains(wanted);
    let worst =
        [Coverage::None, Coverage::Partly, Coverage::Unknown, Coverage::All].into_iter().find(has);
    worst.unwrap_or(Coverage::Unknown)
}

#[cfg(test)]
mod tests {
    use hugewise_engines::EngineContext;
    use hugewise_engines::log_files::read_log;
    use hugewise_engines::logs::LogText;
    use hugewise_host::source::MapSource;
    use hugewise_model::{Host, Observed, Process};

    use super::*;

    fn instance(engine: Engine, name: &str) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        EngineContext::new(&host, &source).new_instance(
            engine,
            name.into(),
            &Process::default(),
            Vec::new(),
        )
    }

    fn log(engine: Engine, path: &str, verdict: LogVerdict) -> LogReport {
        let mut log =
            read_log(&LogText { path, bytes: b"nothing of a start\n" }, Some(engine)).unwrap();
        log.verdict = verdict;
        log
    }

    #[test]
    fn a_log_belongs_to_the_only_server_of_its_kind_or_to_the_one_that_its_path_names() {
        let mut second = instance(Engine::PostgreSql, "5433");
        second.data_directory = Observed::Known("/srv/pg".into());
        let instances = [
            instance(Engine::Oracle, "PROD"),
            instance(Engine::PostgreSql, "15/main"),
            second,
            instance(Engine::MariaDb, "3306"),
        ];
        for (engine, path, expected) in [
            (Engine::Oracle, "/tmp/a.log", Some(0)),
            (Engine::MySql, "/tmp/a.log", Some(3)),
            (Engine::PostgreSql, "/var/log/postgresql/postgresql-15-main.log", Some(1)),
            (Engine::PostgreSql, "/srv/pg/log/a.log", Some(2)),
            (Engine::PostgreSql, "/srv/pgother/log/a.log", None),
            (Engine::Jvm, "/tmp/gc.log", None),
        ] {
            assert_eq!(
                match_logs(&instances, &[log(engine, path, LogVerdict::All)]),
                [expected],
                "{path}"
            );
        }
    }

    #[test]
    fn mappings_decide_of_servers_that_run_and_logs_of_those_that_do_not() {
        let coverage_of = |standings: &[Coverage], says, at| {
            worst_standing(standings, &[log(Engine::Oracle, "/a", says)], &[at])
        };
        assert_eq!(coverage_of(&[Coverage::All], LogVerdict::None, Some(0)), Coverage::All);
        assert_eq!(coverage_of(&[Coverage::None], LogVerdict::All, Some(0)), Coverage::None);
        assert_eq!(coverage_of(&[Coverage::All], LogVerdict::Failed, None), Coverage::None);
        assert_eq!(coverage_of(&[Coverage::All], LogVerdict::All, None), Coverage::All);
        assert_eq!(coverage_of(&[], LogVerdict::All, None), Coverage::Unknown);
        assert_eq!(coverage_of(&[], LogVerdict::Partly, None), Coverage::Partly);
    }

    #[test]
    fn the_worst_instance_decides_and_nothing_to_look_at_is_no_proof() {
        let coverage_of = |standings: &[Coverage]| worst_standing(standings, &[], &[]);
        assert_eq!(coverage_of(&[Coverage::All, Coverage::Unknown]), Coverage::Unknown);
        assert_eq!(coverage_of(&[Coverage::Unknown, Coverage::Partly]), Coverage::Partly);
        assert_eq!(coverage_of(&[Coverage::Partly, Coverage::None]), Coverage::None);
        assert_eq!(coverage_of(&[Coverage::All, Coverage::NotCounted("x")]), Coverage::All);
        assert_eq!(coverage_of(&[Coverage::NotCounted("x")]), Coverage::Unknown);
        assert_eq!(coverage_of(&[]), Coverage::Unknown);
    }
}
