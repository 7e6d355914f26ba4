//! Redis's messages about huge pages and memory.

use crate::shared::kind::Message;

pub(super) static MESSAGES: &[Message] = &[
    Message {
        name: "Can't save in background",
        says: "Can't save in background: fork: Cannot allocate memory",
        means: "fork(2) was refused: with vm.overcommit_memory=0 or 2 the kernel counts the \
                child's memory as if all of it would be written. Memory in a pool of huge pages is \
                not available for that, used or not.",
        look: "vm.overcommit_memory=1, as Redis asks for at its start; pools that are larger than \
               their servers need: `hugewise check`.",
        rules: &["HW202", "HW206"],
        sources: &["Redis: src/rdb.c, rdbSaveBackground; src/server.c, linuxMemoryWarnings"],
    },
    Message {
        name: "Transparent Huge Pages (THP) support enabled",
        says: "WARNING You have Transparent Huge Pages (THP) support enabled in your kernel",
        means: "Redis runs on transparent huge pages. While it saves, parent and child share pages, \
                and a write to one of 2 MiB copies all of it on kernels before 5.8: latency and \
                memory rise. Redis takes no part in pools of huge pages.",
        look: "/sys/kernel/mm/transparent_hugepage/enabled; from 6.0 on Redis may switch them off \
               for itself (disable-thp).",
        rules: &["HW501"],
        sources: &["Redis: src/syscheck.c, checkTHPEnabled"],
    },
];
