//! The rows of a host, made of what `check` answers.

use hugewise_report::json::{Case, Check, Finding, Instance, Pool};
use hugewise_report::parquet::Cell;
use hugewise_report::plain;

use crate::schema::{Place, VERSION};

/// A row, and the table that it belongs to. The cells that all tables have come first.
pub(crate) type Row = (Place, Vec<Cell>);

/// x86-64 and arm64 have 52 bits for addresses of memory: 4 PiB.
const MOST_MEMORY: u64 = 1 << 52;
/// `date -u -d 9999-01-01 +%s`: Python, in which Spark answers, has no year after that.
const END_OF_TIME: i64 = 253_370_764_800;

/// Whose rows they are.
#[derive(Clone, Debug)]
pub(crate) struct Whose {
    pub(crate) capture: String,
    pub(crate) host: Option<String>,
    pub(crate) cluster: Option<String>,
    /// Seconds since the epoch.
    pub(crate) captured_at: Option<i64>,
}

impl Whose {
    pub(crate) fn row(&self, place: Place, own: impl IntoIterator<Item = Cell>) -> Row {
        let common = [
            Cell::Integer(VERSION),
            text(&self.capture),
            maybe(self.host.as_deref()),
            maybe(self.cluster.as_deref()),
            self.captured_at.and_then(|seconds| seconds.checked_mul(1000)).map_or(Cell::Absent, Cell::Time),
        ];
        (place, common.into_iter().chain(own).collect())
    }
}

/// A text on one line, whatever the host has put into it: tables are printed to terminals too.
pub(crate) fn text(text: &str) -> Cell {
    Cell::Text(plain::clean(text).into_owned())
}

pub(crate) fn lines(texts: &[String]) -> Cell {
    let clean: Vec<_> = texts.iter().map(|text| plain::clean(text)).collect();
    Cell::Text(clean.join("\n"))
}

fn maybe(text: Option<&str>) -> Cell {
    text.map_or(Cell::Absent, self::text)
}

/// What is more than the column holds is not known: no host has so much.
fn number(value: Option<u64>) -> Cell {
    value.and_then(|value| i64::try_from(value).ok()).map_or(Cell::Absent, Cell::Integer)
}

/// A size of what is in memory. More than processors can address is not known: somebody made it up, and the sums over all
/// hosts would break or mean nothing.
fn bytes(value: Option<u64>) -> Cell {
    number(value.filter(|bytes| *bytes <= MOST_MEMORY))
}

/// So many pages of a size, in the same way.
fn pages(value: Option<u64>, of_bytes: u64) -> Cell {
    number(value.filter(|pages| pages.checked_mul(of_bytes.max(1)).is_some_and(|bytes| bytes <= MOST_MEMORY)))
}

/// A moment in seconds since the epoch that SQL engines can hold, and `date::day` can write.
pub(crate) fn moment(seconds: i64) -> Option<i64> {
    (0..END_OF_TIME).contains(&seconds).then_some(seconds)
}

fn count(value: usize) -> Cell {
    Cell::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

/// All rows of a host.
pub(crate) fn of(whose: &Whose, path: &str, check: &Check, torn: Option<&str>) -> Vec<Row> {
    let mut rows = vec![whose.row(Place::Hosts, host(path, check, torn))];
    rows.extend(check.host.pools.iter().flatten().map(|it| whose.row(Place::Pools, pool(it))));
    rows.extend(check.instances.iter().map(|it| whose.row(Place::Instances, instance(it))));
    rows.extend(check.instances.iter().flat_map(moments).map(|it| whose.row(Place::Moments, it)));
    let cases = check.cases.iter().enumerate();
    rows.extend(cases.filter_map(|(at, it)| Some(whose.row(Place::Cases, case(at, it, check)?))));
    let findings = check.findings.iter().enumerate();
    rows.extend(findings.map(|(at, it)| whose.row(Place::Findings, finding(at, it, check))));
    rows
}

fn host(path: &str, check: &Check, torn: Option<&str>) -> Vec<Cell> {
    let host = &check.host;
    vec![
        text(path),
        maybe(host.os.as_deref()),
        maybe(host.kernel.as_deref()),
        maybe(host.architecture.as_deref()),
        number(host.processors),
        number(host.base_page_bytes),
        number(host.default_huge_page_bytes),
        bytes(host.memory_bytes),
        bytes(host.memory_free_bytes),
        bytes(host.memory_available_bytes),
        bytes(host.swap_total_bytes),
        bytes(host.swap_used_bytes),
        bytes(host.page_tables_bytes),
        maybe(host.thp.enabled.as_deref()),
        maybe(host.thp.defrag.as_deref()),
        maybe(host.thp.shmem_enabled.as_deref()),
        count(check.instances.len()),
        count(check.summary.error),
        count(check.summary.warn),
        count(check.summary.info),
        count(check.unknown.len()),
        count(check.unread.len()),
        maybe(torn),
    ]
}

fn pool(pool: &Pool) -> Vec<Cell> {
    vec![
        number(Some(pool.page_bytes)),
        number(pool.node.map(u64::from)),
        pages(pool.total_pages, pool.page_bytes),
        pages(pool.free_pages, pool.page_bytes),
        pages(pool.reserved_pages, pool.page_bytes),
        pages(pool.surplus_pages, pool.page_bytes),
        // A limit, and it may be as high as anybody likes.
        number(pool.overcommit_pages),
        pages(pool.committed_pages, pool.page_bytes),
        pages(pool.available_pages, pool.page_bytes),
        pages(pool.room_pages, pool.page_bytes),
    ]
}

fn instance(instance: &Instance) -> Vec<Cell> {
    let demand = instance.demand.as_ref();
    let at_max = instance.page_tables_at_max.as_deref().unwrap_or_default();
    // The first is the base page's.
    let base = at_max.first();
    let huge = at_max.iter().skip(1).find(|it| demand.is_some_and(|demand| demand.page_bytes == it.page_bytes));
    let saved = Saved::of(instance, base.map(|it| it.expected_bytes).zip(huge.map(|it| it.expected_bytes)));
    let mapped = instance.segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.size_bytes));
    vec![
        text(instance.engine),
        text(&instance.name),
        Cell::Flag(instance.running),
        maybe(instance.version.as_deref()),
        text(&instance.owner),
        maybe(instance.unit.as_deref()),
        Cell::Flag(instance.containered),
        number(instance.sessions),
        number(instance.max_sessions),
        text(instance.asked),
        maybe(instance.setting.as_deref()),
        text(instance.huge_pages),
        number(demand.map(|demand| demand.page_bytes)),
        demand.map_or(Cell::Absent, |demand| pages(Some(demand.needed_pages), demand.page_bytes)),
        maybe(demand.map(|demand| demand.source)),
        bytes(instance.page_tables_bytes),
        number(base.map(|it| it.sessions)),
        bytes(base.map(|it| it.expected_bytes)),
        bytes(huge.map(|it| it.expected_bytes)),
        bytes(saved.now),
        bytes(saved.at_max),
        number(instance.touched_bytes),
        number(instance.memlock_bytes),
        count(instance.segments.len()),
        Cell::Integer(i64::try_from(mapped).unwrap_or(i64::MAX)),
    ]
}

