//! Hosts at random.

use proptest::prelude::*;

use crate::random_hosts::kernel::{GIB_1, Kernel, MIB_2};
use crate::random_hosts::servers::{
    JVM, Kind, Limit, MARIADB, ORACLE, POSTGRESQL, Policy, QEMU, Server, Settings,
};
use crate::random_hosts::world::World;

/// A number of pages, by what the servers ask for together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    None,
    Half,
    First,
    Exact,
    More,
    /// What the pool has just then.
    Now,
}

/// Something that was changed since the servers started.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Settings { of: usize, policy: usize, size: usize, gib: bool },
    Pool { gib: bool, amount: Amount },
    Overcommit(Amount),
    Group(u32),
}

/// A line of a boot file.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Sysctl { file: &'static str, key: &'static str, amount: Amount },
    Tmpfiles { file: &'static str, path: &'static str, amount: Amount },
    Group { file: &'static str, group: u32 },
}

/// What is asked of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing but a plan.
    Plain,
    /// `--instance`, the server at this place among those that run.
    One(usize),
    /// `--restart`, the same.
    Restart(usize),
    /// `--shrink`.
    Shrink,
    /// `--page-size`, in bytes.
    Pages(u64),
    /// `--only boot`.
    Boot,
    /// `--only now`.
    Now,
    /// `--early`.
    Early,
}

/// A server to be.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) kind: Kind,
    pub(crate) policy: usize,
    pub(crate) size: usize,
    pub(crate) gib: bool,
    pub(crate) limit: u8,
    pub(crate) touches: bool,
    pub(crate) ipc_lock: bool,
}

/// A host to be.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) memory_gib: u64,
    pub(crate) nodes: usize,
    pub(crate) servers: Vec<Drawn>,
    pub(crate) group: u32,
    pub(crate) pool: Amount,
    pub(crate) gib_pool: Amount,
    pub(crate) overcommit: Amount,
    pub(crate) events: Vec<Event>,
    pub(crate) lines: Vec<Line>,
    pub(crate) words: &'static str,
    pub(crate) old_kernel: bool,
    pub(crate) wish: Wish,
    pub(crate) thp: &'static str,
    /// Words that the boot loader's menu gets when it is made anew, where they are others than it
    /// has.
    pub(crate) to_be: Option<&'static str>,
    /// Whether the first Oracle instance is one of Automatic Storage Management.
    pub(crate) asm: bool,
}

/// Transparent huge pages as Debian has them.
pub(crate) const MADVISE: &str = "always [madvise] never";

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        6 => Just(Wish::Plain),
        2 => (0_usize..4).prop_map(Wish::One),
        2 => (0_usize..4).prop_map(Wish::Restart),
        1 => Just(Wish::Shrink),
        1 => prop::sample::select(vec![MIB_2, GIB_1]).prop_map(Wish::Pages),
        1 => prop::sample::select(vec![Wish::Boot, Wish::Now, Wish::Early]),
    ]
}

fn amount() -> impl Strategy<Value = Amount> {
    use Amount::{Exact, First, Half, More, None, Now};
    prop::sample::select(vec![None, Half, First, Exact, More, Now])
}

