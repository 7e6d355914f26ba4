//! A host: its kernel, its servers, its files. It can be changed, restarted and booted, and
//! rendered as the files that hugewise reads.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_change::plan::{Change, CommandChange, Step};

use crate::random_hosts::boot::{self, Files};
use crate::random_hosts::kernel::Kernel;
use crate::random_hosts::servers::{
    JVM, Kind, Limit, MARIADB, ORACLE, POSTGRESQL, Policy, Server, Settings, State,
};

/// A host.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) servers: Vec<Server>,
    pub(crate) files: Files,
    /// Other files of the kernel, by path.
    pub(crate) values: BTreeMap<String, String>,
    /// GRUB's menu as it is once it was made anew, but for what a plan adds.
    pub(crate) menu: String,
    /// Whether /etc/sysctl.conf is read at boot, through Debian's link.
    pub(crate) release: &'static str,
    /// Of each server the files that were changed since it started.
    pub(crate) changed: BTreeSet<(usize, String)>,
    /// By how many pages the pools of a boot are off from what the files say.
    pub(crate) off_by: i64,
}

/// The three moments of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moments {
    pub(crate) now: State,
    pub(crate) restart: State,
    pub(crate) boot: State,
}

impl Moments {
    pub(crate) fn all(self) -> [(&'static str, State); 3] {
        [("now", self.now), ("restart", self.restart), ("boot", self.boot)]
    }
}

impl World {
    /// What a server's files make of its next start.
    pub(crate) fn settings(&self, server: &Server) -> Settings {
        let text = |path: &str| self.files.get(path).map(String::as_str).unwrap_or_default();
        let value = |texts: &[&str], name: &str| {
            let lines =
                texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once('='));
            let mut lines_of = lines.filter(|(key, _)| key.trim().trim_start_matches("*.") == name);
            let mut last = None;
            for (_, value) in &mut lines_of {
                last = Some(value.trim().trim_matches('\'').to_owned());
            }
            last
        };
        match server.kind {
            Kind::PostgreSql => {
                let folder = format!("/etc/postgresql/15/{}", server.name);
                let mut texts = vec![text(&format!("{folder}/postgresql.conf"))];
                let own = format!("{folder}/conf.d/");
                texts.extend(
                    self.files
                        .iter()
                        .filter(|(path, _)| path.starts_with(&own))
                        .map(|(_, text)| text.as_str()),
                );
                let auto = format!("/var/lib/postgresql/15/{}/postgresql.auto.conf", server.name);
                texts.push(text(&auto));
                let policy = match value(&texts, "huge_pages").as_deref() {
                    Some("on") => Policy::Must,
                    Some("off") => Policy::Off,
                    _ => Policy::Try,
                };
                let buffers = value(&texts, "shared_buffers").unwrap();
                let size =
                    POSTGRESQL.iter().position(|(mb, _)| format!("{mb}MB") == buffers).unwrap();
                let page = match value(&texts, "huge_page_size").as_deref() {
                    Some("1GB") => Some(crate::random_hosts::kernel::GIB_1),
                    Some("2MB") => Some(crate::random_hosts::kernel::MIB_2),
                    _ => None,
                };
                Settings { policy, size, page }
            }
            Kind::Oracle => {
                let text = text(&format!("{}/dbs/init{}.ora", oracle_home(), server.name));
                let policy = match value(&[text], "use_large_pages").as_deref() {
                    _ if value(&[text], "memory_target").is_some() => Policy::Automatic,
                    Some("ONLY") => Policy::Must,
                    Some("FALSE") => Policy::Off,
                    Some("AUTO") => Policy::Raises,
                    _ => Policy::Try,
                };
                let sga = value(&[text], "sga_target").unwrap();
                let size = ORACLE.iter().position(|mib| format!("{mib}M") == sga).unwrap();
                Settings { policy, size, page: None }
            }
            Kind::MariaDb => {
                let mut texts = vec![text("/etc/mysql/my.cnf")];
                let below =
                    self.files.iter().filter(|(path, _)| path.starts_with("/etc/mysql/conf.d/"));
                texts.extend(below.map(|(_, text)| text.as_str()));
                let policy = if value(&texts, "large_pages").as_deref() == Some("ON") {
                    Policy::Try
                } else {
                    Policy::Off
                };
                let pool = value(&texts, "innodb_buffer_pool_size").unwrap();
                let size = MARIADB.iter().position(|mib| format!("{mib}M") == pool).unwrap();
                Settings { policy, size, page: None }
            }
            // What they ask is on their command line.
            Kind::Jvm | Kind::Qemu | Kind::Redis | Kind::Stranger => server.running.clone(),
        }
    }

