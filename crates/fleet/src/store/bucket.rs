//! The captures of a bucket that speaks S3.

use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, S3Action};
use ureq::http::Response;
use ureq::{Agent, Body};

use super::captures::{Captures, ObjectPage, read_page};
use super::http::{StoreError, check_response, new_agent};
use super::target::{self, SIGNED_FOR};
use super::{Keys, Unusable};

/// A bucket of Amazon's, or of Google's, which speaks S3 too.
pub(crate) struct Objects {
    /// `s3`, or `gs`.
    scheme: &'static str,
    bucket: Bucket,
    prefix: String,
    keys: Keys,
    agent: Agent,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("bucket", &self.bucket.name()).finish_non_exhaustive()
    }
}

impl Objects {
    /// Of `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`.
    pub(crate) fn from_address(
        scheme: &'static str,
        address: &str,
        keys: Option<&Keys>,
    ) -> Result<Self, Unusable> {
        let (name, prefix) = target::split_address(scheme, address).map_err(Unusable::Store)?;
        let keys = keys.ok_or(Unusable::NoKeys)?;
        let keys = if scheme == "gs" { keys.of_google() } else { keys.clone() };
        Ok(Self {
            scheme,
            bucket: target::open_bucket(&name, &keys)?,
            prefix,
            keys,
            agent: new_agent(),
        })
    }
}

impl Captures for Objects {
    fn list_page(&self, next: Option<&str>) -> Result<ObjectPage, StoreError> {
        let mut list: ListObjectsV2<'_> = self.bucket.list_objects_v2(Some(&self.keys.credentials));
        list.with_prefix(self.prefix.as_str());
        if let Some(next) = next {
            list.with_continuation_token(next);
        }
        let answer = check_response(self.agent.get(list.sign(SIGNED_FOR).as_str()).call())?;
        let page = ListObjectsV2::parse_response(&read_page(answer)?);
        let page = page.map_err(|_| StoreError::lasting("its list is not in S3's format"))?;
        let files = page
            .contents
            .into_iter()
            .map(|object| (object.key, object.size.unwrap_or(0)))
            .collect();
        Ok(ObjectPage { files, next: page.next_continuation_token })
    }

    fn request_object(&self, key: &str) -> Result<Response<Body>, StoreError> {
        let get = self.bucket.get_object(Some(&self.keys.credentials), key);
        check_response(self.agent.get(get.sign(SIGNED_FOR).as_str()).call())
    }

    fn display_path(&self, key: &str) -> String {
        format!("{}://{}/{key}", self.scheme, self.bucket.name())
    }
}
