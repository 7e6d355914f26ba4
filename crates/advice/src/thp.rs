//! What the engines of a host make of transparent huge pages, by engine and version.

use hugewise_engines::Kind;
use hugewise_engines::ThpAdvice;
use hugewise_model::{Host, Instance, Lack, Level};

use crate::Missing;
use crate::cause::wants_thp;

/// What all the instances of a host make of it.
#[derive(Clone, Debug, Default)]
pub struct Policy<'a> {
    /// Those that are against `always`.
    pub against: Vec<(&'a Instance, Level)>,
    /// Those that would have `always`.
    pub wanting: Vec<&'a Instance>,
    /// Those that ask for THP themselves (madvise): `never` takes it from them.
    pub advised: Vec<&'a Instance>,
    /// A fact that the advice for some other instance hangs on, and that is not known.
    pub missing: Option<Missing>,
}

impl Policy<'_> {
    /// Whether nobody here has a wish.
    pub const fn is_empty(&self) -> bool {
        self.against.is_empty() && self.wanting.is_empty() && self.advised.is_empty()
    }
}

/// The setting that the instances of a host can agree on: `always` where some want it and none is against it, `madvise`
/// otherwise.
pub fn meeting_point(host: &Host, instances: &[Instance]) -> &'static str {
    let policy = policy(host, instances);
    if policy.against.is_empty() && !policy.wanting.is_empty() { "always" } else { "madvise" }
}

/// What the instances of a host make of THP.
pub fn policy<'a>(host: &Host, instances: &'a [Instance]) -> Policy<'a> {
    let mut policy = Policy::default();
    for instance in instances {
        match advice(host, instance) {
            Ok(Some(ThpAdvice::Against(level))) => policy.against.push((instance, level)),
            Ok(Some(ThpAdvice::For)) => policy.wanting.push(instance),
            Ok(None) => {}
            Err(what) => policy.missing = Some(what),
        }
        if wants_thp(instance) {
            policy.advised.push(instance);
        }
    }
    policy
}

/// What one engine in its version makes of it; none where it has switched THP off for itself, or says nothing.
///
/// # Errors
/// The advice hangs on the version, and that is not known.
pub fn advice(host: &Host, instance: &Instance) -> Result<Option<ThpAdvice>, Missing> {
    let process = host.process(instance.pid);
    if process.is_some_and(|process| process.thp_enabled.get() == Some(false)) {
        return Ok(None);
    }
    (Kind::of(instance.engine).thp)(host, instance)
        .map_err(|_| Missing::Instance(Lack::of(format_args!("version of {}", instance.title()), &instance.version)))
}
