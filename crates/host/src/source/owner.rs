//! On whose behalf a server's files are read, and what he may see.
//!
//! Whoever reads the host may read everything; whoever starts a server names its files. So these are read with the rights of
//! the server's owner: each folder on the way has to be one that he may search, each link is followed by hand, and the file
//! that he may read is the very one that is then opened. Mode bits and POSIX ACLs of the file decide, as they do in the kernel
//! (fs/namei.c, `acl_permission_check`; fs/posix_acl.c, `posix_acl_permission`).

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use hugewise_model::{Observed, Process};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, getxattr, openat, readlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::time::{ClockId, clock_gettime};

use super::beneath::{Located, MAX_LINKS, has_descriptors, link_in, names};
use super::bounds::{SETTLED, since};
use super::errno::{not_known, observed};
use super::kernel_systems::{is_kernels, kernels};

/// To go through a folder; to read a file or a folder's names.
const SEARCH: u32 = 1;
const READ: u32 = 4;

/// Names on one way, links' own ones included: deeper folders are nobody's data, and each name costs some system calls.
const MOST_STEPS: usize = 256;

/// Who a server is run by, as far as its files are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The server's main process: `/proc/PID/root` of it is the one such path that leads anywhere.
    pub pid: u32,
    /// The user whose rights count.
    pub uid: u32,
    /// The group whose rights count.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

impl Owner {
    /// Who runs a process. Of a program that bears the rights of another (set-user-ID, set-group-ID) it is the one who has
    /// started it: he chose its name, its arguments and its working directory. Rights that root has put down are not root's.
    pub fn of(process: &Process) -> Self {
        let started_by = |real: Option<u32>, effective: u32| real.filter(|id| *id != 0).unwrap_or(effective);
        Self {
            pid: process.pid,
            uid: started_by(process.caller, process.uid),
            gid: started_by(process.caller_group, process.gid),
            groups: process.groups.clone(),
        }
    }

    /// The user who stands behind a uid: subordinate ids (subuid(5)) come in blocks, and one user has them all.
    pub const fn behind(uid: u32) -> u32 {
        const BLOCK: u32 = 1 << 16;
        if uid < BLOCK { uid } else { uid - uid % BLOCK }
    }

    /// A path of the form `/proc/PID/root/REST`, where PID is the server's own: REST.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let (root, rest) = super::split_process_root(path)?;
        (root.strip_prefix("/proc/")?.strip_suffix("/root")?.parse() == Ok(self.pid)).then_some((root, rest))
    }

    fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    fn may(&self, file: &OwnedFd, stat: &Stat, want: u32) -> bool {
        if self.is_root() {
            return true;
        }
        let has = |bits: u32| bits & want == want;
        if stat.st_uid == self.uid {
            return has(stat.st_mode >> 6);
        }
        // With an ACL these bits are its mask, and without any of them it grants nothing.
        if stat.st_mode & 0o070 != 0 {
            match acl(file) {
                Ok(None) => {}
                Ok(Some(list)) => return list.grants(self, stat.st_gid, want),
                Err(_) => return false,
            }
        }
        has(if self.in_group(stat.st_gid) { stat.st_mode >> 3 } else { stat.st_mode })
    }

    /// `protected_symlinks` of the kernel: in a folder where everybody may put one, a link is followed if it is one's own or the
    /// folder's owner's.
    fn follows(&self, link: &Stat, folder: &Stat) -> bool {
        const EVERYBODYS: u32 = 0o1002;
        folder.st_mode & EVERYBODYS != EVERYBODYS || link.st_uid == self.uid || link.st_uid == folder.st_uid
    }
}

/// A file, a folder or what else is there, that the owner has a way to.
pub(super) struct Found {
    pub(super) located: Located,
    pub(super) stat: Stat,
}

/// A step of the way there.
#[derive(Debug)]
struct Step {
    file: OwnedFd,
    stat: Stat,
    /// In the folder before it.
    name: String,
}

impl Step {
    fn of(file: OwnedFd, name: String) -> Result<Self, Errno> {
        let stat = fstat(&file)?;
        Ok(Self { file, stat, name })
    }

    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Whether it was left alone for so long that a change since would show.
    fn is_settled(&self, now: Duration) -> bool {
        now.checked_sub(since(self.stat.st_ctime, self.stat.st_ctime_nsec)).is_some_and(|age| age >= SETTLED)
    }

