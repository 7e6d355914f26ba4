//! Where every server stands now, after its next restart, and after the next boot: worked out once for a host.
//!
//! A restart is reckoned for each server alone: the others go on holding what they hold, and take what they have yet to
//! take of it. A boot starts all of them, in an order that nobody knows: what stands here is the worst that any order brings.

mod booted;
mod claim;
pub(crate) mod cpuset;
mod default_size;
mod mount;
mod segments;
mod start;
pub(crate) mod startup;
mod ways;

use std::collections::BTreeMap;

use hugewise_model::vouch::Voucher;
use hugewise_model::{
    Asked, Bytes, Demand, Host, HugePageUse, Instance, InstanceId, LinkState, NextStart, PageCount, PageSize,
};

use crate::cgroup::{Limits, Shortage};
use crate::demand::is_gigantic;
use crate::given::{self, Given};
use crate::standing::{Standing, standing};
use crate::{Missing, boot, demand, mounts, stranger};

pub use crate::demand::{starting, starting_at_boot};
pub use claim::{Claim, to_come};
pub use default_size::other_default;
use segments::Segments;
use start::Supply;

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
        // One that stays down is told of whatever it has now.
        let fails = self.restart.standing == Standing::DoesNotStart && self.now.standing == Standing::Unknown;
        self.restart.is_worse_than(&self.now) || fails
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

/// All servers of a host at all moments.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    of: BTreeMap<InstanceId, Moments>,
    /// What is left of the pools for each server that asks and has not all.
    shares: BTreeMap<InstanceId, demand::Share>,
    /// What they want together, by page size.
    wants: BTreeMap<PageSize, PageCount>,
    /// What those ask for that belong to the host and do not run, by page size.
    asleep: BTreeMap<PageSize, PageCount>,
    /// What they will have of each pool.
    claims: BTreeMap<PageSize, Claim>,
    /// The hugetlb limits of cgroups, and who is held by them.
    limits: Limits,
    /// Servers whose restart or next boot may be denied their memory by the kernel, whatever is in the pools, and what by.
    denied: BTreeMap<InstanceId, Obstacle>,
}

impl Situation {
    /// One server's moments; none of a server that it was not worked out for.
    pub fn of(&self, instance: &Instance) -> Option<&Moments> {
        self.of.get(&instance.id())
    }

    /// The hugetlb limits of cgroups, and who is held by them.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What may deny a server its memory at its next restart or the next boot, whatever is in the pools: its right to System V
    /// huge pages, or the limits of System V segments. What is not known of them may.
    pub fn may_be_denied(&self, instance: &Instance) -> Option<Obstacle> {
        self.denied.get(&instance.id()).copied()
    }

    /// What is left of its pool for a server that asks and is not wholly on huge pages.
    pub fn share(&self, instance: &Instance) -> Option<&demand::Share> {
        self.shares.get(&instance.id())
    }

    /// Pages that servers which ask for them want beyond those that they hold.
    pub fn wanted(&self, page: PageSize) -> PageCount {
        self.wants.get(&page).copied().unwrap_or_default()
    }

    /// Pages that are kept for servers which belong to the host and do not run: they lie idle for nobody else.
    pub(crate) fn kept_for_asleep(&self, page: PageSize) -> PageCount {
        self.asleep.get(&page).copied().unwrap_or_default()
    }

    /// What servers have of a pool and ask for at their next start; none where the pool's counts are not known.
    pub fn claim(&self, page: PageSize) -> Option<&Claim> {
        self.claims.get(&page)
    }

    /// Whether a pool has not enough for this server and all that ask.
    pub(crate) fn is_short_of(&self, host: &Host, page: PageSize, instance: &Instance) -> bool {
        let all = self.wanted(page) + self.kept_for_asleep(page);
        let own = match self.share(instance) {
            Some(_) => PageCount::ZERO,
            None => demand::more(host, instance).map(|more| more.pages).unwrap_or_default(),
        };
        host.pool(page).and_then(demand::obtainable).unwrap_or_default() < all + own
    }
}

