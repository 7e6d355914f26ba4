//! The file that says who may ask, and how: the exporter-toolkit's web.yml
//! (github.com/prometheus/exporter-toolkit, docs/web-configuration.md), which node_exporter and
//! Prometheus read too.
//!
//! Unknown settings are refused: one that is ignored in silence is a door that somebody believes
//! shut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bcrypt::HashParts;
use saphyr::{LoadableYamlNode, Scalar, Yaml};

/// Checking a password against a costlier hash takes seconds.
const MOST_COST: u32 = 16;

/// Headers that the toolkit lets a file set.
const HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebConfig {
    pub tls: Option<Tls>,
    /// `basic_auth_users`: bcrypt hashes by name.
    pub users: BTreeMap<String, String>,
    /// `http_server_config: headers`.
    pub headers: Vec<(&'static str, String)>,
}

/// `tls_server_config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// The certificate with those above it.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Who signs clients' certificates.
    pub client_authority: Option<PathBuf>,
    pub clients: ClientCertificates,
    pub only_13: bool,
    pub only_12: bool,
    /// Suites of TLS 1.2 by name; empty for all. TLS 1.3 always has its own.
    pub suites: Vec<String>,
    /// Curves for key agreement by name; empty for all.
    pub curves: Vec<String>,
}

/// `client_auth_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    NotAsked,
    /// A certificate that is shown must be valid.
    IfGiven,
    Required,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ConfigError(pub String);

type Parsed<T> = Result<T, ConfigError>;

fn config_failure<T>(what: impl Into<String>) -> Parsed<T> {
    Err(ConfigError(what.into()))
}

impl WebConfig {
    /// Paths in the file start from `folder`.
    pub(crate) fn parse(text: &str, folder: &Path) -> Parsed<Self> {
        let documents =
            Yaml::load_from_str(text).map_err(|error| ConfigError(error.to_string()))?;
        let mut config = Self::default();
        let document = match documents.as_slice() {
            [] => return Ok(config),
            [one] => one,
            _ => return config_failure("more than one document"),
        };
        for (name, value) in mapping_entries("the file", document)? {
            match name {
                "tls_server_config" => config.tls = parse_tls_config(value, folder)?,
                "http_server_config" => config.headers = parse_http_config(value)?,
                "basic_auth_users" => config.users = parse_basic_auth_users(value)?,
                other => return config_failure(describe_unknown_name(other, &["rate_limit"])),
            }
        }
        Ok(config)
    }
}

fn describe_unknown_name(name: &str, known_elsewhere: &[&str]) -> String {
    let why =
        if known_elsewhere.contains(&name) { "is not supported here" } else { "is not known" };
    format!("{name}: {why}; leave it out")
}

fn mapping_entries<'a>(place: &str, value: &'a Yaml<'_>) -> Parsed<Vec<(&'a str, &'a Yaml<'a>)>> {
    let mapping = match value {
        Yaml::Value(Scalar::Null) => return Ok(Vec::new()),
        Yaml::Mapping(mapping) => mapping,
        _ => return config_failure(format!("{place}: expected names and values")),
    };
    let named = mapping.iter().map(|(name, value)| match name.as_str() {
        Some(name) => Ok((name, value)),
        None => config_failure(format!("{place}: a name is not text; put it in quotes")),
    });
    named.collect()
}

fn expect_text<'a>(name: &str, value: &'a Yaml<'_>) -> Parsed<&'a str> {
    value.as_str().map_or_else(|| config_failure(format!("{name}: expected text")), Ok)
}

