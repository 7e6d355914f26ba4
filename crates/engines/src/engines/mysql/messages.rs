//! Messages of MySQL and MariaDB about huge pages and memory.

use crate::shared::kind::Message;

pub(super) static MESSAGES: &[Message] = &[
    Message {
        name: "HugeTLB: Warning",
        says: "InnoDB: HugeTLB: Warning: Failed to allocate N bytes. errno 12; InnoDB HugeTLB: \
               Warning: Using conventional memory pool",
        means: "large-pages is set, and InnoDB got no System V huge pages for this piece of its \
                memory: it went on with base pages. errno 12 (ENOMEM): the pool is too small. \
                errno 1 (EPERM): the account may not use System V huge pages. errno 22 or 28: \
                kernel.shmmax or kernel.shmall. MySQL up to 8.0 and MariaDB up to 10.4 ask for \
                System V memory.",
        look: "`hugewise size` compares the pool, shmmax, shmall, memlock and vm.hugetlb_shm_group \
               with what the server needs.",
        rules: &["HW201", "HW301", "HW303", "HW304"],
        sources: &["MySQL: storage/innobase/os/os0proc.cc, os_mem_alloc_large", "shmget(2)"],
    },
    Message {
        name: "Couldn't allocate",
        says: "Couldn't allocate N bytes (Large/HugeTLB memory page size 2097152); errno 12; \
               continuing to smaller size",
        means: "MariaDB got no huge pages of that size for this piece of its memory. It tries each \
                size that the kernel has, the largest first, and ends with base pages: a refusal \
                at 1 GiB costs nothing if 2 MiB was had.",
        look: "The refusals at the smallest size: `hugewise verify --log FILE` adds them up.",
        rules: &["HW201", "HW204"],
        sources: &["MariaDB: mysys/my_largepage.c, my_large_malloc"],
    },
    Message {
        name: "Cannot allocate memory for the buffer pool",
        says: "InnoDB: mmap(N bytes) failed; errno 12; Cannot allocate memory for the buffer pool",
        means: "The kernel refused memory itself, not huge pages: the server falls back before it \
                fails. The host or the cgroup has too little left, perhaps as a pool holds it.",
        look: "`hugewise size` divides memory between pools and the rest.",
        rules: &["HW202", "HW206"],
        sources: &["MySQL: storage/innobase/buf/buf0buf.cc"],
    },
];
