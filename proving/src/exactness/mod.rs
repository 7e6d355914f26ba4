//! `cargo xtask exactness`: the pages that hugewise says, beside those that servers need on this
//! machine.
//!
//! Exact means: with N pages free the server starts wholly on huge pages, with N - 1 it does not.

mod bench;
mod java;
mod mariadb;
pub(crate) mod postgresql;
pub(crate) mod server;
mod system_v;
mod table;
mod tools;

pub(crate) use tools::debian;

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum as _;
use hugewise_lab::guard::{PoolGuard, PoolRefusal};
use hugewise_model::{Bytes, PageCount, PageSize};
use hugewise_testkit::Skip;
use serde_json::Value;

use crate::guest::{self, CaseOutcome, When};
use bench::Bench;
use hugewise_testkit::tools::{Failure, programs};
use server::Start;
use table::{Row, Table, page_name};

/// Engines of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// Majors 13 to 18.
    Postgresql,
    /// Debian's.
    Mariadb,
    /// OpenJDK.
    Jvm,
    /// Plain System V segments.
    Segments,
}

/// Page sizes of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Page {
    /// 2 MiB.
    #[value(name = "2M")]
    Mib2,
    /// 1 GiB.
    #[value(name = "1G")]
    Gib1,
}

/// What is to be measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A handful of cases.
    #[arg(long)]
    quick: bool,
    /// Only this engine; may be repeated.
    #[arg(long, value_enum)]
    engine: Vec<Engine>,
    /// Only pages of this size.
    #[arg(long, value_enum)]
    page: Option<Page>,
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

/// Starts of a server whose starts differ.
const STARTS: usize = 6;

/// One server with one set of settings.
trait Case {
    /// `PostgreSQL 15.20`.
    fn engine(&self) -> String;
    /// `1GB, 20 connections`.
    fn settings(&self) -> String;
    /// The page size that it asks for.
    fn page(&self) -> PageSize;
    /// The size that people know of it: `shared_buffers`, the heap.
    fn memory(&self) -> Bytes;
    /// Whether a server that is refused one page runs without any, or not at all.
    fn all_or_nothing(&self) -> bool;
    /// Pages by which starts with the same settings differ.
    fn by_chance(&self) -> u64 {
        0
    }
    /// Writes its settings down, and says how it is described to hugewise.
    fn describe(&self) -> Result<Vec<OsString>, Failure>;
    /// Starts it, asking for huge pages or not.
    fn start(&self, huge: bool) -> Result<Start, Failure>;
}

type Cases = Vec<Box<dyn Case>>;

/// The most pages of 1 GiB that a case takes.
const MOST_GIBIBYTES: u64 = 7;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    if arguments.inside {
        return inside(&hugewise, arguments);
    }
    let standin = programs::standin()?;
    let mut skipped = Vec::new();
    let mut cases = cases(arguments, &mut skipped);
    match arguments.page {
        Some(Page::Mib2) => cases.retain(|case| case.page() == PageSize::MIB_2),
        Some(Page::Gib1) => cases.retain(|case| case.page() == PageSize::GIB_1),
        None => {}
    }
    let mut elsewhere = false;
    if cases.iter().any(|case| case.page() == PageSize::GIB_1)
        && !gibibytes_here(arguments.vm, MOST_GIBIBYTES)
    {
        cases.retain(|case| case.page() != PageSize::GIB_1);
        elsewhere = arguments.vm != When::Never;
    }
    println!(
        "| server | settings | page | hugewise | from | needed | script | memory + 10 % | peak VM \
             size | |"
    );
    println!("|---|---|--:|--:|---|--:|--:|--:|--:|---|");
    let mut table = Table::new(skipped);
    for case in &cases {
        table.add(run_case(&hugewise, case.as_ref()));
    }
    if elsewhere {
        let command = arguments.engine.iter().fold("exactness".to_owned(), |text, engine| {
            let name = engine
                .to_possible_value()
                .map(|value| value.get_name().to_owned())
                .unwrap_or_default();
            format!("{text} --engine {name}")
        });
        let command = format!("{command} --program '{}'", hugewise.display());
        let postgresql =
            arguments.engine.is_empty() || arguments.engine.contains(&Engine::Postgresql);
        let folders = if postgresql { tools::folders() } else { Vec::new() };
        let run =
            guest::run(&command, &[&hugewise, &standin], &folders, &mut |said| table.add(said));
        run.unwrap_or_else(|why| table.add(CaseOutcome::Failed(format!("pages of 1 GiB: {why}"))));
    }
    table.end()
}