    /// Writes a server's files.
    pub(crate) fn configure(&mut self, at: usize, settings: &Settings) {
        let server = &self.servers[at];
        let name = &server.name;
        let (path, text) = match server.kind {
            Kind::PostgreSql => {
                let word = match settings.policy {
                    Policy::Off => "off",
                    Policy::Must => "on",
                    _ => "try",
                };
                let page = settings.page.map(|page| {
                    format!("huge_page_size = {}\n", crate::random_hosts::servers::page_name(page))
                });
                let text = format!(
                    "huge_pages = {word}\nshared_buffers = {}MB\nmax_connections = \
                         100\n{}include_dir = 'conf.d'\n",
                    POSTGRESQL[settings.size].0,
                    page.unwrap_or_default()
                );
                (format!("/etc/postgresql/15/{name}/postgresql.conf"), text)
            }
            Kind::Oracle => {
                let word = match settings.policy {
                    Policy::Off => "FALSE",
                    Policy::Must => "ONLY",
                    Policy::Raises => "AUTO",
                    Policy::Try | Policy::Automatic => "TRUE",
                };
                let mib = ORACLE[settings.size];
                let target = if settings.policy == Policy::Automatic {
                    format!("*.memory_target={mib}M\n")
                } else {
                    String::new()
                };
                let text = format!(
                    "{target}*.sga_target={mib}M\n*.use_large_pages={word}\n*.processes=300\n"
                );
                (format!("{}/dbs/init{name}.ora", oracle_home()), text)
            }
            Kind::MariaDb => {
                let word = if settings.policy == Policy::Off { "OFF" } else { "ON" };
                let text = format!(
                    "[mysqld]\ninnodb_buffer_pool_size={}M\nlarge_pages={word}\n!includedir \
                         /etc/mysql/conf.d/\n",
                    MARIADB[settings.size]
                );
                ("/etc/mysql/my.cnf".into(), text)
            }
            Kind::Jvm | Kind::Qemu | Kind::Redis | Kind::Stranger => {
                let size = settings.size.min(JVM.len().max(9));
                self.servers[at].running = Settings { size, ..settings.clone() };
                return;
            }
        };
        self.put(&path, text);
    }

    /// Puts a file there, in the place of what is there.
    pub(crate) fn put(&mut self, path: &str, text: String) {
        // A new file changes its folder too.
        let folder = path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let folder = folder.filter(|_| !self.files.contains_key(path));
        let changed = || std::iter::once(path.to_owned()).chain(folder.clone());
        self.changed
            .extend((0..self.servers.len()).flat_map(|at| changed().map(move |path| (at, path))));
        self.files.insert(path.to_owned(), text);
    }

