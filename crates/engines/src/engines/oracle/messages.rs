//! Oracle's messages about huge pages and memory.

use crate::shared::kind::Message;

pub(super) static MESSAGES: &[Message] = &[
    Message {
        name: "ORA-27102",
        says: "out of memory",
        means: "The kernel refused the SGA a segment. The line below the message gives the \
                kernel's own reason. Error 12 (ENOMEM): neither the pool nor the rest of memory \
                had room for it. With huge pages, the pool was too small for a release that takes \
                all of them or none, or memlock was too low. Error 22 (EINVAL): the segment is \
                larger than kernel.shmmax. Error 28 (ENOSPC): it goes beyond kernel.shmall, or \
                there are more segments than kernel.shmmni. It has also been seen during a \
                shutdown, when a pool was drained to its last page.",
        look: "`hugewise size` compares shmmax, shmall and memlock with what the instance needs. \
               Free memory says little: error 28 comes with gigabytes free.",
        rules: &["HW204", "HW301", "HW304"],
        sources: &[
            "Oracle Database Error Messages, ORA-27102",
            "shmget(2)",
            "MOS note 301830.1 (shmall)",
        ],
    },
    Message {
        name: "ORA-27104",
        says: "system-defined limits for shared memory was misconfigured",
        means: "The SGA does not fit into what kernel.shmmax and kernel.shmall allow. Or it does \
                not fit into the memory that the instance sees, which in a container or a virtual \
                machine is less than the host has: then the alert log says \"System cannot \
                support SGA size of\", how much memory is configured, and the most that shared \
                memory may be.",
        look: "`hugewise size` prints both limits, needed and set. If the alert log names the \
               size of memory: the container's limit (docker --memory, memory.max), and an \
               sga_target that fits into it.",
        rules: &["HW304"],
        sources: &[
            "Oracle Database Error Messages, ORA-27104",
            "github.com/oracle/docker-images#1730: the lines of an alert log",
        ],
    },
    Message {
        name: "ORA-27106",
        says: "system pages not available to allocate memory",
        means: "With USE_LARGE_PAGES=ONLY or AUTO_ONLY, the pool didn't have enough free pages for \
                the SGA. The alert log says how many pages of each size were wanted and how many \
                there were.",
        look: "The table under \"Supported system pagesize(s)\" in the alert log: EXPECTED_PAGES \
               against AVAILABLE_PAGES. `hugewise verify` reads it.",
        rules: &["HW201", "HW204", "HW603"],
        sources: &[
            "Oracle Database Reference 12.2 to 19c, USE_LARGE_PAGES",
            "alert logs of 12.1 to 19c",
        ],
    },
    Message {
        name: "ORA-27125",
        says: "unable to create shared memory segment",
        means: "shmget(2) failed. Error 1 (EPERM): the account may not use System V huge pages. \
                Kernels before 5.16, and kernels of distributions that kept the old check, accept \
                a memlock limit of the segment's size as permission. Others require \
                vm.hugetlb_shm_group or CAP_IPC_LOCK. Error 12: no pages. Error 28: kernel.shmall \
                or kernel.shmmni.",
        look: "Compare vm.hugetlb_shm_group with the groups of the account. Check memlock of the \
               process that starts the instance: under Clusterware and systemd that is not the \
               login.",
        rules: &["HW301", "HW302", "HW303", "HW304", "HW305"],
        sources: &[
            "Oracle Database Error Messages, ORA-27125",
            "Linux: fs/hugetlbfs/inode.c, hugetlb_file_setup",
            "shmget(2)",
        ],
    },
    Message {
        name: "ORA-27137",
        says: "unable to allocate large pages to create a shared memory segment",
        means: "USE_LARGE_PAGES=ONLY is set and the pool can't hold the whole SGA. In its block on \
                large pages, the alert log gives the smallest number of unused pages that it needs.",
        look: "That number, and whether other instances took pages first. `hugewise plan` counts \
               all that start here.",
        rules: &["HW201", "HW204", "HW603"],
        sources: &[
            "Oracle Database Reference 11.2, USE_LARGE_PAGES",
            "MOS note 1392497.1",
            "alert logs of 11.2.0.3",
        ],
    },
    Message {
        name: "ORA-27138",
        says: "unable to allocate large pages with current parameter setting",
        means: "USE_LARGE_PAGES contradicts another parameter: large pages don't work with \
                MEMORY_TARGET, MEMORY_MAX_TARGET and _DB_BLOCK_CACHE_PROTECT. On Exadata, from \
                19.27 and 23.8 on, FALSE, TRUE and AUTO are refused too: only ONLY and AUTO_ONLY \
                start there. The alert log then says \"is not a supported setting for database on \
                Exadata\".",
        look: "The lines before it in the alert log; use_large_pages and memory_target in the \
               parameter file.",
        rules: &["HW402", "HW403"],
        sources: &[
            "Oracle Database Error Messages, OCI-27138",
            "MOS note 3081878.1",
            "christian-gohmann.de, 16 July 2025: the lines of an alert log",
        ],
    },
    Message {
        name: "ORA-00845",
        says: "MEMORY_TARGET not supported on this system",
        means: "Automatic memory management keeps the SGA in files under /dev/shm. /dev/shm is \
                smaller than MEMORY_TARGET or MEMORY_MAX_TARGET, or it is not mounted. Such an SGA \
                never has huge pages.",
        look: "`df /dev/shm`. `hugewise size` says how to take the instance off automatic memory \
               management in one outage.",
        rules: &["HW402"],
        sources: &["Oracle Database Error Messages, ORA-00845"],
    },
    Message {
        name: "ORA-00445",
        says: "background process did not start after 120 seconds",
        means: "A new process was not ready in time. The host may be starved of memory or of \
                kernel CPU, by pools that are too large, by swapping, or by large page tables. Up \
                to 11.2, pre_page_sga=TRUE makes every new process touch all of the SGA first. \
                With address space randomisation (RHEL 5, Oracle 11.2.0.x), it has been reported \
                that now and then a process could not map the SGA at its address.",
        look: "`sar -u`, `-B` and `-r` of that minute (`hugewise investigate` reads them), \
               PageTables in /proc/meminfo, pre_page_sga, kernel.randomize_va_space.",
        rules: &["HW101", "HW104", "HW206"],
        sources: &[
            "Oracle Database Error Messages, ORA-00445",
            "MOS note 1345364.1",
            "MOS note 1987975.1",
        ],
    },
    Message {
        name: "ORA-04030",
        says: "out of process memory",
        means: "The process could not get private memory (PGA). The host may have none left, for \
                example because huge pages take so much that PGA finds no room: the kernel does \
                not give an idle pool back for it. Or the process has reached a limit of its own \
                (ulimit -v, -d, a cgroup), or vm.max_map_count, the limit on its mappings: 65,530 \
                of 64 KiB each reach 4 GiB.",
        look: "`hugewise size` divides memory using PGA_AGGREGATE_TARGET and PGA_AGGREGATE_LIMIT. \
               If the trace file shows a process that ends near 4 GiB in \"Real-Free Memory \
               Allocator Heap\", it has hit vm.max_map_count.",
        rules: &["HW202", "HW205", "HW206"],
        sources: &[
            "Oracle Database Error Messages, ORA-04030",
            "MOS note 233869.1",
            "Linux: Documentation/admin-guide/sysctl/vm.rst",
        ],
    },
    Message {
        name: "ORA-04031",
        says: "unable to allocate bytes of shared memory",
        means: "A pool within the SGA is full or fragmented. Huge pages neither cause nor cure it: \
                the page size does not make the SGA any larger.",
        look: "V$SGASTAT, V$SHARED_POOL_ADVICE; sga_target.",
        rules: &[],
        sources: &["Oracle Database Error Messages, ORA-04031"],
    },
    Message {
        name: "lock_sga",
        says: "LOCK_SGA=TRUE: keep the whole SGA in memory",
        means: "At its start the instance locks its segments with SHM_LOCK. On base pages the \
                kernel counts that against the memlock limit of whoever starts it, together with \
                all that this user has locked, on every release. If the limit is too low, the \
                start fails with ORA-27102 and Error 12. Huge pages are never swapped, so they \
                need no LOCK_SGA, and the kernel charges nothing for locking them. LOCK_SGA \
                doesn't work with MEMORY_TARGET (ORA-00847).",
        look: "V$PARAMETER lock_sga; the memlock limits of logins, units and Clusterware. Put the \
               SGA on huge pages, and leave LOCK_SGA at FALSE.",
        rules: &["HW210", "HW603", "HW801"],
        sources: &[
            "Oracle Database Reference 19c, LOCK_SGA",
            "asktherealtom.ch, \"Set lock_sga to true on Linux (SLES)\": ORA-27102, Error 12, \
             cured by memlock",
            "shmctl(2): SHM_LOCK; tested on Linux 5.10 to 7.2 by `cargo xtask vm kernels`",
        ],
    },
    Message {
        name: "_realfree_heap_pagesize",
        says: "hidden parameter, 12.1 and later; before that _realfree_heap_pagesize_hint",
        means: "The size of the pieces in which a process maps its private memory (PGA), 64 KiB by \
                default. Despite its name it gives no huge pages on Linux: PGA is private \
                anonymous memory, which never comes from the pool. Only transparent huge pages \
                could back it. Larger pieces mean fewer mappings: a large sort makes fewer system \
                calls as it grows, and a process may grow beyond 4 GiB before vm.max_map_count \
                stops it. The price is memory: each heap takes whole pieces, about 1 % more in a \
                published test with 4 MiB.",
        look: "If a process hits vm.max_map_count, you can raise that without a hidden parameter. \
               Set hidden parameters only if Oracle Support tells you to.",
        rules: &[],
        sources: &[
            "published traces of 11.2.0.4 (2018) and measurements of 10g on Solaris and Linux \
             (2008)",
            "Linux: Documentation/admin-guide/sysctl/vm.rst",
        ],
    },
    Message {
        name: "Heavy swapping",
        says: "WARNING: Heavy swapping detected on system in last 5 mins.; ORA-00700 \
               [kskvmstatact: excessive swapping observed]",
        means: "The database resource manager counted how much of the host's memory went to swap \
                and came back within five minutes. The line below gives both parts. The SGA on \
                base pages can be swapped; on huge pages it cannot. A pool that is too large \
                leaves the rest of the host too little.",
        look: "`sar -W`, `-B` and `-r` of that time (`hugewise investigate` reads them), \
               whether the SGA is on huge pages, and what the pool leaves: `hugewise check`.",
        rules: &["HW201", "HW205", "HW206"],
        sources: &["MOS note 1919850.1"],
    },
];