fn server() -> impl Strategy<Value = Drawn> {
    use Kind::{Jvm, MariaDb, Oracle, PostgreSql, Qemu, Redis, Stranger};
    let kind = prop::sample::select(vec![
        PostgreSql, PostgreSql, PostgreSql, Oracle, Oracle, MariaDb, Jvm, Qemu, Redis, Stranger,
    ]);
    (
        kind,
        0_usize..5,
        0_usize..9,
        prop::bool::weighted(0.15),
        0_u8..12,
        any::<bool>(),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(kind, policy, size, gib, limit, touches, ipc_lock)| Drawn {
            kind,
            policy,
            size,
            gib,
            limit,
            touches,
            ipc_lock,
        })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0_usize..4, 0_usize..5, 0_usize..9, prop::bool::weighted(0.2))
            .prop_map(|(index, policy, size, gib)| Event::Settings { of: index, policy, size, gib }),
        3 => (prop::bool::weighted(0.15), amount()).prop_map(|(gib, amount)| Event::Pool { gib, amount }),
        1 => amount().prop_map(Event::Overcommit),
        1 => prop::sample::select(vec![0_u32, 54321, 77]).prop_map(Event::Group),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    let conf = || {
        prop::sample::select(vec![
            "10-a.conf",
            "50-db.conf",
            "99-sysctl.conf",
            "zz-theirs.conf",
            "zzz-last.conf",
        ])
    };
    let keys = prop::sample::select(vec![
        "vm.nr_hugepages",
        "vm.nr_hugepages",
        "vm.nr_overcommit_hugepages",
    ]);
    let paths = prop::sample::select(vec![
        "/proc/sys/vm/nr_hugepages",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages",
        "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
        "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages",
    ]);
    prop_oneof![
        4 => (conf(), keys, amount()).prop_map(|(file, key, amount)| Line::Sysctl { file, key, amount }),
        2 => (conf(), paths, amount()).prop_map(|(file, path, amount)| Line::Tmpfiles { file, path, amount }),
        1 => (conf(), prop::sample::select(vec![0_u32, 54321, 77])).prop_map(|(file, group)| Line::Group { file, group }),
    ]
}

pub(crate) fn spec() -> impl Strategy<Value = Spec> {
    let memory = prop::sample::select(vec![24_u64, 48, 96]);
    let words = prop::sample::select(vec![
        "quiet",
        "quiet",
        "hugepages=8",
        "hugepagesz=1G hugepages=2",
        "hugepages=1200",
        "hugepages=0:400,1:700",
        "default_hugepagesz=1G hugepages=8",
    ]);
    let group = prop::sample::select(vec![0_u32, 54321, 77]);
    (
        (memory, 1_usize..3, prop::collection::vec(server(), 1..5), group),
        (amount(), amount(), prop::bool::weighted(0.2), amount()),
        (
            prop::collection::vec(event(), 0..4),
            prop::collection::vec(line(), 0..4),
            words,
            prop::bool::weighted(0.2),
            wish(),
            prop::sample::select(vec![
                MADVISE,
                MADVISE,
                "[always] madvise never",
                "always madvise [never]",
            ]),
            // Drawn last: the hosts of each seed stay as they were before there were such words.
            prop::option::weighted(
                0.15,
                prop::sample::select(vec![
                    "quiet",
                    "hugepagesz=1G hugepages=64",
                    "hugepages=300",
                    "default_hugepagesz=1G",
                ]),
            ),
            prop::bool::weighted(0.15),
        ),
    )
        .prop_map(
            |(
                (memory_gib, nodes, servers, group),
                (pool, gib_pool, on_demand, overcommit),
                rest,
            )| {
                let (events, lines, words, old_kernel, wish, thp, to_be, asm) = rest;
                let overcommit = if on_demand { overcommit } else { Amount::None };
                let spec = Spec {
                    memory_gib,
                    nodes,
                    servers,
                    group,
                    pool,
                    gib_pool,
                    overcommit,
                    events,
                    lines,
                    words,
                    old_kernel,
                    wish,
                    thp,
                    to_be,
                    asm,
                };
                // Of a node that is not there neither the loader nor tmpfiles.d can set anything.
                if spec.nodes == 1 { spec.on_one_node() } else { spec }
            },
        )
}

fn policy(kind: Kind, at: usize) -> Policy {
    let all: &[Policy] = match kind {
        Kind::PostgreSql => &[Policy::Try, Policy::Must, Policy::Off, Policy::Try],
        Kind::Oracle => {
            &[Policy::Try, Policy::Must, Policy::Off, Policy::Raises, Policy::Automatic]
        }
        Kind::MariaDb | Kind::Jvm => &[Policy::Try, Policy::Off],
        Kind::Qemu => &[Policy::Must, Policy::Off],
        Kind::Redis => &[Policy::Off],
        Kind::Stranger => &[Policy::Try],
    };
    all[at % all.len()]
}

