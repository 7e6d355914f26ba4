//! Titles of a PostgreSQL server's processes.

use hugewise_model::Process;

use crate::shared::options::{self, is_number};

/// Names of the server's program: upstream, its name before 9.5 or so, and EDB's.
pub(super) const PROGRAMS: [&str; 4] = ["postgres", "postmaster", "edb-postgres", "edb-postmaster"];

/// Modes of the program in which it is no server.
const NO_SERVER: [&str; 8] =
    ["--single", "--boot", "--check", "--describe-config", "--version", "-V", "--help", "-?"];

/// Whether a process runs the server's program, as a postmaster or as its child.
pub(super) fn is_server(process: &Process) -> bool {
    PROGRAMS.contains(&options::program_name(process)) || rewritten_title(process).is_some()
}

/// Whether a process of the server's program could be a postmaster: it has kept the command line of
/// its start, which is one of a server.
pub(super) fn is_postmaster(process: &Process) -> bool {
    let mode = process.command.as_known().and_then(|arguments| arguments.get(1));
    rewritten_title(process).is_none()
        && !mode.is_some_and(|mode| NO_SERVER.contains(&mode.as_str()))
}

/// Whether a child serves a client: `postgres: [CLUSTER: ]USER DATABASE HOST(PORT) ACTIVITY`, with
/// `[local]` for a socket (PostgreSQL 9.6 to 18). Of background processes only a walsender names a
/// client, and it serves a replica.
pub(super) fn is_session(process: &Process, cluster: Option<&str>) -> bool {
    let Some(title) = rewritten_title(process) else { return false };
    let without = |cluster: &str| title.strip_prefix(cluster)?.strip_prefix(": ");
    let body = match cluster {
        Some(cluster) => without(cluster).unwrap_or(title),
        None => title.split_once(": ").map_or(title, |(_, body)| body),
    };
    let walsender = ["walsender ", "wal sender process "].iter().any(|kind| body.starts_with(kind));
    !walsender && body.split_whitespace().skip(2).any(is_client)
}

pub(super) fn is_client(word: &str) -> bool {
    let port = || word.strip_suffix(')')?.rsplit_once('(');
    word == "[local]" || port().is_some_and(|(host, port)| !host.is_empty() && is_number(port))
}

fn rewritten_title(process: &Process) -> Option<&str> {
    let first = process.command.as_known()?.first()?;
    let (program, title) = first.split_once(": ")?;
    PROGRAMS.contains(&program).then(|| title.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::Observed;

    fn titled(text: &str) -> Process {
        Process { command: Observed::Known(vec![text.into(), String::new()]), ..Process::default() }
    }

    #[test]
    fn a_client_is_told_from_the_background() {
        for client in [
            "postgres: alice shop [local] idle",
            "postgres: alice shop 10.0.0.7(51234) idle in transaction",
            "postgres: alice shop 2001:db8::1(51234) SELECT",
            "postgres: startup startup [local] authentication",
            "edb-postgres: enterprisedb edb 127.0.0.1[46278](46278) idle",
        ] {
            assert!(is_session(&titled(client), Some("")), "{client}");
            let clustered = client.replacen(": ", ": 15/main: ", 1);
            assert!(is_session(&titled(&clustered), Some("15/main")), "{clustered}");
            assert!(is_session(&titled(&clustered), None), "{clustered}");
        }
        for background in [
            "postgres: checkpointer ",
            "postgres: background writer ",
            "postgres: autovacuum worker shop",
            "postgres: logical replication apply worker for subscription 16394",
            "postgres: walsender replicator 10.0.0.8(40000) streaming 0/3000148",
            "postgres: parallel worker for PID 4711 ",
            "postgres: io worker 2",
            "postgres: TimescaleDB Background Worker Launcher ",
            "postgres: archiver last was 000000010000000000000001",
            "/usr/lib/postgresql/15/bin/postgres",
        ] {
            assert!(!is_session(&titled(background), Some("")), "{background}");
            let clustered = background.replacen(": ", ": 15/main: ", 1);
            assert!(!is_session(&titled(&clustered), Some("15/main")), "{clustered}");
        }
    }

    #[test]
    fn a_process_with_a_title_of_its_own_is_no_postmaster() {
        assert!(!is_postmaster(&titled("postgres: 15/main: checkpointer ")));
        assert!(is_server(&titled("postgres: 15/main: checkpointer ")));
        assert!(is_postmaster(&titled("/usr/lib/postgresql/15/bin/postgres")));
        let mut single = titled("postgres");
        single.command = Observed::Known(vec!["postgres".into(), "--single".into()]);
        assert!(!is_postmaster(&single));
    }
}
