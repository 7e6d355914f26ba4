//! Restarts of servers that were named for it; huge pages come at a server's start alone.

use hugewise_advice::chain;
use hugewise_advice::permission::{self, Memlock, Right};
use hugewise_advice::words::shell_word;
use hugewise_engines::options::file_name;
use hugewise_host::Source;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Engine, HugePageUse, Instance, PageSize};

use super::boot_loader::find_program;
use super::{Ask, Draft, commands, expected, is_named, pools_now};
use crate::Error;
use crate::plan::{Change, CommandChange, Plan, Risk, Step, When};

/// Findings about a server that end with its next start on huge pages.
const ENDED: [&str; 5] = ["HW102", "HW203", "HW209", "HW301", "HW801"];

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    for instance in ask.instances.iter().filter(|instance| instance.pid != 0) {
        let asked = is_named(ask.instances, instance, &ask.options.restart);
        match gain(&ask, draft, instance) {
            Err(why) if asked => draft.warn(format!("{} is not restarted: {why}", instance.title())),
            Err(_) => {}
            Ok(Gain::Sure) if asked => match command(ask.source, instance) {
                Some(command) => restart(&ask, draft, instance, command),
                None => {
                    let whose = match instance {
                        _ if instance.containered => "whatever runs its container has to do it",
                        _ if instance.engine == Engine::Oracle => "Oracle's own tools have to do it",
                        _ => "no systemd service runs it alone, and no Debian cluster is known by its name",
                    };
                    draft.warn(format!("{} is not restarted: {whose}", instance.title()));
                    by_hand(&ask, draft, instance);
                }
            },
            Ok(Gain::Sure) => by_hand(&ask, draft, instance),
            Ok(Gain::Perhaps(unseen)) => {
                if asked {
                    draft.warn(format!(
                        "{} is not restarted: whether it may use huge pages is not known ({unseen})",
                        instance.title()
                    ));
                }
                by_hand_perhaps(&ask, draft, instance, &unseen);
            }
        }
    }
}

/// What a restart brings a server.
enum Gain {
    /// What it lacks.
    Sure,
    /// What it lacks, unless that which could not be seen is in its way.
    Perhaps(String),
}

/// What a restart brings a server; an error where it brings nothing.
fn gain(ask: &Ask<'_>, draft: &Draft<'_>, instance: &Instance) -> Result<Gain, String> {
    let title = instance.title();
    let changed = draft.steps.iter().any(|step| step.risk == Risk::Restart && step.instance.as_ref() == Some(&title));
    let waiting = pages_that_wait(ask, instance);
    let permitted = || waiting.filter(|_| is_permitted(draft, &title));
    let page = page_of(ask, instance).or_else(permitted).ok_or("no huge pages are planned for it")?;
    let ours = format!("{}-", instance.engine);
    let set = draft.steps.iter().any(|step| step.instance.as_ref() == Some(&title) && step.id.starts_with(&ours));
    if !set && !matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises) {
        return Err("its settings do not ask for huge pages, or are not known".into());
    }
    if instance.huge_pages == HugePageUse::All {
        return if changed { Ok(Gain::Sure) } else { Err("it is on huge pages already".into()) };
    }
    let goal = draft.pool(page).ok_or("the pools are not known")?;
    // Pages that are wanted beyond its own need are not waited for.
    if !goal.is_there() && waiting != Some(page) {
        return Err(format!(
            "its pages are not there before the next boot: {}",
            goal.not_now.as_deref().unwrap_or_default()
        ));
    }
    if ask.found("HW702", instance).is_some() {
        return Err("the limit of its cgroup is too small: it is raised before".into());
    }
    let gain = match right(ask, draft, instance) {
        Right::Has(_) => Gain::Sure,
        Right::Unknown(unseen) => Gain::Perhaps(unseen),
        Right::Lacks(_) => return Err("it may not use System V huge pages yet".into()),
    };
    let suffers = ask.is_kept_off(instance) || changed || ask.is_chosen(instance);
    if suffers { Ok(gain) } else { Err("it is not what this plan is about".into()) }
}

/// The size of the pages that a server asks for, where enough of them are there already.
fn pages_that_wait(ask: &Ask<'_>, instance: &Instance) -> Option<PageSize> {
    let room = ask.assessment.situation.room(instance).filter(|room| room.fits())?;
    Some(room.page_size)
}

/// Whether a step gives a server the right to huge pages.
fn is_permitted(draft: &Draft<'_>, title: &str) -> bool {
    let mut ended = draft.steps.iter().flat_map(|step| &step.expects);
    ended.any(|it| ["HW301", "HW303"].contains(&it.code.as_str()) && it.instance.as_deref() == Some(title))
}

/// Whether its next start is let have System V huge pages, with what the plan does for that.
fn right(ask: &Ask<'_>, draft: &Draft<'_>, instance: &Instance) -> Right {
    if instance.mechanism != Mechanism::SysvShm {
        return Right::Has("its memory is not System V's".into());
    }
    let planned = |id: &str| draft.steps.iter().any(|step| step.id.starts_with(id));
    let (limit, enough) = chain::memlock_of(ask.host, instance);
    let right = permission::without_memlock(ask.host, instance);
    let rule = permission::memlock(ask.host);
    let by_group = !matches!(rule, Memlock::Buys(_)) && planned("shm-group");
    let by_limit = !matches!(rule, Memlock::Useless(_)) && (enough == Some(true) || planned("memlock-"));
    match right {
        Right::Lacks(_) | Right::Unknown(_) if by_group || by_limit => Right::Has("by this plan, or its limit".into()),
        Right::Lacks(_) if !matches!(rule, Memlock::Useless(_)) && enough.is_none() => Right::Unknown(limit),
        right => right,
    }
}

