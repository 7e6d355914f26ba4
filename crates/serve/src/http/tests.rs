#![allow(clippy::disallowed_methods, reason = "files that these tests have written themselves")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;

use hugewise_host::source;
use serde_json::Value;
use tokio::sync::oneshot;

use super::*;

mod fuzzed;
mod let_in;

/// Nothing that is waited for takes this long, on whatever machine.
const LONG: Duration = Duration::from_secs(60);

/// A server of a captured host, on a port of its own, ended when dropped.
struct Server {
    address: SocketAddr,
    news: mpsc::Receiver<ServerNotice>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

fn options() -> Options {
    Options {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        interval: Duration::from_secs(1),
        recorder: PathBuf::from("/nonexistent"),
        web_config: None,
        insecure_bind: false,
    }
}

fn captured() -> HostCollector {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/no-pool-postgresql");
    HostCollector::new(move || source::open_source(Some(&path)).unwrap(), HistorySpan::default())
}

fn run_until(
    options: &Options,
    waits: Waits,
    tell: mpsc::Sender<ServerNotice>,
    end: oneshot::Receiver<()>,
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .unwrap();
    let tell = std::sync::Mutex::new(tell);
    let tell = move |news| drop(tell.lock().unwrap().send(news));
    runtime.block_on(serve_until(options, captured(), waits, tell, async { drop(end.await) }))
}

impl Server {
    fn start() -> Self {
        Self::with(options(), WAITS)
    }

    fn with(options: Options, waits: Waits) -> Self {
        let (tell, news) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || run_until(&options, waits, tell, ended));
        let address = match news.recv_timeout(LONG) {
            Ok(ServerNotice::Listening(address, _)) => address,
            other => panic!("{other:?}: {:?}", thread.join()),
        };
        Self { address, news, end: Some(end), thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends bytes as they are; what comes back until the server closes.
    fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // Who is refused early may find the door shut while still speaking.
        let _ = stream.write_all(bytes);
        Answer::read(&mut stream)
    }

    fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        self.raw(
            format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
            )
            .as_bytes(),
        )
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    fn stop(&mut self) -> Result<(), Error> {
        drop(self.end.take());
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.stop();
        }
    }
}

