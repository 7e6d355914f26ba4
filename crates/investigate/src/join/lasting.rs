//! Lasting conditions: findings over the whole window, without a moment.

use super::facts::{PoolUsage, WindowFacts};
use super::summary;
use crate::page::bytes_from_f64;
use crate::signatures::observations::Observations;
use crate::signatures::page_tables;
use crate::signatures::rows::milliseconds_between;
use crate::{
    Confidence, Incident, IncidentHistory, IncidentVerdict, Metric, Moment, Series, Signature,
    SignatureKind, SignatureStrength,
};

/// Milliseconds for which page tables have to be large, unless the archive is as short.
const STANDS: i64 = 30 * 60_000;
/// Bytes and times by which page tables have to grow: a day's sessions come and go.
const GREW: f64 = 64.0 * 1_048_576.0;
const GREW_MUCH: f64 = 4.0 * 1_073_741_824.0;
const TIMES: f64 = 2.0;

pub(super) fn find_lasting_conditions(
    observations: &Observations<'_>,
    lasting: &[Signature],
    found: &[Incident],
) -> (Vec<Incident>, Vec<Signature>) {
    let told = |kind| {
        found
            .iter()
            .flat_map(|incident| &incident.signatures)
            .any(|signature| signature.kind == kind)
    };
    let mut incidents = Vec::new();
    let mut used = Vec::new();
    let clear_ones = |kind| {
        let is_clear =
            move |one: &&Signature| one.kind == kind && one.strength >= SignatureStrength::Clear;
        lasting.iter().filter(is_clear)
    };
    let pools = || clear_ones(SignatureKind::Pool);
    if !told(SignatureKind::PageTables) {
        let tables = clear_ones(SignatureKind::PageTables);
        for signature in tables.filter(|one| lasts_long_enough(observations.history, one)) {
            let mut signatures = vec![signature.clone()];
            signatures.extend(pools().cloned());
            used.extend(signatures.iter().map(|one| (one.kind, one.from)));
            incidents.push(report_large_page_tables(observations, signatures));
        }
    }
    if incidents.is_empty() && !told(SignatureKind::Pool) {
        for signature in pools() {
            if let Some(incident) = report_unused_pool(observations, signature) {
                used.push((signature.kind, signature.from));
                incidents.push(incident);
            }
        }
    }
    let rest = lasting
        .iter()
        .filter(|one| !told(one.kind) && !used.contains(&(one.kind, one.from)))
        .cloned();
    (incidents, rest.collect())
}

/// Whether page tables were large for long, for most of the archive, or beyond doubt.
fn lasts_long_enough(history: &IncidentHistory, signature: &Signature) -> bool {
    if signature.strength == SignatureStrength::Strong {
        return true;
    }
    let stood = milliseconds_between(signature.from, signature.to);
    let spans = history.series.iter().filter(|series| series.column(Metric::PageTables).is_some());
    let longest = spans.filter_map(|series| {
        let (first, last) = (series.samples().first()?, series.samples().last()?);
        Some(milliseconds_between(first.at, last.at))
    });
    stood >= STANDS || longest.max().unwrap_or(0) <= 2 * stood
}

const MORE_READINGS: &str =
    "more than one reading: sar -r ALL, or a log of /proc/meminfo over a day";
const SESSIONS: &str = "the number of sessions at that time: it gives each one's share";

