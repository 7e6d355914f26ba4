//! `cargo xtask forecast`: the page tables that hugewise forecasts, beside those that the kernel
//! makes.

mod postgresql;
mod standin;
mod tables_reading;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hugewise_lab::guard::PoolRefusal;
use hugewise_model::PageSize;
use hugewise_testkit::Skip;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exactness;
use crate::guest::{self, CaseOutcome, When};
use hugewise_testkit::tools::{Failure, programs};

/// A case is measured so often at least, unless it is large.
const RUNS: usize = 3;

/// What is to be measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A handful of cases.
    #[arg(long)]
    quick: bool,
    /// Leave out PostgreSQL.
    #[arg(long)]
    no_postgresql: bool,
    /// Leave out the stand-in.
    #[arg(long)]
    no_standin: bool,
    /// Only memory of this page size.
    #[arg(long, value_enum)]
    page: Option<Page>,
    /// Only segments of so many MiB.
    #[arg(long, value_name = "MIB")]
    size: Option<u64>,
    /// Only so many sessions of the stand-in.
    #[arg(long, value_name = "N")]
    sessions: Option<u64>,
    /// Where the cases with pages of 1 GiB are run.
    #[arg(long, value_enum, default_value_t = When::Auto)]
    vm: When,
    /// Measure this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// As the virtual machine runs it.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Page sizes of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Page {
    /// 4 KiB.
    #[value(name = "4K")]
    Kib4,
    /// 2 MiB.
    #[value(name = "2M")]
    Mib2,
    /// 1 GiB.
    #[value(name = "1G")]
    Gib1,
}

impl Page {
    const fn size(self) -> PageSize {
        match self {
            Self::Kib4 => PageSize::KIB_4,
            Self::Mib2 => PageSize::MIB_2,
            Self::Gib1 => PageSize::GIB_1,
        }
    }
}

/// The most pages of 1 GiB that a case takes.
const MOST_GIBIBYTES: u64 = 5;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let mut cases = if arguments.no_standin { Vec::new() } else { standin::cases(arguments.quick) };
    cases.retain(|case| arguments.page.is_none_or(|page| page.size() == case.page));
    cases.retain(|case| arguments.size.is_none_or(|mib| mib == case.mib));
    cases.retain(|case| arguments.sessions.is_none_or(|count| count == case.sessions));
    if arguments.inside {
        let program = programs::built_standin();
        return cases
            .iter()
            .try_for_each(|case| standin::run_case(&hugewise, &program, *case).print());
    }
    let program = programs::standin()?;
    let (mut elsewhere, gibibytes) = (false, |case: &standin::Case| case.page == PageSize::GIB_1);
    if cases.iter().any(gibibytes) && !exactness::gibibytes_here(arguments.vm, MOST_GIBIBYTES) {
        cases.retain(|case| !gibibytes(case));
        elsewhere = arguments.vm != When::Never;
    }
    let mut table = Table::default();
    println!(
        "| memory | page | sessions | forecast KiB | measured KiB | error % | VmPTE of all KiB | \
             runs | |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|---|");
    for case in cases {
        table.add_outcome(standin::run_case(&hugewise, &program, case));
    }
    if elsewhere {
        let size = arguments.size.map(|mib| format!(" --size {mib}")).unwrap_or_default();
        let count =
            arguments.sessions.map(|count| format!(" --sessions {count}")).unwrap_or_default();
        let command = format!("forecast --page 1G{size}{count} --program '{}'", hugewise.display());
        let run =
            guest::run(&command, &[&hugewise, &program], &[], &mut |said| table.add_outcome(said));
        run.unwrap_or_else(|why| {
            table.add_outcome(CaseOutcome::Failed(format!("pages of 1 GiB: {why}")))
        });
    }
    if !arguments.no_postgresql {
        postgresql::measure(&hugewise, arguments, &mut table).unwrap_or_else(|why| {
            table.add_outcome(CaseOutcome::Failed(format!("PostgreSQL: {why}")))
        });
    }
    table.end()
}

