//! A stack of processes that start one another, as Oracle Clusterware's do: each gives what it starts its own user, groups and
//! limits.
//!
//! Each is this program under a name of its own, started with its orders in an environment variable. They end with what they
//! have started, and those that start nothing when standard input closes.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};

use serde::{Deserialize, Serialize};

use crate::{segment, session};

/// The environment variable with a process's orders.
pub(super) const ORDERS: &str = "HUGEWISE_STACK";

/// What a process of a stack does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The user and the group that it becomes, without any other group.
    pub user: Option<(u32, u32)>,
    /// What it starts then.
    pub starts: Vec<Started>,
}

/// What a process of a stack starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its orders, where it belongs to the stack.
    pub stage: Option<Stage>,
}

impl Stage {
    /// Has a command start the first process of a stack.
    ///
    /// # Errors
    /// Where the orders cannot be written down.
    pub fn order(&self, command: &mut Command) -> io::Result<()> {
        command.env(ORDERS, serde_json::to_string(self)?);
        Ok(())
    }
}

/// Is that process until all that it has started have ended.
pub(super) fn run(orders: &OsStr) -> ExitCode {
    match be(orders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn be(orders: &OsStr) -> io::Result<()> {
    let stage: Stage = serde_json::from_str(&orders.to_string_lossy())?;
    if let Some((uid, gid)) = stage.user {
        segment::become_user(uid, gid)?;
    }
    // Not before: the kernel forgets it where a process becomes another user.
    session::die_with_parent()?;
    if stage.starts.is_empty() {
        io::copy(&mut io::stdin().lock(), &mut io::sink())?;
        return Ok(());
    }
    let children = stage.starts.iter().map(start).collect::<io::Result<Vec<Child>>>()?;
    for mut child in children {
        child.wait()?;
    }
    Ok(())
}

fn start(started: &Started) -> io::Result<Child> {
    let mut command = Command::new(&started.program);
    command.args(&started.arguments);
    match &started.stage {
        Some(stage) => stage.order(&mut command)?,
        None => {
            command.env_remove(ORDERS);
        }
    }
    command.spawn()
}