/// What a mount, or another default of page sizes, makes of a start.
enum Fit {
    /// It is as the server needs it, or the server needs none.
    Fits,
    /// It has pages of another size than the server would have now: what it asks for then, what brings that about, and what is
    /// in the way where these pages are not there.
    Moves(NextStart, String, Obstacle),
    /// What comes of it without a word to the pools.
    Ends(Outlook),
}

/// Works the moments out for all servers; linear in their number.
pub fn situation(host: &Host, instances: &[Instance]) -> Situation {
    let growth = growth(host, instances);
    let limits = Limits::of(host, instances);
    let boot = Boot::of(host, instances, &limits);
    let shm = segments::Limits::now(host);
    let mut denied = BTreeMap::new();
    let of = instances.iter().map(|instance| {
        let named = instance.vouchers.contains(&Voucher::Named);
        let now = standing(host, instance, named);
        let moments = match &now {
            Standing::NotCounted(_) => {
                let outlook = Outlook { why: None, standing: now, obstacle: None };
                Moments { now: outlook.clone(), restart: outlook.clone(), boot: outlook }
            }
            _ => {
                let (start, start_booted) = (starting(host, instance), starting_at_boot(host, instance));
                let after_stop = |page| {
                    let supply = after_stop(host, instance, page, &growth);
                    cpuset::after_stop(host, instance, page, supply)
                };
                let after_boot = |page| {
                    let supply = boot.supply(instance, page);
                    cpuset::after_boot(&boot.host, instance, page, supply)
                };
                let mounted = mount::now(host, instances, instance, &start);
                let will_be = mount::at_boot(&boot.host, instances, instance, &start_booted);
                let beside = host.base_page.get().map(|base| segments::of_others(host, instance, base));
                let beside = (beside.unwrap_or_default(), segments::counted(host, instance).0);
                let segments = segments::at_start(host, &shm, instance, &start, beside);
                let segments_booted = boot.segments(instance, &start_booted);
                let (restart, at_boot) = (given::at_restart(host, instance), given::at_boot(host, instance));
                let right = |host: &Host, given: &Given| start::right(host, instance, given).0 == LinkState::Ok;
                if !restart.all().all(|given| right(host, given))
                    || !at_boot.all().all(|given| right(&boot.host, given))
                {
                    denied.insert(instance.id(), Obstacle::Right);
                } else if segments != Segments::Fit || segments_booted != Segments::Fit {
                    denied.insert(instance.id(), Obstacle::Segments);
                }
                let alone = |demand: &Demand| limits.at_restart(instance, demand);
                let among_all = |demand: &Demand| boot.limited(&limits, instance, demand);
                let restarted = |given: &Given| {
                    let (limits, segments) = (&alone, &segments);
                    let around = Around { host, given, mounted: &mounted, limits, segments, supplies: &after_stop };
                    placed(instance, &start, &around)
                };
                let booted = |given: &Given| {
                    let (limits, segments) = (&among_all, &segments_booted);
                    let host = &boot.host;
                    let around = Around { host, given, mounted: &will_be, limits, segments, supplies: &after_boot };
                    placed(instance, &start_booted, &around)
                };
                Moments {
                    now: Outlook { why: why_now(host, &limits, instance, &now), standing: now, obstacle: None },
                    restart: startup::never(instance).unwrap_or_else(|| ways::settled(&restart, restarted)),
                    boot: startup::stays_down(instance).or_else(|| startup::never(instance)).unwrap_or_else(|| {
                        let booted = || ways::settled(&at_boot, booted);
                        startup::at_boot(instance, boot.without_its_mount(instance).unwrap_or_else(booted))
                    }),
                }
            }
        };
        (instance.id(), moments)
    });
    let of: BTreeMap<InstanceId, Moments> = of.collect();
    let known = stranger::known(instances);
    let shares = demand::shares(host, &known);
    let mut wants = BTreeMap::<PageSize, PageCount>::new();
    for share in &shares {
        let sum = wants.entry(share.page_size).or_default();
        *sum = *sum + share.wants;
    }
    let shares = shares.into_iter().map(|share| (share.instance.clone(), share)).collect();
    let mut asleep = BTreeMap::<PageSize, PageCount>::new();
    for pool in host.pools.known().into_iter().flatten() {
        let sleepers = known.iter().filter(|instance| instance.is_asleep());
        asleep.insert(pool.page_size, sleepers.map(|it| to_come(host, it, pool.page_size)).sum());
    }
    Situation { of, shares, wants, asleep, claims: claim::claims(host, instances), limits, denied }
}