fn settings(kind: Kind, at: usize, size: usize, gib: bool) -> Settings {
    let page = (gib && matches!(kind, Kind::PostgreSql | Kind::Qemu)).then_some(GIB_1);
    Settings { policy: policy(kind, at), size: size % kind.sizes(), page }
}

/// Pages that a server asks for, and of which size.
pub(crate) fn wants(kind: Kind, settings: &Settings) -> (u64, u64) {
    let page = settings.page.unwrap_or(MIB_2);
    let pages = match kind {
        Kind::PostgreSql => (POSTGRESQL[settings.size].1 << 20).div_ceil(page),
        Kind::Oracle => ORACLE[settings.size] / 2,
        Kind::MariaDb => MARIADB[settings.size] / 2 + 53 + 62 + 16 + 5,
        Kind::Jvm => JVM[settings.size].1 + JVM[settings.size].2,
        Kind::Qemu => (QEMU[settings.size] << 20).div_ceil(page),
        Kind::Redis => 0,
        Kind::Stranger => crate::random_hosts::servers::STRANGER[settings.size],
    };
    (page, if matches!(settings.policy, Policy::Off | Policy::Automatic) { 0 } else { pages })
}

impl Spec {
    /// The same host, as it was drawn before there was more to draw.
    pub(crate) fn before_more_was_drawn(self) -> Self {
        Self { to_be: None, asm: false, ..self }
    }

    fn on_one_node(mut self) -> Self {
        self.lines.retain(
            |line| !matches!(line, Line::Tmpfiles { path, .. } if path.contains("/node1/")),
        );
        if self.words.contains("1:") {
            self.words = "quiet";
        }
        self
    }

