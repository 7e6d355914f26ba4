//! A machine for tests: a folder that stands for its root, and a death or a failure at any call
//! that changes it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use hugewise_system::{Ran, SystemLock, Unfit};
use tempfile::TempDir;

use crate::plan::{FileContent, FileState};
use crate::{LiveSystem, System, SystemFailure};

/// The request, by its number, and what is done to the machine just before it.
type Meanwhile = (usize, fn(&Machine));

/// When in a call the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    Half,
    After,
}

pub(crate) const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Half, Moment::After];

/// What happens at which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    Dies(usize, Moment),
    Fails(usize),
}

struct Dead;

pub(crate) struct Machine {
    live: LiveSystem,
    root: TempDir,
    calls: Cell<usize>,
    fate: Cell<Fate>,
    /// Pages that each pool can get at most.
    pub(crate) most_pages: Cell<u64>,
    /// Commands that were run.
    pub(crate) ran: RefCell<Vec<String>>,
    /// This program fails.
    pub(crate) fails: Cell<&'static str>,
    /// What somebody else does just before which request, reads among them.
    meanwhile: Cell<Option<Meanwhile>>,
    requests: Cell<usize>,
    /// Alive while somebody holds the lock.
    held: RefCell<Weak<()>>,
}

struct Held {
    _lock: Box<dyn SystemLock>,
    _alive: Rc<()>,
}

impl SystemLock for Held {}

/// A file as it is compared: bytes, permissions, owner, and the labels.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Seen(Option<FileState>);

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(file) => write!(
                f,
                "{:?} {} {}:{} {:?}",
                String::from_utf8_lossy(file.content.bytes()),
                file.mode,
                file.uid,
                file.gid,
                file.labels
            ),
            None => f.write_str("folder"),
        }
    }
}

/// Asserts that two states are the same, and names what is not.
#[track_caller]
pub(crate) fn assert_same(now: &BTreeMap<String, Seen>, then: &BTreeMap<String, Seen>, what: &str) {
    let paths: std::collections::BTreeSet<_> = now.keys().chain(then.keys()).collect();
    let differ: Vec<String> = paths
        .into_iter()
        .filter(|path| now.get(*path) != then.get(*path))
        .map(|path| format!("{path}: {:?}, not {:?}", now.get(path), then.get(path)))
        .collect();
    assert!(differ.is_empty(), "{what}\n{}", differ.join("\n"));
}

