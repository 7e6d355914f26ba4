//! Captures elsewhere: sent with a PUT to an https address or to a bucket that speaks S3, and read
//! from such a bucket or from a container of Azure's.
//!
//! An address that was signed beforehand is a key: its query is never printed, and it can come from
//! a file that only its owner may read, because arguments can be seen by every user of the host.

mod address;
mod azure;
mod bucket;
mod captures;
mod http;
mod keys;
mod target;
mod upload;

pub use azure::AzureAccount;
pub(crate) use captures::Captures;
pub use keys::Keys;
pub use target::{Unusable, UploadTarget};
pub use upload::{NotSent, Sent, put_capture};

use std::io::Read;
use std::path::Path;

use hugewise_host::source::files::{self, OpenedPath};

/// What opens the stores that captures are read from.
#[derive(Clone, Debug, Default)]
pub struct StoreCredentials {
    /// Of buckets.
    pub keys: Option<Keys>,
    /// Of containers.
    pub account: Option<AzureAccount>,
}

/// The captures of an address of a store.
pub(crate) fn open_store(
    address: &str,
    credentials: &StoreCredentials,
) -> Result<Box<dyn Captures>, Unusable> {
    Ok(match address.split_once("://") {
        Some(("az", _)) => {
            Box::new(azure::Container::from_address(address, credentials.account.as_ref())?)
        }
        Some(("gs", _)) => {
            Box::new(bucket::Objects::from_address("gs", address, credentials.keys.as_ref())?)
        }
        _ => Box::new(bucket::Objects::from_address("s3", address, credentials.keys.as_ref())?),
    })
}

/// A file that holds a key: what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct Unsafe {
    path: String,
    why: String,
}

/// Addresses and profiles are far shorter.
const LONGEST: u64 = 64 << 10;
/// Bits that let others read or change a file.
const OTHERS: u32 = 0o077;

/// The text of a file that holds a key.
///
/// # Errors
/// It cannot be read, is too long, or is open to others than its owner.
fn read_secret(path: &Path) -> Result<String, Unsafe> {
    use std::os::unix::fs::MetadataExt;
    let wrong = |why: String| Unsafe { path: path.display().to_string(), why };
    let OpenedPath::File(file, _) =
        files::open_path(path).map_err(|error| wrong(error.to_string()))?
    else {
        return Err(wrong("is a folder".to_owned()));
    };
    let facts = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if facts.mode() & OTHERS != 0 {
        return Err(wrong(
            "holds a key, and others may read or change it; run: chmod 600".to_owned(),
        ));
    }
    // Who owns it could have others send their captures elsewhere.
    let (owner, own) = (facts.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(wrong(format!(
            "holds a key, and belongs to user {owner}; it has to be yours or root's"
        )));
    }
    let mut text = String::new();
    let read = file
        .take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| wrong(error.to_string()))?;
    if u64::try_from(read).is_ok_and(|read| read <= LONGEST) {
        Ok(text)
    } else {
        Err(wrong(format!("has more than {} KiB", LONGEST >> 10)))
    }
}
