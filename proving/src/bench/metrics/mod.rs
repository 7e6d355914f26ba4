//! `cargo xtask bench metrics`: what the fleet dashboard asks, of Prometheus and VictoriaMetrics
//! with many simulated hosts.

mod answers;
mod databases;
mod http;
mod panels;
mod rules;
mod simulated;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::answers::Answer;
use self::databases::{Database, Kind, Span, When};
use self::simulated::Fleet;
use super::serve::Exporter;
use super::{Server, median};
use hugewise_testkit::tools::{Failure, debian, programs, shell, victoria};

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Simulated hosts.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    hosts: u64,
    /// Minutes of samples of each series, one a minute.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i64).range(1..))]
    minutes: i64,
    /// How often each panel is asked.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Scrape this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

const NEEDS: debian::Needs =
    &[("/usr/bin/promtool", "prometheus"), ("/usr/bin/prometheus", "prometheus")];
/// Seconds between samples.
const STEP: i64 = 60;
/// Series that a host may send to the centre.
const MOST: f64 = 10.0;
/// What the centre has of a host, by the names in docs/fleet-metrics.md.
const OF_A_HOST: &str =
    "up|hugewise_memory_bytes|hugewise_page_tables_bytes|hugewise_pools_bytes|hugewise:host_.+";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let missing = debian::missing(NEEDS);
    if !missing.is_empty() {
        debian::install(&missing)?;
    }
    victoria::install()?;
    let rules = fs::read_to_string(shell::root().join("packaging/prometheus/fleet.yml"))?;
    let groups = rules::groups(&rules)?;
    let dashboard =
        fs::read_to_string(shell::root().join("packaging/grafana/hugewise-fleet.json"))?;
    let queries = panels::queries(&dashboard)?;

    let scrape = scrape(arguments)?;
    let served = scrape.lines().filter(|line| !line.starts_with('#')).count();
    println!("one real scrape of this host, with one more server: {served} series");
    let expressions = groups.iter().flatten().map(|rule| rule.expression.as_str());
    let raw = expressions
        .chain(queries.iter().map(|query| query.expression.as_str()))
        .flat_map(rules::names);
    let raw: BTreeSet<&str> = raw.filter(|name| !name.contains(':')).collect();
    let span = span(arguments.minutes)?;
    let times = (span.from..=span.to).step_by(usize::try_from(STEP)?).collect();
    let fleet = Fleet::new(arguments.hosts, &scrape, &raw, times)?;

    let folder = tempfile::Builder::new().prefix("metrics-").tempdir_in(shell::target())?;
    let mut databases = Vec::new();
    for (kind, name) in
        [(Kind::Prometheus, "Prometheus"), (Kind::VictoriaMetrics, "VictoriaMetrics")]
    {
        let begun = Instant::now();
        let mut database = Database::start(kind, &folder.path().join(name))?;
        let series = database.import(&fleet)?;
        println!(
            "{name}: {series} series of {} samples in {} s",
            arguments.minutes + 1,
            begun.elapsed().as_secs()
        );
        databases.push(database);
    }
    let [prometheus, victoria] = databases.as_mut_slice() else {
        return Err("two databases were started".into());
    };

    println!("\nrules, over the whole time                 Prometheus  VictoriaMetrics    series");
    let mut differ = 0;
    for group in &groups {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for rule in group {
            let (one, other) =
                query_both(prometheus, victoria, &rule.expression, When::Range(span), 1)?;
            differ += row(&rule.record, &one, &other);
            ours.push((rule.record.clone(), one.0));
            theirs.push((rule.record.clone(), other.0));
        }
        prometheus.record(&ours)?;
        victoria.record(&theirs)?;
    }

    println!(
        "\npanels, median of {}                       Prometheus  VictoriaMetrics    series",
        arguments.rounds
    );
    let mut sums = (Duration::ZERO, Duration::ZERO);
    for query in &queries {
        let when = if query.instant { When::Instant(span) } else { When::Range(span) };
        let (one, other) =
            query_both(prometheus, victoria, &query.expression, when, arguments.rounds)?;
        sums = (sums.0 + one.1, sums.1 + other.1);
        differ += row(&query.title, &one, &other);
    }
    println!("{:42}{:8.0} ms{:14.0} ms", "all, one after another", ms(sums.0), ms(sums.1));
    println!(
        "memory now                                {:7} MiB{:13} MiB",
        prometheus.mib()?,
        victoria.mib()?
    );

    let small =
        most_series_per_host(prometheus, span)?.max(most_series_per_host(victoria, span)?) <= MOST;
    println!("{}", if small && differ == 0 { "as wanted" } else { "not as wanted" });
    match (small, differ) {
        (true, 0) => Ok(()),
        (false, _) => Err("a host sends more series to the centre than it may".into()),
        (_, differ) => Err(format!("{differ} answers differ").into()),
    }
}

/// What `serve` says here, beside a stand-in for a server.
fn scrape(arguments: &Arguments) -> Result<String, Failure> {
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let _server = Server::start_program(&programs::standin()?, 6, "64M")?;
    Exporter::hugewise(&hugewise)?.connect()?.scrape()
}

/// Ends ten minutes ago, on a whole minute.
fn span(minutes: i64) -> Result<Span, Failure> {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let to = (now - 600) / STEP * STEP;
    Ok(Span { from: to - minutes * STEP, to, step: STEP })
}

type Timed = (Answer, Duration);

/// What both answer, and their median times, asked in turn.
fn query_both(
    one: &Database,
    other: &Database,
    query: &str,
    when: When,
    rounds: u32,
) -> Result<(Timed, Timed), Failure> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..rounds {
        let ((first, took), (second, other_took)) =
            (one.query(query, when)?, other.query(query, when)?);
        ours.push(took);
        theirs.push(other_took);
        last = Some((first, second));
    }
    let (first, second) = last.ok_or("nothing was asked")?;
    Ok(((first, median(ours)), (second, median(theirs))))
}

/// The most series that a host sends to the centre, and prints how many there are of all.
fn most_series_per_host(database: &Database, span: Span) -> Result<f64, Failure> {
    let value_of = |expression: String| -> Result<f64, Failure> {
        let (answer, _) = database.query(&expression, When::Instant(span))?;
        let sample = answer.0.values().next().and_then(|samples| samples.first());
        Ok(sample.ok_or("no series for the centre")?.1)
    };
    let hosts = format!("{{__name__=~\"{OF_A_HOST}\"}}");
    let most = value_of(format!("max(count by (instance) ({hosts}))"))?;
    let all = value_of(format!("count({hosts})"))?;
    let clusters = value_of("count({__name__=~\"hugewise:cluster_.+\"})".to_owned())?;
    println!(
        "for the centre: at most {most} series a host, {all} of all hosts, {clusters} of clusters"
    );
    Ok(most)
}

/// Prints it; 1 where the two differ.
fn row(title: &str, one: &Timed, other: &Timed) -> u32 {
    let why = one.0.differs(&other.0);
    let said = why.as_ref().map_or_else(String::new, |why| format!("  DIFFERENT: {why}"));
    let empty = if one.0.0.is_empty() { "  EMPTY" } else { "" };
    println!(
        "{title:42}{:8.1} ms{:14.1} ms{:10}{empty}{said}",
        ms(one.1),
        ms(other.1),
        one.0.0.len()
    );
    u32::from(why.is_some() || one.0.0.is_empty())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
