//! `hugewise capture --to`, and `hugewise collect` of a bucket, against a store that a test plays.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
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
    let length = lines.iter().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
    });
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    Request { line: lines.remove(0), headers: lines, body }
}

/// Answers as many requests as there are answers, one after another, and hands them over; its
/// address.
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
    assert!(
        headers.iter().any(|header| header.eq_ignore_ascii_case("content-type: application/gzip")),
        "{headers:?}"
    );
    assert!(
        !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("transfer-encoding")),
        "{headers:?}"
    );
    let folder = tempfile::tempdir().unwrap();
    let (arrived, written) =
        (folder.path().join("arrived.tar.gz"), folder.path().join("written.tar.gz"));
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
    assert!(
        served.join().unwrap()[0].line.starts_with("PUT /in/db7.tar.gz?X-Amz-Signature=secret2 ")
    );
    let said = text(&sent.stderr) + &text(&sent.stdout);
    assert!(
        said.contains("403") && said.contains("RequestExpired") && said.contains("/in/db7.tar.gz"),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");
}

/// The signature is of AWS's own making: which parts it has is in "Authenticating Requests: Using
/// Query Parameters".
#[test]
fn a_bucket_gets_an_address_signed_with_the_keys_of_a_file() {
    let (address, served) = store(vec![OK]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let keys = format!(
        "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = secret3\nregion = \
             eu-central-1\nendpoint_url = {address}\n"
    );
    fs::write(&file, keys).unwrap();
    let credentials = file.to_str().unwrap();
    let open = hugewise(&[
        "capture",
        "--root",
        &host(),
        "--to",
        "s3://captures/prod",
        "--credentials",
        credentials,
    ]);
    assert!(text(&open.stderr).contains("chmod 600"), "{}", text(&open.stderr));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let sent = hugewise(&[
        "capture",
        "--root",
        &host(),
        "--to",
        "s3://captures/prod",
        "--credentials",
        credentials,
    ]);
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
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
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
    assert!(
        matches!(lines.as_slice(), [line] if line.starts_with("PUT /in/hugewise-")),
        "{lines:?}"
    );
}

/// A page of "ListObjectsV2", as its reference has it.
fn page(keys: &[(&str, usize)], next: &str) -> String {
    let object = |(key, size): &(&str, usize)| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-25T08:00:00.000Z</LastModified><ETag>&quot;0&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )
    };
    let next = if next.is_empty() {
        "<IsTruncated>false</IsTruncated>".to_owned()
    } else {
        format!(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>"
        )
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult \
             xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>captures</Name>\
         <Prefix>prod/</Prefix><KeyCount>{}</KeyCount><MaxKeys>1000</MaxKeys>{next}{}</ListBucketResult>",
        keys.len(),
        keys.iter().map(object).collect::<String>()
    )
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[test]
fn the_captures_of_a_bucket_are_read_and_what_fails_is_tried_again_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.tar.gz");
    assert!(
        hugewise(&["capture", "--root", &host(), "--output", capture.to_str().unwrap()])
            .status
            .success()
    );
    #[allow(clippy::disallowed_methods)]
    let bytes = fs::read(&capture).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let (seen, size) = (Arc::clone(&asked), bytes.len());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let line = request(&stream).line;
            let address = line.split(' ').nth(1).unwrap();
            let (path, query) = address.split_once('?').unwrap();
            let what = if query.contains("continuation-token=t1") {
                "second page".to_owned()
            } else {
                path.to_owned()
            };
            let times = {
                let mut seen = seen.lock().unwrap();
                let times = seen.entry(what.clone()).or_default();
                *times += 1;
                *times
            };
            let answer = match (what.as_str(), times) {
                ("/captures/", 1) | ("/captures/prod/busy.tar.gz", 1) => BUSY.as_bytes().to_vec(),
                ("/captures/", _) => {
                    assert!(
                        query.contains("list-type=2") && query.contains("prefix=prod"),
                        "{query}"
                    );
                    ok(page(
                        &[("prod/", 0), ("prod/busy.tar.gz", size), ("prod/denied.tar.gz", size)],
                        "t1",
                    )
                    .as_bytes())
                }
                ("second page", _) => ok(page(
                    &[
                        ("prod/broken.tar.gz", size),
                        ("prod/../secret", size),
                        ("prod/huge", 1 << 40),
                    ],
                    "",
                )
                .as_bytes()),
                ("/captures/prod/denied.tar.gz", _) => DENIED.as_bytes().to_vec(),
                // It breaks off in the middle, the first time.
                ("/captures/prod/broken.tar.gz", 1) => ok(&bytes)[..size / 2].to_vec(),
                _ => ok(&bytes),
            };
            stream.write_all(&answer).unwrap();
        }
    });
    let file = folder.path().join("credentials");
    let keys = format!(
        "[default]\naws_access_key_id = AKID\naws_secret_access_key = secret4\nendpoint_url = \
             {address}\n"
    );
    fs::write(&file, keys).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let lake = folder.path().join("lake");
    let collected = hugewise(&[
        "collect",
        "s3://captures/prod/",
        "--credentials",
        file.to_str().unwrap(),
        "--out",
        lake.to_str().unwrap(),
        "--format",
        "json",
    ]);
    let said = text(&collected.stdout);
    let summary: serde_json::Value = serde_json::from_str(&said).unwrap();
    // Two objects are the same capture.
    assert_eq!((&summary["read"], &summary["already"]), (&1.into(), &1.into()), "{said}");
    let mut failed: Vec<String> = summary["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|failure| {
            format!("{} {}", failure["path"].as_str().unwrap(), failure["class"].as_str().unwrap())
        })
        .collect();
    failed.sort();
    assert_eq!(
        failed,
        [
            "s3://captures/prod/../secret unreadable",
            "s3://captures/prod/denied.tar.gz denied",
            "s3://captures/prod/huge too_large"
        ]
    );
    let asked = asked.lock().unwrap();
    let times = |what: &str| asked.get(what).copied().unwrap_or(0);
    assert_eq!((times("/captures/"), times("second page")), (2, 1), "{asked:?}");
    assert_eq!(
        (times("/captures/prod/busy.tar.gz"), times("/captures/prod/broken.tar.gz")),
        (2, 2),
        "{asked:?}"
    );
    assert_eq!(
        (times("/captures/prod/denied.tar.gz"), times("/captures/secret")),
        (1, 0),
        "{asked:?}"
    );
    assert!(!said.contains("secret4") && !text(&collected.stderr).contains("secret4"));
    // Without keys nothing is begun.
    let none = folder.path().join("none");
    let keyless = hugewise(&["collect", "s3://captures/prod/", "--out", none.to_str().unwrap()]);
    assert_eq!((keyless.status.code(), none.exists()), (Some(2), false));
    assert!(text(&keyless.stderr).contains("--credentials"), "{}", text(&keyless.stderr));
}

