//! What listens: metrics, JSON API, dashboard.
//!
//! GET and HEAD are all there is: nothing is ever written. The number of connections, the time of
//! each and the size of requests are bounded; one thread serves them all, and another reads the
//! host. Newcomers always get in, and whoever squats takes places from himself alone
//! (`connection_limiter.rs`).

mod answer_cache;
mod app;
mod connection_limiter;
mod credentials;
mod events;
mod gate;
mod negotiate;
mod page;
mod peer;
mod size_query;
mod write_deadline;

#[cfg(test)]
mod tests;

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

use crate::HostCollector;
use crate::history::HistorySpan;
use app::{App, ConnectionService};
use connection_limiter::{ConnectionLimiter, Guest};
pub use gate::WrongConfig;
use gate::{Gate, Gates};
use peer::{Peer, SocketOwners};
use write_deadline::DeadlineStream;

/// Connections that wait in the kernel until they are accepted, which is at once.
const BACKLOG: u32 = 4096;
/// The kernel's buffers for a slow client, of which it takes twice as much. They would grow to
/// megabytes a connection, which count as this program's memory.
const SOCKET_BYTES: u32 = 32 << 10;
/// Connections that are accepted before others get their turn.
const TOGETHER: usize = 64;
const DESCRIPTORS: u64 = 2048;
/// Of a request's head.
const HEAD_BYTES: usize = 16 << 10;
const HEAD_LINES: usize = 64;
/// For answers under way when the server ends.
const GRACE: Duration = Duration::from_secs(5);
/// TLS data that waits for a slow client.
const TLS_BYTES: usize = 32 << 10;

#[derive(Clone, Copy)]
struct Waits {
    /// For a request's head, the pause before the next one, a handshake, each part of an answer.
    patience: Duration,
    /// For all of an answer.
    whole: Duration,
    /// Between two looks at the files of the web configuration.
    look_again: Duration,
}

const WAITS: Waits = Waits {
    patience: Duration::from_secs(10),
    whole: Duration::from_secs(30),
    look_again: Duration::from_secs(10),
};

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
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Other hosts can reach the address, and what would protect it is missing.
    #[error(
        "{0} can be reached from other hosts: use --web-config with tls_server_config and \
         basic_auth_users (or client certificates), listen on 127.0.0.1, or use --insecure-bind"
    )]
    Unprotected(SocketAddr),
    /// The address cannot be listened at.
    #[error("cannot listen at {0}: {1}")]
    Bind(SocketAddr, std::io::Error),
    /// The web configuration, or a file that it names.
    #[error(transparent)]
    Config(WrongConfig),
    /// There is no runtime or no signal handler.
    #[error("cannot serve: {0}")]
    System(std::io::Error),
}

/// What to tell whoever started the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerNotice {
    /// It listens at this address, with TLS or without.
    Listening(SocketAddr, bool),
    /// The web configuration has changed and cannot be used; the previous one holds.
    KeptConfig(String),
}