impl Machine {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap();
        let live = LiveSystem::beneath_root(root.path()).unwrap();
        let machine = Self {
            live,
            root,
            calls: Cell::new(0),
            fate: Cell::new(Fate::Lives),
            most_pages: Cell::new(u64::MAX),
            ran: RefCell::default(),
            fails: Cell::new(""),
            meanwhile: Cell::default(),
            requests: Cell::default(),
            held: RefCell::default(),
        };
        fs::create_dir_all(machine.path("/var/lib")).unwrap();
        for (path, text) in files {
            machine.put(path, text);
        }
        machine
    }

    pub(crate) fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    pub(crate) fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Everything but our own records.
    pub(crate) fn seen(&self) -> BTreeMap<String, Seen> {
        let mut seen = BTreeMap::new();
        self.walk("", &mut seen);
        seen
    }

    fn walk(&self, folder: &str, seen: &mut BTreeMap<String, Seen>) {
        for entry in fs::read_dir(self.path(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("{folder}/{name}");
            if path == "/var/lib/hugewise" {
                continue;
            }
            let meta = fs::symlink_metadata(self.path(&path)).unwrap();
            if meta.is_dir() {
                assert_eq!(meta.uid(), rustix::process::geteuid().as_raw());
                seen.insert(path.clone(), Seen(None));
                self.walk(&path, seen);
            } else {
                let mut file = self.live.read_file(&path).unwrap().unwrap();
                if path.starts_with("/proc/") || path.starts_with("/sys/") {
                    // The kernel ends every value with a line feed; the files that stand for them
                    // don't.
                    file.content = FileContent::Text(self.get(&path).unwrap().trim().to_owned());
                }
                seen.insert(path.clone(), Seen(Some(file)));
            }
        }
    }

    /// Does something that may end in the death of the process, and says whether it survived.
    pub(crate) fn until<T>(&self, fate: Fate, work: impl FnOnce(&Self) -> T) -> Option<T> {
        self.calls.set(0);
        self.fate.set(fate);
        let result = catch_unwind(AssertUnwindSafe(|| work(self)));
        self.fate.set(Fate::Lives);
        match result {
            Ok(value) => Some(value),
            Err(cause) if cause.is::<Dead>() => None,
            Err(cause) => resume_unwind(cause),
        }
    }

    /// Does something while somebody else comes in between, before that request; gives the number
    /// of requests.
    pub(crate) fn swap_before(
        &self,
        request: usize,
        swap: fn(&Machine),
        work: impl FnOnce(&Self),
    ) -> usize {
        self.requests.set(0);
        self.meanwhile.set(Some((request, swap)));
        work(self);
        self.meanwhile.set(None);
        self.requests.get()
    }

    fn meet_others(&self) {
        self.requests.set(self.requests.get() + 1);
        if let Some((request, swap)) = self.meanwhile.get()
            && request == self.requests.get()
        {
            swap(self);
        }
    }

    /// Whether the fate was met.
    pub(crate) fn calls(&self) -> usize {
        self.calls.get()
    }

    fn call<T>(
        &self,
        what: &str,
        half: impl FnOnce(),
        whole: impl FnOnce() -> Result<T, SystemFailure>,
    ) -> Result<T, SystemFailure> {
        self.meet_others();
        let call = self.calls.get() + 1;
        self.calls.set(call);
        match self.fate.get() {
            Fate::Dies(at, moment) if at == call => {
                match moment {
                    Moment::Before => {}
                    Moment::Half => half(),
                    Moment::After => drop(whole()),
                }
                resume_unwind(Box::new(Dead))
            }
            Fate::Fails(at) if at == call => {
                half();
                Err(SystemFailure::new(what, "no space left on device"))
            }
            _ => whole(),
        }
    }

    fn grub_cfg(&self) -> String {
        let folder = self.path("/etc/default/grub.d");
        let mut names: Vec<_> =
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let parts = names
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "cfg"));
        let parts: String = parts.map(|path| fs::read_to_string(path).unwrap()).collect();
        format!("# made by update-grub\n{parts}")
    }

    /// What PostgreSQL does with `ALTER SYSTEM SET name = 'value'` and `RESET name`.
    fn alter_system(&self, statement: &str, half: bool) -> bool {
        let file = "/srv/data/postgresql.auto.conf";
        let Some(words) = statement.strip_prefix("ALTER SYSTEM ") else { return false };
        let setting = words.strip_prefix("SET ");
        let name = setting.map_or(words, |setting| setting.split(' ').next().unwrap());
        let name = name.trim_start_matches("RESET ").to_owned();
        let text = self.get(file).unwrap_or_default();
        let others = text.lines().filter(|line| !line.starts_with(&name));
        let mut lines: Vec<&str> = others.collect();
        lines.extend(setting);
        if !half {
            self.put(file, &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
        }
        true
    }

    /// What the programs of a host do, as far as a plan is concerned.
    fn effect(&self, command: &[String], half: bool) -> bool {
        let line = command.join(" ");
        if let [program, .., statement] = command
            && program == "/usr/bin/psql"
        {
            return self.alter_system(statement, half);
        }
        let cut = |text: String| if half { text[..text.len() / 2].to_owned() } else { text };
        match line.as_str() {
            "/usr/sbin/update-grub" => self.put("/boot/grub/grub.cfg", &cut(self.grub_cfg())),
            "/usr/sbin/tuned-adm profile hugewise" => {
                self.put("/etc/tuned/active_profile", &cut("hugewise\n".into()))
            }
            "/usr/sbin/tuned-adm profile virtual-guest" => {
                self.put("/etc/tuned/active_profile", &cut("virtual-guest\n".into()));
            }
            "/usr/bin/systemctl daemon-reload"
            | "/usr/bin/systemctl restart postgresql@15-main.service" => {}
            _ => return false,
        }
        true
    }
}

