//! What an investigation found on many hosts: a line each, the worst first.

use hugewise_investigate::{Incident, IncidentHistory, Investigation};

/// With more hosts than this, a report begins with their table.
pub(crate) const MANY: usize = 8;

pub(crate) struct HostLine<'a> {
    pub(crate) history: &'a IncidentHistory,
    /// The surest incident, and of these the longest.
    pub(crate) worst: Option<&'a Incident>,
}

impl HostLine<'_> {
    pub(crate) fn name(&self) -> &str {
        self.history.host.as_deref().unwrap_or("a host without a name")
    }

    /// The summary up to its first colon.
    pub(crate) fn cause(&self) -> &str {
        let summary = self.worst.map_or("", |incident| incident.summary.as_str());
        summary.split_once(": ").map_or(summary, |(cause, _)| cause)
    }

    /// The summary behind its first colon.
    pub(crate) fn figures(&self) -> &str {
        let summary = self.worst.map_or("", |incident| incident.summary.as_str());
        summary.split_once(": ").map_or("", |(_, figures)| figures)
    }
}

/// Those with the surest and the most incidents first.
pub(crate) fn rank_hosts(investigation: &Investigation) -> Vec<HostLine<'_>> {
    let line = |history| HostLine { history, worst: history.worst_incident() };
    let mut lines: Vec<HostLine<'_>> = investigation.hosts.iter().map(line).collect();
    lines.sort_by_cached_key(|line| line.history.rank());
    lines
}

#[cfg(test)]
mod tests {
    use hugewise_investigate::Confidence;

    use super::*;
    use crate::testing::sample_investigations;

    #[test]
    fn the_surest_come_first_and_the_quiet_last() {
        let mut many = Investigation::default();
        for (name, confidence, incidents) in [
            ("a", None, 0),
            ("b", Some(Confidence::Low), 1),
            ("c", Some(Confidence::High), 1),
            ("d", Some(Confidence::High), 3),
        ] {
            let mut history = sample_investigations::storm_investigation().hosts.remove(0);
            history.host = Some(name.into());
            let incident = confidence.map(|confidence| Incident {
                confidence,
                ..sample_investigations::storm_incident(sample_investigations::MIDNIGHT)
            });
            history.incidents = incident.into_iter().cycle().take(incidents).collect();
            many.hosts.push(history);
        }
        let lines = rank_hosts(&many);
        assert_eq!(lines.iter().map(HostLine::name).collect::<Vec<_>>(), ["d", "c", "b", "a"]);
        assert_eq!(lines[0].cause(), "reclaim storm driven by page tables");
        assert!(lines[0].figures().starts_with("24 % of memory"), "{}", lines[0].figures());
        assert!(lines[3].worst.is_none() && lines[3].cause().is_empty());
    }
}
