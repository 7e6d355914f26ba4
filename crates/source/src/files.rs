//! Files below a folder that is not a host's root, such as collectors leave.
//!
//! Links below the folder are not followed, and only regular files are opened. A given path may be
//! a link: whoever gave it meant its target.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::openat2::{Located, NotOpened, TO_READ, has_descriptors};

/// Files and folders of one walk; more are left out.
const MOST: usize = 1_000_000;
const DEEPEST: usize = 64;
/// Paths of what is neither a file nor a folder that are named; others are counted.
const MOST_NAMED: usize = 3;

/// What is at a given path.
#[derive(Debug)]
pub enum OpenedPath {
    /// A folder.
    Folder(OpenFolder),
    /// A regular file.
    File(File, WalkedFile),
}

/// A folder, opened once.
#[derive(Debug)]
pub struct OpenFolder(OwnedFd);

/// One regular file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkedFile {
    /// Its path below the folder.
    pub path: PathBuf,
    /// Device and inode.
    pub identity: (u64, u64),
    /// Bytes.
    pub size: u64,
}

/// What is below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Regular files, by path.
    pub files: Vec<WalkedFile>,
    /// How many links there are, which are not followed.
    pub links: usize,
    /// Pipes, sockets and devices, which are not opened: it can have effects, and take forever.
    pub special: SpecialFiles,
    /// The same in folders that look like a host's root.
    pub special_in_hosts: SpecialFiles,
    /// Folders that look like a host's root, the folder itself as an empty path.
    pub hosts: Vec<PathBuf>,
    /// Folders that could not be listed, with the reason.
    pub problems: Vec<(PathBuf, String)>,
    /// Names of files and folders that were listed.
    listed: usize,
    /// Whether there are more files than are kept, which is noted once.
    full: bool,
}

/// Pipes, sockets and devices below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialFiles {
    /// How many.
    pub count: usize,
    /// The first of them.
    pub first: Vec<PathBuf>,
}

impl SpecialFiles {
    fn add(&mut self, path: PathBuf) {
        self.count += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push(path);
        }
    }

    /// What is said of them, if there are any; `show` puts a path into words.
    pub fn describe(&self, show: impl Fn(&Path) -> String) -> Option<String> {
        let first: Vec<String> = self.first.iter().map(|path| show(path)).collect();
        let be = if self.count == 1 {
            "is a pipe, a socket or a device"
        } else {
            "are pipes, sockets or devices"
        };
        let more = match self.count.saturating_sub(first.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (self.count > 0).then(|| format!("{}{more} {be}, and not opened", first.join(", ")))
    }
}

/// Opens what is at a path.
/// Errors: it is missing, unreadable, or neither a folder nor a regular file.
pub fn open_path(path: &Path) -> io::Result<OpenedPath> {
    let located = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&located)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(OpenedPath::Folder(OpenFolder(openat(&located, ".", flags, Mode::empty())?)))
        }
        FileType::RegularFile => {
            let located = Located::new(located, None);
            let opened =
                if has_descriptors() { located.open()? } else { reopen_path(&located, path)? };
            Ok(OpenedPath::File(File::from(opened), regular_file(path.to_owned(), &stat)))
        }
        _ => Err(io::Error::other("neither a file nor a folder")),
    }
}

fn regular_file(path: PathBuf, stat: &Stat) -> WalkedFile {
    WalkedFile {
        path,
        identity: (stat.st_dev, stat.st_ino),
        size: u64::try_from(stat.st_size).unwrap_or(0),
    }
}

fn reopen_path(located: &Located, path: &Path) -> Result<OwnedFd, NotOpened> {
    let opened = openat(CWD, path, TO_READ, Mode::empty())?;
    located.is_same(&opened)?.then_some(opened).ok_or(NotOpened::Replaced)
}

#[derive(Clone, Copy)]
struct WalkPlace<'a> {
    path: &'a Path,
    depth: usize,
    in_host: bool,
}

impl Default for WalkPlace<'_> {
    fn default() -> Self {
        Self { path: Path::new(""), depth: 0, in_host: false }
    }
}

impl Walk {
    fn note_full(&mut self, at: PathBuf, most: usize) {
        if !std::mem::replace(&mut self.full, true) {
            self.problems.push((at, format!("more than {most} files: the rest is left out")));
        }
    }
}

impl OpenFolder {
    /// All that is below it; a host's root without `proc`, `sys`, `dev` and `run`.
    pub fn walk(&self) -> Walk {
        self.walk_up_to(MOST)
    }

    /// The same, at most so many files and folders; that there are more is a problem.
    pub fn walk_up_to(&self, most: usize) -> Walk {
        let mut walk = Walk::default();
        match self.0.try_clone() {
            Ok(folder) => self.walk_step(&folder, WalkPlace::default(), most, &mut walk),
            Err(error) => walk.problems.push((PathBuf::new(), error.to_string())),
        }
        walk.files.sort_by(|one, other| one.path.cmp(&other.path));
        walk
    }

