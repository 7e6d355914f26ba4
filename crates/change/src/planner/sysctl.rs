//! Kernel settings: set now, and kept for the next boot by a file that has the last word.

use hugewise_advice::Missing;
use hugewise_advice::boot::{self, Outcome, last_words};
use hugewise_model::configuration::Unheeded;

use super::draft::{Draft, Drafted};
use super::overlay::Overlay;
use super::{Ask, ours, unread};
use crate::plan::{Change, Risk, ValueChange};

/// A setting as it is to be.
pub(super) struct Setting {
    /// With dots.
    pub(super) key: &'static str,
    pub(super) value: String,
    /// Whether the running kernel has that value.
    pub(super) holds_now: bool,
}

/// Adds what sets these settings now and at the next boot to a step. The file's settings are these alone and what it
/// had before.
pub(super) fn set(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    mut step: Drafted,
    path: &str,
    settings: &[Setting],
) -> Drafted {
    if ask.options.now {
        for setting in settings.iter().filter(|setting| !setting.holds_now) {
            let file = format!("/proc/sys/{}", setting.key.replace('.', "/"));
            step.changes.push(Change::from(ValueChange::new(file, setting.value.clone())));
        }
    }
    if ask.options.boot {
        match keep(ask, draft, path, settings) {
            Ok(change) => step.changes.extend(change),
            Err(NotKept::NotRead) => {
                let pairs: Vec<(&str, &str)> = settings.iter().map(|it| (it.key, it.value.as_str())).collect();
                let title = format!("{} at each boot", step.title.trim_end_matches(" at each boot"));
                draft.instruct(title, &unread::in_conf(ask.host, &pairs), Risk::Safe, None);
                draft.told.extend(step.carries.iter().map(|carried| carried.remedy.clone()));
            }
            Err(why) => draft.warn(format!("{} will not last beyond the next boot: {why}", step.title)),
        }
    }
    step
}

/// Why the next boot does not have a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotKept {
    #[error(transparent)]
    Taken(#[from] ours::Taken),
    #[error("{place} sets {key} = {value} and is read after {path}: remove that line and plan again")]
    Later { place: String, key: &'static str, value: String, path: String },
    #[error("the boot does not take {key} from {path}")]
    Unheard { key: &'static str, path: String },
    #[error("{0}")]
    Masked(Unheeded),
    #[error("no file on this host could keep it")]
    NotRead,
    #[error("hugewise cannot tell whether {path} has the last word ({missing})")]
    Unknown { path: String, missing: Missing },
    #[error("hugewise cannot tell whether {0} is read")]
    Unread(String),
}

fn keep(ask: &Ask<'_>, draft: &mut Draft<'_>, path: &str, settings: &[Setting]) -> Result<Option<Change>, NotKept> {
    let kept = |files: &Overlay<'_>| {
        settings.iter().all(|it| at_boot(ask, files, it.key).is_some_and(|value| value == it.value))
    };
    if kept(&draft.after) {
        return Ok(None);
    }
    if boot::is_not_read(ask.host, "sysctl.d") {
        return Err(NotKept::NotRead);
    }
    let pairs: Vec<(String, String)> = settings.iter().map(|it| (it.key.to_owned(), it.value.clone())).collect();
    let text = ours::sysctl(&draft.after, path, &pairs)?;
    let words = last_words(ask.host, &draft.after, path, &text);
    for setting in settings {
        match words.iter().find(|word| word.what == setting.key).map(|word| &word.outcome) {
            Some(Outcome::Wins | Outcome::Agrees { .. }) => {}
            Some(Outcome::Loses { place, value }) => {
                let (place, value) = (place.clone(), value.clone());
                return Err(NotKept::Later { place, key: setting.key, value, path: path.to_owned() });
            }
            Some(Outcome::Unheard) => {
                let unheard = NotKept::Unheard { key: setting.key, path: path.to_owned() };
                return Err(boot::unheeded(ask.host, "sysctl.d").cloned().map_or(unheard, NotKept::Masked));
            }
            Some(Outcome::Unknown(missing)) => {
                return Err(NotKept::Unknown { path: path.to_owned(), missing: missing.clone() });
            }
            None => return Err(NotKept::Unread(path.to_owned())),
        }
    }
    Ok(draft.write(path, &text).map(Change::from))
}

/// What the next boot ends with for a key.
fn at_boot(ask: &Ask<'_>, files: &Overlay<'_>, key: &str) -> Option<String> {
    let steps = boot::setting(&boot::with_files(ask.host, files), key).ok()?;
    steps.into_iter().next_back().map(|step| step.value)
}
