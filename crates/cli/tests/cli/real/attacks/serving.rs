//! `hugewise serve` among local users who want nobody else to be answered, and with secrets that
//! others can read.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_testkit::{Skip, require};

use super::Attacker;
use crate::real::harness::{self, HUGEWISE};

/// What Prometheus waits for an answer.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections of an attack.
const MANY: u32 = 1500;
/// Of `secret`, by crypt(3) of Debian's libxcrypt.
const HASH: &str = "$2y$08$abcdefghijklmnopqrstuuKxCcvB7KZ7.BpDoK0bh6qM7Dl1/xiJa";
const CROWD: &str = include_str!("crowd.py");
/// Asks by TLS, and prints the first line of the answer.
const BY_TLS: &str = r#"
import socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as plain, context.wrap_socket(plain) as stream:
    stream.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
    answer = b""
    while part := stream.recv(65536):
        answer += part
print(answer.split(b"\r\n")[0].decode(), b"hugewise_build_info" in answer)
"#;

/// `hugewise serve`, ended when dropped.
struct Served {
    child: Child,
    address: SocketAddr,
    _said: BufReader<ChildStdout>,
}

impl Served {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("//").next().unwrap();
        Self {
            address: address.parse().unwrap_or_else(|_| panic!("it does not listen: {line:?}")),
            child,
            _said: said,
        }
    }

    fn by_root(more: &[&str]) -> Self {
        Self::start(Command::new(HUGEWISE).args(["serve", "--listen", "127.0.0.1:0"]).args(more))
    }

    /// A kilobyte figure of its process.
    fn status(&self, field: &str) -> u64 {
        harness::kernel::status(self.child.id(), field).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that attacks, killed when dropped.
struct Crowd(Child);

impl Crowd {
    fn start(mut command: Command, kind: &str, served: &Served, count: u32) -> Self {
        command.args(["-c", CROWD, kind, &served.address.port().to_string(), &count.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{kind}");
        Self(child)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn python() -> Result<PathBuf, Skip> {
    harness::program(&["/usr/bin/python3"])
}

/// One scrape as Prometheus does it, within its time-out.
fn scrape(address: SocketAddr, headers: &str) -> Result<(), String> {
    let until = Instant::now() + SCRAPE_TIMEOUT;
    let wrong = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&address, SCRAPE_TIMEOUT).map_err(wrong)?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    )
    .map_err(wrong)?;
    let (mut answer, mut part) = (Vec::new(), [0; 65536]);
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).map_err(wrong)?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&part[..length]),
            // A signal to these tests, which no read with a time-out survives (signal(7)).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(wrong(error)),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let whole = text.starts_with("HTTP/1.1 200 ") && text.contains("\nhugewise_readings_total ");
    if whole { Ok(()) } else { Err(format!("{:?}", text.lines().next())) }
}

/// Several scrapes while something goes on.
#[track_caller]
fn assert_answered(what: &str, scrape: impl Fn() -> Result<(), String>) {
    for round in 0..4 {
        let begun = Instant::now();
        let answer = scrape();
        assert!(answer.is_ok(), "{what}: scrape {round}, after {:?}: {answer:?}", begun.elapsed());
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The scraper is root, and the attacker another user; or both are one.
fn play(kind: &str, count: u32, as_others: bool) -> Result<(), Skip> {
    let (attacker, python) = (Attacker::new()?, python()?);
    let served = Served::by_root(&[]);
    scrape(served.address, "").unwrap();
    let command = if as_others { attacker.command(&python) } else { Command::new(&python) };
    let _crowd = Crowd::start(command, kind, &served, count);
    assert_answered(kind, || scrape(served.address, ""));
    // What the unit allows.
    let (memory, threads) = (served.status("VmRSS:") >> 10, served.status("Threads:"));
    assert!(memory < 128 && threads < 32, "{kind}: {memory} MiB, {threads} threads");
    Ok(())
}

#[test]
fn idle_connections_starve_nobody() {
    require!(play("idle", MANY, true));
    require!(play("idle", MANY, false));
}

#[test]
fn heads_that_never_end_starve_nobody() {
    require!(play("slow", MANY, true));
    require!(play("slow", MANY, false));
    require!(play("large", MANY, true));
}

#[test]
fn who_keeps_a_connection_starves_nobody() {
    require!(play("keep", MANY, true));
    require!(play("keep", MANY, false));
}

#[test]
fn who_asks_and_never_reads_starves_nobody() {
    require!(play("deaf", MANY, true));
    require!(play("deaf", MANY, false));
}

#[test]
fn questions_without_end_starve_nobody() {
    require!(play("sizes", 600, true));
    require!(play("pipeline", 300, true));
    require!(play("churn", 300, true));
}

#[test]
fn dashboards_of_one_user_leave_room_for_others() {
    let (attacker, python) = (require!(Attacker::new()), require!(python()));
    let served = Served::by_root(&[]);
    let _crowd = Crowd::start(attacker.command(&python), "events", &served, MANY);
    assert_answered("events", || scrape(served.address, ""));
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(SCRAPE_TIMEOUT)).unwrap();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert!(first.ends_with(b"200"), "{:?}", String::from_utf8_lossy(&first));
}

/// A folder with a web configuration, a certificate and its key, each for its owner alone.
struct Secrets(tempfile::TempDir);

impl Secrets {
    fn new() -> Result<Self, Skip> {
        let openssl = harness::program(&["/usr/bin/openssl"])?;
        let secrets = Self(harness::folder());
        let mut command = Command::new(openssl);
        command.args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]);
        command.args(["-keyout", "server.key", "-out", "server.crt"]).current_dir(secrets.0.path());
        harness::must(&mut command);
        fs::write(
            secrets.path("tls.yml"),
            "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n",
        )
        .unwrap();
        fs::write(secrets.path("web.yml"), format!("basic_auth_users:\n  scraper: {HASH}\n"))
            .unwrap();
        for name in ["server.key", "tls.yml", "web.yml"] {
            secrets.mode(name, 0o600);
        }
        Ok(secrets)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn served(&self, config: &str) -> Served {
        Served::by_root(&["--web-config", self.path(config).to_str().unwrap()])
    }

    /// What is said by one that does not begin; an error where it does.
    fn refused(&self, config: &Path) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command
            .arg("10")
            .arg(HUGEWISE)
            .args(["serve", "--listen", "127.0.0.1:0", "--web-config"])
            .arg(config);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(2) {
            Ok(said)
        } else {
            Err(format!("{}: {said}", output.status))
        }
    }
}

