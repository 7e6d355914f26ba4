//! What comes of a start of a server, as far as that hangs on its kind.

use hugewise_model::instance::Setting;
use hugewise_model::{Asked, Bytes, Host, Instance, PageCount, PageSize, Process};

/// How servers of a kind start.
pub struct Start {
    /// What one takes of a pool that has not enough for it, where it goes without what it lacks.
    pub takes: fn(&Instance) -> Takes,
    /// Its memory may grow after the start: what it begins with decides whether that is on huge pages.
    pub grows: bool,
    /// How much of so many pages it begins with, where its settings say so.
    pub begins_with: fn(&Instance, PageSize, PageCount) -> Option<PageCount>,
    /// It goes without where the pool has not one page, whatever its settings insist on.
    pub goes_without_any: bool,
    /// Whether its settings, that ask so, keep it from starting at all: they contradict each other.
    pub refuses: fn(&Instance, Asked) -> bool,
    /// Pages that should stay free beyond its demand.
    pub spare: PageCount,
    /// The stretches that its next start asks for one after the other, each whole or not at all; none where they are not known.
    pub stretches: fn(&Instance, PageSize) -> Option<Vec<Stretch>>,
    /// What another start with the same settings may take beyond what the server has mapped, in pages of a size.
    pub by_chance: fn(&Instance, PageSize) -> PageCount,
    /// It looks at its memlock limit itself, whatever this kernel makes of it.
    pub minds_memlock: bool,
    /// Its memory is System V's whatever pages it is on: without segments it does not start.
    pub only_shm: bool,
    /// Whether this setting of one that raises the pool itself has it refuse a start where that fails; it takes what there is
    /// otherwise.
    pub raises_or_fails: fn(&Setting) -> bool,
    /// One stretch, rounded up to whole pages of whatever size the default is.
    pub any_page_size: bool,
    /// It cannot do with this page size where it is the host's default.
    pub not_with_default: Option<PageSize>,
}

/// Pages of one stretch of memory, which a server has whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// At least so many.
    pub least: PageCount,
    /// At most so many.
    pub most: PageCount,
    /// Huge pages are asked for only where the last one before it that does not follow another has got them.
    pub follows: bool,
}

/// What a server takes of a pool that has not enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All or nothing.
    All,
    /// Piece by piece, each at most as large as this.
    Pieces(Bytes),
    /// Segment by segment, each whole.
    Segments,
}

impl Start {
    /// One stretch, all or nothing.
    pub(crate) const PLAIN: Self = Self {
        takes: |_| Takes::All,
        grows: false,
        begins_with: |_, _, _| None,
        goes_without_any: false,
        refuses: |_, _| false,
        spare: PageCount::ZERO,
        stretches: |_, _| None,
        by_chance: |_, _| PageCount::ZERO,
        minds_memlock: false,
        only_shm: false,
        raises_or_fails: |_| false,
        any_page_size: false,
        not_with_default: None,
    };
}

/// A program of root's that restarts one server of a kind and nothing else, where no unit of its own does.
pub struct Restarter {
    /// Its name.
    pub program: &'static str,
    /// Its arguments for a server that it knows; none for any other.
    pub arguments: fn(&Instance) -> Option<Vec<String>>,
    /// Whether a plan may run it with these.
    pub allows: fn(&[&str]) -> bool,
}

/// Who restarts a server, where it is not the service that it runs in.
pub struct Starter {
    /// Whose affair it is, in words: `Oracle's own tools have to do it`.
    pub whose: &'static str,
    /// What starts it by itself, in words: `Clusterware`.
    pub by: &'static str,
    /// What a person does then: commands, and `#` lines between them.
    pub how: fn(&Host, &Instance) -> Vec<String>,
    /// What a person does about a limit where it is started with limits that the host's files don't reach: `#` lines and
    /// commands. None where they do.
    pub limits: fn(&Host, &Instance) -> Option<Vec<String>>,
    /// The process that starts it then, and whose limits it has: none where none runs.
    pub agent: for<'a> fn(&'a Host, &Instance) -> Option<&'a Process>,
}
