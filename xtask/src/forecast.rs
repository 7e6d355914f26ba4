//! `cargo xtask forecast`: the page tables that hugewise forecasts, beside those that the kernel makes.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_lab::guard::{PoolGuard, Skip};
use hugewise_model::{Bytes, PageCount, PageSize};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Failure;
use crate::exactness::postgresql::Cluster;
use crate::exactness::server::{self, Server, Start};
use crate::exactness::{self, committed};
use crate::vm::{self, Said, When};

/// What a forecast may be off, in percent: processes that touch everything, and sessions of PostgreSQL.
const BAR: f64 = 5.0;
const BAR_OF_POSTGRESQL: f64 = 15.0;

/// A case is measured so often at least, and again until so much time has gone, or so often.
const RUNS: usize = 3;
const ENOUGH: Duration = Duration::from_secs(5);
const OFTEN: usize = 41;

/// Processes over which the addresses that chance gives them even out, where less grows than this.
const PROCESSES: u64 = 30;
const SMALL: f64 = 4.0 * 1024.0 * 1024.0;

/// A run is thrown away where other programs' page tables changed meanwhile by more than this part of what grew, or by more
/// than a process has at least.
const NOISE: f64 = 0.005;
const LEAST_NOISE: f64 = 8.0 * 1024.0;

/// The topmost table of a process, which is in `PageTables` and not in `VmPTE` (Linux 6.18).
const TOP: f64 = 4096.0;

/// How many runs may be thrown away.
const PATIENCE: usize = 60;

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

/// Sessions around one segment.
#[derive(Clone, Copy)]
struct Case {
    mib: u64,
    page: PageSize,
    memfd: bool,
    sessions: u64,
}

/// The most pages of 1 GiB that a case takes.
const MOST_GIBIBYTES: u64 = 5;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = exactness::hugewise(arguments.program.as_deref())?;
    let mut cases = if arguments.no_standin { Vec::new() } else { cases(arguments.quick) };
    cases.retain(|case| arguments.page.is_none_or(|page| page.size() == case.page));
    cases.retain(|case| arguments.size.is_none_or(|mib| mib == case.mib));
    if arguments.inside {
        let standin = exactness::built_standin();
        return cases.iter().try_for_each(|case| said(&hugewise, &standin, *case).print());
    }
    let standin = exactness::standin()?;
    let (mut elsewhere, gibibytes) = (false, |case: &Case| case.page == PageSize::GIB_1);
    if cases.iter().any(gibibytes) && !exactness::gibibytes_here(arguments.vm, MOST_GIBIBYTES) {
        cases.retain(|case| !gibibytes(case));
        elsewhere = arguments.vm != When::Never;
    }
    let mut table = Table::default();
    println!("| memory | page | sessions | forecast KiB | measured KiB | error % | VmPTE of all KiB | runs | |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|---|");
    for case in cases {
        table.take(said(&hugewise, &standin, case));
    }
    if elsewhere {
        let size = arguments.size.map(|mib| format!(" --size {mib}")).unwrap_or_default();
        let command = format!("forecast --page 1G{size} --program '{}'", hugewise.display());
        let run = vm::run(&command, &[&hugewise, &standin], &[], &mut |said| table.take(said));
        run.unwrap_or_else(|why| table.take(Said::Failed(format!("pages of 1 GiB: {why}"))));
    }
    if !arguments.no_postgresql {
        postgresql(&hugewise, arguments, &mut table)
            .unwrap_or_else(|why| table.take(Said::Failed(format!("PostgreSQL: {why}"))));
    }
    table.end()
}

fn said(hugewise: &Path, standin: &Path, case: Case) -> Said<Row> {
    let title = case.title();
    match measure(hugewise, standin, case) {
        Ok(measured) => {
            Said::Row(Row { title, page_bytes: case.page.bytes().get(), sessions: case.sessions, measured, bar: BAR })
        }
        Err(Trouble::Skip(Skip(why))) => Said::Skip(format!("{title}: {why}")),
        Err(Trouble::Failure(why)) => Said::Failed(format!("{title}: {why}")),
    }
}

fn cases(quick: bool) -> Vec<Case> {
    let sizes: &[u64] = if quick { &[256, 1024] } else { &[256, 1024, 5120] };
    let counts: &[u64] = if quick { &[1, 100] } else { &[1, 10, 100, 300] };
    let pages: &[PageSize] = &[PageSize::MIB_2, PageSize::GIB_1, PageSize::KIB_4];
    let mut cases = Vec::new();
    for page in pages {
        for mib in sizes {
            for memfd in [false, true] {
                for sessions in counts {
                    let case = Case { mib: *mib, page: *page, memfd, sessions: *sessions };
                    // A segment that is smaller than a page of 1 GiB is one of 1 GiB.
                    if !(case.page == PageSize::GIB_1 && (*mib < 1024 || quick)) {
                        cases.push(case);
                    }
                }
            }
        }
    }
    cases
}

