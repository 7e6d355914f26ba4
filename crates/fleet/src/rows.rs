//! The rows of a host, made of what `check` answers.

use hugewise_report::json::{CaseJson, Check, FindingJson, InstanceJson, PoolJson};
use hugewise_report::parquet::ParquetCell;
use hugewise_report::plain;

use crate::schema::{LakeTableId, VERSION};

/// A row, and the table that it belongs to. The cells that all tables have come first.
pub(crate) type LakeRow = (LakeTableId, Vec<ParquetCell>);

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
    pub(crate) fn build_row(
        &self,
        place: LakeTableId,
        own: impl IntoIterator<Item = ParquetCell>,
    ) -> LakeRow {
        let common = [
            ParquetCell::Integer(VERSION),
            text_cell(&self.capture),
            optional_text_cell(self.host.as_deref()),
            optional_text_cell(self.cluster.as_deref()),
            self.captured_at
                .and_then(|seconds| seconds.checked_mul(1000))
                .map_or(ParquetCell::Absent, ParquetCell::Time),
        ];
        (place, common.into_iter().chain(own).collect())
    }
}

/// A text on one line, whatever the host has put into it: tables are printed to terminals too.
pub(crate) fn text_cell(text: &str) -> ParquetCell {
    ParquetCell::Text(plain::escape_line(text).into_owned())
}

pub(crate) fn lines_cell(texts: &[String]) -> ParquetCell {
    let clean: Vec<_> = texts.iter().map(|text| plain::escape_line(text)).collect();
    ParquetCell::Text(clean.join("\n"))
}

fn optional_text_cell(text: Option<&str>) -> ParquetCell {
    text.map_or(ParquetCell::Absent, self::text_cell)
}

/// What is more than the column holds is not known: no host has so much.
fn number_cell(value: Option<u64>) -> ParquetCell {
    value
        .and_then(|value| i64::try_from(value).ok())
        .map_or(ParquetCell::Absent, ParquetCell::Integer)
}

/// A size of what is in memory. More than processors can address is not known: somebody made it up,
/// and the sums over all hosts would break or mean nothing.
fn bytes_cell(value: Option<u64>) -> ParquetCell {
    number_cell(value.filter(|bytes| *bytes <= MOST_MEMORY))
}

/// So many pages of a size, in the same way.
fn pages_cell(value: Option<u64>, of_bytes: u64) -> ParquetCell {
    number_cell(value.filter(|pages| {
        pages.checked_mul(of_bytes.max(1)).is_some_and(|bytes| bytes <= MOST_MEMORY)
    }))
}

/// A moment in seconds since the epoch that SQL engines can hold, and `date::day` can write.
pub(crate) fn valid_moment(seconds: i64) -> Option<i64> {
    (0..END_OF_TIME).contains(&seconds).then_some(seconds)
}

