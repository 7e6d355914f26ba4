//! Recent readings, for repeated readings of one machine; none is used for longer than a minute.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hugewise_model::Unread;

use crate::FactReader;

/// No reused fact is older.
pub const LONGEST_REUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct CachedAnswer<K, T> {
    key: K,
    answer: T,
    made_at: Instant,
}

/// The last answer to a costly question, with its key.
#[derive(Debug)]
pub struct MinuteCache<K, T>(Mutex<Option<CachedAnswer<K, T>>>);

impl<K, T> Default for MinuteCache<K, T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<K: PartialEq, T: Clone> MinuteCache<K, T> {
    /// The last answer for the same key within [`LONGEST_REUSE`], or a new one.
    pub fn get_or_make(&self, key: K, make: impl FnOnce() -> T) -> T {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = slot.as_ref()
            && cached.key == key
            && cached.made_at.elapsed() < LONGEST_REUSE
        {
            return cached.answer.clone();
        }
        // Before it is made, which may take a while.
        let made_at = Instant::now();
        let answer = make();
        *slot = Some(CachedAnswer { key, answer: answer.clone(), made_at });
        answer
    }
}

type FilesRead<T> = (T, Vec<Unread>, Vec<String>);

/// A result from some files of one machine.
#[derive(Debug)]
pub struct ConfigCache<K, T>(MinuteCache<K, FilesRead<T>>);

impl<K, T> Default for ConfigCache<K, T> {
    fn default() -> Self {
        Self(MinuteCache::default())
    }
}

impl<K: PartialEq, T: Clone> ConfigCache<K, T> {
    /// What `make` makes of the files that it reads, or made for the same key within a minute;
    /// notes on unread files are repeated.
    pub fn read(
        &self,
        door: &mut FactReader<'_>,
        key: K,
        make: impl FnOnce(&mut FactReader<'_>) -> T,
    ) -> T {
        let source = door.source;
        let (made, unread, seen) = self.0.get_or_make(key, || {
            let mut reader = FactReader::new(source);
            (make(&mut reader), reader.unread, reader.seen)
        });
        door.unread.extend(unread);
        door.seen.extend(seen);
        made
    }

    #[cfg(test)]
    fn age(&self) {
        if let Some(cached) = self.0.0.lock().unwrap().as_mut() {
            cached.made_at = Instant::now().checked_sub(LONGEST_REUSE).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapSource;

    #[test]
    fn after_a_minute_files_are_read_anew() {
        let cache = ConfigCache::default();
        let read = |text: &str| {
            let source = MapSource::new().with_file("/etc/a", text);
            cache.read(&mut FactReader::new(&source), 0, |door| door.read("/etc/a"))
        };
        let bytes = |text: &str| hugewise_model::Observed::Known(text.as_bytes().to_vec());
        assert_eq!([read("one"), read("two")], [bytes("one"), bytes("one")]);
        cache.age();
        assert_eq!(read("two"), bytes("two"));
    }

    #[test]
    fn what_was_told_of_files_is_told_again() {
        let source = MapSource::new().with_denied("/etc/a").with_file("/etc/b", "b");
        let cache = ConfigCache::default();
        for _ in 0..2 {
            let mut door = FactReader::new(&source);
            cache.read(&mut door, 0, |door| {
                door.read("/etc/a");
                door.read("/etc/b");
            });
            assert_eq!((door.unread.len(), door.seen), (1, vec!["/etc/b".to_owned()]));
        }
    }

    #[test]
    fn for_another_key_it_is_made_anew() {
        let cache = MinuteCache::default();
        let byte_of = |key: u8| cache.get_or_make(key, || key);
        assert_eq!([byte_of(1), byte_of(1), byte_of(2), byte_of(1)], [1, 1, 2, 1]);
    }
}