    /// Whether it is as it was found: who may go through, and what lies there under which name.
    fn is_as_it_was(&self) -> bool {
        let told = |stat: &Stat| (stat.st_mode, stat.st_ctime, stat.st_ctime_nsec, stat.st_mtime, stat.st_mtime_nsec);
        fstat(&self.file).is_ok_and(|stat| told(&stat) == told(&self.stat))
    }
}

impl Found {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Whether the owner may read it: a file's bytes, a folder's names.
    pub(super) fn is_readable_by(&self, owner: &Owner) -> bool {
        owner.may(&self.located.file, &self.stat, READ)
    }
}

/// The folders through which the way led last, from the host's root: a server's files lie beside each other, and each way to
/// one of them begins as the last one did. A folder that was touched since is gone through anew, and so is all behind it.
#[derive(Debug, Default)]
pub(super) struct Ways(RefCell<Option<(Owner, Trail)>>);

type Trail = Vec<Step>;

impl Ways {
    /// Looks a path of the host up, as the owner could.
    pub(super) fn locate(&self, path: &str, owner: &Owner) -> Observed<Found> {
        let pending = names(path);
        let begun = match self.0.take() {
            Some((whose, trail)) if whose == *owner => as_far_as(trail, &pending),
            _ => Trail::new(),
        };
        let root = if begun.is_empty() { own_root().map(Some) } else { Observed::Known(None) };
        root.and_then(|root| {
            let mut way = Way { pending, ..Way::default() };
            way.pending.truncate(way.pending.len().saturating_sub(begun.len().saturating_sub(1)));
            way.trail = begun;
            let found = root.map_or(Ok(true), |root| way.begin(root)).and_then(|may| way.walk(owner, may));
            let now = clock_gettime(ClockId::Realtime);
            let now = since(now.tv_sec, now.tv_nsec);
            let leads_on = way.is_straight && !matches!(found, Ok(None));
            if leads_on && way.trail.iter().all(|step| step.is_settled(now)) {
                *self.0.borrow_mut() = Some((owner.clone(), way.trail));
            }
            told(found)
        })
    }

    /// Where a link of the host points that the owner has a way to.
    pub(super) fn link(&self, path: &str, owner: &Owner) -> Observed<String> {
        link_in_folder(path, owner, |folder| self.locate(folder, owner))
    }
}

/// The part of a trail that leads where these names do, the last of them left out.
fn as_far_as(mut trail: Trail, names: &[String]) -> Trail {
    let folders = names.iter().rev().take(names.len().saturating_sub(1));
    let common = trail.iter().skip(1).zip(folders).take_while(|(step, name)| step.name == **name).count();
    trail.truncate(common + 1);
    let touched = trail.iter().position(|step| !step.is_as_it_was());
    trail.truncate(touched.unwrap_or(trail.len()));
    trail
}

fn told(found: Result<Option<Found>, Errno>) -> Observed<Found> {
    match found {
        Ok(Some(found)) => Observed::Known(found),
        Ok(None) => kernels(),
        Err(error) => not_known(error),
    }
}

/// Looks a path up below a root, as the owner could: what he has no way to is denied before it shows whether it is there.
pub(super) fn locate_as(root: OwnedFd, path: &str, owner: &Owner) -> Observed<Found> {
    let mut way = Way { pending: names(path), ..Way::default() };
    told(way.begin(root).and_then(|may| way.walk(owner, may)))
}

/// Where a link points that the owner has a way to.
pub(super) fn link_as(root: OwnedFd, path: &str, owner: &Owner) -> Observed<String> {
    link_in_folder(path, owner, |folder| locate_as(root, folder, owner))
}

fn link_in_folder(path: &str, owner: &Owner, locate: impl FnOnce(&str) -> Observed<Found>) -> Observed<String> {
    let path = path.trim_matches('/');
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    if name.is_empty() || name == "." || name == ".." {
        return Observed::Malformed("no link".into());
    }
    locate(folder).and_then(|folder| {
        if folder.kind() != FileType::Directory {
            return Observed::Absent;
        }
        if !owner.may(&folder.located.file, &folder.stat, SEARCH) {
            return Observed::Denied;
        }
        match is_kernels(&folder.located.file) {
            Ok(false) => link_in(folder.located.file.as_fd(), name),
            Ok(true) => kernels(),
            Err(error) => not_known(error),
        }
    })
}

