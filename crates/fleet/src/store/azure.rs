//! The captures of a container of Azure's Blob Storage, as its REST interface gives them: "List
//! Blobs", "Get Blob" and "Authorize with Shared Key" in Microsoft's reference.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use sha2::Sha256;
use ureq::{Agent, Body};
use url::Url;

use super::captures::{Captures, ObjectPage, read_page};
use super::http::{StoreError, check_response, new_agent};
use super::keys::find_config_value;
use super::{Unsafe, Unusable, read_secret};

/// The version of the interface, and so of its answers.
const VERSION: &str = "2021-12-02";
/// The part of `~/.azure/config` that is read.
const SECTION: &str = "storage";

/// A storage account, and the key to it.
#[derive(Clone)]
pub struct AzureAccount {
    name: String,
    /// Of its containers.
    endpoint: Url,
    right: AzureCredential,
}

#[derive(Clone)]
enum AzureCredential {
    /// The account's key, which signs each request.
    Key(Vec<u8>),
    /// A shared access signature, which goes with each address.
    Signature(String),
}

impl std::fmt::Debug for AzureAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

impl AzureAccount {
    /// Reads the section `storage` of such a file as the Azure command line has: `account`, `key`
    /// or `sas_token`, and where it is there `service_endpoint`.
    ///
    /// # Errors
    /// The file cannot be read, is open to others, or lacks a key.
    pub fn read(path: &Path) -> Result<Self, Unsafe> {
        Self::from_config(&read_secret(path)?)
            .map_err(|why| Unsafe { path: path.display().to_string(), why })
    }

    fn from_config(text: &str) -> Result<Self, String> {
        let value = |name| find_config_value(text, SECTION, name);
        let name =
            value("account").ok_or_else(|| format!("has no account in its section [{SECTION}]"))?;
        let is_part = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if !name.chars().all(is_part) {
            return Err(format!("account in its section [{SECTION}] is no storage account's name"));
        }
        let endpoint = match value("service_endpoint") {
            Some(text) => super::address::parse_address(text)
                .map_err(|why| format!("service_endpoint {why}"))?,
            None => Url::parse(&format!("https://{name}.blob.core.windows.net"))
                .map_err(|why| why.to_string())?,
        };
        let right = match (value("key"), value("sas_token")) {
            (Some(key), _) => AzureCredential::Key(
                STANDARD
                    .decode(key)
                    .map_err(|_| format!("key in its section [{SECTION}] is not in Base64"))?,
            ),
            (None, Some(token)) => {
                AzureCredential::Signature(token.trim_start_matches('?').to_owned())
            }
            (None, None) => {
                return Err(format!("has neither key nor sas_token in its section [{SECTION}]"));
            }
        };
        Ok(Self { name: name.to_owned(), endpoint, right })
    }
}

/// A container, and what the names of captures in it begin with.
pub(crate) struct Container {
    name: String,
    prefix: String,
    account: AzureAccount,
    agent: Agent,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Container {
    /// Of `az://CONTAINER/PREFIX`.
    pub(crate) fn from_address(
        address: &str,
        account: Option<&AzureAccount>,
    ) -> Result<Self, Unusable> {
        let (name, prefix) =
            super::target::split_address("az", address).map_err(Unusable::Store)?;
        let account = account.ok_or(Unusable::NoAccount)?.clone();
        Ok(Self { name, prefix, account, agent: new_agent() })
    }

    /// What is at an address of the container.
    fn get(
        &self,
        blob: &str,
        query: &[(&str, &str)],
    ) -> Result<ureq::http::Response<Body>, StoreError> {
        let mut address = self.account.endpoint.clone();
        if let Ok(mut path) = address.path_segments_mut() {
            path.pop_if_empty().push(&self.name);
            if !blob.is_empty() {
                path.extend(blob.split('/'));
            }
        }
        if !query.is_empty() {
            address.query_pairs_mut().extend_pairs(query);
        }
        let date = http_date_now();
        let signature = match &self.account.right {
            AzureCredential::Key(key) => {
                Some(sign_text(key, &to_sign(&self.account.name, &address, query, &date)))
            }
            AzureCredential::Signature(token) => {
                let with = address
                    .query()
                    .map_or_else(|| token.clone(), |query| format!("{query}&{token}"));
                address.set_query(Some(&with));
                None
            }
        };
        let mut get = self
            .agent
            .get(address.as_str())
            .header("x-ms-date", &date)
            .header("x-ms-version", VERSION);
        if let Some(signature) = signature {
            get =
                get.header("Authorization", format!("SharedKey {}:{signature}", self.account.name));
        }
        check_response(get.call())
    }
}

impl Captures for Container {
    fn list_page(&self, next: Option<&str>) -> Result<ObjectPage, StoreError> {
        let mut query = vec![("restype", "container"), ("comp", "list")];
        if !self.prefix.is_empty() {
            query.push(("prefix", self.prefix.as_str()));
        }
        query.extend(next.map(|next| ("marker", next)));
        let page = parse_blob_list(&read_page(self.get("", &query)?)?);
        page.ok_or_else(|| StoreError::lasting("its list is not in Azure's format"))
    }

