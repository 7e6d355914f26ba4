//! The PUT itself.

use ureq::Agent;
use url::Url;

use super::http::{StoreError, check_response, new_agent, redact_address, retry_request};
use super::{Keys, Unusable, UploadTarget};

/// What was sent, and where to, without keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// As it may be printed.
    pub to: String,
    /// Bytes of the capture.
    pub bytes: usize,
}

/// Why it did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// The target is none.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The store said no, or did not answer.
    #[error("{to}: {why}")]
    Failed {
        /// Where to, without keys.
        to: String,
        /// What was said.
        why: String,
    },
}

/// Puts a capture there. What may be over in a moment is tried again: an answer of 5xx, 408 or 429,
/// and none at all.
///
/// # Errors
/// The target is unusable, or the capture did not arrive.
pub fn put_capture(
    capture: &[u8],
    name: &str,
    target: &UploadTarget,
    keys: Option<&Keys>,
) -> Result<Sent, NotSent> {
    let agent = new_agent();
    let to = redact_address(&target.resolve_address(name, keys)?);
    // Signed anew each time: a signature does not outlast a long wait.
    let sent = retry_request(|| match target.resolve_address(name, keys) {
        Ok(address) => put_once(&agent, &address, capture),
        Err(error) => Err(StoreError::lasting(error.to_string())),
    });
    match sent {
        Ok(()) => Ok(Sent { to, bytes: capture.len() }),
        Err(why) => Err(NotSent::Failed { to, why: why.what }),
    }
}

fn put_once(agent: &Agent, address: &Url, capture: &[u8]) -> Result<(), StoreError> {
    check_response(agent.put(address.as_str()).content_type("application/gzip").send(capture))
        .map(|_| ())
}
