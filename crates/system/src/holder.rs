//! A lock that is held, and the processes that hold one.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use hugewise_host::{Source, source};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};

use crate::{SystemLock, files};

/// More words than anybody reads of a command.
const LONGEST: usize = 200;

/// A lock that is held until this is dropped, and every process that has it open, too, has ended.
#[derive(Debug)]
pub struct HeldLock {
    file: Arc<OwnedFd>,
}

impl SystemLock for HeldLock {}

impl HeldLock {
    pub(crate) const fn new(file: Arc<OwnedFd>) -> Self {
        Self { file }
    }

    /// For everybody who has inherited it, too: a process forked meanwhile would keep it locked.
    pub fn let_go(self) {
        // A lock that cannot be let go is gone with the last process that has it open.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// A process that holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its command line, as far as it can be read and not longer than a line.
    pub command: Option<String>,
}

impl Holder {
    /// Whether it puts everything back when it is asked to end, as the lab does.
    pub(crate) fn may_be_ended(&self) -> bool {
        let mut words = self.command.as_deref().unwrap_or_default().split(' ');
        let program = words.next().unwrap_or_default();
        program.rsplit('/').next().is_some_and(|name| name.starts_with("hugewise"))
            && words.next() == Some("lab")
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "process {} ({command})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// Without those that have inherited it from another one of them. The kernel says so in `fdinfo`
/// (proc_pid_fdinfo(5)): no note that anybody has left can be out of date.
pub(crate) fn find_lock_holders(lock: &OwnedFd) -> Vec<Holder> {
    let source = source::LiveSource::new();
    let Ok(root) =
        openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    else {
        return Vec::new();
    };
    let info = |pid: u32, file: &str| {
        let bytes = files::read_bytes(&root, &format!("/proc/{pid}/fdinfo/{file}")).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (pid, own) = (std::process::id(), lock.as_raw_fd().to_string());
    let Some(path) = source.read_link(&format!("/proc/{pid}/fd/{own}")).into_known() else {
        return Vec::new();
    };
    let inode = info(pid, &own).as_deref().and_then(parse_inode);
    let mut found = BTreeMap::new();
    for name in source.list_folder("/proc").into_known().unwrap_or_default() {
        let Ok(pid) = name.parse::<u32>() else { continue };
        let files = source.list_folder(&format!("/proc/{pid}/fd")).into_known().unwrap_or_default();
        let holds = files.iter().any(|file| {
            let link = source.read_link(&format!("/proc/{pid}/fd/{file}")).into_known();
            let is_it = |info: String| is_locked(&info) && parse_inode(&info) == inode;
            link.as_ref() == Some(&path) && info(pid, file).is_some_and(is_it)
        });
        if holds {
            found.insert(pid, parent_pid(&source, pid));
        }
    }
    let first = |parent: &Option<u32>| parent.is_none_or(|parent| !found.contains_key(&parent));
    let pids = found.iter().filter(|(_, parent)| first(parent));
    pids.map(|(pid, _)| Holder { pid: *pid, command: read_command_line(&source, *pid) }).collect()
}

fn read_text(source: &source::LiveSource, path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&source.read(path).into_known()?).into_owned())
}

/// `lock:  1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF`.
fn is_locked(info: &str) -> bool {
    let mut locks = info.lines().filter(|line| line.starts_with("lock:"));
    locks.any(|line| line.split_whitespace().any(|word| word == "FLOCK"))
}

/// Since Linux 5.14.
fn parse_inode(info: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix("ino:")).map(|inode| inode.trim().to_owned())
}

fn parent_pid(source: &source::LiveSource, pid: u32) -> Option<u32> {
    let status = read_text(source, &format!("/proc/{pid}/status"))?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// In one line.
fn read_command_line(source: &source::LiveSource, pid: u32) -> Option<String> {
    let words = read_text(source, &format!("/proc/{pid}/cmdline"))?;
    let line = words.trim_end_matches('\0').replace('\0', " ");
    let line = hugewise_model::escape::plain::escape_line(&line).into_owned();
    match line.char_indices().nth(LONGEST) {
        _ if line.is_empty() => None,
        Some((end, _)) => Some(format!("{}...", line.get(..end)?)),
        None => Some(line),
    }
}
