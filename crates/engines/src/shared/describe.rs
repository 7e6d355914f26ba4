//! Servers that are only described: each becomes an [`Instance`](hugewise_model::Instance) without
//! a process, so that everything that counts instances counts it too.

use hugewise_host::Source;
use hugewise_model::Host;

pub use crate::shared::description::{DescribeError, Described, Description, NO_IDENTITY};
use crate::shared::{instance_names, options};
use crate::{DescribedBy, EngineKind, all_kinds};

/// What the described server needs. With `ask` its own program may be run, which never touches its
/// files.
/// # Errors
/// The description, or a file that it names, makes no sense.
pub fn describe_server(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    ask: bool,
) -> Result<Described, DescribeError> {
    let engine = description.engine();
    let described = match EngineKind::for_engine(engine).describe {
        Some((_, by_kind)) => by_kind(host, source, description, ask),
        None => Err(DescribeError::new(
            format!("{engine} has no configuration file that gives its memory size"),
            "describe it in another way",
        )),
    };
    described.map_err(|error| match description {
        Description::Config { path, .. } if error.file.is_none() => {
            DescribeError { file: Some(path.clone()), ..error }
        }
        _ => error,
    })
}

/// What a command line needs, if its program is a server's and it makes sense.
pub fn describe_command_line(
    host: &Host,
    source: &dyn Source,
    command: Vec<String>,
) -> Option<Described> {
    let program = options::file_name(command.first()?);
    let kind = all_kinds().iter().find(|kind| kind.is_server_program(program))?;
    let by_command = kind.describe.is_some_and(|(by, _)| matches!(by, DescribedBy::Command(_)));
    by_command.then(|| {
        describe_server(host, source, &Description::Command { engine: kind.engine, command }, false)
            .ok()
    })?
}

/// What several servers of one host need: no two have the same name or the same segment.
/// # Errors
/// The first of them that makes no sense.
pub fn describe_all(
    host: &Host,
    source: &dyn Source,
    descriptions: &[Description],
    ask: bool,
) -> Result<Vec<Described>, DescribeError> {
    let all =
        descriptions.iter().map(|description| describe_server(host, source, description, ask));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    let mut segments = 0;
    for at in 0..all.len() {
        let (before, rest) = all.split_at_mut(at);
        let Some(Described { instance, .. }) = rest.first_mut() else { continue };
        let others = before.iter().map(|described| &described.instance);
        let same_engine = others.filter(|other| other.engine == instance.engine);
        let taken: Vec<&str> = same_engine.map(|other| other.name.as_str()).collect();
        instance.name = instance_names::unused_name(&instance.name, &taken);
        for segment in instance.segments.iter_mut().filter(|_| instance.pid == 0) {
            segment.identity = (NO_IDENTITY.0, segments);
            segments += 1;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_host::source::MapSource;
    use hugewise_model::{Bytes, Engine};
    use std::collections::BTreeSet;

    #[test]
    fn several_servers_are_told_apart() {
        let source = MapSource::new()
            .with_file("/a/pg.conf", "")
            .with_file("/b/pg.conf", "cluster_name = 'a 2'\n");
        let config = |path: &str| Description::Files {
            engine: Engine::PostgreSql,
            data_dir: None,
            config: Some(path.into()),
            server_binary: None,
        };
        let segment = Description::Segment { bytes: Bytes::from_gib(5) };
        let descriptions = [
            config("/a/pg.conf"),
            config("/b/pg.conf"),
            config("/a/pg.conf"),
            segment.clone(),
            segment,
        ];
        let all = describe_all(&Host::default(), &source, &descriptions, true).unwrap();
        let names: BTreeSet<_> = all.iter().map(|described| described.instance.title()).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(names.contains("postgresql a 3"), "{names:?}");
        let segments = all.iter().flat_map(|described| &described.instance.segments);
        let identities: Vec<_> = segments.map(|segment| segment.identity).collect();
        assert_eq!(identities.iter().collect::<BTreeSet<_>>().len(), identities.len());
        assert!(identities.len() >= 5);
        assert!(describe_all(&Host::default(), &source, &[config("/none")], true).is_err());
    }

    #[test]
    fn an_error_names_file_and_line_and_what_to_do() {
        let error = DescribeError::for_file("/etc/my.cnf", "no size in \"64X\"", "write it as 64M");
        assert_eq!(
            error.clone().at_line(12).to_string(),
            "/etc/my.cnf:12: no size in \"64X\"; write it as 64M"
        );
        assert_eq!(
            error.at_line(0).to_string(),
            "/etc/my.cnf: no size in \"64X\"; write it as 64M"
        );
        assert_eq!(DescribeError::new("nothing to do", "").to_string(), "nothing to do");
    }

    #[test]
    fn a_server_without_such_a_file_is_named() {
        let redis = Description::Config { engine: Engine::Redis, path: "/etc/redis.conf".into() };
        let error = describe_server(&Host::default(), &MapSource::new(), &redis, true).unwrap_err();
        assert!(
            error.to_string().starts_with("/etc/redis.conf: redis has no configuration file"),
            "{error}"
        );
    }
}
