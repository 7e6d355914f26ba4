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

/// So many of one user's or network's passwords wait for their turn to be checked; those beyond are told to come again.
const QUEUE: usize = 64;
/// So many good passwords are remembered, and so many wrong ones.
const REMEMBERED: usize = 1024;

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

/// The kernel has no key to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot get random numbers from the kernel")]
pub struct NoRandom;

/// Who may come in.
///
/// A hash is made to be slow: passwords are checked one at a time, beside everything else, and all who come with one take
/// turns, however many some of them bring. What was checked is remembered, as a digest under a key that no one has: who
/// says the same again costs nothing. A name that nobody has takes as long as a wrong password.
pub(super) struct Credentials {
    users: BTreeMap<String, String>,
    key: [u8; 32],
    checked: Mutex<Checked>,
    lines: Mutex<BTreeMap<Peer, Arc<Line>>>,
    turn: Semaphore,
}

/// Digests of what was checked.
#[derive(Default)]
struct Checked {
    good: BTreeSet<[u8; 32]>,
    wrong: BTreeSet<[u8; 32]>,
}

/// Those who wait and count for the same: one of them stands in the line of all.
struct Line {
    places: Semaphore,
    first: Semaphore,
}

impl Credentials {
    /// None where there are no users.
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

    pub(super) async fn judge(&self, headers: &HeaderMap, peer: Peer) -> Verdict {
        let Some((name, password)) = headers.get(AUTHORIZATION).and_then(basic) else { return Verdict::Refused };
        let known = self.users.get(&name);
        // Any user's hash will do for one who is none: what counts is that checking takes its time.
        let Some(hash) = known.or_else(|| self.users.values().next()).cloned() else { return Verdict::Refused };
        let digest = self.digest(&name, &hash, &password);
        if let Some(verdict) = self.remembered(&digest) {
            return verdict;
        }
        let line = self.line(peer);
        let verdict = self.check(&line, digest, (known.is_some(), password, hash)).await;
        drop(line);
        // Those who come meanwhile hold it too.
        self.lines().retain(|_, line| Arc::strong_count(line) > 1);
        verdict
    }

    async fn check(&self, line: &Line, digest: [u8; 32], asked: (bool, Vec<u8>, String)) -> Verdict {
        let (known, password, hash) = asked;
        let Ok(_place) = line.places.try_acquire() else { return Verdict::Busy };
        let Ok(_first) = line.first.acquire().await else { return Verdict::Busy };
        let Ok(_turn) = self.turn.acquire().await else { return Verdict::Busy };
        // It may have been checked while this one waited.
        if let Some(verdict) = self.remembered(&digest) {
            return verdict;
        }
        let Ok(right) = tokio::task::spawn_blocking(move || bcrypt::verify(&password, &hash)).await else {
            return Verdict::Refused;
        };
        let good = known && matches!(right, Ok(true));
        let mut checked = self.checked();
        let kept = if good { &mut checked.good } else { &mut checked.wrong };
        if kept.len() >= REMEMBERED {
            kept.clear();
        }
        kept.insert(digest);
        if good { Verdict::Welcome } else { Verdict::Refused }
    }

    fn remembered(&self, digest: &[u8; 32]) -> Option<Verdict> {
        let checked = self.checked();
        if checked.good.contains(digest) {
            Some(Verdict::Welcome)
        } else {
            checked.wrong.contains(digest).then_some(Verdict::Refused)
        }
    }

    fn line(&self, peer: Peer) -> Arc<Line> {
        let new = || Arc::new(Line { places: Semaphore::new(QUEUE), first: Semaphore::new(1) });
        Arc::clone(self.lines().entry(peer).or_insert_with(new))
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

    fn checked(&self) -> MutexGuard<'_, Checked> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<Peer, Arc<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
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
        let judge = |headers: HeaderMap| runtime.block_on(credentials.judge(&headers, Peer::User(0)));
        // The second time from memory.
        for _ in 0..2 {
            assert_eq!(judge(encoded("scraper:secret")), Verdict::Welcome);
        }
        assert_eq!(credentials.checked().good.len(), 1);
        for wrong in ["scraper:Secret", "scraper:", "scraper", ":secret", "other:secret", "", "scraper:secret:"] {
            assert_eq!(judge(encoded(wrong)), Verdict::Refused, "{wrong}");
        }
        for wrong in ["", "Basic", "Basic ", "Basic ???", "Bearer c2NyYXBlcjpzZWNyZXQ=", "basic:x"] {
            assert_eq!(judge(header(wrong)), Verdict::Refused, "{wrong}");
        }
        assert_eq!(judge(HeaderMap::new()), Verdict::Refused);
        assert_eq!(credentials.checked().good.len(), 1, "wrong ones are not taken for good");
        assert!(credentials.lines().is_empty());
        assert_eq!(judge(header("bAsIc c2NyYXBlcjpzZWNyZXQ=")), Verdict::Welcome);
    }

    #[test]
    fn who_brings_many_passwords_waits_behind_who_brings_one() {
        let users = BTreeMap::from([("scraper".to_owned(), HASH.to_owned())]);
        let credentials = Arc::new(Credentials::new(users).unwrap().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let judge = |text: String, peer| {
                let credentials = Arc::clone(&credentials);
                async move { credentials.judge(&encoded(&text), peer).await }
            };
            let many = (0..200).map(|number| tokio::spawn(judge(format!("scraper:{number}"), Peer::User(4242))));
            let many: Vec<_> = many.collect();
            tokio::task::yield_now().await;
            assert_eq!(judge("scraper:secret".into(), Peer::User(1)).await, Verdict::Welcome);
            let unfinished = many.iter().filter(|one| !one.is_finished()).count();
            assert!(unfinished > QUEUE / 2, "{unfinished}");
            let mut busy = 0;
            for one in many {
                busy += usize::from(one.await.unwrap() == Verdict::Busy);
            }
            // One may be checked while they come.
            assert!((100..=200 - QUEUE).contains(&busy), "{busy}");
        });
        assert!(credentials.lines().is_empty());
    }

    #[test]
    fn without_users_nobody_is_asked() {
        assert!(Credentials::new(BTreeMap::new()).unwrap().is_none());
    }
}
