//! The client of a stand-in server: starts it, logs sessions in, ends it.

use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_model::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::server::{NOT_THERE, THERE};
use super::{FakeServerReport, FakeServerSettings, SETTINGS};
use crate::cancel::Cancel;
use crate::experiment::ExperimentFailure;

/// How long a server may take to end: freeing gigabytes of page tables takes time.
const PATIENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(50);
const OTHER_FILES: u64 = 64;
const LONGEST_ANSWER: usize = 512;

/// When the sessions of a storm connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginPace {
    /// All at once.
    AtOnce,
    /// Each after the answer to the one before, and at this interval at least.
    OneByOne(Duration),
}

/// A running server; dropping it ends it and its sessions.
#[derive(Debug)]
pub struct FakeServer {
    child: Child,
    life: Option<ChildStdin>,
    output: ChildStdout,
    address: SocketAddrUnix,
    huge: Bytes,
    sessions: Vec<OwnedFd>,
    pids: Vec<u32>,
}

struct Waiting {
    connection: OwnedFd,
    begun: Instant,
    answer: Vec<u8>,
}

impl FakeServer {
    pub(crate) fn this_program() -> PathBuf {
        PathBuf::from("/proc/self/exe")
    }

    /// Starts `program`, which has to call [`super::if_wanted`] first, as a server, and waits until
    /// it listens.
    /// Errors: [`ExperimentFailure::Unavailable`] with the server's message where it cannot start.
    pub fn start_program(
        program: &Path,
        settings: &FakeServerSettings,
        cancel: &Cancel,
    ) -> Result<Self, ExperimentFailure> {
        let settings = serde_json::to_string(settings).map_err(io::Error::from)?;
        let mut child = Command::new(program)
            .arg0("hugewise: stand-in server")
            .env(SETTINGS, settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(life), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ExperimentFailure::Failed("the server has no standard streams".to_owned()));
        };
        // From here on dropping ends it.
        let address = SocketAddrUnix::new_abstract_name(b"").map_err(io::Error::from)?;
        let (life, sessions) = (Some(life), Vec::new());
        let mut server =
            Self { child, life, output, address, huge: Bytes::ZERO, sessions, pids: Vec::new() };
        match server.read_report(cancel)? {
            FakeServerReport::Ready { name, huge } => {
                server.address =
                    SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(io::Error::from)?;
                server.huge = huge;
                Ok(server)
            }
            FakeServerReport::Failed(reason) => Err(ExperimentFailure::Unavailable(reason)),
        }
    }

    fn read_report(&mut self, cancel: &Cancel) -> Result<FakeServerReport, ExperimentFailure> {
        loop {
            let mut ready = [PollFd::new(&self.output, PollFlags::IN)];
            match poll(&mut ready, Some(&poll_tick())) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(io::Error::from(error).into()),
            }
            if let Err(stopped) = cancel.check_running() {
                // While it touches its memory it does not look at its standard input.
                let _ = self.child.kill();
                return Err(stopped.into());
            }
        }
        let mut line = String::new();
        BufReader::new(&mut self.output).read_line(&mut line)?;
        let report = serde_json::from_str(&line);
        report.map_err(|_| {
            ExperimentFailure::Failed("the server ended before it listened".to_owned())
        })
    }

    /// How much of its segment is on huge pages.
    pub const fn huge_bytes(&self) -> Bytes {
        self.huge
    }

    /// The processes of its sessions.
    pub fn session_pids(&self) -> &[u32] {
        &self.pids
    }

    /// Logs `count` more sessions in; the time of each from connecting to the answer.
    /// Errors: a session was refused, or `cancel` ended it.
    pub fn log_in(
        &mut self,
        count: u32,
        pace: LoginPace,
        cancel: &Cancel,
    ) -> Result<Vec<Duration>, ExperimentFailure> {
        allow_files(
            u64::from(count) + u64::try_from(self.sessions.len()).unwrap_or(0) + OTHER_FILES,
        )?;
        match pace {
            LoginPace::AtOnce => self.log_in_at_once(count, cancel),
            LoginPace::OneByOne(interval) => {
                let mut times = Vec::new();
                for _ in 0..count {
                    let begun = Instant::now();
                    times.extend(self.log_in_at_once(1, cancel)?);
                    cancel.sleep(interval.saturating_sub(begun.elapsed()))?;
                }
                Ok(times)
            }
        }
    }

    fn log_in_at_once(
        &mut self,
        count: u32,
        cancel: &Cancel,
    ) -> Result<Vec<Duration>, ExperimentFailure> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let mut waiting = Vec::new();
        for at in 0..u64::from(count) {
            let begun = Instant::now();
            let connection = self.connect_session(cancel)?;
            epoll::add(&events, &connection, epoll::EventData::new_u64(at), epoll::EventFlags::IN)
                .map_err(io::Error::from)?;
            waiting.push(Some(Waiting { connection, begun, answer: Vec::new() }));
        }
        let mut times = Vec::new();
        let mut ready = Vec::with_capacity(64);
        while times.len() < waiting.len() {
            cancel.check_running()?;
            ready.clear();
            match epoll::wait(
                &events,
                rustix::buffer::spare_capacity(&mut ready),
                Some(&poll_tick()),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let now = Instant::now();
            for event in &ready {
                let place = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                let Some(slot) = waiting.get_mut(place) else { continue };
                let Some(login) = slot else { continue };
                if let Some(pid) = login.read()? {
                    times.push(now.duration_since(login.begun));
                    self.pids.push(pid);
                    epoll::delete(&events, &login.connection).map_err(io::Error::from)?;
                    self.sessions.extend(slot.take().map(|login| login.connection));
                }
            }
        }
        Ok(times)
    }

    fn connect_session(&self, cancel: &Cancel) -> Result<OwnedFd, ExperimentFailure> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(io::Error::from)?;
        loop {
            match connect(&socket, &self.address) {
                Ok(()) => return Ok(socket),
                // The server's queue is full. This wait counts, as a client's does.
                Err(Errno::AGAIN) => cancel.sleep(Duration::from_millis(1))?,
                Err(Errno::INTR) => cancel.check_running()?,
                Err(error) => {
                    return Err(ExperimentFailure::Failed(format!(
                        "connecting to the server: {error}"
                    )));
                }
            }
        }
    }
}

impl Waiting {
    fn read(&mut self) -> Result<Option<u32>, ExperimentFailure> {
        let mut buffer = [0; LONGEST_ANSWER];
        let gone =
            || ExperimentFailure::Failed("a session ended before it had answered".to_owned());
        match rustix::io::read(self.connection.as_fd(), &mut buffer) {
            Ok(0) => return Err(gone()),
            Ok(count) => self.answer.extend(buffer.iter().take(count)),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(_) => return Err(gone()),
        }
        match self.answer.split_first() {
            Some((&THERE, pid)) => Ok(<[u8; 4]>::try_from(pid).ok().map(u32::from_ne_bytes)),
            Some((&NOT_THERE, reason)) => {
                Err(ExperimentFailure::Unavailable(String::from_utf8_lossy(reason).into_owned()))
            }
            _ => Err(gone()),
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        // It kills its sessions and waits for them, so that their memory is free afterwards.
        self.life = None;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const fn poll_tick() -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos() as i64 }
}

fn allow_files(wanted: u64) -> Result<(), ExperimentFailure> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        let reason = format!(
            "{wanted} open files are needed, but this user may have only {}",
            limit.maximum.unwrap_or(0)
        );
        return Err(ExperimentFailure::Unavailable(reason));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
        .map_err(io::Error::from)?;
    Ok(())
}