fn report_large_page_tables(
    observations: &Observations<'_>,
    signatures: Vec<Signature>,
) -> Incident {
    let from = signatures.iter().map(|one| one.from).min().unwrap_or_default();
    let to = signatures.iter().map(|one| one.to).max().unwrap_or_default();
    let facts = WindowFacts::new(observations, from, to, &signatures);
    let all_series = || observations.history.series.iter();
    let growth = all_series()
        .filter_map(|series| PageTableGrowth::from_series(series, observations.memory))
        .max_by(|one, other| one.grown_bytes().total_cmp(&other.grown_bytes()));
    let slope = observations
        .rows
        .iter()
        .find_map(|rows| page_tables::growth_slope(rows, rows.column(Metric::PageTables)?));
    let mut summary = vec![match (facts.tables.map(summary::describe_page_table_share), &growth) {
        (Some(share), None) => share,
        (Some(share), Some(growth)) => format!("{share}; they {}", growth.describe_growth()),
        (None, Some(growth)) => format!("page tables {}", growth.describe_growth()),
        (None, None) => signatures
            .iter()
            .find_map(|one| Some(one.evidence.first()?.what.clone()))
            .unwrap_or_default(),
    }];
    summary.extend(facts.pool.map(summary::describe_pool));
    summary.extend(slope.map(|(by, slope)| page_tables::describe_slope(observations, by, slope)));
    let readings = all_series()
        .filter_map(|series| series.column(Metric::PageTables))
        .map(|column| column.iter().count())
        .sum::<usize>();
    let is_used = |pool: &PoolUsage| pool.total > 0.0 && pool.available < 0.1 * pool.total;
    let against = facts.pool.filter(is_used).map(|pool| {
        let pool = bytes_from_f64(pool.total);
        format!("the pool of {pool} is used: these page tables map other memory")
    });
    let raised_by = [(readings <= 1, MORE_READINGS), (slope.is_none(), SESSIONS)];
    let verdict = if growth.is_some() {
        IncidentVerdict::PageTablesGrowing
    } else {
        IncidentVerdict::PageTablesStanding
    };
    Incident {
        from,
        to,
        verdict,
        summary: summary.join("; "),
        confidence: if readings > 1 { Confidence::High } else { Confidence::Medium },
        raised_by: raised_by
            .into_iter()
            .filter(|(lacks, _)| *lacks)
            .map(|(_, what)| what.to_owned())
            .collect(),
        against: against.into_iter().collect(),
        next: summary::suggest_next_steps(verdict, &facts),
        who: Vec::new(),
        elsewhere: Vec::new(),
        other_days: Vec::new(),
        signatures,
    }
}

struct PageTableGrowth {
    from: (Moment, f64),
    to: (Moment, f64),
}

impl PageTableGrowth {
    fn from_series(series: &Series, total: Option<f64>) -> Option<Self> {
        let column = series.column(Metric::PageTables)?;
        let at = |row: usize| Some(series.samples().get(row)?.at);
        let (last, most) = column.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let before = column.iter().take_while(|(row, _)| *row <= last);
        // Of several equally small ones the last: what stood until then did not grow.
        let (first, least) =
            before.min_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)))?;
        let much = GREW.max(total.unwrap_or(0.0) * page_tables::NOTICE).min(GREW_MUCH);
        let grew = most - least >= much && most >= TIMES * least;
        Some(Self { from: (at(first)?, least), to: (at(last)?, most) }).filter(|_| grew)
    }

    fn grown_bytes(&self) -> f64 {
        self.to.1 - self.from.1
    }

    fn describe_growth(&self) -> String {
        let long = summary::format_duration(milliseconds_between(self.from.0, self.to.0));
        format!(
            "grew from {} to {} in {long}",
            bytes_from_f64(self.from.1),
            bytes_from_f64(self.to.1)
        )
    }
}

/// Nothing where there are no pages.
fn report_unused_pool(observations: &Observations<'_>, signature: &Signature) -> Option<Incident> {
    let signatures = vec![signature.clone()];
    let facts = WindowFacts::new(observations, signature.from, signature.to, &signatures);
    let pool = facts.pool.filter(|pool| pool.total > 0.0)?;
    let reserved = observations
        .history
        .series
        .iter()
        .any(|series| series.column(Metric::HugeReserved).is_some());
    let raised = "how many pages are reserved: sysstat 12.1.1 and later, or a log of /proc/meminfo";
    Some(Incident {
        from: signature.from,
        to: signature.to,
        verdict: IncidentVerdict::PoolUnused,
        summary: summary::describe_pool(pool),
        confidence: if reserved { Confidence::High } else { Confidence::Medium },
        raised_by: if reserved { Vec::new() } else { vec![raised.to_owned()] },
        against: Vec::new(),
        next: summary::suggest_next_steps(IncidentVerdict::PoolUnused, &facts),
        who: Vec::new(),
        elsewhere: Vec::new(),
        other_days: Vec::new(),
        signatures,
    })
}
