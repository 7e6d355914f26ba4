//! Transparent huge pages as the engines of this host would have them, by engine and version; kept
//! through TuneD where that runs, otherwise by tmpfiles.d.

use hugewise_diagnose::chain::join_titles;
use hugewise_diagnose::{Missing, boot, thp};
use hugewise_host::ParseError;
use hugewise_host::config::tuned;
use hugewise_host::source::OverlaySource;
use hugewise_model::observed::Lack;
use hugewise_model::{Observed, PageSize, Remedy};

use super::draft::{Draft, Drafted};
use super::{PlanRequest, commands, owned_files};
use crate::plan::{Change, CommandChange, EffectTime, Risk, Step, ValueChange};

const ACTIVE_PROFILE: &str = "/etc/tuned/active_profile";

struct ThpTarget {
    enabled: String,
    /// Files of single sizes' switches that are to follow the top one.
    inherit: Vec<String>,
    now: bool,
}

pub(super) fn plan_thp(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if thp::kernel_has_none(ask.host) {
        return;
    }
    let policy = thp::find_thp_policy(ask.host, ask.instances);
    if let Some(missing) = &policy.missing {
        draft.add_warning(format!("{missing}, so this plan leaves out that server's preference"));
    }
    let against = || policy.against.iter().map(|(instance, _)| *instance);
    let wanting = || policy.wanting.iter().copied();
    let concerned = || against().chain(wanting()).chain(policy.advised.iter().copied());
    if !concerned().any(|instance| ask.is_chosen(instance)) {
        return;
    }
    let wanted = match wanted_thp(ask, &policy) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return,
        Err(why) => {
            return draft.leave_undone(Remedy::SetThp, format!("THP stays as it is: {why}"));
        }
    };
    if !policy.wanting.is_empty() && wanted.enabled != "always" {
        draft.add_warning(format!(
            "{} want THP always, {} want madvise or never: madvise is the setting that no vendor \
             forbids",
            join_titles(wanting()),
            join_titles(against()),
        ));
    }
    let why = format!(
        "recommended for {}; applies to memory mapped from then on",
        join_titles(concerned())
    );
    let title = format!("transparent huge pages: {}", wanted.enabled);
    let mut step = Drafted::from(Step::new("thp", title, Risk::Safe, why));
    let is_so = ask.host.thp.enabled.as_known() == Some(&wanted.enabled);
    let set_now = ask.options.now && wanted.now;
    if set_now {
        let switch = ask.host.thp.switch_path("enabled");
        let top = (!is_so).then(|| ValueChange::new(switch, wanted.enabled.clone()));
        let sizes = wanted.inherit.iter().map(|file| ValueChange::new(file.clone(), "inherit"));
        step.changes.extend(top.into_iter().chain(sizes).map(Change::from));
        step.carry_remedy(Remedy::SetThp, EffectTime::Now);
    }
    if ask.options.boot {
        let when = if set_now || is_so { EffectTime::Now } else { EffectTime::Reboot };
        keep_thp(ask, draft, &wanted, &mut step, when);
    }
    draft.add_step(step);
}

fn keep_thp(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    wanted: &ThpTarget,
    step: &mut Drafted,
    when: EffectTime,
) {
    let title = format!("transparent huge pages: {} at each boot", wanted.enabled);
    let remedy = Remedy::KeepThpAtBoot;
    match persist_thp(ask, draft, wanted) {
        Ok(changes) => {
            step.changes.extend(changes);
            step.carry_remedy(remedy, when);
            if !ask.options.now {
                step.carry_remedy(Remedy::SetThp, EffectTime::Reboot);
            }
        }
        Err(ThpNotPersisted::NotRead) => {
            let lines = commands::thp_boot_lines(ask, &wanted.enabled);
            draft.instruct_for(remedy, title, &lines, Risk::Safe, None);
            if !ask.options.now {
                draft.explained.insert(Remedy::SetThp);
            }
        }
        Err(ThpNotPersisted::Overruled(place)) => {
            let line =
                format!("# change {place} to {}, because it has the last word", wanted.enabled);
            draft.instruct_for(remedy, title, &[line], Risk::Safe, None);
        }
        Err(why) => {
            draft.leave_undone(remedy, format!("THP at the next boot stays as it is: {why}"));
        }
    }
}

fn wanted_thp(
    ask: &PlanRequest<'_>,
    policy: &thp::ThpPolicy<'_>,
) -> Result<Option<ThpTarget>, Missing> {
    let Observed::Known(enabled) = &ask.host.thp.enabled else {
        let path = ask.host.thp.switch_path("enabled");
        return Err(Missing::Host(Lack::from_fact(path, &ask.host.thp.enabled)));
    };
    if ask.calls_for(&Remedy::SetThp) {
        let Some(to) = thp::plan_thp_switches(ask.host, policy) else { return Ok(None) };
        let file = |page: &PageSize| {
            ask.host.thp.switch_path(&format!("hugepages-{}kB/enabled", page.bytes().get() >> 10))
        };
        let inherit = to.inherit.iter().map(file).collect();
        return Ok(Some(ThpTarget { enabled: to.enabled, inherit, now: true }));
    }
    // What runs now is right: the next boot has to bring it too.
    let next = boot::predict_thp(ask.host)?;
    let keeps =
        next.last().is_some_and(|step| step.value != *enabled && policy.rejects(&step.value));
    Ok(keeps.then(|| ThpTarget { enabled: enabled.to_owned(), inherit: Vec::new(), now: false }))
}

