//! Who may come in: TLS and credentials as the web configuration has them, renewed while the server runs.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use hugewise_host::Source;
use hugewise_host::source::Live;
use hugewise_host::trust::{self, Distrust};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{NamedGroup, RootCertStore, ServerConfig, SupportedCipherSuite, version};

use super::credentials::{Credentials, NoRandom};
use crate::web_config::{Clients, Tls, WebConfig};

/// Why nothing can be served as a web configuration says.
#[derive(Debug, thiserror::Error)]
pub enum WrongConfig {
    /// A file that it names, or it itself, and what is wrong with it.
    #[error("{path}: {why}")]
    File {
        /// The file, or what in the configuration is meant.
        path: String,
        /// What is wrong.
        #[source]
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Others could have written it, or can read its secrets.
    #[error(transparent)]
    Distrusted(#[from] Distrust),
    /// None of the suites or curves that it names can be had.
    #[error("{setting}: none of these is available; choose from {offered}")]
    NotOffered {
        /// The setting.
        setting: &'static str,
        /// What could be named.
        offered: String,
    },
    /// The library of TLS refuses.
    #[error("{0}")]
    Tls(String),
    /// The kernel has no key to give.
    #[error(transparent)]
    NoRandom(#[from] NoRandom),
}

impl WrongConfig {
    fn file(path: &Path, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::File { path: path.display().to_string(), why: why.into() }
    }

    fn word(word: &str, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::File { path: word.to_owned(), why: why.into() }
    }
}

/// What a web configuration comes to.
pub(super) struct Gate {
    /// The files as they were read: what has not changed is not built anew.
    files: Vec<Vec<u8>>,
    /// TLS, where it is spoken.
    pub(super) tls: Option<TlsAcceptor>,
    /// Whether everybody has to show a certificate that is verified.
    certificates: bool,
    /// Names and passwords, where they are asked for.
    pub(super) credentials: Option<Credentials>,
    /// Headers of every answer.
    pub(super) headers: HeaderMap,
}

impl Gate {
    /// Reads the web configuration and the files that it names; without one, everybody may come in. Keys and passwords that
    /// others can read are none, and neither is what others could have written.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, WrongConfig> {
        let mut files = Vec::new();
        let config = match path {
            None => WebConfig::default(),
            Some(path) => {
                let path = std::path::absolute(path).map_err(|error| WrongConfig::file(path, error))?;
                let text =
                    String::from_utf8(read(&path, &mut files)?).map_err(|_| WrongConfig::file(&path, "not UTF-8"))?;
                let folder = path.parent().unwrap_or(Path::new("/"));
                let config = WebConfig::parse(&text, folder).map_err(|error| WrongConfig::file(&path, error))?;
                if !config.users.is_empty() {
                    trust::secret(&path)?;
                }
                config
            }
        };
        let tls = config.tls.as_ref().map(|tls| acceptor(tls, &mut files)).transpose()?;
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| WrongConfig::word(name, error))?;
            headers.insert(name, HeaderValue::from_str(value).map_err(|error| WrongConfig::word(value, error))?);
        }
        let certificates = config.tls.is_some_and(|tls| tls.clients == Clients::Required);
        let credentials = Credentials::new(config.users)?;
        Ok(Self { files, tls, certificates, credentials, headers })
    }

    /// Whether nobody comes in without a password or a certificate.
    pub(super) const fn asks_for_a_credential(&self) -> bool {
        self.certificates || self.credentials.is_some()
    }
}

/// The gate that holds for the next connection.
pub(super) struct Gates(Mutex<Arc<Gate>>);

impl Gates {
    pub(super) fn new(gate: Gate) -> Self {
        Self(Mutex::new(Arc::new(gate)))
    }

    pub(super) fn now(&self) -> Arc<Gate> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another in its place, if its files are others: passwords that were checked stay checked.
    pub(super) fn replace(&self, gate: Gate) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.files != gate.files {
            *now = Arc::new(gate);
        }
    }
}

/// What others could have put there would let them in.
fn read(path: &Path, files: &mut Vec<Vec<u8>>) -> Result<Vec<u8>, WrongConfig> {
    trust::ours(path)?;
    let name = path.to_str().ok_or_else(|| WrongConfig::file(path, "the path is not UTF-8"))?;
    let fact = Live::new().read(name);
    let why = fact.reason();
    let bytes = fact.into_known().ok_or_else(|| WrongConfig::file(path, why.unwrap_or_default()))?;
    files.push(bytes.clone());
    Ok(bytes)
}

fn certificates(path: &Path, files: &mut Vec<Vec<u8>>) -> Result<Vec<CertificateDer<'static>>, WrongConfig> {
    let bytes = read(path, files)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = read.map_err(|error| WrongConfig::file(path, error))?;
    if found.is_empty() { Err(WrongConfig::file(path, "the file has no certificate")) } else { Ok(found) }
}

/// What is offered of the library's suites and curves. A name that it does not have is one more that nobody can use;
/// where none of them is left, it is refused.
fn provider(tls: &Tls) -> Result<CryptoProvider, WrongConfig> {
    let mut provider = ring::default_provider();
    let all = |names: &[&str]| names.join(", ");
    if !tls.suites.is_empty() {
        let offered = |suite: &SupportedCipherSuite| {
            let name = format!("{:?}", suite.suite());
            // An older name of these has no hash at its end.
            tls.suites.iter().any(|wanted| *wanted == name || format!("{wanted}_SHA256") == name)
        };
        let of_12 = |suite: &&SupportedCipherSuite| suite.tls13().is_none();
        let names: Vec<String> =
            provider.cipher_suites.iter().filter(of_12).map(|suite| format!("{:?}", suite.suite())).collect();
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || offered(suite));
        if !tls.only_13 && !provider.cipher_suites.iter().any(|suite| suite.tls13().is_none()) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            return Err(WrongConfig::NotOffered { setting: "cipher_suites", offered: all(&names) });
        }
    }
    if !tls.curves.is_empty() {
        const CURVES: [(&str, NamedGroup); 3] = [
            ("X25519", NamedGroup::X25519),
            ("CurveP256", NamedGroup::secp256r1),
            ("CurveP384", NamedGroup::secp384r1),
        ];
        let offered =
            |group: NamedGroup| CURVES.iter().any(|(name, of)| *of == group && tls.curves.iter().any(|it| it == name));
        provider.kx_groups.retain(|group| offered(group.name()));
        if provider.kx_groups.is_empty() {
            let names = CURVES.map(|(name, _)| name);
            return Err(WrongConfig::NotOffered { setting: "curve_preferences", offered: all(&names) });
        }
    }
    Ok(provider)
}

fn acceptor(tls: &Tls, files: &mut Vec<Vec<u8>>) -> Result<TlsAcceptor, WrongConfig> {
    let chain = certificates(&tls.certificate, files)?;
    trust::secret(&tls.key)?;
    let key = read(&tls.key, files)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| WrongConfig::file(&tls.key, error))?;
    let provider = Arc::new(provider(tls)?);
    let versions = match (tls.only_12, tls.only_13) {
        (true, _) => &[&version::TLS12][..],
        (_, true) => &[&version::TLS13],
        _ => &[&version::TLS13, &version::TLS12],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| WrongConfig::Tls(error.to_string()))?;
    let builder = match &tls.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path, files)? {
                roots.add(certificate).map_err(|error| WrongConfig::file(path, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if tls.clients == Clients::Required { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| WrongConfig::file(path, error))?)
        }
    };
    let mut config =
        builder.with_single_cert(chain, key).map_err(|error| WrongConfig::file(&tls.certificate, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
