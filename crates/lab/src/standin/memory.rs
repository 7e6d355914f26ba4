//! The server's memory: one segment, or two where huge pages reach for a part.

use std::io;

use hugewise_model::{Bytes, PageCount, PageSize};

use super::{Policy, PreTouch, Settings};
use crate::segment::{Kind, Pages, Segment};
use crate::touch::Touch;
use crate::values;
use crate::variant::base_page;

/// Why the memory cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoMemory {
    #[error("{missing} pages of {page} are missing: {wanted} needed, {available} available")]
    Pages { page: PageSize, missing: PageCount, wanted: PageCount, available: PageCount },
    #[error("a segment of {size} on {pages}: {error}{}", limit(*kind, error))]
    Segment { kind: Kind, size: Bytes, pages: String, error: io::Error },
    #[error("interleaving over NUMA nodes: {0}")]
    Interleaving(io::Error),
    #[error("touching the segment: {0}")]
    Touching(io::Error),
}

/// The limit that stands behind the kernel's number.
fn limit(kind: Kind, error: &io::Error) -> &'static str {
    match (kind, error.raw_os_error()) {
        (Kind::SystemV, Some(libc::EINVAL)) => " (kernel.shmmax?)",
        (Kind::SystemV, Some(libc::ENOSPC)) => " (kernel.shmall or kernel.shmmni?)",
        (Kind::SystemV, Some(libc::EPERM)) => " (neither CAP_IPC_LOCK nor in vm.hugetlb_shm_group)",
        _ => "",
    }
}

/// One piece of the server's memory.
#[derive(Debug)]
struct Piece {
    segment: Segment,
    page: PageSize,
}

/// The server's memory.
#[derive(Debug)]
pub(super) struct Memory {
    pieces: Vec<Piece>,
    transparent: bool,
}

impl Memory {
    /// Asks for it as the settings say, and touches it where the creator has to.
    ///
    /// # Errors
    /// Which limit or how many pages are in the way.
    pub(super) fn create(settings: &Settings, threads: usize) -> Result<Self, NoMemory> {
        let page = settings.page;
        let wanted = page.pages_for(settings.size);
        let available = values::available(page).unwrap_or_default();
        let huge = match settings.policy {
            Policy::False => Bytes::ZERO,
            Policy::Only if available < wanted => {
                let missing = wanted.saturating_sub(available);
                return Err(NoMemory::Pages { page, missing, wanted, available });
            }
            Policy::Only => settings.size,
            Policy::True | Policy::Auto => settings.size.min(available.of(page)),
        };
        let refused = |size, pages, error| NoMemory::Segment { kind: settings.kind, size, pages, error };
        let mut memory = Self { pieces: Vec::new(), transparent: settings.transparent };
        if huge > Bytes::ZERO {
            match Segment::create(settings.kind, huge, Pages::Huge(page)) {
                Ok(segment) => memory.pieces.push(Piece { segment, page }),
                // Another has taken them since they were counted, or this user may not have them.
                Err(_) if settings.policy != Policy::Only => {}
                Err(error) => return Err(refused(huge, format!("pages of {page}"), error)),
            }
        }
        let rest = settings.size.saturating_sub(memory.huge());
        if rest > Bytes::ZERO {
            let segment = Segment::create(settings.kind, rest, Pages::Base)
                .map_err(|error| refused(rest, "base pages".into(), error))?;
            memory.pieces.push(Piece { segment, page: base_page() });
        }
        for piece in &mut memory.pieces {
            // From here on it goes with the last process, and needs nobody to clean up after a kill.
            piece.segment.remove_at_last_detach();
        }
        memory.advise();
        for piece in &memory.pieces {
            if settings.interleave {
                piece.segment.interleave(nodes()).map_err(NoMemory::Interleaving)?;
            }
            if settings.pre_touch != PreTouch::None {
                piece.segment.populate(piece.page, threads).map_err(NoMemory::Touching)?;
            }
        }
        Ok(memory)
    }

    /// How much of it is on huge pages.
    pub(super) fn huge(&self) -> Bytes {
        let huge = self.pieces.iter().filter(|piece| piece.page != base_page());
        huge.map(|piece| piece.segment.size()).sum()
    }

    /// Maps it anew, as a session that has just started does, and touches its part.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn log_in(&mut self, settings: &Settings) -> io::Result<()> {
        for piece in &mut self.pieces {
            piece.segment.attach_again()?;
        }
        self.advise();
        for piece in &self.pieces {
            let touch =
                Touch { step: piece.page, percent: settings.touched(), order: settings.order, access: settings.access };
            // A session that is no longer wanted is killed.
            piece.segment.touch_pages(touch, || true);
        }
        Ok(())
    }

    /// Kernels without transparent huge pages refuse, and have nothing to keep away.
    fn advise(&self) {
        for piece in self.pieces.iter().filter(|piece| piece.page == base_page()) {
            let _ = piece.segment.transparent(self.transparent);
        }
    }
}

/// The NUMA nodes that have memory, as a mask.
fn nodes() -> u64 {
    let source = hugewise_host::source::Live::new();
    let mut door = hugewise_host::Door::new(&source);
    let ids = hugewise_host::kernel::nodes::ids(&mut door).into_known().unwrap_or_default();
    ids.into_iter().filter(|id| *id < u64::BITS).fold(0, |mask, id| mask | 1 << id)
}
