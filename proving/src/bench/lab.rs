//! `cargo xtask bench lab`: what the lab has to show on this machine, side by side in one run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use hugewise_testkit::tools::{Failure, programs};

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of each experiment.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Only these rows: logins, page-tables, postgresql, sort, access, run.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Keep every experiment's JSON, page and plots in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// One row of the table.
struct Row {
    what: String,
    base: String,
    huge: String,
    shown: String,
    wanted: String,
    met: bool,
}

/// Gives the rows of one part.
type Part = fn(&Bench) -> Result<Vec<Row>, Failure>;

const PARTS: [(&str, Part); 6] = [
    ("logins", logins),
    ("page-tables", page_tables),
    ("postgresql", postgresql),
    ("sort", sort),
    ("access", access),
    ("run", run_compare),
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(none) =
        arguments.only.iter().find(|name| PARTS.iter().all(|(part, _)| part != name))
    {
        return Err(format!("{none} is no row of it").into());
    }
    let bench = Bench { program: programs::hugewise(None)?, arguments };
    let mut rows = Vec::new();
    for (name, part) in PARTS {
        if !arguments.only.is_empty() && arguments.only.iter().all(|only| only != name) {
            continue;
        }
        match part(&bench) {
            Ok(found) => rows.extend(found),
            Err(failure) => rows.push(Row {
                what: format!("{name}: {failure}"),
                base: "-".into(),
                huge: "-".into(),
                shown: "-".into(),
                wanted: "-".into(),
                met: false,
            }),
        }
    }
    print(&rows);
    match rows.iter().filter(|row| !row.met).count() {
        0 => Ok(()),
        missed => Err(format!("{missed} of {} are not as wanted", rows.len()).into()),
    }
}

fn print(rows: &[Row]) {
    println!("\n| measured | base pages | 2 MiB pages | result | wanted | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for row in rows {
        let Row { what, base, huge, shown, wanted, met } = row;
        println!(
            "| {what} | {base} | {huge} | {shown} | {wanted} | {} |",
            if *met { "met" } else { "MISSED" }
        );
    }
}

struct Bench<'a> {
    program: PathBuf,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    /// What an experiment on base and 2 MiB pages found.
    fn lab(&self, name: &str, arguments: &[&str], runs: u32) -> Result<Value, Failure> {
        let runs = runs.to_string();
        let mut command = Command::new(&self.program);
        command
            .args(["lab", name, "--pages", "4k,2m", "--yes", "--runs", &runs, "--warm-ups", "0"])
            .args(arguments);
        if let Some(folder) = &self.arguments.keep {
            // Both engines measure page tables.
            let own = arguments.contains(&"postgresql").then(|| folder.join("postgresql"));
            command.arg("--keep").arg(own.as_ref().unwrap_or(folder));
        }
        let found = self.json(command.args(["--format", "json"]))?;
        if let Some(stopped) = found.get("stopped").and_then(Value::as_str) {
            return Err(stopped.to_owned().into());
        }
        Ok(found)
    }

    fn json(&self, command: &mut Command) -> Result<Value, Failure> {
        let shown: Vec<_> =
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        println!("$ hugewise {}", shown.join(" "));
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
        if output.stdout.is_empty() {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(errors.lines().last().unwrap_or("failed without a word").to_owned().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The first of these that the host has room for.
    fn that_fits<'a>(&self, name: &str, choices: &[&[&'a str]]) -> Result<Vec<&'a str>, Failure> {
        let mut why = String::from("nothing to choose from");
        for choice in choices {
            let mut command = Command::new(&self.program);
            command.args(["lab", name, "--plan", "--pages", "4k,2m"]).args(*choice);
            let plan = self.json(command.args(["--format", "json"]))?;
            match plan.get("refusal").and_then(Value::as_str) {
                None => return Ok(choice.to_vec()),
                Some(refusal) => refusal.clone_into(&mut why),
            }
        }
        Err(why.into())
    }
}

