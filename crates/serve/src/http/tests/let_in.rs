//! Who is let in: by a password, over TLS, by a certificate; and what the configuration may say of
//! it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

/// Of `secret`, by crypt(3) of Debian's libxcrypt.
const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

fn authorization(text: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(text))
}

/// Writes a file that its owner alone can read.
fn private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn write_config(folder: &Path, text: &str) -> Option<std::path::PathBuf> {
    let path = folder.join("web.yml");
    private(&folder.join("new.yml"), text);
    std::fs::rename(folder.join("new.yml"), &path).unwrap();
    Some(path)
}

#[test]
fn without_the_password_nobody_learns_anything() {
    let folder = tempfile::tempdir().unwrap();
    let web_config =
        write_config(folder.path(), &format!("basic_auth_users:\n  scraper: {HASH}\n"));
    let server = Server::with(Options { web_config, ..options() }, WAITS);
    for path in [
        "/",
        "/metrics",
        "/script.js",
        "/api/v1/check",
        "/api/v1/events",
        "/api/v1/openapi.json",
        "/nothing",
    ] {
        for headers in [
            String::new(),
            authorization("scraper:wrong"),
            authorization("root:secret"),
            authorization("scraper"),
        ] {
            let answer = server.ask("GET", path, &headers);
            assert_eq!(answer.status, 401, "{path}");
            assert!(answer.header("www-authenticate").starts_with("Basic realm="), "{answer:?}");
            assert!(answer.body.len() < 100, "{answer:?}");
        }
        assert_eq!(server.ask("POST", path, "").status, 401);
    }
    assert_eq!(server.ask("GET", "/metrics", &authorization("scraper:secret")).status, 200);
    assert_eq!(server.ask("GET", "/nothing", &authorization("scraper:secret")).status, 404);
    // With a password, a server may have any name.
    let named = format!(
        "GET /metrics HTTP/1.1\r\nHost: db7.example\r\nConnection: close\r\n{}\r\n",
        authorization("scraper:secret")
    );
    assert_eq!(server.raw(named.as_bytes()).status, 200);
}

#[test]
fn another_address_needs_tls_and_a_credential_or_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::make(folder.path());
    let users = format!("basic_auth_users:\n  scraper: {HASH}\n");
    let certified = format!(
        "{}  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n",
        keys.config
    );
    let given = format!(
        "{}  client_ca_file: ca.crt\n  client_auth_type: VerifyClientCertIfGiven\n",
        keys.config
    );
    let anywhere = |web_config, insecure_bind| Options {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        web_config,
        insecure_bind,
        ..options()
    };
    for config in [None, Some(users.clone()), Some(keys.config.clone()), Some(given)] {
        let web_config = config.and_then(|text| write_config(folder.path(), &text));
        let (tell, _news) = mpsc::channel();
        let (_end, ended) = oneshot::channel();
        let refused = run_until(&anywhere(web_config, false), WAITS, tell, ended);
        assert!(matches!(refused, Err(Error::Unprotected(_))), "{refused:?}");
    }
    for config in [format!("{}{users}", keys.config), certified] {
        let web_config = write_config(folder.path(), &config);
        Server::with(anywhere(web_config, false), WAITS).stop().unwrap();
    }
    let mut insecure = Server::with(anywhere(None, true), WAITS);
    insecure.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(insecure.get("/metrics").status, 200);
}

/// A certificate authority, and what it has signed.
struct Keys {
    config: String,
    authority: String,
    client: String,
    client_key: String,
}

