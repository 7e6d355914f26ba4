//! What in a server's files its next start is known to refuse, and what nobody can tell what it comes to.

use hugewise_model::configuration::Place;
use hugewise_model::instance::{NextStart, Setting, Startup};
use hugewise_model::{Asked, Instance, Observed};

/// A place in a server's files that is not as the server would have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where; the line is 0 where the file as a whole is meant.
    pub(crate) place: Place,
    /// What is wrong there: `shared_buffers=4g`.
    pub(crate) what: String,
    /// What the server makes of it.
    pub(crate) verdict: Verdict,
}

/// What a server makes of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does not start.
    Refuses,
    /// Nobody here knows; of this setting, where it is of one.
    Unclear(Option<Setting>),
}

impl Fault {
    /// A setting that the server does not start with.
    pub(crate) fn refused(setting: &Setting, place: Place) -> Self {
        Self { place, what: format!("{}={}", setting.name, setting.value), verdict: Verdict::Refuses }
    }

    /// A setting of which nobody knows what the server makes of it.
    pub(crate) fn unclear(setting: Setting, place: Place) -> Self {
        let what = format!("{}={}", setting.name, setting.value);
        Self { place, what, verdict: Verdict::Unclear(Some(setting)) }
    }

    /// Whether the server is known not to start with it.
    pub(crate) fn is_refused(&self) -> bool {
        self.verdict == Verdict::Refuses
    }

    /// Whether it is one of what a setting comes to.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        matches!(&self.verdict, Verdict::Unclear(Some(setting)) if setting.name == name)
    }
}

/// Says what the faults of its files make of a server's next start. One whose files are as they were when it started has none,
/// whatever they look like here, and nothing that stands on its command line kept it from starting.
pub(crate) fn take_in(instance: &mut Instance, faults: &[Fault], unchanged: bool) {
    if unchanged {
        return;
    }
    let in_files = || faults.iter().filter(|fault| !fault.place.is_command_line());
    if let Some(fault) = in_files().find(|fault| fault.is_refused()) {
        if !matches!(instance.startup, Some(Startup::Never(_))) {
            instance.startup = Some(Startup::Refuses(format!("{} ({})", fault.what, fault.place)));
        }
        return;
    }
    let unclear = in_files().find_map(|fault| match &fault.verdict {
        Verdict::Unclear(setting) => setting.clone(),
        Verdict::Refuses => None,
    });
    if let Some(setting) = unclear {
        let decides = instance.setting.as_ref().is_some_and(|deciding| deciding.name == setting.name);
        let off = matches!(instance.asked, Asked::No | Asked::Cannot) && !decides;
        let asked = if off { instance.asked } else { Asked::Unknown };
        let setting = if off { instance.setting.clone() } else { Some(setting) };
        instance.next = Observed::Known(NextStart { asked, setting, demands: Vec::new() });
        instance.perhaps.clear();
    }
}
