//! What the engines of a host make of transparent huge pages, by engine and version.

use hugewise_engines::{EngineKind, ThpAdvice};
use hugewise_model::instance::SegmentKind;
use hugewise_model::{Host, Instance, Lack, Level, PageSize, Reason};

use crate::Missing;
use crate::cause::wants_thp;
use crate::wording::join_names;

/// What all the instances of a host make of it.
#[derive(Clone, Debug, Default)]
pub struct ThpPolicy<'a> {
    /// Those that are against `always`.
    pub against: Vec<(&'a Instance, Level)>,
    /// Whether one of them says never, and nobody here wants any: then never suits all of them.
    pub never: bool,
    /// Those that would have `always`.
    pub wanting: Vec<&'a Instance>,
    /// Those that ask for THP themselves (madvise): `never` takes it from them.
    pub advised: Vec<&'a Instance>,
    /// Those whose makers say madvise: they ask for THP where that suits them.
    pub madvising: Vec<&'a Instance>,
    /// A fact that the advice for some other instance hangs on, and that is not known.
    pub missing: Option<Missing>,
}

impl ThpPolicy<'_> {
    const fn instead_of_always(&self) -> &'static str {
        if self.never { "never" } else { "madvise" }
    }

    /// What those that are against `always` say, in words.
    pub(crate) const fn preferred_word(&self) -> &'static str {
        match () {
            () if self.never => "never",
            () if !self.madvising.is_empty() => "madvise",
            () => "madvise or never",
        }
    }

    /// Whether somebody here has THP under madvise and none under never.
    pub fn asks_by_advice(&self) -> bool {
        !self.advised.is_empty() || !self.madvising.is_empty()
    }

    /// Whether some instance minds a switch that says so.
    pub fn rejects(&self, value: &str) -> bool {
        let is_only_wanted = self.against.is_empty() && !self.wanting.is_empty();
        match value {
            "always" => !self.against.is_empty(),
            "never" => self.asks_by_advice() || is_only_wanted,
            _ => is_only_wanted,
        }
    }

    /// Whether nobody here has a wish.
    pub const fn is_empty(&self) -> bool {
        self.against.is_empty() && self.wanting.is_empty() && self.advised.is_empty()
    }
}

/// Whether the kernel has no transparent huge pages: those before 2.6.38 but Red Hat's (RHEL 6:
/// access.redhat.com/solutions/46111), those built without them, and those that count none.
pub fn kernel_has_none(host: &Host) -> bool {
    if !host.thp.enabled.is_absent() {
        return false;
    }
    let counters = host.memory.vmstat.as_known();
    let counts_none = counters.is_some_and(|all| {
        !all.is_empty() && !all.iter().any(|(name, _)| name.starts_with("thp_"))
    });
    let is_older = |kernel: &hugewise_model::KernelRelease| {
        kernel.is_before_2_6(38)
            && !kernel.text.split(['.', '-']).any(|part| part.starts_with("el6"))
    };
    counts_none || host.kernel.as_known().is_some_and(is_older)
}

/// `always` where some instances want it and none is against it, `madvise` otherwise.
pub(crate) fn meeting_point(host: &Host, instances: &[Instance]) -> &'static str {
    let policy = find_thp_policy(host, instances);
    if policy.against.is_empty() && !policy.wanting.is_empty() {
        "always"
    } else {
        offered_word(host, policy.instead_of_always())
    }
}

/// `never` where it is madvise and the kernel does not know that (the first ones of RHEL 6).
fn offered_word(host: &Host, word: &'static str) -> &'static str {
    let choices = &host.thp.choices;
    if choices.is_empty() || choices.iter().any(|text| text == word) { word } else { "never" }
}

/// What the switches are to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThpSwitchTargets {
    /// The top one.
    pub enabled: String,
    /// Sizes that say `always` whatever the top one says, and are to follow it.
    pub inherit: Vec<PageSize>,
}