impl Case {
    fn title(&self) -> String {
        format!("{} {} MiB", if self.memfd { "mmap" } else { "System V" }, self.mib)
    }
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
    fn take(&mut self, said: Said<Row>) {
        match said {
            Said::Row(row) => self.add(&row),
            Said::Skip(why) => self.skipped.push(why),
            Said::Failed(why) => self.failed.push(why),
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
            self.failed.push(format!("{title}, {} pages, {sessions} sessions: {error:+.1} %", page_name(*page_bytes)));
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

fn measure(hugewise: &Path, standin: &Path, case: Case) -> Result<Measured, Trouble> {
    let arguments = ["--only-described".to_owned(), "--segment".to_owned(), format!("{}MiB", case.mib)];
    let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
    let forecast = forecast(hugewise, arguments, case.page, case.sessions)?;
    // Base pages come out of no pool, so that others need not wait.
    let _guard = match case.page {
        PageSize::KIB_4 => None,
        page => {
            let guard = PoolGuard::take()?;
            let pages = page.pages_for(Bytes::from_mib(case.mib));
            guard.set_pool(page, PageCount(committed(page)? + pages.get()))?;
            Some(guard)
        }
    };
    let (begun, counts_all) = (Instant::now(), counts_all_levels()?);
    let measured = |growths: &[f64]| u64::try_from(growths.len()).unwrap_or(u64::MAX).saturating_mul(case.sessions);
    let (mut growths, mut of_processes, mut noisy) = (Vec::new(), Vec::new(), 0);
    // Where processes' own tables are all there is, they are enough processes for chance to even out.
    let few = |growths: &[f64]| growths.last().is_some_and(|last| *last < SMALL) && measured(growths) < PROCESSES;
    while growths.len() < RUNS || few(&growths) || (begun.elapsed() < ENOUGH && growths.len() < OFTEN) {
        let mut held = Held::start(standin, case)?;
        let before = Look::take(held.child.id())?;
        held.go_on()?;
        let after = Look::take(held.child.id())?;
        let own = held.of_processes();
        drop(held);
        let mut growth = after.page_tables - before.page_tables;
        if !counts_all {
            // As far as the kernel counts them it must not be more.
            let whole = own + f64::from(u32::try_from(case.sessions).map_err(Failure::from)?) * TOP;
            if growth > whole {
                return Err(Failure::from(format!("PageTables grew by {growth}, all tables by {whole}")).into());
            }
            growth = whole;
        }
        if (after.of_others - before.of_others).abs() > (growth * NOISE).max(LEAST_NOISE) {
            noisy += 1;
            if noisy > PATIENCE {
                return Err(Skip(format!("other programs come and go in each of {noisy} runs")).into());
            }
            continue;
        }
        growths.push(growth);
        of_processes.push(own);
    }
    let runs = growths.len();
    Ok(Measured { forecast, runs, growth: middle(growths), of_processes: middle(of_processes), counts_all })
}

/// Whether `PageTables` counts the tables of all levels: those below the topmost since Linux 6.7, the topmost since 6.14. What
/// an earlier kernel leaves out is taken from the processes: VmPTE has all but the topmost.
fn counts_all_levels() -> Result<bool, Failure> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor) >= (6, 14)),
        _ => Err(format!("no release of a kernel: {release}").into()),
    }
}

/// The host's page tables at one moment.
struct Look {
    page_tables: f64,
    /// Those of processes that have nothing to do with this.
    of_others: f64,
}

impl Look {
    /// Once two looks agree. `server` and what it has started are ours.
    fn take(server: u32) -> Result<Self, Failure> {
        let page_tables = settled()?;
        let ours = [&server::children(server)[..], &[server, std::process::id()]].concat();
        let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let others: Vec<u32> = pids.filter(|pid| !ours.contains(pid)).collect();
        let tops = f64::from(u32::try_from(others.len())?) * TOP;
        Ok(Self { page_tables, of_others: kibibytes_of(&others) + tops })
    }
}

/// Mean of the middle half: the addresses that processes get fall by chance, and other programs come and go.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let half = values.get(quarter..values.len() - quarter).unwrap_or_default();
    let count = u32::try_from(half.len()).unwrap_or(1);
    half.iter().sum::<f64>() / f64::from(count)
}