    /// How a server stands after its own restart: the worst, whatever the heaps of others have
    /// grown by until then.
    pub(crate) fn restarted(&self, at: usize) -> State {
        let state = self.clone().restart(at);
        if !self.servers.iter().any(|server| server.is_zgc(&server.running)) {
            return state;
        }
        let mut then = self.clone();
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            let mut server = then.servers[other].clone();
            server.grow(&mut then.kernel);
            then.servers[other] = server;
        }
        state.min(then.restart(at))
    }

    /// The same world with pools that are some pages larger, or smaller by the pages that are free.
    pub(crate) fn with_pools_off_by(&self, pages: i64) -> Self {
        let mut then = self.clone();
        then.off_by = pages;
        then.kernel.adjust(pages);
        then
    }

    /// The same world with a server that will ask for some pages more or less than it is thought
    /// to.
    pub(crate) fn with_server_off_by(&self, at: usize, pages: i64) -> Self {
        let mut then = self.clone();
        then.servers[at].off_by = pages;
        then
    }

    /// How a server stands after its own restart with pools that are some pages larger or smaller
    /// by then.
    pub(crate) fn restarted_off_by(&self, at: usize, pages: i64) -> State {
        self.clone().restart_with(at, pages)
    }

    /// Restarts a server.
    pub(crate) fn restart(&mut self, at: usize) -> State {
        self.restart_with(at, 0)
    }

    fn restart_with(&mut self, at: usize, off_by: i64) -> State {
        let settings = self.settings(&self.servers[at]);
        let mut server = self.servers[at].clone();
        server.stop(&mut self.kernel);
        if off_by != 0 {
            self.kernel.adjust(off_by);
        }
        server.unlimited = self.is_unlimited(&server);
        let state = server.start(&mut self.kernel, &settings);
        self.servers[at] = server;
        self.changed.retain(|(index, _)| *index != at);
        state
    }

    /// The host after a boot at which the servers start in this order.
    pub(crate) fn booted(&self, order: &[usize]) -> Self {
        self.booted_with(order, false, false)
    }

    /// The same, where those that their cgroup's limit kills have touched that much only once all
    /// others have started, and where heaps have grown before the next one starts.
    fn booted_with(&self, order: &[usize], late: bool, grown: bool) -> Self {
        let mut then = self.clone();
        then.kernel = boot::boot(&self.kernel, &self.files);
        then.kernel.adjust(self.off_by);
        then.servers.iter_mut().for_each(|server| server.pieces.clear());
        then.changed.clear();
        for &at in order {
            let settings = self.settings(&self.servers[at]);
            let mut server = then.servers[at].clone();
            server.unlimited = self.is_unlimited(&server);
            (server.is_killed_late, server.grows_at_once) = (late, grown);
            server.start(&mut then.kernel, &settings);
            then.servers[at] = server;
        }
        for at in order {
            let server = &mut then.servers[*at];
            (server.is_killed_late, server.grows_at_once) = (false, false);
            if server.is_beyond_its_limit(&server.running.clone()) {
                server.stop(&mut then.kernel);
            }
        }
        then
    }

    /// Whether the files of a server's unit lift its memlock limit.
    fn is_unlimited(&self, server: &Server) -> bool {
        let folder = format!("/etc/systemd/system/{}.d/", unit_of(server));
        let mut drop_ins = self.files.iter().filter(|(path, _)| path.starts_with(&folder));
        drop_ins.any(|(_, text)| text.contains("LimitMEMLOCK=infinity"))
    }

    /// Servers that a boot starts: those that ran, and no users' programs.
    pub(crate) fn started_at_boot(&self) -> Vec<usize> {
        (0..self.servers.len()).filter(|at| self.servers[*at].known).collect()
    }

    /// The worst that a boot brings each server, whatever the order, and whenever those are killed
    /// that their cgroup's limit kills.
    pub(crate) fn worst_of_boot(&self) -> BTreeMap<usize, State> {
        let mut worst: BTreeMap<usize, State> = BTreeMap::new();
        let grows = self.servers.iter().any(|server| server.is_zgc(&server.running));
        let grown: &[bool] = if grows { &[false, true] } else { &[false] };
        for order in orders(&self.started_at_boot()) {
            for grown in grown {
                let mut note = |then: &Self| {
                    for at in &order {
                        let state = then.servers[*at].state();
                        worst
                            .entry(*at)
                            .and_modify(|worst| *worst = state.min(*worst))
                            .or_insert(state);
                    }
                };
                let then = self.booted_with(&order, false, *grown);
                note(&then);
                let is_killed = |at: &usize| {
                    let server = &then.servers[*at];
                    matches!(server.limit, Limit::Touched(_)) && !server.is_up()
                };
                if order.iter().any(is_killed) {
                    note(&self.booted_with(&order, true, *grown));
                }
            }
        }
        worst
    }

    /// The moments of each server that runs and is no user's.
    pub(crate) fn moments(&self) -> BTreeMap<usize, Moments> {
        let boot = self.worst_of_boot();
        let up = boot.keys().copied().filter(|at| self.servers[*at].is_up());
        up.map(|at| {
            (
                at,
                Moments {
                    now: self.servers[at].state(),
                    restart: self.restarted(at),
                    boot: boot[&at],
                },
            )
        })
        .collect()
    }

    /// Carries a step out, as the kernel and the programs would.
    pub(crate) fn carry_out(&mut self, step: &Step) {
        for change in &step.changes {
            match change {
                Change::Value(value) => self.write(&value.path, &value.after),
                Change::File(file) => match &file.after {
                    Some(after) => {
                        let text = String::from_utf8(after.content.bytes().to_vec()).unwrap();
                        self.put(&file.path, text);
                    }
                    None => drop(self.files.remove(&file.path)),
                },
                Change::Command(command) => self.run(command),
            }
        }
    }

    /// A write to a file of the kernel.
    pub(crate) fn write(&mut self, path: &str, value: &str) {
        if boot::write(&mut self.kernel, path, value) {
            return;
        }
        let old =
            self.values.get(path).unwrap_or_else(|| panic!("{path} is not on this host")).clone();
        let text = if old.contains('[') {
            let words = old.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            let chosen =
                words.map(|word| if word == value { format!("[{word}]") } else { word.to_owned() });
            chosen.collect::<Vec<_>>().join(" ")
        } else {
            value.to_owned()
        };
        self.values.insert(path.to_owned(), text);
    }

    fn run(&mut self, command: &CommandChange) {
        let words: Vec<&str> = command.command.iter().map(String::as_str).collect();
        match words[1..] {
            ["daemon-reload"] => {}
            ["restart", unit] => {
                let at = self
                    .servers
                    .iter()
                    .position(|server| unit_of(server) == unit)
                    .expect("a unit of this host");
                self.restart(at);
            }
            [] | ["-o", _] => {
                // grub-mkconfig of Debian sources the drop-ins in a shell; each entry's line is
                // made of the result.
                let drop_in =
                    self.files.iter().find(|(path, _)| path.starts_with("/etc/default/grub.d/"));
                let added = drop_in.and_then(|(_, text)| {
                    text.lines().find_map(|line| {
                        line.strip_prefix("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ")?
                            .strip_suffix('"')
                    })
                });
                let added = added.unwrap_or_default().to_owned();
                let line = |line: &str| match line.trim_start().starts_with("linux") {
                    true => format!("{line} {added}\n"),
                    false => format!("{line}\n"),
                };
                self.files
                    .insert("/boot/grub/grub.cfg".into(), self.menu.lines().map(line).collect());
            }
            ["-X", "-h", _, "-p", _, "-d", "postgres", "-c", sql] => {
                let setting = sql.strip_prefix("ALTER SYSTEM SET ").unwrap();
                let path = command.files[0].clone();
                let before = self.files.get(&path).cloned().unwrap_or_default();
                self.put(&path, format!("{before}{setting}\n"));
            }
            _ => panic!("{words:?}"),
        }
    }
}

pub(crate) fn oracle_home() -> &'static str {
    "/u01/app/oracle/product/19.3.0/dbhome_1"
}

/// The service that runs a server.
pub(crate) fn unit_of(server: &Server) -> String {
    match server.kind {
        Kind::PostgreSql => format!("postgresql@15-{}.service", server.name),
        Kind::Oracle => format!("oracle-{}.service", server.name.trim_start_matches('+')),
        Kind::MariaDb => "mariadb.service".into(),
        Kind::Jvm => format!("{}.service", server.name),
        Kind::Qemu => format!("qemu-{}.service", server.name),
        Kind::Redis => "redis-server.service".into(),
        Kind::Stranger => "session-2.scope".into(),
    }
}

/// Every order of these.
pub(crate) fn orders(indexs: &[usize]) -> Vec<Vec<usize>> {
    if indexs.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (place, first) in indexs.iter().enumerate() {
        let mut rest = indexs.to_vec();
        rest.remove(place);
        for mut order in orders(&rest) {
            order.insert(0, *first);
            all.push(order);
        }
    }
    all
}