/// The median of a metric, of the most sessions and the largest size there are.
fn median(found: &Value, metric: &str, pages: &str, case: Option<&str>) -> Result<f64, Failure> {
    let runs = found.get("runs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let number = |run: &Value, field: &str| run.get(field).and_then(Value::as_u64).unwrap_or(0);
    let is = |run: &&Value| {
        let text = |field: &str| run.get(field).and_then(Value::as_str);
        text("metric") == Some(metric)
            && text("pages") == Some(pages)
            && (case.is_none() || text("case") == case)
    };
    let last = runs
        .iter()
        .filter(is)
        .max_by_key(|run| (number(run, "sessions"), number(run, "segment_bytes")));
    let median = last.and_then(|run| run.get("median")).and_then(Value::as_f64);
    median.ok_or_else(|| format!("no {metric} on {pages} was measured").into())
}

const MIB: f64 = 1_048_576.0;

fn logins(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let sessions = 625;
    let all = sessions.to_string();
    let found =
        bench.lab("logins", &["--segment", "5G", "--sessions", &all, "--paced", "20"], 1)?;
    let each = |pages| median(&found, "login", pages, Some("one by one"));
    let (base, huge) = (each("4k")?, each("2m")?);
    let (base_wall, huge_wall) = (
        median(&found, "wall", "4k", Some("at once"))?,
        median(&found, "wall", "2m", Some("at once"))?,
    );
    Ok(vec![
        Row {
            what: "a login on 5 GiB".into(),
            base: format!("{base:.3} s"),
            huge: format!("{huge:.3} s"),
            shown: format!("{:.1}x", base / huge),
            wanted: ">= 20x".into(),
            met: base / huge >= 20.0,
        },
        Row {
            what: format!("{sessions} logins at once"),
            base: format!("{base_wall:.0} s"),
            huge: format!("{huge_wall:.0} s"),
            shown: "all of them".into(),
            wanted: "on both".into(),
            met: true,
        },
    ])
}

fn page_tables(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let choices: [&[&str]; 3] = [
        &["--segment", "8000M", "--sessions", "500"],
        &["--segment", "4000M", "--sessions", "500"],
        &["--segment", "2000M", "--sessions", "500"],
    ];
    let fits = bench.that_fits("page-tables", &choices)?;
    let found = bench.lab("page-tables", &fits, 1)?;
    let value_of = |pages| median(&found, "page_tables", pages, None);
    let (base, huge) = (value_of("4k")?, value_of("2m")?);
    let forecasts = found.get("forecasts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let last = forecasts.iter().rfind(|one| one.get("pages").and_then(Value::as_str) == Some("4k"));
    let off =
        last.and_then(|one| one.get("off_percent")).and_then(Value::as_f64).ok_or("no forecast")?;
    let what = format!("page tables, 500 sessions on {}", fits.get(1).unwrap_or(&"?"));
    let row = |shown: String, wanted: &str, met| Row {
        what: what.clone(),
        base: format!("{:.0} MiB", base / MIB),
        huge: format!("{:.1} MiB", huge / MIB),
        shown,
        wanted: wanted.into(),
        met,
    };
    Ok(vec![
        row(format!("{off:+.2} % off the forecast"), "within 5 % on base pages", off.abs() <= 5.0),
        row(format!("{:.1} MB on 2 MiB", huge / 1e6), "< 300 MB", huge < 300e6),
    ])
}

fn postgresql(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let arguments = ["--engine", "postgresql", "--sessions", "40", "--segment", "4G"];
    let found = bench.lab("page-tables", &arguments, 1)?;
    let value_of = |pages| median(&found, "page_tables", pages, None);
    let (base, huge) = (value_of("4k")?, value_of("2m")?);
    Ok(vec![Row {
        what: "page tables, PostgreSQL, 40 sessions scan 4 GB".into(),
        base: format!("{:.0} MiB", base / MIB),
        huge: format!("{:.1} MiB", huge / MIB),
        shown: format!("1/{:.1}", base / huge),
        wanted: "<= 1/5".into(),
        met: huge * 5.0 <= base,
    }])
}

fn sort(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let found = bench.lab("sort", &["--extents", "1M"], bench.arguments.runs)?;
    let value_of = |metric, pages| median(&found, metric, pages, None);
    let (base, huge) = (value_of("sort_time", "4k")?, value_of("sort_time", "2m")?);
    let (base_memory, huge_memory) = (value_of("memory", "4k")?, value_of("memory", "2m")?);
    let (gain, waste) = ((1.0 - huge / base) * 100.0, (huge_memory / base_memory - 1.0) * 100.0);
    Ok(vec![
        Row {
            what: "sort of 3.8 million rows of 243 bytes".into(),
            base: format!("{base:.2} s"),
            huge: format!("{huge:.2} s"),
            shown: format!("{gain:.1} % quicker"),
            wanted: ">= 15 %".into(),
            met: gain >= 15.0,
        },
        Row {
            what: "its memory".into(),
            base: format!("{:.1} MiB", base_memory / MIB),
            huge: format!("{:.1} MiB", huge_memory / MIB),
            shown: format!("{waste:+.2} %"),
            wanted: "< 2 %".into(),
            met: waste < 2.0,
        },
    ])
}

fn access(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let found = bench.lab("access", &["--segment", "4G"], bench.arguments.runs)?;
    let value_of = |metric, pages| median(&found, metric, pages, None);
    let (base, huge) = (value_of("random_access", "4k")?, value_of("random_access", "2m")?);
    let (base_fill, huge_fill) =
        (value_of("prefault_of_memset", "4k")?, value_of("prefault_of_memset", "2m")?);
    let clearing = value_of("prefault", "2m")? / value_of("memset_by_base_pages", "2m")?;
    Ok(vec![
        Row {
            what: "random access over 4 GiB".into(),
            base: format!("{base:.0} ns"),
            huge: format!("{huge:.0} ns"),
            shown: format!("{:.2}x", base / huge),
            wanted: ">= 1.5x".into(),
            met: base / huge >= 1.5,
        },
        Row {
            what: "pre-fault with all cores, of memset".into(),
            base: format!("{:.0} %", base_fill * 100.0),
            huge: format!("{:.0} %", huge_fill * 100.0),
            shown: format!(
                "{:.0} %, {:.0} % of memset by base pages",
                huge_fill * 100.0,
                clearing * 100.0
            ),
            wanted: ">= 80 %".into(),
            met: huge_fill >= 0.8,
        },
    ])
}

/// Whatever the gain is, it has to be told; none is wanted.
fn run_compare(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("lines");
    let mut text = Vec::with_capacity(220 << 20);
    let mut key = 1_u64;
    while text.len() < 200 << 20 {
        key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(
            format!("{key:020} a line of text behind its key, as logs have it\n").as_bytes(),
        );
    }
    std::fs::write(&file, text)?;
    let objects = "a = {i: str(i) for i in range(6000000)}\nimport random\nrandom.seed(1)\nk = \
         list(a)\nrandom.shuffle(k)\nprint(sum(len(a[i]) for i in k))";
    let file = file.to_string_lossy().into_owned();
    let commands: [(&str, Vec<&str>); 2] = [
        ("sort(1) of 200 MiB", vec!["sort", "-S", "4G", "--parallel=1", &file]),
        ("python3, a gigabyte of objects", vec!["python3", "-c", objects]),
    ];
    let mut rows = Vec::new();
    for (what, words) in commands {
        let mut command = Command::new(&bench.program);
        let runs = bench.arguments.runs.to_string();
        command
            .args(["run", "--compare", "--runs", &runs, "--format", "json", "--"])
            .args(&words)
            .env("LC_ALL", "C");
        let found = bench.json(&mut command)?;
        let gain = found.get("gain").ok_or("no gain is told")?;
        let number = |field: &str| gain.get(field).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let verdict = gain.get("verdict").and_then(Value::as_str).unwrap_or("?").to_owned();
        let wall = |side: &str| {
            let runs = found.get(side).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let mut times: Vec<f64> =
                runs.iter().filter_map(|run| run.get("wall_seconds")?.as_f64()).collect();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
        };
        rows.push(Row {
            what: what.into(),
            base: format!("{:.2} s", wall("without")),
            huge: format!("{:.2} s", wall("with")),
            shown: format!(
                "{:.2}x ({:.2} to {:.2}): {verdict}",
                number("median"),
                number("min"),
                number("max")
            ),
            wanted: "told as it is".into(),
            met: ["faster", "slower", "none"].contains(&verdict.as_str()),
        });
    }
    Ok(rows)
}
