//! What hugewise says of a world, held against what the world does.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_change::plan::Plan;
use hugewise_change::planner::{self, PlanOptions};
use hugewise_diagnose::Assessment;
use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::prediction::HostPrediction;
use hugewise_diagnose::sizing::{self, PageSizeChoice, Request};
use hugewise_diagnose::target::to_size;
use hugewise_host::Source;
use hugewise_model::{Host, Instance, Level, PageSize};

use crate::random_hosts::draw::{Wish, wants};
use crate::random_hosts::kernel::{GIB_1, MIB_2};
use crate::random_hosts::servers::{Kind, Limit, Policy, State};
use crate::random_hosts::world::{Moments, World};

/// What is found on a host.
pub(crate) struct Seen {
    pub(crate) source: Box<dyn Source>,
    pub(crate) host: Host,
    pub(crate) instances: Vec<Instance>,
    pub(crate) assessment: Assessment,
}

impl Seen {
    pub(crate) fn of(world: &World) -> Self {
        Self::asked(world, &PlanOptions::default())
    }

    /// With the servers that the options name vouched for by whoever names them.
    pub(crate) fn asked(world: &World, options: &PlanOptions) -> Self {
        Self::read(Box::new(world.source()), options)
    }

    pub(crate) fn read(source: Box<dyn Source>, options: &PlanOptions) -> Self {
        let host = hugewise_host::read(source.as_ref());
        let mut instances = hugewise_engines::find_instances(&host, source.as_ref()).instances;
        // One that is down by now has no name.
        drop(planner::mark_named_instances(&mut instances, options));
        let assessment = hugewise_diagnose::assess_host(&host, &instances);
        Self { source, host, instances, assessment }
    }

    pub(crate) fn plan(&self, options: &PlanOptions) -> Plan {
        let request = Request {
            page_size: options.page_size.map_or(PageSizeChoice::Auto, PageSizeChoice::Size),
            ..Request::default()
        };
        let sized = to_size(&self.host, &self.instances, &self.assessment, options.target_wish());
        let sizing = sizing::size_servers(&self.host, &sized, &request).ok();
        planner::build_plan(
            &self.host,
            &self.instances,
            &self.assessment,
            sizing.as_ref(),
            self.source.as_ref(),
            options,
        )
        .expect("a plan")
    }

    /// The options of a wish, where the host has such a server.
    pub(crate) fn options(&self, wish: Wish) -> PlanOptions {
        let plain = PlanOptions::default;
        let known: Vec<&Instance> =
            self.instances.iter().filter(|instance| instance.is_trusted()).collect();
        let title = |at: usize| known.get(at % known.len().max(1)).map(|instance| instance.title());
        match wish {
            Wish::Plain => plain(),
            Wish::One(at) => PlanOptions { instances: title(at).into_iter().collect(), ..plain() },
            Wish::Restart(at) => {
                PlanOptions { restart: title(at).into_iter().collect(), ..plain() }
            }
            Wish::Shrink => PlanOptions { shrink: true, ..plain() },
            Wish::Pages(page) => PlanOptions { page_size: PageSize::new(page), ..plain() },
            Wish::Boot => PlanOptions { now: false, ..plain() },
            Wish::Now => PlanOptions { boot: false, ..plain() },
            Wish::Early => PlanOptions { early: true, ..plain() },
        }
    }

    pub(crate) fn instance(&self, pid: u32) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.pid == pid)
    }

    pub(crate) fn situation(&self) -> &HostPrediction {
        &self.assessment.situation
    }

    /// Codes of findings of a level or worse, each with its instance.
    pub(crate) fn codes(&self, level: Level) -> BTreeSet<String> {
        let worse = self.assessment.findings.iter().filter(|finding| finding.level >= level);
        worse
            .map(|finding| {
                format!(
                    "{} {}",
                    finding.code,
                    finding.instance.as_ref().map(ToString::to_string).unwrap_or_default()
                )
            })
            .collect()
    }
}

