//! On whose behalf a server's files are read, and what he may see.
//!
//! Whoever starts a server names its files, so they are read with its owner's rights: he has to
//! have access to each folder, links are followed one by one, and the file that he may read is the
//! very one that is opened. Mode bits and POSIX ACLs decide as in the kernel (fs/namei.c,
//! `acl_permission_check`; fs/posix_acl.c, `posix_acl_permission`).

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use hugewise_model::{Observed, Process};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, getxattr, openat, readlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::time::{ClockId, clock_gettime};

use super::errno::{not_known, to_observed};
use super::kernel_filesystems::{is_kernels, on_kernel_filesystem};
use super::openat2::{Located, MAX_LINKS, has_descriptors, link_in, path_names, split_link};
use super::read_limits::{SETTLED, to_epoch_duration};

/// To enter a folder; to change a file or a folder's names; to read them.
const SEARCH: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;
/// Names on one path, links' included: nobody's data lies deeper, and each name costs system calls.
const MOST_STEPS: usize = 256;

/// The user who runs a server, for access to its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The server's main process: only its own `/proc/PID/root` leads anywhere.
    pub pid: u32,
    /// The user whose rights count.
    pub uid: u32,
    /// The group whose rights count.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

impl Owner {
    /// Who runs a process. Of a set-user-ID or set-group-ID program it is whoever started it and
    /// chose its name, arguments and directory. Rights that root has dropped are not root's.
    pub fn from_process(process: &Process) -> Self {
        let started_by =
            |real: Option<u32>, effective: u32| real.filter(|id| *id != 0).unwrap_or(effective);
        Self {
            pid: process.pid,
            uid: started_by(process.caller, process.uid),
            gid: started_by(process.caller_group, process.gid),
            groups: process.groups.clone(),
        }
    }

    /// The user behind a uid: one user has a whole block of subordinate ids (subuid(5)).
    pub const fn user_behind(uid: u32) -> u32 {
        const BLOCK: u32 = 1 << 16;
        if uid < BLOCK { uid } else { uid - uid % BLOCK }
    }

    /// `/proc/PID/root` and REST of `/proc/PID/root/REST`, where PID is the server's own.
    pub(super) fn path_in_root<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let (root, rest) = super::split_process_root(path)?;
        (root.strip_prefix("/proc/")?.strip_suffix("/root")?.parse() == Ok(self.pid))
            .then_some((root, rest))
    }

    fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    fn may_access(&self, file: &OwnedFd, stat: &Stat, want: u32) -> bool {
        if self.is_root() {
            return true;
        }
        let has = |bits: u32| bits & want == want;
        if stat.st_uid == self.uid {
            return has(stat.st_mode >> 6);
        }
        // With an ACL these bits are its mask: without any it grants nothing.
        if stat.st_mode & 0o070 != 0 {
            match read_acl(file) {
                Ok(None) => {}
                Ok(Some(list)) => return list.grants_access(self, stat.st_gid, want),
                Err(_) => return false,
            }
        }
        has(if self.in_group(stat.st_gid) { stat.st_mode >> 3 } else { stat.st_mode })
    }

    /// `protected_symlinks` of the kernel: in a folder where everybody may create links, only one's
    /// own and the folder owner's are followed.
    fn may_follow(&self, link: &Stat, folder: &Stat) -> bool {
        const EVERYBODYS: u32 = 0o1002;
        folder.st_mode & EVERYBODYS != EVERYBODYS
            || link.st_uid == self.uid
            || link.st_uid == folder.st_uid
    }
}

pub(super) struct OwnerVisibleFile {
    pub(super) located: Located,
    pub(super) stat: Stat,
}

#[derive(Debug)]
struct PathStep {
    file: OwnedFd,
    stat: Stat,
    /// In the folder before it.
    name: String,
}

impl PathStep {
    fn from_file(file: OwnedFd, name: String) -> Result<Self, Errno> {
        let stat = fstat(&file)?;
        Ok(Self { file, stat, name })
    }

    fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Whether it was left alone for so long that a later change would show.
    fn is_settled(&self, now: Duration) -> bool {
        now.checked_sub(to_epoch_duration(self.stat.st_ctime, self.stat.st_ctime_nsec))
            .is_some_and(|age| age >= SETTLED)
    }

    /// Whether its mode and its times are unchanged.
    fn is_as_it_was(&self) -> bool {
        let told = |stat: &Stat| {
            (stat.st_mode, stat.st_ctime, stat.st_ctime_nsec, stat.st_mtime, stat.st_mtime_nsec)
        };
        fstat(&self.file).is_ok_and(|stat| told(&stat) == told(&self.stat))
    }
}

impl OwnerVisibleFile {
    pub(super) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(super) fn is_readable_by(&self, owner: &Owner) -> bool {
        owner.may_access(&self.located.file, &self.stat, READ)
    }
}

/// The folders of the last path from the host's root: a server's files lie beside each other, and
/// their paths begin alike. A folder that changed is checked again, and so is all behind it.
#[derive(Debug, Default)]
pub(super) struct OwnerPathCache(RefCell<Option<(Owner, Trail)>>);

type Trail = Vec<PathStep>;

impl OwnerPathCache {
    pub(super) fn locate_path(&self, path: &str, owner: &Owner) -> Observed<OwnerVisibleFile> {
        let pending = path_names(path);
        let begun = match self.0.take() {
            Some((whose, trail)) if whose == *owner => as_far_as(trail, &pending),
            _ => Trail::new(),
        };
        let root = if begun.is_empty() { root_at("/").map(Some) } else { Observed::Known(None) };
        root.and_then(|root| {
            let mut way = OwnerPathWalk { pending, ..OwnerPathWalk::default() };
            way.pending.truncate(way.pending.len().saturating_sub(begun.len().saturating_sub(1)));
            way.trail = begun;
            let found = root
                .map_or(Ok(true), |root| way.begin_at(root))
                .and_then(|may| way.walk_path(owner, may));
            let now = clock_gettime(ClockId::Realtime);
            let now = to_epoch_duration(now.tv_sec, now.tv_nsec);
            let leads_on = way.is_straight && !matches!(found, Ok(None));
            if leads_on && way.trail.iter().all(|step| step.is_settled(now)) {
                *self.0.borrow_mut() = Some((owner.clone(), way.trail));
            }
            observe_found(found)
        })
    }

    pub(super) fn read_link(&self, path: &str, owner: &Owner) -> Observed<String> {
        link_in_folder(path, owner, |folder| self.locate_path(folder, owner))
    }
}

/// The part of a trail that leads along these names, without the last one.
fn as_far_as(mut trail: Trail, names: &[String]) -> Trail {
    let folders = names.iter().rev().take(names.len().saturating_sub(1));
    let common =
        trail.iter().skip(1).zip(folders).take_while(|(step, name)| step.name == **name).count();
    trail.truncate(common + 1);
    let touched = trail.iter().position(|step| !step.is_as_it_was());
    trail.truncate(touched.unwrap_or(trail.len()));
    trail
}

fn observe_found(found: Result<Option<OwnerVisibleFile>, Errno>) -> Observed<OwnerVisibleFile> {
    match found {
        Ok(Some(found)) => Observed::Known(found),
        Ok(None) => on_kernel_filesystem(),
        Err(error) => not_known(error),
    }
}

/// Looks up a path below a root as the owner could: where he has no access, nothing shows whether
/// it exists.
pub(super) fn locate_as(root: OwnedFd, path: &str, owner: &Owner) -> Observed<OwnerVisibleFile> {
    let mut way = OwnerPathWalk { pending: path_names(path), ..OwnerPathWalk::default() };
    observe_found(way.begin_at(root).and_then(|may| way.walk_path(owner, may)))
}

pub(super) fn link_as(root: OwnedFd, path: &str, owner: &Owner) -> Observed<String> {
    link_in_folder(path, owner, |folder| locate_as(root, folder, owner))
}