const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A way that is gone one name after the other.
struct Way {
    /// Names that are still to go, last first.
    pending: Vec<String>,
    trail: Trail,
    /// Whether it has led down from folder to folder, and no link was followed.
    is_straight: bool,
}

impl Default for Way {
    fn default() -> Self {
        Self { pending: Vec::new(), trail: Trail::new(), is_straight: true }
    }
}

impl Way {
    /// Whether it may begin there: whoever has a mount namespace of his own has any root that he likes.
    fn begin(&mut self, root: OwnedFd) -> Result<bool, Errno> {
        let root = Step::of(openat(&root, ".", STEP, Mode::empty())?, String::new())?;
        let may = is_kernels(&root.file) == Ok(false);
        self.trail = vec![root];
        Ok(may)
    }

    /// What stands at its end; `None` where it leads into a file system of the kernel's own.
    fn walk(&mut self, owner: &Owner, may: bool) -> Result<Option<Found>, Errno> {
        if !may {
            return Ok(None);
        }
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = self.pending.pop() {
            steps += 1;
            if steps > MOST_STEPS || self.pending.len() > MOST_STEPS {
                return Err(Errno::NAMETOOLONG);
            }
            let folder = self.trail.last().ok_or(Errno::NOENT)?;
            if folder.kind() != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            if !owner.may(&folder.file, &folder.stat, SEARCH) {
                return Err(Errno::ACCESS);
            }
            if name == ".." {
                self.is_straight = false;
                if self.trail.len() > 1 {
                    self.trail.pop();
                }
                continue;
            }
            let next = Step::of(openat(&folder.file, &name, STEP, Mode::empty())?, name)?;
            if next.stat.st_dev != folder.stat.st_dev && is_kernels(&next.file)? {
                return Ok(None);
            }
            if next.kind() != FileType::Symlink {
                self.trail.push(next);
                continue;
            }
            self.is_straight = false;
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            if !owner.follows(&next.stat, &folder.stat) {
                return Err(Errno::ACCESS);
            }
            // Of the link that was looked at, and of no other that has its name by now.
            let target = readlinkat(&next.file, "", Vec::new())?.into_string().map_err(|_| Errno::ILSEQ)?;
            if target.starts_with('/') {
                self.trail.truncate(1);
            }
            self.pending.extend(names(&target));
        }
        // The folders before it may be gone through once more; what stands at the end is for who asked.
        let Some(Step { file, stat, name }) = self.trail.pop() else { return Err(Errno::NOENT) };
        let at = match self.trail.last().filter(|_| !has_descriptors()) {
            Some(folder) => Some((fcntl_dupfd_cloexec(&folder.file, 0)?, name.into())),
            None => None,
        };
        Ok(Some(Found { located: Located::new(file, at), stat }))
    }
}

/// A file's access ACL, by its extended attribute (`struct posix_acl_xattr_entry` of linux/posix_acl_xattr.h).
struct Acl(Vec<(u16, u32, u32)>);

impl Acl {
    const USER: u16 = 0x02;
    const GROUP_OF_FILE: u16 = 0x04;
    const GROUP: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    const VERSION: u32 = 2;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, entries) = bytes.split_first_chunk::<4>()?;
        let (entries, rest) = entries.as_chunks::<8>();
        let whole = u32::from_le_bytes(*version) == Self::VERSION && rest.is_empty();
        let entry = |[tag, tag_high, bits, bits_high, id @ ..]: &[u8; 8]| {
            let bits = u32::from(u16::from_le_bytes([*bits, *bits_high]));
            (u16::from_le_bytes([*tag, *tag_high]), bits, u32::from_le_bytes(*id))
        };
        whole.then(|| Self(entries.iter().map(entry).collect()))
    }

    fn grants(&self, owner: &Owner, group_of_file: u32, want: u32) -> bool {
        let has = |bits: u32| bits & want == want;
        let mask = self.0.iter().find(|(tag, ..)| *tag == Self::MASK).map_or(u32::MAX, |(_, bits, _)| *bits);
        let mut in_a_group = false;
        for (tag, bits, id) in &self.0 {
            let group = match *tag {
                Self::USER if *id == owner.uid => return has(*bits & mask),
                Self::GROUP_OF_FILE => group_of_file,
                Self::GROUP => *id,
                Self::OTHER => return !in_a_group && has(*bits),
                _ => continue,
            };
            if owner.in_group(group) {
                if has(*bits) {
                    return has(*bits & mask);
                }
                in_a_group = true;
            }
        }
        false
    }
}