/// Page tables that huge pages would save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Saved {
    now: Option<u64>,
    /// With as many sessions as the settings allow.
    at_max: Option<u64>,
}

impl Saved {
    /// `at_max` is what is expected on base and on huge pages.
    fn of(instance: &Instance, at_max: Option<(u64, u64)>) -> Self {
        let is_counted = instance.moments.as_ref().is_none_or(|moments| moments.now.state != "not_counted");
        match instance.huge_pages {
            // Redis has nothing that a pool could hold, however much its processes map.
            "none" | "partly" if is_counted => {
                let share = |now| at_max.map_or(Some(now), |(base, huge)| in_proportion(now, base, huge));
                let now = instance.page_tables_bytes.and_then(share);
                let at_max = at_max.map(|(base, huge)| base.saturating_sub(huge));
                Self { now, at_max: at_max.or(now) }
            }
            "unknown" => Self::default(),
            _ => Self { now: Some(0), at_max: Some(0) },
        }
    }
}

/// What of `now` goes where `base` becomes `huge`.
fn in_proportion(now: u64, base: u64, huge: u64) -> Option<u64> {
    let saved = u128::from(now) * u128::from(base.saturating_sub(huge));
    u64::try_from(saved.checked_div(u128::from(base))?).ok()
}

fn moments(instance: &Instance) -> Vec<Vec<Cell>> {
    let Some(moments) = &instance.moments else { return Vec::new() };
    let all = [("now", &moments.now), ("restart", &moments.restart), ("reboot", &moments.reboot)];
    let row = |(moment, outlook): (&str, &hugewise_report::json::Outlook)| {
        let state = text(outlook.state);
        vec![text(instance.engine), text(&instance.name), text(moment), state, maybe(outlook.why.as_deref())]
    };
    all.into_iter().map(row).collect()
}

fn case(at: usize, case: &Case, check: &Check) -> Option<Vec<Cell>> {
    let cause = check.findings.get(case.cause)?;
    let symptoms: Vec<&Finding> = case.symptoms.iter().filter_map(|at| check.findings.get(*at)).collect();
    let levels = ["error", "warn", "info"];
    let all = || symptoms.iter().map(|it| it.level).chain([cause.level]);
    let worst = levels.into_iter().find(|level| all().any(|it| it == *level)).unwrap_or(cause.level);
    let codes: Vec<&str> = symptoms.iter().map(|it| it.code).collect();
    Some(vec![
        count(at),
        text(worst),
        text(cause.code),
        text(cause.name),
        maybe(cause.instance.as_deref()),
        text(&cause.summary),
        text(&case.cost),
        count(symptoms.len()),
        maybe((!codes.is_empty()).then(|| codes.join(" ")).as_deref()),
    ])
}

fn finding(at: usize, finding: &Finding, check: &Check) -> Vec<Cell> {
    let of = check.cases.iter().position(|case| case.cause == at || case.symptoms.contains(&at));
    let is_cause = check.cases.iter().any(|case| case.cause == at);
    vec![
        count(at),
        of.map_or(Cell::Absent, count),
        Cell::Flag(is_cause),
        text(finding.level),
        text(finding.code),
        text(finding.name),
        maybe(finding.instance.as_deref()),
        text(&finding.summary),
        lines(&finding.evidence),
        maybe(finding.cost.as_deref()),
        lines(&finding.fix),
    ]
}