    fn request_object(&self, key: &str) -> Result<ureq::http::Response<Body>, StoreError> {
        self.get(key, &[])
    }

    fn display_path(&self, key: &str) -> String {
        format!("az://{}/{key}", self.name)
    }
}

/// Now, as HTTP writes it.
fn http_date_now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|duration| i64::try_from(duration.as_secs()).ok());
    let now = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or_default();
    DateTimePrinter::new().timestamp_to_rfc9110_string(&now).unwrap_or_default()
}

/// What is signed of a GET: no content, none of the conditions that a request may make, the headers
/// of Azure's own, and what is asked for.
fn to_sign(account: &str, address: &Url, query: &[(&str, &str)], date: &str) -> String {
    let mut query = query.to_vec();
    query.sort_unstable();
    let query: String =
        query.into_iter().map(|(name, value)| format!("\n{name}:{value}")).collect();
    let path = address.path();
    format!(
        "GET{}x-ms-date:{date}\nx-ms-version:{VERSION}\n/{account}{path}{query}",
        "\n".repeat(12)
    )
}

fn sign_text(key: &[u8], text: &str) -> String {
    // A key of any length is one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AzureBlobList {
    #[serde(default)]
    blobs: Blobs,
    #[serde(default)]
    next_marker: Option<String>,
}

#[derive(Default, Deserialize)]
struct Blobs {
    #[serde(default, rename = "Blob")]
    all: Vec<Blob>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: AzureBlobName,
    properties: Properties,
}

#[derive(Deserialize)]
struct AzureBlobName {
    /// Where XML cannot hold the name: it is percent-encoded.
    #[serde(default, rename = "@Encoded")]
    encoded: bool,
    #[serde(default, rename = "$text")]
    text: String,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(default, rename = "Content-Length")]
    length: u64,
    /// Of an account with folders: a folder is listed too.
    #[serde(default, rename = "ResourceType")]
    kind: Option<String>,
}

