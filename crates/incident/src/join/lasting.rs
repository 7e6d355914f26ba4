//! What stands all the time, without a moment: findings over the whole window.

use super::facts::Facts;
use super::summary;
use crate::page::bytes;
use crate::signatures::observations::Observations;
use crate::signatures::page_tables;
use crate::signatures::rows::apart;
use crate::{Confidence, History, Incident, Kind, Metric, Moment, Series, Signature, Strength, Verdict};

/// Page tables that were large for less than this, in milliseconds, in an archive that is longer do not stand.
const STANDS: i64 = 30 * 60_000;

/// What page tables have to grow by, and how many times what there was: a day's sessions come and go.
const GREW: f64 = 64.0 * 1_048_576.0;
const GREW_MUCH: f64 = 4.0 * 1_073_741_824.0;
const TIMES: f64 = 2.0;

/// Findings, and the signatures that make none and are told by no incident.
pub(super) fn findings(
    observations: &Observations<'_>,
    lasting: &[Signature],
    found: &[Incident],
) -> (Vec<Incident>, Vec<Signature>) {
    let told = |kind| found.iter().flat_map(|incident| &incident.signatures).any(|signature| signature.kind == kind);
    let mut incidents = Vec::new();
    let mut used = Vec::new();
    let tables = lasting.iter().filter(|one| one.kind == Kind::PageTables && one.strength >= Strength::Clear);
    let pools = || lasting.iter().filter(|one| one.kind == Kind::Pool && one.strength >= Strength::Clear);
    if !told(Kind::PageTables) {
        for signature in tables.filter(|signature| stands(observations.history, signature)) {
            let mut signatures = vec![signature.clone()];
            signatures.extend(pools().cloned());
            used.extend(signatures.iter().map(|one| (one.kind, one.from)));
            incidents.push(large(observations, signatures));
        }
    }
    if incidents.is_empty() && !told(Kind::Pool) {
        for signature in pools() {
            let facts = Facts::of(observations, signature.from, signature.to, std::slice::from_ref(signature));
            if facts.pool.is_some_and(|pool| pool.total > 0.0) {
                used.push((signature.kind, signature.from));
                incidents.push(unused(observations, signature));
            }
        }
    }
    let rest = lasting.iter().filter(|one| !told(one.kind) && !used.contains(&(one.kind, one.from))).cloned();
    (incidents, rest.collect())
}

/// Whether page tables were large for long, in all there is, or so large that they speak for themselves.
fn stands(history: &History, signature: &Signature) -> bool {
    if signature.strength == Strength::Strong {
        return true;
    }
    let stood = apart(signature.from, signature.to);
    let spans = history.series.iter().filter(|series| series.column(Metric::PageTables).is_some());
    let longest = spans.filter_map(|series| {
        let (first, last) = (series.samples().first()?, series.samples().last()?);
        Some(apart(first.at, last.at))
    });
    stood >= STANDS || longest.max().unwrap_or(0) <= 2 * stood
}

