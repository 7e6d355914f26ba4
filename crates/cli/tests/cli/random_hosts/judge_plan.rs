//! What a plan promises of a world, held against what the world does with it.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_change::plan::{Change, EffectTime, Plan};
use hugewise_change::planner::PlanOptions;
use hugewise_model::{Finding, Instance, Level};

use crate::random_hosts::draw::wants;
use crate::random_hosts::judge::{Seen, decided_by_few, has_other_size};
use crate::random_hosts::orders;
use crate::random_hosts::servers::{Kind, Limit, POSTGRESQL, Policy, Server, State};
use crate::random_hosts::world::{Moments, World, unit_of};

/// Carries the plan out and holds it to what it promises.
pub(crate) fn planned(
    world: &World,
    seen: &Seen,
    before: &BTreeMap<usize, Moments>,
    options: &PlanOptions,
) -> (Plan, Vec<String>) {
    let plan = seen.plan(options);
    let mut wrong = Vec::new();
    if let Err(error) = hugewise_change::allowed::check_plan_allowed(&plan) {
        wrong.push(format!("apply would not take it: {error}"));
    }
    wrong.extend(one_value_one_result(&plan));
    wrong.extend(without_ground(&plan));
    let mut known = BTreeSet::new();
    for (when, after) in orders::between(world, &plan) {
        // What is wrong with fewer steps done is not said of more again.
        let new = worse(world, before, &after, &plan)
            .into_iter()
            .filter(|what| known.insert(what.clone()));
        wrong.extend(new.map(|what| format!("{when}: {what}")).collect::<Vec<_>>());
    }
    let mut after = world.clone();
    plan.steps.iter().for_each(|step| after.carry_out(step));
    if plan.refusal.is_some() {
        // It is not applied as it is.
        return (plan, Vec::new());
    }
    let then = Seen::asked(&after, options);
    wrong.extend(still_there(&plan, seen, &then, &[EffectTime::Now]));
    // What is known once a server runs with its settings, the next plan acts upon.
    let to_learn = |warning: &String| {
        warning.contains("an estimate until the server has reported or mapped its pages")
    };
    let restarts =
        |at: &usize| plan.steps.iter().any(|step| step.id == restart_of(&world.servers[*at]));
    // So it does where a restart that was asked for gives other pages back than were held: they are
    // others' to ask for.
    let other_memory = before.keys().any(|at| restarts(at) && has_other_size(world, *at));
    // Memory that a restart gives back is there for pools that did not fit before, as the plan
    // says.
    let did_not_fit = plan
        .instructions
        .iter()
        .any(|instruction| instruction.title.ends_with("don't fit in memory now"));
    // Or where somebody is told to change a file first, and to plan again.
    let is_overruled =
        plan.instructions.iter().any(|instruction| instruction.text.contains("and plan again"));
    let learnt = other_memory
        || (is_overruled && before.keys().any(restarts))
        || (did_not_fit && before.keys().any(restarts))
        || plan.steps.iter().any(|step| step.id.starts_with("restart-"))
            && plan.warnings.iter().any(to_learn);
    // Below 256 MiB nobody is told to insist before he runs on huge pages, and one page of 1 GiB is
    // more.
    let is_small = |at: &usize| {
        world.servers[*at].pieces.iter().map(|piece| piece.bytes).sum::<u64>() < 256 << 20
    };
    let insists = |at: &usize| {
        let server = &world.servers[*at];
        server.kind == Kind::PostgreSql
            && is_small(at)
            && server.state() != after.servers[*at].state()
    };
    let learnt_to = |id: &str| {
        let matches =
            |at: &usize| id == restart_of(&world.servers[*at]).trim_start_matches("restart-");
        before.keys().any(|at| restarts(at) && insists(at) && matches(at))
    };
    let again = then.plan(options);
    // Pages lie idle for one that a person is to have ask for them, and until then they are worth
    // asking for to smaller ones.
    let lies_idle = plan
        .instructions
        .iter()
        .any(|instruction| instruction.title.ends_with(": have it ask for huge pages"));
    let learnt_to = |id: &str| learnt_to(id) || (lies_idle && id.starts_with("pool-"));
    let again = again
        .steps
        .iter()
        .filter(|step| !learnt && !learnt_to(&step.id) && !step.id.starts_with("restart-"));
    wrong.extend(again.map(|step| format!("a second plan has {}: {}", step.id, step.title)));
    // All servers start again, each alone.
    let mut restarted = after.clone();
    for at in before.keys() {
        restarted.restart(*at);
    }
    let then = Seen::asked(&restarted, options);
    if before.keys().all(|at| restarted.servers[*at].is_up()) {
        let there = still_there(&plan, seen, &then, &[EffectTime::Now, EffectTime::Restart]);
        // Pages that a server does not take again lie idle from then on, or wait for one that does
        // not ask: of these the plan knows nothing.
        let held =
            |world: &World, page| world.servers.iter().map(|server| server.held(page)).sum::<u64>();
        let less =
            after.kernel.pools.keys().any(|page| held(&restarted, *page) < held(&after, *page));
        let idle = [" HW202 now: ", " HW205 now: ", " HW601 now: "];
        let changed = before.keys().any(|at| has_other_size(world, *at));
        // Nor of pages that one takes which raises the pool itself, or that are worth it to one
        // only with the memory of its files.
        let total =
            |world: &World, page| world.kernel.pools.get(page).map_or(0, |pool| pool.total());
        let raised =
            after.kernel.pools.keys().any(|page| total(&restarted, page) > total(&after, page));
        let of_these = |what: &String| {
            (less && idle.iter().any(|code| what.contains(code)))
                || ((raised || changed) && what.contains(" HW601 now: "))
        };
        wrong.extend(there.into_iter().filter(|what| !of_these(what)));
        // What is left to a person, and not done here, has steps of its own.
        // Below 256 MiB nobody is planned for before he runs on huge pages.
        let small = before.keys().any(|at| {
            let (there, then) = (&world.servers[*at], &restarted.servers[*at]);
            then.pieces.iter().map(|piece| piece.bytes).sum::<u64>() < 256 << 20
                && there.state() != then.state()
        });
        let left = changed
            || small
            || *options != PlanOptions::default()
            || plan
                .instructions
                .iter()
                .any(|instruction| !instruction.title.starts_with("restart "))
            || !plan.warnings.is_empty();
        let third = then.plan(options);
        let steps = third.steps.iter().filter(|step| !left && !step.id.starts_with("restart-"));
        wrong.extend(
            steps.map(|step| format!("a plan after the restarts has {}: {}", step.id, step.title)),
        );
        // What the restarts alone would have brought is not the plan's.
        let mut without = world.clone();
        for at in before.keys() {
            without.restart(*at);
        }
        let mut known = seen.codes(Level::Info);
        known.extend(Seen::asked(&without, options).codes(Level::Info));
        let new = then.codes(Level::Warn).into_iter().filter(|code| !left && !known.contains(code));
        wrong.extend(new.map(|code| format!("new after plan and restarts: {code}")));
    }
    wrong.extend(lacking(world, seen, before, (&after, &restarted), &plan, options));
    (plan, wrong)
}

