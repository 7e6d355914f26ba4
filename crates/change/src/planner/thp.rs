//! Transparent huge pages as the engines of this host would have them, by engine and version; kept through TuneD where
//! that runs, otherwise by tmpfiles.d.

use hugewise_advice::chain::titles;
use hugewise_advice::{Missing, boot, thp};
use hugewise_host::ParseError;
use hugewise_host::config::tuned;
use hugewise_model::observed::Lack;
use hugewise_model::{Observed, PageSize, Remedy};

use super::boot_loader::find_program;
use super::draft::{Draft, Drafted};
use super::overlay::Overlay;
use super::{Ask, ours, unread};
use crate::plan::{Change, CommandChange, Risk, Step, ValueChange, When};

const ACTIVE_PROFILE: &str = "/etc/tuned/active_profile";

/// What is to be set.
struct Wanted {
    /// The top switch.
    enabled: String,
    /// Switches of single sizes that are to follow the top one, by their files.
    inherit: Vec<String>,
    /// Whether the running kernel is to be changed, or only the next boot.
    now: bool,
}

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if thp::kernel_has_none(ask.host) {
        return;
    }
    let switch = ask.host.thp.file("enabled");
    let policy = thp::policy(ask.host, ask.instances);
    if let Some(missing) = &policy.missing {
        draft.warn(format!("{missing}, so this plan leaves out that server's preference"));
    }
    let against = policy.against.iter().map(|(instance, _)| *instance);
    let mut concerned = against.chain(policy.wanting.iter().copied()).chain(policy.advised.iter().copied());
    if !concerned.any(|instance| ask.is_chosen(instance)) {
        return;
    }
    let wanted = match wanted(ask, &policy) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return,
        Err(why) => return draft.leave(Remedy::SetThp, format!("THP stays as it is: {why}")),
    };
    if !policy.wanting.is_empty() && wanted.enabled != "always" {
        draft.warn(format!(
            "{} want THP always, {} want madvise or never: madvise is the setting that no vendor forbids",
            titles(policy.wanting.iter().copied()),
            titles(policy.against.iter().map(|(instance, _)| *instance)),
        ));
    }
    let named = policy.against.iter().map(|(instance, _)| *instance);
    let named = titles(named.chain(policy.wanting.iter().copied()).chain(policy.advised.iter().copied()));
    let why = format!("recommended for {named}; applies to memory mapped from then on");
    let title = format!("transparent huge pages: {}", wanted.enabled);
    let mut step = Drafted::from(Step::new("thp", title, Risk::Safe, why));
    if ask.options.now && wanted.now {
        let top = ask.host.thp.enabled.known() != Some(&wanted.enabled);
        let top = top.then(|| ValueChange::new(switch.clone(), wanted.enabled.clone()));
        let sizes = wanted.inherit.iter().map(|file| ValueChange::new(file.clone(), "inherit"));
        step.changes.extend(top.into_iter().chain(sizes).map(Change::from));
        step.carry(Remedy::SetThp, When::Now);
    }
    if ask.options.boot {
        match keep(ask, draft, &wanted) {
            Ok(changes) => {
                let agrees =
                    step.changes.iter().any(|change| matches!(change, Change::Value(value) if value.path == switch))
                        || ask.host.thp.enabled.known() == Some(&wanted.enabled);
                let when = if agrees { When::Now } else { When::Reboot };
                step.changes.extend(changes);
                step.carry(Remedy::KeepThpAtBoot, when);
                if !ask.options.now {
                    step.carry(Remedy::SetThp, When::Reboot);
                }
            }
            Err(NotKept::NotRead) => {
                let title = format!("transparent huge pages: {} at each boot", wanted.enabled);
                let lines = unread::thp(ask, &wanted.enabled);
                draft.instruct_for(Remedy::KeepThpAtBoot, title, &lines, Risk::Safe, None);
                if !ask.options.now {
                    draft.told.insert(Remedy::SetThp);
                }
            }
            Err(NotKept::Overruled(place)) => {
                let title = format!("transparent huge pages: {} at each boot", wanted.enabled);
                let line = format!("# change {place} to {}, because it has the last word", wanted.enabled);
                draft.instruct_for(Remedy::KeepThpAtBoot, title, &[line], Risk::Safe, None);
            }
            Err(why) => draft.leave(Remedy::KeepThpAtBoot, format!("THP at the next boot stays as it is: {why}")),
        }
    }
    draft.step(step);
}

fn wanted(ask: &Ask<'_>, policy: &thp::Policy<'_>) -> Result<Option<Wanted>, Missing> {
    let enabled = &ask.host.thp.enabled;
    let enabled =
        enabled.known().ok_or_else(|| Missing::Host(Lack::of(ask.host.thp.file("enabled"), enabled)))?.as_str();
    if ask.calls_for(&Remedy::SetThp) {
        let Some(to) = thp::switches(ask.host, policy) else { return Ok(None) };
        let file = |page: &PageSize| ask.host.thp.file(&format!("hugepages-{}kB/enabled", page.bytes().get() >> 10));
        let inherit = to.inherit.iter().map(file).collect();
        return Ok(Some(Wanted { enabled: to.enabled, inherit, now: true }));
    }
    // What runs now is right: the next boot has to bring it too.
    let next = boot::thp(ask.host)?;
    let wrong = |next: &str| match next {
        "always" => !policy.against.is_empty(),
        "never" => !policy.advised.is_empty() || (policy.against.is_empty() && !policy.wanting.is_empty()),
        _ => policy.against.is_empty() && !policy.wanting.is_empty(),
    };
    let keeps = next.last().is_some_and(|step| step.value != enabled && wrong(&step.value));
    Ok(keeps.then(|| Wanted { enabled: enabled.to_owned(), inherit: Vec::new(), now: false }))
}

