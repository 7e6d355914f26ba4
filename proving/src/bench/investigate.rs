//! `cargo xtask bench investigate`: what `hugewise investigate` costs on a day of 1-second samples
//! beside `sadf -j -- -A`, and on a folder of a thousand days.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hugewise_testkit::measure::{self, RunCost};

use hugewise_testkit::tools::{Failure, programs, shell};

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How often each is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Day-files in the folder; with 0 there is none.
    #[arg(long, default_value_t = 1000)]
    days: u32,
    /// Seconds from one sample to the next in the folder's files.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    every: u32,
    /// Measure this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

const DAY: u64 = 86_400;
/// 2023-01-01 00:00 UTC.
const BEGIN: u64 = 1_672_531_200;
/// What it may take of sadf's time, and how much memory.
const WANTED_RATIO: f64 = 40.0;
const WANTED_MIB: u64 = 200;
/// Days whose files are printed by sadf, too.
const SOME_DAYS: usize = 200;
/// How many times the memory of that many days all of them may take.
const WANTED_GROWTH: f64 = 1.5;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(shell::target())?;
    let record = Record::of_this_host(folder.path())?;
    let day = one_day(&hugewise, &record, folder.path(), arguments.rounds)?;
    let days = arguments.days == 0 || many_days(&hugewise, &record, folder.path(), arguments)?;
    if day && days { Ok(()) } else { Err("investigate is slower or larger than it may be".into()) }
}

/// A day of 1-second samples beside sadf; whether it is as wanted.
fn one_day(hugewise: &Path, record: &Record, folder: &Path, rounds: u32) -> Result<bool, Failure> {
    let day = folder.join("sa01");
    record.write_day(&day, BEGIN, 1)?;
    let size = megabytes(&[&day])?;
    println!("a day of {DAY} samples, {size:.0} MB; {rounds} rounds, in turn");
    let (mut own, mut prints) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        own.push(investigate(hugewise, &day)?);
        prints.push(cost(Command::new("sadf").arg("-j").arg(&day).args(["--", "-A"]), &[0])?);
    }
    let ratio = beside(&own, &prints, size);
    println!(
        "peak memory      {:>9.1} MiB (wanted: below {WANTED_MIB}); sadf {:.1} MiB",
        peak(&own),
        peak(&prints)
    );
    fs::remove_file(&day)?;
    Ok(ratio >= WANTED_RATIO && own.iter().all(|cost| cost.peak.get() < WANTED_MIB << 20))
}

/// What both took, printed; how many times the processors' time of the one the other took.
fn beside(own: &[RunCost], prints: &[RunCost], size: f64) -> f64 {
    let ratio = busy(prints) / busy(own);
    let own_busy = busy(own);
    println!(
        "investigate      {:9.1} ms of a processor (median), {:.0} MB/s",
        own_busy * 1e3,
        size / own_busy
    );
    println!("                 {:9.1} ms by the clock", wall(own) * 1e3);
    println!("sadf -j -- -A    {:9.1} ms of a processor (median)", busy(prints) * 1e3);
    println!("ratio            {ratio:9.1}    (wanted: at least {WANTED_RATIO})");
    ratio
}

/// Folders of days of one host; whether they are as wanted.
fn many_days(
    hugewise: &Path,
    record: &Record,
    folder: &Path,
    arguments: &Arguments,
) -> Result<bool, Failure> {
    let archive = folder.join("sa");
    fs::create_dir(&archive)?;
    let mut files = Vec::new();
    for day in 0..arguments.days {
        let file = archive.join(format!("sa{day:04}"));
        record.write_day(&file, BEGIN + DAY * u64::from(day), arguments.every.into())?;
        files.push(file);
    }
    let mut good = true;
    let mut peaks = Vec::new();
    for days in
        BTreeSet::from([20, SOME_DAYS, files.len()]).into_iter().filter(|days| *days <= files.len())
    {
        let files = files.get(..days).unwrap_or_default();
        let some = folder.join(format!("days-{days}"));
        fs::create_dir(&some)?;
        for file in files {
            fs::hard_link(file, some.join(file.file_name().unwrap_or_default()))?;
        }
        let size = megabytes(files)?;
        println!("a folder of {days} days, a sample every {} s, {size:.0} MB", arguments.every);
        let mut costs = Vec::new();
        let mut prints = Vec::new();
        for _ in 0..arguments.rounds {
            costs.push(investigate(hugewise, &some)?);
            if days == SOME_DAYS {
                prints.push(sadf(files)?);
            }
        }
        if days == SOME_DAYS {
            good &= beside(&costs, &prints, size) >= WANTED_RATIO;
        } else {
            println!("investigate      {:9.1} ms of a processor (median)", busy(&costs) * 1e3);
        }
        println!("peak memory      {:>9.1} MiB", peak(&costs));
        peaks.push(peak(&costs));
    }
    if files.len() <= SOME_DAYS {
        return Ok(good);
    }
    let grown = peaks.last().zip(peaks.iter().rev().nth(1)).map_or(1.0, |(most, some)| most / some);
    println!(
        "peak memory grew {grown:9.2} times with the last folder (wanted: at most {WANTED_GROWTH})"
    );
    Ok(good && grown <= WANTED_GROWTH)
}

/// All files, one after another, as sadf takes them.
fn sadf(files: &[PathBuf]) -> Result<RunCost, Failure> {
    let script = r#"for file; do sadf -j "$file" -- -A || exit; done"#;
    cost(Command::new("sh").args(["-c", script, "sh"]).args(files), &[0])
}

fn investigate(hugewise: &Path, path: &Path) -> Result<RunCost, Failure> {
    cost(Command::new(hugewise).arg("investigate").arg(path).args(["--format", "json"]), &[0, 1, 3])
}

