//! What listens: metrics, JSON API, dashboard.
//!
//! Nothing here writes: GET and HEAD are all there is. The number of connections, the time that each may take and
//! the size of what is asked are bounded; one thread serves them all, and another reads the host. Whoever comes gets in, and
//! who squats takes places from himself alone (`crowd.rs`).

mod answers;
mod app;
mod credentials;
mod crowd;
mod events;
mod gate;
mod negotiate;
mod page;
mod peer;
mod query;
mod steady;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::Collector;
use crate::history::Span;
use app::{App, Asked};
use crowd::{Crowd, Guest};
pub use gate::WrongConfig;
use gate::{Gate, Gates};
use peer::{Peer, Sockets};
use steady::Steady;

/// Connections that wait in the kernel until they are let in, which is at once.
const BACKLOG: u32 = 4096;
/// What the kernel keeps for a client that takes nothing, and of one that does not end; it takes twice as much for its own
/// use. It would grow to megabytes a connection, which count as this program's.
const SOCKET_BYTES: u32 = 32 << 10;
/// So many are let in before the others have their turn.
const TOGETHER: usize = 64;
/// Descriptors that are asked for.
const DESCRIPTORS: u64 = 2048;
/// The largest head of a request.
const HEAD_BYTES: usize = 16 << 10;
/// The most headers in it.
const HEAD_LINES: usize = 64;
/// What is being answered when the end comes has so long.
const GRACE: Duration = Duration::from_secs(5);
/// So much of TLS waits for a client that takes nothing.
const TLS_BYTES: usize = 32 << 10;

/// How long the server waits.
#[derive(Clone, Copy)]
struct Waits {
    /// A client has so long for its request's head, and for the next one to begin; so long for a handshake; and
    /// so long to take a part of the answer.
    patience: Duration,
    /// A client has so long for all of an answer.
    whole: Duration,
    /// How often the files of the web configuration are looked at.
    look_again: Duration,
}

const WAITS: Waits =
    Waits { patience: Duration::from_secs(10), whole: Duration::from_secs(30), look_again: Duration::from_secs(10) };

/// How to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// How often the host is read when nobody asks.
    pub interval: Duration,
    /// The folder of the flight recorder.
    pub recorder: PathBuf,
    /// Who may ask, and how: a file in the format of the exporter-toolkit.
    pub web_config: Option<PathBuf>,
    /// Listen for other hosts without TLS or without a credential.
    pub insecure_bind: bool,
}

