//! Names and passwords.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio_rustls::rustls::crypto::ring;

use super::peer::Peer;

/// One peer's passwords that may wait to be checked; further ones are told to come again.
const QUEUE: usize = 64;
/// Good passwords that are remembered, and wrong ones.
const REMEMBERED: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialVerdict {
    Welcome,
    /// No credential, or a wrong one.
    Refused,
    /// Too many passwords are being checked.
    Busy,
}

/// The kernel has no random numbers to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot get random numbers from the kernel")]
pub struct NoRandom;

/// Who may come in.
///
/// bcrypt is slow on purpose: passwords are checked one at a time, and peers take turns, however
/// many passwords one brings. Results are remembered as digests under a random key, so the same
/// password again costs nothing. An unknown name takes as long as a wrong password.
pub(super) struct WebCredentials {
    users: BTreeMap<String, String>,
    key: [u8; 32],
    checked: Mutex<CheckedDigests>,
    lines: Mutex<BTreeMap<Peer, Arc<PasswordQueue>>>,
    turn: Semaphore,
}

#[derive(Default)]
struct CheckedDigests {
    good: BTreeSet<[u8; 32]>,
    wrong: BTreeSet<[u8; 32]>,
}

/// One peer's requests: one of them at a time is in everybody's queue.
struct PasswordQueue {
    places: Semaphore,
    first: Semaphore,
}

impl WebCredentials {
    /// `None` without users.
    pub(super) fn new(users: BTreeMap<String, String>) -> Result<Option<Self>, NoRandom> {
        if users.is_empty() {
            return Ok(None);
        }
        let mut key = [0; 32];
        let filled = ring::default_provider().secure_random.fill(&mut key);
        filled.map_err(|_| NoRandom)?;
        let (checked, lines) = (Mutex::default(), Mutex::default());
        Ok(Some(Self { users, key, checked, lines, turn: Semaphore::new(1) }))
    }

    pub(super) async fn judge_request(&self, headers: &HeaderMap, peer: Peer) -> CredentialVerdict {
        let Some((name, password)) = headers.get(AUTHORIZATION).and_then(parse_basic_header) else {
            return CredentialVerdict::Refused;
        };
        let known = self.users.get(&name);
        // An unknown name is checked against any user's hash, to take as long.
        let Some(hash) = known.or_else(|| self.users.values().next()).cloned() else {
            return CredentialVerdict::Refused;
        };
        let digest = self.password_digest(&name, &hash, &password);
        if let Some(verdict) = self.remembered_verdict(&digest) {
            return verdict;
        }
        let line = self.password_queue(peer);
        let verdict = self.check_password(&line, digest, (known.is_some(), password, hash)).await;
        drop(line);
        // Waiting requests of the peer hold it too.
        self.lock_queues().retain(|_, line| Arc::strong_count(line) > 1);
        verdict
    }

    async fn check_password(
        &self,
        line: &PasswordQueue,
        digest: [u8; 32],
        asked: (bool, Vec<u8>, String),
    ) -> CredentialVerdict {
        let (known, password, hash) = asked;
        let Ok(_place) = line.places.try_acquire() else { return CredentialVerdict::Busy };
        let Ok(_first) = line.first.acquire().await else { return CredentialVerdict::Busy };
        let Ok(_turn) = self.turn.acquire().await else { return CredentialVerdict::Busy };
        // It may have been checked meanwhile.
        if let Some(verdict) = self.remembered_verdict(&digest) {
            return verdict;
        }
        let Ok(right) = tokio::task::spawn_blocking(move || bcrypt::verify(&password, &hash)).await
        else {
            return CredentialVerdict::Refused;
        };
        let good = known && matches!(right, Ok(true));
        let mut checked = self.lock_checked();
        let kept = if good { &mut checked.good } else { &mut checked.wrong };
        if kept.len() >= REMEMBERED {
            kept.clear();
        }
        kept.insert(digest);
        if good { CredentialVerdict::Welcome } else { CredentialVerdict::Refused }
    }