    pub(crate) fn world(&self) -> World {
        let mut kernel = Kernel::new(self.memory_gib << 30, self.nodes, &[MIB_2, GIB_1]);
        kernel.shm_group = self.group;
        kernel.old = self.old_kernel;
        let release = if self.old_kernel { "5.4.0-100-generic" } else { "6.1.0-30-amd64" };
        let new_default = self.words.starts_with("default_hugepagesz=");
        let made = |words: &str| {
            format!(
                "menuentry 'Debian' --class debian {{\n\tlinux /boot/vmlinuz root=UUID=1 ro \
                     {words}\n}}\n"
            )
        };
        let to_be = self.to_be.unwrap_or(self.words);
        let (menu, default_grub) = (made(self.words), format!("GRUB_CMDLINE_LINUX=\"{to_be}\"\n"));
        let mut world = World {
            kernel,
            servers: Vec::new(),
            files: [].into(),
            values: [].into(),
            menu: made(to_be),
            release,
            changed: [].into(),
            off_by: 0,
        };
        for (path, text) in [
            ("/boot/grub/grub.cfg", menu.as_str()),
            ("/usr/sbin/update-grub", "#!/bin/sh\nexec grub-mkconfig -o /boot/grub/grub.cfg\n"),
            (
                "/usr/sbin/grub-mkconfig",
                "for x in ${sysconfdir}/default/grub.d/*.cfg ; do . \"${x}\"; done\n",
            ),
            ("/etc/default/grub", default_grub.as_str()),
            ("/etc/mysql/conf.d/00.cnf", "[mysqld]\n"),
        ] {
            world.files.insert(path.into(), text.into());
        }
        for (path, text) in [
            // A new default is one of the next boot.
            (
                "/proc/cmdline",
                format!("root=UUID=1 ro {}", if new_default { "quiet" } else { self.words }),
            ),
            ("/sys/kernel/mm/transparent_hugepage/enabled", self.thp.into()),
            (
                "/sys/kernel/mm/transparent_hugepage/defrag",
                "always defer defer+madvise [madvise] never".into(),
            ),
            (
                "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                "always within_size advise [never] deny force".into(),
            ),
            ("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152".into()),
            ("/proc/sys/kernel/shmmax", "18446744073692774399".into()),
            ("/proc/sys/kernel/shmall", "18446744073692774399".into()),
            ("/proc/sys/kernel/shmmni", "4096".into()),
            ("/proc/sys/vm/overcommit_memory", "0".into()),
            ("/proc/sys/vm/overcommit_ratio", "50".into()),
            ("/proc/sys/vm/swappiness", "60".into()),
            ("/proc/sys/vm/min_free_kbytes", "67584".into()),
            ("/proc/sys/vm/max_map_count", "65530".into()),
            ("/proc/sys/kernel/hostname", "db1".into()),
        ] {
            world.values.insert(path.into(), text);
        }
        self.put_servers(&mut world);
        for (gib, amount) in [(false, self.pool), (true, self.gib_pool)] {
            let page = if gib { GIB_1 } else { MIB_2 };
            let pages = self.pages(&world, page, amount);
            world.kernel.write_pool(page, None, pages);
        }
        // Surplus pages lie where the kernel finds memory: on one node it is known where.
        if self.nodes == 1 {
            world.kernel.pools.get_mut(&MIB_2).unwrap().overcommit =
                self.pages(&world, MIB_2, self.overcommit);
        }
        for at in 0..world.servers.len() {
            let settings = world.settings(&world.servers[at]);
            let mut server = world.servers[at].clone();
            server.start(&mut world.kernel, &settings);
            if server.touches {
                server.grow(&mut world.kernel);
            }
            // Debian's service starts each cluster that is there at a boot, whether it ran or not;
            // what its own unit's cgroup limits is gone with that.
            let is_cluster = server.kind == Kind::PostgreSql;
            if is_cluster && !server.is_up() {
                server.limit = Limit::None;
            }
            server.known = (server.is_up() || is_cluster) && server.kind != Kind::Stranger;
            world.servers[at] = server;
        }
        world.changed.clear();
        self.events.iter().for_each(|event| self.happen(&mut world, event));
        self.lines.iter().for_each(|line| self.put_line(&mut world, line));
        world
    }

    fn put_servers(&self, world: &mut World) {
        for (at, drawn) in self.servers.iter().enumerate() {
            let kind = drawn.kind;
            if matches!(kind, Kind::MariaDb | Kind::Redis)
                && world.servers.iter().any(|server| server.kind == kind)
            {
                continue;
            }
            let (uid, gid) = match kind {
                Kind::PostgreSql => (101, 104),
                Kind::Oracle => (54321, 54321),
                Kind::MariaDb => (102, 105),
                Kind::Jvm => (110, 115),
                Kind::Qemu => (64055, 108),
                Kind::Redis => (112, 117),
                Kind::Stranger => (1000, 1000),
            };
            let letter = char::from(b'a' + u8::try_from(at).unwrap());
            let is_first = world.servers.iter().all(|server| server.kind != kind);
            let name = match kind {
                Kind::Oracle if self.asm && is_first => "+ASM".into(),
                Kind::Oracle => format!("DB{}", letter.to_ascii_uppercase()),
                Kind::MariaDb => "3306".into(),
                Kind::Redis => "6379".into(),
                Kind::Jvm => format!("app{letter}"),
                Kind::Qemu => format!("vm{letter}"),
                _ => letter.to_string(),
            };
            let running = settings(kind, drawn.policy, drawn.size, drawn.gib);
            let pages = wants(kind, &Settings { policy: Policy::Try, ..running.clone() }).1;
            let limit = match (drawn.limit, kind) {
                (_, Kind::Stranger | Kind::Redis) => Limit::None,
                // What a limit makes of a heap that grows into it was not measured.
                (_, Kind::Jvm) if running.size == crate::random_hosts::servers::ZGC => Limit::None,
                (0, _) => Limit::Touched(pages * MIB_2 / 2),
                (1, _) => Limit::Mapped(pages * MIB_2 / 2),
                (2, _) => Limit::Mapped(pages * MIB_2 * 2),
                _ => Limit::None,
            };
            if kind == Kind::PostgreSql {
                let folder = format!("/etc/postgresql/15/{name}/conf.d/00.conf");
                world.files.insert(folder, "work_mem = 4MB\n".into());
                let auto = format!("/var/lib/postgresql/15/{name}/postgresql.auto.conf");
                world.files.insert(auto, "# Do not edit this file manually!\n".into());
            }
            world.servers.push(Server {
                kind,
                name,
                pid: 1000 * u32::try_from(at + 1).unwrap(),
                uid,
                gid,
                running: running.clone(),
                limit,
                ipc_lock: drawn.ipc_lock,
                unlimited: false,
                known: false,
                tells_version: kind != Kind::Jvm || !drawn.gib,
                is_killed_late: false,
                grows_at_once: false,
                touches: drawn.touches,
                off_by: 0,
                pieces: Vec::new(),
            });
            world.configure(world.servers.len() - 1, &running);
        }
    }

