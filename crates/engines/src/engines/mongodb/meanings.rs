//! What messages of MongoDB, Percona Server for MongoDB and TokuMX mean.
//!
//! Texts are those of MongoDB 2.4 to 8.0 (db/startup_warnings_mongod.cpp, util/log.cpp) and TokuMX
//! 1.0 to 2.0 (storage/env.cpp).

use crate::shared::logs::{MessageMeanings, ServerMessageKind};

pub(super) static MEANINGS: MessageMeanings = &[
    // 2.4 and before; up to 4.2; since 4.4, where other words come behind.
    (
        ServerMessageKind::Ended,
        &[
            ("dbexit:", ""),
            ("now exiting", ""),
            ("shutting down with code", ""),
            ("got signal 15", ""),
            ("got signal 2", ""),
            ("Signal was sent by", ""),
            ("Received signal", ""),
            ("Shutting down", ""),
            ("Now exiting", ""),
        ],
    ),
    (
        ServerMessageKind::Started,
        &[
            ("waiting for connections", "MongoDB started"),
            ("Waiting for connections", "MongoDB started"),
        ],
    ),
    (
        ServerMessageKind::Refused,
        &[(
            "ERROR: Huge pages are enabled, please disable them",
            "TokuMX did not start: it refuses transparent huge pages",
        )],
    ),
    (
        ServerMessageKind::Recovered,
        &[
            ("Detected unclean shutdown", "MongoDB had not been shut down before this start"),
            ("old lock file: ", "MongoDB had not been shut down before this start"),
        ],
    ),
    (
        ServerMessageKind::Failed,
        &[
            ("Got signal: 6", "MongoDB ended itself after an error (abort)"),
            ("Got signal: 11", "MongoDB crashed (signal 11)"),
            ("Got signal: 7", "MongoDB crashed (signal 7)"),
            ("Fatal Assertion", "MongoDB ended itself after an error (abort)"),
            ("Fatal assertion", "MongoDB ended itself after an error (abort)"),
            ("out of memory", "MongoDB was refused memory, and ended"),
        ],
    ),
    (
        ServerMessageKind::Work,
        &[
            ("** WARNING: /sys/kernel/mm/*transparent_hugepage", ON_THP),
            ("/sys/kernel/mm/transparent_hugepage/enabled is 'always'", ON_THP),
            ("/sys/kernel/mm/transparent_hugepage/defrag is 'always'", ON_THP),
        ],
    ),
];

const ON_THP: &str = "MongoDB warned that transparent huge pages are on (7.0 and before)";
