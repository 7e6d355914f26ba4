//! What messages of MySQL and MariaDB mean, for `investigate`, and for `verify` where a start fails.

use crate::shared::logs::{MessageMeanings, ServerMessageKind};

pub(super) static MEANINGS: MessageMeanings = &[
    (
        ServerMessageKind::Starting,
        &[
            ("/*) starting as process ", ""),
            ("mysqld*) starting as process ", ""),
            ("mariadbd*) starting as process ", ""),
            ("Starting MariaDB ", ""),
            ("mysqld_safe Starting ", ""),
            ("The InnoDB memory heap is disabled", ""),
            ("Initializing buffer pool", ""),
            ("Completed initialization of buffer pool", ""),
        ],
    ),
    (
        ServerMessageKind::Ended,
        &[
            ("/*: Shutdown complete", ""),
            ("mysqld: Shutdown complete", ""),
            ("mariadbd: Shutdown complete", ""),
            ("Aborting", ""),
        ],
    ),
    (
        ServerMessageKind::Started,
        &[
            ("/*: ready for connections", "the server started"),
            ("mysqld: ready for connections", "the server started"),
            ("mariadbd: ready for connections", "the server started"),
        ],
    ),
    (
        ServerMessageKind::WithoutHugePages,
        &[
            // MariaDB 10.6 and later; then MySQL and older versions of MariaDB.
            ("mariadbd: Couldn't allocate *(Large/HugeTLB memory page size ", MARIADB_FELL_BACK),
            ("mysqld: Couldn't allocate *(Large/HugeTLB memory page size ", MARIADB_FELL_BACK),
            // MySQL 5.5 to 5.7, whose first two write no time; 8.0.
            ("HugeTLB: Warning: Failed to ", NO_HUGE_PAGES),
            ("HugeTLB: Warning: Using conventional memory pool", WITHOUT_HUGE_PAGES),
            ("Failed to allocate * bytes. errno ", NO_HUGE_PAGES),
            ("large_page_aligned_alloc mmap(* failed", NO_HUGE_PAGES),
            ("Warning: Failed to allocate * bytes from HugeTLB memory", NO_HUGE_PAGES),
            ("Warning: Using conventional memory pool", WITHOUT_HUGE_PAGES),
            ("Using conventional memory pool", WITHOUT_HUGE_PAGES),
        ],
    ),
    (
        ServerMessageKind::Refused,
        &[
            ("Cannot allocate memory for the buffer pool", NO_BUFFER_POOL),
            // 5.0 to 5.6.
            ("Fatal error: cannot allocate ", NO_BUFFER_POOL),
            // MariaDB whose buffer pool may grow.
            ("Cannot map innodb_buffer_pool_size_max=", NO_BUFFER_POOL),
        ],
    ),
    // While it starts, that is its end.
    (
        ServerMessageKind::MemoryRefused,
        &[
            ("mmap(* failed; errno 12", NO_MEMORY),
            ("Error: cannot allocate * bytes of", NO_MEMORY),
            ("mysqld: Out of memory (Needed ", "the server was refused memory"),
            ("mariadbd: Out of memory (Needed ", "the server was refused memory"),
            ("/*: Out of memory (Needed ", "the server was refused memory"),
        ],
    ),
    (
        ServerMessageKind::Recovered,
        &[
            // 5.0 to 5.7; 5.6 and later, and MariaDB; 8.0 and later.
            ("Database was not shut down normally", NOT_SHUT_DOWN),
            ("Database was not shutdown normally", NOT_SHUT_DOWN),
            ("Starting crash recovery", NOT_SHUT_DOWN),
            ("Starting XA crash recovery", NOT_SHUT_DOWN),
        ],
    ),
    (
        ServerMessageKind::Failed,
        &[
            (
                "mysqld_safe Number of processes running now: 0",
                "mysqld_safe found the server gone, and started it again",
            ),
            (
                "mysqld_safe *process hanging, pid ",
                "mysqld_safe found the server gone but for a process, which it killed",
            ),
            (
                "Plugin 'InnoDB' registration as a STORAGE ENGINE failed",
                "InnoDB gave up, and the server did not start",
            ),
            ("mysqld got signal ", "the server crashed"),
            ("mariadbd got signal ", "the server crashed"),
            ("Assertion failure", "InnoDB found itself in error and ended the server"),
            (
                "Semaphore wait has lasted > ",
                "InnoDB ended the server: its threads had waited for each other for ten minutes",
            ),
            // 5.7 and MariaDB 10.1, and later.
            ("Cannot allocate * bytes of memory after ", "InnoDB was refused memory, and ended"),
        ],
    ),
    (
        ServerMessageKind::DiskWait,
        &[
            (
                "page_cleaner: 1000ms intended loop took ",
                "InnoDB's page cleaner fell behind: the disk was slow, or the host stood still",
            ),
            (
                "Page cleaner took ",
                "InnoDB's page cleaner fell behind: the disk was slow, or the host stood still",
            ),
        ],
    ),
    (
        ServerMessageKind::Trouble,
        &[
            ("Failed to allocate", "InnoDB was refused memory, or huge pages for it"),
            ("Too many connections", "a session was refused: max_connections was reached"),
            ("Can't create thread", "the server could not start a thread for a session"),
            ("Out of memory", "the server was refused memory"),
            ("A long semaphore wait", LONG_WAIT),
            ("Warning: a long semaphore wait", LONG_WAIT),
            ("TokuDB: Huge pages are enabled", ON_THP),
            ("TokuDB*Transparent huge pages are enabled", ON_THP),
            ("Transparent huge pages are enabled", ON_THP),
        ],
    ),
];

const NOT_SHUT_DOWN: &str = "the server had not been shut down before this start";
const MARIADB_FELL_BACK: &str =
    "MariaDB got no huge pages for a part of its memory and went on without them";
const NO_HUGE_PAGES: &str = "InnoDB got no huge pages for a part of its memory";
const WITHOUT_HUGE_PAGES: &str = "InnoDB went on without huge pages";
const NO_BUFFER_POOL: &str = "InnoDB could not get memory for its buffer pool, and did not start";
const NO_MEMORY: &str = "InnoDB was refused memory (error 12)";
const LONG_WAIT: &str = "threads of InnoDB waited for each other for minutes";
const ON_THP: &str = "TokuDB refused to be loaded while transparent huge pages are on";
