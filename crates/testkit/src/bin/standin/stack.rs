//! Clusterware's processes that start one another: `ohasd.bin` has others beside it, `oraagent.bin`
//! among these, which becomes its user and starts the instance. Each hands down its own limits and
//! groups, as the real ones do.
//!
//! What each is, its program's name says; what there is to start stands in a file beside the folder
//! of the programs. They end with what they have started, and those that start nothing once
//! standard input closes.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use hugewise_lab::{segment, session_process};

/// Below a home, what its agent does: the user and the group that it becomes, and each instance
/// that it starts, a line with its program and its words.
const ORDERS: &str = "orders";

/// The program that starts the others.
const FIRST: &str = "ohasd.bin";
/// The program that starts instances.
const AGENT: &str = "oraagent.bin";
/// The programs beside it.
const OTHERS: [&str; 2] = ["ocssd.bin", "crsd.bin"];

/// Is the process of the stack that this program is named after, until all that it has started has
/// ended; whether it is one.
///
/// # Errors
/// The kernel's, and what is wrong with the orders.
pub(crate) fn if_named() -> io::Result<bool> {
    let program = std::env::current_exe()?;
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let (Some(folder), true) =
        (program.parent(), name == FIRST || name == AGENT || OTHERS.contains(&name))
    else {
        return Ok(false);
    };
    let mut children = Vec::new();
    match name {
        FIRST => {
            session_process::die_with_parent()?;
            for name in OTHERS.iter().chain([&AGENT]) {
                children.push(Command::new(folder.join(name)).spawn()?);
            }
        }
        AGENT => children = be_the_agent(folder)?,
        _ => session_process::die_with_parent()?,
    }
    if children.is_empty() {
        io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    }
    for mut child in children {
        child.wait()?;
    }
    Ok(true)
}

#[allow(clippy::disallowed_methods, reason = "orders of a test, and nothing of the machine")]
fn be_the_agent(folder: &Path) -> io::Result<Vec<Child>> {
    let orders: PathBuf = folder.join("..").join(ORDERS);
    let orders = fs::read_to_string(orders)?;
    let mut lines = orders.lines();
    let user = lines.next().and_then(|line| line.split_once(':'));
    let wrong = || io::Error::other("orders begin with UID:GID");
    let (uid, gid) = user.ok_or_else(wrong)?;
    segment::become_user(uid.parse().map_err(|_| wrong())?, gid.parse().map_err(|_| wrong())?)?;
    // Not before: the kernel forgets it where a process becomes another user.
    session_process::die_with_parent()?;
    let start = |line: &str| {
        let mut words = line.split('\t');
        let program = words.next().unwrap_or_default();
        let home = Path::new(program).ancestors().nth(2).unwrap_or(Path::new("/"));
        Command::new(program).args(words).current_dir(home.join("dbs")).spawn()
    };
    lines.map(start).collect()
}