/// The step that restarts a server.
fn restart_of(server: &Server) -> String {
    match server.kind {
        Kind::PostgreSql => format!("restart-postgresql-15/{}", server.name),
        Kind::MariaDb => format!("restart-mariadb-{}", server.name),
        _ => format!("restart-{:?}-{}", server.kind, server.name).to_lowercase(),
    }
}

/// Servers that ask and are not well at some moment after all is done, and of which nothing is
/// said.
fn lacking(
    world: &World,
    seen: &Seen,
    before: &BTreeMap<usize, Moments>,
    (after, restarted): (&World, &World),
    plan: &Plan,
    options: &PlanOptions,
) -> Vec<String> {
    let boot = after.worst_of_boot();
    let mut wrong = Vec::new();
    for at in before.keys() {
        let server = &world.servers[*at];
        let settings = after.settings(server);
        if matches!(settings.policy, Policy::Off | Policy::Automatic) {
            continue;
        }
        let title = seen.instance(server.pid).map(Instance::title).unwrap_or_default();
        // Whoever names servers, or a page size, or a time, asks for nothing else.
        if options.page_size.is_some()
            || !(options.instances.is_empty() || options.instances.contains(&title))
        {
            continue;
        }
        let told = |text: &str| text.contains(&title) || text.contains(&unit_of(server));
        let said = plan.instructions.iter().any(|instruction| {
            let of_it = instruction.instance.as_deref() == Some(&title)
                || told(&instruction.title)
                || told(&instruction.text);
            of_it && !instruction.title.starts_with("restart ")
        });
        let said = said || plan.warnings.iter().any(|warning| told(warning));
        let told = |warning: &String| {
            warning.contains("has the last word") || warning.contains("is read after")
        };
        let by_hand = plan.instructions.iter().map(|instruction| &instruction.title);
        let said = said || plan.warnings.iter().chain(by_hand).any(told);
        // Below 256 MiB nobody is told of a server that starts without.
        let (page, pages) = wants(server.kind, &settings);
        let mib = if server.kind == Kind::PostgreSql {
            POSTGRESQL[settings.size].1
        } else {
            (pages * page) >> 20
        };
        let small = |state: State| mib < 256 && state != State::DoesNotStart;
        for (moment, state) in [("restart", restarted.servers[*at].state()), ("boot", boot[at])] {
            let asked = if moment == "boot" { options.boot } else { options.now };
            if state != State::All && !said && !small(state) && asked {
                wrong.push(format!(
                    "{title} at {moment}: {}, and nothing is said of it",
                    state.as_str()
                ));
            }
        }
    }
    wrong
}

