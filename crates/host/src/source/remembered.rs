//! What was read of files, as long as the files stay as they are.
//!
//! Who reads one host again and again reads the same configuration each time. To ask of every file and folder whether it
//! was changed takes a small part of reading and parsing them. What cannot be asked so is read again and compared.
//!
//! Of folders it is asked at each reading: packages, editors and tools of configuration put a new file in the old one's place,
//! which changes the folder. Of files, which are many more, a part has its turn at each reading, and all of them where the last
//! reading was long ago: so what lies in a folder that nobody lists, or behind a link, is seen within some readings.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hugewise_model::{Observed, PageSize, Unread};

use super::{Machine, Next, Owner, Part, Source, Turns};
use crate::Door;
use crate::process::status::Matters;

/// What stands at a path, and when that was last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Nothing.
    Nothing,
    /// A file, folder or link.
    Something {
        /// Of its file system.
        device: u64,
        /// Of its inode there.
        inode: u64,
        /// In bytes.
        size: u64,
        /// When its content was changed, since the epoch.
        modified: Duration,
        /// When anything of it was changed, its owner and mode among it, since the epoch.
        changed: Duration,
    },
}

/// Something that was asked of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    File(String),
    Folder(String),
    Link(String),
}

/// What holds as long as the answer does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Evidence {
    Stamp(Stamp),
    File(Observed<Vec<u8>>),
    Folder(Observed<Vec<String>>),
    Link(Observed<String>),
}

impl Question {
    fn stamp(&self, source: &dyn Source) -> Option<Evidence> {
        let stamp = match self {
            Self::File(path) | Self::Folder(path) => source.stamp(path, true),
            Self::Link(path) => source.stamp(path, false),
        };
        stamp.map(Evidence::Stamp)
    }

    fn is_still(&self, source: &dyn Source, evidence: &Evidence) -> bool {
        match (self, evidence) {
            (_, Evidence::Stamp(_)) => self.stamp(source).as_ref() == Some(evidence),
            (Self::File(path), Evidence::File(answer)) => source.read(path) == *answer,
            (Self::Folder(path), Evidence::Folder(answer)) => source.list(path) == *answer,
            (Self::Link(path), Evidence::Link(answer)) => source.link(path) == *answer,
            _ => false,
        }
    }
}

/// Answers as its source does, and keeps what each answer rests on.
struct Witness<'a> {
    source: &'a dyn Source,
    rests_on: RefCell<BTreeMap<Question, Evidence>>,
    /// Names in the folders whose stamps were taken before these were listed; none in one that is not there.
    vouching: RefCell<BTreeMap<String, Vec<String>>>,
    /// Whether that is all of it.
    is_whole: Cell<bool>,
}

impl Witness<'_> {
    /// The stamp comes first: who changes the file after that is found out.
    fn ask<T: Clone>(
        &self,
        question: Question,
        answer: impl Fn() -> Observed<T>,
        kept: fn(Observed<T>) -> Evidence,
    ) -> Observed<T> {
        if let Some(answer) = self.vouched_for(&question, &answer) {
            return answer;
        }
        let stamp = question.stamp(self.source);
        let answer = answer();
        let evidence = stamp.unwrap_or_else(|| kept(answer.clone()));
        let before = self.rests_on.borrow_mut().insert(question, evidence.clone());
        if before.is_some_and(|before| before != evidence) {
            self.is_whole.set(false);
        }
        answer
    }

    /// What a folder's stamp answers for: which names are there, and where those of them that are links lead. Whoever would
    /// change that changes the folder; what a file holds is another matter.
    fn vouched_for<T>(&self, question: &Question, answer: &impl Fn() -> Observed<T>) -> Option<Observed<T>> {
        let (Question::File(path) | Question::Folder(path) | Question::Link(path)) = question;
        let (folder, name) = path.rsplit_once('/').filter(|(_, name)| !matches!(*name, "" | "." | ".."))?;
        let is_there = self.vouching.borrow().get(folder).map(|names| names.iter().any(|there| there == name))?;
        match question {
            Question::Link(_) => Some(answer()),
            _ if is_there => None,
            _ => Some(answer()).filter(Observed::is_absent),
        }
    }

    /// Names that were listed under a stamp count for what is asked of that folder next.
    fn listed(&self, folder: &str, names: &Observed<Vec<String>>) {
        let stamp = self.rests_on.borrow().get(&Question::Folder(folder.to_owned())).cloned();
        if matches!(stamp, Some(Evidence::Stamp(_)))
            && let Some(names) = names.clone().or_else_absent(|| Observed::Known(Vec::new())).into_known()
        {
            self.vouching.borrow_mut().insert(folder.to_owned(), names);
        }
    }

    fn not_kept<T>(&self, answer: T) -> T {
        self.is_whole.set(false);
        answer
    }
}

