//! JVMs' messages about huge pages and memory.

use crate::shared::kind::Message;

pub(super) static MESSAGES: &[Message] = &[
    Message {
        name: "os::commit_memory",
        says: "INFO: os::commit_memory(0x..., N, 0) failed; error='Not enough space' (errno=12)",
        means: "The kernel refused the JVM N bytes. With a fourth number the third is the size of \
                the page: huge pages were asked for, and the pool had too few. Without it the host \
                or the cgroup has no memory to commit (overcommit_memory=2, memory.max), or \
                vm.max_map_count is reached. A pool that is too large causes it as well: what it \
                holds is missing elsewhere. As a rule the JVM ends.",
        look: "`hugewise verify --log FILE` makes pages of the bytes; `hugewise size` compares them \
               with the pool and with memory.",
        rules: &["HW201", "HW202"],
        sources: &["OpenJDK: src/hotspot/os/linux/os_linux.cpp, warn_fail_commit_memory"],
    },
    Message {
        name: "Failed to commit memory",
        says: "[error][gc] Failed to commit memory (Not enough space); Forced to lower max Java \
               heap size; Failed to allocate initial Java heap",
        means: "ZGC could not commit its heap. With -XX:+UseLargePages it takes pages of the pool \
                for the initial heap when it starts, and does not start if the pool is too small. \
                Without a pool it warns and starts on base pages.",
        look: "The pool against -Xms, and against -Xmx for what the heap may grow to: `hugewise \
               size`.",
        rules: &["HW201", "HW204"],
        sources: &["OpenJDK: src/hotspot/share/gc/z/zPhysicalMemory.cpp"],
    },
    Message {
        name: "Failed to reserve and commit memory",
        says: "warning: Failed to reserve and commit memory. req_addr: ... bytes: N page size: \
               2097152 (errno = 12)",
        means: "A part of the JVM's memory got no huge pages, and went to base pages. errno 12: the \
                pool has too few free ones.",
        look: "`hugewise verify --log FILE` says which parts got them and how many pages would do; \
               -Xlog:pagesize logs all parts.",
        rules: &["HW201", "HW204"],
        sources: &["OpenJDK: src/hotspot/os/linux/os_linux.cpp, warn_on_commit_special_failure"],
    },
    Message {
        name: "JVMJ9GC088",
        says: "JVMJ9GC088I Requested objectheap page size 2M could not be satisfied; using 4K \
               instead",
        means: "OpenJ9 asked for huge pages with -Xlp and did not get them for its heap. It takes \
                System V huge pages, so besides the pool it needs permission: memlock on kernels \
                before 5.16, vm.hugetlb_shm_group or CAP_IPC_LOCK. JVMJ9GC032E: the host has no \
                huge pages at all, and the JVM does not start.",
        look: "The pool, vm.hugetlb_shm_group and memlock of the account: `hugewise size`.",
        rules: &["HW201", "HW301", "HW303"],
        sources: &["github.com/eclipse-openj9/openj9#2289, #16999"],
    },
    Message {
        name: "There is insufficient memory",
        says: "# There is insufficient memory for the Java Runtime Environment to continue. # \
               Native memory allocation (mmap) failed to map N bytes",
        means: "The kernel refused the JVM memory of its own, and it ended. If that was in its \
                first seconds, it is the heap, which the JVM commits at its start. The host or \
                the cgroup has too little left, overcommit_memory=2 forbids it, or a pool of \
                huge pages holds what is missing.",
        look: "The bytes in the next line against MemAvailable and CommitLimit; pools that are \
               larger than their servers need: `hugewise check`.",
        rules: &["HW202", "HW206"],
        sources: &["OpenJDK: src/hotspot/share/utilities/vmError.cpp, VMError::report"],
    },
];