fn cost(command: &mut Command, codes: &[i32]) -> Result<RunCost, Failure> {
    let cost = measure::run(command.stdout(Stdio::null()))?;
    match cost.code {
        Some(code) if codes.contains(&code) => Ok(cost),
        code => {
            Err(format!("{} ended with {code:?}", command.get_program().to_string_lossy()).into())
        }
    }
}

/// The median's seconds by the clock.
fn wall(costs: &[RunCost]) -> f64 {
    median(costs, |cost| cost.wall)
}

/// The median's seconds of processors.
fn busy(costs: &[RunCost]) -> f64 {
    median(costs, |cost| cost.busy)
}

fn median(costs: &[RunCost], duration_of: impl Fn(&RunCost) -> Duration) -> f64 {
    let mut all: Vec<Duration> = costs.iter().map(duration_of).collect();
    all.sort();
    all.get(all.len() / 2).copied().unwrap_or_default().as_secs_f64()
}

/// In MiB.
fn peak(costs: &[RunCost]) -> f64 {
    let most = costs.iter().map(|cost| cost.peak.get()).max().unwrap_or_default();
    most as f64 / 1_048_576.0
}

fn megabytes(files: &[impl AsRef<Path>]) -> Result<f64, Failure> {
    let mut bytes = 0;
    for file in files {
        bytes += fs::metadata(file)?.len();
    }
    Ok(bytes as f64 / 1e6)
}

/// What the real collector wrote here: the head of a file, and the body of one record.
struct Record {
    head: Vec<u8>,
    body: Vec<u8>,
    /// Numbers of 8 bytes in the body that are not zero, and where they are.
    moving: Vec<(usize, u64)>,
}

/// The numbers of 8 bytes of a record that are not zero. `file_activity` of sa.h: id, magic, items,
/// subitems, whether items are counted, size, and how many fields of 8 bytes, of a long and of 4
/// bytes an item has.
fn moving(head: &[u8], activities: usize, body: &[u8]) -> Option<Vec<(usize, u64)>> {
    let u32_at = |bytes: &[u8], place: usize| {
        let four = bytes.get(place..place + 4)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*four)).ok()
    };
    let mut moving = Vec::new();
    let mut at = 0;
    for activity in head.get(activities..)?.chunks_exact(36) {
        let field = |nth: usize| u32_at(activity, 4 * nth);
        let (size, wide) = (field(5)?, field(6)? + field(7)?);
        let mut items = field(2)?;
        if field(4)? == 1 {
            items = u32_at(body, at)?;
            at += 4;
        }
        for item in 0..items * field(3)?.max(1) {
            for place in (0..wide).map(|nth| at + item * size + 8 * nth) {
                let number = u64::from_le_bytes(*body.get(place..place + 8)?.first_chunk()?);
                if number > 0 {
                    moving.push((place, number));
                }
            }
        }
        at += items * field(3)?.max(1) * size;
    }
    (at == body.len()).then_some(moving)
}

impl Record {
    fn of_this_host(folder: &Path) -> Result<Self, Failure> {
        let sadc = ["/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc"]
            .into_iter()
            .find(|path| Path::new(path).exists());
        let sadc = sadc.ok_or("sadc is not installed (Debian: sysstat)")?;
        let real = folder.join("real");
        shell::run(Command::new(sadc).args(["-S", "DISK", "1", "2"]).arg(&real).env("TZ", "UTC"))?;
        let bytes = fs::read(&real)?;
        let number = |offset: usize| {
            let four = bytes.get(offset..offset + 4).and_then(|four| four.first_chunk());
            four.copied()
                .map(u32::from_le_bytes)
                .and_then(|number| usize::try_from(number).ok())
                .unwrap_or(0)
        };
        // sa.h of sysstat 12: the magic is of 76 bytes and says the header's; the header counts
        // activities of 36 bytes.
        let head = 76 + number(8) + 36 * number(76 + 20);
        let records = bytes.get(head..).unwrap_or_default();
        let record = records.get(..records.len() / 2).unwrap_or_default();
        let (Some(before), Some(header), Some(body)) =
            (bytes.get(..head), record.get(..24), record.get(24..))
        else {
            return Err("sadc wrote an unknown layout".into());
        };
        if header.get(20) != Some(&1) || records.get(record.len() + 20) != Some(&1) {
            return Err("sadc did not write two records of one length".into());
        }
        let moving = moving(before, 76 + number(8), body)
            .ok_or("sadc wrote activities of an unknown layout")?;
        Ok(Self { head: before.to_owned(), body: body.to_owned(), moving })
    }

    /// Writes a day of it, in which every number that is not zero moves.
    fn write_day(&self, path: &Path, begin: u64, every: u64) -> Result<(), Failure> {
        let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
        file.write_all(&self.head)?;
        let mut body = self.body.clone();
        let mut noise = begin | 1;
        for second in (0..DAY).step_by(usize::try_from(every)?) {
            for (place, number) in &self.moving {
                // xorshift; counters may not fall.
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                let moved = number + 16 * second + noise % 16;
                if let Some(bytes) = body.get_mut(*place..place + 8) {
                    bytes.copy_from_slice(&moved.to_le_bytes());
                }
            }
            let clock =
                |seconds: u64, count: u64| u8::try_from(second / seconds % count).unwrap_or(0);
            file.write_all(&(1_000_000 + 100 * (begin - BEGIN + second)).to_le_bytes())?;
            file.write_all(&(begin + second).to_le_bytes())?;
            file.write_all(&[0, 0, 0, 0, 1, clock(3600, 24), clock(60, 60), clock(1, 60)])?;
            file.write_all(&body)?;
        }
        Ok(file.flush()?)
    }
}