#[test]
fn half_handshakes_starve_nobody() {
    let (attacker, python, secrets) =
        (require!(Attacker::new()), require!(python()), require!(Secrets::new()));
    let served = secrets.served("tls.yml");
    let by_tls = || {
        let mut command = Command::new("timeout");
        command.arg(SCRAPE_TIMEOUT.as_secs().to_string()).arg(&python);
        let output =
            command.args(["-c", BY_TLS, &served.address.port().to_string()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        if said == "HTTP/1.0 200 OK True\n" {
            Ok(())
        } else {
            Err(format!("{} {said} {why}", output.status))
        }
    };
    for (kind, command) in
        [("idle", attacker.command(&python)), ("hello", attacker.command(&python))]
    {
        let _crowd = Crowd::start(command, kind, &served, MANY);
        assert_answered(kind, by_tls);
        let memory = served.status("VmRSS:") >> 10;
        assert!(memory < 128, "{kind}: {memory} MiB");
    }
}

#[test]
fn wrong_passwords_without_end_keep_nobody_from_checking_a_right_one() {
    let (attacker, python, secrets) =
        (require!(Attacker::new()), require!(python()), require!(Secrets::new()));
    // scraper:secret
    let right = "Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n";
    for (kind, command) in
        [("passwords", attacker.command(&python)), ("same", Command::new(&python))]
    {
        // One that has never seen the right password before.
        let served = secrets.served("web.yml");
        let _crowd = Crowd::start(command, kind, &served, 200);
        assert_answered(kind, || scrape(served.address, right));
        assert!(scrape(served.address, "Authorization: Basic c2NyYXBlcjp3cm9uZw==\r\n").is_err());
    }
}

#[test]
fn secrets_that_others_can_read_are_refused() {
    let secrets = require!(Secrets::new());
    for (config, file) in [("tls.yml", "server.key"), ("web.yml", "web.yml")] {
        let path = secrets.path(file);
        drop(secrets.served(config));
        for mode in [0o644, 0o604, 0o660, 0o666, 0o640] {
            secrets.mode(file, mode);
            // In the group of somebody else.
            std::os::unix::fs::chown(&path, Some(0), Some(4242)).unwrap();
            let said = secrets
                .refused(&secrets.path(config))
                .unwrap_or_else(|why| panic!("{file} {mode:o}: {why}"));
            assert!(said.contains(path.to_str().unwrap()) && said.contains("chmod"), "{said}");
            assert!(!said.contains(HASH) && !said.contains("BEGIN"), "{said}");
        }
        // As PostgreSQL has it: root's, and readable by the server's group.
        std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
        drop(secrets.served(config));
        secrets.mode(file, 0o600);
    }
}

#[test]
fn a_configuration_that_others_could_have_written_is_refused() {
    let (attacker, secrets) = (require!(Attacker::new()), require!(Secrets::new()));
    let theirs = |name: &str| {
        let bytes = fs::read(secrets.path(name)).unwrap();
        let path = attacker.file(name, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    for name in ["server.key", "server.crt"] {
        theirs(name);
    }
    let (web, tls) = (theirs("web.yml"), theirs("tls.yml"));
    // His own files; root's in a folder of his; root's link to a file of his; his link to a file of
    // root's.
    let inside = attacker.folder("open").join("web.yml");
    fs::copy(secrets.path("web.yml"), &inside).unwrap();
    symlink(&web, secrets.path("link.yml")).unwrap();
    let link = attacker.link("link.yml", secrets.path("web.yml"));
    std::os::unix::fs::lchown(&link, Some(4242), Some(4242)).unwrap();
    for config in [web, tls, inside, secrets.path("link.yml"), link] {
        let said =
            secrets.refused(&config).unwrap_or_else(|why| panic!("{}: {why}", config.display()));
        assert!(said.contains("user 4242"), "{said}");
    }
    // A certificate authority of somebody else's lets in whom he likes.
    let theirs = attacker.path("server.crt");
    let text = format!(
        "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  client_ca_file: \
             {}\n  \
         client_auth_type: RequireAndVerifyClientCert\n",
        theirs.display()
    );
    fs::write(secrets.path("tls.yml"), text).unwrap();
    let said = secrets.refused(&secrets.path("tls.yml")).unwrap();
    assert!(said.contains("user 4242"), "{said}");
    // And a folder that everybody may write to.
    secrets.mode("", 0o777);
    let said = secrets.refused(&secrets.path("web.yml")).unwrap();
    assert!(said.contains("every user may write"), "{said}");
}