impl Source for Witness<'_> {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.ask(Question::File(path.to_owned()), || self.source.read(path), Evidence::File)
    }

    fn glance(&self, path: &str, most: u64) -> Observed<Vec<u8>> {
        // What is larger is left out whatever it holds; without a stamp to go by, its bytes are compared.
        self.ask(Question::File(path.to_owned()), || self.source.glance(path, most), Evidence::File)
    }

    fn keep(&self, path: &str, answer: &Observed<Vec<u8>>) {
        self.source.keep(path, answer);
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        let names = self.ask(Question::Folder(folder.to_owned()), || self.source.list(folder), Evidence::Folder);
        self.listed(folder, &names);
        names
    }

    fn link(&self, path: &str) -> Observed<String> {
        self.ask(Question::Link(path.to_owned()), || self.source.link(path), Evidence::Link)
    }

    fn stamp(&self, path: &str, follow: bool) -> Option<Stamp> {
        self.not_kept(self.source.stamp(path, follow))
    }

    fn owner_of(&self, path: &str) -> Observed<u32> {
        self.not_kept(self.source.owner_of(path))
    }

    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.not_kept(self.source.read_part(path, before, max))
    }

    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        self.not_kept(self.source.read_as(owner, path, most))
    }

    fn read_part_as(&self, owner: &Owner, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.not_kept(self.source.read_part_as(owner, path, before, max))
    }

    fn list_as(&self, owner: &Owner, folder: &str, most: u64) -> Observed<Vec<String>> {
        self.not_kept(self.source.list_as(owner, folder, most))
    }

    fn link_as(&self, owner: &Owner, path: &str) -> Observed<String> {
        self.not_kept(self.source.link_as(owner, path))
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.not_kept(self.source.mapping_page_size(pid, start))
    }

    fn owner_of_executable(&self, pid: u32) -> Observed<u32> {
        self.not_kept(self.source.owner_of_executable(pid))
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        self.not_kept(self.source.changed_since_start(owner, path, pid))
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        self.not_kept(self.source.changed_after(path, than))
    }

    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        self.not_kept(self.source.cpu_time(pid))
    }

    fn ahead(&self, next: &[Next], matters: Matters) {
        self.source.ahead(next, matters);
    }

    fn machine(&self) -> Machine {
        self.not_kept(self.source.machine())
    }

    fn problems(&self) -> Vec<Unread> {
        self.source.problems()
    }

    fn torn(&self) -> Option<String> {
        self.source.torn()
    }
}

/// What was read, what the reading said of files, and what all of it rests on.
#[derive(Debug)]
struct Kept<K, T> {
    key: K,
    made: T,
    unread: Vec<Unread>,
    seen: Vec<String>,
    rests_on: BTreeMap<Question, Evidence>,
    turns: Turns,
}

impl<K, T> Kept<K, T> {
    /// Whether what it rests on is as it was, as far as it has its turn.
    fn holds(&mut self, source: &dyn Source) -> bool {
        let turn = self.turns.turn();
        self.rests_on
            .iter()
            .zip((0..Turns::ALL).cycle())
            .filter(|((question, _), of)| {
                turn.is_none_or(|turn| turn == *of) || matches!(question, Question::Folder(_))
            })
            .all(|((question, answer), _)| question.is_still(source, answer))
    }
}