/// The ACL of a file that was located; `None` where it has none or its file system has no such thing.
fn acl(file: &OwnedFd) -> Result<Option<Acl>, Errno> {
    let mut bytes = [0; 2048];
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match getxattr(path, "system.posix_acl_access", &mut bytes) {
        Ok(length) => Acl::parse(bytes.get(..length).unwrap_or_default()).map(Some).ok_or(Errno::INVAL),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The root of the mount namespace of the reader.
pub(super) fn own_root() -> Observed<OwnedFd> {
    observed(openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: u32, gid: u32, groups: &[u32]) -> Owner {
        Owner { pid: 7, uid, gid, groups: groups.to_vec() }
    }

    fn anew(root: &OwnedFd) -> OwnedFd {
        root.try_clone().unwrap()
    }

    /// An ACL as the kernel hands it out.
    fn list(entries: &[(u16, u16, u32)]) -> Acl {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(bits.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        Acl::parse(&bytes).unwrap()
    }

    #[test]
    fn a_list_grants_what_the_kernel_would_grant() {
        const NOBODY: u32 = u32::MAX;
        let acl = list(&[
            (0x01, 7, NOBODY),
            (Acl::USER, 4, 1000),
            (Acl::USER, 0, 1001),
            (Acl::GROUP_OF_FILE, 0, NOBODY),
            (Acl::GROUP, 6, 50),
            (Acl::GROUP, 4, 51),
            (Acl::MASK, 4, NOBODY),
            (Acl::OTHER, 4, NOBODY),
        ]);
        let grants = |uid, gid, groups: &[u32]| acl.grants(&owner(uid, gid, groups), 9, READ);
        assert!(grants(1000, 1, &[]), "named");
        assert!(!grants(1001, 1, &[51]), "named, and with nothing");
        assert!(!grants(1002, 9, &[]), "in the file's group, which has nothing");
        assert!(grants(1002, 9, &[51]), "in one that has");
        assert!(grants(1002, 1, &[]), "anybody else");
        let masked = list(&[(Acl::USER, 6, 1000), (Acl::MASK, 0, NOBODY), (Acl::OTHER, 4, NOBODY)]);
        assert!(!masked.grants(&owner(1000, 1, &[]), 9, READ));
        assert!(Acl::parse(&[1, 0, 0, 0]).is_none() && Acl::parse(&[2, 0, 0, 0, 1]).is_none());
    }

    /// Folders are gone through once for all that lies in them, and anew once they were touched, or for somebody else.
    #[test]
    fn a_way_that_is_known_is_gone_as_if_it_were_new() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
        use std::time::Instant;

        // Not below /tmp, which is touched all the time.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let at = |path: &str| folder.path().join(path);
        let mode = |path: &str, mode| std::fs::set_permissions(at(path), PermissionsExt::from_mode(mode)).unwrap();
        for path in ["a/b", "a/c", "other/b"] {
            std::fs::create_dir_all(at(path)).unwrap();
            std::fs::write(at(path).join("file"), path).unwrap();
        }
        symlink("a", at("link")).unwrap();
        let me = Owner {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            ..Owner::default()
        };
        let ways = Ways::default();
        let known = || ways.0.borrow().as_ref().map_or(0, |(_, trail)| trail.len());
        let text = |path: &str| {
            let found = ways.locate(&at(path).display().to_string(), &me);
            found.and_then(|found| crate::source::beneath::read_located(&found.located))
        };
        let said = |text: &str| Observed::Known(text.as_bytes().to_vec());
        let settle = || {
            let begun = Instant::now();
            while known() == 0 {
                assert!(begun.elapsed() < Duration::from_secs(60), "the way is never known");
                std::thread::sleep(Duration::from_millis(100));
                assert_eq!(text("a/b/file"), said("a/b"));
            }
        };
        let depth = at("a/b").components().count();
        settle();
        assert_eq!(known(), depth);
        let held = |nth: usize| ways.0.borrow().as_ref().map(|(_, trail)| trail[nth].stat.st_ino);
        assert_eq!(held(depth - 1), Some(at("a/b").metadata().unwrap().ino()));
        assert_eq!(
            (text("a/b/none"), text("a/c/file"), text("a/b/file")),
            (Observed::Absent, said("a/c"), said("a/b"))
        );
        assert_eq!(
            (text("a/c/../b/file"), text("link/c/file"), text("a/b/file/more")),
            (said("a/b"), said("a/c"), Observed::Absent)
        );
        // Another folder in the place of one on the way.
        settle();
        std::fs::rename(at("a"), at("gone")).unwrap();
        std::fs::rename(at("other"), at("a")).unwrap();
        assert_eq!(text("a/b/file"), said("other/b"));
        std::fs::rename(at("a"), at("other")).unwrap();
        std::fs::rename(at("gone"), at("a")).unwrap();
        // A folder that is closed, to the one who knew the way and to others.
        settle();
        let stranger = Owner { uid: 4242, gid: 4242, ..me.clone() };
        mode("a/b", 0o700);
        if me.is_root() {
            let path = at("a/b/file").display().to_string();
            assert!(matches!(ways.locate(&path, &stranger), Observed::Denied));
            assert!(ways.locate(&path, &me).is_known());
            assert!(matches!(ways.locate(&path, &stranger), Observed::Denied));
        } else {
            mode("a/b", 0o600);
            assert_eq!(text("a/b/file"), Observed::Denied);
            mode("a/b", 0o700);
        }
    }

    #[test]
    fn whoever_started_a_program_reads() {
        let process = |uid, caller, gid, caller_group| Process { uid, caller, gid, caller_group, ..Process::default() };
        let ids = |process: &Process| {
            let owner = Owner::of(process);
            (owner.uid, owner.gid)
        };
        assert_eq!(ids(&process(105, None, 113, None)), (105, 113));
        // su, started by a user.
        assert_eq!(ids(&process(0, Some(4242), 4242, None)), (4242, 4242));
        // A program with the rights of a group, as that of /etc/shadow.
        assert_eq!(ids(&process(4242, None, 42, Some(4242))), (4242, 4242));
        // A program of root's that works for somebody.
        assert_eq!(ids(&process(4242, Some(0), 4242, Some(0))), (4242, 4242));
    }

    #[test]
    fn what_its_owner_cannot_come_to_is_denied_whether_it_is_there_or_not() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};

        if !rustix::process::geteuid().is_root() {
            return hugewise_lab::guard::Skip("files of other users take root".into()).report();
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let mode = |path: &str, mode| std::fs::set_permissions(at(path), PermissionsExt::from_mode(mode)).unwrap();
        std::fs::create_dir_all(at("closed")).unwrap();
        std::fs::create_dir_all(at("sticky")).unwrap();
        for path in ["closed/there", "open", "group", "own"] {
            std::fs::write(at(path), path).unwrap();
            mode(path, 0o600);
        }
        mode("", 0o755);
        mode("closed", 0o700);
        mode("sticky", 0o1777);
        mode("open", 0o644);
        mode("group", 0o640);
        chown(at("group"), Some(0), Some(113)).unwrap();
        chown(at("own"), Some(105), Some(0)).unwrap();
        symlink(at("open"), at("sticky/link")).unwrap();
        std::os::unix::fs::lchown(at("sticky/link"), Some(1000), Some(1000)).unwrap();
        symlink("/proc/version", at("kernel")).unwrap();
        let root = rustix::fs::open(folder.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let outside = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let reads =
            |path: &str, owner: &Owner| locate_as(anew(&root), path, owner).map(|found| found.is_readable_by(owner));
        let server = owner(105, 113, &[]);
        assert_eq!(reads("open", &server), Observed::Known(true));
        assert_eq!(reads("group", &server), Observed::Known(true));
        assert_eq!(reads("own", &server), Observed::Known(true));
        assert_eq!(reads("group", &owner(106, 106, &[])), Observed::Known(false));
        assert_eq!(reads("own", &owner(106, 106, &[])), Observed::Known(false));
        assert_eq!(reads("closed/there", &server), Observed::Denied);
        assert_eq!(reads("closed/none", &server), Observed::Denied);
        assert_eq!(reads("closed/../open", &server), Observed::Denied);
        assert_eq!(reads("closed/there", &owner(0, 0, &[])), Observed::Known(true));
        assert_eq!(reads("none", &server), Observed::Absent);
        assert_eq!(reads("sticky/link", &server), Observed::Denied);
        let kernel = at("kernel").display().to_string();
        assert!(locate_as(anew(&outside), &kernel, &owner(0, 0, &[])).reason().unwrap().contains("kernel's own"));
        assert!(matches!(reads(&"a/../".repeat(300), &server), Observed::Malformed(_) | Observed::Absent));
    }
}