    fn pages(&self, world: &World, page: u64, amount: Amount) -> u64 {
        let each = world.servers.iter().map(|server| wants(server.kind, &world.settings(server)));
        let each: Vec<u64> =
            each.filter(|(count, _)| *count == page).map(|(_, pages)| pages).collect();
        let all: u64 = each.iter().sum();
        match amount {
            Amount::None => 0,
            Amount::Half => all / 2,
            Amount::First => each.first().copied().unwrap_or_default(),
            Amount::Exact => all,
            Amount::More => all + if page == MIB_2 { 300 } else { 1 },
            Amount::Now => world.kernel.pools[&page].total() - world.kernel.pools[&page].surplus(),
        }
    }

    fn happen(&self, world: &mut World, event: &Event) {
        match event {
            Event::Settings { of: index, policy, size, gib } => {
                let at = index % world.servers.len();
                let kind = world.servers[at].kind;
                if matches!(kind, Kind::PostgreSql | Kind::Oracle | Kind::MariaDb) {
                    world.configure(at, &settings(kind, *policy, *size, *gib));
                }
            }
            Event::Pool { gib, amount } => {
                let page = if *gib { GIB_1 } else { MIB_2 };
                let pages = self.pages(world, page, *amount);
                // On several nodes it is not known on which of them pages in use become surplus
                // ones.
                if self.nodes == 1 || pages >= world.kernel.pools[&page].total() {
                    world.kernel.write_pool(page, None, pages);
                }
            }
            Event::Overcommit(amount) if self.nodes == 1 => {
                world.kernel.pools.get_mut(&MIB_2).unwrap().overcommit =
                    self.pages(world, MIB_2, *amount);
            }
            Event::Overcommit(_) => {}
            Event::Group(group) => world.kernel.shm_group = *group,
        }
    }

    fn put_line(&self, world: &mut World, line: &Line) {
        let (path, text) = match line {
            Line::Sysctl { file, key, amount } => {
                let pages = self.pages(world, MIB_2, *amount);
                (format!("/etc/sysctl.d/{file}"), format!("{key} = {pages}\n"))
            }
            Line::Tmpfiles { file, path, amount } => {
                let page = if path.contains("1048576") { GIB_1 } else { MIB_2 };
                let pages = self.pages(world, page, *amount);
                (format!("/etc/tmpfiles.d/{file}"), format!("w {path} - - - - {pages}\n"))
            }
            Line::Group { file, group } => {
                (format!("/etc/sysctl.d/{file}"), format!("vm.hugetlb_shm_group = {group}\n"))
            }
        };
        world.files.entry(path).or_default().push_str(&text);
    }
}
