//! The table that `cargo xtask exactness` prints.

use serde::{Deserialize, Serialize};

use crate::guest::CaseOutcome;
use hugewise_testkit::tools::Failure;

/// What was found out of one case.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) engine: String,
    pub(super) settings: String,
    pub(super) page_bytes: u64,
    pub(super) ours: u64,
    pub(super) source: String,
    /// The smallest pool on which it starts wholly on huge pages.
    pub(super) needs: u64,
    /// Where starts differ: the most that one was seen to take.
    pub(super) up_to: Option<u64>,
    pub(super) script: u64,
    pub(super) ten_percent: u64,
    pub(super) peak: Option<u64>,
    pub(super) failure: Option<String>,
}

/// What came out, printed as it comes.
pub(super) struct Table {
    rows: Vec<Row>,
    skipped: Vec<String>,
    failures: Vec<String>,
}

impl Table {
    /// With what is known to be missing from it.
    pub(super) const fn new(skipped: Vec<String>) -> Self {
        Self { rows: Vec::new(), skipped, failures: Vec::new() }
    }

    pub(super) fn add(&mut self, said: CaseOutcome<Row>) {
        match said {
            CaseOutcome::Row(row) => {
                print_row(&row);
                if let Some(why) = &row.failure {
                    let page = page_name(row.page_bytes);
                    self.failures
                        .push(format!("{}, {}, {page} pages: {why}", row.engine, row.settings));
                }
                self.rows.push(row);
            }
            CaseOutcome::Skip(why) => self.skipped.push(why),
            CaseOutcome::Failed(why) => {
                println!("FAILED: {why}");
                self.failures.push(why);
            }
        }
    }

    pub(super) fn end(&self) -> Result<(), Failure> {
        summary(&self.rows, &self.skipped, &self.failures)
    }
}

fn summary(rows: &[Row], skipped: &[String], failures: &[String]) -> Result<(), Failure> {
    let all = rows.len();
    let exact = |said: fn(&Row) -> Option<u64>| {
        rows.iter().filter(|row| said(row) == Some(row.needs)).count()
    };
    let of_chance = rows.iter().filter(|row| row.up_to.is_some());
    println!();
    println!(
        "exact: hugewise {} of {all}",
        rows.iter().filter(|row| row.failure.is_none()).count()
    );
    println!("       (of them, starts differ and the pages always suffice: {})", of_chance.count());
    println!("       script formula {} of {all}", exact(|row| Some(row.script)));
    println!("       memory plus 10 percent {} of {all}", exact(|row| Some(row.ten_percent)));
    println!("       peak VM size {} of {all}", exact(|row| row.peak));
    for why in skipped {
        println!("SKIP: {why}");
    }
    for why in failures {
        println!("FAILED: {why}");
    }
    if !failures.is_empty() {
        return Err(
            format!("{} of {} cases failed", failures.len(), all.max(failures.len())).into()
        );
    }
    if all == 0 { Err("nothing could be measured".into()) } else { Ok(()) }
}

fn print_row(row: &Row) {
    let peak = row.peak.map_or("-".to_owned(), |pages| pages.to_string());
    let needs =
        row.up_to.map_or_else(|| row.needs.to_string(), |most| format!("{} to {most}", row.needs));
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {peak} | {} |",
        row.engine,
        row.settings,
        page_name(row.page_bytes),
        row.ours,
        row.source,
        needs,
        row.script,
        row.ten_percent,
        match row {
            Row { failure: Some(_), .. } => "WRONG",
            Row { up_to: Some(_), .. } => "always",
            _ => "exact",
        },
    );
}

pub(super) fn page_name(bytes: u64) -> String {
    if bytes >= 1 << 30 { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}