/// A page of "List Blobs", as its reference has it.
fn blobs(names: &[(&str, usize)], next: &str) -> String {
    let blob = |(name, size): &(&str, usize)| {
        format!(
            "<Blob><Name>{name}</Name><Properties><Content-Length>{size}</Content-Length></Properties></Blob>"
        )
    };
    let blobs: String = names.iter().map(blob).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults \
             ContainerName=\"captures\"><Blobs>{blobs}</Blobs>\
         <NextMarker>{next}</NextMarker></EnumerationResults>"
    )
}

#[test]
fn the_captures_of_a_container_are_read_with_a_key_or_a_token_that_is_shown_nowhere() {
    const REFUSED: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 47\r\nConnection: \
         close\r\n\r\n\
                           <Error><Code>AuthenticationFailed</Code></Error>";
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.tar.gz");
    assert!(
        hugewise(&["capture", "--root", &host(), "--output", capture.to_str().unwrap()])
            .status
            .success()
    );
    let bytes = fs::read(&capture).unwrap();
    let (size, listener) = (bytes.len(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = format!("http://{}/store", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Request { line, headers, .. } = request(&stream);
            let asked = line.split(' ').nth(1).unwrap();
            let has = |start: &str| {
                headers.iter().any(|header| header.to_ascii_lowercase().starts_with(start))
            };
            assert!(has("x-ms-date: ") && has("x-ms-version: "), "{headers:?}");
            let answer = match asked.split_once('?').unwrap_or((asked, "")) {
                // Neither an account's key nor a token.
                (_, query)
                    if !has("authorization: sharedkey hugewise:")
                        && !query.contains("sig=secret5%3D") =>
                {
                    REFUSED.as_bytes().to_vec()
                }
                ("/store/captures", query) if query.contains("marker=m1") => {
                    ok(blobs(&[("prod/../secret", size), ("prod/denied.tar.gz", size)], "")
                        .as_bytes())
                }
                ("/store/captures", query) => {
                    let words = ["restype=container", "comp=list", "prefix=prod%2F"];
                    assert!(words.iter().all(|word| query.contains(word)), "{query}");
                    ok(blobs(&[("prod/db 7&amp;8.tar.gz", size), ("prod/huge", 1 << 40)], "m1")
                        .as_bytes())
                }
                ("/store/captures/prod/db%207&8.tar.gz", _) => ok(&bytes),
                ("/store/captures/prod/denied.tar.gz", _) => REFUSED.as_bytes().to_vec(),
                other => unreachable!("{other:?}"),
            };
            stream.write_all(&answer).unwrap();
        }
    });
    let file = folder.path().join("config");
    for (name, right) in
        [("key", "key = c2VjcmV0NQ=="), ("token", "sas_token = sv=2021-12-02&sig=secret5%3D")]
    {
        fs::write(
            &file,
            format!("[storage]\naccount = hugewise\n{right}\nservice_endpoint = {address}\n"),
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let lake = folder.path().join(name);
        let (file, lake) = (file.to_str().unwrap(), lake.to_str().unwrap());
        let collected = hugewise(&[
            "collect",
            "az://captures/prod/",
            "--credentials",
            file,
            "--out",
            lake,
            "--format",
            "json",
        ]);
        let said = text(&collected.stdout);
        let summary: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(summary["read"], 1, "{said}");
        let failures = summary["failures"].as_array().unwrap().iter();
        let mut failed: Vec<String> = failures
            .map(|failure| {
                format!(
                    "{} {}",
                    failure["path"].as_str().unwrap(),
                    failure["class"].as_str().unwrap()
                )
            })
            .collect();
        failed.sort();
        let expected = ["../secret unreadable", "denied.tar.gz denied", "huge too_large"];
        assert_eq!(failed, expected.map(|one| format!("az://captures/prod/{one}")));
        let said = said + &text(&collected.stderr);
        assert!(said.contains("the key is not this account's"), "{said}");
        assert!(!said.contains("secret5") && !said.contains("c2VjcmV0NQ"), "{said}");
    }
}
