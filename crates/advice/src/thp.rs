//! What the engines of a host make of transparent huge pages, by engine and version.

use hugewise_engines::Kind;
use hugewise_engines::ThpAdvice;
use hugewise_model::{Host, Instance, Lack, Level, PageSize, Reason};

use crate::Missing;
use crate::cause::wants_thp;
use crate::words::list;

/// What all the instances of a host make of it.
#[derive(Clone, Debug, Default)]
pub struct Policy<'a> {
    /// Those that are against `always`.
    pub against: Vec<(&'a Instance, Level)>,
    /// Whether one of them says never, and nobody here wants any: then never suits all of them.
    pub never: bool,
    /// Those that would have `always`.
    pub wanting: Vec<&'a Instance>,
    /// Those that ask for THP themselves (madvise): `never` takes it from them.
    pub advised: Vec<&'a Instance>,
    /// A fact that the advice for some other instance hangs on, and that is not known.
    pub missing: Option<Missing>,
}

impl Policy<'_> {
    /// What stands in place of `always` where some are against that.
    const fn instead_of_always(&self) -> &'static str {
        if self.never { "never" } else { "madvise" }
    }

    /// What those that are against `always` say, in words.
    pub const fn word(&self) -> &'static str {
        if self.never { "never" } else { "madvise or never" }
    }

    /// Whether nobody here has a wish.
    pub const fn is_empty(&self) -> bool {
        self.against.is_empty() && self.wanting.is_empty() && self.advised.is_empty()
    }
}

/// Whether the kernel has no transparent huge pages, so that nothing of them is missing: those before 2.6.38 but Red Hat's
/// (RHEL 6: access.redhat.com/solutions/46111), those built without them, and those that count none.
pub fn kernel_has_none(host: &Host) -> bool {
    if !host.thp.enabled.is_absent() {
        return false;
    }
    let counters = host.memory.vmstat.known();
    let counts_none =
        counters.is_some_and(|all| !all.is_empty() && !all.iter().any(|(name, _)| name.starts_with("thp_")));
    let is_older = |kernel: &hugewise_model::KernelRelease| {
        kernel.is_before_2_6(38) && !kernel.text.split(['.', '-']).any(|part| part.starts_with("el6"))
    };
    counts_none || host.kernel.known().is_some_and(is_older)
}

/// The setting that the instances of a host can agree on: `always` where some want it and none is against it, `madvise`
/// otherwise.
pub fn meeting_point(host: &Host, instances: &[Instance]) -> &'static str {
    let policy = policy(host, instances);
    if policy.against.is_empty() && !policy.wanting.is_empty() {
        "always"
    } else {
        offered(host, policy.instead_of_always())
    }
}

/// The word, or `never` where it is madvise and the kernel does not know that (the first ones of RHEL 6).
fn offered(host: &Host, word: &'static str) -> &'static str {
    let choices = &host.thp.choices;
    if choices.is_empty() || choices.iter().any(|it| it == word) { word } else { "never" }
}

/// What the switches are to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// The top one.
    pub enabled: String,
    /// Sizes that say `always` whatever the top one says, and are to follow it.
    pub inherit: Vec<PageSize>,
}

/// What the switches of a host are to say for its instances; none where the top one is not known.
pub fn switches(host: &Host, policy: &Policy<'_>) -> Option<Switches> {
    let enabled = host.thp.enabled.known()?.as_str();
    let always = host.thp.sizes.iter().filter(|size| size.enabled.known().is_some_and(|it| it == "always"));
    let inherit = always.filter(|_| !policy.against.is_empty()).map(|size| size.page_size).collect();
    let value = match enabled {
        "always" if !policy.against.is_empty() => offered(host, policy.instead_of_always()),
        "never" if !policy.advised.is_empty() => "madvise",
        "never" | "madvise" if policy.against.is_empty() && !policy.wanting.is_empty() => "always",
        other => other,
    };
    Some(Switches { enabled: value.to_owned(), inherit })
}

/// The same in words; none where they say it already.
pub(crate) fn in_words(host: &Host, instances: &[Instance]) -> Option<String> {
    let Some(Switches { enabled, inherit }) = switches(host, &policy(host, instances)) else {
        return Some(format!("set transparent huge pages to {}", meeting_point(host, instances)));
    };
    let sizes = list(&inherit.iter().map(ToString::to_string).collect::<Vec<_>>());
    let changes = host.thp.enabled.known() != Some(&enabled);
    match (changes, inherit.is_empty()) {
        (true, true) => Some(format!("set transparent huge pages to {enabled}")),
        (true, false) => Some(format!("set transparent huge pages to {enabled}, and let those of {sizes} follow that")),
        (false, false) => {
            Some(format!("let transparent huge pages of {sizes} follow the top switch, which is {enabled}"))
        }
        (false, true) => None,
    }
}

/// What the instances of a host make of THP.
pub fn policy<'a>(host: &Host, instances: &'a [Instance]) -> Policy<'a> {
    let mut policy = Policy::default();
    // One that does not run is told of it once it does.
    for instance in instances.iter().filter(|instance| !instance.is_asleep()) {
        match advice(host, instance) {
            Ok(Some(ThpAdvice::Never(level))) => {
                policy.never = true;
                policy.against.push((instance, level));
            }
            Ok(Some(ThpAdvice::Against(level))) => policy.against.push((instance, level)),
            Ok(Some(ThpAdvice::For)) => policy.wanting.push(instance),
            Ok(None) => {}
            Err(what) => policy.missing = Some(what),
        }
        if wants_thp(instance) {
            policy.advised.push(instance);
        }
    }
    policy.never &= policy.wanting.is_empty() && policy.advised.is_empty() && policy.missing.is_none();
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
    let unknown = || match instance.version.why() {
        Some(Reason::Denied) => Reason::Denied,
        _ => Reason::untold("its version is not known"),
    };
    (Kind::of(instance.engine).thp)(host, instance)
        .map_err(|_| Missing::Instance(Lack::new(format_args!("what {} makes of THP", instance.title()), unknown())))
}