/// What a list says; `None` where it is none of Azure's.
fn parse_blob_list(text: &str) -> Option<ObjectPage> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.contains("<EnumerationResults") {
        return None;
    }
    let listed: AzureBlobList = quick_xml::de::from_str(text).ok()?;
    let files = listed
        .blobs
        .all
        .into_iter()
        .filter(|blob| blob.properties.kind.as_deref() != Some("directory"));
    let name = |AzureBlobName { encoded, text }: AzureBlobName| match encoded {
        true => percent_decode_str(&text).decode_utf8_lossy().into_owned(),
        false => text,
    };
    let files = files.map(|blob| (name(blob.name), blob.properties.length)).collect();
    Some(ObjectPage { files, next: listed.next_marker.filter(|next| !next.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The account of Microsoft's emulator, with the key that its reference prints.
    const EMULATOR: &str = "[cloud]\nname = AzureCloud\n[storage]\naccount = devstoreaccount1\n\
                            key = Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==\n\
                            service_endpoint = http://127.0.0.1:10000/devstoreaccount1\n";

    #[test]
    fn an_account_is_read_and_shows_no_key() {
        let account = AzureAccount::from_config(EMULATOR).unwrap();
        assert_eq!(
            (account.name.as_str(), account.endpoint.as_str()),
            ("devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1")
        );
        assert!(!format!("{account:?}").contains("Eby8"));
        let plain = AzureAccount::from_config(
            "[storage]\naccount = captures\nsas_token = ?sv=1&sig=a%2Fb\n",
        )
        .unwrap();
        assert_eq!(plain.endpoint.as_str(), "https://captures.blob.core.windows.net/");
        assert!(
            matches!(plain.right, AzureCredential::Signature(token) if token == "sv=1&sig=a%2Fb")
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (text, why) in [
            ("[default]\naccount = captures\n", "has no account"),
            ("[storage]\naccount = captures\n", "neither key nor sas_token"),
            ("[storage]\naccount = captures\nkey = ?\n", "not in Base64"),
            ("[storage]\naccount = evil.example.org/\nkey = AAAA\n", "no storage account's name"),
            (
                "[storage]\naccount = a\nkey = AAAA\nservice_endpoint = http://store/\n",
                "unencrypted",
            ),
        ] {
            let said = AzureAccount::from_config(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    /// Python's hmac and hashlib made the signature, of the text that "Authorize with Shared Key"
    /// describes.
    #[test]
    fn a_request_is_signed_with_the_key_of_the_account() {
        let account = AzureAccount::from_config(EMULATOR).unwrap();
        let address = Url::parse("http://127.0.0.1:10000/devstoreaccount1/captures").unwrap();
        let query = [("restype", "container"), ("comp", "list"), ("prefix", "prod/db 1")];
        let text = to_sign(&account.name, &address, &query, "Thu, 26 Nov 2026 08:00:00 GMT");
        let AzureCredential::Key(key) = &account.right else { unreachable!() };
        assert_eq!(sign_text(key, &text), "MgBC0gURtc+2LSC5tYZBPuX+MrcMOYPRRvAEnTrJQN8=");
    }

    /// As the reference of "List Blobs" has it, with a folder, and a name that XML cannot hold.
    #[test]
    fn a_list_is_read() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults \
             ServiceEndpoint=\"https://a.blob.core.windows.net/\" \
                    ContainerName=\"captures\"><Prefix>prod/</Prefix><Blobs><Blob><Name>prod/a&amp;b.tar.gz</Name><Properties>\
                    <Last-Modified>Thu, 26 Nov 2026 08:00:00 \
             GMT</Last-Modified><Content-Length>26742</Content-Length>\
                    <BlobType>BlockBlob</BlobType></Properties><OrMetadata \
             /></Blob><Blob><Name>prod/old</Name><Properties>\
                    <ResourceType>directory</ResourceType><Content-Length>0</Content-Length></Properties></Blob><Blob>\
                    <Name Encoded=\"true\">prod/%EF%BF%BE+1</Name><Properties><Content-Length>5</Content-Length></Properties></Blob>\
                    </Blobs><NextMarker>2!88!t1</NextMarker></EnumerationResults>";
        let read = parse_blob_list(text).unwrap();
        assert_eq!(
            read.files,
            [("prod/a&b.tar.gz".to_owned(), 26742), ("prod/\u{fffe}+1".to_owned(), 5)]
        );
        assert_eq!(read.next.as_deref(), Some("2!88!t1"));
        let none =
            "<EnumerationResults ContainerName=\"c\"><Blobs /><NextMarker /></EnumerationResults>";
        let none = parse_blob_list(none).unwrap();
        assert_eq!((none.files.len(), none.next), (0, None));
        assert!(
            parse_blob_list("<ListBucketResult/>").is_none() && parse_blob_list("<html>").is_none()
        );
    }
}