/// `page_tables_bytes` of the line for so many sessions and that page size.
fn forecast(hugewise: &Path, mut arguments: Vec<OsString>, page: PageSize, sessions: u64) -> Result<f64, Failure> {
    arguments.extend(["--sessions".into(), sessions.to_string().into()]);
    let sized = exactness::size(hugewise, &arguments)?;
    let rows = sized.get("forecast").and_then(Value::as_array).ok_or("no forecast")?;
    let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let is = |row: &&Value| {
        row.get("sessions").and_then(Value::as_u64) == Some(sessions)
            && row.get("page_bytes").and_then(Value::as_u64) == Some(page.bytes().get())
    };
    let row = rows.iter().find(is).ok_or_else(|| format!("no line for {sessions} sessions on {page:?}"))?;
    Ok(number(row, "page_tables_bytes"))
}

/// The host's page tables once two looks agree: those of processes that have ended go a little later.
fn settled() -> Result<f64, Failure> {
    let until = Instant::now() + Duration::from_secs(2);
    let mut before = page_tables()?;
    loop {
        std::thread::sleep(Duration::from_millis(30));
        let now = page_tables()?;
        if (now - before).abs() < 1.0 || Instant::now() > until {
            return Ok(now);
        }
        before = now;
    }
}

/// The host's page tables, in bytes.
fn page_tables() -> Result<f64, Failure> {
    // Processors keep counts of their own for up to a second; reading this adds them up.
    let _ = fs::read("/proc/sys/vm/stat_refresh");
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("PageTables:")).ok_or("no PageTables in meminfo")?;
    Ok(line.split_ascii_whitespace().next().unwrap_or_default().parse::<f64>()? * 1024.0)
}

/// The stand-in, its segment made; ended when dropped.
struct Held {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Held {
    fn start(standin: &Path, case: Case) -> Result<Self, Failure> {
        let pages = match case.page {
            PageSize::GIB_1 => "1G",
            PageSize::MIB_2 => "2M",
            _ => "base",
        };
        let mut command = Command::new(standin);
        command.args(["--as", "oracle:CAST", "--only-sessions", "--hold", "--pages", pages]);
        command.args(["--segments", &format!("{}M", case.mib), "--sessions", &case.sessions.to_string()]);
        if case.memfd {
            command.arg("--memfd");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().map(BufReader::new).ok_or("no output")?;
        let mut held = Self { child, output };
        held.expect("made")?;
        Ok(held)
    }

    /// Starts the sessions, and waits until all have touched everything.
    fn go_on(&mut self) -> Result<(), Failure> {
        if let Some(input) = &mut self.child.stdin {
            input.write_all(b"\n")?;
        }
        self.expect("ready")
    }

    fn expect(&mut self, what: &str) -> Result<(), Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim_end() == what { Ok(()) } else { Err(format!("the stand-in said {line:?}, not {what}").into()) }
    }