    fn walk_step(&self, folder: &OwnedFd, place: WalkPlace<'_>, most: usize, walk: &mut Walk) {
        let WalkPlace { path, depth, in_host } = place;
        let names = match list_some_names(folder, most.saturating_sub(walk.listed)) {
            Ok((names, is_all)) => {
                walk.listed += names.len();
                if !is_all {
                    walk.note_full(path.to_owned(), most);
                }
                names
            }
            Err(error) => return walk.problems.push((path.to_owned(), error.to_string())),
        };
        let has = |name: &str| names.iter().any(|other| other.as_os_str() == OsStr::new(name));
        let host = has("sos_commands")
            || has("hugewise")
            || (has("proc") && (has("etc") || has("sys")) && is_folder(folder, "proc"));
        if host {
            walk.hosts.push(path.to_owned());
        }
        for name in names {
            let at = path.join(&name);
            if host && matches!(name.as_bytes(), b"proc" | b"sys" | b"dev" | b"run") {
                continue;
            }
            let stat = match statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => {
                    walk.problems.push((at, io::Error::from(error).to_string()));
                    continue;
                }
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => walk.files.push(regular_file(at, &stat)),
                FileType::Symlink => walk.links += 1,
                FileType::Directory if depth >= DEEPEST => {
                    walk.problems.push((at, format!("more than {DEEPEST} folders deep")));
                }
                FileType::Directory => {
                    let flags =
                        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    match openat(folder, &name, flags, Mode::empty()) {
                        Ok(inner) => {
                            let in_host = in_host || host;
                            let place = WalkPlace { path: &at, depth: depth + 1, in_host };
                            self.walk_step(&inner, place, most, walk);
                        }
                        Err(error) => walk.problems.push((at, io::Error::from(error).to_string())),
                    }
                }
                _ if in_host || host => walk.special_in_hosts.add(at),
                _ => walk.special.add(at),
            }
        }
    }

    /// Opens a file that [`walk`](Self::walk) named; no part of its path may be a link.
    /// Errors: it is missing, unreadable, or not a regular file any more.
    pub fn open_file(&self, path: &Path) -> io::Result<File> {
        let (mut at, mut before) = (self.0.try_clone()?, None);
        for part in path.components() {
            let Component::Normal(name) = part else { return Err(Errno::INVAL.into()) };
            let next = openat(
                &at,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            before = Some((std::mem::replace(&mut at, next), name.to_owned()));
        }
        if FileType::from_raw_mode(fstat(&at)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(File::from(Located::new(at, before).open()?))
    }

    /// Opens a folder that [`walk`](Self::walk) named, or itself for the empty path; no part of its
    /// path may be a link. Errors: it is missing, unreadable, or not a folder any more.
    pub fn open_folder(&self, path: &Path) -> io::Result<Self> {
        let mut at = self.0.try_clone()?;
        for part in path.components() {
            let Component::Normal(name) = part else { return Err(Errno::INVAL.into()) };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = openat(&at, name, flags, Mode::empty())?;
        }
        Ok(Self(at))
    }

    /// Names of the folders in it, sorted, without links.
    pub fn folder_names(&self) -> Vec<OsString> {
        self.of_type(FileType::Directory)
    }

    /// Names of the regular files in it, sorted.
    pub fn file_names(&self) -> Vec<OsString> {
        self.of_type(FileType::RegularFile)
    }

    fn of_type(&self, wanted: FileType) -> Vec<OsString> {
        let mut names = list_names(&self.0).unwrap_or_default();
        names.retain(|name| {
            let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW);
            stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == wanted)
        });
        names
    }

    /// A path to the folder in this process, as long as this is kept.
    pub fn descriptor_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// The folder's path, for another process. Errors: it was removed, or /proc is not mounted.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        let path = rustix::fs::readlink(self.descriptor_path(), Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
    }
}

/// Names in a folder, sorted, without `.` and `..`.
fn list_names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    list_some_names(folder, usize::MAX).map(|(names, _)| names)
}

/// At most so many of them, and whether these are all.
fn list_some_names(folder: &OwnedFd, most: usize) -> io::Result<(Vec<OsString>, bool)> {
    let (mut names, mut is_all) = (Vec::new(), true);
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() >= most {
            is_all = false;
            break;
        }
        names.push(OsString::from_vec(name.to_vec()));
    }
    names.sort();
    Ok((names, is_all))
}

