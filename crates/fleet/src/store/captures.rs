//! Captures in object storage: listed a page at a time and fetched one by one, whatever the store's
//! protocol.

use std::fmt::Debug;

use ureq::Body;
use ureq::http::Response;

use super::http::{StoreError, retry_request};
use crate::bundle::{self, BundleMember};
use crate::capture_failure::{CaptureFailure, LARGEST};

/// A page of names is far smaller.
const LARGEST_PAGE: u64 = 16 << 20;

/// Some names of a list.
pub(crate) struct ObjectPage {
    /// Names and sizes.
    pub(super) files: Vec<(String, u64)>,
    /// What to ask for the page after it.
    pub(super) next: Option<String>,
}

/// Takes the name and the size of an object, or why there are no more; says whether more are
/// wanted.
pub(crate) type ObjectHandler<'a> = dyn FnMut(Result<(String, u64), CaptureFailure>) -> bool + 'a;

/// A bucket or a container, and what the names of captures in it begin with.
pub(crate) trait Captures: Debug + Send + Sync {
    /// The page of the list that `next` of the one before stands for; the first without it.
    fn list_page(&self, next: Option<&str>) -> Result<ObjectPage, StoreError>;

    /// Asks for one.
    fn request_object(&self, key: &str) -> Result<Response<Body>, StoreError>;

    /// How people call one.
    fn display_path(&self, key: &str) -> String;
}

impl dyn Captures {
    /// Hands on each.
    pub(crate) fn for_each_object(&self, hand: &mut ObjectHandler<'_>) {
        let mut next: Option<String> = None;
        let mut found = 0_u64;
        loop {
            let page = match retry_request(|| self.list_page(next.as_deref())) {
                Ok(page) => page,
                Err(why) => {
                    let message = format!("cannot be listed after {found} captures: {}", why.what);
                    hand(Err(CaptureFailure::new(failure_class(&why), message)));
                    return;
                }
            };
            for (key, size) in page.files {
                // Folders, as some programs make them.
                if key.ends_with('/') {
                    continue;
                }
                found += 1;
                if !hand(Ok((key, size))) {
                    return;
                }
            }
            next = page.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return;
            }
        }
    }

    /// Fetches one.
    pub(crate) fn fetch_object(
        &self,
        key: &str,
        size: u64,
    ) -> Result<BundleMember, CaptureFailure> {
        // Such a name would be another's address.
        if key.split('/').any(|part| matches!(part, "." | "..")) {
            let message = "its name has a part of dots".to_owned();
            return Err(CaptureFailure::new("unreadable", message));
        }
        if size > LARGEST {
            return Err(CaptureFailure::too_large(size));
        }
        let fetched = retry_request(|| {
            let mut answer = self.request_object(key)?;
            let mut body = answer.body_mut().with_config().limit(LARGEST).reader();
            let member = bundle::read_member(key.to_owned(), size, &mut body);
            member.map_err(|(_, failed)| StoreError::passing(failed.message))
        });
        fetched.map_err(|why| CaptureFailure::new(failure_class(&why), why.what))
    }
}

pub(super) fn read_page(mut answer: Response<Body>) -> Result<String, StoreError> {
    let text = answer.body_mut().with_config().limit(LARGEST_PAGE).read_to_string();
    text.map_err(|_| StoreError::passing("its list is cut off"))
}

const fn failure_class(why: &StoreError) -> &'static str {
    if why.denied { "denied" } else { "unreadable" }
}
