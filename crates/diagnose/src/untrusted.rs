//! Instances that nothing vouches for: they are shown, and no command is given on their word.

use std::borrow::Cow;

use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{Bytes, Finding, Instance, Remedy};

use crate::wording::shell_word;

/// The instances that something vouches for.
pub fn trusted_instances(instances: &[Instance]) -> Cow<'_, [Instance]> {
    if instances.iter().all(Instance::is_trusted) {
        return Cow::Borrowed(instances);
    }
    Cow::Owned(instances.iter().filter(|instance| instance.is_trusted()).cloned().collect())
}

pub(crate) fn split_by_running(instances: &[Instance]) -> (Cow<'_, [Instance]>, Vec<Instance>) {
    if !instances.iter().any(Instance::is_stopped) {
        return (Cow::Borrowed(instances), Vec::new());
    }
    let (asleep, awake): (Vec<Instance>, Vec<Instance>) =
        instances.iter().cloned().partition(Instance::is_stopped);
    (Cow::Owned(awake), asleep)
}

/// `nothing vouches for it (user mallory, no system service)`
pub fn untrusted_reason(instance: &Instance) -> String {
    let lacks = |wanted: TrustReason| {
        let mut failed = instance.trust.failed.iter();
        failed.find(|(reason, _)| *reason == wanted).map(|(_, why)| why.clone())
    };
    let place = match &instance.unit {
        Some(unit) => {
            lacks(TrustReason::Unit).unwrap_or_else(|| format!("{unit} is not known to start it"))
        }
        None => "no system service".to_owned(),
    };
    format!("nothing vouches for it (user {}, {place})", instance.owner)
}

/// The command that plans for it all the same.
pub fn plan_for(instance: &Instance) -> String {
    format!("hugewise plan --instance {}", shell_word(&instance.unique_title()))
}

/// What nobody has touched of an instance's memory, where that is not little.
pub(crate) fn untouched_memory(instance: &Instance) -> Option<Bytes> {
    let mapped = instance.segment_bytes();
    let untouched = mapped.saturating_sub(instance.touched_bytes.get()?);
    (untouched.part_of(mapped)? >= LITTLE).then_some(untouched)
}

/// Servers that have just started have touched about this little.
const LITTLE: f64 = 0.05;

/// What is done about a finding on a stranger: nothing, unless somebody names him.
pub(crate) fn until_named(mut finding: Finding, instance: &Instance) -> Finding {
    if let Some(untouched) = untouched_memory(instance) {
        let mapped = instance.segment_bytes();
        finding.evidence.push(format!("of {mapped} mapped, {untouched} never touched"));
    }
    let what = format!("{}; if you know it, name it", untrusted_reason(instance));
    finding.remedies = vec![Remedy::Consider(format!("{what}: {}", plan_for(instance)))];
    finding
}
