//! A test in namespaces of its own: what it does to /etc, /boot and /var/lib is gone when it ends,
//! and so are the processes that it has started; it sees no others.
//!
//! The kernel's values are not in there: a test that changes them holds a `PoolGuard`. The host's
//! name is.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use hugewise_testkit::Skip;

use crate::real::harness;

/// Set in the namespace.
const INSIDE: &str = "HUGEWISE_TEST_NAMESPACE";

/// statfs(2).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// Said when all is mounted.
const READY: &str = "namespace is ready";

/// Folders of which the test sees a copy that nobody else changes meanwhile.
const COPIED: [&str; 1] = ["/etc"];
/// Larger ones: what the test writes there goes to a tmpfs.
const OVERLAID: [&str; 4] = ["/boot", "/var/lib", "/var/log", "/usr/sbin"];

/// What hugewise has kept on this machine, should it have been used here: no test's business, in
/// either direction.
const KEPT: &str = "hugewise";
const KEPT_IN: &str = "/var/lib";

/// Where PostgreSQL's sockets are on Debian: an empty folder of the test's own.
const SOCKETS: &str = "/run/postgresql";

/// Whether this runs inside. If not, the test is run inside, and its failure is this one's.
///
/// `test` is the test's name as the test runner has it, below `real::`.
pub(crate) fn inside(test: &str) -> Result<bool, Skip> {
    let test = &format!("real::{test}");
    if std::env::var_os(INSIDE).is_some() {
        // Nothing here may ever touch this machine's own files.
        let system = rustix::fs::statfs("/etc").unwrap();
        assert_eq!(system.f_type, TMPFS, "{INSIDE} is set outside of a namespace");
        return Ok(true);
    }
    harness::program(&["/usr/bin/unshare"])?;
    if !rustix::process::geteuid().is_root() {
        return Err(Skip("a mount namespace takes root".into()));
    }
    let own = std::env::current_exe().unwrap();
    let mut mounts = String::from(
        "set -eu\nbase=$(mktemp -d /tmp/hugewise-ns.XXXXXX)\nmount -t tmpfs -o mode=755 hugewise \
             $base\n",
    );
    for (at, folder) in COPIED.iter().enumerate() {
        // Files that an earlier use of hugewise has left have its name in theirs. The clusters that
        // this machine has of its own, and that do not run, are no test's either.
        mounts.push_str(&format!(
            "cp -a {folder} $base/c{at}\n\
             find $base/c{at} -depth -name '*hugewise*' -exec rm -rf {{}} +\n\
             rm -rf $base/c{at}/postgresql/*/*\n\
             mount --bind $base/c{at} {folder}\n"
        ));
    }
    for (at, folder) in OVERLAID.iter().filter(|folder| Path::new(folder).is_dir()).enumerate() {
        mounts.push_str(&format!("mkdir $base/u{at} $base/w{at}\n"));
        if *folder == KEPT_IN {
            // A whiteout, as overlayfs has it for what was removed: the folder below is out of
            // sight.
            mounts.push_str(&format!("mknod $base/u{at}/{KEPT} c 0 0\n"));
        }
        mounts.push_str(&format!(
            "mount -t overlay -o lowerdir={folder},upperdir=$base/u{at},workdir=$base/w{at} \
                 overlay {folder}\n"
        ));
    }
    // Of what was done on this machine itself a test begins without a trace.
    mounts.push_str("if mountpoint -q /var/lib; then rm -rf /var/lib/hugewise; fi\n");
    // Two tests' servers take the same free port, and would meet at its socket.
    mounts.push_str(&format!(
        "if [ -d {SOCKETS} ]; then\n\
         mkdir $base/run\nchown --reference={SOCKETS} $base/run\nchmod --reference={SOCKETS} \
             $base/run\n\
         mount --bind $base/run {SOCKETS}\nfi\n"
    ));
    // The mount point itself is on the disk of this machine, and empty.
    mounts.push_str(&format!(
        "echo {READY}\ncode=0\n\"$@\" || code=$?\numount -l $base && rmdir $base || :\nexit $code\n"
    ));
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
            "sh",
            "-c",
            &mounts,
            "sh",
        ])
        .arg(own);
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(INSIDE, "1");
    let output = command.output().unwrap();
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !out.contains(READY) {
        return Err(Skip(format!("no namespace with folders of its own: {}", errors.trim())));
    }
    assert!(out.contains("running 1 test"), "no test is called {test}\n{out}\n{errors}");
    assert!(output.status.success(), "{out}\n{errors}");
    // Past the test runner, which keeps to itself what a test says that passes: what was skipped
    // and seen is to be read.
    let _ = std::io::stderr().write_all(errors.as_bytes());
    Ok(false)
}