/// What the switches of a host are to say for its instances; none where the top one is not known.
pub fn plan_thp_switches(host: &Host, policy: &ThpPolicy<'_>) -> Option<ThpSwitchTargets> {
    let enabled = host.thp.enabled.as_known()?.as_str();
    let inherit = host.thp.sizes.iter().filter(|size| {
        !policy.against.is_empty() && size.enabled.as_known().is_some_and(|text| text == "always")
    });
    let inherit = inherit.map(|size| size.page_size).collect();
    let value = match enabled {
        "always" if !policy.against.is_empty() => offered_word(host, policy.instead_of_always()),
        "never" if policy.asks_by_advice() => "madvise",
        "never" | "madvise" if policy.against.is_empty() && !policy.wanting.is_empty() => "always",
        other => other,
    };
    Some(ThpSwitchTargets { enabled: value.to_owned(), inherit })
}

/// [`plan_thp_switches`] in words; none where they say it already.
pub(crate) fn in_words(host: &Host, instances: &[Instance]) -> Option<String> {
    let Some(ThpSwitchTargets { enabled, inherit }) =
        plan_thp_switches(host, &find_thp_policy(host, instances))
    else {
        return Some(format!("set transparent huge pages to {}", meeting_point(host, instances)));
    };
    let sizes = join_names(&inherit.iter().map(ToString::to_string).collect::<Vec<_>>());
    let changes = host.thp.enabled.as_known() != Some(&enabled);
    match (changes, inherit.is_empty()) {
        (true, true) => Some(format!("set transparent huge pages to {enabled}")),
        (true, false) => Some(format!(
            "set transparent huge pages to {enabled}, and let those of {sizes} follow that"
        )),
        (false, false) => Some(format!(
            "let transparent huge pages of {sizes} follow the top switch, which is {enabled}"
        )),
        (false, true) => None,
    }
}

/// What the instances of a host make of THP.
pub fn find_thp_policy<'a>(host: &Host, instances: &'a [Instance]) -> ThpPolicy<'a> {
    let mut policy = ThpPolicy::default();
    // One that does not run is told of it once it does.
    for instance in instances.iter().filter(|instance| !instance.is_stopped()) {
        match find_thp_advice(host, instance) {
            Ok(Some(ThpAdvice::Never(level))) => {
                policy.never = true;
                policy.against.push((instance, level));
            }
            Ok(Some(ThpAdvice::Madvise(level))) => {
                policy.madvising.push(instance);
                policy.against.push((instance, level));
            }
            Ok(Some(ThpAdvice::Against(level))) => policy.against.push((instance, level)),
            Ok(Some(ThpAdvice::For)) => policy.wanting.push(instance),
            Ok(None) => {}
            Err(what) => policy.missing = Some(what),
        }
        if wants_thp(instance) && !goes_by_shared_switch(host, instance) {
            policy.advised.push(instance);
        }
    }
    policy.never &=
        policy.wanting.is_empty() && !policy.asks_by_advice() && policy.missing.is_none();
    policy
}

/// ZGC of JDK 22 and later asks for its heap by what the host says of shared memory, and where that
/// gives pages nothing else matters to it (JDK-8319969).
fn goes_by_shared_switch(host: &Host, instance: &Instance) -> bool {
    let is_given =
        host.thp.shmem_enabled.as_known().is_some_and(|word| word != "never" && word != "deny");
    let release = instance.version.as_known().and_then(|version| version.split('.').next());
    let is_late =
        release.and_then(|number| number.parse::<u32>().ok()).is_some_and(|major| major >= 22);
    let has_shared_heap = instance.setting_value("usezgc") == Some("true")
        && instance.segments.iter().any(|segment| segment.kind == SegmentKind::Posix);
    is_given && is_late && has_shared_heap
}

/// None where an engine in its version says nothing, or has switched THP off for itself.
pub(crate) fn find_thp_advice(
    host: &Host,
    instance: &Instance,
) -> Result<Option<ThpAdvice>, Missing> {
    let process = host.find_process(instance.pid);
    if process.is_some_and(|process| process.thp_enabled.get() == Some(false)) {
        return Ok(None);
    }
    let missing = || {
        let why = match instance.version.unknown_reason() {
            Some(Reason::Denied) => Reason::Denied,
            _ => Reason::from_text("its version is not known"),
        };
        let what = format_args!("what {} makes of THP", instance.title());
        Missing::Instance(Lack::new(what, why))
    };
    (EngineKind::for_engine(instance.engine).thp.advise)(host, instance).map_err(|_| missing())
}
