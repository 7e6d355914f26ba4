//! The keys to a bucket, in the format that the AWS command line and everything beside it reads.

use std::path::Path;

use rusty_s3::Credentials;
use url::Url;

use super::address::parse_address;
use super::{Unsafe, read_secret};

/// Of one profile.
#[derive(Clone)]
pub struct Keys {
    pub(super) credentials: Credentials,
    region: Option<String>,
    /// Of a store that is not Amazon's.
    pub(super) endpoint: Option<Url>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("region", &self.region).finish_non_exhaustive()
    }
}

/// The profile that is read.
const PROFILE: &str = "default";
/// Google's store, for programs that speak S3: "Interoperability" in its reference, which calls
/// such keys HMAC keys.
const GOOGLE: &str = "https://storage.googleapis.com";

impl Keys {
    /// Reads the profile `default` of such a file: `aws_access_key_id`, `aws_secret_access_key`,
    /// and where they are there `aws_session_token`, `region` and `endpoint_url`.
    ///
    /// # Errors
    /// The file cannot be read, is open to others, or lacks a key.
    pub fn read(path: &Path) -> Result<Self, Unsafe> {
        Self::from_config(&read_secret(path)?)
            .map_err(|why| Unsafe { path: path.display().to_string(), why })
    }

    fn from_config(text: &str) -> Result<Self, String> {
        let value = |name| find_config_value(text, PROFILE, name);
        let needed =
            |name| value(name).ok_or_else(|| format!("has no {name} in its profile [{PROFILE}]"));
        let (id, key) = (needed("aws_access_key_id")?, needed("aws_secret_access_key")?);
        let credentials = match value("aws_session_token") {
            Some(token) => Credentials::new_with_token(id, key, token),
            None => Credentials::new(id, key),
        };
        let endpoint = match value("endpoint_url") {
            Some(text) => Some(parse_address(text).map_err(|why| format!("endpoint_url {why}"))?),
            None => None,
        };
        Ok(Self { credentials, region: value("region").map(str::to_owned), endpoint })
    }

    /// Where it is signed for; `us-east-1` where the file says nothing, as other programs have it.
    pub(super) fn region(&self) -> &str {
        self.region.as_deref().unwrap_or("us-east-1")
    }

    /// The same keys for Google's store, where no other is named. It has one region for those who
    /// ask in S3's way.
    pub(super) fn of_google(&self) -> Self {
        let mut keys = self.clone();
        if keys.endpoint.is_none() {
            keys.endpoint = Url::parse(GOOGLE).ok();
            keys.region = keys.region.or_else(|| Some("auto".to_owned()));
        }
        keys
    }
}

/// What a name is set to within a section.
pub(super) fn find_config_value<'a>(
    text: &'a str,
    within_section: &str,
    name: &str,
) -> Option<&'a str> {
    let mut within = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            within = section.trim() == within_section;
        } else if within
            && let Some((found, value)) = line.split_once('=')
            && found.trim() == name
            && !value.trim().is_empty()
        {
            return Some(value.trim());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_called_default_is_read() {
        let text = "[other]\naws_access_key_id = no\n# a \
             comment\n[default]\naws_access_key_id=AKIA\naws_secret_access_key = s=cr/t\n\
                    region = eu-central-1\nendpoint_url = \
             https://store.example.org:9000\n[third]\nregion = no\n";
        let keys = Keys::from_config(text).unwrap();
        assert_eq!((keys.credentials.key(), keys.credentials.secret()), ("AKIA", "s=cr/t"));
        assert_eq!(keys.region(), "eu-central-1");
        assert_eq!(
            keys.endpoint.as_ref().map(Url::as_str),
            Some("https://store.example.org:9000/")
        );
        assert!(!format!("{keys:?}").contains("s=cr/t"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let why = Keys::from_config("[default]\naws_access_key_id = AKIA\n").unwrap_err();
        assert_eq!(why, "has no aws_secret_access_key in its profile [default]");
        let plain = Keys::from_config(
            "[default]\naws_access_key_id = a\naws_secret_access_key = b\nendpoint_url = \
                 http://store/\n",
        );
        assert!(plain.unwrap_err().contains("unencrypted"));
    }
}