/// Why nothing is served.
#[derive(Debug)]
pub enum Error {
    /// The address is no loopback address, and what would protect it is missing.
    Unprotected(SocketAddr),
    /// The address cannot be listened at.
    Bind(SocketAddr, std::io::Error),
    /// The web configuration, or a file that it names.
    Config(WrongConfig),
    /// The runtime or a signal's handler is not to be had.
    System(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprotected(address) => write!(
                f,
                "{address} can be reached from other hosts: use --web-config with tls_server_config and \
                 basic_auth_users (or client certificates), listen on 127.0.0.1, or use --insecure-bind"
            ),
            Self::Bind(address, error) => write!(f, "cannot listen at {address}: {error}"),
            Self::Config(why) => why.fmt(f),
            Self::System(error) => write!(f, "cannot serve: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// What is worth telling whoever started the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It listens there: the address as the kernel gave it, by TLS or without.
    Listening(SocketAddr, bool),
    /// The web configuration has changed and cannot be used; the one before holds.
    KeptConfig(String),
}

/// Serves the running machine until SIGTERM or SIGINT; what is being answered then is answered to its end.
///
/// # Errors
/// Where it cannot begin.
pub fn run(options: &Options, tell: impl Fn(News) + Send + Sync + 'static) -> Result<(), Error> {
    // Two threads at the most read files: the host's, and the hashing of passwords.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build();
    let runtime = runtime.map_err(Error::System)?;
    make_room();
    let served = runtime.block_on(async {
        let end = signals().map_err(Error::System)?;
        serve(options, Collector::live(span(options)).beside(&options.recorder), WAITS, tell, end).await
    });
    // A reading that hangs in the kernel must not keep the program from its end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// A slower schedule gives a longer history, not a thinner one.
fn span(options: &Options) -> Span {
    let usual = Span::default();
    Span { gap: usual.gap.max(options.interval), ..usual }
}

fn signals() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn serve(
    options: &Options,
    collector: Collector,
    waits: Waits,
    tell: impl Fn(News) + Send + Sync + 'static,
    end: impl Future<Output = ()>,
) -> Result<(), Error> {
    let gate = Gate::open(options.web_config.as_deref()).map_err(Error::Config)?;
    protected(options, &gate)?;
    let listener = listen(options.listen)?;
    let address = listener.local_addr().map_err(Error::System)?;
    tell(News::Listening(address, gate.tls.is_some()));

    let gates = Arc::new(Gates::new(gate));
    let (ending, ended) = watch::channel(false);
    let app = App::new(collector, Arc::clone(&gates), address.ip().is_loopback(), ended.clone());
    let schedule = tokio::spawn(read_on_schedule(Arc::clone(&app), options.interval));
    let renewal = tokio::spawn(renew(Arc::clone(&gates), options.clone(), waits.look_again, tell));
    let crowd = Crowd::new(getrlimit(Resource::Nofile).current);
    let porter = Porter { listener, crowd: Arc::clone(&crowd), gates, routes: app.routes(), waits, ended };
    // A task as any other: it has its turn, and then those whom it has let in.
    let mut porter = tokio::spawn(porter.work(address));
    tokio::select! {
        () = end => porter.abort(),
        // It works for as long as it is let.
        _ = &mut porter => return Ok(()),
    }
    // It holds the socket that listens.
    let _ = porter.await;
    ending.send_replace(true);
    schedule.abort();
    renewal.abort();
    let gone = async {
        while !crowd.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = timeout(GRACE, gone).await;
    Ok(())
}

/// Who lets people in.
struct Porter {
    listener: TcpListener,
    crowd: Arc<Crowd>,
    gates: Arc<Gates>,
    routes: Router,
    waits: Waits,
    ended: watch::Receiver<bool>,
}

impl Porter {
    async fn work(self, address: SocketAddr) {
        let sockets = Sockets::open();
        for count in 1_usize.. {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    let peer = sockets.peer(from, stream.local_addr().unwrap_or(address));
                    self.admit(stream, peer).await;
                }
                // The client is gone already.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                // No descriptor is left, or no memory: somebody goes, and what is left of him is gone a moment later.
                Err(_) => {
                    self.crowd.thin_out();
                    sleep(Duration::from_millis(50)).await;
                }
            }
            if count % TOGETHER == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn admit(&self, stream: TcpStream, peer: Peer) {
        let guest = loop {
            match self.crowd.admit(peer) {
                Ok(guest) => break guest,
                Err(wait) => sleep(wait).await,
            }
        };
        let id = guest.id();
        let (routes, waits, ended) = (self.routes.clone(), self.waits, self.ended.clone());
        let task = tokio::spawn(Connection { guest, routes, waits, ended }.serve(stream, self.gates.now()));
        self.crowd.served_by(id, task.abort_handle());
    }
}

/// As many descriptors as may be had without asking anybody: a service begins with 1024.
fn make_room() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = DESCRIPTORS.min(maximum.unwrap_or(u64::MAX));
    if current.is_some_and(|current| current < wanted) {
        // With those that there are, fewer get in.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// Loopback, or TLS with a credential, or said aloud.
fn protected(options: &Options, gate: &Gate) -> Result<(), Error> {
    let safe = options.listen.ip().is_loopback() || (gate.tls.is_some() && gate.asks_for_a_credential());
    if safe || options.insecure_bind { Ok(()) } else { Err(Error::Unprotected(options.listen)) }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    use tokio::net::TcpSocket;
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A server that was just ended leaves connections behind; its successor need not wait for them.
        socket.set_reuseaddr(true)?;
        // Those that are let in have the same.
        socket.set_send_buffer_size(SOCKET_BYTES)?;
        socket.set_recv_buffer_size(SOCKET_BYTES)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bind().map_err(|error| Error::Bind(address, error))
}

async fn read_on_schedule(app: Arc<App>, every: Duration) {
    let mut ticks = interval(every.max(crate::collect::LEAST_AGE));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // A reading that failed is tried again; whoever asks meanwhile is told.
        let _ = app.reading(every / 2).await;
    }
}

/// Certificates are renewed, passwords changed: what the files say holds for the next connection.
async fn renew(gates: Arc<Gates>, options: Options, every: Duration, tell: impl Fn(News)) {
    let Some(path) = options.web_config.clone() else { return };
    let mut complained = None;
    loop {
        sleep(every).await;
        let from = path.clone();
        let Ok(opened) = tokio::task::spawn_blocking(move || Gate::open(Some(&from))).await else { continue };
        let opened = opened.map_err(|why| why.to_string()).and_then(|gate| match protected(&options, &gate) {
            Ok(()) => Ok(gate),
            Err(error) => Err(error.to_string()),
        });
        match opened {
            Ok(gate) => {
                gates.replace(gate);
                complained = None;
            }
            Err(what) if complained.as_ref() != Some(&what) => {
                tell(News::KeptConfig(what.clone()));
                complained = Some(what);
            }
            Err(_) => {}
        }
    }
}

/// One connection, and what it needs.
struct Connection {
    guest: Arc<Guest>,
    routes: Router,
    waits: Waits,
    ended: watch::Receiver<bool>,
}

impl Connection {
    async fn serve(mut self, stream: TcpStream, gate: Arc<Gate>) {
        let patience = self.waits.patience;
        // Nothing is made for one who says nothing.
        tokio::select! {
            spoken = timeout(patience, stream.readable()) => if !matches!(spoken, Ok(Ok(()))) { return },
            _ = self.ended.wait_for(|ended| *ended) => return,
        }
        // Answers are small and whole; waiting for more of them serves nobody.
        let _ = stream.set_nodelay(true);
        let stream = Steady::new(stream, patience, self.waits.whole);
        match &gate.tls {
            None => self.converse(stream).await,
            Some(acceptor) => {
                while let Err(wait) = self.guest.shakes_hands() {
                    sleep(wait).await;
                }
                let shaken = acceptor.accept_with(stream, |tls| tls.set_buffer_limit(Some(TLS_BYTES)));
                if let Ok(Ok(stream)) = timeout(patience, shaken).await {
                    self.guest.has_shaken_hands();
                    self.converse(stream).await;
                }
            }
        }
    }

    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { guest, routes, waits, mut ended } = self;
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(waits.patience)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEAD_LINES)
            .serve_connection(TokioIo::new(stream), Asked::new(routes, guest));
        let mut connection = pin!(connection);
        // What goes wrong on a connection is the client's to know; it is closed either way.
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = ended.wait_for(|ended| *ended) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
