//! What messages of PostgreSQL mean, for `investigate`, and for `verify` where a start fails.

use crate::shared::logs::{MessageMeanings, ServerMessageKind};

pub(super) static MEANINGS: MessageMeanings = &[
    (
        ServerMessageKind::Ended,
        &[
            ("LOG:  received smart shutdown request", ""),
            ("LOG:  received fast shutdown request", ""),
            ("LOG:  received immediate shutdown request", ""),
            ("LOG:  shutting down", ""),
            ("LOG:  database system is shut down", ""),
            // A process of its own had crashed.
            ("LOG:  all server processes terminated; reinitializing", ""),
        ],
    ),
    (
        ServerMessageKind::Failed,
        &[(
            "LOG:  terminating any other active server processes",
            "PostgreSQL ended all sessions: one of its processes had crashed",
        )],
    ),
    (
        ServerMessageKind::Started,
        &[("LOG:  database system is ready to accept connections", "PostgreSQL started")],
    ),
    // Only at log_min_messages = debug1 and below (PostgreSQL 9.4 and later).
    (
        ServerMessageKind::WithoutHugePages,
        &[(
            "DEBUG:  mmap(*) with MAP_HUGETLB failed, huge pages disabled",
            "PostgreSQL got no huge pages and started without them (huge_pages = try)",
        )],
    ),
    (
        ServerMessageKind::Recovered,
        &[(
            "LOG:  database system was interrupted",
            "PostgreSQL had not been shut down before this start",
        )],
    ),
    (
        ServerMessageKind::Refused,
        &[
            (
                "FATAL:  could not create shared memory segment",
                "PostgreSQL could not get its shared memory, and did not start",
            ),
            (
                "FATAL:  could not map anonymous shared memory",
                "PostgreSQL could not get its shared memory, and did not start",
            ),
            (
                "FATAL:  could not create semaphores",
                "PostgreSQL could not get its semaphores (kernel.sem), and did not start",
            ),
            (
                "FATAL:  huge pages not supported",
                "PostgreSQL was told to use huge pages and could not",
            ),
        ],
    ),
    (
        ServerMessageKind::MemoryRefused,
        &[("LOG:  could not fork *Cannot allocate memory", NO_FORK)],
    ),
    // The collector of statistics of 14 and before, which does not answer where a disk or a host
    // stands still.
    (
        ServerMessageKind::DiskWait,
        &[
            ("LOG:  using stale statistics instead of current ones", STALE),
            ("WARNING:  pgstat wait timeout", STALE),
        ],
    ),
    (
        ServerMessageKind::Trouble,
        &[
            ("LOG:  could not fork ", "PostgreSQL could not start a process"),
            ("FATAL:  sorry, too many clients already", REFUSED_SESSION),
            ("FATAL:  remaining connection slots are reserved", REFUSED_SESSION),
            (
                "FATAL:  canceling authentication due to timeout",
                "a login took longer than authentication_timeout",
            ),
            (
                "ERROR:  could not resize shared memory segment",
                "a session of PostgreSQL was refused memory in /dev/shm",
            ),
            ("ERROR:  out of memory", "a session of PostgreSQL was refused memory"),
            ("FATAL:  out of memory", "a session of PostgreSQL was refused memory"),
            (
                "LOG:  checkpoints are occurring too frequently",
                "PostgreSQL's checkpoints came too often",
            ),
        ],
    ),
];

const NO_FORK: &str = "PostgreSQL was refused the memory for a process";
const STALE: &str =
    "PostgreSQL's statistics were not written in time: the disk was slow, or the host stood still";
const REFUSED_SESSION: &str = "PostgreSQL refused a session: max_connections was reached";
