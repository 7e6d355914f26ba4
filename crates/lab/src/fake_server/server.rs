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

use super::server_memory::{NoMemory, ServerMemory};
use super::{FakeServerReport, FakeServerSettings};
use crate::segment::set_process_name;
use crate::session_process;

/// The first byte of a session's answer before its pid.
pub(super) const THERE: u8 = b'k';
/// The first byte of a session's answer before its reason to refuse.
pub(super) const NOT_THERE: u8 = b'e';

pub(super) fn run(settings: &OsStr) -> ExitCode {
    let started = serde_json::from_str::<FakeServerSettings>(&settings.to_string_lossy())
        .map_err(StartError::Settings)
        .and_then(|settings| {
            start_listening(&settings).map(|(listener, memory)| (settings, listener, memory))
        });
    let (settings, listener, memory) = match started {
        Ok(started) => started,
        Err(error) => {
            let _ = write_report(&FakeServerReport::Failed(error.to_string()));
            return ExitCode::FAILURE;
        }
    };
    let served = serve_sessions(&settings, &listener, memory);
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

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

fn start_listening(
    settings: &FakeServerSettings,
) -> Result<(UnixListener, ServerMemory), StartError> {
    session_process::die_with_parent()?;
    first_to_go();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = ServerMemory::create(settings, threads)?;
    let name = format!("hugewise-standin-{}", std::process::id());
    let listener = SocketAddr::from_abstract_name(&name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map_err(StartError::Listening)?;
    write_report(&FakeServerReport::Ready { name, huge: memory.huge_bytes() })?;
    Ok((listener, memory))
}

/// If memory runs out, the kernel shall kill this and not the host's database.
#[allow(clippy::disallowed_methods, reason = "a switch of this very process")]
fn first_to_go() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

fn write_report(report: &FakeServerReport) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(report)?)?;
    output.flush()
}

/// Accepts connections until standard input closes, then ends every session and waits for it, so
/// that its memory is free.
fn serve_sessions(
    settings: &FakeServerSettings,
    listener: &UnixListener,
    mut memory: ServerMemory,
) -> io::Result<()> {
    let mut sessions = Vec::new();
    let input = io::stdin();
    let served = loop {
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN),
        ];
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

/// Whether the other end is the server's user: everyone on a host can find an abstract name.
fn is_ours(connection: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(connection)
        .is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// The pid of the new session; where it cannot be started, the connection gets the reason.
fn fork_session(
    settings: &FakeServerSettings,
    memory: &mut ServerMemory,
    mut connection: UnixStream,
) -> Option<Pid> {
    let server = rustix::process::getpid();
    // SAFETY: this process has one thread (those that touched the segment have ended), so the child
    // finds no lock held by a thread that it does not have.
    match unsafe { libc::fork() } {
        0 => {
            be_session(settings, server, memory, &mut connection);
            // SAFETY: ends the process at once: what is set up to run at exit belongs to the
            // server.
            unsafe { libc::_exit(0) }
        }
        -1 => {
            let error = io::Error::last_os_error();
            let _ = send_refusal(
                &mut connection,
                &format!("cannot start a process for a session: {error}"),
            );
            None
        }
        pid => Pid::from_raw(pid),
    }
}

fn be_session(
    settings: &FakeServerSettings,
    server: Pid,
    memory: &mut ServerMemory,
    connection: &mut UnixStream,
) {
    set_process_name("standin session");
    if session_process::die_with_parent().is_err() || rustix::process::getppid() != Some(server) {
        return;
    }
    match memory.log_in(settings) {
        Ok(()) => {
            let mut answer = vec![THERE];
            answer.extend(std::process::id().to_ne_bytes());
            let _ = connection.write_all(&answer);
        }
        Err(error) => {
            let _ = send_refusal(connection, &format!("a session could not attach: {error}"));
        }
    }
    let _ = io::copy(connection, &mut io::sink());
}

fn send_refusal(connection: &mut UnixStream, reason: &str) -> io::Result<()> {
    let mut answer = vec![NOT_THERE];
    answer.extend(reason.as_bytes());
    connection.write_all(&answer)
}
