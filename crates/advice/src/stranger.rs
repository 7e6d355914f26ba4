//! Instances that nothing vouches for: they are shown, and no command is given on their word.

use std::borrow::Cow;

use hugewise_model::{Bytes, Finding, Instance, Remedy};

use crate::words::shell_word;

/// The instances that something vouches for.
pub fn known(instances: &[Instance]) -> Cow<'_, [Instance]> {
    if instances.iter().all(Instance::is_vouched) {
        return Cow::Borrowed(instances);
    }
    Cow::Owned(instances.iter().filter(|instance| instance.is_vouched()).cloned().collect())
}

/// Those that run, and those that belong to the host and do not.
pub fn by_sleep(instances: &[Instance]) -> (Cow<'_, [Instance]>, Vec<Instance>) {
    if !instances.iter().any(Instance::is_asleep) {
        return (Cow::Borrowed(instances), Vec::new());
    }
    let (asleep, awake): (Vec<Instance>, Vec<Instance>) = instances.iter().cloned().partition(Instance::is_asleep);
    (Cow::Owned(awake), asleep)
}

/// Why root does nothing for an instance unasked: `nothing vouches for it (user mallory, no system service)`.
pub fn why(instance: &Instance) -> String {
    let place = match &instance.unit {
        Some(unit) if instance.unit_is_its_own => format!("{unit} runs it as another user than its own"),
        Some(unit) => format!("{unit} runs more than this server"),
        None => "no system service".to_owned(),
    };
    format!("nothing vouches for it (user {}, {place})", instance.owner)
}

/// The command that plans for it all the same.
pub fn plan_for(instance: &Instance) -> String {
    format!("hugewise plan --instance {}", shell_word(&instance.handle()))
}

/// What nobody has touched of an instance's memory, where that is known and not little.
pub fn untouched(instance: &Instance) -> Option<Bytes> {
    let mapped = instance.segment_bytes();
    let untouched = mapped.saturating_sub(instance.touched.get()?);
    (untouched.part_of(mapped)? >= LITTLE).then_some(untouched)
}

/// Servers that have just started have touched about this little.
const LITTLE: f64 = 0.05;

/// What is done about a finding on a stranger: nothing, unless somebody names him.
pub(crate) fn until_named(mut finding: Finding, instance: &Instance) -> Finding {
    if let Some(untouched) = untouched(instance) {
        finding.evidence.push(format!("of {} mapped, {untouched} never touched", instance.segment_bytes()));
    }
    let what = format!("{}; if you know it, name it", why(instance));
    finding.remedies = vec![Remedy::Consider(format!("{what}: {}", plan_for(instance)))];
    finding
}
