//! The times that a host is looked at for, and how a server stands at each.

use crate::standing::Standing;

/// A time that a host is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// As it runs.
    Now,
    /// After the server is restarted, and nothing else is done.
    Restart,
    /// After the host is booted, and nothing else is done.
    Boot,
}

impl Moment {
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
pub struct Outlook {
    /// In one word.
    pub standing: Standing,
    /// What that rests on, where it is not all: `needs 627 pages of 2 MiB, and finds 300`.
    pub why: Option<String>,
    /// What is in its way, where that is known.
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
    /// The memlock limit, for one that locks its memory as it starts.
    Lock,
    /// What starts it refuses to.
    Start,
}

impl Outlook {
    /// Whether it is the right to huge pages that is missing.
    pub(crate) fn lacks_right(&self) -> bool {
        self.obstacle == Some(Obstacle::Right)
    }

    /// From worst to best, as far as it is known: does not start, none, partly, all.
    pub const fn rank(&self) -> Option<u8> {
        match self.standing {
            Standing::DoesNotStart => Some(0),
            Standing::None => Some(1),
            Standing::Partly => Some(2),
            Standing::All => Some(3),
            Standing::Unknown | Standing::NotRunning | Standing::NotCounted(_) => None,
        }
    }

    /// Whether a server stands worse here than there; not where either is unknown.
    pub fn is_worse_than(&self, other: &Self) -> bool {
        matches!((self.rank(), other.rank()), (Some(here), Some(there)) if here < there)
    }
}

/// One server at all moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    /// As it runs.
    pub now: Outlook,
    /// After its restart.
    pub restart: Outlook,
    /// After the next boot.
    pub boot: Outlook,
}

impl Moments {
    /// Whether a restart takes huge pages from it.
    pub fn loses_at_restart(&self) -> bool {
        // One that stays down is told of whatever it has now, and though it counts for nothing as it runs.
        let is_open = matches!(self.now.standing, Standing::Unknown | Standing::NotCounted(_));
        let fails = self.restart.standing == Standing::DoesNotStart && is_open;
        self.restart.is_worse_than(&self.now) || fails
    }

    /// Whether an estimate leaves it open that a restart or the next boot finds it too few pages.
    pub(crate) fn may_lack_pages(&self) -> bool {
        let open = |it: &Outlook| it.standing == Standing::Unknown && it.obstacle == Some(Obstacle::Pages);
        open(&self.restart) || open(&self.boot)
    }

    /// Whether the next boot takes huge pages from it that a restart would leave it; where what comes of a restart is not
    /// known, such as it has now.
    pub fn loses_at_boot(&self) -> bool {
        let before = if self.restart.rank().is_some() { &self.restart } else { &self.now };
        let fails = self.boot.standing == Standing::DoesNotStart && before.standing == Standing::Unknown;
        self.boot.is_worse_than(before) || fails || self.fails_where_it_never_ran()
    }

    /// Whether the boot starts a server that does not run, and it comes out of that without all its huge pages.
    fn fails_where_it_never_ran(&self) -> bool {
        let well = self.boot.rank().is_none_or(|rank| rank == 3);
        self.now.standing == Standing::NotRunning && !well
    }

    /// The outlook at a moment.
    pub const fn at(&self, moment: Moment) -> &Outlook {
        match moment {
            Moment::Now => &self.now,
            Moment::Restart => &self.restart,
            Moment::Boot => &self.boot,
        }
    }
}
