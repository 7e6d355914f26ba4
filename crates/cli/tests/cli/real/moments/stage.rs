//! A host as a set-up wants it: pools, boot files, servers that run.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};

use super::kinds::{Kind, Live};
use super::mappings::State;
use crate::real::harness;
use crate::real::namespace::State as Files;

const POOLS: &str = "/sys/kernel/mm/hugepages";
/// Folders in which a plan may have made files.
const CHANGED: [&str; 2] = ["/etc/sysctl.d", "/etc/tmpfiles.d"];
const FSTAB: &str = "/etc/fstab";
const SHM_GROUP: &str = "/proc/sys/vm/hugetlb_shm_group";

/// What of the boot's settings is played: all else that this machine's files set is none of a
/// test's business.
const SYSCTL_PREFIXES: [&str; 4] = [
    "/vm/nr_hugepages",
    "/vm/nr_hugepages_mempolicy",
    "/vm/nr_overcommit_hugepages",
    "/vm/hugetlb_shm_group",
];
const TMPFILES_PREFIXES: [&str; 5] = [
    "/sys/kernel/mm/hugepages",
    "/sys/devices/system/node",
    "/proc/sys/vm/nr_hugepages",
    "/proc/sys/vm/nr_overcommit_hugepages",
    "/proc/sys/vm/hugetlb_shm_group",
];

/// What was in the place of a file.
enum Before {
    Nothing,
    File(Vec<u8>),
    Link(PathBuf),
}

/// The host while a set-up is on it; its boot files go and its servers end when dropped.
pub(super) struct Stage<'a> {
    guard: &'a PoolGuard,
    servers: &'a [&'a dyn Kind],
    live: RefCell<Vec<Option<Live>>>,
    /// What was written, with what was there before.
    files: RefCell<Vec<(PathBuf, Before)>>,
    mounts: RefCell<Vec<PathBuf>>,
}

