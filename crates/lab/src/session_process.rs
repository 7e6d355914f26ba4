//! Sessions: processes of this program under another title.
//!
//! A session is the program started anew. Its only argument is its title, as with servers that
//! rewrite theirs, so its orders come in an environment variable. It lives as long as the pipe at
//! its standard input: when its server dies, for whatever reason, it ends.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::segment::set_process_name;

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
    /// A server without sessions yet. Errors: no pipe is available.
    pub fn new() -> io::Result<Self> {
        let (life_end, life) = io::pipe()?;
        let (attached, attached_end) = io::pipe()?;
        Ok(Self {
            children: Vec::new(),
            life: Some(life),
            life_end,
            attached,
            attached_end: Some(attached_end),
        })
    }

    /// Starts one more session under `title`, with `orders` for it.
    /// Errors: no process can be started.
    pub fn start_session(&mut self, title: &str, orders: &str) -> io::Result<()> {
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

    /// Waits until every session is attached. Errors: one of them ended instead.
    pub fn wait_until_attached(&mut self) -> io::Result<()> {
        // Without the last writer nobody is left who could report.
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

/// From now on this process is killed when the thread that started it ends, for whatever reason.
/// Errors: as prctl(2).
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// This process's orders as a session; `None` where it is none.
pub fn read_orders() -> Option<OsString> {
    std::env::var_os(ORDERS)
}

/// Makes the title the process name, which the kernel took from the executable.
pub fn take_title() {
    if let Some(title) = std::env::args_os().next() {
        set_process_name(&title.to_string_lossy());
    }
}

/// Reports that this session is attached, and stays until its server is gone.
/// Errors: the server is gone already.
pub fn stay_attached() -> io::Result<()> {
    use std::io::Write;
    let mut output = io::stdout().lock();
    output.write_all(b"a")?;
    output.flush()?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}