    /// Page tables of the sessions, as each of them is charged.
    fn of_processes(&self) -> f64 {
        kibibytes_of(&server::children(self.child.id()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn kibibytes_of(pids: &[u32]) -> f64 {
    let each = pids.iter().filter_map(|pid| server::status(*pid, "VmPTE:"));
    each.filter_map(|kib| u32::try_from(kib).ok()).map(f64::from).sum::<f64>() * 1024.0
}

/// PostgreSQL's sessions that ran a full scan: forecast from a few, measured at many.
fn postgresql(hugewise: &Path, arguments: &Arguments, table: &mut Table) -> Result<(), Failure> {
    let cluster = Cluster::new(exactness::debian())?;
    let scan = if arguments.quick {
        Scan { buffers: "512MB", pages: 300, counts: &[10] }
    } else {
        Scan { buffers: "2GB", pages: 1100, counts: &[1, 10, 40] }
    };
    scan.configure(&cluster, PageSize::KIB_4)?;
    // Filled by one server and read by the next, so that every process starts anew.
    drop(up(&cluster)?);
    let filler = up(&cluster)?;
    let rows = if arguments.quick { 330_000 } else { 1_300_000 };
    server::must(&mut cluster.psql(&format!(
        "CREATE TABLE scanned AS SELECT g AS id, repeat('x', 1100) AS filler FROM generate_series(1, {rows}) g"
    )))?;
    server::must(&mut cluster.psql("CREATE EXTENSION IF NOT EXISTS pg_prewarm"))?;
    drop(filler);
    for page in [PageSize::KIB_4, PageSize::MIB_2] {
        if arguments.page.is_some_and(|wanted| wanted.size() != page) {
            continue;
        }
        match scan.measure(hugewise, &cluster, page, table) {
            Ok(()) => {}
            Err(Trouble::Skip(Skip(why))) => {
                table.skipped.push(format!("PostgreSQL on pages of {}: {why}", page_name(page.bytes().get())));
            }
            Err(Trouble::Failure(why)) => return Err(why),
        }
    }
    Ok(())
}

/// What is scanned, and by how many.
struct Scan {
    buffers: &'static str,
    /// Pages of 2 MiB that hold all of it.
    pages: u64,
    counts: &'static [u64],
}

impl Scan {
    fn configure(&self, cluster: &Cluster, page: PageSize) -> Result<(), Failure> {
        let huge = if page == PageSize::KIB_4 { "off" } else { "on" };
        cluster.configure(&format!(
            "shared_buffers = {}\nhuge_pages = {huge}\nmax_connections = 100\nautovacuum = off\nmax_wal_size = 8GB\n\
             max_parallel_workers_per_gather = 0\nsynchronize_seqscans = off\nwal_level = minimal\nmax_wal_senders = 0\n\
             client_connection_check_interval = '100ms'",
            self.buffers
        ))
    }

    fn measure(&self, hugewise: &Path, cluster: &Cluster, page: PageSize, table: &mut Table) -> Result<(), Trouble> {
        self.configure(cluster, page)?;
        let _guard = match page {
            PageSize::KIB_4 => None,
            page => {
                let guard = PoolGuard::take()?;
                guard.set_pool(page, PageCount(committed(page)? + self.pages))?;
                Some(guard)
            }
        };
        // Nothing is its child before it runs.
        let before = Look::take(std::process::id())?;
        let server = up(cluster)?;
        server::must(&mut cluster.psql("SELECT pg_prewarm('scanned')"))?;
        let few = Sessions::open(cluster, &server, 2)?;
        let name = format!("forecast from {} live sessions", few.clients.len());
        let instance = instance_of(hugewise, server.pid)?;
        let forecasts = self.counts.iter().map(|count| {
            let arguments = ["--instance".into(), instance.clone().into()].to_vec();
            forecast(hugewise, arguments, page, *count).map(|forecast| (*count, forecast))
        });
        let forecasts: Vec<(u64, f64)> = forecasts.collect::<Result<_, _>>()?;
        drop(few);
        for (count, forecast) in forecasts {
            let (mut growths, mut of_processes) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let _sessions = Sessions::open(cluster, &server, count)?;
                let after = Look::take(server.pid)?;
                // It takes too long to begin anew for each: what others have more by now, the clients among them, is taken off.
                growths.push(after.page_tables - before.page_tables - (after.of_others - before.of_others));
                let mut pids = server::children(server.pid);
                pids.push(server.pid);
                of_processes.push(kibibytes_of(&pids));
            }
            let (growth, of_processes) = (middle(growths), middle(of_processes));
            let counts_all = counts_all_levels()?;
            let measured = Measured { forecast, runs: RUNS, growth, of_processes, counts_all };
            let title = format!("PostgreSQL {}, {}, {name}", cluster.version, self.buffers);
            let page_bytes = page.bytes().get();
            table.add(&Row { title, page_bytes, sessions: count, measured, bar: BAR_OF_POSTGRESQL });
        }
        Ok(())
    }
}

fn up(cluster: &Cluster) -> Result<Server, Failure> {
    match cluster.start()? {
        Start::Up(server) => Ok(server),
        Start::Refused(said) => Err(said.into()),
    }
}

/// What hugewise calls the server with that main process.
fn instance_of(hugewise: &Path, pid: u32) -> Result<String, Failure> {
    let output = Command::new(hugewise).args(["check", "--format", "json"]).output()?;
    let checked: Value = serde_json::from_slice(&output.stdout)?;
    let instances = checked.get("instances").and_then(Value::as_array).ok_or("no instances")?;
    let ours = instances.iter().find(|instance| instance.get("pid").and_then(Value::as_u64) == Some(u64::from(pid)));
    let name = ours.and_then(|instance| instance.get("name")).and_then(Value::as_str);
    name.map(|name| format!("postgresql {name}")).ok_or_else(|| "check does not see the server".into())
}

/// Clients, each in a session that has scanned the table and stays.
struct Sessions {
    clients: Vec<Child>,
    server: u32,
    /// The server's processes without these sessions.
    others: usize,
}

impl Sessions {
    fn open(cluster: &Cluster, server: &Server, count: u64) -> Result<Self, Failure> {
        let others = server::children(server.pid).len();
        let mut sessions = Self { clients: Vec::new(), server: server.pid, others };
        for _ in 0..count {
            let mut client = cluster.psql("SELECT count(filler) FROM scanned");
            client.args(["-c", "SELECT 'scanned'", "-c", "SELECT pg_sleep(600)"]);
            let mut child = client.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            let output = child.stdout.take();
            sessions.clients.push(child);
            let lines = output.map(BufReader::new).into_iter().flat_map(BufRead::lines);
            if !lines.map_while(Result::ok).any(|line| line == "scanned") {
                return Err("a session ended before it had scanned".into());
            }
        }
        Ok(sessions)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for client in &mut self.clients {
            let _ = client.kill();
            let _ = client.wait();
        }
        let until = Instant::now() + Duration::from_secs(10);
        while server::children(self.server).len() > self.others && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
