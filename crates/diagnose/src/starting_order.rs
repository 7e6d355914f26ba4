//! What servers may have taken of a pool before another one starts, in an unknown order.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{InstanceId, PageCount};

/// Up to so many servers every order of their starts is looked at.
const EVERY_ORDER: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct AskingServer {
    pub(crate) instance: InstanceId,
    pub(crate) pages: PageCount,
    /// The least and the most that it comes to, where it is an estimate.
    pub(crate) least: PageCount,
    pub(crate) most: PageCount,
    /// Takes what there is where that is not enough.
    pub(crate) takes_part: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DemandSums {
    pub(crate) servers: usize,
    pub(crate) pages: PageCount,
    pub(crate) least: PageCount,
    pub(crate) most: PageCount,
    parts_least: PageCount,
    parts_most: PageCount,
}

impl DemandSums {
    fn add(&mut self, server: &AskingServer) {
        self.servers += 1;
        self.pages = self.pages + server.pages;
        self.least = self.least + server.least;
        self.most = self.most + server.most;
        if server.takes_part {
            self.parts_least = self.parts_least + server.least;
            self.parts_most = self.parts_most + server.most;
        }
    }

    const fn without(self, less: Self) -> Self {
        Self {
            servers: self.servers.saturating_sub(less.servers),
            pages: self.pages.saturating_sub(less.pages),
            least: self.least.saturating_sub(less.least),
            most: self.most.saturating_sub(less.most),
            parts_least: self.parts_least.saturating_sub(less.parts_least),
            parts_most: self.parts_most.saturating_sub(less.parts_most),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct AskingServers {
    sums: DemandSums,
    by_instance: BTreeMap<InstanceId, DemandSums>,
    /// Those that take all or nothing, by the least that they need.
    all_or_nothing: Vec<AskingServer>,
}

impl FromIterator<AskingServer> for AskingServers {
    fn from_iter<I: IntoIterator<Item = AskingServer>>(servers: I) -> Self {
        let mut asking = Self::default();
        for server in servers {
            asking.sums.add(&server);
            asking.by_instance.entry(server.instance.clone()).or_default().add(&server);
            if !server.takes_part {
                asking.all_or_nothing.push(server);
            }
        }
        asking.all_or_nothing.sort_by_key(|server| server.least);
        asking
    }
}

impl AskingServers {
    pub(crate) fn sums_of(&self, instance: &InstanceId) -> DemandSums {
        self.by_instance.get(instance).copied().unwrap_or_default()
    }

    pub(crate) fn without<'a>(&'a self, instance: &'a InstanceId) -> OtherServers<'a> {
        let sums = self.sums.without(self.sums_of(instance));
        OtherServers { sums, asking: self, instance }
    }
}

pub(crate) struct OtherServers<'a> {
    pub(crate) sums: DemandSums,
    asking: &'a AskingServers,
    instance: &'a InstanceId,
}

impl OtherServers<'_> {
    /// The most that they may have taken, in whatever order, whatever their estimates come to.
    pub(crate) fn most_taken(&self, pool: PageCount) -> PageCount {
        if self.sums.most <= pool {
            return self.sums.most;
        }
        // Those that found theirs come to something between the two sums.
        let fitting = self.all_or_nothing(pool).map(|server| (server.least, server.most));
        most_within(pool, fitting).map_or(pool, |most| pool.min(most + self.sums.parts_most))
    }

    /// Whoever fits by its estimate is taken to fit: nobody should count on what it may leave.
    pub(crate) fn least_taken(&self, pool: PageCount) -> PageCount {
        let fitting = self.all_or_nothing(pool).filter(|server| server.pages <= pool);
        let fitting = fitting.map(|server| (server.pages, server.least));
        most_within(pool, fitting).map_or(pool, |least| pool.min(least + self.sums.parts_least))
    }

    fn all_or_nothing(&self, pool: PageCount) -> impl Iterator<Item = &AskingServer> {
        let all = self.asking.all_or_nothing.iter();
        all.take_while(move |server| server.least <= pool)
            .filter(|server| server.instance != *self.instance)
    }
}

/// Of servers by what each needs, and what it takes then. None where these are too many.
fn most_within(
    pool: PageCount,
    servers: impl Iterator<Item = (PageCount, PageCount)>,
) -> Option<PageCount> {
    let servers: Vec<_> = servers.take(EVERY_ORDER + 1).collect();
    if servers.len() > EVERY_ORDER {
        return None;
    }
    let mut sums = BTreeSet::from([(PageCount::ZERO, PageCount::ZERO)]);
    for (needs, takes) in servers {
        let with_it = sums.iter().map(|sum| (sum.0 + needs, sum.1 + takes));
        let with_it: Vec<_> = with_it.filter(|(needed, _)| *needed <= pool).collect();
        sums.extend(with_it);
    }
    sums.into_iter().map(|(_, taken)| taken).max()
}