/// Serves the running machine until SIGTERM or SIGINT; answers under way are finished.
///
/// # Errors
/// Where it cannot begin.
pub fn run(
    options: &Options,
    tell: impl Fn(ServerNotice) + Send + Sync + 'static,
) -> Result<(), Error> {
    // Two blocking threads at most: one reads the host, one hashes passwords.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build();
    let runtime = runtime.map_err(Error::System)?;
    make_room();
    let served = runtime.block_on(async {
        let end = termination_signals().map_err(Error::System)?;
        serve_until(
            options,
            HostCollector::for_live_host(history_span(options)).with_recorder(&options.recorder),
            WAITS,
            tell,
            end,
        )
        .await
    });
    // A reading that hangs in the kernel must not keep the program from its end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// A slower schedule gives a longer history, not a thinner one.
fn history_span(options: &Options) -> HistorySpan {
    let usual = HistorySpan::default();
    HistorySpan { gap: usual.gap.max(options.interval), ..usual }
}

fn termination_signals() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn serve_until(
    options: &Options,
    collector: HostCollector,
    waits: Waits,
    tell: impl Fn(ServerNotice) + Send + Sync + 'static,
    end: impl Future<Output = ()>,
) -> Result<(), Error> {
    let gate = Gate::open(options.web_config.as_deref()).map_err(Error::Config)?;
    check_protection(options, &gate)?;
    let listener = bind_listener(options.listen)?;
    let address = listener.local_addr().map_err(Error::System)?;
    tell(ServerNotice::Listening(address, gate.tls.is_some()));

    let gates = Arc::new(Gates::new(gate));
    let (ending, ended) = watch::channel(false);
    let app = App::new(collector, Arc::clone(&gates), address.ip().is_loopback(), ended.clone());
    let schedule = tokio::spawn(read_on_schedule(Arc::clone(&app), options.interval));
    let renewal =
        tokio::spawn(renew_gate(Arc::clone(&gates), options.clone(), waits.look_again, tell));
    let crowd = ConnectionLimiter::new(getrlimit(Resource::Nofile).current);
    let porter = Porter {
        listener,
        crowd: Arc::clone(&crowd),
        gates,
        routes: app.build_router(),
        waits,
        ended,
    };
    // As a task, it takes turns with the connections that it accepts.
    let mut porter = tokio::spawn(porter.accept_connections(address));
    tokio::select! {
        () = end => porter.abort(),
        // It ends only if it is aborted.
        _ = &mut porter => return Ok(()),
    }
    // It holds the listening socket.
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

/// Accepts connections.
struct Porter {
    listener: TcpListener,
    crowd: Arc<ConnectionLimiter>,
    gates: Arc<Gates>,
    routes: Router,
    waits: Waits,
    ended: watch::Receiver<bool>,
}

impl Porter {
    async fn accept_connections(self, address: SocketAddr) {
        let sockets = SocketOwners::open();
        for count in 1_usize.. {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    let peer = sockets.find_peer(from, stream.local_addr().unwrap_or(address));
                    self.admit_connection(stream, peer).await;
                }
                // The client is gone already.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                // No descriptor or memory is left: one goes, and frees its own a moment later.
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

    async fn admit_connection(&self, stream: TcpStream, peer: Peer) {
        let guest = loop {
            match self.crowd.admit_guest(peer) {
                Ok(guest) => break guest,
                Err(wait) => sleep(wait).await,
            }
        };
        let id = guest.id;
        let (routes, waits, ended) = (self.routes.clone(), self.waits, self.ended.clone());
        let task = tokio::spawn(
            ServedConnection { guest, routes, waits, ended }
                .serve_stream(stream, self.gates.current_gate()),
        );
        self.crowd.served_by(id, task.abort_handle());
    }
}

/// Raises the soft limit of descriptors: a service begins with 1024.
fn make_room() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = DESCRIPTORS.min(maximum.unwrap_or(u64::MAX));
    if current.is_some_and(|current| current < wanted) {
        // Without it, fewer get in.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

fn check_protection(options: &Options, gate: &Gate) -> Result<(), Error> {
    let safe =
        options.listen.ip().is_loopback() || (gate.tls.is_some() && gate.asks_for_a_credential());
    if safe || options.insecure_bind { Ok(()) } else { Err(Error::Unprotected(options.listen)) }
}

fn bind_listener(address: SocketAddr) -> Result<TcpListener, Error> {
    use tokio::net::TcpSocket;
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // The next server must not wait for connections that an ended one left behind.
        socket.set_reuseaddr(true)?;
        // Accepted sockets inherit these.
        socket.set_send_buffer_size(SOCKET_BYTES)?;
        socket.set_recv_buffer_size(SOCKET_BYTES)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bind().map_err(|error| Error::Bind(address, error))
}

async fn read_on_schedule(app: Arc<App>, every: Duration) {
    let mut ticks = interval(every.max(crate::collector::LEAST_AGE));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // A reading that failed is tried again, and clients who ask meanwhile are told.
        let _ = app.reading_within(every / 2).await;
    }
}

/// Renewed certificates and changed passwords hold for the next connection.
async fn renew_gate(
    gates: Arc<Gates>,
    options: Options,
    every: Duration,
    tell: impl Fn(ServerNotice),
) {
    let Some(path) = options.web_config.clone() else { return };
    let mut complained = None;
    loop {
        sleep(every).await;
        let from = path.clone();
        let Ok(opened) = tokio::task::spawn_blocking(move || Gate::open(Some(&from))).await else {
            continue;
        };
        let opened =
            opened.map_err(|why| why.to_string()).and_then(|gate| {
                match check_protection(&options, &gate) {
                    Ok(()) => Ok(gate),
                    Err(error) => Err(error.to_string()),
                }
            });
        match opened {
            Ok(gate) => {
                gates.replace_if_changed(gate);
                complained = None;
            }
            Err(what) if complained.as_ref() != Some(&what) => {
                tell(ServerNotice::KeptConfig(what.clone()));
                complained = Some(what);
            }
            Err(_) => {}
        }
    }
}

struct ServedConnection {
    guest: Arc<Guest>,
    routes: Router,
    waits: Waits,
    ended: watch::Receiver<bool>,
}

impl ServedConnection {
    async fn serve_stream(mut self, stream: TcpStream, gate: Arc<Gate>) {
        let patience = self.waits.patience;
        // A client that sends nothing costs nothing.
        tokio::select! {
            spoken = timeout(patience, stream.readable()) => if !matches!(spoken, Ok(Ok(()))) { return },
            _ = self.ended.wait_for(|ended| *ended) => return,
        }
        // Answers are small and whole, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let stream = DeadlineStream::new(stream, patience, self.waits.whole);
        match &gate.tls {
            None => self.serve_http(stream).await,
            Some(acceptor) => {
                while let Err(wait) = self.guest.shakes_hands() {
                    sleep(wait).await;
                }
                let shaken =
                    acceptor.accept_with(stream, |tls| tls.set_buffer_limit(Some(TLS_BYTES)));
                if let Ok(Ok(stream)) = timeout(patience, shaken).await {
                    self.guest.has_shaken_hands();
                    self.serve_http(stream).await;
                }
            }
        }
    }

    async fn serve_http(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { guest, routes, waits, mut ended } = self;
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(waits.patience)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEAD_LINES)
            .serve_connection(TokioIo::new(stream), ConnectionService::new(routes, guest));
        let mut connection = pin!(connection);
        // Errors are the client's to know; the connection is closed either way.
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = ended.wait_for(|ended| *ended) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