fn parse_tls_config(value: &Yaml<'_>, folder: &Path) -> Parsed<Option<Tls>> {
    const ELSEWHERE: [&str; 4] = ["cert", "key", "client_ca", "client_allowed_sans"];
    let (mut suites, mut curves) = (Vec::new(), Vec::new());
    let (mut certificate, mut key, mut client_authority) = (None, None, None);
    let mut clients = ClientCertificates::NotAsked;
    let (mut least, mut most) = (12, 13);
    let entries = mapping_entries("tls_server_config", value)?;
    if entries.is_empty() {
        return Ok(None);
    }
    for (name, value) in entries {
        match name {
            "cert_file" => certificate = Some(folder.join(expect_text(name, value)?)),
            "key_file" => key = Some(folder.join(expect_text(name, value)?)),
            "client_ca_file" => client_authority = Some(folder.join(expect_text(name, value)?)),
            "client_auth_type" => clients = clients_of(expect_text(name, value)?)?,
            "min_version" => least = parse_tls_version(name, expect_text(name, value)?)?,
            "max_version" => most = parse_tls_version(name, expect_text(name, value)?)?,
            "cipher_suites" => suites = expect_text_list(name, value)?,
            "curve_preferences" => curves = expect_text_list(name, value)?,
            // The exporters' own libraries ignore it too.
            "prefer_server_cipher_suites" if value.as_bool().is_some() => {}
            other => return config_failure(describe_unknown_name(other, &ELSEWHERE)),
        }
    }
    let (Some(certificate), Some(key)) = (certificate, key) else {
        return config_failure("tls_server_config: needs cert_file and key_file");
    };
    if (clients != ClientCertificates::NotAsked) != client_authority.is_some() {
        return config_failure(
            "tls_server_config: set both client_ca_file and a client_auth_type that verifies, or \
                 neither",
        );
    }
    if least > most {
        return config_failure("tls_server_config: min_version is above max_version");
    }
    let (only_13, only_12) = (least == 13, most == 12);
    Ok(Some(Tls { certificate, key, client_authority, clients, only_13, only_12, suites, curves }))
}

fn expect_text_list(name: &str, value: &Yaml<'_>) -> Parsed<Vec<String>> {
    let Yaml::Sequence(values) = value else {
        return config_failure(format!("{name}: expected a list"));
    };
    values.iter().map(|value| expect_text(name, value).map(str::to_owned)).collect()
}

fn clients_of(name: &str) -> Parsed<ClientCertificates> {
    match name {
        "" | "NoClientCert" => Ok(ClientCertificates::NotAsked),
        "VerifyClientCertIfGiven" => Ok(ClientCertificates::IfGiven),
        "RequireAndVerifyClientCert" => Ok(ClientCertificates::Required),
        // A certificate that nobody verifies keeps nobody out.
        other => config_failure(format!(
            "client_auth_type: {other} is not supported here; RequireAndVerifyClientCert, \
                 VerifyClientCertIfGiven and \
             NoClientCert are"
        )),
    }
}

fn parse_tls_version(name: &str, value: &str) -> Parsed<u8> {
    match value {
        "TLS12" => Ok(12),
        "TLS13" => Ok(13),
        other => {
            config_failure(format!("{name}: {other} is not supported here; TLS12 and TLS13 are"))
        }
    }
}

fn parse_http_config(value: &Yaml<'_>) -> Parsed<Vec<(&'static str, String)>> {
    let mut headers = Vec::new();
    for (name, value) in mapping_entries("http_server_config", value)? {
        match name {
            // Allowed, not required: HTTP/2 clients are answered by HTTP/1.1.
            "http2" if value.as_bool().is_some() => {}
            "headers" => {
                for (name, value) in mapping_entries("headers", value)? {
                    let known = HEADERS.into_iter().find(|known| known.eq_ignore_ascii_case(name));
                    let Some(known) = known else {
                        return config_failure(describe_unknown_name(name, &[]));
                    };
                    let value = expect_text(name, value)?;
                    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                        return config_failure(format!("{name}: use printable ASCII only"));
                    }
                    headers.push((known, value.to_owned()));
                }
            }
            other => return config_failure(describe_unknown_name(other, &[])),
        }
    }
    Ok(headers)
}

