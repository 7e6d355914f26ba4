//! What servers' logs say, held against what the servers map.

use hugewise_advice::standing::Standing;
use hugewise_engines::Kind;
use hugewise_engines::logs::{LogReport, LogVerdict};
use hugewise_model::{Engine, Instance};
use hugewise_report::Disagreement;

/// For each log the instance that wrote it: the only one of its engine, or the one that its path names.
pub(crate) fn matches(instances: &[Instance], logs: &[LogReport]) -> Vec<Option<usize>> {
    let of = |log: &LogReport| {
        let kin = |engine: Engine| std::ptr::eq(Kind::of(engine), Kind::of(log.engine));
        let same: Vec<usize> =
            (0..instances.len()).filter(|at| instances.get(*at).is_some_and(|it| kin(it.engine))).collect();
        if let [only] = same.as_slice() {
            return Some(*only);
        }
        let named = |at: &&usize| instances.get(**at).is_some_and(|instance| names(&log.path, instance));
        let mut named = same.iter().filter(named);
        named.next().filter(|_| named.next().is_none()).copied()
    };
    logs.iter().map(of).collect()
}

fn names(path: &str, instance: &Instance) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let within = instance.data_directory.known().is_some_and(|folder| {
        path.strip_prefix(folder.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
    });
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let name = instance.name.replace('/', "-");
    within || stem == name || stem.ends_with(&format!("_{name}")) || stem.ends_with(&format!("-{name}"))
}

pub(crate) fn disagreements(
    instances: &[Instance],
    standings: &[Standing],
    logs: &[LogReport],
    matched: &[Option<usize>],
) -> Vec<Disagreement> {
    let pairs = logs.iter().zip(matched).filter_map(|(log, at)| {
        let (instance, mapped) = (instances.get((*at)?)?, standings.get((*at)?)?);
        let agree = match (log.verdict, mapped) {
            (LogVerdict::Unknown, _) | (_, Standing::Unknown | Standing::NotCounted(_)) => true,
            (says, mapped) => says.as_str() == mapped.as_str(),
        };
        (!agree).then(|| Disagreement {
            instance: instance.title(),
            log: log.path.clone(),
            says: log.verdict,
            mapped: mapped.clone(),
        })
    });
    pairs.collect()
}

/// The worst of all: mappings decide of servers that run, logs of those that don't.
pub(crate) fn verdict(standings: &[Standing], logs: &[LogReport], matched: &[Option<usize>]) -> Standing {
    let alone = logs.iter().zip(matched).filter(|(_, at)| at.is_none()).filter_map(|(log, _)| match log.verdict {
        LogVerdict::Partly => Some(Standing::Partly),
        LogVerdict::None | LogVerdict::Failed => Some(Standing::None),
        // That a server which is not seen to run was once on huge pages proves nothing.
        LogVerdict::All | LogVerdict::Unknown => None,
    });
    let all = standings.iter().cloned().chain(alone);
    let counted: Vec<Standing> = all.filter(|standing| !matches!(standing, Standing::NotCounted(_))).collect();
    let has = |wanted: &Standing| counted.contains(wanted);
    let worst = [Standing::None, Standing::Partly, Standing::Unknown, Standing::All].into_iter().find(has);
    worst.unwrap_or(Standing::Unknown)
}

#[cfg(test)]
mod tests {
    use hugewise_engines::Scene;
    use hugewise_engines::log_files::read_log;
    use hugewise_engines::logs::LogText;
    use hugewise_host::source::MapSource;
    use hugewise_model::{Host, Observed, Process};

    use super::*;

    fn instance(engine: Engine, name: &str) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        Scene::new(&host, &source).instance(engine, name.into(), &Process::default(), Vec::new())
    }

    fn log(engine: Engine, path: &str, verdict: LogVerdict) -> LogReport {
        let mut log = read_log(&LogText { path, bytes: b"nothing of a start\n" }, Some(engine)).unwrap();
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
            assert_eq!(matches(&instances, &[log(engine, path, LogVerdict::All)]), [expected], "{path}");
        }
    }

    #[test]
    fn mappings_decide_of_servers_that_run_and_logs_of_those_that_do_not() {
        let of = |standings: &[Standing], says, at| verdict(standings, &[log(Engine::Oracle, "/a", says)], &[at]);
        assert_eq!(of(&[Standing::All], LogVerdict::None, Some(0)), Standing::All);
        assert_eq!(of(&[Standing::None], LogVerdict::All, Some(0)), Standing::None);
        assert_eq!(of(&[Standing::All], LogVerdict::Failed, None), Standing::None);
        assert_eq!(of(&[Standing::All], LogVerdict::All, None), Standing::All);
        assert_eq!(of(&[], LogVerdict::All, None), Standing::Unknown);
        assert_eq!(of(&[], LogVerdict::Partly, None), Standing::Partly);
    }

    #[test]
    fn the_worst_instance_decides_and_nothing_to_look_at_is_no_proof() {
        let of = |standings: &[Standing]| verdict(standings, &[], &[]);
        assert_eq!(of(&[Standing::All, Standing::Unknown]), Standing::Unknown);
        assert_eq!(of(&[Standing::Unknown, Standing::Partly]), Standing::Partly);
        assert_eq!(of(&[Standing::Partly, Standing::None]), Standing::None);
        assert_eq!(of(&[Standing::All, Standing::NotCounted("x")]), Standing::All);
        assert_eq!(of(&[Standing::NotCounted("x")]), Standing::Unknown);
        assert_eq!(of(&[]), Standing::Unknown);
    }
}
