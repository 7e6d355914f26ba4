//! Servers that no pages are planned for, and page sizes that they are not planned on.

use hugewise_model::instance::ServerSetting;
use hugewise_model::{Bytes, Demand, InstanceId, PageSize};

use crate::wording::shell_word;

/// 1 GiB pages are worth a thought from here on: below, one buffer of 2 MiB entries (1536 of them
/// reach 3 GiB) covers a good part, and the last page is a large part of the whole.
pub(super) const GIB_PAGES_FROM: Bytes = Bytes::from_gib(64);

/// And only where rounding wastes no more than this part.
pub(super) const GIB_PAGES_WASTE: f64 = 0.01;

/// A server that no pages are planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnplannedServer {
    /// Which.
    pub instance: InstanceId,
    /// Why.
    pub why: Unplanned,
}

/// Why no pages are planned for a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unplanned {
    /// Nothing vouches for it.
    #[error("{why}; --instance {} sizes it", shell_word(.handle))]
    Stranger {
        /// What it lacks.
        why: String,
        /// How people name it.
        handle: String,
    },
    /// It does not run, and who wants it starts it by hand.
    #[error(
        "it is not running, and the boot does not start it ({why}); --instance {} sizes it",
        shell_word(.handle)
    )]
    Waits {
        /// Why the boot does not start it.
        why: String,
        /// How people name it.
        handle: String,
    },
    /// Its settings of the next start rule huge pages out: the one that does, where it is known.
    #[error("its next start cannot have huge pages{}", .0.as_ref().map(|server_setting| format!(" ({server_setting})")).unwrap_or_default())]
    Cannot(Option<ServerSetting>),
    /// Oracle's automatic memory management; what it needs without, where anybody may take it off.
    #[error("automatic memory management: an SGA in /dev/shm cannot use huge pages{}", off_amm(.0.as_ref()))]
    Amm(Option<Demand>),
    /// Memory of a kind that no pool serves.
    #[error("this memory cannot use huge pages from a pool")]
    NoWay,
    /// It is on transparent huge pages by choice.
    #[error("it takes transparent huge pages by its own settings")]
    TransparentPages,
    /// The page size is not known.
    #[error("the page size that it asks for is not known")]
    PageSizeUnknown,
    /// Of a size that the host does not have.
    #[error("its settings ask for pages of {0}, which this host does not offer")]
    NotOffered(PageSize),
    /// Its files keep it from starting.
    #[error("its files keep it from starting: {0}")]
    Refuses(String),
    /// How much it needs is not known.
    #[error("neither its segments nor its demand are known")]
    DemandUnknown,
    /// It does not ask, and is small.
    #[error("its settings do not ask for huge pages, and {0} is little")]
    Little(Bytes),
    /// The hugetlb limit of its cgroup is below what it needs.
    #[error(
        "the hugetlb {file} of its cgroup {path} is {limit}, and {}: raise that first",
        who_needs(*.servers, *.needed)
    )]
    Cgroup {
        /// Name of the limit's file in version 2.
        file: &'static str,
        /// Path of the cgroup.
        path: String,
        /// The limit.
        limit: Bytes,
        /// Servers that it holds, this one among them.
        servers: usize,
        /// What they need together.
        needed: Bytes,
    },
}

impl Unplanned {
    /// Why a plan has no pages for it, without how people would have it sized all the same.
    pub fn reason(&self) -> String {
        match self {
            Self::Stranger { why, .. } => why.clone(),
            Self::Waits { why, .. } => {
                format!("it is not running, and the boot does not start it ({why})")
            }
            other => other.to_string(),
        }
    }
}

fn off_amm(then: Option<&Demand>) -> String {
    then.map(|demand| format!("; off it, it needs {}", demand.pages.in_pages_of(demand.page_size)))
        .unwrap_or_default()
}

fn who_needs(servers: usize, needed: Bytes) -> String {
    match servers {
        1 => format!("it needs {needed}"),
        servers => format!("{servers} servers in it need {needed}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(super) enum NoGibPages {
    #[error("this host does not offer them")]
    NotOffered,
    #[error("this processor has no 1 GiB pages (pdpe1gb)")]
    Processor,
    #[error("{0}")]
    Engine(&'static str),
    #[error("its largest segment is below {GIB_PAGES_FROM}")]
    Small,
    /// This part of its memory would be lost.
    #[error("{:.1} % would be lost to rounding", .0 * 100.0)]
    Waste(f64),
}
