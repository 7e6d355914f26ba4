//! A machine for tests: a folder that stands for its root, and a death or a failure at any call that changes it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use hugewise_system::{Lock, Ran, Unfit};
use tempfile::TempDir;

use crate::plan::{Content, FileState};
use crate::{Failure, Live, System};

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
    live: Live,
    root: TempDir,
    calls: Cell<usize>,
    fate: Cell<Fate>,
    /// Pages that each pool can get at most.
    pub(crate) most_pages: Cell<u64>,
    /// Commands that were run.
    pub(crate) ran: RefCell<Vec<String>>,
    /// This program fails.
    pub(crate) fails: Cell<&'static str>,
    /// Alive while somebody holds the lock.
    held: RefCell<Weak<()>>,
}

struct Held {
    _lock: Box<dyn Lock>,
    _alive: Rc<()>,
}

impl Lock for Held {}

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
        let live = Live::beneath(root.path()).unwrap();
        let machine = Self {
            live,
            root,
            calls: Cell::new(0),
            fate: Cell::new(Fate::Lives),
            most_pages: Cell::new(u64::MAX),
            ran: RefCell::default(),
            fails: Cell::new(""),
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
                let mut file = self.live.file(&path).unwrap().unwrap();
                if path.starts_with("/proc/") || path.starts_with("/sys/") {
                    // The kernel ends every value with a line feed; the files that stand for them don't.
                    file.content = Content::Text(self.get(&path).unwrap().trim().to_owned());
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

    /// Whether the fate was met.
    pub(crate) fn calls(&self) -> usize {
        self.calls.get()
    }

    fn call<T>(
        &self,
        what: &str,
        half: impl FnOnce(),
        whole: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
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
                Err(Failure::new(what, "no space left on device"))
            }
            _ => whole(),
        }
    }

    fn grub_cfg(&self) -> String {
        let folder = self.path("/etc/default/grub.d");
        let mut names: Vec<_> = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let parts = names.iter().filter(|path| path.extension().is_some_and(|extension| extension == "cfg"));
        let parts: String = parts.map(|path| fs::read_to_string(path).unwrap()).collect();
        format!("# made by update-grub\n{parts}")
    }

    /// What the programs of a host do, as far as a plan is concerned.
    fn effect(&self, command: &[String], half: bool) -> bool {
        let line = command.join(" ");
        let cut = |text: String| if half { text[..text.len() / 2].to_owned() } else { text };
        match line.as_str() {
            "/usr/sbin/update-grub" => self.put("/boot/grub/grub.cfg", &cut(self.grub_cfg())),
            "/usr/sbin/tuned-adm profile hugewise" => self.put("/etc/tuned/active_profile", &cut("hugewise\n".into())),
            "/usr/sbin/tuned-adm profile virtual-guest" => {
                self.put("/etc/tuned/active_profile", &cut("virtual-guest\n".into()));
            }
            "/usr/bin/systemctl daemon-reload" | "/usr/bin/systemctl restart postgresql@15-main.service" => {}
            _ => return false,
        }
        true
    }
}

impl System for Machine {
    fn now(&self) -> i64 {
        1_700_000_000
    }
    fn fit(&self) -> Result<(), Unfit> {
        self.live.fit()
    }
    fn text(&self, path: &str) -> Result<Option<String>, Failure> {
        self.live.text(path)
    }
    fn file(&self, path: &str) -> Result<Option<FileState>, Failure> {
        self.live.file(path)
    }
    fn real(&self, path: &str) -> Result<Option<String>, Failure> {
        self.live.real(path)
    }
    fn list(&self, folder: &str) -> Result<Option<Vec<String>>, Failure> {
        self.live.list(folder)
    }
    fn write_value(&self, path: &str, value: &str) -> Result<(), Failure> {
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
    fn write_file(&self, path: &str, temporary: &str, file: &FileState) -> Result<(), Failure> {
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
    fn remove_file(&self, path: &str) -> Result<(), Failure> {
        self.call(path, || {}, || self.live.remove_file(path))
    }
    fn is_in_other_hands(&self, path: &str) -> bool {
        self.live.is_in_other_hands(path)
    }
    fn make_folder(&self, path: &str, private: bool) -> Result<(), Failure> {
        self.call(path, || {}, || self.live.make_folder(path, private))
    }
    fn remove_folder(&self, path: &str) -> Result<bool, Failure> {
        self.call(path, || {}, || self.live.remove_folder(path))
    }
    fn run(&self, command: &[String], _user: Option<&str>) -> Result<Ran, Failure> {
        self.call(
            &command.join(" "),
            || {
                self.effect(command, true);
            },
            || {
                self.ran.borrow_mut().push(command.join(" "));
                let fails = self.fails.get();
                let success = (fails.is_empty() || !command.join(" ").contains(fails)) && self.effect(command, false);
                Ok(Ran { success, output: String::new(), complaint: "warning: x\nit does not work\n".into() })
            },
        )
    }
    fn sync(&self, path: &str) -> Result<(), Failure> {
        self.call(path, || {}, || self.live.sync(path))
    }
    fn append(&self, path: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.call(path, || self.live.append(path, &bytes[..bytes.len() / 2]).unwrap(), || self.live.append(path, bytes))
    }
    fn cut(&self, path: &str, length: u64) -> Result<(), Failure> {
        self.call(path, || {}, || self.live.cut(path, length))
    }
    fn lock(&self, path: &str) -> Result<Option<Box<dyn Lock>>, Failure> {
        let begun = Instant::now();
        loop {
            if let Some(lock) = self.live.lock(path)? {
                let alive = Rc::new(());
                *self.held.borrow_mut() = Rc::downgrade(&alive);
                return Ok(Some(Box::new(Held { _lock: lock, _alive: alive })));
            }
            // What another test has forked holds the lock of this one too, until it becomes its program.
            if self.held.borrow().strong_count() > 0 || begun.elapsed() > Duration::from_secs(60) {
                return Ok(None);
            }
        }
    }
    fn pause(&self, _time: Duration) {}
}
