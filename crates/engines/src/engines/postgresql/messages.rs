//! PostgreSQL's messages about huge pages and memory.

use crate::shared::kind::Message;

pub(super) static MESSAGES: &[Message] = &[
    Message {
        name: "SIGBUS",
        says: "server process (PID ...) was terminated by signal 7: Bus error; initdb: child \
               process exited with exit code 135",
        means: "A process touched a huge page that it had mapped, and the kernel had none to give. \
                mmap(2) had reserved it, so the server started or initdb went on. The usual case \
                is a container: the hugetlb limit of its cgroup (hugetlb.2MB.max, Kubernetes' \
                hugepages-2Mi) is below what PostgreSQL maps, and without a request for huge pages \
                it is 0. That limit counts pages when they are touched, not when they are \
                reserved. initdb asks for huge pages too, and reads no postgresql.conf of yours. \
                PostgreSQL then ends all sessions and starts anew, until it happens again.",
        look: "`hugewise check` compares hugetlb limits with what is mapped. Request as many huge \
               pages for the container as the server needs, or set huge_pages=off; for initdb with \
               `initdb -c huge_pages=off` (16 and later), or in postgresql.conf.sample.",
        rules: &["HW702"],
        sources: &[
            "Linux: mm/hugetlb.c, hugetlb_no_page; Documentation/admin-guide/cgroup-v2.rst",
            "github.com/docker-library/postgres#451, #946",
            "pgsql-bugs, BUG #17757",
        ],
    },
    Message {
        name: "could not map anonymous shared memory",
        says: "FATAL: could not map anonymous shared memory: Cannot allocate memory",
        means: "mmap(2) was refused the shared memory, and the server did not start. With \
                huge_pages=on the pool has too few free pages, or the cgroup reserves too few \
                (hugetlb.2MB.rsvd.max). With huge_pages=off or try it is memory itself: \
                overcommit_memory=2, a cgroup, or a shared_buffers beyond what the host has.",
        look: "The hint below it says how many bytes were asked for; `hugewise verify --log FILE` makes \
               pages of them. `hugewise size` compares them with the pool.",
        rules: &["HW201", "HW204", "HW702"],
        sources: &["PostgreSQL: src/backend/port/sysv_shmem.c, CreateAnonymousSegment"],
    },
    Message {
        name: "huge pages not supported",
        says: "FATAL: huge pages not supported on this platform; huge pages not supported with the \
               current shared_memory_type setting",
        means: "huge_pages=on is set, and cannot be met: shared_memory_type is sysv, or this build \
                knows no huge pages. With huge_pages=try the server starts without them.",
        look: "shared_memory_type in the server's files: huge pages need mmap.",
        rules: &[],
        sources: &["PostgreSQL: src/backend/port/sysv_shmem.c, PGSharedMemoryCreate"],
    },
];
