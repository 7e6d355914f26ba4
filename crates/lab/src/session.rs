//! Sessions: processes of this program under another title.
//!
//! A session is the program started anew. Its only argument is its title, as with servers that rewrite
//! theirs, so what it shall do comes in an environment variable. It lives as long as the pipe at its
//! standard input: when its server dies, however that happens, every session ends by itself.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::segment::set_process_name;

/// The environment variable that tells a session its orders.
const ORDERS: &str = "HUGEWISE_SESSION";

/// The sessions of one server.
#[derive(Debug)]
pub struct Sessions {
    children: Vec<Child>,
    life: Option<PipeWriter>,
    life_end: PipeReader,
    attached: PipeReader,
    attached_end: Option<PipeWriter>,
}

impl Sessions {
    /// A server without sessions yet.
    ///
    /// # Errors
    /// The kernel's, where no pipe can be had.
    pub fn new() -> io::Result<Self> {
        let (life_end, life) = io::pipe()?;
        let (attached, attached_end) = io::pipe()?;
        Ok(Self { children: Vec::new(), life: Some(life), life_end, attached, attached_end: Some(attached_end) })
    }

    /// Starts one more session under `title`, with `orders` for it.
    ///
    /// # Errors
    /// The kernel's, where no process can be had.
    pub fn start(&mut self, title: &str, orders: &str) -> io::Result<()> {
        let Some(attached_end) = &self.attached_end else {
            return Err(io::Error::other("all sessions of this server are counted already"));
        };
        let child = Command::new("/proc/self/exe")
            .arg0(title)
            .env(ORDERS, orders)
            .stdin(Stdio::from(self.life_end.try_clone()?))
            .stdout(Stdio::from(attached_end.try_clone()?))
            .spawn()?;
        self.children.push(child);
        Ok(())
    }

    /// Waits until every session has said that it is there.
    ///
    /// # Errors
    /// Where one of them ended instead.
    pub fn wait_until_attached(&mut self) -> io::Result<()> {
        // The last writer gone means that nobody is left who could still report.
        self.attached_end = None;
        let mut reports = vec![0; self.children.len()];
        self.attached
            .read_exact(&mut reports)
            .map_err(|_| io::Error::other("a session ended before it had attached everything"))
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.life = None;
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// From now on this process is killed when the thread that started it ends, however that happens.
///
/// # Errors
/// The kernel's.
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// What this process is told to do as a session; `None` where it is no session.
pub fn orders() -> Option<OsString> {
    std::env::var_os(ORDERS)
}

/// Takes on the title's first bytes as process name. The kernel named the process after the executable.
pub fn take_title() {
    if let Some(title) = std::env::args_os().next() {
        set_process_name(&title.to_string_lossy());
    }
}

/// Says that this session is attached, and stays until its server is gone.
///
/// # Errors
/// Where the server is gone already.
pub fn stay() -> io::Result<()> {
    use std::io::Write;
    let mut output = io::stdout().lock();
    output.write_all(b"a")?;
    output.flush()?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}