/// Refuses a plan that restarts what is no server here, or more than a server: whoever wrote it, root restarts by its own
/// knowledge.
///
/// # Errors
/// [`Error::NotAllowed`] names the first such step.
pub fn check(plan: &Plan, instances: &[Instance], source: &dyn Source) -> Result<(), Error> {
    let known: Vec<Vec<String>> =
        instances.iter().filter_map(|instance| command(source, instance)).map(|known| known.command).collect();
    for (step, change) in plan.changes() {
        let Change::Command(change) = change else { continue };
        let words: Vec<&str> = change.command.iter().map(String::as_str).collect();
        let restarts = matches!(words.as_slice(), [_, "restart", _] | [_, _, _, "restart"]);
        // The same program may have several paths.
        let same = |known: &&Vec<String>| {
            let name = |words: &[String]| words.first().map(|path| file_name(path).to_owned());
            name(known) == name(&change.command) && known.get(1..) == change.command.get(1..)
        };
        if restarts && !known.iter().any(|it| same(&it)) {
            return Err(Error::NotAllowed {
                step: step.id.clone(),
                what: change.command.join(" "),
                why: "no server that runs here is restarted by that and nothing else with it".into(),
            });
        }
    }
    Ok(())
}

/// The command that restarts a server and nothing else; none where that cannot be shown. The only place that names a unit
/// or a cluster to restart.
fn command(source: &dyn Source, instance: &Instance) -> Option<CommandChange> {
    let why = "huge pages come at its start";
    if let Some(unit) = instance.unit.as_deref().filter(|_| commands::restarts(instance)) {
        let systemctl = find_program(source, &["systemctl"]).unwrap_or_else(|| "/usr/bin/systemctl".into());
        return Some(CommandChange::new([systemctl.as_str(), "restart", unit], why));
    }
    let (version, cluster) = debian_cluster(instance)?;
    let program = find_program(source, &["pg_ctlcluster"])?;
    Some(CommandChange::new([program.as_str(), version, cluster, "restart"], why))
}

/// The cluster that Debian's tools know a server by: its configuration is the one that they start it with.
fn debian_cluster(instance: &Instance) -> Option<(&str, &str)> {
    let known = instance.engine == Engine::PostgreSql && instance.is_known_to_the_host() && !instance.containered;
    let file = super::postgresql::config_file(instance).filter(|_| known)?;
    let (version, cluster) = instance.name.split_once('/')?;
    let own = file == format!("/etc/postgresql/{version}/{cluster}/postgresql.conf");
    own.then_some((version, cluster))
}

fn page_of(ask: &Ask<'_>, instance: &Instance) -> Option<PageSize> {
    ask.sized().find(|(of, _)| std::ptr::eq(*of, instance)).map(|(_, sized)| sized.page_size)
}

fn restart(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, command: CommandChange) {
    let title = instance.title();
    let set_to_insist = |step: &Step| step.instance.as_ref() == Some(&title) && !step.relies_on.is_empty();
    let insists = instance.asked == Asked::Must || draft.steps.iter().any(set_to_insist);
    let pool = page_of(ask, instance).filter(|_| insists).map(pools_now::id);
    let why = "its memory is mapped at its start: the sessions that it has now end";
    let id = format!("restart-{}-{}", instance.engine, instance.name);
    let mut step = Step::new(id, format!("restart {title}"), Risk::Restart, why).of(title);
    let ended = ENDED.iter().filter_map(|code| ask.found(code, instance));
    step.expects = ended.map(|finding| expected(finding, When::Now)).collect();
    step.relies_on.extend(pool);
    draft.step(step.change(command));
}

/// Nobody said that it may be restarted, or it cannot be from here: what its restart ends is promised by the steps
/// that prepare it.
fn by_hand(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let title = instance.title();
    let page = page_of(ask, instance);
    let pool = page.map(pools_now::id);
    let own = draft.steps.iter().rposition(|step| step.instance.as_ref() == Some(&title));
    let of_pool = || draft.steps.iter().position(|step| Some(&step.id) == pool.as_ref());
    let ended: Vec<_> = ENDED.iter().filter_map(|code| ask.found(code, instance)).collect();
    if let Some(step) = own.or_else(of_pool).and_then(|at| draft.steps.get_mut(at)) {
        step.expects.extend(ended.iter().map(|finding| expected(finding, When::Restart)));
    }
    if instance.huge_pages != HugePageUse::All {
        draft.instruct(format!("restart {title}"), &by_whom(ask, instance), Risk::Restart, Some(title));
    }
}

/// A restart that may bring it what it lacks: nothing is promised, and what could not be seen is said.
fn by_hand_perhaps(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, unseen: &str) {
    let mut lines =
        vec![format!("# huge pages come at its start, unless what could not be seen is in the way: {unseen}")];
    lines.extend(by_whom(ask, instance));
    let title = instance.title();
    draft.instruct(format!("restart {title}"), &lines, Risk::Restart, Some(title));
}

/// The lines that restart a server: Debian's own tool where no unit has it.
fn by_whom(ask: &Ask<'_>, instance: &Instance) -> Vec<String> {
    let lines = commands::restart(instance);
    match command(ask.source, instance).filter(|_| lines.iter().all(|line| line.starts_with('#'))) {
        Some(command) => vec![command.command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")],
        None => lines,
    }
}
