//! Names and passwords.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio_rustls::rustls::crypto::ring;

/// So many passwords wait for their turn to be checked; those beyond are told to come again.
const QUEUE: usize = 32;
/// So many good passwords are remembered.
const REMEMBERED: usize = 256;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It comes in.
    Welcome,
    /// It has no credential, or a wrong one.
    Refused,
    /// Too many passwords are being checked.
    Busy,
}

/// Who may come in.
///
/// A hash is made to be slow: passwords are checked one at a time, beside everything else, and a good one is
/// remembered, as a digest under a key that no one has. A name that nobody has takes as long as a wrong password.
pub(super) struct Credentials {
    users: BTreeMap<String, String>,
    key: [u8; 32],
    good: Mutex<BTreeSet<[u8; 32]>>,
    queue: Semaphore,
    turn: Semaphore,
}

impl Credentials {
    /// None where there are no users.
    pub(super) fn new(users: BTreeMap<String, String>) -> Result<Option<Self>, String> {
        if users.is_empty() {
            return Ok(None);
        }
        let mut key = [0; 32];
        let filled = ring::default_provider().secure_random.fill(&mut key);
        filled.map_err(|_| "the kernel gives no random numbers".to_owned())?;
        let good = Mutex::new(BTreeSet::new());
        Ok(Some(Self { users, key, good, queue: Semaphore::new(QUEUE), turn: Semaphore::new(1) }))
    }

    pub(super) async fn judge(&self, headers: &HeaderMap) -> Verdict {
        let Some((name, password)) = headers.get(AUTHORIZATION).and_then(basic) else { return Verdict::Refused };
        let known = self.users.get(&name);
        // Any user's hash will do for one who is none: what counts is that checking takes its time.
        let Some(hash) = known.or_else(|| self.users.values().next()).cloned() else { return Verdict::Refused };
        let digest = self.digest(&name, &hash, &password);
        if known.is_some() && self.good().contains(&digest) {
            return Verdict::Welcome;
        }
        let Ok(_place) = self.queue.try_acquire() else { return Verdict::Busy };
        let Ok(_turn) = self.turn.acquire().await else { return Verdict::Busy };
        let right = tokio::task::spawn_blocking(move || bcrypt::verify(&password, &hash)).await;
        if known.is_none() || !matches!(right, Ok(Ok(true))) {
            return Verdict::Refused;
        }
        let mut good = self.good();
        if good.len() >= REMEMBERED {
            good.clear();
        }
        good.insert(digest);
        Verdict::Welcome
    }

    fn digest(&self, name: &str, hash: &str, password: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.key);
        for part in [name.as_bytes(), hash.as_bytes(), password] {
            // With its length, no part can pass for a part of its neighbour.
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    fn good(&self) -> std::sync::MutexGuard<'_, BTreeSet<[u8; 32]>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RFC 7617: `Basic` and name:password in base64.
fn basic(value: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = STANDARD.decode(encoded.trim()).ok()?;
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let (name, password) = bytes.split_at_checked(colon)?;
    Some((String::from_utf8(name.to_vec()).ok()?, password.get(1..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `secret`, by crypt(3) of Debian's libxcrypt.
    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

    fn header(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
    }

    fn encoded(text: &str) -> HeaderMap {
        header(&format!("Basic {}", STANDARD.encode(text)))
    }

    #[test]
    fn a_password_is_right_or_it_is_not() {
        let users = BTreeMap::from([("scraper".to_owned(), HASH.to_owned())]);
        let credentials = Credentials::new(users).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let judge = |headers: HeaderMap| runtime.block_on(credentials.judge(&headers));
        // The second time from memory.
        for _ in 0..2 {
            assert_eq!(judge(encoded("scraper:secret")), Verdict::Welcome);
        }
        assert_eq!(credentials.good().len(), 1);
        for wrong in ["scraper:Secret", "scraper:", "scraper", ":secret", "other:secret", "", "scraper:secret:"] {
            assert_eq!(judge(encoded(wrong)), Verdict::Refused, "{wrong}");
        }
        for wrong in ["", "Basic", "Basic ", "Basic ???", "Bearer c2NyYXBlcjpzZWNyZXQ=", "basic:x"] {
            assert_eq!(judge(header(wrong)), Verdict::Refused, "{wrong}");
        }
        assert_eq!(judge(HeaderMap::new()), Verdict::Refused);
        assert_eq!(credentials.good().len(), 1, "wrong ones are not remembered");
        assert_eq!(judge(header("bAsIc c2NyYXBlcjpzZWNyZXQ=")), Verdict::Welcome);
    }

    #[test]
    fn without_users_nobody_is_asked() {
        assert!(Credentials::new(BTreeMap::new()).unwrap().is_none());
    }
}