impl System for Machine {
    fn unix_time(&self) -> i64 {
        1_700_000_000
    }
    fn check_can_change(&self) -> Result<(), Unfit> {
        self.live.check_can_change()
    }
    fn read_text(&self, path: &str) -> Result<Option<String>, SystemFailure> {
        self.meet_others();
        self.live.read_text(path)
    }
    fn read_file(&self, path: &str) -> Result<Option<FileState>, SystemFailure> {
        self.meet_others();
        self.live.read_file(path)
    }
    fn resolve_path(&self, path: &str) -> Result<Option<String>, SystemFailure> {
        self.meet_others();
        self.live.resolve_path(path)
    }
    fn list_folder(&self, folder: &str) -> Result<Option<Vec<String>>, SystemFailure> {
        self.meet_others();
        self.live.list_folder(folder)
    }
    fn write_value(&self, path: &str, value: &str) -> Result<(), SystemFailure> {
        let pool = path.ends_with("/nr_hugepages");
        let give = |wanted: u64| {
            let given = wanted.min(self.most_pages.get()).to_string();
            self.live.write_value(path, &given)
        };
        let now = || self.get(path).unwrap_or_default().trim().parse::<u64>().unwrap_or(0);
        self.call(
            path,
            || {
                // A signal ends the kernel's work on a pool in the middle.
                if let Some(wanted) = value.parse::<u64>().ok().filter(|_| pool) {
                    give(u64::midpoint(now(), wanted)).unwrap();
                }
            },
            || match value.parse() {
                Ok(wanted) if pool => give(wanted),
                _ => self.live.write_value(path, value),
            },
        )
    }
    fn write_file(
        &self,
        path: &str,
        temporary: &str,
        file: &FileState,
    ) -> Result<(), SystemFailure> {
        let beside = format!("{}/{temporary}", path.rsplit_once('/').unwrap().0);
        let died = matches!(self.fate.get(), Fate::Dies(..));
        self.call(
            path,
            || {
                if died {
                    self.put(&beside, "half a f");
                }
            },
            || self.live.write_file(path, temporary, file),
        )
    }
    fn remove_file(&self, path: &str) -> Result<(), SystemFailure> {
        self.call(path, || {}, || self.live.remove_file(path))
    }
    fn is_in_other_hands(&self, path: &str) -> bool {
        self.live.is_in_other_hands(path)
    }
    fn make_folder(&self, path: &str, private: bool) -> Result<(), SystemFailure> {
        self.call(path, || {}, || self.live.make_folder(path, private))
    }
    fn remove_folder(&self, path: &str) -> Result<bool, SystemFailure> {
        self.call(path, || {}, || self.live.remove_folder(path))
    }
    fn run(&self, command: &[String], _user: Option<&str>) -> Result<Ran, SystemFailure> {
        self.call(
            &command.join(" "),
            || {
                self.effect(command, true);
            },
            || {
                self.ran.borrow_mut().push(command.join(" "));
                let fails = self.fails.get();
                let success = (fails.is_empty() || !command.join(" ").contains(fails))
                    && self.effect(command, false);
                Ok(Ran {
                    success,
                    output: String::new(),
                    complaint: "warning: x\nit does not work\n".into(),
                })
            },
        )
    }
    fn sync_file(&self, path: &str) -> Result<(), SystemFailure> {
        self.call(path, || {}, || self.live.sync_file(path))
    }
    fn append_to_file(&self, path: &str, bytes: &[u8]) -> Result<(), SystemFailure> {
        self.call(
            path,
            || self.live.append_to_file(path, &bytes[..bytes.len() / 2]).unwrap(),
            || self.live.append_to_file(path, bytes),
        )
    }
    fn truncate_file(&self, path: &str, length: u64) -> Result<(), SystemFailure> {
        self.call(path, || {}, || self.live.truncate_file(path, length))
    }
    fn take_lock(&self, path: &str) -> Result<Option<Box<dyn SystemLock>>, SystemFailure> {
        let begun = Instant::now();
        loop {
            if let Some(lock) = self.live.take_lock(path)? {
                let alive = Rc::new(());
                *self.held.borrow_mut() = Rc::downgrade(&alive);
                return Ok(Some(Box::new(Held { _lock: lock, _alive: alive })));
            }
            // What another test has forked holds the lock of this one too, until it becomes its
            // program.
            if self.held.borrow().strong_count() > 0 || begun.elapsed() > Duration::from_secs(60) {
                return Ok(None);
            }
        }
    }
    fn pause_for(&self, _time: Duration) {}
}