impl Keys {
    fn make(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let sign = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec![name.to_owned()])
                .unwrap()
                .signed_by(&key, &issuer)
                .unwrap();
            (certificate.pem(), key.serialize_pem())
        };
        let ((server, server_key), (client, client_key)) = (sign("localhost"), sign("scraper"));
        for (name, text) in
            [("ca.crt", &authority), ("server.crt", &server), ("server.key", &server_key)]
        {
            private(&folder.join(name), text);
        }
        let config =
            "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n".to_owned();
        Self { config, authority, client, client_key }
    }

    /// Asks by TLS, with the client's certificate or without one.
    fn ask(
        &self,
        server: &Server,
        certified: bool,
        headers: &str,
    ) -> Result<Answer, std::io::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = if certified {
            let chain = vec![CertificateDer::from_pem_slice(self.client.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(self.client_key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").unwrap();
        let client =
            ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(client, server.connect());
        stream.write_all(
            format!(
                "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
            )
            .as_bytes(),
        )?;
        stream.flush()?;
        Ok(Answer::read(&mut stream))
    }
}

/// What is said of a configuration with which nothing is served.
fn refused(web_config: Option<PathBuf>) -> String {
    let (tell, _news) = mpsc::channel();
    let (_end, ended) = oneshot::channel();
    match run_until(&Options { web_config, ..options() }, WAITS, tell, ended) {
        Err(Error::Config(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn suites_and_curves_are_those_that_were_named() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::make(folder.path());
    let path_of = |more: &str| {
        write_config(folder.path(), &format!("{}  max_version: TLS12\n{more}", keys.config))
    };
    for (more, answers) in [
        (
            "  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA, \
                 TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n",
            true,
        ),
        (
            "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305]\n  curve_preferences: \
                 [CurveP256]\n",
            true,
        ),
        // The server's key is none of RSA.
        ("  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n", false),
    ] {
        let server = Server::with(Options { web_config: path_of(more), ..options() }, WAITS);
        assert_eq!(
            keys.ask(&server, false, "").is_ok_and(|answer| answer.status == 200),
            answers,
            "{more}"
        );
    }
    for (more, said) in [
        (
            "  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]\n",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
        ("  curve_preferences: [CurveP521]\n", "X25519, CurveP256, CurveP384"),
    ] {
        let error = refused(path_of(more));
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn by_tls_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::make(folder.path());
    let web_config = write_config(
        folder.path(),
        &format!("{}basic_auth_users:\n  scraper: {HASH}\n", keys.config),
    );
    let server = Server::with(Options { web_config, ..options() }, WAITS);
    assert_eq!(keys.ask(&server, false, &authorization("scraper:secret")).unwrap().status, 200);
    assert_eq!(keys.ask(&server, false, &authorization("scraper:secre")).unwrap().status, 401);
    assert_eq!(keys.ask(&server, false, "").unwrap().status, 401);
    // Without TLS there is no answer at all.
    assert_eq!(server.ask("GET", "/metrics", &authorization("scraper:secret")).status, 0);
}

#[test]
fn by_tls_with_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::make(folder.path());
    let verified = "  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n";
    let web_config = write_config(folder.path(), &format!("{}{verified}", keys.config));
    let server = Server::with(Options { web_config, ..options() }, WAITS);
    assert_eq!(keys.ask(&server, true, "").unwrap().status, 200);
    assert_eq!(keys.ask(&server, false, "").map_or(0, |answer| answer.status), 0);
    let elsewhere = tempfile::tempdir().unwrap();
    let others = Keys { authority: keys.authority.clone(), ..Keys::make(elsewhere.path()) };
    assert_eq!(
        others.ask(&server, true, "").map_or(0, |answer| answer.status),
        0,
        "signed by another authority"
    );
}

#[test]
fn what_the_files_say_now_holds_and_nonsense_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let web_config =
        write_config(folder.path(), &format!("basic_auth_users:\n  scraper: {HASH}\n"));
    let waits = Waits { look_again: Duration::from_millis(50), ..WAITS };
    let server = Server::with(Options { web_config, ..options() }, waits);
    let wait_for = |name: &str, status| {
        let until = std::time::Instant::now() + LONG;
        while server.ask("GET", "/metrics", &authorization(&format!("{name}:secret"))).status
            != status
        {
            assert!(std::time::Instant::now() < until, "{name} is not answered by {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("scraper", 200);
    write_config(folder.path(), &format!("basic_auth_users:\n  other: {HASH}\n"));
    wait_for("scraper", 401);
    wait_for("other", 200);
    write_config(folder.path(), "basic_auth_user: typo\n");
    let ServerNotice::KeptConfig(what) = server.news.recv_timeout(LONG).unwrap() else {
        panic!("no news")
    };
    assert!(what.contains("basic_auth_user"), "{what}");
    wait_for("other", 200);
    wait_for("scraper", 401);
    assert!(server.news.try_recv().is_err(), "it complains once");
}

#[test]
fn what_is_wrong_with_the_configuration_is_named_before_anything_listens() {
    let folder = tempfile::tempdir().unwrap();
    let no_key = "tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n";
    private(&folder.path().join("b.crt"), "nonsense");
    let nonsense = "tls_server_config:\n  cert_file: b.crt\n  key_file: b.crt\n";
    for (text, what) in [(no_key, "a.crt"), (nonsense, "b.crt"), ("a: b\n", "web.yml")] {
        let said = refused(write_config(folder.path(), text));
        assert!(said.contains(what), "{said}");
    }
    let server = Server::start();
    let (tell, _news) = mpsc::channel();
    let (_end, ended) = oneshot::channel();
    let taken = run_until(&Options { listen: server.address, ..options() }, WAITS, tell, ended);
    assert!(matches!(taken, Err(Error::Bind(..))), "{taken:?}");
}
