//! Who may come in: TLS and credentials of the web configuration, reread while the server runs.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use hugewise_host::Source;
use hugewise_host::source::LiveSource;
use hugewise_host::trust::{self, Distrust};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{
    NamedGroup, RootCertStore, ServerConfig, SupportedCipherSuite, version,
};

use super::credentials::{NoRandom, WebCredentials};
use crate::web_config::{ClientCertificates, Tls, WebConfig};

/// Why a web configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WrongConfig {
    /// What is wrong with it, or with a file that it names.
    #[error("{path}: {why}")]
    File {
        /// The file, or the word in the configuration.
        path: String,
        /// What is wrong.
        #[source]
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Others could have written it, or can read its secrets.
    #[error(transparent)]
    Distrusted(#[from] Distrust),
    /// None of the suites or curves that it names is available.
    #[error("{setting}: none of these is available; choose from {offered}")]
    NotOffered {
        /// The setting.
        setting: &'static str,
        /// What could be named.
        offered: String,
    },
    /// The TLS library refuses it.
    #[error("{0}")]
    Tls(String),
    /// The kernel has no random numbers to give.
    #[error(transparent)]
    NoRandom(#[from] NoRandom),
}

impl WrongConfig {
    fn wrong_file(path: &Path, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::File { path: path.display().to_string(), why: why.into() }
    }

    fn wrong_word(word: &str, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::File { path: word.to_owned(), why: why.into() }
    }
}

/// What a web configuration comes to.
pub(super) struct Gate {
    /// As they were read: an unchanged gate stays.
    files: Vec<Vec<u8>>,
    pub(super) tls: Option<TlsAcceptor>,
    /// Whether everybody has to show a certificate that is verified.
    certificates: bool,
    pub(super) credentials: Option<WebCredentials>,
    pub(super) headers: HeaderMap,
}

impl Gate {
    /// Reads the web configuration and the files that it names; without one, everybody may come in.
    /// Refuses secrets that others can read, and files that others could have written.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, WrongConfig> {
        let mut files = Vec::new();
        let config = match path {
            None => WebConfig::default(),
            Some(path) => {
                let path = std::path::absolute(path)
                    .map_err(|error| WrongConfig::wrong_file(path, error))?;
                let text = String::from_utf8(read(&path, &mut files)?)
                    .map_err(|_| WrongConfig::wrong_file(&path, "not UTF-8"))?;
                let folder = path.parent().unwrap_or(Path::new("/"));
                let config = WebConfig::parse(&text, folder)
                    .map_err(|error| WrongConfig::wrong_file(&path, error))?;
                if !config.users.is_empty() {
                    trust::check_secret_file(&path)?;
                }
                config
            }
        };
        let tls = config.tls.as_ref().map(|tls| build_tls_acceptor(tls, &mut files)).transpose()?;
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|error| WrongConfig::wrong_word(name, error))?;
            headers.insert(
                name,
                HeaderValue::from_str(value)
                    .map_err(|error| WrongConfig::wrong_word(value, error))?,
            );
        }
        let certificates =
            config.tls.is_some_and(|tls| tls.clients == ClientCertificates::Required);
        let credentials = WebCredentials::new(config.users)?;
        Ok(Self { files, tls, certificates, credentials, headers })
    }

    pub(super) const fn asks_for_a_credential(&self) -> bool {
        self.certificates || self.credentials.is_some()
    }
}

/// The gate for the next connection.
pub(super) struct Gates(Mutex<Arc<Gate>>);

impl Gates {
    pub(super) fn new(gate: Gate) -> Self {
        Self(Mutex::new(Arc::new(gate)))
    }

    pub(super) fn current_gate(&self) -> Arc<Gate> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the old gate if its files are the same: passwords that were checked stay checked.
    pub(super) fn replace_if_changed(&self, gate: Gate) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.files != gate.files {
            *now = Arc::new(gate);
        }
    }
}

/// A file that others can write would let them in.
fn read(path: &Path, files: &mut Vec<Vec<u8>>) -> Result<Vec<u8>, WrongConfig> {
    trust::check_trusted_file(path)?;
    let name =
        path.to_str().ok_or_else(|| WrongConfig::wrong_file(path, "the path is not UTF-8"))?;
    let fact = LiveSource::new().read(name);
    let why = fact.reason_text();
    let bytes =
        fact.into_known().ok_or_else(|| WrongConfig::wrong_file(path, why.unwrap_or_default()))?;
    files.push(bytes.clone());
    Ok(bytes)
}

fn read_certificates(
    path: &Path,
    files: &mut Vec<Vec<u8>>,
) -> Result<Vec<CertificateDer<'static>>, WrongConfig> {
    let bytes = read(path, files)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = read.map_err(|error| WrongConfig::wrong_file(path, error))?;
    if found.is_empty() {
        Err(WrongConfig::wrong_file(path, "the file has no certificate"))
    } else {
        Ok(found)
    }
}

/// The library's suites and curves among the named ones; an error if none is left.
fn build_crypto_provider(tls: &Tls) -> Result<CryptoProvider, WrongConfig> {
    let mut provider = ring::default_provider();
    let all = |names: &[&str]| names.join(", ");
    if !tls.suites.is_empty() {
        let offered = |suite: &SupportedCipherSuite| {
            let name = format!("{:?}", suite.suite());
            // Their older names lack the hash at the end.
            tls.suites.iter().any(|wanted| *wanted == name || format!("{wanted}_SHA256") == name)
        };
        let of_12 = |suite: &&SupportedCipherSuite| suite.tls13().is_none();
        let names: Vec<String> = provider
            .cipher_suites
            .iter()
            .filter(of_12)
            .map(|suite| format!("{:?}", suite.suite()))
            .collect();
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
        let offered = |group: NamedGroup| {
            CURVES.iter().any(|(name, named_group)| {
                *named_group == group && tls.curves.iter().any(|text| text == name)
            })
        };
        provider.kx_groups.retain(|group| offered(group.name()));
        if provider.kx_groups.is_empty() {
            let names = CURVES.map(|(name, _)| name);
            return Err(WrongConfig::NotOffered {
                setting: "curve_preferences",
                offered: all(&names),
            });
        }
    }
    Ok(provider)
}

fn build_tls_acceptor(tls: &Tls, files: &mut Vec<Vec<u8>>) -> Result<TlsAcceptor, WrongConfig> {
    let chain = read_certificates(&tls.certificate, files)?;
    trust::check_secret_file(&tls.key)?;
    let key = read(&tls.key, files)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| WrongConfig::wrong_file(&tls.key, error))?;
    let provider = Arc::new(build_crypto_provider(tls)?);
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
            for certificate in read_certificates(path, files)? {
                roots.add(certificate).map_err(|error| WrongConfig::wrong_file(path, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if tls.clients == ClientCertificates::Required {
                verifier
            } else {
                verifier.allow_unauthenticated()
            };
            builder.with_client_cert_verifier(
                verifier.build().map_err(|error| WrongConfig::wrong_file(path, error))?,
            )
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| WrongConfig::wrong_file(&tls.certificate, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
