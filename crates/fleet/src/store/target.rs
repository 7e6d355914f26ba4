//! Where a capture goes.

use std::path::Path;
use std::time::Duration;

use rusty_s3::{Bucket, S3Action, UrlStyle};
use url::Url;

use super::address::parse_address;
use super::{Keys, Unsafe, read_secret};

/// How long a signature holds that is made here.
pub(super) const SIGNED_FOR: Duration = Duration::from_secs(900);

/// Where a capture goes.
#[derive(Clone, PartialEq, Eq)]
pub enum UploadTarget {
    /// An address that takes a PUT; one that ends in `/` gets the capture's name behind it.
    Address(Url),
    /// A bucket, and what comes before the capture's name.
    Bucket(String, String),
}

impl std::fmt::Debug for UploadTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a target")
    }
}

/// Why a capture cannot go there.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The words make no address.
    #[error(
        "{0}; --to takes https://HOST/PATH, s3://BUCKET/PREFIX, or @FILE with one of these in it"
    )]
    Address(String),
    /// The file that has the address.
    #[error(transparent)]
    File(#[from] Unsafe),
    /// A bucket without keys.
    #[error("s3:// needs keys: name a file with --credentials")]
    NoKeys,
    /// A container without the key of its account.
    #[error("az:// needs the key of its account: name a file with --credentials")]
    NoAccount,
    /// A bucket or a container that cannot be.
    #[error("{0}")]
    Store(String),
}

impl UploadTarget {
    /// Of what was given: an address, or `@` and a file that has one.
    ///
    /// # Errors
    /// It is none, or the file cannot be read, or is open to others.
    pub fn from_argument(text: &str) -> Result<Self, Unusable> {
        match text.strip_prefix('@') {
            Some(path) => Self::from_address(read_secret(Path::new(path))?.trim()),
            None => Self::from_address(text),
        }
    }

    fn from_address(text: &str) -> Result<Self, Unusable> {
        if text.starts_with("s3://") {
            let (bucket, prefix) = split_address("s3", text).map_err(Unusable::Address)?;
            return Ok(Self::Bucket(bucket, prefix));
        }
        if let Some((scheme @ ("az" | "abfs" | "abfss" | "wasb" | "wasbs" | "gs"), _)) =
            text.split_once("://")
        {
            let tool = if scheme == "gs" { "gcloud storage cp" } else { "azcopy copy" };
            let why = format!(
                "{scheme}:// addresses are not supported: write the capture with --output and \
                     send the file with {tool}"
            );
            return Err(Unusable::Address(why));
        }
        parse_address(text)
            .map(Self::Address)
            .map_err(|why| Unusable::Address(format!("the address {why}")))
    }

    /// The address to which the capture of that name is put. It may hold a key.
    ///
    /// # Errors
    /// A bucket without keys, or one of which no address can be made.
    pub(super) fn resolve_address(&self, name: &str, keys: Option<&Keys>) -> Result<Url, Unusable> {
        let (bucket, prefix) = match self {
            Self::Address(address)
                if address.query().is_none() && address.path().ends_with('/') =>
            {
                return address
                    .join(name)
                    .map_err(|why| Unusable::Address(format!("it is not a valid address: {why}")));
            }
            Self::Address(address) => return Ok(address.clone()),
            Self::Bucket(bucket, prefix) => (bucket, prefix),
        };
        let keys = keys.ok_or(Unusable::NoKeys)?;
        let key = if prefix.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", prefix.trim_end_matches('/'))
        };
        let bucket = self::open_bucket(bucket, keys)?;
        Ok(bucket.put_object(Some(&keys.credentials), &key).sign(SIGNED_FOR))
    }
}

/// The bucket or container that an address names, and the prefix behind it.
pub(super) fn split_address(scheme: &str, address: &str) -> Result<(String, String), String> {
    let rest =
        address.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")).unwrap_or_default();
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    if name.is_empty() || !name.chars().all(is_part) {
        let what = if scheme == "az" { "a container" } else { "a bucket" };
        return Err(format!("{scheme}:// is not followed by {what}'s name"));
    }
    if prefix.split('/').any(|part| matches!(part, "." | "..")) {
        return Err(format!("the prefix of {scheme}:// has a part of dots"));
    }
    Ok((name.to_owned(), prefix.to_owned()))
}

/// The bucket of that name at the store that the keys are of.
pub(super) fn open_bucket(name: &str, keys: &Keys) -> Result<Bucket, Unusable> {
    let (endpoint, style) = match &keys.endpoint {
        Some(endpoint) => (endpoint.clone(), UrlStyle::Path),
        None => {
            let amazon = Url::parse(&format!("https://s3.{}.amazonaws.com", keys.region()));
            // A dot in a bucket's name fits no certificate of Amazon's.
            let style = if name.contains('.') { UrlStyle::Path } else { UrlStyle::VirtualHost };
            (
                amazon
                    .map_err(|why| Unusable::Store(format!("region {}: {why}", keys.region())))?,
                style,
            )
        }
    };
    let bucket = Bucket::new(endpoint, style, name.to_owned(), keys.region().to_owned());
    bucket.map_err(|why| Unusable::Store(format!("the bucket's address: {why}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NAME: &str = "hugewise-db7-2026-03-01.tar.gz";

    fn resolve_target_text(text: &str) -> String {
        UploadTarget::from_address(text).unwrap().resolve_address(NAME, None).unwrap().to_string()
    }

    #[test]
    fn a_folder_gets_the_name_behind_it_and_a_signed_address_stays_as_it_is() {
        assert_eq!(resolve_target_text("https://store/in/"), format!("https://store/in/{NAME}"));
        assert_eq!(
            resolve_target_text("https://store/in/db7?X-Amz-Signature=ab%2Fc"),
            "https://store/in/db7?X-Amz-Signature=ab%2Fc"
        );
        assert_eq!(resolve_target_text("https://store/in/?sig=1"), "https://store/in/?sig=1");
        assert_eq!(
            resolve_target_text("http://127.0.0.1:8000/"),
            format!("http://127.0.0.1:8000/{NAME}")
        );
    }

    #[test]
    fn what_is_no_target_is_refused_with_what_to_give() {
        for (text, why) in [
            ("captures/", "is none"),
            ("ftp://store/in", "neither https:// nor s3://"),
            ("http://store/in", "unencrypted"),
            ("https://me:secret@store/", "a user or a password"),
            ("az://captures/prod", "azcopy copy"),
            ("gs://captures/prod", "gcloud storage cp"),
            ("s3:///in", "bucket's name"),
            ("s3://bucket/a/../b", "dots"),
        ] {
            let said = UploadTarget::from_address(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
        assert!(matches!(
            UploadTarget::from_address("s3://bucket").unwrap().resolve_address(NAME, None),
            Err(Unusable::NoKeys)
        ));
    }

    #[test]
    fn an_address_in_a_file_is_read_from_one_that_others_cannot_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "https://store/in/x?sig=1").unwrap();
        let given = format!("@{}", file.path().display());
        assert!(matches!(UploadTarget::from_argument(&given).unwrap(), UploadTarget::Address(_)));
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).unwrap();
        let said = UploadTarget::from_argument(&given).unwrap_err().to_string();
        assert!(said.contains("chmod 600") && !said.contains("sig=1"), "{said}");
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(file.path(), Some(65_534), None).unwrap();
            let said = UploadTarget::from_argument(&given).unwrap_err().to_string();
            assert!(said.contains("belongs to user 65534"), "{said}");
        }
    }
}