/// The part with pages of 1 GiB, in a machine that has them.
fn inside(hugewise: &Path, arguments: &Arguments) -> Result<(), Failure> {
    let mut skipped = Vec::new();
    let mut cases = cases(arguments, &mut skipped);
    cases.retain(|case| case.page() == PageSize::GIB_1);
    // The longer it runs, the fewer gibibytes are in one piece: those that take most come first.
    cases.sort_by_key(|case| Reverse(case.memory()));
    for case in cases {
        run_case(hugewise, case.as_ref()).print()?;
    }
    skipped.into_iter().try_for_each(|why| CaseOutcome::<Row>::Skip(why).print())
}

fn cases(arguments: &Arguments, skipped: &mut Vec<String>) -> Cases {
    let quick = arguments.quick;
    let wanted = |engine| arguments.engine.is_empty() || arguments.engine.contains(&engine);
    let mut cases = Vec::new();
    let mut add = |made: Result<Cases, Failure>, what: &str| match made {
        Ok(mut more) => cases.append(&mut more),
        Err(why) => skipped.push(format!("{what}: {why}")),
    };
    if wanted(Engine::Segments) {
        add(system_v::cases(quick), "System V segments");
    }
    if wanted(Engine::Postgresql) {
        // Releases before 14 know pages of the default size only.
        for install in tools::installs(quick)
            .into_iter()
            .filter(|install| !arguments.inside || install.major > 13)
        {
            let name = format!("PostgreSQL {}", install.major);
            add(postgresql::cases(install, quick), &name);
        }
    }
    if wanted(Engine::Mariadb) && !arguments.inside {
        add(mariadb::cases(quick), "MariaDB");
    }
    if wanted(Engine::Jvm) && !arguments.inside {
        add(java::cases(quick), "OpenJDK");
    }
    cases
}

/// Whether this host gives so many pages of 1 GiB right now.
pub(crate) fn gibibytes_here(vm: When, pages: u64) -> bool {
    let give = || {
        let guard = PoolGuard::take_for_test().ok()?;
        let others = committed(PageSize::GIB_1).ok()?;
        guard.set_pool(PageSize::GIB_1, PageCount(others + pages)).ok()
    };
    vm == When::Never || (vm == When::Auto && give().is_some())
}

fn run_case(hugewise: &Path, case: &dyn Case) -> CaseOutcome<Row> {
    let title = format!(
        "{}, {}, {} pages",
        case.engine(),
        case.settings(),
        page_name(case.page().bytes().get())
    );
    match measure(hugewise, case) {
        Ok(row) => CaseOutcome::Row(row),
        Err(Trouble::Skip(Skip(why))) => CaseOutcome::Skip(format!("{title}: {why}")),
        Err(Trouble::Failure(why)) => CaseOutcome::Failed(format!("{title}: {why}")),
    }
}

