//! How things look: text for a terminal, JSON for programs.
//!
//! Nothing here decides anything. Everything that a host can name (processes, files, instances) is
//! escaped by [`plain`] before it reaches a terminal.

use std::path::Path;

use hugewise_diagnose::sizing::{Request, SizedServer, Sizing};
use hugewise_diagnose::target::PoolGoal;
use hugewise_diagnose::{Assessment, Diagnosis};
use hugewise_model::{Host, Instance, Unread};

mod chart;
mod check_outcome;
pub mod date;
pub mod formats;
mod glossary;
mod host_report;
mod html;
pub mod json;
pub mod lab;
mod log_timestamp;
pub mod nagios;
pub mod openmetrics;
pub mod palette;
pub mod parquet;
mod plan_reports;
pub mod recorded;
mod report_writers;
pub mod rules;
pub mod run;
pub mod screen;
pub mod series;
pub mod spark;
mod table;
pub mod text;
mod unnamed_file;
mod verified;
pub mod view;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod testing;

pub use hugewise_model::escape::plain;

pub use check_outcome::{CheckOutcome, CountedServers};
pub use host_report::{HostReport, Stop, VERSION};
pub use lab::LabReport;
pub use palette::Palette;
pub use plan_reports::{
    AppliedReport, FindingOutcome, JournalListing, PlanReport, Proof, RestartedServer,
};
pub use report_writers::{PageReport, Report};
pub use run::{RunPreamble, RunReport};
pub use unnamed_file::UnnamedFile;
pub use verified::{LogDisagreement, Verified};

/// A host that has been checked.
pub struct CheckReport<'a> {
    /// The host.
    pub host: &'a Host,
    /// Its instances, sorted by engine and name.
    pub instances: &'a [Instance],
    /// What is said of them.
    pub assessment: &'a Assessment,
    /// Everything that the readers of host and engines could not read, sorted.
    pub unread: &'a [Unread],
    /// Where it was captured, as the user named it; `None` for the running host.
    pub root: Option<&'a Path>,
}

/// How text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct TextLayout {
    /// Columns of the terminal.
    pub width: usize,
    /// With colour or without.
    pub palette: Palette,
    /// All evidence of every finding, instead of the first fact.
    pub verbose: bool,
}

impl TextLayout {
    /// No colour, this many columns.
    pub const fn plain_text(width: usize) -> Self {
        Self { width, palette: Palette::Plain, verbose: false }
    }
}

impl<'a> CheckReport<'a> {
    /// What a diagnosis found on a host; `root` is where it was captured.
    pub fn from_diagnosis(diagnosis: &'a Diagnosis, root: Option<&'a Path>) -> Self {
        let Diagnosis { host, instances, assessment, unread, .. } = diagnosis;
        Self { host, instances, assessment, unread, root }
    }
}

impl CheckReport<'_> {
    /// Moments of servers that cannot be told and that no rule reports, with the reason.
    pub fn open_moments(&self) -> Vec<String> {
        view::closing::open_moments(self)
    }
}

/// Servers that have been sized.
pub struct SizeReport<'a> {
    /// The host.
    pub host: &'a Host,
    /// The servers, running and described.
    pub instances: &'a [Instance],
    /// What was asked.
    pub request: &'a Request,
    /// The answer.
    pub sizing: &'a Sizing,
    /// What a plan makes of the pools; empty without a plan.
    pub planned: &'a [PoolGoal],
    /// The same for a plan that gives back what nobody needs.
    pub shrunk: &'a [PoolGoal],
    /// Everything that could not be read, sorted.
    pub unread: &'a [Unread],
}

impl SizeReport<'_> {
    fn instance_of(&self, sized: &SizedServer) -> Option<&Instance> {
        let is_same =
            |instance: &&Instance| instance.engine == sized.engine && instance.name == sized.name;
        self.instances.iter().find(is_same)
    }
}