/// Everything below some folders and some values of the kernel, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    entries: BTreeMap<PathBuf, Entry>,
    values: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    what: What,
}

#[derive(Clone, PartialEq, Eq)]
enum What {
    Folder,
    File(Vec<u8>),
    Link(PathBuf),
    Other,
}

impl std::fmt::Debug for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder => f.write_str("folder"),
            Self::File(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Link(target) => write!(f, "-> {}", target.display()),
            Self::Other => f.write_str("other"),
        }
    }
}

/// Values of the kernel that a plan may change and that `PoolGuard` restores.
pub(crate) const VALUES: [&str; 4] = [
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/proc/sys/vm/hugetlb_shm_group",
];

impl State {
    /// Looks at these files and folders with all below, and at [`VALUES`].
    pub(crate) fn of(paths: &[&Path]) -> Self {
        let mut state = Self { entries: BTreeMap::new(), values: BTreeMap::new() };
        for path in paths {
            state.add(path);
        }
        for value in VALUES {
            state.values.insert(value.into(), fs::read_to_string(value).unwrap());
        }
        state
    }

    /// The configuration of this machine.
    pub(crate) fn etc() -> Self {
        Self::of(&[Path::new("/etc"), Path::new("/boot")])
    }

    fn add(&mut self, path: &Path) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        let kind = metadata.file_type();
        let what = if kind.is_dir() {
            let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            names.for_each(|path| self.add(&path));
            What::Folder
        } else if kind.is_file() {
            What::File(fs::read(path).unwrap())
        } else if kind.is_symlink() {
            What::Link(fs::read_link(path).unwrap())
        } else {
            What::Other
        };
        let entry =
            Entry { mode: metadata.mode() & 0o7777, owner: (metadata.uid(), metadata.gid()), what };
        self.entries.insert(path.to_owned(), entry);
    }

    /// How files and folders found later differ from these; values of the kernel are left out.
    pub(crate) fn differences(&self, found: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for path in self.entries.keys().chain(found.entries.keys()) {
            let (old, new) = (self.entries.get(path), found.entries.get(path));
            if old != new {
                differences
                    .push(format!("{}:\n  expected {old:?}\n  found    {new:?}", path.display()));
            }
        }
        differences.dedup();
        differences
    }

    /// Leaves out what satisfies `is`.
    pub(crate) fn without(mut self, is: impl Fn(&Path) -> bool) -> Self {
        self.entries.retain(|path, _| !is(path));
        self
    }

    /// With the contents of files as `shown` has them.
    pub(crate) fn with_files(mut self, shown: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        for entry in self.entries.values_mut() {
            if let What::File(bytes) = &mut entry.what {
                *bytes = shown(bytes);
            }
        }
        self
    }

    /// Puts everything back that is not as it is here.
    pub(crate) fn restore(&self, paths: &[&Path]) {
        let now = Self::of(paths);
        for path in now.entries.keys().rev().filter(|path| !self.entries.contains_key(*path)) {
            let removed = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
            removed.unwrap();
        }
        for (path, entry) in
            self.entries.iter().filter(|(path, entry)| now.entries.get(*path) != Some(entry))
        {
            if let What::File(bytes) = &entry.what {
                fs::write(path, bytes).unwrap();
            }
            std::os::unix::fs::chown(path, Some(entry.owner.0), Some(entry.owner.1)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(entry.mode)).unwrap();
        }
        for (path, value) in &self.values {
            let chosen = value
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'))
                .map(|(word, _)| word);
            fs::write(path, chosen.unwrap_or(value)).unwrap();
        }
        assert_same(self, &Self::of(paths));
    }
}

/// Fails with what differs, and with that alone.
#[track_caller]
pub(crate) fn assert_same(expected: &State, found: &State) {
    let mut differences = expected.differences(found);
    for (path, value) in &expected.values {
        if found.values.get(path) != Some(value) {
            differences.push(format!(
                "{path}:\n  expected {value:?}\n  found    {:?}",
                found.values.get(path)
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
