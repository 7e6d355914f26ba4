//! What the renderers of `verify` show.

use hugewise_advice::Assessment;
use hugewise_advice::standing::Standing;
use hugewise_engines::logs::{LogReport, LogVerdict};
use hugewise_model::{Host, Instance, Unread};

/// Instances whose huge pages have been looked for.
pub struct Verified<'a> {
    /// The host.
    pub host: &'a Host,
    /// The instances that were looked at.
    pub instances: &'a [Instance],
    /// What is said of them.
    pub assessment: &'a Assessment,
    /// How each stands, in the order of `instances`.
    pub standings: &'a [Standing],
    /// What the servers' own logs say.
    pub logs: &'a [LogReport],
    /// Where a log and the mappings disagree.
    pub disagreements: &'a [Disagreement],
    /// All of it together.
    pub verdict: &'a Standing,
    /// Whether it is about one instance that was named: then others do not matter.
    pub named: bool,
    /// Everything that exists but could not be read.
    pub unread: &'a [Unread],
}

/// A log and the mappings disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Title of the instance.
    pub instance: String,
    /// Path of the log.
    pub log: String,
    /// What the log says.
    pub says: LogVerdict,
    /// What the mappings say.
    pub mapped: Standing,
}

impl Verified<'_> {
    /// Instances that count.
    pub(crate) fn counted(&self) -> usize {
        self.standings.iter().filter(|standing| !matches!(standing, Standing::NotCounted(_))).count()
    }

    /// Of these, the ones that are wholly on huge pages.
    pub(crate) fn wholly(&self) -> usize {
        self.standings.iter().filter(|standing| **standing == Standing::All).count()
    }

    /// The others, and why.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (&Instance, &'static str)> {
        self.instances.iter().zip(self.standings).filter_map(|(instance, standing)| match standing {
            Standing::NotCounted(why) => Some((instance, *why)),
            _ => None,
        })
    }

    /// The answer in a few words.
    pub(crate) fn summary(&self) -> String {
        match self.host.unseen().filter(|_| !self.named || self.host.torn.is_some()) {
            Some(why) => format!("{}; there may be others: {why}", self.of_seen()),
            None => self.of_seen(),
        }
    }

    fn of_seen(&self) -> String {
        match (self.counted(), self.wholly()) {
            (0, _) if self.instances.is_empty() && !self.host.processes.is_known() => {
                let why = self.host.processes.reason().unwrap_or_default();
                format!("hugewise cannot tell what runs here (processes: {why})")
            }
            (0, _) if self.instances.is_empty() => "no instance runs here that hugewise can check".into(),
            (0, _) => "no instance here needs huge pages".into(),
            (1, _) => self.of_one(),
            (counted, wholly) => format!("{wholly} of {counted} instances wholly on huge pages"),
        }
    }

    /// The same of the one instance that counts.
    fn of_one(&self) -> String {
        let counts = |(_, standing): &(&Instance, &Standing)| !matches!(standing, Standing::NotCounted(_));
        let Some((instance, standing)) = self.instances.iter().zip(self.standings).find(counts) else {
            return String::new();
        };
        let title = instance.title();
        match standing {
            Standing::All => format!("{title} is wholly on huge pages"),
            Standing::Partly => format!("{title} is only partly on huge pages"),
            Standing::Unknown => format!("it is not known whether {title} is on huge pages"),
            _ => format!("{title} is not on huge pages"),
        }
    }

    /// The answer as a sentence: with a capital letter, unless it begins with an instance's name.
    pub(crate) fn sentence(&self) -> String {
        let summary = self.summary();
        if self.instances.iter().any(|instance| summary.starts_with(&instance.title())) {
            return summary;
        }
        let mut letters = summary.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }
}
