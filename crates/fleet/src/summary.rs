//! What the captures of a run say together, folded as they pass.

use std::collections::BTreeMap;
use std::fmt::Write;

use hugewise_report::parquet::Cell;
use hugewise_report::plain;
use serde::Serialize;

use crate::reading::Taken;
use crate::schema::Place;

/// Hosts that are named.
const MOST_NAMED: usize = 10;

/// What a run read, and what that says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Captures whose rows were written by this run.
    pub read: u64,
    /// Captures that are in the tables already.
    pub already: u64,
    /// What could not be read, or not to its end.
    pub failures: Vec<Failure>,
    /// Page tables of all hosts that were read.
    pub page_tables_bytes: u64,
    /// Captures that do not tell their page tables, and are not in the sum.
    pub page_tables_unknown: u64,
    /// The hosts with the most of it.
    pub most_page_tables: Vec<HostBytes>,
    /// Cases by the rule that is the cause, the most first in each level.
    pub cases: Vec<CasesOf>,
    /// Captures of which a verdict is missing.
    pub undecided: u64,
    #[serde(skip)]
    by_rule: BTreeMap<(u8, String, String), u64>,
}

/// A path that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
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
    /// Its name, or the capture where it has none.
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

impl Failure {
    pub(crate) fn new(path: &str, class: &'static str, message: &str) -> Self {
        Self { path: path.to_owned(), class, message: plain::clean(message).into_owned() }
    }
}

impl Summary {
    pub(crate) fn add(&mut self, read: &Taken) {
        self.read += 1;
        let key = || read.whose.host.clone().unwrap_or_else(|| read.whose.capture.clone());
        for (place, cells) in &read.rows {
            let cell = |name: &str| {
                let at = place.table().columns().position(|column| column.name == name);
                at.and_then(|at| cells.get(at))
            };
            match place {
                Place::Hosts => {
                    match cell("page_tables_bytes") {
                        Some(Cell::Integer(bytes)) => self.tables(key(), bytes.unsigned_abs()),
                        _ => self.page_tables_unknown += 1,
                    }
                    self.undecided += u64::from(!matches!(cell("undecided_rules"), Some(Cell::Integer(0))));
                }
                Place::Cases => {
                    if let (Some(Cell::Text(level)), Some(Cell::Text(code)), Some(Cell::Text(name))) =
                        (cell("level"), cell("code"), cell("name"))
                    {
                        let level = LEVELS.iter().position(|it| it == level).and_then(|at| u8::try_from(at).ok());
                        *self.by_rule.entry((level.unwrap_or(0), code.clone(), name.clone())).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
    }

    fn tables(&mut self, host: String, bytes: u64) {
        self.page_tables_bytes = self.page_tables_bytes.saturating_add(bytes);
        let at = self.most_page_tables.partition_point(|it| it.bytes >= bytes);
        self.most_page_tables.insert(at, HostBytes { host, bytes });
        self.most_page_tables.truncate(MOST_NAMED);
    }

    /// Orders what was counted; the last that is done to it.
    #[must_use]
    pub fn finished(mut self) -> Self {
        let of = |((level, code, name), cases): (&(u8, String, String), &u64)| CasesOf {
            level: LEVELS.get(usize::from(*level)).copied().unwrap_or("error"),
            code: code.clone(),
            name: name.clone(),
            cases: *cases,
        };
        let mut cases: Vec<(u8, CasesOf)> = self.by_rule.iter().map(|it| (it.0.0, of(it))).collect();
        cases.sort_by_key(|(level, it)| (*level, std::cmp::Reverse(it.cases)));
        self.cases = cases.into_iter().map(|(_, it)| it).collect();
        self
    }

    /// Whether a host has a case of this level or worse.
    pub fn has(&self, levels: &[&str]) -> bool {
        self.cases.iter().any(|it| levels.contains(&it.level))
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let mut text = format!(
            "{} read, {} already in the tables, {} failed\n",
            captures(self.read),
            self.already,
            self.failures.len()
        );
        let gib = |bytes: u64| hugewise_model::Bytes(bytes).to_string();
        let _ = writeln!(text, "page tables: {} in all", gib(self.page_tables_bytes));
        if self.page_tables_unknown > 0 {
            let _ = writeln!(text, "  {} did not tell theirs", captures(self.page_tables_unknown));
        }
        for it in &self.most_page_tables {
            let _ = writeln!(text, "  {}  {}", it.host, gib(it.bytes));
        }
        for it in &self.cases {
            let _ = writeln!(text, "{} {} {}: {} cases", it.level, it.code, it.name, it.cases);
        }
        if self.undecided > 0 {
            let _ = writeln!(text, "a verdict is missing in {}", captures(self.undecided));
        }
        for it in &self.failures {
            let _ = writeln!(text, "failed: {} ({}): {}", it.path, it.class, it.message);
        }
        text
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

fn captures(count: u64) -> String {
    if count == 1 { "1 capture".to_owned() } else { format!("{count} captures") }
}