/// Whether the files of a server come to other memory than it runs with.
pub(crate) fn has_other_size(world: &World, at: usize) -> bool {
    let server = &world.servers[at];
    world.settings(server).size != server.running.size
}

/// Whether all that a MariaDB has on base pages is stretches as an arena of the C library might be,
/// and its files tell of other memory than it runs with: nothing shows what these are.
pub(crate) fn is_out_of_sight(world: &World, at: usize) -> bool {
    let server = &world.servers[at];
    let mut on_base = server.pieces.iter().filter(|piece| piece.huge.is_none());
    server.kind == Kind::MariaDb
        && has_other_size(world, at)
        && on_base.all(|piece| piece.bytes < 64 << 20)
}

/// By how many pages of 2 MiB what a server will ask for may be other than can be reckoned: what
/// PostgreSQL's files come to is right to a hundredth, and a page of rounding; Oracle's come in
/// granules, with four pages to spare; where the kernel puts MariaDB's pool, five pages hang on. Of
/// what runs wholly on huge pages with its files as they were nothing is open.
fn slack(world: &World, at: usize) -> i64 {
    let server = &world.servers[at];
    let settings = world.settings(server);
    let (page, pages) = wants(server.kind, &settings);
    let pages = if page == MIB_2 { i64::try_from(pages).unwrap() } else { 0 };
    let is_changed = world.changed.iter().any(|(index, _)| *index == at)
        || settings != server.running
        || !server.is_up();
    match server.kind {
        Kind::PostgreSql if is_changed => pages / 50 + 2,
        Kind::Oracle if is_changed => pages / 50 + 12,
        Kind::MariaDb if pages > 0 => 5,
        // The code and the tables of another release are up to a twentieth more or less.
        Kind::Jvm if !server.tells_version && server.state() != State::All => pages / 20 + 1,
        _ => 0,
    }
}

/// Whether a pool that is a little larger or smaller, or a server that asks for a few pages more or
/// less than is reckoned, makes another outlook of it.
pub(crate) fn decided_by_few(world: &World, at: usize, place: usize, truth: State) -> bool {
    let slacks: Vec<(usize, i64)> =
        (0..world.servers.len()).map(|index| (index, slack(world, index))).collect();
    let all: i64 = slacks.iter().map(|(_, slack)| slack).sum();
    let differs = |world: World| {
        world.moments().get(&at).is_some_and(|moments| moments.all()[place].1 != truth)
    };
    let mut by = slacks.iter().flat_map(|(index, slack)| (-slack..=*slack).map(|by| (*index, by)));
    let by_pool = |by: i64| match place {
        // What it holds itself is to be had again, less a few.
        1 => world.restarted_off_by(at, by) != truth,
        _ => differs(world.with_pools_off_by(by)),
    };
    all > 0
        && (by_pool(-all)
            || by_pool(all)
            || by.any(|(index, by)| by != 0 && differs(world.with_server_off_by(index, by))))
}

/// Whether pages of 1 GiB decide that a file asks for, when memory may be in pieces, and not the
/// command line.
fn comes_late(world: &World, at: usize, truth: State) -> bool {
    let mut without = world.clone();
    // The kernel's own file counts pages of the default size, whatever that is by then.
    let by_default = world.booted(&[]).kernel.default == GIB_1;
    let is_large = |line: &str| {
        line.contains("hugepages-1048576kB/nr_hugepages")
            || (by_default
                && (line.starts_with("vm.nr_hugepages")
                    || line.contains("/proc/sys/vm/nr_hugepages")))
    };
    for text in without.files.values_mut() {
        let lines = text.lines().filter(|line| !is_large(line));
        *text = lines.map(|line| format!("{line}\n")).collect();
    }
    without.worst_of_boot().get(&at).is_some_and(|then| *then != truth)
}