/// What a start finds around it.
struct Around<'a> {
    host: &'a Host,
    given: &'a Given,
    mounted: &'a Fit,
    limits: start::Limited<'a>,
    segments: &'a Segments,
    /// What a pool has for it, and whether the nodes that it may use are what limits that.
    supplies: &'a dyn Fn(PageSize) -> (Supply, bool),
}

/// What comes of a start on the mount that it finds, and on the nodes that it may use; the supplies say whether these are
/// what limits them.
fn placed(instance: &Instance, start: &NextStart, around: &Around<'_>) -> Outlook {
    let (start, moved) = match around.mounted {
        Fit::Ends(outlook) if start.asks() => return outlook.clone(),
        Fit::Ends(_) | Fit::Fits => (start, None),
        Fit::Moves(start, what, obstacle) => (start, Some((what, *obstacle))),
    };
    let narrowed = std::cell::Cell::new(false);
    let supply = |page| {
        let (supply, by_nodes) = (around.supplies)(page);
        narrowed.set(narrowed.get() || by_nodes);
        supply
    };
    let mut outlook =
        start::outlook((around.host, around.given), instance, start, &supply, around.limits, around.segments);
    if outlook.obstacle != Some(Obstacle::Pages) {
        return outlook;
    }
    if narrowed.get() {
        outlook.obstacle = Some(Obstacle::Nodes);
    }
    if let Some((what, obstacle)) = moved {
        outlook.obstacle = Some(obstacle);
        outlook.why = outlook.why.map(|why| format!("{what}: {why}"));
    }
    outlook
}

fn why_now(host: &Host, limits: &Limits, instance: &Instance, now: &Standing) -> Option<String> {
    match now {
        Standing::Unknown => Some(demand::why_unknown(host, instance).to_string()),
        Standing::Partly | Standing::None => {
            let chain = crate::chain::chain(host, limits, instance)?;
            chain.broken().map(|link| format!("{}: {}", link.name.as_str(), link.evidence))
        }
        _ => None,
    }
}

/// Pages that servers which run wholly on huge pages have yet to take, by page size and server: a heap that grows.
struct Growth {
    all: BTreeMap<PageSize, PageCount>,
}

impl Growth {
    /// What others than this one have yet to take.
    fn of_others(&self, host: &Host, instance: &Instance, page: PageSize) -> PageCount {
        let all = self.all.get(&page).copied().unwrap_or_default();
        all.saturating_sub(grows_by(host, instance, page))
    }
}

fn growth(host: &Host, instances: &[Instance]) -> Growth {
    let mut all = BTreeMap::<PageSize, PageCount>::new();
    for instance in instances.iter().filter(|instance| instance.is_vouched()) {
        if let Some(page) = demand::page_size(host, instance) {
            let sum = all.entry(page).or_default();
            *sum = *sum + grows_by(host, instance, page);
        }
    }
    Growth { all }
}

fn grows_by(host: &Host, instance: &Instance, page: PageSize) -> PageCount {
    let held = demand::held(instance, page);
    if instance.huge_pages != HugePageUse::All || held == PageCount::ZERO {
        return PageCount::ZERO;
    }
    let demand = demand::of(host, instance).filter(|demand| demand.page_size == page);
    demand.map_or(PageCount::ZERO, |demand| demand.pages.saturating_sub(held))
}

