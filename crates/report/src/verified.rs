//! What `hugewise verify` found.

use hugewise_diagnose::Assessment;
use hugewise_diagnose::coverage::Coverage;
use hugewise_engines::logs::{LogReport, LogVerdict};
use hugewise_model::{Host, Instance, Unread};

use crate::view::capitalize;

/// Instances whose huge pages have been looked for.
pub struct Verified<'a> {
    /// The host.
    pub host: &'a Host,
    /// The instances that were looked at.
    pub instances: &'a [Instance],
    /// What is said of them.
    pub assessment: &'a Assessment,
    /// How each stands, in the order of `instances`.
    pub standings: &'a [Coverage],
    /// What the servers' own logs say.
    pub logs: &'a [LogReport],
    /// Where a log and the mappings disagree.
    pub disagreements: &'a [LogDisagreement],
    /// All of it together.
    pub verdict: &'a Coverage,
    /// Whether one instance was named: then others do not matter.
    pub named: bool,
    /// Everything that could not be read.
    pub unread: &'a [Unread],
}

/// A log and the mappings disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDisagreement {
    /// Title of the instance.
    pub instance: String,
    /// Path of the log.
    pub log: String,
    /// What the log says.
    pub says: LogVerdict,
    /// What the mappings say.
    pub mapped: Coverage,
}

impl Verified<'_> {
    pub(crate) fn count_instances(&self) -> usize {
        self.standings
            .iter()
            .filter(|standing| !matches!(standing, Coverage::NotCounted(_)))
            .count()
    }

    pub(crate) fn count_wholly_huge(&self) -> usize {
        self.standings.iter().filter(|standing| **standing == Coverage::All).count()
    }

    pub(crate) fn left_out(&self) -> impl Iterator<Item = (&Instance, &'static str)> {
        self.instances.iter().zip(self.standings).filter_map(
            |(instance, standing)| match standing {
                Coverage::NotCounted(why) => Some((instance, *why)),
                _ => None,
            },
        )
    }

    pub(crate) fn summary(&self) -> String {
        match self.host.unseen_reason().filter(|_| !self.named || self.host.torn.is_some()) {
            Some(why) => format!("{}; there may be others: {why}", self.of_seen()),
            None => self.of_seen(),
        }
    }

    fn of_seen(&self) -> String {
        match (self.count_instances(), self.count_wholly_huge()) {
            (0, _) if self.instances.is_empty() && !self.host.processes.is_known() => {
                let why = self.host.processes.reason_text().unwrap_or_default();
                format!("hugewise cannot tell what runs here (processes: {why})")
            }
            (0, _) if self.instances.is_empty() => {
                "no instance runs here that hugewise can check".into()
            }
            (0, _) => "no instance here needs huge pages".into(),
            (1, _) => self.of_one(),
            (counted, wholly) => format!("{wholly} of {counted} instances wholly on huge pages"),
        }
    }

    fn of_one(&self) -> String {
        let counts =
            |(_, standing): &(&Instance, &Coverage)| !matches!(standing, Coverage::NotCounted(_));
        let Some((instance, standing)) = self.instances.iter().zip(self.standings).find(counts)
        else {
            return String::new();
        };
        let title = instance.title();
        match standing {
            Coverage::All => format!("{title} is wholly on huge pages"),
            Coverage::Partly => format!("{title} is only partly on huge pages"),
            Coverage::Unknown => format!("it is not known whether {title} is on huge pages"),
            _ => format!("{title} is not on huge pages"),
        }
    }

    /// Capitalised, unless it begins with an instance's name.
    pub(crate) fn summary_sentence(&self) -> String {
        let summary = self.summary();
        if self.instances.iter().any(|instance| summary.starts_with(&instance.title())) {
            return summary;
        }
        capitalize(&summary)
    }
}
