//! Which of many hosts is told of first, and whose series are kept.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::{Confidence, Incident, IncidentHistory, Moment};

/// Hosts that keep their series where more were read; others can be asked for by name.
pub const MOST_STORIES: usize = 60;
/// Incidents of all hosts that are kept whole; each takes kilobytes.
const MOST_INCIDENTS: usize = 20_000;
/// Those of a host beyond that: the surest.
const LEAST_INCIDENTS: usize = 2;
/// A host's place among others: the surest and the most incidents first, none last.
pub type Rank = (Reverse<Option<Confidence>>, Reverse<usize>, Option<String>, Moment);

impl IncidentHistory {
    /// The gravest incident: one that a host ended in, otherwise the surest, of these the longest;
    /// `None` where nothing was found.
    pub fn worst_incident(&self) -> Option<&Incident> {
        let lasts =
            |incident: &Incident| incident.to.duration_since(incident.from).unwrap_or_default();
        let confidence_of = |(at, one): &(usize, &Incident)| {
            (one.verdict.is_outcome(), one.confidence, lasts(one), Reverse(*at))
        };
        self.incidents.iter().enumerate().max_by_key(confidence_of).map(|(_, worst)| worst)
    }

    /// What hosts are sorted by.
    pub fn rank(&self) -> Rank {
        let worst = self.worst_incident();
        let confidence = self.incidents.iter().map(|incident| incident.confidence).max();
        let when = worst.map_or(Moment::default(), |incident| incident.from);
        (Reverse(confidence), Reverse(self.incidents.len()), self.host.clone(), when)
    }

    /// Whether this is the host's name, with or without its domain, in any case.
    pub fn is_named(&self, name: &str) -> bool {
        self.host.as_deref().is_some_and(|host| is_named(host, name))
    }
}

/// Whether a name, with or without its domain, is a host's.
pub(crate) fn is_named(host: &str, name: &str) -> bool {
    let short = host.split('.').next().unwrap_or_default();
    host.eq_ignore_ascii_case(name) || (!name.contains('.') && short.eq_ignore_ascii_case(name))
}

/// Histories as they come, of which the worst or those asked for keep their series.
#[derive(Debug)]
pub(crate) struct Stories<'a> {
    asked: &'a [String],
    whole: BTreeSet<(Rank, usize)>,
    all: Vec<IncidentHistory>,
    incidents: usize,
}

impl<'a> Stories<'a> {
    pub(crate) fn new(hosts: usize, asked: &'a [String]) -> Self {
        let all = vec![IncidentHistory::default(); hosts];
        Self { asked, whole: BTreeSet::new(), all, incidents: 0 }
    }

    pub(crate) fn add_history(&mut self, at: usize, mut history: IncidentHistory) {
        if self.asked.is_empty() || self.asked.iter().any(|name| history.is_named(name)) {
            self.whole.insert((history.rank(), at));
        } else {
            history.series = Vec::new();
        }
        if self.incidents.saturating_add(history.incidents.len()) > MOST_INCIDENTS {
            keep_surest_incidents(&mut history);
        }
        self.incidents = self.incidents.saturating_add(history.incidents.len());
        if let Some(place) = self.all.get_mut(at) {
            *place = history;
        }
        if self.whole.len() > MOST_STORIES
            && let Some((_, last)) = self.whole.pop_last()
            && let Some(least) = self.all.get_mut(last)
        {
            least.series = Vec::new();
        }
    }

    pub(crate) fn into_histories(self) -> Vec<IncidentHistory> {
        self.all
    }
}

fn keep_surest_incidents(history: &mut IncidentHistory) {
    let all = history.incidents.len();
    if all <= LEAST_INCIDENTS {
        return;
    }
    history.incidents.sort_by_key(|incident| (Reverse(incident.confidence), incident.from));
    history.incidents.truncate(LEAST_INCIDENTS);
    history.incidents.sort_by_key(|incident| incident.from);
    history.unknown.push(format!(
        "{} of {all} incidents are left out, as there are more than {MOST_INCIDENTS} of all hosts; \
         name this host, or fewer files",
        all - LEAST_INCIDENTS
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IncidentVerdict, Series, SourceFormat};

    fn history_named(name: &str, confidence: Option<Confidence>) -> IncidentHistory {
        let incident = |confidence| Incident {
            from: Moment(0),
            to: Moment(1),
            verdict: IncidentVerdict::Hang,
            summary: String::new(),
            confidence,
            raised_by: Vec::new(),
            against: Vec::new(),
            next: Vec::new(),
            who: Vec::new(),
            elsewhere: Vec::new(),
            other_days: Vec::new(),
            signatures: Vec::new(),
        };
        IncidentHistory {
            host: Some(name.into()),
            series: vec![Series::new("x", SourceFormat::SYSSTAT)],
            incidents: confidence.map(incident).into_iter().collect(),
            ..IncidentHistory::default()
        }
    }

    fn hosts_with_series(histories: &[IncidentHistory]) -> Vec<&str> {
        let whole = histories.iter().filter(|history| !history.series.is_empty());
        whole.filter_map(|history| history.host.as_deref()).collect()
    }

    #[test]
    fn the_worst_keep_their_series_whenever_they_come() {
        let hosts = 200;
        let mut stories = Stories::new(hosts, &[]);
        for at in (0..hosts).rev() {
            let confidence = match at % 50 {
                7 => Some(Confidence::High),
                8 => Some(Confidence::Low),
                _ => None,
            };
            stories.add_history(at, history_named(&format!("db{at:03}"), confidence));
        }
        let all = stories.into_histories();
        let kept = hosts_with_series(&all);
        assert_eq!((all.len(), kept.len()), (hosts, MOST_STORIES));
        for bad in ["db007", "db057", "db107", "db157", "db008", "db158"] {
            assert!(kept.contains(&bad), "{bad}: {kept:?}");
        }
        assert!(
            all.iter().enumerate().all(|(at, history)| history.host == Some(format!("db{at:03}")))
        );
    }

    #[test]
    fn incidents_of_very_many_hosts_are_left_out_and_counted() {
        let mut stories = Stories::new(3, &[]);
        for at in 0..3 {
            let mut history = history_named(&format!("db{at}"), Some(Confidence::Low));
            let one = history.incidents[0].clone();
            history.incidents = vec![one; MOST_INCIDENTS / 2];
            history.incidents[7].confidence = Confidence::High;
            stories.add_history(at, history);
        }
        let all = stories.into_histories();
        let counts: Vec<usize> = all.iter().map(|history| history.incidents.len()).collect();
        assert_eq!(counts, [10_000, 10_000, 2]);
        assert!(all[2].incidents.iter().any(|one| one.confidence == Confidence::High));
        assert!(all[2].unknown[0].starts_with("9998 of 10000 incidents are left out"));
        assert!(all[1].unknown.is_empty());
    }

    #[test]
    fn who_is_asked_for_keeps_its_series_and_nobody_else() {
        let asked = ["DB2".to_owned()];
        let mut stories = Stories::new(102, &asked);
        for at in 0..100 {
            stories.add_history(at, history_named(&format!("bad{at}"), Some(Confidence::High)));
        }
        for (at, name) in (100..).zip(["db2.example.com", "db22"]) {
            stories.add_history(at, history_named(name, None));
        }
        assert_eq!(hosts_with_series(&stories.into_histories()), ["db2.example.com"]);
    }
}
