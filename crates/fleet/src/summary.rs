//! What the captures of a run say together, folded as they pass.

use std::collections::BTreeMap;
use std::fmt::Write;

use hugewise_model::{Bytes, PageCount};
use hugewise_report::parquet::ParquetCell;
use hugewise_report::plain;
use serde::Serialize;

use crate::capture_reader::CollectedCapture;
use crate::schema::LakeTableId;

/// Hosts that are named.
const MOST_NAMED: usize = 10;
/// Failures that are shown to people.
const MOST_FAILURES: usize = 25;

/// What a run read, and what that says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CollectSummary {
    /// Captures whose rows were written by this run.
    pub read: u64,
    /// Captures that are in the tables already.
    pub already: u64,
    /// What could not be read, or not to its end.
    pub failures: Vec<CollectFailure>,
    /// Page tables of all hosts that were read.
    pub page_tables_bytes: u64,
    /// Captures that do not tell their page tables, and are not in the sum.
    pub page_tables_unknown: u64,
    /// The hosts with the most of it.
    pub most_page_tables: Vec<HostBytes>,
    /// Page tables that huge pages would save with as many sessions as the servers allow.
    pub saved_bytes: u64,
    /// The hosts where it is the most.
    pub most_saved: Vec<HostBytes>,
    /// Pools of which half or more lies unused, and no server that asks for it is down.
    pub pools_idle: u64,
    /// What lies unused in them.
    pub idle_bytes: u64,
    /// Pools that have fewer pages than the host's servers ask for.
    pub pools_short: u64,
    /// Pages that these lack.
    pub short_pages: u64,
    /// Hosts that were expected and of which there is no capture.
    pub absent: Vec<String>,
    /// Hosts whose last capture is too old.
    pub stale: Vec<String>,
    /// Cases by the rule that is the cause, the most first in each level.
    pub cases: Vec<CasesOf>,
    /// Incidents in the archives of this run that are new in the tables, by verdict.
    pub incidents: BTreeMap<String, u64>,
    /// Captures of which a verdict is missing.
    pub undecided: u64,
    #[serde(skip)]
    by_rule: BTreeMap<(u8, String, String), u64>,
}

/// A path that failed.
#[derive(Clone, Debug, Serialize)]
pub struct CollectFailure {
    /// Where.
    pub path: String,
    /// Of which kind.
    pub class: &'static str,
    /// What went wrong.
    pub message: String,
}

/// A host and so much memory.
#[derive(Clone, Debug, Serialize)]
pub struct HostBytes {
    /// Its name, or where its capture was found.
    pub host: String,
    /// Bytes.
    pub bytes: u64,
}

/// How many cases one rule is the cause of.
#[derive(Clone, Debug, Serialize)]
pub struct CasesOf {
    /// `error`, `warn`, `info`.
    pub level: &'static str,
    /// `HW201`.
    pub code: String,
    /// `no-pool`.
    pub name: String,
    /// So many.
    pub cases: u64,
}

const LEVELS: [&str; 3] = ["error", "warn", "info"];

impl CollectFailure {
    pub(crate) fn new(path: &str, class: &'static str, message: &str) -> Self {
        Self { path: path.to_owned(), class, message: plain::escape_line(message).into_owned() }
    }
}

/// Pages of a size that a host's servers want.
#[derive(Clone, Copy, Default)]
struct WantedPages {
    /// By those that ask for them, or have some.
    asked: i64,
    /// By those of which it is not known whether they do.
    perhaps: i64,
}

impl WantedPages {
    /// Adds what a server needs, by what its settings ask for and what it has.
    fn add(&mut self, asked: Option<&str>, on: Option<&str>, pages: i64) {
        let all = match (asked, on) {
            (Some("no" | "cannot"), _) => return,
            (Some("try" | "must" | "raises"), _) | (_, Some("all" | "partly")) => &mut self.asked,
            _ => &mut self.perhaps,
        };
        *all = all.saturating_add(pages);
    }
}

