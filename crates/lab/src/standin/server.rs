//! The server process and its sessions.

#![allow(unsafe_code, reason = "sessions are forked, as database servers do it")]

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::memory::{Memory, NoMemory};
use super::{Report, Settings};
use crate::segment::set_process_name;
use crate::session;

/// The first byte of a session's answer: it is there, and its pid follows.
pub(super) const THERE: u8 = b'k';
/// It is not, and a sentence follows.
pub(super) const NOT_THERE: u8 = b'e';

/// Is the server until standard input closes.
pub(super) fn run(settings: &OsStr) -> ExitCode {
    let started = serde_json::from_str::<Settings>(&settings.to_string_lossy())
        .map_err(StartError::Settings)
        .and_then(|settings| start(&settings).map(|(listener, memory)| (settings, listener, memory)));
    let (settings, listener, memory) = match started {
        Ok(started) => started,
        Err(error) => {
            let _ = say(&Report::Failed(error.to_string()));
            return ExitCode::FAILURE;
        }
    };
    let served = serve(&settings, &listener, memory);
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Settings(serde_json::Error),
    #[error(transparent)]
    Memory(#[from] NoMemory),
    #[error("listening: {0}")]
    Listening(io::Error),
    #[error(transparent)]
    Process(#[from] io::Error),
}

fn start(settings: &Settings) -> Result<(UnixListener, Memory), StartError> {
    session::die_with_parent()?;
    first_to_go();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = Memory::create(settings, threads)?;
    let name = format!("hugewise-standin-{}", std::process::id());
    let listener = SocketAddr::from_abstract_name(&name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map_err(StartError::Listening)?;
    say(&Report::Ready { name, huge: memory.huge() })?;
    Ok((listener, memory))
}

/// Should memory run out in spite of everything, the kernel shall take us and not the database of the host.
#[allow(clippy::disallowed_methods, reason = "a switch of this very process")]
fn first_to_go() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

fn say(report: &Report) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(report)?)?;
    output.flush()
}

/// Takes connections until standard input closes, and then ends every session and waits until it is gone: what comes
/// after shall find the memory free.
fn serve(settings: &Settings, listener: &UnixListener, mut memory: Memory) -> io::Result<()> {
    let mut sessions = Vec::new();
    let input = io::stdin();
    let served = loop {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => break Err(error.into()),
        }
        let [connections, end] = ready;
        if !end.revents().is_empty() {
            break Ok(());
        }
        if connections.revents().is_empty() {
            continue;
        }
        match listener.accept() {
            Ok((connection, _)) if is_ours(&connection) => {
                sessions.extend(fork_session(settings, &mut memory, connection));
            }
            // A stranger gets no session.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    for pid in &sessions {
        let _ = kill_process(*pid, Signal::KILL);
    }
    for pid in sessions {
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    served
}

/// Whether the other end belongs to the user who runs the server: everyone on a host can find an abstract name.
fn is_ours(connection: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(connection).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// The pid of the new session. Where there can be none, the connection says why.
fn fork_session(settings: &Settings, memory: &mut Memory, mut connection: UnixStream) -> Option<Pid> {
    let server = rustix::process::getpid();
    // SAFETY: this process has one thread (those that touched the segment have ended), so the child finds no lock held
    // by a thread that it does not have.
    match unsafe { libc::fork() } {
        0 => {
            be_session(settings, server, memory, &mut connection);
            // SAFETY: ends the process at once: what is set up to run at exit belongs to the server.
            unsafe { libc::_exit(0) }
        }
        -1 => {
            let error = io::Error::last_os_error();
            let _ = refuse(&mut connection, &format!("cannot start a process for a session: {error}"));
            None
        }
        pid => Pid::from_raw(pid),
    }
}

/// Attaches, touches, answers, and stays until the client goes.
fn be_session(settings: &Settings, server: Pid, memory: &mut Memory, connection: &mut UnixStream) {
    set_process_name("standin session");
    if session::die_with_parent().is_err() || rustix::process::getppid() != Some(server) {
        return;
    }
    match memory.log_in(settings) {
        Ok(()) => {
            let mut answer = vec![THERE];
            answer.extend(std::process::id().to_ne_bytes());
            let _ = connection.write_all(&answer);
        }
        Err(error) => {
            let _ = refuse(connection, &format!("a session could not attach: {error}"));
        }
    }
    let _ = io::copy(connection, &mut io::sink());
}

fn refuse(connection: &mut UnixStream, reason: &str) -> io::Result<()> {
    let mut answer = vec![NOT_THERE];
    answer.extend(reason.as_bytes());
    connection.write_all(&answer)
}
