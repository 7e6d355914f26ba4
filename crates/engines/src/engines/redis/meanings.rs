//! What messages of Redis and Valkey mean, for `investigate`, and for `verify` where a start fails.

use crate::shared::logs::{MessageMeanings, ServerMessageKind};

pub(super) static MEANINGS: MessageMeanings = &[
    (
        ServerMessageKind::Starting,
        &[("oO0OoO0OoO0Oo ", ""), ("Server started, ", ""), ("Server initialized", "")],
    ),
    (
        ServerMessageKind::Ended,
        &[
            ("User requested shutdown", ""),
            ("Received SIG", ""),
            ("Redis is now ready to exit", ""),
            ("Valkey is now ready to exit", ""),
        ],
    ),
    (
        ServerMessageKind::Started,
        &[
            ("Ready to accept connections", "Redis started"),
            ("The server is now ready to accept", "Redis started"),
        ],
    ),
    (
        ServerMessageKind::Work,
        &[
            ("Background saving started by pid ", "Redis forked to save its data (BGSAVE)"),
            (
                "Background append only file rewriting started by pid ",
                "Redis forked to rewrite its append-only file",
            ),
        ],
    ),
    (
        ServerMessageKind::Failed,
        &[
            ("Out Of Memory allocating ", "Redis was refused memory and ended"),
            ("Guru Meditation: *OUT OF MEMORY", "Redis was refused memory and ended"),
            ("Redis * crashed by signal: ", "Redis crashed"),
            ("Valkey * crashed by signal: ", "Redis crashed"),
            ("=== REDIS BUG REPORT START", "Redis crashed"),
            ("=== VALKEY BUG REPORT START", "Redis crashed"),
        ],
    ),
    (
        ServerMessageKind::MemoryRefused,
        &[
            ("Can't save in background: fork: Cannot allocate memory", NO_FORK),
            ("Can't rewrite append only file in background: fork: Cannot allocate memory", NO_FORK),
        ],
    ),
    (
        ServerMessageKind::DiskWait,
        &[(
            "Asynchronous AOF fsync is taking too long",
            "Redis waited for its disk (fsync of the append-only file)",
        )],
    ),
    (
        ServerMessageKind::Trouble,
        &[
            // `you have` up to 6.2, `You have` since.
            ("WARNING you have Transparent Huge Pages (THP) support enabled", ON_THP),
            ("WARNING You have Transparent Huge Pages (THP) support enabled", ON_THP),
            ("Background saving error", "Redis could not save its data"),
            ("Background AOF rewrite terminated with error", "Redis could not save its data"),
            ("Can't save in background: fork: ", NO_PROCESS),
            ("Can't rewrite append only file in background: fork: ", NO_PROCESS),
            ("Error registering fd event for the new client", NO_CLIENT),
            ("max number of clients reached", NO_CLIENT),
        ],
    ),
];

const ON_THP: &str = "Redis warned that it runs on transparent huge pages (on kernels before 5.8 \
     a write during a save copies 2 MiB)";
const NO_FORK: &str = "Redis was refused the memory to fork for a save";
const NO_PROCESS: &str = "Redis could not fork for a save";
const NO_CLIENT: &str = "Redis refused a client: maxclients was reached";