/// The last thing that was made of some files of one machine.
#[derive(Debug)]
pub struct Remembered<K, T>(Mutex<Option<Kept<K, T>>>);

impl<K, T> Default for Remembered<K, T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<K: PartialEq, T: Clone> Remembered<K, T> {
    /// What `make` makes of the files that it reads through its door: the last one again, where it was made for the same key
    /// and none of its folders, and none of the files whose turn it is, was changed since.
    pub fn read(&self, door: &mut Door<'_>, key: K, make: impl FnOnce(&mut Door<'_>) -> T) -> T {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = slot.as_mut()
            && kept.key == key
            && kept.holds(door.source)
        {
            door.unread.extend_from_slice(&kept.unread);
            door.seen.extend_from_slice(&kept.seen);
            return kept.made.clone();
        }
        let witness = Witness {
            source: door.source,
            rests_on: RefCell::default(),
            vouching: RefCell::default(),
            is_whole: Cell::new(true),
        };
        let mut own = Door::new(&witness);
        let made = make(&mut own);
        let (unread, seen) = (own.unread, own.seen);
        door.unread.extend_from_slice(&unread);
        door.seen.extend_from_slice(&seen);
        let (is_whole, rests_on) = (witness.is_whole.get(), witness.rests_on.into_inner());
        *slot = is_whole.then(|| Kept { key, made: made.clone(), unread, seen, rests_on, turns: Turns::begin() });
        made
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "looks at its own files past the code under test")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    use super::*;
    use crate::source::{Live, MapSource};

    /// What is read in the end, once each file had its turn.
    fn in_turn<T>(mut read: impl FnMut() -> T) -> T {
        for _ in 1..Turns::ALL {
            read();
        }
        read()
    }

    /// What is read of `path`, and how often it was made so far.
    fn text(remembered: &Remembered<u8, String>, source: &dyn Source, path: &str, made: &mut u32) -> String {
        let make = |door: &mut Door<'_>| {
            *made += 1;
            String::from_utf8_lossy(&door.read(path).into_known().unwrap_or_default()).into_owned()
        };
        remembered.read(&mut Door::new(source), 0, make)
    }

    /// Waits until what was written last counts as settled.
    fn settle(path: &str) {
        let (live, begun) = (Live::new(), Instant::now());
        while live.stamp(path, true).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{path} has no stamp");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    #[test]
    fn a_file_that_stays_is_made_once_and_one_that_changes_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.conf").display().to_string();
        fs::write(&path, "one").unwrap();
        settle(&path);
        let (live, remembered, mut made) = (Live::new(), Remembered::default(), 0);
        for _ in 0..3 {
            assert_eq!((text(&remembered, &live, &path, &mut made), made), ("one".into(), 1));
        }
        // As long as before, and its time of writing set back: what was changed when is the kernel's word.
        let before = std::path::Path::new(&path).metadata().unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        let mut seen = || in_turn(|| text(&remembered, &live, &path, &mut made));
        assert_eq!(seen(), "two");
        // While it is new its bytes are compared.
        fs::write(&path, "six").unwrap();
        assert_eq!(seen(), "six");
        fs::remove_file(&path).unwrap();
        assert_eq!(seen(), "");
    }

    #[test]
    fn after_a_while_every_file_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.conf").display().to_string();
        fs::write(&path, "one").unwrap();
        settle(&path);
        let (live, remembered, mut made) = (Live::new(), Remembered::default(), 0);
        assert_eq!(text(&remembered, &live, &path, &mut made), "one");
        fs::write(&path, "two").unwrap();
        assert_eq!(text(&remembered, &live, &path, &mut made), "one", "it does not have its turn");
        if let Some(kept) = remembered.0.lock().unwrap().as_mut() {
            kept.turns.age();
        }
        assert_eq!(text(&remembered, &live, &path, &mut made), "two");
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::write(at("one"), "one").unwrap();
        fs::write(at("two"), "two").unwrap();
        symlink("one", at("link")).unwrap();
        settle(&at("two"));
        let (live, remembered, mut made) = (Live::new(), Remembered::default(), 0);
        assert_eq!(text(&remembered, &live, &at("link"), &mut made), "one");
        fs::remove_file(at("link")).unwrap();
        symlink("two", at("link")).unwrap();
        assert_eq!(in_turn(|| text(&remembered, &live, &at("link"), &mut made)), "two");
    }

    /// Names, links and what is missing in a folder that was listed: the folder's stamp answers for all of it, and for no more.
    #[test]
    fn a_folder_answers_for_its_names_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["one", "two"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("one", at("link")).unwrap();
        let wait = || settle(folder.path().to_str().unwrap());
        let (live, remembered, made) = (Live::new(), Remembered::<u8, String>::default(), Cell::new(0));
        let made_of_all = || {
            let make = |door: &mut Door<'_>| {
                made.set(made.get() + 1);
                let names = door.source.list(folder.path().to_str().unwrap()).into_known().unwrap_or_default();
                let link = door.source.link(&at("link")).into_known().unwrap_or_default();
                let file = |name: &str| door.source.read(&at(name)).into_known().unwrap_or_default();
                let texts = ["one", "none"].map(|name| String::from_utf8(file(name)).unwrap());
                format!("{} {link} {}", names.join(","), texts.join(","))
            };
            remembered.read(&mut Door::new(&live), 0, make)
        };
        wait();
        for _ in 0..2 {
            assert_eq!((made_of_all(), made.get()), ("link,one,two one one,".into(), 1));
        }
        let rests_on = remembered.0.lock().unwrap().as_ref().map_or(0, |kept| kept.rests_on.len());
        assert_eq!(rests_on, 2, "the folder, and what a file holds");
        for (change, said) in [
            (&(|| fs::write(at("one"), "1").unwrap()) as &dyn Fn(), "link,one,two one 1,"),
            (&|| fs::write(at("none"), "3").unwrap(), "link,none,one,two one 1,3"),
            (&|| fs::remove_file(at("none")).unwrap(), "link,one,two one 1,"),
            (
                &|| fs::rename(at("link"), at("other")).and_then(|()| symlink("two", at("link"))).unwrap(),
                "link,one,other,two two 1,",
            ),
        ] {
            change();
            assert_eq!(in_turn(made_of_all), said);
            wait();
            assert_eq!(made_of_all(), said);
        }
    }

    #[test]
    fn the_kernels_own_files_have_no_stamp() {
        let live = Live::new();
        let link = tempfile::tempdir().unwrap();
        let path = link.path().join("load").display().to_string();
        symlink("/proc/loadavg", &path).unwrap();
        for path in ["/proc/loadavg", "/sys/kernel/mm/hugepages", &path] {
            assert_eq!(live.stamp(path, true), None, "{path}");
        }
        assert_eq!(live.stamp("/etc/there-is-no-such-file", true), Some(Stamp::Nothing));
    }

    #[test]
    fn what_was_told_of_files_is_told_again() {
        let source = MapSource::new().denied("/etc/a").file("/etc/b", "b");
        let remembered = Remembered::default();
        for _ in 0..2 {
            let mut door = Door::new(&source);
            remembered.read(&mut door, 0, |door| {
                door.read("/etc/a");
                door.read("/etc/b");
            });
            assert_eq!((door.unread.len(), door.seen.as_slice()), (1, ["/etc/b".to_owned()].as_slice()));
        }
    }

    #[test]
    fn for_another_key_it_is_made_anew() {
        let (source, remembered) = (MapSource::new(), Remembered::default());
        let of = |key: u8| remembered.read(&mut Door::new(&source), key, |_| key);
        assert_eq!([of(1), of(1), of(2), of(1)], [1, 1, 2, 1]);
    }

    #[test]
    fn what_no_stamp_vouches_for_is_not_kept() {
        let (source, remembered, mut made) = (MapSource::new(), Remembered::default(), 0);
        for _ in 0..2 {
            remembered.read(&mut Door::new(&source), 0, |door| {
                made += 1;
                door.source.cpu_time(1);
            });
        }
        assert_eq!(made, 2);
    }
}
