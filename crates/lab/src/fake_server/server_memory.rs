//! The server's memory: one segment, or two where huge pages cover a part.

use std::io;

use hugewise_model::{Bytes, PageCount, PageSize};

use super::{FakeServerSettings, LargePagePolicy, PreTouch};
use crate::kernel_values;
use crate::segment::{MappedSegment, SegmentPages, SegmentSource};
use crate::touch::Touch;
use crate::variant::base_page;

#[derive(Debug, thiserror::Error)]
pub(super) enum NoMemory {
    #[error("{missing} pages of {page} are missing: {wanted} needed, {available} available")]
    Pages { page: PageSize, missing: PageCount, wanted: PageCount, available: PageCount },
    #[error("a segment of {size} on {pages}: {error}{}", limit_hint(*kind, error))]
    Segment { kind: SegmentSource, size: Bytes, pages: String, error: io::Error },
    #[error("interleaving over NUMA nodes: {0}")]
    Interleaving(io::Error),
    #[error("touching the segment: {0}")]
    Touching(io::Error),
}

fn limit_hint(kind: SegmentSource, error: &io::Error) -> &'static str {
    match (kind, error.raw_os_error()) {
        (SegmentSource::SystemV, Some(libc::EINVAL)) => " (kernel.shmmax?)",
        (SegmentSource::SystemV, Some(libc::ENOSPC)) => " (kernel.shmall or kernel.shmmni?)",
        (SegmentSource::SystemV, Some(libc::EPERM)) => {
            " (neither CAP_IPC_LOCK nor in vm.hugetlb_shm_group)"
        }
        _ => "",
    }
}

#[derive(Debug)]
struct ServerMemoryPiece {
    segment: MappedSegment,
    page: PageSize,
}

#[derive(Debug)]
pub(super) struct ServerMemory {
    pieces: Vec<ServerMemoryPiece>,
    transparent: bool,
}

impl ServerMemory {
    pub(super) fn create(settings: &FakeServerSettings, threads: usize) -> Result<Self, NoMemory> {
        let page = settings.page;
        let wanted = page.pages_for(settings.size);
        let available = kernel_values::available_pages(page).unwrap_or_default();
        let huge = match settings.policy {
            LargePagePolicy::False => Bytes::ZERO,
            LargePagePolicy::Only if available < wanted => {
                let missing = wanted.saturating_sub(available);
                return Err(NoMemory::Pages { page, missing, wanted, available });
            }
            LargePagePolicy::Only => settings.size,
            LargePagePolicy::True | LargePagePolicy::Auto => {
                settings.size.min(available.to_bytes(page))
            }
        };
        let refused =
            |size, pages, error| NoMemory::Segment { kind: settings.kind, size, pages, error };
        let mut memory = Self { pieces: Vec::new(), transparent: settings.transparent };
        if huge > Bytes::ZERO {
            match MappedSegment::create(settings.kind, huge, SegmentPages::Huge(page)) {
                Ok(segment) => memory.pieces.push(ServerMemoryPiece { segment, page }),
                // Another process took them since the count, or this user may not have them.
                Err(_) if settings.policy != LargePagePolicy::Only => {}
                Err(error) => return Err(refused(huge, format!("pages of {page}"), error)),
            }
        }
        let rest = settings.size.saturating_sub(memory.huge_bytes());
        if rest > Bytes::ZERO {
            let segment = MappedSegment::create(settings.kind, rest, SegmentPages::Base)
                .map_err(|error| refused(rest, "base pages".into(), error))?;
            memory.pieces.push(ServerMemoryPiece { segment, page: base_page() });
        }
        for piece in &mut memory.pieces {
            // From here on it ends with the last process, even if that is killed.
            piece.segment.remove_at_last_detach();
        }
        memory.advise_thp();
        for piece in &memory.pieces {
            if settings.interleave {
                piece.segment.interleave_nodes(numa_node_mask()).map_err(NoMemory::Interleaving)?;
            }
            if settings.pre_touch != PreTouch::None {
                piece.segment.populate_pages(piece.page, threads).map_err(NoMemory::Touching)?;
            }
        }
        Ok(memory)
    }

    pub(super) fn huge_bytes(&self) -> Bytes {
        let huge = self.pieces.iter().filter(|piece| piece.page != base_page());
        huge.map(|piece| piece.segment.size()).sum()
    }

    pub(super) fn log_in(&mut self, settings: &FakeServerSettings) -> io::Result<()> {
        for piece in &mut self.pieces {
            piece.segment.attach_again()?;
        }
        self.advise_thp();
        for piece in &self.pieces {
            let touch = Touch {
                step: piece.page,
                percent: settings.touched_percent(),
                order: settings.order,
                access: settings.access,
            };
            // A session that is no longer wanted is killed.
            piece.segment.touch_pages(touch, || true);
        }
        Ok(())
    }

    /// Kernels without transparent huge pages refuse, and have none to keep away.
    fn advise_thp(&self) {
        for piece in self.pieces.iter().filter(|piece| piece.page == base_page()) {
            let _ = piece.segment.advise_transparent(self.transparent);
        }
    }
}

/// The NUMA nodes as a mask.
fn numa_node_mask() -> u64 {
    let source = hugewise_host::source::LiveSource::new();
    let mut door = hugewise_host::FactReader::new(&source);
    let ids =
        hugewise_host::kernel::nodes::read_node_ids(&mut door).into_known().unwrap_or_default();
    ids.into_iter().filter(|id| *id < u64::BITS).fold(0, |mask, id| mask | 1 << id)
}
