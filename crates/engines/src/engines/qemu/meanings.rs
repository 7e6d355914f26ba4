//! What messages of QEMU mean, for `investigate`, and for `verify` where a start fails.

use crate::shared::logs::{MessageMeanings, ServerMessageKind};

pub(super) static MEANINGS: MessageMeanings = &[
    (ServerMessageKind::Started, &[("starting up", "libvirt started a guest")]),
    (
        ServerMessageKind::Refused,
        &[
            ("cannot set up guest memory", NO_MEMORY),
            ("unable to map backing store for guest RAM", NO_HUGE_PAGES),
            ("can't open backing store ", NO_HUGE_PAGES),
            ("os_mem_prealloc: ", NO_HUGE_PAGES),
            ("qemu_prealloc_mem: ", NO_HUGE_PAGES),
            ("failed to resize memfd", NO_HUGE_PAGES),
            ("failed to create memfd", NO_HUGE_PAGES),
            ("unable to create backing store", NO_HUGE_PAGES),
            ("can't preallocate guest RAM", NO_HUGE_PAGES),
            ("Insufficient free host memory pages available to allocate guest RAM", NO_HUGE_PAGES),
        ],
    ),
    (
        ServerMessageKind::Failed,
        &[("shutting down, reason=crashed", "a guest's QEMU ended by itself, or was killed")],
    ),
];

const NO_MEMORY: &str = "QEMU could not get its guest's memory, and did not start";
const NO_HUGE_PAGES: &str = "QEMU got no huge pages for its guest's memory, and did not start";
