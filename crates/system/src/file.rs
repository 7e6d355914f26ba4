//! A file's bytes, owner, permissions and labels.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileState {
    /// Its bytes.
    pub content: FileContent,
    /// Its permissions.
    pub mode: FileMode,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its extended attributes, security.selinux among them, by name.
    pub labels: Vec<ExtendedAttribute>,
}

/// A file's bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileContent {
    /// The bytes are UTF-8.
    Text(String),
    /// The bytes are not UTF-8.
    Base64(Base64),
}

/// Bytes that are not text, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Base64(pub Vec<u8>);

impl TryFrom<String> for Base64 {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64.decode(text).map(Self).map_err(|error| format!("no base64: {error}"))
    }
}

impl From<Base64> for String {
    fn from(bytes: Base64) -> Self {
        BASE64.encode(bytes.0)
    }
}

impl FileContent {
    /// Of these bytes: as text where they are UTF-8.
    pub fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(Base64(error.into_bytes())),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Base64(Base64(bytes)) => bytes,
        }
    }
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Base64(Base64(bytes)) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendedAttribute {
    /// `security.selinux`.
    pub name: String,
    /// Its value in base64.
    #[schemars(with = "String")]
    #[serde(with = "label_value")]
    pub value: Vec<u8>,
}

mod label_value {
    use base64::Engine as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::BASE64;

    pub(super) fn serialize<S: Serializer>(value: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&BASE64.encode(value))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        BASE64.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// Permission bits, in text as `chmod` takes them: `0644`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct FileMode(pub u32);

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl From<FileMode> for String {
    fn from(mode: FileMode) -> Self {
        mode.to_string()
    }
}

impl TryFrom<String> for FileMode {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bits = u32::from_str_radix(&text, 8).ok().filter(|bits| *bits <= 0o7777);
        bits.map(Self).ok_or_else(|| format!("{text:?} is not a file mode"))
    }
}
