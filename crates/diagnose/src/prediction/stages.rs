//! The times that a host is looked at for, and how a server stands at each.

use std::fmt::Display;

use crate::coverage::Coverage;
use crate::wording::one_line;

/// A time that a host is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PredictionStage {
    /// As it runs.
    Now,
    /// After the server is restarted, and nothing else is done.
    Restart,
    /// After the host is booted, and nothing else is done.
    Boot,
}

impl PredictionStage {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Now, Self::Restart, Self::Boot];

    /// Name in text and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Restart => "restart",
            Self::Boot => "reboot",
        }
    }
}

/// How a server stands at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageForecast {
    /// In one word.
    pub coverage: Coverage,
    /// What that rests on: `needs 627 pages of 2 MiB, and finds 300`. Of one that has all, the limit
    /// that kills it when it touches more.
    pub why: Option<String>,
    /// What is in its way, or endangers it once it runs, where that is known.
    pub obstacle: Option<Obstacle>,
}

/// What keeps a server from its huge pages at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its settings.
    Settings,
    /// The right to System V huge pages.
    Right,
    /// The hugetlb limit of its cgroup.
    Cgroup,
    /// kernel.shmmax, kernel.shmall or kernel.shmmni.
    Segments,
    /// The mount of a hugetlbfs: there is none.
    Mount,
    /// The page size or the largest size of the hugetlbfs that is mounted.
    MountOptions,
    /// The default size of huge pages that the boot has, for one whose settings name none.
    DefaultSize,
    /// The nodes that its cpuset allows.
    Nodes,
    /// Pages of the pool.
    Pages,
    /// Pages of the pool that programs which are no known servers may take first.
    Strangers,
    /// The memlock limit, for one that locks its memory as it starts.
    Lock,
    /// What starts it refuses to.
    Start,
}

impl StageForecast {
    pub(super) const ALL: Self = Self { coverage: Coverage::All, why: None, obstacle: None };

    pub(super) fn blocked(coverage: Coverage, obstacle: Obstacle, why: impl Display) -> Self {
        Self { coverage, why: Some(one_line(&why.to_string())), obstacle: Some(obstacle) }
    }

    pub(super) fn unknown(why: impl Display) -> Self {
        let why = Some(one_line(&why.to_string()));
        Self { coverage: Coverage::Unknown, why, obstacle: None }
    }

    /// From worst to best, as far as it is known: does not start, none, partly, all.
    pub const fn rank(&self) -> Option<u8> {
        match self.coverage {
            Coverage::DoesNotStart => Some(0),
            Coverage::None => Some(1),
            Coverage::Partly => Some(2),
            Coverage::All => Some(3),
            Coverage::Unknown | Coverage::NotRunning | Coverage::NotCounted(_) => None,
        }
    }

    /// Whether something else than the pool or the server's settings keeps huge pages from a start,
    /// or the start itself: a restart alone helps nothing then, and HW210 speaks.
    pub(crate) fn outlasts_restart(&self) -> bool {
        let stays = |obstacle| !matches!(obstacle, Obstacle::Pages | Obstacle::Settings);
        self.obstacle.is_some_and(stays) && self.rank().is_none_or(|rank| rank < 3)
    }

    /// Whether a server stands worse here than there; not where either is unknown.
    pub fn is_worse_than(&self, other: &Self) -> bool {
        matches!((self.rank(), other.rank()), (Some(here), Some(there)) if here < there)
    }
}

/// One server at all moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageForecasts {
    /// As it runs.
    pub now: StageForecast,
    /// After its restart.
    pub restart: StageForecast,
    /// After the next boot.
    pub boot: StageForecast,
}

impl StageForecasts {
    /// Whether a restart takes huge pages from it.
    pub fn loses_at_restart(&self) -> bool {
        // One that stays down is told of, whatever it has now.
        let is_open = matches!(self.now.coverage, Coverage::Unknown | Coverage::NotCounted(_));
        let fails = self.restart.coverage == Coverage::DoesNotStart && is_open;
        self.restart.is_worse_than(&self.now) || fails
    }

    /// Whether an estimate leaves it open that a restart or the next boot finds it too few pages.
    pub(crate) fn may_lack_pages(&self) -> bool {
        [&self.restart, &self.boot].into_iter().any(|forecast| {
            forecast.coverage == Coverage::Unknown && forecast.obstacle == Some(Obstacle::Pages)
        })
    }

    /// Whether the next boot takes huge pages that a restart, or else its running, leaves it.
    pub fn loses_at_boot(&self) -> bool {
        let before = if self.restart.rank().is_some() { &self.restart } else { &self.now };
        let fails =
            self.boot.coverage == Coverage::DoesNotStart && before.coverage == Coverage::Unknown;
        self.boot.is_worse_than(before) || fails || self.fails_where_it_never_ran()
    }

    /// Whether the boot starts a server that does not run, without all its huge pages.
    fn fails_where_it_never_ran(&self) -> bool {
        let well = self.boot.rank().is_none_or(|rank| rank == 3);
        self.now.coverage == Coverage::NotRunning && !well
    }

    /// The outlook at a moment.
    pub const fn at_stage(&self, moment: PredictionStage) -> &StageForecast {
        match moment {
            PredictionStage::Now => &self.now,
            PredictionStage::Restart => &self.restart,
            PredictionStage::Boot => &self.boot,
        }
    }
}
