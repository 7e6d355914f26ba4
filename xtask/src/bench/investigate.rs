//! `cargo xtask bench investigate`: what reading a day of 1-second samples costs beside `sadf -j -- -A`.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use hugewise_lab::measure::{self, Cost};

use crate::{Failure, shell};

/// Samples of a day.
const SAMPLES: u64 = 86_400;
/// 2026-01-01 00:00 UTC.
const BEGIN: u64 = 1_767_225_600;
/// What reading may take of sadf's time, and how much memory.
const WANTED_RATIO: f64 = 20.0;
const WANTED_MIB: u64 = 200;

pub(crate) fn run(rounds: u32) -> Result<(), Failure> {
    let build = ["build", "--quiet", "--release", "--package", "hugewise-incident", "--example", "read"];
    shell::run(shell::cargo().args(build))?;
    let folder = tempfile::tempdir()?;
    let day = folder.path().join("sa01");
    let size = write_day(folder.path(), &day)?;
    println!("a day of {SAMPLES} samples, {:.0} MB; {rounds} rounds, in turn", size / 1e6);

    let (mut reads, mut prints) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        reads.push(cost(Command::new(shell::target().join("release/examples/read")).arg(&day))?);
        prints.push(cost(Command::new("sadf").arg("-j").arg(&day).args(["--", "-A"]))?);
    }
    let seconds = |costs: &[Cost]| {
        let mut walls: Vec<_> = costs.iter().map(|cost| cost.wall).collect();
        walls.sort();
        walls.get(walls.len() / 2).copied().unwrap_or_default().as_secs_f64()
    };
    let (read, print) = (seconds(&reads), seconds(&prints));
    let peak = reads.iter().map(|cost| cost.peak).max().unwrap_or_default();
    let ratio = print / read;
    println!("own reader       {:9.1} ms (median), {:.0} MB/s", read * 1e3, size / 1e6 / read);
    println!("sadf -j -- -A    {:9.1} ms (median)", print * 1e3);
    println!("ratio            {ratio:9.1}    (wanted: at least {WANTED_RATIO})");
    println!("peak memory      {peak:>12} (wanted: below {WANTED_MIB} MiB)");
    if ratio < WANTED_RATIO || peak.get() >= WANTED_MIB << 20 {
        return Err("the reader is slower or larger than it may be".into());
    }
    Ok(())
}

fn cost(command: &mut Command) -> Result<Cost, Failure> {
    let cost = measure::run(command.stdout(Stdio::null()))?;
    match cost.code {
        Some(0) => Ok(cost),
        code => Err(format!("{} ended with {code:?}", command.get_program().to_string_lossy()).into()),
    }
}

/// Writes a day out of one record that the real collector wrote: the same numbers every second. Returns its bytes.
fn write_day(folder: &Path, day: &Path) -> Result<f64, Failure> {
    let sadc = ["/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc"].into_iter().find(|path| Path::new(path).exists());
    let sadc = sadc.ok_or("sadc is not installed (Debian: sysstat)")?;
    let real = folder.join("real");
    shell::run(Command::new(sadc).args(["-S", "DISK", "1", "2"]).arg(&real).env("TZ", "UTC"))?;
    let bytes = fs::read(&real)?;
    let number = |offset: usize| {
        let four = bytes.get(offset..offset + 4).and_then(|four| four.first_chunk());
        four.copied().map(u32::from_le_bytes).and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
    };
    // sa.h of sysstat 12: the magic is of 76 bytes and says the header's; the header counts activities of 36 bytes.
    let head = 76 + number(8) + 36 * number(76 + 20);
    let records = bytes.get(head..).unwrap_or_default();
    let record = records.get(..records.len() / 2).unwrap_or_default();
    let (Some(before), Some(header), Some(body)) = (bytes.get(..head), record.get(..24), record.get(24..)) else {
        return Err("sadc wrote an unknown layout".into());
    };
    if header.get(20) != Some(&1) || records.get(record.len() + 20) != Some(&1) {
        return Err("sadc did not write two records of one length".into());
    }
    let mut file = BufWriter::new(fs::File::create(day)?);
    file.write_all(before)?;
    for sample in 0..SAMPLES {
        let clock = |seconds: u64, of: u64| u8::try_from(sample / seconds % of).unwrap_or(0);
        file.write_all(&(1_000_000 + 100 * sample).to_le_bytes())?;
        file.write_all(&(BEGIN + sample).to_le_bytes())?;
        file.write_all(&[0, 0, 0, 0, 1, clock(3600, 24), clock(60, 60), clock(1, 60)])?;
        file.write_all(body)?;
    }
    file.flush()?;
    Ok(f64::from(u32::try_from(fs::metadata(day)?.len())?))
}
