//! Where every server stands now, after its next restart, and after the next boot: worked out once for a host.
//!
//! A restart is reckoned for each server alone: the others go on holding what they hold, and take what they have yet to
//! take of it. A boot starts all of them, in an order that nobody knows: what stands here is the worst that any order brings.

mod booted;
mod claim;
pub(crate) mod cpuset;
mod default_size;
mod locking;
mod moments;
mod mount;
mod next_boot;
mod segments;
mod start;
pub(crate) mod startup;
mod supply;
mod ways;

use std::cell::RefCell;
use std::collections::BTreeMap;

use hugewise_model::vouch::Voucher;
use hugewise_model::{Demand, Host, Instance, InstanceId, LinkState, NextStart, PageCount, PageSize};

use crate::cgroup::Limits;
use crate::given::{self, Given};
use crate::locked::Locked;
use crate::standing::{Standing, standing};
use crate::{demand, stranger};

pub use crate::demand::{starting, starting_at_boot};
pub use claim::{Claim, to_come};
pub use default_size::{all_leave, arriving, asks_by_default, at_other_default, other_default};
pub use moments::{Moment, Moments, Obstacle, Outlook};
use next_boot::NextBoot;
use segments::Segments;
use start::Ground;
use supply::Supply;

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
    /// What memlock limits have to allow.
    locked: Locked,
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

    /// What memlock limits have to allow, as far as the next restart is concerned.
    pub const fn locked(&self) -> &Locked {
        &self.locked
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
        // Whoever starts again for them gives back what it has on base pages.
        let there = host.pool(page).and_then(|pool| demand::obtainable(host, pool, (all + own).of(page)));
        there.unwrap_or_default() < all + own
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

/// Whether a server's files have it ask for huge pages, otherwise than it runs.
fn will_ask(instance: &Instance) -> bool {
    [instance.coming(), instance.at_boot.known()].into_iter().flatten().any(NextStart::asks)
}

/// Works the moments out for all servers; linear in their number.
pub fn situation(host: &Host, instances: &[Instance]) -> Situation {
    let growth = supply::growth(host, instances);
    let limits = Limits::of(host, instances);
    let locked = Locked::of(host, instances);
    let boot = NextBoot::of(host, instances, &limits);
    let shm = segments::Limits::now(host);
    let locked_booted = Locked::of(&boot.host, instances);
    let mut denied = BTreeMap::new();
    let of = instances.iter().map(|instance| {
        let named = instance.vouchers.contains(&Voucher::Named);
        let now = standing(host, instance, named);
        let moments = match &now {
            // One that its files have ask from its next start on counts then.
            Standing::NotCounted(_) if !will_ask(instance) => {
                let outlook = Outlook { why: None, standing: now, obstacle: None };
                Moments { now: outlook.clone(), restart: outlook.clone(), boot: outlook }
            }
            _ => {
                let (start, start_booted) = (starting(host, instance), starting_at_boot(host, instance));
                let after_stop = |page| {
                    let supply = supply::after_stop(host, instance, page, &growth);
                    cpuset::after_stop(host, instance, page, supply)
                };
                // Every other server counts in it, and a start asks for it more than once.
                let booted = RefCell::new(BTreeMap::new());
                let after_boot = |page| {
                    let supply = || cpuset::after_boot(&boot.host, instance, page, boot.supply(instance, page));
                    booted.borrow_mut().entry(page).or_insert_with(supply).clone()
                };
                let mounted = mount::now(host, instances, instance, &start);
                let will_be = mount::at_boot(&boot.host, instances, instance, &start_booted);
                let beside = host.base_page.get().map(|base| segments::of_others(host, instance, base));
                let beside = (beside.unwrap_or_default(), segments::counted(host, instance).0);
                let segments = segments::at_start(host, &shm, instance, &start, beside);
                let segments_booted = boot.segments(instance, &start_booted);
                let (restart, at_boot) = (given::at_restart(host, instance), given::at_boot(host, instance));
                let (needs, needs_booted) =
                    (locked.at_restart(host, instance), locked_booted.at_boot(&boot.host, instance));
                let right =
                    |host: &Host, given: &Given, needs| start::right(host, instance, given, needs).0 == LinkState::Ok;
                if !restart.all().all(|given| right(host, given, needs))
                    || !at_boot.all().all(|given| right(&boot.host, given, needs_booted))
                {
                    denied.insert(instance.id(), Obstacle::Right);
                } else if segments != Segments::Fit || segments_booted != Segments::Fit {
                    denied.insert(instance.id(), Obstacle::Segments);
                }
                let alone = |demand: &Demand| limits.at_restart(instance, demand);
                let among_all = |demand: &Demand| boot.limited(&limits, instance, demand);
                let memory = host.obtainable_memory().map(|memory| memory.bytes);
                let restarted = |given: &Given| {
                    let (limits, segments) = (&alone, &segments);
                    let ground = Ground { host, given, needs, memory };
                    let around = Around { ground, mounted: &mounted, limits, segments, supplies: &after_stop };
                    placed(instance, &start, &around)
                };
                let booted = |given: &Given| {
                    let (limits, segments) = (&among_all, &segments_booted);
                    let memory = boot.memory_of_the_last(host, instance);
                    let ground = Ground { host: &boot.host, given, needs: needs_booted, memory };
                    let around = Around { ground, mounted: &will_be, limits, segments, supplies: &after_boot };
                    let last = placed(instance, &start_booted, &around);
                    // The first finds the most, and where it touches more than its cgroup lets it, that is the worst, whatever the
                    // last finds.
                    let most = |page| (boot.most(page).unwrap_or_else(|| after_boot(page).0), false);
                    let ground = Ground { memory: boot.memory_of_the_first, ..ground };
                    let first = || placed(instance, &start_booted, &Around { ground, supplies: &most, ..around });
                    let may_be_killed = |it: &Outlook| {
                        it.obstacle == Some(Obstacle::Cgroup)
                            && matches!(it.standing, Standing::DoesNotStart | Standing::Unknown)
                    };
                    match last.standing {
                        Standing::DoesNotStart => last,
                        _ => Some(first()).filter(may_be_killed).unwrap_or(last),
                    }
                };
                Moments {
                    now: Outlook {
                        why: why_now(host, (&limits, &locked), instance, &now),
                        standing: now,
                        obstacle: None,
                    },
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
    Situation { of, shares, wants, asleep, claims: claim::claims(host, instances), limits, locked, denied }
}

/// What a start finds around it.
struct Around<'a> {
    ground: Ground<'a>,
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
    let outlook = start::outlook(around.ground, instance, start, &supply, around.limits, around.segments);
    let mut outlook = locking::refused(&around.ground, instance, &outlook).unwrap_or(outlook);
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

fn why_now(host: &Host, (limits, locked): (&Limits, &Locked), instance: &Instance, now: &Standing) -> Option<String> {
    match now {
        Standing::Unknown => Some(demand::why_unknown(host, instance).to_string()),
        Standing::Partly | Standing::None => {
            let chain = crate::chain::chain(host, limits, locked, instance)?;
            chain.broken().map(|link| format!("{}: {}", link.name.as_str(), link.evidence))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