/// What is foretold of each moment, against what comes of it.
pub(crate) fn foretold(
    world: &World,
    seen: &Seen,
    moments: &BTreeMap<usize, Moments>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, truth) in moments {
        let server = &world.servers[*at];
        let settings = world.settings(server);
        let Some(instance) = seen.instance(server.pid) else {
            wrong.push(format!("{:?} {} is not found", server.kind, server.name));
            continue;
        };
        let Some(told) = seen.situation().forecasts_for(instance) else {
            wrong.push(format!("{}: no moments", instance.title()));
            continue;
        };
        for (place, ((name, truth), outlook)) in
            truth.all().into_iter().zip([&told.now, &told.restart, &told.boot]).enumerate()
        {
            let foretold = outlook.coverage.as_str();
            // Which of its stretches find room is not reckoned of a Java machine, only whether all
            // do.
            let in_pieces =
                |at: &usize| matches!(world.servers[*at].kind, Kind::MariaDb | Kind::Jvm);
            // Where an estimate decides whether others leave it any page at all, neither is told.
            let left_by_few = foretold == "unknown"
                && outlook.why.as_ref().is_some_and(|why| why.starts_with("may need "))
                && moments.keys().any(|other| other != at && slack(world, *other) > 0);
            let parts = server.kind == Kind::Jvm
                && matches!(truth, State::None | State::Partly)
                && (["none", "partly"].contains(&foretold) || left_by_few);
            let beside = place == 2
                && moments.keys().any(|other| other != at && in_pieces(other))
                && foretold != "all";
            // To say that it cannot be told is right where an estimate decides, and of large pages
            // that are asked for late.
            let unknown = foretold == "unknown" && place > 0;
            // What others than PostgreSQL make of another default size was not measured.
            let new_default =
                place == 2 && world.booted(&[]).kernel.default != world.kernel.default;
            let new_default =
                new_default && !matches!(server.kind, Kind::PostgreSql | Kind::Oracle);
            if unknown && new_default && settings.page.is_none() && settings.policy != Policy::Off {
                continue;
            }
            // Nor what they leave of these to others.
            let is_unmeasured = |other: &usize| {
                let (kind, settings) =
                    (world.servers[*other].kind, world.settings(&world.servers[*other]));
                let asks = settings.page.is_none() && settings.policy != Policy::Off;
                other != at && asks && !matches!(kind, Kind::PostgreSql | Kind::Oracle)
            };
            let other_default =
                place == 2 && world.booted(&[]).kernel.default != world.kernel.default;
            if unknown && other_default && moments.keys().any(is_unmeasured) {
                continue;
            }
            // How much a start touches was measured of PostgreSQL alone, and there as a bound.
            let touched = matches!(server.limit, Limit::Touched(_));
            let is_bounded = server.kind == Kind::PostgreSql && truth == State::All;
            if unknown && touched && !is_bounded {
                continue;
            }
            // A boot whose files ask for nearly all of its memory may not come up.
            let starved = || {
                let booted = world.booted(&[]).kernel;
                booted.free_memory() < booted.memory / 20
            };
            if unknown && place == 2 && starved() {
                continue;
            }
            // On a host that cannot be, nothing tells which of its servers find memory for pages on
            // demand after a boot.
            if place == 2 && foretold == "all" && world.kernel.is_overfull() {
                continue;
            }
            let open = unknown
                && (decided_by_few(world, *at, place, truth)
                    || (place == 2 && comes_late(world, *at, truth)));
            if open || (place > 0 && (parts || beside)) {
                continue;
            }
            // Whoever leaves automatic memory management is under it now, and of whoever goes there
            // nothing is wanted now.
            let is_without = |policy: Policy| matches!(policy, Policy::Off | Policy::Automatic);
            let without =
                is_without(settings.policy) || (place == 0 && is_without(server.running.policy));
            let exempt = matches!(outlook.coverage, Coverage::NotCounted(_)) && without;
            let exempt = exempt || (place == 0 && foretold == "all" && is_out_of_sight(world, *at));
            if !exempt && outlook.coverage.as_str() != truth.as_str() {
                let why = outlook.why.clone().unwrap_or_default();
                let (said, is) = (outlook.coverage.as_str(), truth.as_str());
                wrong.push(format!(
                    "{} at {name}: foretold {said} ({why}), is {is}",
                    instance.title()
                ));
            }
        }
    }
    wrong
}
