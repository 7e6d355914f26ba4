//! The captures of a bucket that speaks S3.

use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, S3Action};
use ureq::http::Response;
use ureq::{Agent, Body};

use super::captures::{Captures, LARGEST_PAGE, Page};
use super::http::{Why, agent, answered};
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
    pub(crate) fn of(scheme: &'static str, address: &str, keys: Option<&Keys>) -> Result<Self, Unusable> {
        let (name, prefix) = target::parts(scheme, address).map_err(Unusable::Store)?;
        let keys = keys.ok_or(Unusable::NoKeys)?;
        let keys = if scheme == "gs" { keys.of_google() } else { keys.clone() };
        Ok(Self { scheme, bucket: target::bucket(&name, &keys)?, prefix, keys, agent: agent() })
    }
}

impl Captures for Objects {
    fn page(&self, next: Option<&str>) -> Result<Page, Why> {
        let mut list: ListObjectsV2<'_> = self.bucket.list_objects_v2(Some(&self.keys.credentials));
        list.with_prefix(self.prefix.as_str());
        if let Some(next) = next {
            list.with_continuation_token(next);
        }
        let mut answer = answered(self.agent.get(list.sign(SIGNED_FOR).as_str()).call())?;
        let text = answer.body_mut().with_config().limit(LARGEST_PAGE).read_to_string();
        let text = text.map_err(|_| Why { what: "its list is cut off".to_owned(), passes: true, denied: false })?;
        let page = ListObjectsV2::parse_response(&text);
        let page =
            page.map_err(|_| Why { what: "its list is not in S3's format".to_owned(), passes: false, denied: false })?;
        let files = page.contents.into_iter().map(|object| (object.key, object.size.unwrap_or(0))).collect();
        Ok(Page { files, next: page.next_continuation_token })
    }

    fn ask(&self, key: &str) -> Result<Response<Body>, Why> {
        let get = self.bucket.get_object(Some(&self.keys.credentials), key);
        answered(self.agent.get(get.sign(SIGNED_FOR).as_str()).call())
    }

    fn path(&self, key: &str) -> String {
        format!("{}://{}/{key}", self.scheme, self.bucket.name())
    }
}