/// Whether the plan says of a server that the limit of its cgroup is in its way.
fn said_of_limit(server: &Server, plan: &Plan) -> bool {
    let unit = unit_of(server);
    let texts = plan.instructions.iter().map(|instruction| &instruction.text).chain(&plan.warnings);
    texts.into_iter().any(|text| {
        text.contains(&unit) && (text.contains("hugetlb") || text.contains("fault limit"))
    })
}

/// Whether the plan says that pages of a server's come with the next boot alone.
fn said_of_size(server: &Server, plan: &Plan) -> bool {
    let unit = unit_of(server);
    plan.instructions.iter().any(|instruction| {
        instruction.title.contains("don't fit in memory now") && instruction.text.contains(&unit)
    })
}

/// Servers that stand worse than before.
fn worse(
    world: &World,
    before: &BTreeMap<usize, Moments>,
    after: &World,
    plan: &Plan,
) -> Vec<String> {
    let then = after.moments();
    let mut wrong = Vec::new();
    for (at, was) in before {
        let server = &world.servers[*at];
        let Some(is) = then.get(at) else {
            wrong.push(format!("{} does not run any more", server.name));
            continue;
        };
        for (place, ((moment, was), (_, is))) in was.all().into_iter().zip(is.all()).enumerate() {
            // Whoever has a limit below its need is told to raise it first.
            let by_limit = is == State::DoesNotStart && matches!(server.limit, Limit::Touched(_));
            // Whoever is to find the pages of another only once that one was restarted is told the
            // order.
            let in_order =
                |warning: &String| warning.contains(" before others that need such pages");
            let of_order = moment == "restart" && plan.warnings.iter().any(in_order);
            // Whoever asks for pages of a size that only the boot brings is told what its restart
            // before would be.
            let of_size = moment == "restart" && said_of_size(server, plan);
            // Until a later step has set it to another size, a boot finds it with the pools of that
            // size.
            let moves = moment == "boot" && is_yet_to_move(world, after, *at, plan);
            // Where a page more or less decides whether another takes all of a pool, neither can be
            // planned for.
            let is_open = || moment == "boot" && decided_by_few(after, *at, place, is);
            let is_told = moves || of_size || of_order || (by_limit && said_of_limit(server, plan));
            if is < was && !is_told && !is_open() {
                let (was, is) = (was.as_str(), is.as_str());
                wrong.push(format!(
                    "{:?} {} at {moment} is {is}, was {was}",
                    server.kind, server.name
                ));
            }
        }
    }
    wrong
}

/// Whether a plan sets a server to another page size, and has not done so yet.
fn is_yet_to_move(world: &World, after: &World, at: usize, plan: &Plan) -> bool {
    let mut then = world.clone();
    plan.steps.iter().for_each(|step| then.carry_out(step));
    let page = |world: &World| world.settings(&world.servers[at]).page;
    page(after) == page(world) && page(&then) != page(world)
}

/// The pool that a finding about pages speaks of: a rule has a finding a pool.
fn pool_of(finding: &Finding) -> Option<&str> {
    let (_, rest) = finding.summary.split_once(" pages of ")?;
    rest.split([':', ',']).next()
}

fn still_there(plan: &Plan, before: &Seen, seen: &Seen, when: &[EffectTime]) -> Vec<String> {
    let all = plan.steps.iter().flat_map(|step| {
        step.expects.iter().map(move |expected_resolution| (step, expected_resolution))
    });
    let due = all.filter(|(step, expected_resolution)| {
        when.contains(&expected_resolution.when) && !step.id.starts_with("restart-")
    });
    let findings = &seen.assessment.findings;
    due.filter_map(|(step, expected_resolution)| {
        let is = |finding: &&Finding| {
            expected_resolution.is_about(finding.code, finding.instance.as_ref())
        };
        let was: Vec<_> = before.assessment.findings.iter().filter(is).map(pool_of).collect();
        let finding = findings.iter().filter(is).find(|finding| was.contains(&pool_of(finding)))?;
        Some(format!(
            "{} was to end {} {}: {}",
            step.id,
            expected_resolution.code,
            expected_resolution.when.as_str(),
            finding.summary
        ))
    })
    .collect()
}

