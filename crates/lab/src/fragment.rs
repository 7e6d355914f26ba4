//! Fragments free memory on purpose, and gives all of it back.

use hugewise_model::Bytes;

use crate::experiment::{Context, ExperimentFailure};
use crate::segment::{MappedSegment, SegmentPages, SegmentSource};
use crate::variant::base_page;

const EACH: usize = 8;
const CHUNK: Bytes = Bytes::from_mib(256);

/// Fragmented memory: one movable base page in eight stays, as a page cache or many processes'
/// private memory leaves them. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Fragments {
    chunks: Vec<MappedSegment>,
}

impl Fragments {
    /// Takes `amount` of free memory and gives seven eighths of it back in pieces.
    /// Errors: there is no room for it, or it was stopped.
    pub(crate) fn fragment_memory(
        amount: Bytes,
        threads: usize,
        context: &Context<'_>,
    ) -> Result<Self, ExperimentFailure> {
        let mut fragments = Self { chunks: Vec::new() };
        let mut left = amount;
        while left > Bytes::ZERO {
            context.cancel.check_running()?;
            let part = left.min(CHUNK);
            context.room_for(part)?;
            let chunk = MappedSegment::create(SegmentSource::Private, part, SegmentPages::Base)?;
            // A kernel without transparent huge pages has none to keep away.
            let _ = chunk.advise_transparent(false);
            chunk.populate_pages(base_page(), threads)?;
            fragments.chunks.push(chunk);
            left = left.saturating_sub(part);
        }
        let page = usize::try_from(base_page().bytes().get()).unwrap_or(usize::MAX);
        for chunk in &fragments.chunks {
            context.cancel.check_running()?;
            for stays in (0..chunk.byte_length()).step_by(page * EACH) {
                let from = stays + page;
                let to = (stays + page * EACH).min(chunk.byte_length());
                if from < to {
                    chunk.discard_pages(from, to - from)?;
                }
            }
        }
        Ok(fragments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::ResourceGauge;
    use crate::cancel::Cancel;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "this very thread's memory")]
    fn an_eighth_stays_until_it_is_dropped() {
        let resident = || -> u64 {
            let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = text.lines().find(|line| line.starts_with("RssAnon")).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let (cancel, gauge) = (Cancel::never(), ResourceGauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        let before = resident();
        let fragments = Fragments::fragment_memory(Bytes::from_mib(300), 2, &context).unwrap();
        let grown = resident().saturating_sub(before);
        // 37.5 MiB; other tests of this process have memory too.
        assert!((36 << 10..100 << 10).contains(&grown), "{grown}");
        drop(fragments);
        let tight = Context { floor: Bytes(u64::MAX), ..context };
        assert!(matches!(
            Fragments::fragment_memory(Bytes::from_mib(1), 1, &tight),
            Err(ExperimentFailure::Unavailable(_))
        ));
        cancel.stop("enough");
        assert!(matches!(
            Fragments::fragment_memory(Bytes::from_mib(1), 1, &context),
            Err(ExperimentFailure::Stopped(_))
        ));
    }
}
