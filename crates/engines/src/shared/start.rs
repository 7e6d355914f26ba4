//! What a start of a server does, as far as its kind decides.

use hugewise_model::instance::ServerSetting;
use hugewise_model::{Bytes, Host, HugePageMode, Instance, PageCount, PageSize, Process};

/// How servers of a kind start.
pub struct StartBehavior {
    /// What one takes of a pool that is too small, where it goes without the rest.
    pub takes: fn(&Instance) -> Takes,
    /// Its memory may grow later: what it begins with decides whether that is on huge pages.
    pub grows: fn(&Instance) -> bool,
    /// How many of these pages it begins with, where its settings say so.
    pub begins_with: fn(&Instance, PageSize, PageCount) -> Option<PageCount>,
    /// It starts without huge pages where the pool has none, whatever its settings insist on.
    pub goes_without_any: fn(&Instance) -> bool,
    /// Whether it looks for that at a page of the host's default size, whatever it asks for then.
    pub tries_default_page: fn(&Instance) -> bool,
    /// Whether its settings contradict each other and keep it from starting.
    pub refuses: fn(&Instance, HugePageMode) -> bool,
    /// Pages that should stay free beyond its demand.
    pub spare: PageCount,
    /// The stretches that its next start asks for in turn, each whole or not at all, if known.
    pub stretches: fn(&Instance, PageSize) -> Option<Vec<MemoryStretch>>,
    /// The smaller size on which it asks again for a stretch that it is refused on this one.
    pub asks_again: fn(&Instance, PageSize) -> Option<PageSize>,
    /// Pages that another start with the same settings may take beyond what is mapped.
    pub by_chance: fn(&Instance, PageSize) -> PageCount,
    /// It checks its memlock limit itself, whatever this kernel makes of it.
    pub minds_memlock: bool,
    /// Its memory is always System V's: it does not start without segments.
    pub only_shm: bool,
    /// It raises kernel.shmmax, shmall and shmmni to what it needs before it asks for segments.
    pub raises_shm_limits: bool,
    /// Whether this setting refuses a start where the server cannot raise the pool itself.
    pub raises_or_fails: fn(&ServerSetting) -> bool,
    /// One stretch, rounded up to whole pages of whatever size the default is.
    pub any_page_size: bool,
    /// It cannot work with this page size as the host's default.
    pub not_with_default: Option<PageSize>,
    /// How much of so many bytes on huge pages it touches before it is up.
    pub touches: fn(&Instance, Bytes) -> TouchedAtStart,
}

/// What a server touches of its memory before it is up: a hugetlb limit on faults counts that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchedAtStart {
    /// All of it.
    All,
    /// No more than this.
    AtMost(Bytes),
    /// Something, and nobody has measured how much.
    Unmeasured,
}

/// Pages of one stretch of memory, which a server has whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStretch {
    /// At least so many.
    pub least: PageCount,
    /// At most so many.
    pub most: PageCount,
    /// Asks for huge pages only where the last stretch before it that does not follow has got them.
    pub follows: bool,
    /// The server does not start where it has some huge pages and not these.
    pub is_essential: bool,
}

/// What a server takes of a pool that is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All or nothing.
    All,
    /// Piece by piece, each at most as large as this.
    Pieces(Bytes),
    /// Segment by segment, each whole.
    Segments,
}

impl StartBehavior {
    pub(crate) const PLAIN: Self = Self {
        takes: |_| Takes::All,
        grows: |_| false,
        begins_with: |_, _, _| None,
        asks_again: |_, _| None,
        goes_without_any: |_| false,
        tries_default_page: |_| false,
        refuses: |_, _| false,
        spare: PageCount::ZERO,
        stretches: |_, _| None,
        by_chance: |_, _| PageCount::ZERO,
        minds_memlock: false,
        only_shm: false,
        raises_shm_limits: false,
        raises_or_fails: |_| false,
        any_page_size: false,
        not_with_default: None,
        touches: |_, _| TouchedAtStart::Unmeasured,
    };
}

impl StartBehavior {
    pub(crate) const SYSTEM_V: Self =
        Self { takes: |_| Takes::Segments, only_shm: true, ..Self::PLAIN };
}

/// A program of root's that restarts one server of a kind, where no unit does.
pub struct Restarter {
    /// Its name.
    pub program: &'static str,
    /// Its arguments for a server that it knows.
    pub arguments: fn(&Instance) -> Option<Vec<String>>,
    /// Whether a plan may run it with these.
    pub allows: fn(&[&str]) -> bool,
}

/// Who restarts a server, where its service does not.
pub struct ExternalStarter {
    /// Who has to do it, in words: `Oracle's own tools have to do it`.
    pub whose: &'static str,
    /// What starts it by itself, in words: `Clusterware`.
    pub by: &'static str,
    /// What a person does: commands, and `#` lines between them.
    pub how: fn(&Host, &Instance) -> Vec<String>,
    /// What a person does about a limit that the host's files do not set: `#` lines and commands.
    pub limits: fn(&Host, &Instance) -> Option<Vec<String>>,
    /// The process that starts it and whose limits it has, if one runs.
    pub agent: for<'a> fn(&'a Host, &Instance) -> Option<&'a Process>,
}