fn parse_basic_auth_users(value: &Yaml<'_>) -> Parsed<BTreeMap<String, String>> {
    let mut users = BTreeMap::new();
    for (name, value) in mapping_entries("basic_auth_users", value)? {
        if name.is_empty() || name.contains(':') {
            return config_failure(format!("basic_auth_users: {name:?} cannot be a user name"));
        }
        let hash = expect_text(name, value)?;
        // Messages must not show the hash.
        let Ok(parts) = HashParts::from_str(hash) else {
            return config_failure(format!(
                "basic_auth_users: {name}: not a bcrypt hash; `htpasswd -nBC 10 {name}` makes one"
            ));
        };
        if parts.get_cost() > MOST_COST {
            return config_failure(format!(
                "basic_auth_users: {name}: a cost of {} is too slow, use 10",
                parts.get_cost()
            ));
        }
        users.insert(name.to_owned(), hash.to_owned());
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of `secret`, by crypt(3) of Debian's libxcrypt.
    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

    fn parse(text: &str) -> Parsed<WebConfig> {
        WebConfig::parse(text, Path::new("/etc/hugewise"))
    }

    #[test]
    fn a_file_as_node_exporter_reads_it() {
        let text = format!(
            "tls_server_config:\n  cert_file: server.crt\n  key_file: \
                 /keys/server.key\n  min_version: TLS13\n\
             http_server_config:\n  http2: true\n  headers:\n    strict-transport-security: \
                 max-age=60\n\
             basic_auth_users:\n  scraper: {HASH}\n"
        );
        let config = parse(&text).unwrap();
        let tls = config.tls.unwrap();
        assert_eq!(tls.certificate, Path::new("/etc/hugewise/server.crt"));
        assert_eq!(tls.key, Path::new("/keys/server.key"));
        assert_eq!(
            (tls.clients, tls.only_13, tls.only_12),
            (ClientCertificates::NotAsked, true, false)
        );
        assert_eq!(config.users.get("scraper").map(String::as_str), Some(HASH));
        assert_eq!(config.headers, [("Strict-Transport-Security", "max-age=60".to_owned())]);
    }

    #[test]
    fn a_file_that_says_nothing_asks_for_nothing() {
        for text in [
            "",
            "\n",
            "---\n",
            "# nothing\n",
            "tls_server_config:\nbasic_auth_users:\n",
            "basic_auth_users: {}\n",
        ] {
            assert_eq!(parse(text), Ok(WebConfig::default()), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let cases = [
            ("rate_limit:\n  burst: 1\n", "rate_limit"),
            ("basic_auth_user:\n  a: b\n", "basic_auth_user"),
            ("basic_auth_users:\n  a: plain\n", "not a bcrypt hash"),
            ("basic_auth_users:\n  1: x\n", "in quotes"),
            ("basic_auth_users: [a]\n", "names and values"),
            ("tls_server_config:\n  cert_file: a\n", "key_file"),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  cipher_suites: x\n",
                "expected a list",
            ),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_allowed_sans: [x]\n",
                "not supported here",
            ),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: \
                     RequestClientCert\n",
                "client_auth_type",
            ),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_ca_file: c\n",
                "or neither",
            ),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: \
                     RequireAndVerifyClientCert\n",
                "or neither",
            ),
            ("tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: TLS10\n", "TLS10"),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: \
                     TLS13\n  max_version: TLS12\n",
                "above max_version",
            ),
            ("http_server_config:\n  headers:\n    Server: x\n", "Server"),
            ("http_server_config:\n  headers:\n    X-Frame-Options: \"a\\r\\nb\"\n", "printable"),
            ("a: [\n", ""),
            ("---\na: b\n---\n", "more than one document"),
            ("text\n", "names and values"),
        ];
        for (text, what) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.0.contains(what), "{text:?}: {error}");
        }
        let costly = HASH.replace("$04$", "$31$");
        assert!(
            parse(&format!("basic_auth_users:\n  a: {costly}\n"))
                .unwrap_err()
                .0
                .contains("too slow")
        );
        assert!(!parse("basic_auth_users:\n  a: hunter2\n").unwrap_err().0.contains("hunter2"));
    }

    /// Nothing is a password but a hash of bcrypt's, and who is told of an error is told something.
    fn holds(text: &str) -> Result<(), TestCaseError> {
        match parse(text) {
            Ok(config) => prop_assert!(
                config.users.values().all(|hash| hash.starts_with("$2")),
                "{:?}",
                config
            ),
            Err(error) => prop_assert!(!error.0.trim().is_empty()),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_text(text in any::<String>()) {
            holds(&text)?;
        }

        #[test]
        fn any_words(words in prop::collection::vec(
            prop::sample::select(vec!["tls_server_config", "basic_auth_users", ":", "\n", "  ", "- ", "&a", "*a", "{", "}", "[", "]", "a", "!!x "]), 0..40)
        ) {
            holds(&words.concat())?;
        }
    }
}