fn is_folder(within: &OwnedFd, name: &str) -> bool {
    let stat = statat(within, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn open_below(path: &Path) -> OpenFolder {
        match open_path(path).unwrap() {
            OpenedPath::Folder(below) => below,
            OpenedPath::File(..) => panic!("a file"),
        }
    }

    #[test]
    fn no_link_is_followed_and_nothing_special_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/file"), "text").unwrap();
        std::fs::write(at("top"), "x").unwrap();
        symlink("/etc", at("a/etc")).unwrap();
        symlink("b", at("a/inside")).unwrap();
        symlink("/etc/passwd", at("passwd")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        let below = open_below(folder.path());
        let walk = below.walk();
        let paths: Vec<_> =
            walk.files.iter().map(|entry| (entry.path.to_str().unwrap(), entry.size)).collect();
        assert_eq!(paths, [("a/b/file", 4), ("top", 1)]);
        assert_eq!(walk.links, 3);
        let said = walk.special.describe(|path| path.display().to_string());
        let why = "pipe is a pipe, a socket or a device, and not opened";
        assert_eq!((walk.special.count, said.as_deref()), (1, Some(why)));
        let mut text = String::new();
        below.open_file(Path::new("a/b/file")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        for path in [
            "passwd",
            "a/etc/passwd",
            "a/inside/file",
            "pipe",
            "../x",
            "/etc/passwd",
            "a/b",
            "none",
        ] {
            assert!(below.open_file(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(below.open_folder(Path::new("a")).unwrap().folder_names(), ["b"]);
        assert_eq!(below.open_folder(Path::new("")).unwrap().folder_names(), ["a"]);
        for path in ["a/etc", "a/inside", "top", "pipe", "..", "/etc", "none"] {
            assert!(below.open_folder(Path::new(path)).is_err(), "{path}");
        }
        assert!(open_path(&at("pipe")).unwrap_err().to_string().contains("neither"));
        assert!(open_path(&at("none")).is_err());
        // A link that was given is meant.
        assert!(matches!(open_path(&at("passwd")).unwrap(), OpenedPath::File(..)));
    }

    #[test]
    fn hosts_are_seen_and_their_kernel_files_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in [
            "sosreport-db1/proc",
            "sosreport-db1/sos_commands",
            "sosreport-db1/var/log/sa",
            "plain/sys",
        ] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        for path in ["sosreport-db1/proc/meminfo", "sosreport-db1/var/log/sa/sa21", "plain/sys/log"]
        {
            std::fs::write(at(path), "x").unwrap();
        }
        let walk = open_below(folder.path()).walk();
        assert_eq!(walk.hosts, [PathBuf::from("sosreport-db1")]);
        let paths: Vec<_> = walk.files.iter().map(|entry| entry.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["plain/sys/log", "sosreport-db1/var/log/sa/sa21"]);
    }

    /// `etc/apparmor.d/tunables` has files of these names.
    #[test]
    fn files_named_as_a_hosts_folders_make_no_host() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("etc/apparmor.d/tunables")).unwrap();
        for name in ["proc", "sys", "etc", "home"] {
            std::fs::write(
                folder.path().join("etc/apparmor.d/tunables").join(name),
                "@{PROC}=/proc/\n",
            )
            .unwrap();
        }
        let walk = open_below(folder.path()).walk();
        assert_eq!((walk.hosts.len(), walk.files.len()), (0, 4));
    }

    #[test]
    fn folders_without_end_do_not_bring_it_down() {
        let folder = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", 80).collect();
        std::fs::create_dir_all(folder.path().join(&deep)).unwrap();
        let walk = open_below(folder.path()).walk();
        assert_eq!(walk.problems.len(), 1);
        assert!(walk.problems[0].1.contains("deep"));
    }

    /// A folder that is too deep, found first, once kept from being said that files were left out.
    #[test]
    fn files_beyond_the_most_are_told_of_whatever_else_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", 80).collect();
        std::fs::create_dir_all(folder.path().join("a").join(&deep)).unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        for name in 0..60 {
            std::fs::write(folder.path().join(format!("b/{name}")), "x").unwrap();
        }
        let walk = open_below(folder.path()).walk_up_to(90);
        let said: Vec<&str> = walk.problems.iter().map(|(_, why)| why.as_str()).collect();
        assert!(walk.files.len() <= 90 && said.len() == 2, "{said:?}");
        assert!(said[0].contains("deep") && said[1].contains("the rest is left out"), "{said:?}");
    }

    /// Names take memory before anything is known of them.
    #[test]
    fn names_beyond_the_most_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        for name in 0..50 {
            symlink("nowhere", folder.path().join(format!("link{name}"))).unwrap();
        }
        let walk = open_below(folder.path()).walk_up_to(20);
        assert_eq!((walk.links, walk.problems.len()), (20, 1));
        assert_eq!(open_below(folder.path()).walk_up_to(50).problems, []);
    }
}
