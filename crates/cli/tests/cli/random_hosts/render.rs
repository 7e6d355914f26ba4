//! A world as the files that hugewise reads.

use hugewise_host::source::{MachineFacts, MapSource};
use hugewise_model::{Observed, PageSize};

use crate::random_hosts::kernel::MIB_2;
use crate::random_hosts::servers::{JVM, Kind, Limit, Policy, QEMU, Server};
use crate::random_hosts::world::{World, oracle_home, unit_of};

const ACCOUNTS: [(&str, u32, u32); 7] = [
    ("root", 0, 0),
    ("postgres", 101, 104),
    ("oracle", 54321, 54321),
    ("mysql", 102, 105),
    ("tomcat", 110, 115),
    ("libvirt-qemu", 64055, 108),
    ("redis", 112, 117),
];

impl World {
    /// The host as it would be read now.
    pub(crate) fn source(&self) -> MapSource {
        let machine = MachineFacts {
            live: true,
            base_page: Observed::Known(PageSize::KIB_4),
            read_at: Observed::Known(1_760_000_000),
            read_as: Observed::Known(0),
            own_root: Observed::Known(true),
            architecture: Observed::Known("x86_64".into()),
            ..MachineFacts::default()
        };
        let mut source = MapSource::new().with_machine(machine);
        for (path, text) in self.files.iter().chain(&self.values) {
            source = source.with_file(path, text);
        }
        source = self.accounts(source);
        source = self.kernel_files(source);
        source = self.pools(source);
        let mut segments = String::from(
            "       key      shmid perms                  size  cpid  lpid \
                 nattch   uid   gid  cuid  cgid      atime      dtime      \
             ctime                   rss                  swap\n",
        );
        for server in self.servers.iter().filter(|server| server.kind == Kind::PostgreSql) {
            let data = format!("/var/lib/postgresql/15/{}", server.name);
            source = source.with_file(&format!("{data}/PG_VERSION"), "15\n");
        }
        for (at, server) in self.servers.iter().enumerate().filter(|(_, server)| server.is_up()) {
            source = self.process(source, at, server, &mut segments);
        }
        // Files that were edited, and the lock file that a server wrote once it had started.
        let edited = self.changed.iter().map(|(at, path)| (self.servers[*at].pid, path.clone()));
        let locks = self.servers.iter().filter(|server| server.kind == Kind::PostgreSql);
        let locks = locks.map(|server| (server.pid, lock_file(server)));
        source = source.all_changed_since_start(edited.chain(locks).collect());
        let status = status("systemd", 1, 0, (0, 0), 10_000, 0);
        source = source
            .with_file("/proc/1/status", status)
            .with_file("/proc/1/cmdline", "/sbin/init\0")
            .with_file("/proc/1/maps", "");
        source
            .with_file("/proc/self/status", "Name:\thugewise\n")
            .with_file("/proc/sysvipc/shm", segments)
    }