fn predict_thp(
    ask: &PlanRequest<'_>,
    files: &OverlaySource<'_>,
) -> Result<Vec<boot::BootStep<String>>, Missing> {
    boot::predict_thp(&boot::with_files(ask.host, files))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ThpNotPersisted {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error(transparent)]
    Taken(#[from] owned_files::OwnedFileError),
    #[error("{0} has the last word on it: change it there")]
    Overruled(String),
    #[error("no file on this host could keep it")]
    NotRead,
    #[error("TuneD's active profile is not known")]
    ProfileUnknown,
    #[error("TuneD runs, but tuned-adm is missing")]
    NoTunedAdm,
    #[error("{path}: {error}")]
    Unread { path: String, error: ParseError },
    #[error("{0} includes no profile")]
    NoInclude(String),
    #[error("the active profile is {name} and not in {0}", name = owned_files::TUNED_PROFILE)]
    ProfileElsewhere(String),
    #[error("the profile would not set it")]
    Unset,
}

fn persist_thp(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    wanted: &ThpTarget,
) -> Result<Vec<Change>, ThpNotPersisted> {
    let mut changes = Vec::new();
    let sizes = wanted.inherit.iter().map(|file| (file.clone(), "inherit".to_owned()));
    let mut writes: Vec<(String, String)> = sizes.collect();
    let steps = predict_thp(ask, &draft.after)?;
    if steps.last().is_none_or(|step| step.value != wanted.enabled) {
        if is_tuned_running(ask) && !is_on_command_line(ask) {
            changes.extend(write_tuned_profile(ask, draft, wanted)?);
        } else {
            writes.insert(0, (ask.host.thp.switch_path("enabled"), wanted.enabled.clone()));
        }
    }
    if !writes.is_empty() {
        if boot::is_not_read(ask.host, "tmpfiles.d") {
            return Err(ThpNotPersisted::NotRead);
        }
        let text =
            owned_files::merge_tmpfiles_writes(&draft.after, owned_files::TMPFILES_THP, &writes)?;
        let trial = draft.after.with_file(owned_files::TMPFILES_THP, &text);
        let steps = predict_thp(ask, &trial)?;
        if let Some(last) = steps.last().filter(|last| last.value != wanted.enabled) {
            return Err(ThpNotPersisted::Overruled(last.place.to_string()));
        }
        changes.extend(draft.write(owned_files::TMPFILES_THP, &text).map(Change::from));
    }
    Ok(changes)
}

fn is_tuned_running(ask: &PlanRequest<'_>) -> bool {
    let mut processes = ask.host.processes.as_known().into_iter().flatten();
    ask.host.configuration.tuned.is_known() && processes.any(|process| process.name == "tuned")
}

/// TuneD leaves THP alone where the kernel's command line names it.
fn is_on_command_line(ask: &PlanRequest<'_>) -> bool {
    let next = boot::command_line(ask.host).map(|(words, _)| words).unwrap_or_default();
    let running = ask.host.command_line.as_known().map(Vec::as_slice).unwrap_or_default();
    next.iter().chain(running).any(|word| word.starts_with("transparent_hugepage="))
}

fn write_tuned_profile(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    wanted: &ThpTarget,
) -> Result<Vec<Change>, ThpNotPersisted> {
    let Observed::Known(active) = &ask.host.configuration.tuned else {
        return Err(ThpNotPersisted::ProfileUnknown);
    };
    let program = ask.find_program(&["tuned-adm"]).ok_or(ThpNotPersisted::NoTunedAdm)?;
    let new_layout = ask.source.list_folder("/etc/tuned/profiles").is_known();
    let folder = if new_layout { "/etc/tuned/profiles" } else { "/etc/tuned" };
    let path = format!("{folder}/{}/tuned.conf", owned_files::TUNED_PROFILE);
    let there = owned_files::read_owned_file(&draft.after, &path)?;
    let is_ours = active.profile == owned_files::TUNED_PROFILE;
    let included = match there.filter(|_| is_ours) {
        Some(bytes) => {
            let unread = |error| ThpNotPersisted::Unread { path: path.clone(), error };
            let sections = tuned::parse(&path, &bytes).map_err(unread)?;
            let mut main = sections.get("main").into_iter().flatten();
            let include = main.find(|setting| setting.key == "include");
            let include = include.map(|setting| setting.value.clone());
            include.ok_or_else(|| ThpNotPersisted::NoInclude(path.clone()))?
        }
        None if is_ours => return Err(ThpNotPersisted::ProfileElsewhere(path)),
        None => active.profile.split_whitespace().collect::<Vec<_>>().join(","),
    };
    let text = owned_files::render_owned_file(&[
        "[main]".into(),
        "summary=The profile that was active, and THP as the databases here ask for".into(),
        format!("include={included}"),
        String::new(),
        "[vm]".into(),
        format!("transparent_hugepages={}", wanted.enabled),
    ]);
    let mut trial = draft.after.with_file(&path, &text);
    trial.set_file(ACTIVE_PROFILE, Some(format!("{}\n", owned_files::TUNED_PROFILE).into_bytes()));
    match predict_thp(ask, &trial)?.last() {
        Some(last) if last.value == wanted.enabled => {}
        Some(last) => return Err(ThpNotPersisted::Overruled(last.place.to_string())),
        None => return Err(ThpNotPersisted::Unset),
    }
    let change = draft.write(&path, &text);
    draft.after = trial;
    let before = active.profile.split_whitespace().map(str::to_owned);
    let switch = [program.clone(), "profile".into(), owned_files::TUNED_PROFILE.into()];
    let command =
        CommandChange::new(switch, "switches TuneD to the profile and keeps it across reboots")
            .with_rewritten_file(ACTIVE_PROFILE)
            .with_rewritten_file("/etc/tuned/profile_mode");
    let command = match is_ours {
        true => command.undone_by_itself(),
        false => command.undone_by([program, "profile".into()].into_iter().chain(before)),
    };
    Ok(change.map(Change::from).into_iter().chain([command.into()]).collect())
}
