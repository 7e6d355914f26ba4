//! `hugewise capture --to`, against a store that a test plays.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::disallowed_methods)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// One request as it came in.
struct Request {
    line: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

fn request(stream: impl Read) -> Request {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let length =
        lines.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let mut body = vec![0; length.expect("a length").parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    Request { line: lines.remove(0), headers: lines, body }
}

/// Answers as many requests as there are answers, one after another, and hands them over; its address.
fn store(answers: Vec<&'static str>) -> (String, JoinHandle<Vec<Request>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            requests.push(request(&stream));
            stream.write_all(answer.as_bytes()).unwrap();
        }
        requests
    });
    (address, served)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const DENIED: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 49\r\nConnection: close\r\n\r\n\
                      <Error><Code>RequestExpired</Code>secret1</Error>";

fn hugewise(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugewise")).args(arguments).output().unwrap()
}

fn host() -> String {
    format!("{}/../../fixtures/hosts/no-pool-postgresql", env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_capture_that_is_sent_is_the_one_that_would_be_written() {
    let (address, served) = store(vec![BUSY, OK]);
    let to = format!("{address}/in/");
    let sent = hugewise(&["capture", "--root", &host(), "--to", &to]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let requests = served.join().unwrap();
    // What was busy was asked again.
    assert_eq!(requests.len(), 2);
    let Request { line, headers, body } = &requests[1];
    assert!(line.starts_with("PUT /in/hugewise-") && line.contains(".tar.gz HTTP/1.1"), "{line}");
    assert!(headers.iter().any(|header| header.eq_ignore_ascii_case("content-type: application/gzip")), "{headers:?}");
    assert!(!headers.iter().any(|header| header.to_ascii_lowercase().starts_with("transfer-encoding")), "{headers:?}");
    let folder = tempfile::tempdir().unwrap();
    let (arrived, written) = (folder.path().join("arrived.tar.gz"), folder.path().join("written.tar.gz"));
    fs::write(&arrived, body).unwrap();
    let wrote = hugewise(&["capture", "--root", &host(), "--output", written.to_str().unwrap()]);
    assert!(wrote.status.success());
    assert!(fs::read(&arrived).unwrap() == fs::read(&written).unwrap(), "another capture arrived");
    let judged = hugewise(&["check", "--root", arrived.to_str().unwrap()]);
    assert!(text(&judged.stdout).contains("postgresql"), "{}", text(&judged.stdout));
}

#[test]
fn a_key_in_an_address_is_printed_nowhere() {
    let (address, served) = store(vec![DENIED]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("target");
    fs::write(&file, format!("{address}/in/db7.tar.gz?X-Amz-Signature=secret2\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let sent = hugewise(&["capture", "--root", &host(), "--to", &format!("@{}", file.display())]);
    assert_eq!(sent.status.code(), Some(2), "{}", text(&sent.stderr));
    assert!(served.join().unwrap()[0].line.starts_with("PUT /in/db7.tar.gz?X-Amz-Signature=secret2 "));
    let said = text(&sent.stderr) + &text(&sent.stdout);
    assert!(said.contains("403") && said.contains("RequestExpired") && said.contains("/in/db7.tar.gz"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

/// The signature is of AWS's own making: which parts it has is in "Authenticating Requests: Using Query Parameters".
#[test]
fn a_bucket_gets_an_address_signed_with_the_keys_of_a_file() {
    let (address, served) = store(vec![OK]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let keys = format!(
        "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = secret3\nregion = eu-central-1\nendpoint_url = {address}\n"
    );
    fs::write(&file, keys).unwrap();
    let credentials = file.to_str().unwrap();
    let open = hugewise(&["capture", "--root", &host(), "--to", "s3://captures/prod", "--credentials", credentials]);
    assert!(text(&open.stderr).contains("chmod 600"), "{}", text(&open.stderr));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let sent = hugewise(&["capture", "--root", &host(), "--to", "s3://captures/prod", "--credentials", credentials]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let line = &served.join().unwrap()[0].line;
    assert!(line.starts_with("PUT /captures/prod/hugewise-"), "{line}");
    for part in [
        "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        "X-Amz-Credential=AKIDEXAMPLE%2F",
        "%2Feu-central-1%2Fs3%2Faws4_request",
        "X-Amz-Signature=",
    ] {
        assert!(line.contains(part), "{line}");
    }
    let said = text(&sent.stdout) + line;
    assert!(!said.contains("secret3") && !text(&sent.stdout).contains("Signature"), "{said}");
    let without = hugewise(&["capture", "--root", &host(), "--to", "s3://captures/prod"]);
    assert!(text(&without.stderr).contains("--credentials"), "{}", text(&without.stderr));
}

/// Whom the host trusts is in the usual files; here one of its own.
#[test]
fn a_store_is_believed_by_its_certificate_alone() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("https://localhost:{}/in/", listener.local_addr().unwrap().port());
    let served = thread::spawn(move || {
        let mut lines = Vec::new();
        for _ in 0..2 {
            let (stream, _) = listener.accept().unwrap();
            let connection = rustls::ServerConnection::new(Arc::new(config.clone())).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            // The one who does not believe it says so and goes.
            if stream.conn.complete_io(&mut stream.sock).is_ok() {
                lines.push(request(&mut stream).line);
                stream.write_all(OK.as_bytes()).unwrap();
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
        lines
    });
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("roots.pem");
    fs::write(&trusted, made.cert.pem()).unwrap();
    let host = host();
    let arguments = ["capture", "--root", &host, "--to", &to];
    let stranger = hugewise(&arguments);
    assert_eq!(stranger.status.code(), Some(2));
    assert!(text(&stranger.stderr).contains("certificate"), "{}", text(&stranger.stderr));
    let mut known = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    let known = known.args(arguments).env("SSL_CERT_FILE", &trusted).output().unwrap();
    assert!(known.status.success(), "{}", text(&known.stderr));
    let lines = served.join().unwrap();
    assert!(matches!(lines.as_slice(), [line] if line.starts_with("PUT /in/hugewise-")), "{lines:?}");
}
