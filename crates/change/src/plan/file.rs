//! A file as a plan leaves it.

pub use hugewise_system::{Base64, Content, FileMode, FileState, Label};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFile {
    /// Its bytes.
    pub content: Content,
    /// Its permissions.
    pub mode: FileMode,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}