    fn accounts(&self, source: MapSource) -> MapSource {
        let passwd: String = ACCOUNTS
            .iter()
            .map(|(name, uid, gid)| format!("{name}:x:{uid}:{gid}::/:/bin/sh\n"))
            .collect();
        let group: String =
            ACCOUNTS.iter().map(|(name, _, gid)| format!("{name}:x:{gid}:\n")).collect();
        source
            .with_file("/etc/passwd", passwd + "eve:x:1000:1000::/home/eve:/bin/sh\n")
            .with_file("/etc/group", group + "eve:x:1000:\n")
            .with_file("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
            .with_file("/etc/systemd/system.conf", "[Manager]\n")
            .with_file("/etc/security/limits.conf", "")
    }

    fn kernel_files(&self, source: MapSource) -> MapSource {
        let kernel = &self.kernel;
        let kib = |bytes: u64| format!("{} kB", bytes >> 10);
        let pool = &kernel.pools[&kernel.default];
        let all: u64 = kernel.pools.iter().map(|(page, pool)| page * pool.total()).sum();
        let free = kernel.free_memory();
        let meminfo = format!(
            "MemTotal: {}\nMemFree: {}\nMemAvailable: {}\nBuffers: 0 kB\nCached: 0 kB\nSwapTotal: \
                 0 kB\nSwapFree: 0 kB\nShmem: {}\nPageTables: 60000 kB\n\
             CommitLimit: {}\nCommitted_AS: 100000 kB\nAnonHugePages: 0 kB\nShmemHugePages: 0 \
                 kB\nShmemPmdMapped: 0 kB\n\
             HugePages_Total: {}\nHugePages_Free: {}\nHugePages_Rsvd: {}\nHugePages_Surp: \
                 {}\nHugepagesize: {}\nHugetlb: {}\n",
            kib(kernel.memory),
            kib(free),
            kib(free),
            kib(0),
            kib(kernel.memory),
            pool.total(),
            pool.free(),
            pool.reserved,
            pool.surplus(),
            kib(kernel.default),
            kib(all),
        );
        let nodes = pool.nodes.len();
        let mut source = source
            .with_file("/proc/meminfo", meminfo)
            .with_file("/proc/sys/vm/nr_hugepages", format!("{}\n", pool.total() - pool.surplus()))
            .with_file("/proc/sys/vm/nr_overcommit_hugepages", format!("{}\n", pool.overcommit))
            .with_file("/proc/sys/vm/hugetlb_shm_group", format!("{}\n", kernel.shm_group))
            .with_file("/proc/sys/kernel/osrelease", format!("{}\n", self.release))
            .with_file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: x\nflags\t\t: fpu pse \
                 pdpe1gb\n")
            .with_file("/sys/devices/system/cpu/online", "0-7\n")
            .with_file("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 \
                 cgroup2 rw\n")
            .with_file("/sys/fs/cgroup/cgroup.controllers", "cpu memory hugetlb\n")
            .with_file("/proc/zoneinfo", "Node 0, zone   Normal\n  pages \
                 free     1000\n        min      100\n        low      200\n        high     300\n        spanned  100000\n        present  100000\n        managed  100000\n")
            .with_file("/proc/buddyinfo", "Node 0, zone   Normal      1      1      1      1      1      1      1      1      1      1   4000\n")
            .with_file("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
            .with_file("/proc/vmstat", "thp_fault_alloc 1\npgscan_kswapd 0\n");
        for node in 0..nodes {
            let each = u64::try_from(nodes).unwrap();
            let text = format!(
                "Node {node} MemTotal: {}\nNode {node} MemFree: {}\n",
                kib(kernel.memory / each),
                kib(free / each)
            );
            source =
                source.with_file(&format!("/sys/devices/system/node/node{node}/meminfo"), text);
        }
        source
    }

    fn pools(&self, mut source: MapSource) -> MapSource {
        for (page, pool) in &self.kernel.pools {
            let name = format!("hugepages-{}kB", page >> 10);
            let own = pool.total() - pool.surplus();
            let whole = [
                ("nr_hugepages", pool.total()),
                ("nr_hugepages_mempolicy", pool.total()),
                ("free_hugepages", pool.free()),
                ("resv_hugepages", pool.reserved),
                ("surplus_hugepages", pool.surplus()),
                ("nr_overcommit_hugepages", pool.overcommit),
            ];
            assert!(own <= pool.total());
            for (file, count) in whole {
                source = source.with_file(
                    &format!("/sys/kernel/mm/hugepages/{name}/{file}"),
                    format!("{count}\n"),
                );
            }
            for (node, part) in pool.nodes.iter().enumerate() {
                let folder = format!("/sys/devices/system/node/node{node}/hugepages/{name}");
                for (file, count) in [
                    ("nr_hugepages", part.total),
                    ("free_hugepages", part.free),
                    ("surplus_hugepages", part.surplus),
                ] {
                    source = source.with_file(&format!("{folder}/{file}"), format!("{count}\n"));
                }
            }
        }
        source
    }

    fn process(
        &self,
        mut source: MapSource,
        at: usize,
        server: &Server,
        segments: &mut String,
    ) -> MapSource {
        let pid = server.pid;
        let (exe, words, directory) = program(server);
        let unit = unit_of(server);
        let cgroup = if server.kind == Kind::Stranger {
            format!("0::/user.slice/user-1000.slice/{unit}\n")
        } else {
            format!("0::/system.slice/{unit}\n")
        };
        let mut maps =
            format!("400000-500000 r-xp 00000000 fe:00 77                         {exe}\n");
        let mut start = 0x1_0000_0000_u64;
        for (number, piece) in server.pieces.iter().enumerate() {
            let inode = 1000 * (at + 1) + number;
            let page = piece.huge.map_or(4096, |(page, _)| page);
            let huge = piece.huge.is_some();
            let heap = usize::from(server.is_zgc(&server.running));
            if server.kind == Kind::Jvm && number != heap && !huge {
                continue;
            }
            let (mode, device, name) = match (server.kind, huge) {
                (Kind::Oracle, _) if server.running.policy == Policy::Automatic => {
                    ("rw-s", "00:1a", "/dev/shm/ora_DB_1_0")
                }
                (Kind::Oracle, true) => ("rw-s", "00:0f", "/SYSV00000000 (deleted)"),
                (Kind::Oracle, false) => ("rw-s", "00:01", "/SYSV00000000 (deleted)"),
                (Kind::PostgreSql, true) => ("rw-s", "00:0f", "/anon_hugepage (deleted)"),
                (Kind::PostgreSql, false) => ("rw-s", "00:01", "/dev/zero (deleted)"),
                (Kind::Qemu, true) => ("rw-s", "00:0f", "/memfd:memory-backend-memfd (deleted)"),
                (Kind::Qemu, false) => ("rw-s", "00:01", "/memfd:memory-backend-memfd (deleted)"),
                (Kind::Jvm, true) if heap == 1 && number == 1 => {
                    ("rw-s", "00:0f", "/memfd:java_heap.hugetlb (deleted)")
                }
                (Kind::Jvm, false) if heap == 1 && number == 1 => {
                    ("rw-s", "00:01", "/memfd:java_heap (deleted)")
                }
                (_, true) => ("rw-p", "00:0f", "/anon_hugepage (deleted)"),
                (_, false) => ("rw-p", "00:00", ""),
            };
            let inode = if device == "00:00" { 0 } else { inode };
            let end = start + piece.bytes;
            maps.push_str(&format!(
                "{start:x}-{end:x} {mode} 00000000 {device} \
                     {inode}                         {name}\n"
            ));
            source = source.page_size(pid, start, PageSize::new(page).unwrap());
            if server.kind == Kind::Oracle && server.running.policy != Policy::Automatic {
                segments.push_str(&format!(
                    "         0 {inode:>10}  640 {:>21} {pid} {pid} 3 {} {} {} {} 1 1 1 {:>21} 0\n",
                    piece.bytes,
                    server.uid,
                    server.gid,
                    server.uid,
                    server.gid,
                    if huge { 0 } else { piece.bytes }
                ));
            }
            start = (end + (4 << 30)).next_multiple_of(1 << 30);
        }
        let shared: u64 = server
            .pieces
            .iter()
            .filter(|piece| piece.huge.is_none())
            .map(|piece| piece.bytes)
            .sum();
        let touched: u64 = server
            .pieces
            .iter()
            .filter_map(|piece| piece.huge)
            .map(|(page, held)| page * held.touched)
            .sum();
        let name = words[0].rsplit('/').next().unwrap();
        let name: String = name.chars().take(15).collect();
        let caps = if server.ipc_lock { 1 << 14 } else { 0 };
        let mut text = status(&name, pid, 1, (server.uid, server.gid), shared >> 10, caps);
        text.push_str(&format!("HugetlbPages:\t{} kB\n", touched >> 10));
        let folder = format!("/proc/{pid}");
        source = source
            .with_file(&format!("{folder}/status"), text)
            .with_file(&format!("{folder}/cmdline"), words.join("\0") + "\0")
            .with_file(&format!("{folder}/cgroup"), &cgroup)
            .with_file(&format!("{folder}/maps"), maps)
            .with_file(&format!("{folder}/limits"), limits(server.unlimited))
            .with_link(&format!("{folder}/exe"), &exe)
            .with_link(&format!("{folder}/cwd"), &directory)
            .with_link(&format!("{folder}/root"), "/");
        if server.kind == Kind::PostgreSql {
            let data = format!("/var/lib/postgresql/15/{}", server.name);
            let text = format!(
                "{pid}\n{data}\n1760000000\n{}\n/var/run/postgresql\nlocalhost\n  123 \
                     4\nready   \n",
                5432 + at
            );
            source = source.with_file(&lock_file(server), text);
        }
        if server.kind == Kind::MariaDb {
            source = source.with_file("/var/lib/mysql/mysql_upgrade_info", "10.11.19-MariaDB\n");
        }
        if server.kind != Kind::Stranger {
            let user = ACCOUNTS.iter().find(|(_, uid, _)| *uid == server.uid).unwrap().0;
            let path = format!("/etc/systemd/system/{unit}");
            source =
                source.with_file(&path, format!("[Service]\nUser={user}\nExecStart=/bin/true\n"));
            source = cgroup_files(source, server, &unit);
        }
        source
    }
}

fn lock_file(server: &Server) -> String {
    format!("/var/lib/postgresql/15/{}/postmaster.pid", server.name)
}

fn cgroup_files(mut source: MapSource, server: &Server, unit: &str) -> MapSource {
    let held = server.held(MIB_2) * MIB_2;
    let touched =
        server.pieces.iter().filter_map(|piece| piece.huge).filter(|(page, _)| *page == MIB_2);
    let touched: u64 = touched.map(|(page, held)| page * held.touched).sum();
    let limit = |bytes: Option<u64>| bytes.map_or("max\n".to_owned(), |bytes| format!("{bytes}\n"));
    let (max, mapped) = match server.limit {
        Limit::None => (None, None),
        Limit::Touched(bytes) => (Some(bytes), None),
        Limit::Mapped(bytes) => (None, Some(bytes)),
    };
    for (file, text) in [
        ("max", limit(max)),
        ("current", format!("{touched}\n")),
        ("rsvd.max", limit(mapped)),
        ("rsvd.current", format!("{held}\n")),
        ("events", "max 0\n".to_owned()),
    ] {
        source = source
            .with_file(&format!("/sys/fs/cgroup/system.slice/{unit}/hugetlb.2MB.{file}"), text);
    }
    source
}

/// Its program, its arguments, and where it works.
fn program(server: &Server) -> (String, Vec<String>, String) {
    let name = &server.name;
    let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    match server.kind {
        Kind::PostgreSql => {
            let data = format!("/var/lib/postgresql/15/{name}");
            let exe = "/usr/lib/postgresql/15/bin/postgres".to_owned();
            let text =
                format!("{exe} -D {data} -c config_file=/etc/postgresql/15/{name}/postgresql.conf");
            (exe, words(text), data)
        }
        Kind::Oracle => {
            let home = oracle_home();
            (
                format!("{home}/bin/oracle"),
                vec![format!("{}_pmon_{name}", if name.starts_with('+') { "asm" } else { "ora" })],
                format!("{home}/dbs"),
            )
        }
        Kind::MariaDb => {
            let exe = "/usr/sbin/mariadbd".to_owned();
            (exe.clone(), vec![exe], "/var/lib/mysql".into())
        }
        Kind::Jvm => {
            let large =
                if server.running.policy == Policy::Off { "" } else { " -XX:+UseLargePages" };
            let text = format!("java {}{large} -jar {name}.jar", JVM[server.running.size].0);
            (java(server).into(), words(text), "/opt".into())
        }
        Kind::Qemu => {
            let mib = QEMU[server.running.size];
            let huge = if server.running.policy == Policy::Off { "off" } else { "on" };
            let page = match server.running.page {
                Some(page) if page == MIB_2 => ",hugetlbsize=2M",
                Some(_) => ",hugetlbsize=1G",
                None => "",
            };
            let text = format!(
                "/usr/bin/qemu-system-x86_64 -name guest={name} -m {mib} -object \
                 memory-backend-memfd,id=m,size={mib}M,hugetlb={huge}{page} -machine \
                     pc,memory-backend=m"
            );
            ("/usr/bin/qemu-system-x86_64".into(), words(text), "/".into())
        }
        Kind::Redis => {
            let exe = "/usr/bin/redis-server".to_owned();
            (exe.clone(), words(format!("{exe} 127.0.0.1:6379")), "/var/lib/redis".into())
        }
        Kind::Stranger => {
            ("/home/eve/app".into(), vec!["/home/eve/app".into()], "/home/eve".into())
        }
    }
}

/// Its program: of Debian's packages the path tells the release, of Oracle's archive the version.
pub(crate) fn java(server: &Server) -> &'static str {
    if server.tells_version {
        "/usr/lib/jvm/jdk-17.0.15/bin/java"
    } else {
        "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"
    }
}

fn status(
    name: &str,
    pid: u32,
    parent: u32,
    (uid, gid): (u32, u32),
    shared_kib: u64,
    caps: u64,
) -> String {
    format!(
        "Name:\t{name}\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\n\
         Groups:\t{gid}\nNSpid:\t{pid}\nVmSize:\t9000000 kB\nVmRSS:\t{shared_kib} kB\nRssAnon:\t0 \
             kB\nRssFile:\t0 kB\nRssShmem:\t{shared_kib} kB\n\
         VmPTE:\t64 kB\nVmSwap:\t0 kB\nThreads:\t1\nCapEff:\t{caps:016x}\n"
    )
}

fn limits(unlimited: bool) -> String {
    let limit = if unlimited { "unlimited" } else { "8388608" };
    format!(
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max locked memory         {limit:<20} {limit:<20} bytes     \n"
    )
}
