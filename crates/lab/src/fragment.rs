//! Breaks free memory into pieces on purpose, and gives all of it back.

use hugewise_model::Bytes;

use crate::experiment::{Context, Failure};
use crate::segment::{Kind, Pages, Segment};
use crate::variant::base_page;

/// One base page in so many stays.
const EACH: usize = 8;
/// Memory that is asked for at a time, so that the room is looked at before each.
const CHUNK: Bytes = Bytes::from_mib(256);

/// Memory in pieces: base pages that the kernel can move, one left in eight, as a page cache or the private memory of
/// many processes leaves them. Dropping it gives them back.
#[derive(Debug)]
pub struct Fragments {
    chunks: Vec<Segment>,
}

impl Fragments {
    /// Takes `amount` of free memory and gives seven eighths of it back in pieces.
    ///
    /// # Errors
    /// Where there is no room for it, or it is to end.
    pub fn make(amount: Bytes, threads: usize, context: &Context<'_>) -> Result<Self, Failure> {
        let mut fragments = Self { chunks: Vec::new() };
        let mut left = amount;
        while left > Bytes::ZERO {
            context.cancel.check()?;
            let part = left.min(CHUNK);
            context.room_for(part)?;
            let chunk = Segment::create(Kind::Private, part, Pages::Base)?;
            // A kernel without transparent huge pages has nothing to keep away.
            let _ = chunk.transparent(false);
            chunk.populate(base_page(), threads)?;
            fragments.chunks.push(chunk);
            left = left.saturating_sub(part);
        }
        let page = usize::try_from(base_page().bytes().get()).unwrap_or(usize::MAX);
        for chunk in &fragments.chunks {
            context.cancel.check()?;
            for stays in (0..chunk.length()).step_by(page * EACH) {
                let from = stays + page;
                let to = (stays + page * EACH).min(chunk.length());
                if from < to {
                    chunk.discard(from, to - from)?;
                }
            }
        }
        Ok(fragments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Gauge;
    use crate::cancel::Cancel;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "this very thread's memory")]
    fn an_eighth_stays_until_it_is_dropped() {
        let resident = || -> u64 {
            let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = text.lines().find(|line| line.starts_with("RssAnon")).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let (cancel, gauge) = (Cancel::never(), Gauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        let before = resident();
        let fragments = Fragments::make(Bytes::from_mib(300), 2, &context).unwrap();
        let grown = resident().saturating_sub(before);
        // 37.5 MiB; other tests of this process have memory too.
        assert!((36 << 10..100 << 10).contains(&grown), "{grown}");
        drop(fragments);
        let tight = Context { floor: Bytes(u64::MAX), ..context };
        assert!(matches!(Fragments::make(Bytes::from_mib(1), 1, &tight), Err(Failure::Unavailable(_))));
        cancel.stop("enough");
        assert!(matches!(Fragments::make(Bytes::from_mib(1), 1, &context), Err(Failure::Stopped(_))));
    }
}