/// An answer as it came; status 0 where none came.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        // A connection that is reset has ended too.
        while let Ok(length) = stream.read(&mut part) {
            if length == 0 {
                break;
            }
            bytes.extend_from_slice(&part[..length]);
        }
        let text = String::from_utf8(bytes).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return Self::default() };
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.into(), value.into()));
        Self { status, headers: headers.collect(), body: body.into() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

#[test]
fn every_page_is_what_it_says() {
    let server = Server::start();
    let pages = [
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/script.js", "text/javascript; charset=utf-8", "/* Made by cargo xtask front"),
        ("/style.css", "text/css; charset=utf-8", "/* Made by cargo xtask front"),
        ("/icon.svg", "image/svg+xml", "<svg"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "# HELP hugewise_build_info "),
        ("/api/v1/check", "application/json", "{"),
        ("/api/v1/size?sessions=100", "application/json", "{"),
        ("/api/v1/history", "application/json", "{"),
        ("/api/v1/openapi.json", "application/json", "{"),
    ];
    for (path, kind, begins) in pages {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
        assert!(answer.body.starts_with(begins), "{path}: {answer:?}");
        for (name, part) in [
            ("content-security-policy", "default-src 'none'; script-src 'self'"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert!(answer.header(name).contains(part), "{path} {name}: {answer:?}");
        }
        let head = server.ask("HEAD", path, "");
        assert_eq!(
            (head.status, head.header("content-type"), head.body.as_str()),
            (200, kind, ""),
            "{path}"
        );
    }
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let open = server.ask("GET", "/metrics", accept);
    assert_eq!(
        open.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(open.body.ends_with("# EOF\n"));
}

#[test]
fn the_page_brings_everything_with_it() {
    let server = Server::start();
    let page = server.get("/").body;
    for forbidden in ["http://", "https://", "//", "style=", "onclick", "<style", "javascript:"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let script = server.get("/script.js").body.replace("innerHTML===", "");
    for forbidden in
        ["http://", "https://", "innerHTML=", "insertAdjacent", "eval(", "document.write"]
    {
        assert!(!script.contains(forbidden), "{forbidden}");
    }
    assert!(!server.get("/style.css").body.contains("url("));
    for part in page.split("href=\"").skip(1).chain(page.split("src=\"").skip(1)) {
        let path = part.split('"').next().unwrap();
        if !path.starts_with('#') {
            assert_eq!(server.get(&format!("/{path}")).status, 200, "{path}");
        }
    }
}

#[test]
fn answers_obey_the_description() {
    let server = Server::start();
    let described = server.get("/api/v1/openapi.json").json();
    assert_eq!(
        described.to_string(),
        serde_json::from_str::<Value>(&crate::openapi::openapi_document()).unwrap().to_string()
    );
    let cases = [
        ("/api/v1/check", "check", 200),
        ("/api/v1/size", "size", 200),
        ("/api/v1/size?sessions=1000&page_size=1G&headroom=10", "size", 200),
        ("/api/v1/size?memory=8G", "size", 200),
        ("/api/v1/size?page_size=4M", "size", 404),
        ("/api/v1/size?sessions=0", "size", 400),
        ("/api/v1/size?sessions=9999999999", "size", 400),
        ("/api/v1/size?sessions=%zz&sessions", "size", 400),
        ("/api/v1/size?root=/etc/passwd", "size", 400),
        ("/api/v1/history", "history", 200),
    ];
    for (path, operation, status) in cases {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        let at = format!(
            "/paths/~1api~1v1~1{operation}/get/responses/{status}/content/application~1json/schema/$ref"
        );
        let reference =
            described.pointer(&at).and_then(Value::as_str).unwrap_or_else(|| panic!("{at}"));
        let schema = serde_json::json!({"$ref": reference, "components": described["components"]});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&answer.json()).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
    }
    let check = server.get("/api/v1/check").json();
    assert_eq!(check["instances"][0]["engine"], "postgresql");
    let size = server.get("/api/v1/size?page_size=1G").json();
    assert_eq!(size["instances"][0]["page_bytes"], 1 << 30);
}

#[test]
fn nothing_but_reading_is_answered() {
    let server = Server::start();
    for method in
        ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"]
    {
        for path in ["/", "/metrics", "/api/v1/check", "/api/v1/events"] {
            let answer = server.ask(method, path, "");
            // CONNECT wants an authority where others have a path.
            let refused = if method == "CONNECT" { [400, 405] } else { [405, 405] };
            assert!(refused.contains(&answer.status), "{method} {path}: {answer:?}");
        }
    }
    let allowed = server.ask("POST", "/metrics", "");
    assert_eq!(allowed.header("allow"), "GET,HEAD");
    for headers in [
        "Content-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 99999999999999\r\n",
    ] {
        let answer = server.ask("POST", "/api/v1/check", headers);
        assert_eq!((answer.status, answer.header("connection")), (413, "close"), "{headers}");
        assert_eq!(server.ask("GET", "/api/v1/check", headers).status, 413, "{headers}");
    }
}

#[test]
fn no_trick_with_a_path_leads_anywhere() {
    let server = Server::start();
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//metrics",
        "/metrics/",
        "/metrics/../../etc/passwd",
        "/%2e%2e/",
        "/./metrics",
        "/metrics%00",
        "/metrics%2f",
        "/METRICS",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v2/check",
        "/api/v1/check/..",
        "/style.css/x",
        "/%ff%fe",
        "/proc/self/environ",
        "/index.html",
        "/?/../x/",
        "/\\..\\",
        "/api/v1/check;x=1",
    ] {
        let answer = server.get(path);
        let expected = if path.starts_with("/?") { [200, 200] } else { [404, 400] };
        assert!(expected.contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.body.contains("root:"), "{path}");
    }
    let rebound =
        server.raw(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!(rebound.status, 421);
    let proxied = server.raw(
        b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(proxied.status, 421);
}

#[test]
fn a_giant_request_is_refused_and_forgotten() {
    let server = Server::start();
    let giants = [
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20)),
        format!("GET /metrics?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20)),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(1000)),
        "x".repeat(1 << 20),
        "\0".repeat(1 << 20),
    ];
    for giant in giants {
        let answer = server.raw(giant.as_bytes());
        // Where the client still speaks when the door is shut, the reset may overtake the answer.
        assert!([0, 400, 414, 431].contains(&answer.status), "{}: {answer:?}", &giant[..20]);
        assert_eq!(server.get("/metrics").status, 200);
    }
}

#[test]
fn a_client_that_does_not_go_on_is_left() {
    let server = Server::with(options(), Waits { patience: Duration::from_millis(300), ..WAITS });
    // The connection alone; half a head; a head and then nothing.
    let whole = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for begun in ["", "GET / HTT", &whole[..whole.len() - 2], whole] {
        let mut stream = server.connect();
        // A slow machine may come too late even with this.
        let _ = stream.write_all(begun.as_bytes());
        // It ends, in whatever way: what does not end is cut by the timeout of this side.
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{begun:?}");
        }
    }
    // Asks and asks, and reads nothing of the answers.
    let mut stream = server.connect();
    let asks = "GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let until = std::time::Instant::now() + LONG;
    while stream.write_all(asks.as_bytes()).is_ok() {
        assert!(std::time::Instant::now() < until, "it is still listened to");
    }
    // Nobody else has to be so quick as this: it is asked until it answers.
    while server.get("/metrics").status != 200 {
        assert!(std::time::Instant::now() < until + LONG, "it answers nobody any more");
    }
}

#[test]
fn slow_clients_keep_nobody_waiting() {
    let server = Server::start();
    let slow: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localh").unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/metrics").status, 200);
    assert_eq!(server.get("/api/v1/check").status, 200);
    drop(slow);
}

#[test]
fn a_thousand_connections_at_once_are_all_answered() {
    let server = Server::start();
    let mut all: Vec<TcpStream> = (0..1000).map(|_| server.connect()).collect();
    for (number, stream) in all.iter_mut().enumerate() {
        let path = if number % 2 == 0 { "/metrics" } else { "/api/v1/check" };
        let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
    }
    // Whoever is served later waits for those before: read from all at once.
    let answers: Vec<JoinHandle<u16>> = all
        .into_iter()
        .map(|mut stream| std::thread::spawn(move || Answer::read(&mut stream).status))
        .collect();
    for answer in answers {
        assert_eq!(answer.join().unwrap(), 200);
    }
}

/// The next event of a stream: its name and what it carries.
fn event(stream: &mut impl Read, rest: &mut String) -> (String, String) {
    let until = std::time::Instant::now() + LONG;
    loop {
        // Chunks of HTTP/1.1 are passed over with their lengths: no line of an event is a
        // hexadecimal number alone.
        if let Some((one, after)) = rest.split_once("\n\n") {
            let field = |name: &str| {
                one.lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(|text| text.trim().to_owned())
            };
            let found = (field("event:"), field("data:"));
            *rest = after.to_owned();
            if let (Some(name), Some(data)) = found {
                return (name, data);
            }
            continue;
        }
        assert!(std::time::Instant::now() < until, "no event");
        let mut part = [0; 4096];
        let length = stream.read(&mut part).unwrap();
        assert!(length > 0, "the stream has ended: {rest}");
        rest.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

#[test]
fn readings_are_told_as_they_are_made_until_the_server_ends() {
    let mut server = Server::start();
    let mut stream = server.connect();
    // HTTP/1.0 knows no chunks: what is read is the stream itself.
    stream.write_all(b"GET /api/v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut rest = String::new();
    let first: Value = serde_json::from_str(&event(&mut stream, &mut rest).1).unwrap();
    assert_eq!(
        (&first["schema"], &first["check"]["schema"]),
        (&"hugewise.event/1".into(), &"hugewise.check/1".into())
    );
    assert_eq!(first["check"]["instances"][0]["engine"], "postgresql");
    let (name, data) = event(&mut stream, &mut rest);
    let second: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(name, "reading");
    assert!(second["reading"].as_u64() > first["reading"].as_u64());
    server.stop().unwrap();
    let mut end = Vec::new();
    stream.read_to_end(&mut end).unwrap();
}

#[test]
fn dashboards_are_counted_and_the_hundred_and_first_is_sent_away() {
    let server = Server::start();
    let mut open: Vec<TcpStream> = Vec::new();
    for _ in 0..100 {
        let mut stream = server.connect();
        stream.write_all(b"GET /api/v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        assert!(first.ends_with(b"200"), "{:?}", String::from_utf8_lossy(&first));
        open.push(stream);
    }
    assert_eq!(server.get("/api/v1/events").status, 503);
    assert_eq!(server.get("/metrics").status, 200);
    drop(open);
    let until = std::time::Instant::now() + LONG;
    loop {
        let mut stream = server.connect();
        stream.write_all(b"GET /api/v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        if first.ends_with(b"200") {
            break;
        }
        assert!(std::time::Instant::now() < until, "places of those who left stay taken");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_is_being_answered_at_the_end_is_answered() {
    let mut server = Server::start();
    let mut streams: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    // The first answers are on their way: all twenty were accepted before.
    let mut first = [0; 12];
    for stream in &mut streams {
        stream.read_exact(&mut first).unwrap();
        assert!(first.ends_with(b"200"));
    }
    server.stop().unwrap();
    for mut stream in streams {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(String::from_utf8_lossy(&rest).contains("hugewise_build_info"));
    }
}

#[test]
fn half_a_connection_is_answered_too() {
    let server = Server::start();
    let mut stream = server.connect();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answer = Answer::read(&mut stream);
    assert!([0, 200].contains(&answer.status), "{answer:?}");
    assert_eq!(server.get("/metrics").status, 200);
}