fn link_in_folder(
    path: &str,
    owner: &Owner,
    locate: impl FnOnce(&str) -> Observed<OwnerVisibleFile>,
) -> Observed<String> {
    let Some((folder, name)) = split_link(path) else {
        return Observed::Malformed("no link".into());
    };
    locate(folder).and_then(|folder| {
        if folder.file_type() != FileType::Directory {
            return Observed::Absent;
        }
        if !owner.may_access(&folder.located.file, &folder.stat, SEARCH) {
            return Observed::Denied;
        }
        match is_kernels(&folder.located.file) {
            Ok(false) => link_in(folder.located.file.as_fd(), name),
            Ok(true) => on_kernel_filesystem(),
            Err(error) => not_known(error),
        }
    })
}

const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct OwnerPathWalk {
    pending: Vec<String>,
    trail: Trail,
    /// Whether no link was followed and no `..` taken.
    is_straight: bool,
}

impl Default for OwnerPathWalk {
    fn default() -> Self {
        Self { pending: Vec::new(), trail: Trail::new(), is_straight: true }
    }
}

impl OwnerPathWalk {
    /// Whether the root is usable: with a mount namespace of his own an owner can have any root.
    fn begin_at(&mut self, root: OwnedFd) -> Result<bool, Errno> {
        let root = PathStep::from_file(openat(&root, ".", STEP, Mode::empty())?, String::new())?;
        let may = is_kernels(&root.file) == Ok(false);
        self.trail = vec![root];
        Ok(may)
    }

    /// What is at the end; `None` in the kernel's own file systems.
    fn walk_path(&mut self, owner: &Owner, may: bool) -> Result<Option<OwnerVisibleFile>, Errno> {
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
            if folder.file_type() != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            if !owner.may_access(&folder.file, &folder.stat, SEARCH) {
                return Err(Errno::ACCESS);
            }
            if name == ".." {
                self.is_straight = false;
                if self.trail.len() > 1 {
                    self.trail.pop();
                }
                continue;
            }
            let next =
                PathStep::from_file(openat(&folder.file, &name, STEP, Mode::empty())?, name)?;
            if next.stat.st_dev != folder.stat.st_dev && is_kernels(&next.file)? {
                return Ok(None);
            }
            if next.file_type() != FileType::Symlink {
                self.trail.push(next);
                continue;
            }
            self.is_straight = false;
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            if !owner.may_follow(&next.stat, &folder.stat) {
                return Err(Errno::ACCESS);
            }
            // Of this very link, whatever has its name by now.
            let target =
                readlinkat(&next.file, "", Vec::new())?.into_string().map_err(|_| Errno::ILSEQ)?;
            if target.starts_with('/') {
                self.trail.truncate(1);
            }
            self.pending.extend(path_names(&target));
        }
        // The folders before it may be used again; the end belongs to the caller.
        let Some(PathStep { file, stat, name }) = self.trail.pop() else {
            return Err(Errno::NOENT);
        };
        let at = match self.trail.last().filter(|_| !has_descriptors()) {
            Some(folder) => Some((fcntl_dupfd_cloexec(&folder.file, 0)?, name.into())),
            None => None,
        };
        Ok(Some(OwnerVisibleFile { located: Located::new(file, at), stat }))
    }
}

