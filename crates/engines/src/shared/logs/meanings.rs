//! What a server's messages mean for its memory and for itself: one table an engine, which
//! `investigate` makes events of, and by which `verify` knows a failed start.

use hugewise_model::Engine;

use crate::EngineKind;

/// What a message says happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMessageKind {
    /// A start goes on: what fails now keeps the server from starting.
    Starting,
    /// The server started.
    Started,
    /// The server ends, or ended, in order.
    Ended,
    /// Work that takes memory.
    Work,
    /// It started with fewer huge pages than it asked for, or without.
    WithoutHugePages,
    /// It did not start.
    Refused,
    /// It had not been shut down before this start.
    Recovered,
    /// It ended by itself.
    Failed,
    /// It was refused memory by the kernel. Whether it goes on depends on when.
    MemoryRefused,
    /// It waited for a disk, or stood still with its host.
    DiskWait,
    /// It saw the host swap.
    HostSwaps,
    /// It lacks memory, processes or connections.
    Trouble,
}

/// How messages begin, `*` for anything, and how their meaning is said. A client may put its own words
/// into a message: its beginning has to tell.
pub type MessageMeanings =
    &'static [(ServerMessageKind, &'static [(&'static str, &'static str)])];

/// What a message of this engine means. It begins with its level for PostgreSQL alone (`LOG:  `).
pub fn find_message_meaning(
    engine: Engine,
    message: &str,
) -> Option<(ServerMessageKind, &'static str)> {
    let is_met = |pattern: &str| {
        let (begin, more) = pattern.split_once('*').unwrap_or((pattern, ""));
        message.strip_prefix(begin).is_some_and(|rest| rest.contains(more))
    };
    EngineKind::for_engine(engine).logs.meanings.iter().find_map(|(kind, patterns)| {
        patterns.iter().find(|(pattern, _)| is_met(pattern)).map(|(_, what)| (*kind, *what))
    })
}

/// Whether a line has a message, behind anything, that says the server did not start.
pub(crate) fn tells_refused_start(meanings: MessageMeanings, line: &str) -> bool {
    let is_met = |pattern: &str| {
        let (begin, more) = pattern.split_once('*').unwrap_or((pattern, ""));
        line.split_once(begin).is_some_and(|(_, rest)| rest.contains(more))
    };
    meanings
        .iter()
        .filter(|(kind, _)| *kind == ServerMessageKind::Refused)
        .any(|(_, patterns)| patterns.iter().any(|(pattern, _)| is_met(pattern)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_comes_too_late_would_never_be_met() {
        for kind in crate::all_kinds() {
            let all: Vec<&str> = kind
                .logs
                .meanings
                .iter()
                .flat_map(|(_, patterns)| patterns.iter().map(|(pattern, _)| *pattern))
                .collect();
            for (at, pattern) in all.iter().enumerate() {
                let hidden = all
                    .iter()
                    .take(at)
                    .find(|before| !before.contains('*') && pattern.starts_with(**before));
                assert_eq!(hidden, None, "{}: {pattern}", kind.engine);
            }
        }
    }

    #[test]
    fn a_message_is_known_by_its_beginning() {
        let meant =
            |engine, message: &str| find_message_meaning(engine, message).map(|(kind, _)| kind);
        let refused = "mmap(137363456 bytes) failed; errno 12";
        assert_eq!(meant(Engine::MySql, refused), Some(ServerMessageKind::MemoryRefused));
        assert_eq!(meant(Engine::MariaDb, refused), Some(ServerMessageKind::MemoryRefused));
        assert_eq!(meant(Engine::MySql, "mmap(137363456 bytes) failed; errno 22"), None);
        assert_eq!(meant(Engine::MySql, &format!("a user said {refused}")), None);
        assert_eq!(meant(Engine::Redis, refused), None);
    }
}