/// What a server finds of a page size when it starts again after its own stop. Pages that the pool has beyond its size go
/// with whoever holds them.
fn after_stop(host: &Host, instance: &Instance, page: PageSize, growth: &Growth) -> Supply {
    let Some(pools) = host.pools.known() else {
        return Supply::Unknown(format!("/sys/kernel/mm/hugepages: {}", host.pools.reason().unwrap_or_default()));
    };
    let Some(pool) = pools.iter().find(|pool| pool.page_size == page) else {
        return Supply::None(format!("this kernel has no pool of {page} pages"));
    };
    let Some(available) = pool.available() else {
        return Supply::Unknown(format!("free pages of {page}: not known"));
    };
    let surplus = pool.surplus.get().unwrap_or_default();
    // No more comes back to the pool than is taken of it, whatever is mapped of its size: what another kernel, a capture in
    // pieces or a mapping without a reservation shows.
    let taken = pool.committed();
    let held = demand::held(instance, page);
    let held = taken.map_or(held, |taken| held.min(taken));
    let gone = surplus.min(held);
    let surplus_left = surplus.saturating_sub(gone);
    let on_demand = pool.overcommit.get().unwrap_or_default().saturating_sub(surplus_left);
    let room = available + held.saturating_sub(gone) + on_demand;
    let others = growth.of_others(host, instance, page);
    let note = match () {
        () if gone > PageCount::ZERO => {
            format!("; {gone} of those that it holds are surplus and go when it stops")
        }
        () if others > PageCount::ZERO => format!("; {others} are for servers that have yet to take them"),
        () => String::new(),
    };
    let pages = room.saturating_sub(others);
    Supply::Pages { pages, sure: pages, note, perhaps: None }
}

/// The pools of the next boot and who will ask for them.
struct Boot {
    /// The host as its settings will be.
    host: Host,
    /// What the files and the command line bring, with where that stands.
    pools: BTreeMap<PageSize, Result<(PageCount, String), Unforetold>>,
    /// What servers will ask for, by page size.
    asking: BTreeMap<PageSize, Vec<Asking>>,
    /// Base pages that servers will ask shmget for.
    segments: Vec<Asking>,
    /// How many segments those are.
    numbers: BTreeMap<InstanceId, u64>,
    /// What shmget goes by.
    shm: segments::Limits,
}

/// Why it is not foretold what a pool has after the next boot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unforetold {
    /// The boot is asked for so many that it may not come up.
    #[error("the next boot is asked for {asked} of huge pages, and there are {memory} of memory: it may not come up")]
    Crowded { asked: Bytes, memory: Bytes },
    #[error(transparent)]
    Missing(Missing),
}

/// One server's demand of a page size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asking {
    of: InstanceId,
    pages: PageCount,
    /// Takes what there is where that is not enough.
    takes_part: bool,
    /// Why it is not known whether it asks: of a server whose settings were not read, what it needs now may be what it asks
    /// for; none where it is known to.
    doubt: Option<Doubt>,
}

/// What is not known of a server that may ask at a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// What its settings ask for.
    Settings,
    /// Whether it is started at all.
    Start,
}

impl Asking {
    const fn is_sure(&self) -> bool {
        self.doubt.is_none()
    }

    /// What is not known of it, in words.
    fn in_words(&self) -> String {
        match self.doubt {
            Some(Doubt::Start) => format!("whether the boot starts {} is not known", self.of),
            Some(Doubt::Settings) | None => format!("what {} asks for at the boot is not known", self.of),
        }
    }
}

impl Asking {
    /// One of which nobody knows what it takes.
    fn any(instance: &Instance) -> Self {
        Self { of: instance.id(), pages: PageCount(u32::MAX.into()), takes_part: true, doubt: Some(Doubt::Settings) }
    }
}

/// Up to so many servers every order of their starts is looked at.
const EVERY_ORDER: usize = 16;

