//! What messages of Oracle mean, for `investigate`, and for `verify` where a start fails.

use crate::shared::logs::{MessageMeanings, ServerMessageKind};

pub(super) static MEANINGS: MessageMeanings = &[
    (
        ServerMessageKind::Failed,
        &[
            ("Instance terminated by", "the instance ended"),
            ("ORA-27102", "ORA-27102: the kernel refused Oracle memory"),
            (
                "ORA-27106",
                "ORA-27106: huge pages were missing, and the instance did not start without them",
            ),
            ("ORA-27104", "ORA-27104: the SGA goes beyond what the host allows"),
            ("ORA-27125", "ORA-27125: Oracle was refused a shared memory segment"),
            ("ORA-27138", "ORA-27138: use_large_pages contradicts another parameter"),
            (
                "ORA-27137",
                "ORA-27137: huge pages were missing, and the instance did not start without them",
            ),
            ("ORA-00845", "ORA-00845: /dev/shm was too small for MEMORY_TARGET"),
        ],
    ),
    (
        ServerMessageKind::MemoryRefused,
        &[(
            "ORA-27300: OS system dependent operation:*failed with status: 12",
            "ORA-27300: the kernel refused Oracle memory (error 12)",
        )],
    ),
    // 11.2 says detected, 12.1 observed.
    (
        ServerMessageKind::HostSwaps,
        &[
            ("WARNING: Heavy swapping ", SWAPS),
            ("ORA-00700: *[kskvmstatact: excessive swapping observed]", SWAPS),
        ],
    ),
    (
        ServerMessageKind::DiskWait,
        &[
            ("Warning: log write elapsed time ", "Oracle's log writer waited for its disk"),
            ("WARNING: aiowait timed out ", "Oracle waited for its disk for minutes"),
        ],
    ),
    (
        ServerMessageKind::Trouble,
        &[
            (
                "ORA-27300: OS system dependent operation:fork failed with status: 11",
                "ORA-27300: Oracle could not start a process (error 11: a limit of processes)",
            ),
            ("ORA-04030", "ORA-04030: a process was refused private memory"),
            ("ORA-04031", "ORA-04031: a pool of the SGA was exhausted"),
            ("ORA-04036", "ORA-04036: the PGA reached its limit"),
            ("ORA-00020", "ORA-00020: PROCESSES was reached"),
            ("ORA-00018", "ORA-00018: SESSIONS was reached"),
            ("ORA-00445", "ORA-00445: a background process did not start within two minutes"),
            (
                "WARNING: inbound connection timed out",
                "ORA-03136: a login took longer than SQLNET.INBOUND_CONNECT_TIMEOUT",
            ),
            (
                "Time drift detected",
                "Oracle's clock stood still for seconds: its process did not get to run",
            ),
            (
                "Checkpoint not complete",
                "Oracle waited for a checkpoint before it could switch logs",
            ),
        ],
    ),
];

const SWAPS: &str = "Oracle saw the host swap heavily";
