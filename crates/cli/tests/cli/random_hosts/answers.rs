//! What `check` comes to, and the rows of `verify`, held against what becomes of the servers.

use std::collections::BTreeMap;

use hugewise_diagnose::coverage::{Coverage, measure_coverage};
use hugewise_model::{Instance, Level};
use hugewise_report::Report;
use hugewise_report::{CheckOutcome, CheckReport, CountedServers, TextLayout, Verified};

use crate::random_hosts::judge::{Seen, is_out_of_sight};
use crate::random_hosts::servers::{Kind, Policy, Server, Settings, State};
use crate::random_hosts::world::{Moments, World};

/// Below so much memory nobody is told of a server that starts without huge pages.
const SMALL: u64 = 256 << 20;

/// Where an exit code is not what the moments call for.
pub(crate) fn wrong(world: &World, seen: &Seen, moments: &BTreeMap<usize, Moments>) -> Vec<String> {
    let mut wrong = exit_codes(world, seen, moments);
    wrong.extend(rows(world, seen));
    wrong
}

fn exit_codes(world: &World, seen: &Seen, moments: &BTreeMap<usize, Moments>) -> Vec<String> {
    let checked = CheckReport {
        host: &seen.host,
        instances: &seen.instances,
        assessment: &seen.assessment,
        unread: &[],
        root: None,
    };
    let outcome_of = |level| checked.decide_outcome(Some(level), CountedServers::VouchedFor);
    let (plain, grave) = (outcome_of(Level::Warn), outcome_of(Level::Error));
    let open = seen
        .instances
        .iter()
        .filter_map(|instance| seen.assessment.situation.forecasts_for(instance));
    let open = open
        .flat_map(|stage_forecasts| {
            [&stage_forecasts.now, &stage_forecasts.restart, &stage_forecasts.boot]
        })
        .any(|stage_forecast| stage_forecast.coverage == Coverage::Unknown);
    let all_run = world.started_at_boot().iter().all(|at| moments.contains_key(at));
    let of_those_that_run =
        || moments.iter().map(|(at, other_moments)| (*at, other_moments.boot)).collect();
    let boot: BTreeMap<usize, State> =
        if all_run { of_those_that_run() } else { world.worst_of_boot() };
    let mut wrong = Vec::new();
    // Every fact of such a host can be read: what cannot be told hangs on an estimate.
    if plain == CheckOutcome::Incomplete && !open {
        wrong.push("check ends with 3, and every moment is told".to_owned());
    }
    for at in world.started_at_boot() {
        let server = &world.servers[at];
        let (name, settings) =
            (format!("{:?} {}", server.kind, server.name), world.settings(server));
        let asks =
            |settings: &Settings| !matches!(settings.policy, Policy::Off | Policy::Automatic);
        let all = moments.get(&at).map_or_else(
            || vec![("boot", boot[&at])],
            |other_moments| other_moments.all().to_vec(),
        );
        for (moment, state) in all {
            let told = instance_of(seen, server)
                .and_then(|instance| seen.assessment.situation.forecasts_for(instance));
            let outlook = told.map(|stage_forecasts| match moment {
                "now" => &stage_forecasts.now,
                "restart" => &stage_forecasts.restart,
                _ => &stage_forecasts.boot,
            });
            // What is foretold otherwise is said elsewhere.
            if outlook
                .is_none_or(|stage_forecast| stage_forecast.coverage.as_str() != state.as_str())
            {
                continue;
            }
            if state == State::DoesNotStart && grave != CheckOutcome::Found {
                wrong.push(format!(
                    "{name} does not start at {moment}, and check finds no error: {grave:?}"
                ));
            }
            let memory: u64 = server.pieces.iter().map(|piece| piece.bytes).sum();
            let asks = asks(&settings) && (moment != "now" || asks(&server.running));
            if asks && state != State::All && memory >= SMALL && plain == CheckOutcome::Fine {
                wrong.push(format!(
                    "{name} is {} at {moment}, and check ends with 0",
                    state.as_str()
                ));
            }
        }
    }
    let well = |at: &usize| {
        boot[at] == State::All
            && moments
                .get(at)
                .is_none_or(|moments| moments.all().iter().all(|(_, state)| *state == State::All))
    };
    // Pools of more than four fifths leave the host too little, however well its servers start.
    let booted = world.booted(&[]).kernel;
    let crowded = booted.memory - booted.free_memory() > booted.memory / 5 * 4;
    let all_well =
        world.started_at_boot().iter().all(|at| well(at) || world.servers[*at].kind == Kind::Redis);
    if all_well && !crowded && grave == CheckOutcome::Found {
        let errors =
            seen.assessment.findings.iter().filter(|finding| finding.level == Level::Error);
        let codes: Vec<_> = errors.map(|finding| finding.code.as_str()).collect();
        wrong.push(format!(
            "every server is well at every moment, and check finds {}",
            codes.join(" ")
        ));
    }
    wrong
}