/// Steps that rely on others which the plan does not have.
fn without_ground(plan: &Plan) -> Vec<String> {
    let has = |id: &&String| plan.steps.iter().any(|step| step.id == **id);
    let lacking = plan
        .steps
        .iter()
        .flat_map(|step| step.relies_on.iter().filter(|id| !has(id)).map(move |id| (step, id)));
    lacking.map(|(step, id)| format!("{} relies on {id}, which the plan lacks", step.id)).collect()
}

/// No two changes leave one value with different results.
fn one_value_one_result(plan: &Plan) -> Vec<String> {
    let mut values: BTreeMap<&str, (&str, String)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (step, change) in plan.changes() {
        let (path, result) = match change {
            Change::Value(value) => (value.path.as_str(), value.after.clone()),
            Change::File(file) => {
                let text = file
                    .after
                    .as_ref()
                    .map(|after| String::from_utf8_lossy(after.content.bytes()).into_owned());
                (file.path.as_str(), text.unwrap_or_default())
            }
            Change::Command(_) => continue,
        };
        if let Some((other, there)) = values.get(path)
            && *there != result
        {
            wrong.push(format!("{path} is set by {other} and by {}", step.id));
        }
        values.insert(path, (&step.id, result));
    }
    wrong
}

/// What is said of a world, and what it is, in lines: for whoever looks at one host.
pub(crate) fn told(world: &World, seen: &Seen) -> String {
    let mut text = String::new();
    for (page, pool) in &world.kernel.pools {
        text.push_str(&format!("{page}: {pool:?}\n"));
    }
    for (path, file) in
        world.files.iter().filter(|(path, _)| path.ends_with(".conf") || path.ends_with(".cnf"))
    {
        text.push_str(&format!("{path}: {}\n", file.replace('\n', " | ")));
    }
    for instance in &seen.instances {
        let moments = seen.situation().forecasts_for(instance);
        let (demand, beside) = (&instance.demand, &instance.other_demands);
        text.push_str(&format!(
            "{}: {demand:?} {beside:?}\n  next {:?}\n  perhaps {:?}\n",
            instance.title(),
            instance.next,
            instance.possible_demands
        ));
        text.push_str(&format!("  {moments:?}\n"));
    }
    for (at, truth) in world.moments() {
        text.push_str(&format!(
            "{}: {truth:?} {:?} {:?}\n",
            world.servers[at].name,
            world.settings(&world.servers[at]),
            world.servers[at]
        ));
    }
    for finding in &seen.assessment.findings {
        text.push_str(&format!(
            "{} {:?}: {} {:?}\n",
            finding.code, finding.instance, finding.summary, finding.remedies
        ));
    }
    let goals = seen.assessment.target.pools.iter().map(|goal| format!("{goal:?}\n"));
    text.extend(goals);
    text
}

/// The plan in lines.
pub(crate) fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        text.push_str(&format!(
            "  step {}: {} ({}) relies on {:?}\n",
            step.id, step.title, step.why, step.relies_on
        ));
        for change in &step.changes {
            match change {
                Change::Value(value) => {
                    text.push_str(&format!("    {} = {}\n", value.path, value.after))
                }
                Change::File(file) => text.push_str(&format!(
                    "    {}: {}\n",
                    file.path,
                    file.after
                        .as_ref()
                        .map(|after| String::from_utf8_lossy(after.content.bytes())
                            .replace('\n', " | "))
                        .unwrap_or_default()
                )),
                Change::Command(command) => {
                    text.push_str(&format!("    $ {}\n", command.command.join(" ")))
                }
            }
        }
    }
    plan.instructions.iter().for_each(|instruction| {
        text.push_str(&format!(
            "  by hand {:?}: {}\n",
            instruction.title,
            instruction.text.replace('\n', " | ")
        ))
    });
    plan.warnings.iter().for_each(|warning| text.push_str(&format!("  warning: {warning}\n")));
    if let Some(refusal) = &plan.refusal {
        text.push_str(&format!("  refused: {:?}\n", refusal.reasons));
    }
    text
}