fn count_cell(value: usize) -> ParquetCell {
    ParquetCell::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

/// All rows of a host.
pub(crate) fn build_host_rows(
    whose: &Whose,
    path: &str,
    check: &Check,
    torn: Option<&str>,
) -> Vec<LakeRow> {
    let mut rows = vec![whose.build_row(LakeTableId::Hosts, host_cells(path, check, torn))];
    rows.extend(
        check
            .host
            .pools
            .iter()
            .flatten()
            .map(|pool_json| whose.build_row(LakeTableId::Pools, pool_cells(pool_json))),
    );
    rows.extend(check.instances.iter().map(|instance_json| {
        whose.build_row(LakeTableId::Instances, instance_cells(instance_json))
    }));
    rows.extend(
        check
            .instances
            .iter()
            .flat_map(moment_cells)
            .map(|parquet_cells| whose.build_row(LakeTableId::Moments, parquet_cells)),
    );
    let cases = check.cases.iter().enumerate();
    rows.extend(cases.filter_map(|(at, case_json)| {
        Some(whose.build_row(LakeTableId::Cases, case_cells(at, case_json, check)?))
    }));
    let findings = check.findings.iter().enumerate();
    rows.extend(findings.map(|(at, finding_json)| {
        whose.build_row(LakeTableId::Findings, finding_cells(at, finding_json, check))
    }));
    rows
}

fn host_cells(path: &str, check: &Check, torn: Option<&str>) -> Vec<ParquetCell> {
    let host = &check.host;
    vec![
        text_cell(path),
        optional_text_cell(host.os.as_deref()),
        optional_text_cell(host.kernel.as_deref()),
        optional_text_cell(host.architecture.as_deref()),
        number_cell(host.processors),
        number_cell(host.base_page_bytes),
        number_cell(host.default_huge_page_bytes),
        bytes_cell(host.memory_bytes),
        bytes_cell(host.memory_free_bytes),
        bytes_cell(host.memory_available_bytes),
        bytes_cell(host.swap_total_bytes),
        bytes_cell(host.swap_used_bytes),
        bytes_cell(host.page_tables_bytes),
        optional_text_cell(host.thp.enabled.as_deref()),
        optional_text_cell(host.thp.defrag.as_deref()),
        optional_text_cell(host.thp.shmem_enabled.as_deref()),
        count_cell(check.instances.len()),
        count_cell(check.summary.error),
        count_cell(check.summary.warn),
        count_cell(check.summary.info),
        count_cell(check.unknown.len()),
        count_cell(check.unread.len()),
        optional_text_cell(torn),
    ]
}

fn pool_cells(pool: &PoolJson) -> Vec<ParquetCell> {
    vec![
        number_cell(Some(pool.page_bytes)),
        number_cell(pool.node.map(u64::from)),
        pages_cell(pool.total_pages, pool.page_bytes),
        pages_cell(pool.free_pages, pool.page_bytes),
        pages_cell(pool.reserved_pages, pool.page_bytes),
        pages_cell(pool.surplus_pages, pool.page_bytes),
        // A limit, and it may be as high as anybody likes.
        number_cell(pool.overcommit_pages),
        pages_cell(pool.committed_pages, pool.page_bytes),
        pages_cell(pool.available_pages, pool.page_bytes),
        pages_cell(pool.room_pages, pool.page_bytes),
    ]
}

fn instance_cells(instance: &InstanceJson) -> Vec<ParquetCell> {
    let demand = instance.demand.as_ref();
    let at_max = instance.page_tables_at_max.as_deref().unwrap_or_default();
    // The first is the base page's.
    let base = at_max.first();
    let huge = at_max.iter().skip(1).find(|page_tables_at_max| {
        demand.is_some_and(|demand| demand.page_bytes == page_tables_at_max.page_bytes)
    });
    let saved = Saved::from_instance(
        instance,
        base.map(|page_tables_at_max| page_tables_at_max.expected_bytes)
            .zip(huge.map(|other_page_tables_at_max| other_page_tables_at_max.expected_bytes)),
    );
    let mapped =
        instance.segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.size_bytes));
    vec![
        text_cell(instance.engine),
        text_cell(&instance.name),
        ParquetCell::Flag(instance.running),
        optional_text_cell(instance.version.as_deref()),
        text_cell(&instance.owner),
        optional_text_cell(instance.unit.as_deref()),
        ParquetCell::Flag(instance.containered),
        number_cell(instance.sessions),
        number_cell(instance.max_sessions),
        text_cell(instance.asked),
        optional_text_cell(instance.setting.as_deref()),
        text_cell(instance.huge_pages),
        number_cell(demand.map(|demand| demand.page_bytes)),
        demand.map_or(ParquetCell::Absent, |demand| {
            pages_cell(Some(demand.needed_pages), demand.page_bytes)
        }),
        optional_text_cell(demand.map(|demand| demand.source)),
        bytes_cell(instance.page_tables_bytes),
        number_cell(base.map(|page_tables_at_max| page_tables_at_max.sessions)),
        bytes_cell(base.map(|page_tables_at_max| page_tables_at_max.expected_bytes)),
        bytes_cell(huge.map(|page_tables_at_max| page_tables_at_max.expected_bytes)),
        bytes_cell(saved.now),
        bytes_cell(saved.at_max),
        number_cell(instance.touched_bytes),
        number_cell(instance.memlock_bytes),
        count_cell(instance.segments.len()),
        ParquetCell::Integer(i64::try_from(mapped).unwrap_or(i64::MAX)),
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
    fn from_instance(instance: &InstanceJson, at_max: Option<(u64, u64)>) -> Self {
        let is_counted =
            instance.moments.as_ref().is_none_or(|moments| moments.now.state != "not_counted");
        match instance.huge_pages {
            // Redis has nothing that a pool could hold, however much its processes map.
            "none" | "partly" if is_counted => {
                let share =
                    |now| at_max.map_or(Some(now), |(base, huge)| in_proportion(now, base, huge));
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

fn moment_cells(instance: &InstanceJson) -> Vec<Vec<ParquetCell>> {
    let Some(moments) = &instance.moments else { return Vec::new() };
    let all = [("now", &moments.now), ("restart", &moments.restart), ("reboot", &moments.reboot)];
    let row = |(moment, outlook): (&str, &hugewise_report::json::StageForecastJson)| {
        let state = text_cell(outlook.state);
        vec![
            text_cell(instance.engine),
            text_cell(&instance.name),
            text_cell(moment),
            state,
            optional_text_cell(outlook.why.as_deref()),
        ]
    };
    all.into_iter().map(row).collect()
}

fn case_cells(at: usize, case: &CaseJson, check: &Check) -> Option<Vec<ParquetCell>> {
    let cause = check.findings.get(case.cause)?;
    let symptoms: Vec<&FindingJson> =
        case.symptoms.iter().filter_map(|at| check.findings.get(*at)).collect();
    let levels = ["error", "warn", "info"];
    let all = || symptoms.iter().map(|finding_json| finding_json.level).chain([cause.level]);
    let worst =
        levels.into_iter().find(|level| all().any(|text| text == *level)).unwrap_or(cause.level);
    let codes: Vec<&str> = symptoms.iter().map(|finding_json| finding_json.code).collect();
    Some(vec![
        count_cell(at),
        text_cell(worst),
        text_cell(cause.code),
        text_cell(cause.name),
        optional_text_cell(cause.instance.as_deref()),
        text_cell(&cause.summary),
        text_cell(&case.cost),
        count_cell(symptoms.len()),
        optional_text_cell((!codes.is_empty()).then(|| codes.join(" ")).as_deref()),
    ])
}

fn finding_cells(at: usize, finding: &FindingJson, check: &Check) -> Vec<ParquetCell> {
    let index = check.cases.iter().position(|case| case.cause == at || case.symptoms.contains(&at));
    let is_cause = check.cases.iter().any(|case| case.cause == at);
    vec![
        count_cell(at),
        index.map_or(ParquetCell::Absent, count_cell),
        ParquetCell::Flag(is_cause),
        text_cell(finding.level),
        text_cell(finding.code),
        text_cell(finding.name),
        optional_text_cell(finding.instance.as_deref()),
        text_cell(&finding.summary),
        lines_cell(&finding.evidence),
        optional_text_cell(finding.cost.as_deref()),
        lines_cell(&finding.fix),
    ]
}