    fn remembered_verdict(&self, digest: &[u8; 32]) -> Option<CredentialVerdict> {
        let checked = self.lock_checked();
        if checked.good.contains(digest) {
            Some(CredentialVerdict::Welcome)
        } else {
            checked.wrong.contains(digest).then_some(CredentialVerdict::Refused)
        }
    }

    fn password_queue(&self, peer: Peer) -> Arc<PasswordQueue> {
        let new =
            || Arc::new(PasswordQueue { places: Semaphore::new(QUEUE), first: Semaphore::new(1) });
        Arc::clone(self.lock_queues().entry(peer).or_insert_with(new))
    }

    fn password_digest(&self, name: &str, hash: &str, password: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.key);
        for part in [name.as_bytes(), hash.as_bytes(), password] {
            // With its length, no part can pass for a part of its neighbour.
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    fn lock_checked(&self) -> MutexGuard<'_, CheckedDigests> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_queues(&self) -> MutexGuard<'_, BTreeMap<Peer, Arc<PasswordQueue>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RFC 7617: `Basic` and name:password in base64.
fn parse_basic_header(value: &HeaderValue) -> Option<(String, Vec<u8>)> {
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
        let credentials = WebCredentials::new(users).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let judge = |headers: HeaderMap| {
            runtime.block_on(credentials.judge_request(&headers, Peer::User(0)))
        };
        // The second time from memory.
        for _ in 0..2 {
            assert_eq!(judge(encoded("scraper:secret")), CredentialVerdict::Welcome);
        }
        assert_eq!(credentials.lock_checked().good.len(), 1);
        for wrong in [
            "scraper:Secret",
            "scraper:",
            "scraper",
            ":secret",
            "other:secret",
            "",
            "scraper:secret:",
        ] {
            assert_eq!(judge(encoded(wrong)), CredentialVerdict::Refused, "{wrong}");
        }
        for wrong in ["", "Basic", "Basic ", "Basic ???", "Bearer c2NyYXBlcjpzZWNyZXQ=", "basic:x"]
        {
            assert_eq!(judge(header(wrong)), CredentialVerdict::Refused, "{wrong}");
        }
        assert_eq!(judge(HeaderMap::new()), CredentialVerdict::Refused);
        assert_eq!(credentials.lock_checked().good.len(), 1, "wrong ones are not taken for good");
        assert!(credentials.lock_queues().is_empty());
        assert_eq!(judge(header("bAsIc c2NyYXBlcjpzZWNyZXQ=")), CredentialVerdict::Welcome);
    }

    #[test]
    fn who_brings_many_passwords_waits_behind_who_brings_one() {
        let users = BTreeMap::from([("scraper".to_owned(), HASH.to_owned())]);
        let credentials = Arc::new(WebCredentials::new(users).unwrap().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let judge = |text: String, peer| {
                let credentials = Arc::clone(&credentials);
                async move { credentials.judge_request(&encoded(&text), peer).await }
            };
            let many = (0..200)
                .map(|number| tokio::spawn(judge(format!("scraper:{number}"), Peer::User(4242))));
            let many: Vec<_> = many.collect();
            tokio::task::yield_now().await;
            assert_eq!(
                judge("scraper:secret".into(), Peer::User(1)).await,
                CredentialVerdict::Welcome
            );
            let unfinished = many.iter().filter(|one| !one.is_finished()).count();
            assert!(unfinished > QUEUE / 2, "{unfinished}");
            let mut busy = 0;
            for one in many {
                busy += usize::from(one.await.unwrap() == CredentialVerdict::Busy);
            }
            // One may be checked while they come.
            assert!((100..=200 - QUEUE).contains(&busy), "{busy}");
        });
        assert!(credentials.lock_queues().is_empty());
    }

    #[test]
    fn without_users_nobody_is_asked() {
        assert!(WebCredentials::new(BTreeMap::new()).unwrap().is_none());
    }
}