/// What sets the top switch at the next boot, the last word last.
fn next_boot(ask: &Ask<'_>, files: &Overlay<'_>) -> Result<Vec<boot::Step<String>>, Missing> {
    boot::thp(&boot::with_files(ask.host, files))
}

/// Why the next boot does not have it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotKept {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error(transparent)]
    Taken(#[from] ours::Taken),
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
    #[error("the active profile is {name} and not in {0}", name = ours::TUNED_PROFILE)]
    ProfileElsewhere(String),
    #[error("the profile would not set it")]
    Unset,
}

fn keep(ask: &Ask<'_>, draft: &mut Draft<'_>, wanted: &Wanted) -> Result<Vec<Change>, NotKept> {
    let top_is_kept = |files: &Overlay<'_>| {
        let steps = next_boot(ask, files)?;
        Ok::<bool, NotKept>(steps.last().is_some_and(|step| step.value == wanted.enabled))
    };
    let sizes = || wanted.inherit.iter().map(|file| (file.clone(), "inherit".to_owned()));
    let mut changes = Vec::new();
    let through_tuned = tuned_runs(ask) && !command_line_names_it(ask);
    let mut writes: Vec<(String, String)> = sizes().collect();
    if !top_is_kept(&draft.after)? {
        if through_tuned {
            changes.extend(profile(ask, draft, wanted)?);
        } else {
            writes.insert(0, (ask.host.thp.file("enabled"), wanted.enabled.clone()));
        }
    }
    if !writes.is_empty() {
        if boot::is_not_read(ask.host, "tmpfiles.d") {
            return Err(NotKept::NotRead);
        }
        let text = ours::tmpfiles(&draft.after, ours::TMPFILES_THP, &writes)?;
        let trial = draft.after.with(ours::TMPFILES_THP, &text);
        if let Some(last) = next_boot(ask, &trial)?.last().filter(|last| last.value != wanted.enabled) {
            return Err(NotKept::Overruled(last.place.clone()));
        }
        changes.extend(draft.write(ours::TMPFILES_THP, &text).map(Change::from));
    }
    Ok(changes)
}

fn tuned_runs(ask: &Ask<'_>) -> bool {
    let active = ask.host.configuration.tuned.is_known();
    active && ask.host.processes.known().into_iter().flatten().any(|process| process.name == "tuned")
}

/// TuneD leaves THP alone where the kernel's command line names it.
fn command_line_names_it(ask: &Ask<'_>) -> bool {
    let next = boot::command_line(ask.host).map(|(words, _)| words).unwrap_or_default();
    let running = ask.host.command_line.known().map(Vec::as_slice).unwrap_or_default();
    next.iter().chain(running).any(|word| word.starts_with("transparent_hugepage="))
}

/// A profile of ours that includes the active one.
fn profile(ask: &Ask<'_>, draft: &mut Draft<'_>, wanted: &Wanted) -> Result<Vec<Change>, NotKept> {
    let Observed::Known(active) = &ask.host.configuration.tuned else {
        return Err(NotKept::ProfileUnknown);
    };
    let program = find_program(ask.source, &["tuned-adm"]).ok_or(NotKept::NoTunedAdm)?;
    let new_layout = ask.source.list("/etc/tuned/profiles").is_known();
    let folder = if new_layout { "/etc/tuned/profiles" } else { "/etc/tuned" };
    let path = format!("{folder}/{}/tuned.conf", ours::TUNED_PROFILE);
    let there = ours::present(&draft.after, &path)?;
    let is_ours = active.profile == ours::TUNED_PROFILE;
    let included = match there.filter(|_| is_ours) {
        Some(bytes) => {
            let unread = |error| NotKept::Unread { path: path.clone(), error };
            let sections = tuned::parse(&path, &bytes).map_err(unread)?;
            let main = sections.get("main").and_then(|main| main.iter().find(|setting| setting.key == "include"));
            main.map(|setting| setting.value.clone()).ok_or_else(|| NotKept::NoInclude(path.clone()))?
        }
        None if is_ours => return Err(NotKept::ProfileElsewhere(path)),
        None => active.profile.split_whitespace().collect::<Vec<_>>().join(","),
    };
    let text = ours::file(&[
        "[main]".into(),
        "summary=The profile that was active, and THP as the databases here ask for".into(),
        format!("include={included}"),
        String::new(),
        "[vm]".into(),
        format!("transparent_hugepages={}", wanted.enabled),
    ]);
    let mut trial = draft.after.with(&path, &text);
    trial.set(ACTIVE_PROFILE, Some(format!("{}\n", ours::TUNED_PROFILE).into_bytes()));
    match next_boot(ask, &trial)?.last() {
        Some(last) if last.value == wanted.enabled => {}
        Some(last) => return Err(NotKept::Overruled(last.place.clone())),
        None => return Err(NotKept::Unset),
    }
    let change = draft.write(&path, &text);
    draft.after = trial;
    let before = active.profile.split_whitespace().map(str::to_owned);
    let switch = [program.clone(), "profile".into(), ours::TUNED_PROFILE.into()];
    let mut command = CommandChange::new(switch, "switches TuneD to the profile and keeps it across reboots")
        .rewrites(ACTIVE_PROFILE)
        .rewrites("/etc/tuned/profile_mode");
    command = if is_ours {
        command.undone_by_itself()
    } else {
        command.undone_by([program, "profile".into()].into_iter().chain(before))
    };
    Ok(change.map(Change::from).into_iter().chain([command.into()]).collect())
}
