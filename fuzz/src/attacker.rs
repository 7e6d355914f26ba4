//! A host on which a user without rights has done what he likes: his processes, their names,
//! arguments, cgroups and mappings, and the files in his folder are made of any bytes. Beside him
//! runs PostgreSQL as Debian has it.

use hugewise_host::source::MapSource;

/// His user and the folder that is his.
const UID: u32 = 4242;
const HOME: &str = "/home/mallory";

/// The PostgreSQL that is vouched for.
pub(crate) const SERVER: u32 = 500;
/// The first of his processes.
pub(crate) const FIRST: u32 = 1000;
/// How many he has at most.
const MOST: u32 = 4;

const MIB: u64 = 1 << 20;

/// Any bytes as a row of choices; where they end, the first choice.
struct Dice<'a>(&'a [u8]);

impl Dice<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Yes as often as no.
    fn coin(&mut self) -> bool {
        self.byte().is_multiple_of(2)
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of.get(usize::from(self.byte()) % of.len().max(1)).copied().unwrap_or_default()
    }

    /// Mostly one of these, sometimes what the bytes are.
    fn text(&mut self, of: &[&str]) -> String {
        if self.byte() % 5 < 4 {
            return self.pick(of).to_owned();
        }
        let length = usize::from(self.byte() % 24).min(self.0.len());
        let (own, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(own).replace('\0', "")
    }
}

const PROGRAMS: &[&str] = &[
    "postgres",
    "mysqld",
    "mariadbd",
    "ora_pmon_PROD",
    "java",
    "redis-server",
    "mongod",
    "qemu-system-x86_64",
    "batch",
    "asm_pmon_+ASM",
    "edb-postgres",
    "valkey-server",
];
const PATHS: &[&str] = &[
    "/home/mallory/data",
    "/home/mallory/15/main",
    "/etc/ssh/sshd_config.d",
    "/etc/apt/apt.conf.d",
    "/etc/sudoers.d",
    "/var/lib/postgresql/15/main",
    "/etc/postgresql/15/main",
    "/etc/postgresql/15/main/conf.d",
    "/etc/mysql/conf.d",
    "/etc/postgresql/15/../../ssh/conf.d",
    "/",
    "",
    "conf.d",
    "/proc/self/root/etc",
    "/home/mallory/a\nb",
];
const CGROUPS: &[&str] = &[
    "/user.slice/user-4242.slice/session-1.scope",
    "/user@4242.service/app.slice/ssh.service",
    "/user.slice/user-4242.slice/user@4242.service/app.slice/postgresql.service",
    "/system.slice/cron.service",
    "/system.slice/ssh.service",
    "/user.slice/user-4242.slice/user@4242.service/docker-aa.scope",
    "/",
    "/a b;reboot.service",
    "/system.slice/x\ny.service",
];
const VALUES: &[&str] = &[
    "on",
    "try",
    "off",
    "12GB",
    "200GB",
    "600MB",
    "2MB",
    "1GB",
    "15/main",
    "prod",
    "5432",
    "'",
    "$(reboot)",
    "{{ x }}",
    "/var/run/postgresql",
    "-1",
    "999999999999999999999",
];
const KEYS: &[&str] = &[
    "huge_pages",
    "huge_page_size",
    "shared_buffers",
    "shared_memory_type",
    "include_dir",
    "include",
    "cluster_name",
    "port",
    "unix_socket_directories",
    "data_directory",
    "config_file",
    "large-pages",
    "large_pages",
    "!includedir",
    "innodb_buffer_pool_size",
    "max_connections",
    "use_large_pages",
    "sga_target",
];
const ARGUMENTS: &[&str] = &[
    "-D",
    "-c",
    "--defaults-file=/home/mallory/my.cnf",
    "--large-pages",
    "-XX:+UseLargePages",
    "-Xmx8g",
    "-m",
    "8G",
    "-object",
    "memory-backend-memfd,id=m,size=8G,hugetlb=on",
    "-name",
    "guest=15/main",
    "config_file=/etc/postgresql/15/main/postgresql.conf",
    "huge_pages=on",
    "-XX:LargePageSizeInBytes=1g",
    "--port=3306",
];

/// The host that these bytes make.
pub(crate) fn host(bytes: &[u8]) -> MapSource {
    let mut dice = Dice(bytes);
    let mut source = base();
    for at in 0..=u32::from(dice.byte()) % MOST {
        source = stranger(source, &mut dice, FIRST + at);
    }
    for name in [
        "data/postgresql.conf",
        "data/postmaster.pid",
        "data/postgresql.auto.conf",
        "15/main/postgresql.conf",
        "my.cnf",
    ] {
        let mut text = String::new();
        for _ in 0..dice.byte() % 6 {
            let (key, sign) = (dice.text(KEYS), dice.pick(&[" = ", "=", " "]));
            let value = if dice.coin() { dice.text(VALUES) } else { dice.text(PATHS) };
            text += &format!("{key}{sign}{value}\n");
        }
        source = source.with_file(&format!("{HOME}/{name}"), text);
    }
    source
}

/// The same without him.
pub(crate) fn host_without_him() -> MapSource {
    base()
}

