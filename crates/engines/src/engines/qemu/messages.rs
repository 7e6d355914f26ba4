//! QEMU's messages about huge pages and memory.

use crate::shared::kind::Message;

pub(super) static MESSAGES: &[Message] = &[
    Message {
        name: "cannot set up guest memory",
        says: "cannot set up guest memory 'pc.ram': Cannot allocate memory",
        means: "The kernel refused QEMU the memory of its guest, on base pages, and the guest \
                did not start. The host has too little left, or overcommit_memory forbids it. \
                What a pool of huge pages holds is missing there.",
        look: "The guest's memory against MemAvailable and CommitLimit; pools that are larger \
               than the guests need: `hugewise check`.",
        rules: &["HW202", "HW206"],
        sources: &["QEMU: softmmu/physmem.c, ram_block_add"],
    },
    Message {
        name: "backing store for guest RAM",
        says: "unable to map backing store for guest RAM: Cannot allocate memory",
        means: "The guest's memory is a file of huge pages, and the pool has too few free pages \
                of that size. QEMU has no fallback: the guest does not start.",
        look: "The pool of that page size, on the guest's NUMA nodes too, against the guest's \
               memory: `hugewise size`.",
        rules: &["HW201", "HW204"],
        sources: &["QEMU: util/mmap-alloc.c; softmmu/physmem.c, file_ram_alloc"],
    },
];
