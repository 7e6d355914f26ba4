//! Faults in a server's files: its next start refuses them, or nobody can tell their effect.

use hugewise_host::Source;
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{NextStart, ServerSetting, Startup};
use hugewise_model::{Host, HugePageMode, Instance, Observed, Process};

use super::{next_start, options};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The line is 0 where the file as a whole is meant.
    pub(crate) place: FileLocation,
    /// As it stands there: `shared_buffers=4g`.
    pub(crate) what: String,
    pub(crate) verdict: FaultVerdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultVerdict {
    /// It does not start.
    Refuses,
    /// Nobody here knows; the setting, where it is one.
    Unclear(Option<ServerSetting>),
}

impl Fault {
    pub(crate) fn refused_setting(setting: &ServerSetting, place: FileLocation) -> Self {
        Self {
            place,
            what: format!("{}={}", setting.name, setting.value),
            verdict: FaultVerdict::Refuses,
        }
    }

    pub(crate) fn unclear_setting(setting: ServerSetting, place: FileLocation) -> Self {
        let what = format!("{}={}", setting.name, setting.value);
        Self { place, what, verdict: FaultVerdict::Unclear(Some(setting)) }
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.verdict == FaultVerdict::Refuses
    }

    pub(crate) fn is_of(&self, name: &str) -> bool {
        matches!(&self.verdict, FaultVerdict::Unclear(Some(setting)) if setting.name == name)
    }
}

/// Whether no file that was read or is at fault has changed since a process began.
pub(crate) fn predate_start(
    host: &Host,
    source: &dyn Source,
    main: &Process,
    mut files: Vec<String>,
    faults: &[Fault],
) -> bool {
    let at_fault = faults.iter().map(|fault| fault.place.file.as_str());
    files.extend(at_fault.map(|file| options::as_reader_opens(host, main, file)));
    !files.is_empty() && next_start::are_unchanged(source, main, &files)
}

/// Applies the faults of its files to a server's next start. Files that are unchanged since the
/// start have none, whatever they look like here, and neither has the command line.
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
        FaultVerdict::Unclear(setting) => setting.clone(),
        FaultVerdict::Refuses => None,
    });
    if let Some(setting) = unclear {
        let decides =
            instance.setting.as_ref().is_some_and(|deciding| deciding.name == setting.name);
        let off = matches!(instance.asked, HugePageMode::No | HugePageMode::Cannot) && !decides;
        let asked = if off { instance.asked } else { HugePageMode::Unknown };
        let setting = if off { instance.setting.clone() } else { Some(setting) };
        instance.next = Observed::Known(NextStart { asked, setting, demands: Vec::new() });
        instance.possible_demands.clear();
    }
}