fn base() -> MapSource {
    let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    let mut source = MapSource::new()
        .with_file("/proc/meminfo", "MemTotal: 25165824 kB\nMemFree: 20971520 kB\nMemAvailable: \
             20971520 kB\nPageTables: 8192 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nHugePages_Total: \
             0\nHugePages_Free: 0\nHugePages_Rsvd: 0\nHugePages_Surp: 0\nHugepagesize: 2048 kB\n")
        .with_file("/proc/sys/kernel/osrelease", "6.1.0-13-amd64\n")
        .with_file("/proc/sys/kernel/hostname", "db7\n")
        .with_file("/proc/sys/kernel/shmmax", "18446744073692774399\n")
        .with_file("/proc/sys/kernel/shmall", "18446744073692774399\n")
        .with_file("/proc/sys/vm/hugetlb_shm_group", "0\n")
        .with_file("/proc/sys/vm/nr_hugepages", "0\n")
        .with_file("/proc/sysvipc/shm", "key shmid perms size cpid lpid nattch uid gid cuid cgid \
             atime dtime ctime rss swap\n")
        .with_file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        .with_file("/proc/cmdline", "root=/dev/vda1 ro\n")
        .with_file("/etc/passwd", "root:x:0:0::/root:/bin/sh\npostgres:x:101:101::/:/bin/sh\nmallory:x:4242:4242::/home/mallory:/bin/sh\n")
        .with_file("/etc/group", "root:x:0:\npostgres:x:101:\nmallory:x:4242:\nnogroup:x:65534:\n")
        .with_file("/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n")
        .with_file("/usr/lib/systemd/system/postgresql@.service", "[Service]\nType=forking\n")
        .with_file("/usr/lib/systemd/system/cron.service", "[Service]\nExecStart=/usr/sbin/cron\n")
        .with_file("/etc/postgresql/15/main/postgresql.conf", "shared_buffers = 1GB\ninclude_dir \
             = 'conf.d'\n")
        .with_file("/etc/postgresql/15/main/conf.d/10.conf", "work_mem = 4MB\n")
        .with_file("/var/lib/postgresql/15/main/PG_VERSION", "15\n")
        .with_file("/usr/bin/systemctl", "\x7fELF")
        .with_file("/usr/bin/pg_ctlcluster", "#!/usr/bin/perl\n")
        .with_file("/usr/bin/psql", "#!/usr/bin/perl\n");
    for (name, value) in [
        ("nr_hugepages", "0"),
        ("free_hugepages", "0"),
        ("resv_hugepages", "0"),
        ("surplus_hugepages", "0"),
        ("nr_overcommit_hugepages", "0"),
    ] {
        source = source.with_file(&format!("{pool}/{name}"), format!("{value}\n"));
    }
    let arguments = [
        "/usr/lib/postgresql/15/bin/postgres",
        "-D",
        "/var/lib/postgresql/15/main",
        "-c",
        "config_file=/etc/postgresql/15/main/postgresql.conf",
    ];
    let process = Process {
        pid: SERVER,
        uid: 101,
        name: "postgres",
        executable: "/usr/lib/postgresql/15/bin/postgres",
        directory: "/var/lib/postgresql/15/main",
        cgroup: "/system.slice/system-postgresql.slice/postgresql@15-main.service",
        mapped: 1074 * MIB,
        touched: 300 * MIB,
        kind: "/dev/zero (deleted)",
    };
    process.put(source, &arguments.map(str::to_owned))
}

fn stranger(source: MapSource, dice: &mut Dice<'_>, pid: u32) -> MapSource {
    let name = dice.text(PROGRAMS);
    let executable = format!("{HOME}/{name}");
    let directory = dice.text(PATHS);
    let cgroup = dice.text(CGROUPS);
    let mapped = (1 + u64::from(dice.byte())) * 800 * MIB;
    let touched = if dice.coin() { 4 * MIB } else { mapped };
    let kind = dice.pick(&[
        "/dev/zero (deleted)",
        "/SYSV00000000 (deleted)",
        "/memfd:x (deleted)",
        "/anon_hugepage (deleted)",
        "/dev/shm/x",
    ]);
    let mut arguments = vec![if dice.coin() { name.clone() } else { executable.clone() }];
    for _ in 0..dice.byte() % 6 {
        arguments.push(if dice.coin() { dice.text(ARGUMENTS) } else { dice.text(PATHS) });
    }
    let short: String = name.chars().filter(|c| *c != '\n').take(15).collect();
    let process = Process {
        pid,
        uid: UID,
        name: &short,
        executable: &executable,
        directory: &directory,
        cgroup: &cgroup,
        mapped,
        touched,
        kind,
    };
    process.put(source, &arguments)
}

struct Process<'a> {
    pid: u32,
    uid: u32,
    name: &'a str,
    executable: &'a str,
    directory: &'a str,
    cgroup: &'a str,
    mapped: u64,
    touched: u64,
    kind: &'a str,
}

impl Process<'_> {
    /// As the kernel shows it: a name and a path have no line break of their own there.
    fn put(&self, source: MapSource, arguments: &[String]) -> MapSource {
        let Self { pid, uid, name, executable, directory, cgroup, mapped, touched, kind } = self;
        let file = |name: &str| format!("/proc/{pid}/{name}");
        let status = format!(
            "Name:\t{name}\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\nGroups:\t{uid}\n\
             VmSize:\t{} kB\nRssShmem:\t{} kB\nVmPTE:\t512 kB\nVmSwap:\t0 kB\nHugetlbPages:\t0 \
                 kB\nThreads:\t1\nCapEff:\t0000000000000000\n",
            mapped >> 10,
            touched >> 10
        );
        let start = 0x7f00_0000_0000_u64;
        let maps = format!("{start:x}-{:x} rw-s 00000000 00:01 {pid} {kind}\n", start + mapped);
        source
            .with_file(&file("status"), status)
            .with_file(&file("cmdline"), arguments.join("\0") + "\0")
            .with_file(&file("cgroup"), format!("0::{}\n", cgroup.replace('\n', "\\012")))
            .with_file(
                &file("limits"),
                "Max locked memory         8388608              8388608              bytes\n",
            )
            .with_file(&file("maps"), maps)
            .with_link(&file("exe"), executable)
            .with_link(&file("cwd"), directory)
    }
}
