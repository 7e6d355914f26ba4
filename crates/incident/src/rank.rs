//! Which of many hosts is told of first, and whose series are kept.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::{Confidence, History, Incident, Moment};

/// Hosts that keep their series where more were read: what a page tells of at most. Ask for others by name.
pub const MOST_STORIES: usize = 60;

/// The place of a host among others: the surest and the most incidents come first, a host without any last.
pub type Rank = (Reverse<Option<Confidence>>, Reverse<usize>, Option<String>, Moment);

impl History {
    /// The incident that is surest, of these the longest; `None` where nothing was found.
    pub fn worst(&self) -> Option<&Incident> {
        let lasts = |incident: &Incident| incident.to.since(incident.from).unwrap_or_default();
        let of = |(at, one): &(usize, &Incident)| (one.confidence, lasts(one), Reverse(*at));
        self.incidents.iter().enumerate().max_by_key(of).map(|(_, worst)| worst)
    }

    /// What hosts are sorted by.
    pub fn rank(&self) -> Rank {
        let worst = self.worst();
        let confidence = worst.map(|incident| incident.confidence);
        let when = worst.map_or(Moment::default(), |incident| incident.from);
        (Reverse(confidence), Reverse(self.incidents.len()), self.host.clone(), when)
    }

    /// Whether it is this host's name, short or whole, in whichever case.
    pub fn is_named(&self, name: &str) -> bool {
        self.host.as_deref().is_some_and(|host| is_named(host, name))
    }
}

/// Whether a host is meant by a name, which may leave its domain out.
pub(crate) fn is_named(host: &str, name: &str) -> bool {
    let short = host.split('.').next().unwrap_or_default();
    host.eq_ignore_ascii_case(name) || (!name.contains('.') && short.eq_ignore_ascii_case(name))
}

/// Histories as they come, of which no more than [`MOST_STORIES`] keep their series: the worst, or those asked for.
#[derive(Debug)]
pub(crate) struct Stories<'a> {
    asked: &'a [String],
    whole: BTreeSet<(Rank, usize)>,
    all: Vec<History>,
}

impl<'a> Stories<'a> {
    pub(crate) fn of(hosts: usize, asked: &'a [String]) -> Self {
        Self { asked, whole: BTreeSet::new(), all: vec![History::default(); hosts] }
    }

    /// Takes the history of a host at its place.
    pub(crate) fn take(&mut self, at: usize, mut history: History) {
        if self.asked.is_empty() || self.asked.iter().any(|name| history.is_named(name)) {
            self.whole.insert((history.rank(), at));
        } else {
            history.series = Vec::new();
        }
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

    pub(crate) fn done(self) -> Vec<History> {
        self.all
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::{Format, Series, Verdict};

    fn history(name: &str, confidence: Option<Confidence>) -> History {
        let incident = |confidence| Incident {
            from: Moment(0),
            to: Moment(1),
            verdict: Verdict::Hang,
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
        History {
            host: Some(name.into()),
            series: vec![Series::new("x", Format::Sysstat)],
            incidents: confidence.map(incident).into_iter().collect(),
            ..History::default()
        }
    }

    fn kept(histories: &[History]) -> Vec<&str> {
        let whole = histories.iter().filter(|history| !history.series.is_empty());
        whole.filter_map(|history| history.host.as_deref()).collect()
    }

    #[test]
    fn the_worst_keep_their_series_whenever_they_come() {
        let hosts = 200;
        let mut stories = Stories::of(hosts, &[]);
        for at in (0..hosts).rev() {
            let confidence = match at % 50 {
                7 => Some(Confidence::High),
                8 => Some(Confidence::Low),
                _ => None,
            };
            stories.take(at, history(&format!("db{at:03}"), confidence));
        }
        let all = stories.done();
        let kept = kept(&all);
        assert_eq!((all.len(), kept.len()), (hosts, MOST_STORIES));
        for bad in ["db007", "db057", "db107", "db157", "db008", "db158"] {
            assert!(kept.contains(&bad), "{bad}: {kept:?}");
        }
        assert!(all.iter().enumerate().all(|(at, history)| history.host == Some(format!("db{at:03}"))));
    }

    #[test]
    fn who_is_asked_for_keeps_its_series_and_nobody_else() {
        let asked = ["DB2".to_owned()];
        let mut stories = Stories::of(102, &asked);
        for at in 0..100 {
            stories.take(at, history(&format!("bad{at}"), Some(Confidence::High)));
        }
        for (at, name) in (100..).zip(["db2.example.com", "db22"]) {
            stories.take(at, history(name, None));
        }
        assert_eq!(kept(&stories.done()), ["db2.example.com"]);
    }
}