/// One line of the table.
#[derive(Serialize, Deserialize)]
struct Row {
    title: String,
    page_bytes: u64,
    sessions: u64,
    measured: Measured,
    /// What it may be off, in percent.
    bar: f64,
}

/// Forecast and truth, in bytes.
#[derive(Serialize, Deserialize)]
struct Measured {
    forecast: f64,
    growth: f64,
    of_processes: f64,
    runs: usize,
    /// Whether the kernel's own count has all of it.
    counts_all: bool,
}

#[derive(Default)]
struct Table {
    skipped: Vec<String>,
    failed: Vec<String>,
    rows: usize,
    worst: f64,
}

impl Table {
    fn add_outcome(&mut self, said: CaseOutcome<Row>) {
        match said {
            CaseOutcome::Row(row) => self.add(&row),
            CaseOutcome::Skip(why) => self.skipped.push(why),
            CaseOutcome::Failed(why) => self.failed.push(why),
        }
    }

    fn add(&mut self, row: &Row) {
        let Row { title, page_bytes, sessions, measured, bar } = row;
        let error = (measured.forecast - measured.growth) / measured.growth * 100.0;
        let good = error.abs() <= *bar;
        println!(
            "| {title} | {} | {sessions} | {:.0} | {:.0} | {error:+.1} | {:.0} | {} | {} |",
            page_name(*page_bytes),
            measured.forecast / 1024.0,
            measured.growth / 1024.0,
            measured.of_processes / 1024.0,
            measured.runs,
            match (good, measured.counts_all) {
                (false, _) => "OFF",
                (true, true) => "",
                (true, false) => "from VmPTE",
            },
        );
        self.rows += 1;
        self.worst = self.worst.max(error.abs());
        if !good {
            self.failed.push(format!(
                "{title}, {} pages, {sessions} sessions: {error:+.1} %",
                page_name(*page_bytes)
            ));
        }
    }

    fn end(self) -> Result<(), Failure> {
        println!("\n{} cases, the largest error {:.1} %", self.rows, self.worst);
        for why in &self.skipped {
            println!("SKIP: {why}");
        }
        for why in &self.failed {
            println!("FAILED: {why}");
        }
        match (self.failed.len(), self.rows) {
            (0, 0) => Err("nothing could be measured".into()),
            (0, _) => Ok(()),
            (failed, _) => Err(format!("{failed} cases failed").into()),
        }
    }
}

const fn page_name(bytes: u64) -> &'static str {
    match bytes >> 20 {
        0 => "4 KiB",
        1..1024 => "2 MiB",
        _ => "1 GiB",
    }
}

enum Trouble {
    Skip(Skip),
    Failure(Failure),
}

impl From<PoolRefusal> for Trouble {
    fn from(refusal: PoolRefusal) -> Self {
        Skip::from(refusal).into()
    }
}

impl From<Skip> for Trouble {
    fn from(skip: Skip) -> Self {
        Self::Skip(skip)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// `page_tables_bytes` of the line for so many sessions and that page size.
fn forecast(
    hugewise: &Path,
    mut arguments: Vec<OsString>,
    page: PageSize,
    sessions: u64,
) -> Result<f64, Failure> {
    arguments.extend(["--sessions".into(), sessions.to_string().into()]);
    let sized = exactness::size(hugewise, &arguments)?;
    let rows = sized.get("forecast").and_then(Value::as_array).ok_or("no forecast")?;
    let number =
        |row: &Value, name: &str| row.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let is = |row: &&Value| {
        row.get("sessions").and_then(Value::as_u64) == Some(sessions)
            && row.get("page_bytes").and_then(Value::as_u64) == Some(page.bytes().get())
    };
    let row = rows
        .iter()
        .find(is)
        .ok_or_else(|| format!("no line for {sessions} sessions on {page:?}"))?;
    Ok(number(row, "page_tables_bytes"))
}
