//! Kernel settings: set now, and kept for the next boot by a file that has the last word.

use hugewise_advice::boot::{self, Outcome, last_words};

use super::draft::{Draft, Drafted};
use super::overlay::Overlay;
use super::{Ask, ours};
use crate::plan::{Change, ValueChange};

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
            Err(why) => draft.warn(format!("{}: {why}: the next boot does not have it", step.title)),
        }
    }
    step
}

fn keep(ask: &Ask<'_>, draft: &mut Draft<'_>, path: &str, settings: &[Setting]) -> Result<Option<Change>, String> {
    let kept = |files: &Overlay<'_>| {
        settings.iter().all(|it| at_boot(ask, files, it.key).is_some_and(|value| value == it.value))
    };
    if kept(&draft.after) {
        return Ok(None);
    }
    let pairs: Vec<(String, String)> = settings.iter().map(|it| (it.key.to_owned(), it.value.clone())).collect();
    let text = ours::sysctl(&draft.after, path, &pairs)?;
    let words = last_words(ask.host, &draft.after, path, &text);
    for setting in settings {
        match words.iter().find(|word| word.what == setting.key).map(|word| &word.outcome) {
            Some(Outcome::Wins | Outcome::Agrees { .. }) => {}
            Some(Outcome::Loses { place, value }) => {
                return Err(format!(
                    "{place} sets {} = {value} and is read after {path}; take that line out and plan again",
                    setting.key
                ));
            }
            Some(Outcome::Unheard) => return Err(format!("the boot does not take {} from {path}", setting.key)),
            Some(Outcome::Unknown(missing)) => {
                return Err(format!("whether {path} has the last word cannot be told ({missing})"));
            }
            None => return Err(format!("whether {path} is read cannot be told")),
        }
    }
    Ok(draft.write(path, &text).map(Change::from))
}

/// What the next boot ends with for a key.
fn at_boot(ask: &Ask<'_>, files: &Overlay<'_>, key: &str) -> Option<String> {
    let steps = boot::setting(&boot::with_files(ask.host, files), key).ok()?;
    steps.into_iter().next_back().map(|step| step.value)
}