/// A file's access ACL, from its extended attribute (`struct posix_acl_xattr_entry` of
/// linux/posix_acl_xattr.h).
pub(super) struct Acl(Vec<(u16, u32, u32)>);

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

    /// That of what is at a path; none where it has none, or its file system knows none.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; 2048];
        match getxattr(path, "system.posix_acl_access", &mut bytes) {
            Ok(length) => {
                Self::parse(bytes.get(..length).unwrap_or_default()).map(Some).ok_or(Errno::INVAL)
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn mask(&self) -> u32 {
        let mask = self.0.iter().find(|(tag, ..)| *tag == Self::MASK);
        mask.map_or(u32::MAX, |(_, bits, _)| *bits)
    }

    /// A user or a group, other than these, that it lets write.
    pub(super) fn find_writer(
        &self,
        group_of_file: u32,
        has_user: impl Fn(u32) -> bool,
        has_group: impl Fn(u32) -> bool,
    ) -> Option<String> {
        let mask = self.mask();
        self.0.iter().filter(|(_, bits, _)| bits & mask & WRITE != 0).find_map(|(tag, _, id)| {
            match *tag {
                Self::USER if !has_user(*id) => Some(format!("user {id}")),
                Self::GROUP if !has_group(*id) => Some(format!("group {id}")),
                Self::GROUP_OF_FILE if !has_group(group_of_file) => {
                    Some(format!("group {group_of_file}"))
                }
                _ => None,
            }
        })
    }

    fn grants_access(&self, owner: &Owner, group_of_file: u32, want: u32) -> bool {
        let has = |bits: u32| bits & want == want;
        let mask = self.mask();
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

fn read_acl(file: &OwnedFd) -> Result<Option<Acl>, Errno> {
    Acl::read(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// The root folder of a mount namespace: `/`, `/proc/PID/root`.
pub(super) fn root_at(path: &str) -> Observed<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    to_observed(openat(CWD, path, flags, Mode::empty()))
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
        let grants =
            |uid, gid, groups: &[u32]| acl.grants_access(&owner(uid, gid, groups), 9, READ);
        assert!(grants(1000, 1, &[]), "named");
        assert!(!grants(1001, 1, &[51]), "named, and with nothing");
        assert!(!grants(1002, 9, &[]), "in the file's group, which has nothing");
        assert!(grants(1002, 9, &[51]), "in one that has");
        assert!(grants(1002, 1, &[]), "anybody else");
        let masked = list(&[(Acl::USER, 6, 1000), (Acl::MASK, 0, NOBODY), (Acl::OTHER, 4, NOBODY)]);
        assert!(!masked.grants_access(&owner(1000, 1, &[]), 9, READ));
        assert!(Acl::parse(&[1, 0, 0, 0]).is_none() && Acl::parse(&[2, 0, 0, 0, 1]).is_none());
    }

    /// Folders are gone through once for all that lies in them, and anew once they were touched, or
    /// for somebody else.
    #[test]
    fn a_way_that_is_known_is_gone_as_if_it_were_new() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
        use std::time::Instant;

        // Not below /tmp, which is touched all the time.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let at = |path: &str| folder.path().join(path);
        let mode = |path: &str, mode| {
            std::fs::set_permissions(at(path), PermissionsExt::from_mode(mode)).unwrap()
        };
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
        let ways = OwnerPathCache::default();
        let known = || ways.0.borrow().as_ref().map_or(0, |(_, trail)| trail.len());
        let text = |path: &str| {
            let found = ways.locate_path(&at(path).display().to_string(), &me);
            found.and_then(|found| crate::openat2::read_located(&found.located))
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
            assert!(matches!(ways.locate_path(&path, &stranger), Observed::Denied));
            assert!(ways.locate_path(&path, &me).is_known());
            assert!(matches!(ways.locate_path(&path, &stranger), Observed::Denied));
        } else {
            mode("a/b", 0o600);
            assert_eq!(text("a/b/file"), Observed::Denied);
            mode("a/b", 0o700);
        }
    }

    #[test]
    fn whoever_started_a_program_reads() {
        let process = |uid, caller, gid, caller_group| Process {
            uid,
            caller,
            gid,
            caller_group,
            ..Process::default()
        };
        let ids = |process: &Process| {
            let owner = Owner::from_process(process);
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
            return hugewise_testkit::Skip("files of other users take root".into()).report();
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let mode = |path: &str, mode| {
            std::fs::set_permissions(at(path), PermissionsExt::from_mode(mode)).unwrap()
        };
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
        let root = rustix::fs::open(folder.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
            .unwrap();
        let outside =
            rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let reads = |path: &str, owner: &Owner| {
            locate_as(anew(&root), path, owner).map(|found| found.is_readable_by(owner))
        };
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
        assert!(
            locate_as(anew(&outside), &kernel, &owner(0, 0, &[]))
                .reason_text()
                .unwrap()
                .contains("kernel's own")
        );
        assert!(matches!(
            reads(&"a/../".repeat(300), &server),
            Observed::Malformed(_) | Observed::Absent
        ));
    }
}