fn large(observations: &Observations<'_>, signatures: Vec<Signature>) -> Incident {
    let from = signatures.iter().map(|one| one.from).min().unwrap_or_default();
    let to = signatures.iter().map(|one| one.to).max().unwrap_or_default();
    let facts = Facts::of(observations, from, to, &signatures);
    // Without the memory they are of, there is the amount.
    let amount =
        || signatures.iter().flat_map(|one| &one.evidence).next().map_or_else(String::new, |row| row.what.clone());
    let grew = observations.history.series.iter().filter_map(|series| Growth::of(series, observations.memory));
    let grew = grew.max_by(|one, other| one.by().total_cmp(&other.by()));
    let mut summary = match (facts.tables, &grew) {
        (Some(tables), None) => summary::share(tables),
        (Some(tables), Some(growth)) => format!("{}; they {}", summary::share(tables), growth.words()),
        (None, Some(growth)) => format!("page tables {}", growth.words()),
        (None, None) => amount(),
    };
    if let Some(pool) = facts.pool {
        summary = format!("{summary}; {}", summary::pool(pool));
    }
    let slope = observations.rows.iter().find_map(|rows| page_tables::growth(rows, rows.column(Metric::PageTables)?));
    if let Some((by, slope)) = slope {
        summary = format!("{summary}; {}", page_tables::slope_words(observations, by, slope));
    }
    let readings = observations.history.series.iter().filter_map(|series| series.column(Metric::PageTables));
    let readings = readings.map(|column| column.iter().count()).sum::<usize>();
    let used = facts.pool.filter(|pool| pool.total > 0.0 && pool.available < 0.1 * pool.total);
    let against: Vec<String> = used
        .map(|pool| format!("the pool of {} is used: these page tables map other memory", bytes(pool.total)))
        .into_iter()
        .collect();
    let mut raised_by = Vec::new();
    if readings <= 1 {
        raised_by.push("more than one reading: sar -r ALL, or a log of /proc/meminfo over a day".to_owned());
    }
    if slope.is_none() {
        raised_by.push("the number of sessions at that time: it gives each one's share".to_owned());
    }
    let verdict = if grew.is_some() { Verdict::PageTablesGrowing } else { Verdict::PageTablesStanding };
    Incident {
        from,
        to,
        verdict,
        summary,
        confidence: if readings > 1 { Confidence::High } else { Confidence::Medium },
        raised_by,
        against,
        next: summary::next(verdict, &facts),
        who: Vec::new(),
        elsewhere: Vec::new(),
        other_days: Vec::new(),
        signatures,
    }
}

/// Page tables that grew until they were large.
struct Growth {
    from: (Moment, f64),
    to: (Moment, f64),
}

impl Growth {
    /// From the least before the most to that, where it was much.
    fn of(series: &Series, total: Option<f64>) -> Option<Self> {
        let column = series.column(Metric::PageTables)?;
        let at = |row: usize| Some(series.samples().get(row)?.at);
        let (last, most) = column.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let before = column.iter().take_while(|(row, _)| *row <= last);
        // Of several as small the last: what stood until then did not grow.
        let (first, least) = before.min_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)))?;
        let much = GREW.max(total.unwrap_or(0.0) * page_tables::NOTICE).min(GREW_MUCH);
        let grew = most - least >= much && most >= TIMES * least;
        Some(Self { from: (at(first)?, least), to: (at(last)?, most) }).filter(|_| grew)
    }

    fn by(&self) -> f64 {
        self.to.1 - self.from.1
    }

    fn words(&self) -> String {
        let seconds = apart(self.from.0, self.to.0) / 1000;
        let long = match seconds {
            ..=119 => format!("{seconds} s"),
            120..=7199 => format!("{} minutes", seconds / 60),
            _ => format!("{} hours", seconds / 3600),
        };
        format!("grew from {} to {} in {long}", bytes(self.from.1), bytes(self.to.1))
    }
}

fn unused(observations: &Observations<'_>, signature: &Signature) -> Incident {
    let signatures = vec![signature.clone()];
    let facts = Facts::of(observations, signature.from, signature.to, &signatures);
    let reserved = observations.history.series.iter().any(|series| series.column(Metric::HugeReserved).is_some());
    let raised = "how many pages are reserved: sysstat 12.1.1 and later, or a log of /proc/meminfo";
    Incident {
        from: signature.from,
        to: signature.to,
        verdict: Verdict::PoolUnused,
        summary: facts.pool.map_or_else(String::new, summary::pool),
        confidence: if reserved { Confidence::High } else { Confidence::Medium },
        raised_by: if reserved { Vec::new() } else { vec![raised.to_owned()] },
        against: Vec::new(),
        next: summary::next(Verdict::PoolUnused, &facts),
        who: Vec::new(),
        elsewhere: Vec::new(),
        other_days: Vec::new(),
        signatures,
    }
}