impl Boot {
    fn of(host: &Host, instances: &[Instance], limits: &Limits) -> Self {
        let there = host.pools.known().into_iter().flatten();
        let deadly = boot::crowding(host).ok().flatten().filter(|it| it.is_deadly);
        let pool = |page| match &deadly {
            Some(crowding) => Err(Unforetold::Crowded { asked: crowding.asked, memory: crowding.memory }),
            None => at_boot(host, page).map_err(Unforetold::Missing),
        };
        let pools = there.map(|it| (it.page_size, pool(it.page_size))).collect();
        let booted = booted::booted(host);
        let mut asking = BTreeMap::<PageSize, Vec<Asking>>::new();
        let (mut segments, mut numbers) = (Vec::new(), BTreeMap::new());
        for instance in instances.iter().filter(|instance| instance.is_vouched()) {
            let start = starting_at_boot(host, instance);
            if startup::never(instance).is_some() || instance.waits_for_hands() {
                continue;
            }
            if let Some(base) = host.base_page.get().filter(|_| segments::is_asked(instance)) {
                let pages = segments::wanted(&start, base);
                numbers.insert(instance.id(), segments::counted(host, instance).1);
                segments.push(Asking { of: instance.id(), pages, takes_part: false, doubt: None });
            }
            let is_told = start.asked != Asked::Unknown;
            let asks = !is_told || start.asks();
            if !asks || start::is_refused(&booted, instance, &given::at_boot(&booted, instance)) {
                continue;
            }
            let start = match mount::at_boot(&booted, instances, instance, &start) {
                Fit::Ends(outlook) => {
                    // It may take any of the size that is the default then.
                    let page = default_size::other_default(host, instance).filter(|_| outlook.rank().is_none());
                    let any = |page| asking.entry(page).or_default().push(Asking::any(instance));
                    page.into_iter().for_each(any);
                    continue;
                }
                Fit::Moves(start, ..) => start,
                Fit::Fits => start,
            };
            let now = if is_told { None } else { claim::of_unread(host, instance) };
            let doubt = match () {
                () if !is_told => Some(Doubt::Settings),
                () => (!startup::is_surely_started(instance)).then_some(Doubt::Start),
            };
            for demand in start.demands.iter().chain(&now) {
                let page = demand.page_size;
                let takes_part = start::takes_part(instance, &start);
                // Beyond what its own cgroup may have reserved it is refused, and takes a part of it or none.
                let pages = match limits.most_reserved(instance, page).filter(|most| *most < demand.pages) {
                    None => demand.pages,
                    Some(most) if takes_part && most >= segments::smallest_piece(instance, page) => most,
                    Some(_) => continue,
                };
                asking.entry(page).or_default().push(Asking { of: instance.id(), pages, takes_part, doubt });
            }
        }
        Self { shm: segments::Limits::at_boot(host), host: booted, pools, asking, segments, numbers }
    }

    /// A server whose memory is in files of a hugetlbfs that the boot does not mount: its files are ordinary ones then.
    fn without_its_mount(&self, instance: &Instance) -> Option<Outlook> {
        match mounts::lost(&self.host, instance) {
            Err(missing) => {
                Some(Outlook { standing: Standing::Unknown, why: Some(missing.to_string()), obstacle: None })
            }
            Ok(None) => None,
            Ok(Some(mount)) => {
                let why =
                    crate::words::one_line(&format!("no file has the boot mount the hugetlbfs on {}", mount.path));
                Some(Outlook { standing: Standing::None, why: Some(why), obstacle: Some(Obstacle::Mount) })
            }
        }
    }

    /// What shmget says, whoever was there before.
    fn segments(&self, instance: &Instance, start: &NextStart) -> Segments {
        let id = instance.id();
        let others: Vec<&Asking> = self.segments.iter().filter(|one| one.of != id).collect();
        let number =
            self.numbers.iter().filter(|(of, _)| **of != id).fold(0_u64, |sum, (_, it)| sum.saturating_add(*it));
        let others = (most_taken(&others, self.shm.all()), number);
        segments::at_start(&self.host, &self.shm, instance, start, others)
    }

    /// The worst limit of a cgroup that a demand meets, whoever starts before it.
    fn limited(&self, limits: &Limits, instance: &Instance, demand: &Demand) -> Result<Option<Shortage>, Missing> {
        let page = demand.page_size;
        let asking = self.asking.get(&page).map(Vec::as_slice).unwrap_or_default();
        let pool = self.pools.get(&page).and_then(|pool| pool.as_ref().ok()).map_or(PageCount::ZERO, |(pool, _)| *pool);
        let taken = |is_other: &dyn Fn(&InstanceId) -> bool, pool: PageCount| {
            let others: Vec<&Asking> = asking.iter().filter(|one| one.is_sure() && is_other(&one.of)).collect();
            most_taken(&others, pool)
        };
        limits.at_boot(instance, demand, pool, &taken)
    }