impl CollectSummary {
    pub(crate) fn add(&mut self, read: &CollectedCapture) {
        if read
            .rows
            .iter()
            .all(|(place, _)| matches!(place, LakeTableId::Incidents | LakeTableId::Series))
        {
            return self.add_archive(read);
        }
        self.read += 1;
        let named = read.whose.host.clone().filter(|host| !host.is_empty());
        let key = named.or_else(|| found_at(read)).unwrap_or_else(|| read.whose.capture.clone());
        let mut saved = 0_u64;
        let mut wanted: BTreeMap<i64, WantedPages> = BTreeMap::new();
        let mut pools = Vec::new();
        for (place, cells) in &read.rows {
            let row = RowFields { place: *place, cells };
            match place {
                LakeTableId::Hosts => {
                    match row.number("page_tables_bytes") {
                        Some(bytes) => self.add_page_tables(key.clone(), bytes.unsigned_abs()),
                        None => self.page_tables_unknown += 1,
                    }
                    self.undecided += u64::from(row.number("undecided_rules") != Some(0));
                }
                LakeTableId::Instances => {
                    let at_max = row.number("saved_at_max_bytes").map_or(0, i64::unsigned_abs);
                    saved = saved.saturating_add(at_max);
                    if let (Some(size), Some(pages)) =
                        (row.number("demand_page_bytes"), row.number("demand_pages"))
                    {
                        let (asked, on) = (row.text("asked"), row.text("huge_pages"));
                        wanted.entry(size).or_default().add(asked, on, pages);
                    }
                }
                LakeTableId::Pools if row.number("node").is_none() => pools.push(row),
                LakeTableId::Cases => {
                    if let (Some(level), Some(code), Some(name)) =
                        (row.text("level"), row.text("code"), row.text("name"))
                    {
                        let level = LEVELS
                            .iter()
                            .position(|text| *text == level)
                            .and_then(|at| u8::try_from(at).ok());
                        let key = (level.unwrap_or(0), code.to_owned(), name.to_owned());
                        *self.by_rule.entry(key).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        pools.iter().for_each(|pool| self.add_pool(pool, &wanted));
        if saved > 0 {
            self.saved_bytes = self.saved_bytes.saturating_add(saved);
            insert_ranked(&mut self.most_saved, key, saved);
        }
    }

    /// What an archive says of a host's day.
    fn add_archive(&mut self, read: &CollectedCapture) {
        for (place, cells) in &read.rows {
            let row = RowFields { place: *place, cells };
            if *place == LakeTableId::Incidents
                && let Some(verdict) = row.text("verdict")
            {
                *self.incidents.entry(verdict.to_owned()).or_default() += 1;
            }
        }
    }

    /// Counts a pool of a host whose servers want so many pages by their size.
    fn add_pool(&mut self, pool: &RowFields<'_>, wanted: &BTreeMap<i64, WantedPages>) {
        let (Some(size), Some(total)) = (pool.number("page_bytes"), pool.number("total_pages"))
        else {
            return;
        };
        let WantedPages { asked, perhaps } = wanted.get(&size).copied().unwrap_or_default();
        let free = pool.number("free_pages").unwrap_or(0);
        let unused = free.saturating_sub(pool.number("reserved_pages").unwrap_or(0)).max(0);
        let at_most = asked.saturating_add(perhaps);
        if asked > total {
            self.pools_short += 1;
            self.short_pages = self.short_pages.saturating_add((asked - total).unsigned_abs());
        } else if total > 0
            && unused.saturating_mul(2) >= total
            && at_most.saturating_mul(2) <= total
        {
            self.pools_idle += 1;
            self.idle_bytes =
                self.idle_bytes.saturating_add(unused.saturating_mul(size).unsigned_abs());
        }
    }

    fn add_page_tables(&mut self, host: String, bytes: u64) {
        self.page_tables_bytes = self.page_tables_bytes.saturating_add(bytes);
        insert_ranked(&mut self.most_page_tables, host, bytes);
    }

    /// Orders what was counted; the last that is done to it.
    #[must_use]
    pub fn into_ordered(mut self) -> Self {
        let cases_of_of = |((level, code, name), cases): (&(u8, String, String), &u64)| CasesOf {
            level: LEVELS.get(usize::from(*level)).copied().unwrap_or("error"),
            code: code.clone(),
            name: name.clone(),
            cases: *cases,
        };
        let mut cases: Vec<(u8, CasesOf)> =
            self.by_rule.iter().map(|pair| (pair.0.0, cases_of_of(pair))).collect();
        cases.sort_by_key(|(level, cases_of)| (*level, std::cmp::Reverse(cases_of.cases)));
        self.cases = cases.into_iter().map(|(_, cases_of)| cases_of).collect();
        self.failures.sort_by(|one, other| one.path.cmp(&other.path));
        self
    }

    /// Whether a host has a case of one of these levels, or an incident.
    pub fn has_any_level(&self, levels: &[&str]) -> bool {
        !self.incidents.is_empty()
            || self.cases.iter().any(|cases_of| levels.contains(&cases_of.level))
    }

    /// Whether nothing is missing: no capture, no host that was expected, no verdict.
    pub fn is_whole(&self) -> bool {
        self.failures.is_empty()
            && self.absent.is_empty()
            && self.stale.is_empty()
            && self.undecided == 0
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let mut text = format!(
            "{} read, {} already in the tables, {} failed\n",
            render_capture_count(self.read),
            self.already,
            self.failures.len()
        );
        self.write_page_tables(&mut text);
        self.write_pools(&mut text);
        self.write_verdicts(&mut text);
        write_missing_hosts(&mut text, "no capture of", &self.absent);
        write_missing_hosts(&mut text, "stale", &self.stale);
        self.write_failures(&mut text);
        text
    }

    fn write_page_tables(&self, text: &mut String) {
        if self.read > 0 {
            let _ = writeln!(text, "page tables: {} in total", Bytes(self.page_tables_bytes));
        }
        if self.page_tables_unknown > 0 {
            let captures = render_capture_count(self.page_tables_unknown);
            let _ = writeln!(text, "  {captures} did not report theirs");
        }
        write_ranked_hosts(text, &self.most_page_tables);
        if self.saved_bytes > 0 {
            let saved = Bytes(self.saved_bytes);
            let _ = writeln!(text, "huge pages would save: {saved} with all sessions");
            write_ranked_hosts(text, &self.most_saved);
        }
    }

    fn write_pools(&self, text: &mut String) {
        if self.pools_idle > 0 {
            let unused = Bytes(self.idle_bytes);
            let _ = writeln!(text, "idle pools: {}, with {unused} unused", self.pools_idle);
        }
        if self.pools_short > 0 {
            let lacking = PageCount(self.short_pages);
            let _ = writeln!(text, "short pools: {}, which lack {lacking} pages", self.pools_short);
        }
    }

    fn write_verdicts(&self, text: &mut String) {
        for CasesOf { level, code, name, cases } in &self.cases {
            let noun = if *cases == 1 { "case" } else { "cases" };
            let _ = writeln!(text, "{level} {code} {name}: {cases} {noun}");
        }
        let mut incidents: Vec<(&String, &u64)> = self.incidents.iter().collect();
        incidents.sort_by_key(|(verdict, count)| (std::cmp::Reverse(**count), verdict.as_str()));
        for (verdict, count) in incidents {
            let _ = writeln!(text, "incident {verdict}: {count}");
        }
        if self.undecided > 0 {
            let captures = render_capture_count(self.undecided);
            let _ = writeln!(text, "{captures} had too few facts to judge everything");
        }
    }

    fn write_failures(&self, text: &mut String) {
        for CollectFailure { path, class, message } in self.failures.iter().take(MOST_FAILURES) {
            let _ = writeln!(text, "failed: {path} ({class}): {message}");
        }
        if self.failures.len() > MOST_FAILURES {
            let more = self.failures.len() - MOST_FAILURES;
            let _ = writeln!(text, "  and {more} more; all are in the table failures");
        }
    }

    /// For programs.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn to_json(&self) -> std::io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// Where the capture was found.
fn found_at(read: &CollectedCapture) -> Option<String> {
    let (place, cells) = read.rows.iter().find(|(place, _)| *place == LakeTableId::Hosts)?;
    RowFields { place: *place, cells }.text("path").map(str::to_owned)
}

/// A row by the names of its columns.
struct RowFields<'a> {
    place: LakeTableId,
    cells: &'a [ParquetCell],
}

impl RowFields<'_> {
    fn cell(&self, name: &str) -> Option<&ParquetCell> {
        let at = self.place.table().columns().position(|column| column.name == name)?;
        self.cells.get(at)
    }

    fn number(&self, name: &str) -> Option<i64> {
        if let Some(ParquetCell::Integer(number)) = self.cell(name) { Some(*number) } else { None }
    }

    fn text(&self, name: &str) -> Option<&str> {
        if let Some(ParquetCell::Text(text)) = self.cell(name) { Some(text) } else { None }
    }
}

/// Puts a host among those with the most.
fn insert_ranked(most: &mut Vec<HostBytes>, host: String, bytes: u64) {
    // In one order, whichever of two was read first.
    let at = most.partition_point(|host_bytes| {
        host_bytes.bytes > bytes || (host_bytes.bytes == bytes && host_bytes.host <= host)
    });
    most.insert(at, HostBytes { host, bytes });
    most.truncate(MOST_NAMED);
}

fn write_ranked_hosts(text: &mut String, hosts: &[HostBytes]) {
    for HostBytes { host, bytes } in hosts {
        let _ = writeln!(text, "  {host}  {}", Bytes(*bytes));
    }
}

fn write_missing_hosts(text: &mut String, what: &str, hosts: &[String]) {
    if hosts.is_empty() {
        return;
    }
    let named: Vec<&str> = hosts.iter().take(MOST_NAMED).map(String::as_str).collect();
    let more = hosts.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let count = render_host_count(hosts.len());
    let _ = writeln!(text, "{what} {count}: {}{more}", named.join(", "));
}

fn render_host_count(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}

fn render_capture_count(count: u64) -> String {
    if count == 1 { "1 capture".to_owned() } else { format!("{count} captures") }
}
