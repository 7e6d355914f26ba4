//! The captures of a bucket.

use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, S3Action};
use ureq::Agent;

use super::http::{Why, agent, answered, tried};
use super::target::SIGNED_FOR;
use super::{Keys, Target, Unusable};
use crate::bundle::{self, Member};
use crate::failed::{Failed, LARGEST};

/// A page of names is far smaller.
const LARGEST_PAGE: u64 = 16 << 20;

/// A bucket, and what the names of captures in it begin with.
pub(crate) struct Captures {
    bucket: Bucket,
    prefix: String,
    keys: Keys,
    agent: Agent,
}

impl std::fmt::Debug for Captures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Captures").field("bucket", &self.bucket.name()).finish_non_exhaustive()
    }
}

impl Captures {
    /// Of `s3://BUCKET/PREFIX`.
    pub(crate) fn of(target: &str, keys: Option<&Keys>) -> Result<Self, Unusable> {
        let Target::Bucket(name, prefix) = Target::given(target)? else {
            return Err(Unusable::Address("captures can only be read from s3://".to_owned()));
        };
        let keys = keys.ok_or(Unusable::NoKeys)?.clone();
        Ok(Self { bucket: super::target::bucket(&name, &keys)?, prefix, keys, agent: agent() })
    }

    /// Hands on the name and the size of each object, or why there are no more; it says whether more are wanted.
    pub(crate) fn each(&self, hand: &mut dyn FnMut(Result<(String, u64), Failed>) -> bool) {
        let mut next: Option<String> = None;
        let mut found = 0_u64;
        loop {
            let page = tried(|| {
                let mut list: ListObjectsV2<'_> = self.bucket.list_objects_v2(Some(&self.keys.credentials));
                list.with_prefix(self.prefix.as_str());
                if let Some(next) = &next {
                    list.with_continuation_token(next.as_str());
                }
                let mut answer = answered(self.agent.get(list.sign(SIGNED_FOR).as_str()).call())?;
                let text = answer.body_mut().with_config().limit(LARGEST_PAGE).read_to_string();
                let text =
                    text.map_err(|_| Why { what: "its list is cut off".to_owned(), passes: true, denied: false })?;
                let page = ListObjectsV2::parse_response(&text);
                page.map_err(|_| Why {
                    what: "its list is not in S3's format".to_owned(),
                    passes: false,
                    denied: false,
                })
            });
            let page = match page {
                Ok(page) => page,
                Err(why) => {
                    let class = if why.denied { "denied" } else { "unreadable" };
                    let message = format!("cannot be listed after {found} captures: {}", why.what);
                    hand(Err(Failed::new(class, message)));
                    return;
                }
            };
            for object in page.contents {
                // Folders, as some programs make them.
                if object.key.ends_with('/') {
                    continue;
                }
                found += 1;
                if !hand(Ok((object.key, object.size.unwrap_or(0)))) {
                    return;
                }
            }
            next = page.next_continuation_token.filter(|token| !token.is_empty());
            if next.is_none() {
                return;
            }
        }
    }

    /// Fetches one.
    pub(crate) fn fetch(&self, key: &str, size: u64) -> Result<Member, Failed> {
        // Such a name would be another's address.
        if key.split('/').any(|part| matches!(part, "." | "..")) {
            let message = "its name has a part of dots".to_owned();
            return Err(Failed::new("unreadable", message));
        }
        if size > LARGEST {
            return Err(Failed::too_large(size));
        }
        let fetched = tried(|| {
            let get = self.bucket.get_object(Some(&self.keys.credentials), key);
            let mut answer = answered(self.agent.get(get.sign(SIGNED_FOR).as_str()).call())?;
            let mut body = answer.body_mut().with_config().limit(LARGEST).reader();
            let member = bundle::held(key.to_owned(), size, &mut body);
            member.map_err(|(_, failed)| Why { what: failed.message, passes: true, denied: false })
        });
        fetched.map_err(|why| {
            let class = if why.denied { "denied" } else { "unreadable" };
            Failed::new(class, why.what)
        })
    }

    /// How people call one.
    pub(crate) fn path(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.bucket.name())
    }
}