    /// The least that an instance may find, whoever starts before it.
    fn supply(&self, instance: &Instance, page: PageSize) -> Supply {
        let (pool, place) = match self.pools.get(&page) {
            Some(Ok(pool)) => pool,
            Some(Err(why)) => return Supply::Unknown(why.to_string()),
            None if self.host.pools.is_known() => {
                return Supply::None(format!("this kernel has no pool of {page} pages"));
            }
            None => {
                let reason = self.host.pools.reason().unwrap_or_default();
                return Supply::Unknown(format!("/sys/kernel/mm/hugepages: {reason}"));
            }
        };
        let own = instance.id();
        let all = self.asking.get(&page).map(Vec::as_slice).unwrap_or_default();
        let others: Vec<&Asking> = all.iter().filter(|one| one.of != own).collect();
        let perhaps = pool.saturating_sub(most_taken(&others, *pool));
        let open = others.iter().find(|one| !one.is_sure());
        let perhaps = open.map(|one| (perhaps, one.in_words()));
        let asking: Vec<&Asking> = all.iter().filter(|one| one.is_sure() || one.of == own).collect();
        let others: Vec<&Asking> = asking.iter().copied().filter(|one| one.of != own).collect();
        // What nobody has seen start may need a few more than are asked for.
        let perhaps_own = instance.perhaps.iter().filter(|it| it.page_size == page && instance.is_asleep());
        let asked_own: PageCount = asking.iter().filter(|one| one.of == own).map(|one| one.pages).sum();
        let own_most = asked_own.max(perhaps_own.map(|demand| demand.pages).sum());
        let all = others.iter().map(|one| one.pages).sum::<PageCount>() + own_most;
        if *pool == PageCount::ZERO {
            return Supply::Pages { pages: *pool, sure: *pool, note: format!(" ({place})"), perhaps: None };
        }
        let left = |pool: PageCount| {
            if all <= pool { pool } else { pool.saturating_sub(most_taken(&others, pool)) }
        };
        let note = if all <= *pool || others.is_empty() {
            format!(" ({place})")
        } else {
            let (servers, all) = (asking.len(), asking.iter().map(|one| one.pages).sum::<PageCount>());
            format!(
                " of the {pool} that the boot brings ({place}), where others start first: {servers} servers ask for {all}"
            )
        };
        let sure = if is_gigantic(page) {
            let early = boot::reserved_early(&self.host, page).map(|(pages, _)| pages).unwrap_or_default();
            left(early.min(*pool))
        } else {
            left(*pool)
        };
        Supply::Pages { pages: left(*pool), sure, note, perhaps }
    }
}

/// The most that these may have taken of a pool, in whatever order they came.
fn most_taken(others: &[&Asking], pool: PageCount) -> PageCount {
    if others.iter().any(|one| one.takes_part && one.pages >= pool) {
        return pool;
    }
    let fitting: Vec<PageCount> = others.iter().map(|one| one.pages).filter(|pages| *pages <= pool).collect();
    let sum: PageCount = fitting.iter().copied().sum();
    if sum <= pool {
        return sum;
    }
    if others.iter().any(|one| one.takes_part) || fitting.len() > EVERY_ORDER {
        return pool;
    }
    let mut sums = std::collections::BTreeSet::from([PageCount::ZERO]);
    for pages in fitting {
        let more: Vec<PageCount> = sums.iter().map(|sum| *sum + pages).filter(|sum| *sum <= pool).collect();
        sums.extend(more);
    }
    sums.last().copied().unwrap_or_default()
}

/// Pages of a size that the pool may grow by on demand after the next boot.
pub(crate) fn on_demand_at_boot(host: &Host, page: PageSize) -> PageCount {
    let steps = boot::overcommit(host, page).unwrap_or_default();
    steps.last().map(|step| PageCount(step.value)).unwrap_or_default()
}

/// Pages of a size after the next boot, on demand ones among them, and where that stands.
fn at_boot(host: &Host, page: PageSize) -> Result<(PageCount, String), Missing> {
    let steps = boot::pool(host, page)?;
    let (set, place) = match steps.last() {
        Some(step) => (PageCount(step.value), step.place.clone()),
        None => (PageCount::ZERO, boot::nothing_sets(host)),
    };
    let on_demand = on_demand_at_boot(host, page);
    let memory = boot::memory(host).ok();
    let carried = memory.map_or(set, |memory| set.min(PageCount(memory.get() / page.bytes().get())));
    Ok((carried + on_demand, place))
}

#[cfg(test)]
mod asleep;
#[cfg(test)]
mod tests;