enum Trouble {
    /// This machine cannot do it now.
    Skip(Skip),
    Failure(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
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

fn measure(hugewise: &Path, case: &dyn Case) -> Result<Row, Trouble> {
    let page = case.page();
    let guard = PoolGuard::take_for_test()?.with_watchdog();
    // Others' pages stay theirs: what they hold comes on top.
    let others = committed(page)?;
    let described = case.describe()?;
    let (ours, source) = pages_by_hugewise(hugewise, &described, page)?;
    let (script, peak) = rivals(case)?;
    let mut bench = Bench { guard: &guard, case, page, others, whole: None };
    let chance = case.by_chance();
    let starts = if chance > 0 { STARTS } else { 1 };
    if !case.all_or_nothing() {
        let roomy = (0..starts)
            .map(|_| bench.with(ours + ours / 8 + 128))
            .collect::<Result<Vec<_>, _>>()?;
        bench.whole = roomy.iter().map(|trial| trial.mapped).min();
    }
    let too_few = ours.saturating_sub(chance).saturating_sub(1);
    let (mut failure, mut taken) = (None, Vec::new());
    for _ in 0..starts {
        let enough = bench.with(ours)?;
        if !enough.wholly {
            failure = Some(format!("{ours} pages are too few: {}", enough.said));
        }
        taken.push(enough.mapped);
    }
    for _ in 0..starts.min(3) {
        if bench.with(too_few)?.wholly && ours > 0 {
            failure = Some(format!("{too_few} pages would do"));
        }
    }
    let (least, most) =
        (taken.iter().min().copied().unwrap_or(ours), taken.iter().max().copied().unwrap_or(ours));
    let (needs, up_to) = match (&failure, chance) {
        (Some(_), _) => (bench.search(ours)?, None),
        (None, 0) => (ours, None),
        (None, _) => (least, Some(most)),
    };
    let bytes = page.bytes().get();
    let ten_percent = (case.memory().get() / 10 * 11).div_ceil(bytes);
    let script = script
        .iter()
        .map(|size| size / bytes)
        .filter(|pages| *pages > 0)
        .map(|pages| pages + 1)
        .sum();
    let peak = peak.map(|peak| peak.get().div_ceil(bytes));
    let (engine, settings) = (case.engine(), case.settings());
    Ok(Row {
        engine,
        settings,
        page_bytes: bytes,
        ours,
        source,
        needs,
        up_to,
        script,
        ten_percent,
        peak,
        failure,
    })
}

/// What the usual ways look at, with the server on base pages: its System V segments and its peak.
fn rivals(case: &dyn Case) -> Result<(Vec<u64>, Option<Bytes>), Failure> {
    match case.start(false)? {
        Start::Up(server) => Ok((server.system_v_segments(), server.peak())),
        Start::Refused(said) => Err(format!("it does not start on base pages: {said}").into()),
    }
}

/// Pages of the pool that somebody has or was promised.
pub(crate) fn committed(page: PageSize) -> Result<u64, Failure> {
    let folder = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page.bytes().get() >> 10);
    let number = |file: &str| -> Result<u64, Failure> {
        let path = format!("{folder}/{file}");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok(text.trim().parse()?)
    };
    Ok((number("nr_hugepages")? + number("resv_hugepages")?)
        .saturating_sub(number("free_hugepages")?))
}

/// What hugewise says of the server that is described so.
fn pages_by_hugewise(
    hugewise: &Path,
    described: &[OsString],
    page: PageSize,
) -> Result<(u64, String), Failure> {
    let mut arguments: Vec<OsString> = ["--only-described"].map(OsString::from).to_vec();
    if described.iter().any(|argument| argument == "--segment") {
        arguments.extend(["--page-size".into(), format!("{}B", page.bytes().get()).into()]);
    }
    arguments.extend_from_slice(described);
    let sized = size(hugewise, &arguments)?;
    let instances = sized.get("instances").and_then(Value::as_array).ok_or("no instances")?;
    let number = |instance: &Value, name: &str| {
        instance
            .get(name)
            .and_then(Value::as_u64)
            .ok_or_else(|| format!("no {name} in {instance:#}"))
    };
    let mut pages = 0;
    let mut source = String::new();
    for instance in instances {
        if number(instance, "page_bytes")? != page.bytes().get() {
            return Err(format!("sized for other pages: {instance:#}").into());
        }
        pages += number(instance, "demand_pages")?;
        instance.get("source").and_then(Value::as_str).unwrap_or_default().clone_into(&mut source);
    }
    if instances.is_empty() {
        Err(format!("nothing sized: {sized:#}").into())
    } else {
        Ok((pages, source))
    }
}

/// Runs `hugewise size --format json` with these arguments.
pub(crate) fn size(hugewise: &Path, arguments: &[OsString]) -> Result<Value, Failure> {
    let output =
        Command::new(hugewise).args(["size", "--format", "json"]).args(arguments).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0 | 1 | 3) if !output.stdout.is_empty() => Ok(serde_json::from_slice(&output.stdout)?),
        _ => Err(format!(
            "hugewise size {arguments:?} ended with {}: {}",
            output.status,
            errors.trim()
        )
        .into()),
    }
}