fn instance_of<'a>(seen: &'a Seen, server: &Server) -> Option<&'a Instance> {
    let name = match server.kind {
        Kind::PostgreSql => format!("15/{}", server.name),
        _ => server.name.clone(),
    };
    let own = |instance: &&Instance| {
        instance.pid == server.pid || (instance.pid == 0 && instance.name == name)
    };
    seen.instances.iter().find(own)
}

/// Rows of `verify`, as it prints them: how each server stands, and what it holds of which pages.
fn rows(world: &World, seen: &Seen) -> Vec<String> {
    let instances: Vec<Instance> =
        seen.instances.iter().filter(|instance| instance.pid != 0).cloned().collect();
    let standings: Vec<Coverage> =
        instances.iter().map(|instance| measure_coverage(&seen.host, instance, false)).collect();
    let verified = Verified {
        host: &seen.host,
        instances: &instances,
        assessment: &seen.assessment,
        standings: &standings,
        logs: &[],
        disagreements: &[],
        verdict: &Coverage::Unknown,
        named: false,
        unread: &[],
    };
    let mut text = Vec::new();
    verified.write_text(&mut text, TextLayout::plain_text(200)).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut wrong = Vec::new();
    for (at, server) in world.servers.iter().enumerate().filter(|(_, server)| server.is_up()) {
        let Some(instance) = seen.instance(server.pid) else { continue };
        let title = format!("{}  ", instance.title());
        let Some(row) = text.lines().find_map(|line| line.strip_prefix(&title)) else {
            wrong.push(format!("{}: verify has no row", instance.title()));
            continue;
        };
        let cells: Vec<&str> =
            row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [stands, held, needed, page, ..] = cells[..] else {
            wrong.push(format!("{}: verify's row is {row:?}", instance.title()));
            continue;
        };
        let out_of_sight = stands == "all" && is_out_of_sight(world, at);
        if stands != server.state().as_str() && !out_of_sight {
            wrong.push(format!(
                "{}: verify says {stands}, it is {}",
                instance.title(),
                server.state().as_str()
            ));
        }
        let bytes = |page: &str| match page {
            "2 MiB" => Some(crate::random_hosts::kernel::MIB_2),
            "1 GiB" => Some(crate::random_hosts::kernel::GIB_1),
            _ => None,
        };
        let Some(page) = bytes(page) else { continue };
        let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
        // Of a Java machine the code cache and the tables are no segments of their own.
        if number(held) != Some(server.held(page)) {
            wrong.push(format!(
                "{}: verify says {held} pages, it holds {}",
                instance.title(),
                server.held(page)
            ));
        }
        // Whoever is wholly on huge pages needs what it holds, but for a heap that has yet to grow.
        let whole = !server.is_zgc(&server.running);
        if whole && server.state() == State::All && number(needed) != Some(server.held(page)) {
            wrong.push(format!(
                "{}: verify says {needed} are needed, it holds {}",
                instance.title(),
                server.held(page)
            ));
        }
    }
    wrong
}