impl<'a> Stage<'a> {
    /// A host that has just booted without any file that is about huge pages, and without servers.
    pub(super) fn new(guard: &'a PoolGuard, servers: &'a [&'a dyn Kind]) -> Self {
        as_booted_by_systemd();
        let live = servers.iter().map(|_| None).collect();
        let stage = Self {
            guard,
            servers,
            live: RefCell::new(live),
            files: RefCell::default(),
            mounts: RefCell::default(),
        };
        stage.reset();
        stage
    }

    /// Pools, overcommit and group as the kernel starts with them.
    fn reset(&self) {
        for size in [PageSize::MIB_2, PageSize::GIB_1] {
            if !Path::new(POOLS).join(format!("hugepages-{}kB", size.bytes().get() >> 10)).exists()
            {
                continue;
            }
            // Pages of a gibibyte cannot be had beyond the pool.
            if size == PageSize::MIB_2 {
                self.guard.set_overcommit(size, PageCount(0)).unwrap();
            }
            // A server that has just ended may hold its pages for a moment more.
            harness::wait_for("an empty pool", || self.guard.set_pool(size, PageCount(0)).ok());
        }
        harness::wait_for("no surplus pages", || (self.number("nr_hugepages") == 0).then_some(()));
        self.guard.set_switch(SHM_GROUP, "0").unwrap();
    }

    /// A number of the pool of 2 MiB pages.
    pub(super) fn number(&self, name: &str) -> u64 {
        fs::read_to_string(format!("{POOLS}/hugepages-2048kB/{name}"))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    /// Pages of that pool that stay when those who hold them end.
    pub(super) fn lasting_pages(&self) -> u64 {
        self.number("nr_hugepages") - self.number("surplus_hugepages")
    }

    /// Every file that a plan may write: the host's, and those that servers keep their settings in.
    pub(super) fn files(&self) -> Files {
        let own: Vec<PathBuf> = self.servers.iter().flat_map(|server| server.own_files()).collect();
        let host = [Path::new("/etc"), Path::new("/boot")];
        Files::of(&host.into_iter().chain(own.iter().map(PathBuf::as_path)).collect::<Vec<_>>())
    }

    /// Ends all servers.
    pub(super) fn stop_all(&self) {
        self.live.borrow_mut().iter_mut().for_each(|live| *live = None);
        harness::wait_for("their pages", || (self.number("surplus_hugepages") == 0).then_some(()));
    }

    /// Makes the pool of 2 MiB pages so large, as somebody does by hand.
    pub(super) fn pool(&self, pages: u64) {
        self.guard.set_pool(PageSize::MIB_2, PageCount(pages)).unwrap();
    }

    /// Lets the kernel make so many 2 MiB pages beyond the pool.
    pub(super) fn overcommit(&self, pages: u64) {
        self.guard.set_overcommit(PageSize::MIB_2, PageCount(pages)).unwrap();
    }

    /// Sets `vm.hugetlb_shm_group`.
    pub(super) fn group(&self, gid: u32) {
        self.guard.set_switch(SHM_GROUP, &gid.to_string()).unwrap();
    }

    /// Writes a file that the next boot reads.
    pub(super) fn file(&self, path: &str, text: &str) {
        self.keep(path);
        fs::write(path, text).unwrap();
    }

    /// Writes a line at the end of a file that is there.
    pub(super) fn line(&self, path: &str, line: &str) {
        let text = fs::read_to_string(path).unwrap();
        self.file(path, &format!("{text}\n{line}"));
    }

    /// Makes a link of that name, in the place of what is there.
    pub(super) fn link(&self, path: &str, target: &str) {
        self.keep(path);
        let _ = fs::remove_file(path);
        symlink(target, path).unwrap();
    }

    /// Remembers what is there, to be put back; of a link, where it leads.
    fn keep(&self, path: &str) {
        fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
        let before = match fs::read_link(path) {
            Ok(target) => Before::Link(target),
            Err(_) => fs::read(path).map_or(Before::Nothing, Before::File),
        };
        self.files.borrow_mut().push((path.into(), before));
    }

    /// Mounts a hugetlbfs of 2 MiB pages there, as somebody does by hand, and makes /etc/fstab name
    /// it or not.
    pub(super) fn mount(&self, folder: &Path, lasting: bool) {
        fs::create_dir_all(folder).unwrap();
        harness::must(
            Command::new("mount")
                .args(["-t", "hugetlbfs", "-o", "pagesize=2M", "none"])
                .arg(folder),
        );
        self.mounts.borrow_mut().push(folder.to_owned());
        let of_others = fs::read_to_string(FSTAB).unwrap_or_default();
        let of_others = of_others.lines().filter(|line| !line.contains(&*folder.to_string_lossy()));
        let mut lines: Vec<String> = of_others.map(str::to_owned).collect();
        if lasting {
            lines.push(format!("none {} hugetlbfs pagesize=2M 0 0", folder.display()));
        }
        fs::write(FSTAB, lines.join("\n") + "\n").unwrap();
    }

    /// Starts a server with these settings; it has to start.
    pub(super) fn start(&self, at: usize, settings: &str) {
        self.servers[at].configure(settings);
        let live = self.servers[at]
            .launch()
            .unwrap_or_else(|why| panic!("{}: {why}", self.servers[at].engine()));
        self.live.borrow_mut()[at] = Some(live);
    }

    /// Changes the settings of a server that goes on running.
    pub(super) fn change(&self, at: usize, settings: &str) {
        self.servers[at].configure(settings);
    }

    /// Main process of a server.
    pub(super) fn pid(&self, at: usize) -> u32 {
        self.live.borrow()[at].as_ref().expect("it runs").pid
    }

    /// Which servers run.
    pub(super) fn running(&self) -> Vec<usize> {
        self.live
            .borrow()
            .iter()
            .enumerate()
            .filter(|(_, live)| live.is_some())
            .map(|(at, _)| at)
            .collect()
    }

    /// What the kernel says of a server.
    pub(super) fn look(&self, at: usize) -> (State, String) {
        let live = self.live.borrow();
        self.servers[at].look(live[at].as_ref().expect("it runs"))
    }

    /// Stops and starts all servers, one after the other; those that refused, and why.
    pub(super) fn restart_all(&self, servers: &[usize]) -> Vec<(usize, String)> {
        let mut refused = Vec::new();
        for &at in servers {
            self.live.borrow_mut()[at] = None;
            if let Err(why) = self.launch(at) {
                refused.push((at, why));
            }
        }
        refused
    }

    fn launch(&self, at: usize) -> Result<(), String> {
        self.servers[at].launch().map(|live| self.live.borrow_mut()[at] = Some(live))
    }

    /// Stops a server, starts it again by what its settings are now, and looks.
    pub(super) fn restart(&self, at: usize) -> (State, String) {
        self.live.borrow_mut()[at] = None;
        match self.launch(at) {
            Ok(()) => self.look(at),
            Err(why) => (State::DoesNotStart, why),
        }
    }

    /// Ends all servers, plays the boot and starts them in each order; for each the worst that it
    /// met.
    pub(super) fn reboot(&self, servers: &[usize]) -> Vec<(usize, State, String)> {
        let mut worst: Vec<(usize, State, String)> = Vec::new();
        for order in orders(servers) {
            self.boot();
            let mut refused = Vec::new();
            for &at in &order {
                if let Err(why) = self.launch(at) {
                    refused.push((at, why));
                }
            }
            for &at in servers {
                let refusal = refused.iter().find(|(refused, _)| *refused == at);
                let (state, evidence) = refusal
                    .map_or_else(|| self.look(at), |(_, why)| (State::DoesNotStart, why.clone()));
                match worst.iter_mut().find(|(index, ..)| *index == at) {
                    Some(one) if one.1 <= state => {}
                    Some(one) => *one = (at, state, evidence),
                    None => worst.push((at, state, evidence)),
                }
            }
        }
        worst
    }

    /// What a boot does to pools: nothing is there, then systemd's own tools read the files.
    fn boot(&self) {
        self.live.borrow_mut().iter_mut().for_each(|live| *live = None);
        self.reset();
        // Mounting what /etc/fstab names is local-fs.target's: what it does not name is gone.
        let mut mounts = self.mounts.borrow_mut();
        mounts.iter().for_each(|folder| drop(harness::must(Command::new("umount").arg(folder))));
        harness::must(Command::new("mount").args(["--all", "--types", "hugetlbfs"]));
        mounts.retain(|folder| {
            Command::new("mountpoint").arg("-q").arg(folder).status().unwrap().success()
        });
        drop(mounts);
        let mut sysctl = Command::new("/lib/systemd/systemd-sysctl");
        sysctl.args(SYSCTL_PREFIXES.map(|prefix| format!("--prefix={prefix}")));
        let mut tmpfiles = Command::new("/usr/bin/systemd-tmpfiles");
        tmpfiles
            .args(["--create", "--boot"])
            .args(TMPFILES_PREFIXES.map(|prefix| format!("--prefix={prefix}")));
        // A line that cannot be carried out makes them fail, and the boot goes on.
        for command in [&mut sysctl, &mut tmpfiles] {
            command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.live.borrow_mut().clear();
        for mount in &*self.mounts.borrow() {
            let _ = Command::new("umount").arg(mount).output();
        }
        for (path, before) in self.files.borrow().iter().rev() {
            let _ = fs::remove_file(path);
            let _ = match before {
                Before::Nothing => Ok(()),
                Before::File(text) => fs::write(path, text),
                Before::Link(target) => symlink(target, path),
            };
        }
        for folder in CHANGED {
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            for file in
                files.filter(|file| file.file_name().to_string_lossy().starts_with("zz-hugewise"))
            {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

/// All orders of these.
fn orders(all: &[usize]) -> Vec<Vec<usize>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let first = |at: usize| {
        let mut rest = all.to_vec();
        let first = rest.remove(at);
        orders(&rest).into_iter().map(move |rest| [&[first], rest.as_slice()].concat())
    };
    (0..all.len()).flat_map(first).collect()
}

/// The boot that is played is systemd's, whatever is process 1 of the namespace: what sets the host
/// up goes by its name.
fn as_booted_by_systemd() {
    const COMM: &str = "/proc/1/comm";
    if fs::read_to_string(COMM).is_ok_and(|comm| comm.trim() == "systemd") {
        return;
    }
    let name = std::env::temp_dir().join(format!("hugewise-moments-comm-{}", std::process::id()));
    fs::write(&name, "systemd\n").unwrap();
    harness::must(Command::new("mount").arg("--bind").arg(&name).arg(COMM));
    fs::remove_file(&name).unwrap();
}
