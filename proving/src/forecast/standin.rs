//! The stand-in's sessions around one segment, all of which they touch.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{Bytes, PageCount, PageSize};
use hugewise_testkit::Skip;

use super::tables_reading::{TOP, TablesReading, counts_all_levels, kibibytes_of, middle, spread};
use super::{Measured, RUNS, Row, Trouble, forecast};
use crate::exactness::{committed, server};
use crate::guest::CaseOutcome;
use hugewise_testkit::tools::Failure;

/// What a forecast may be off, in percent.
const BAR: f64 = 5.0;

/// A case is measured again until so much time has gone, or so often.
const ENOUGH: Duration = Duration::from_secs(5);
const OFTEN: usize = 41;

/// Processes over which the addresses that chance gives them even out, where less grows than this.
const PROCESSES: u64 = 30;
const SMALL: f64 = 4.0 * 1024.0 * 1024.0;

/// Where so much grows, other programs and the addresses make no difference, and one run is enough.
const LARGE: f64 = 256.0 * 1024.0 * 1024.0;

/// What other programs' page tables changed by meanwhile is taken off. A run is thrown away where
/// that is more than what grew, and more than a large process has.
const LEAST_NOISE: f64 = 1024.0 * 1024.0;

/// How far the middle half of the runs may lie apart, over the root of their number, as a part of
/// what grew: what others do between two readings is not known.
const SPREAD: f64 = 0.05;

/// How many runs may be thrown away.
const PATIENCE: usize = 20;

/// Sessions around one segment.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) mib: u64,
    pub(super) page: PageSize,
    memfd: bool,
    pub(super) sessions: u64,
}

pub(super) fn run_case(hugewise: &Path, standin: &Path, case: Case) -> CaseOutcome<Row> {
    let title = case.title();
    match measure(hugewise, standin, case) {
        Ok(measured) => CaseOutcome::Row(Row {
            title,
            page_bytes: case.page.bytes().get(),
            sessions: case.sessions,
            measured,
            bar: BAR,
        }),
        Err(Trouble::Skip(Skip(why))) => CaseOutcome::Skip(format!("{title}: {why}")),
        Err(Trouble::Failure(why)) => CaseOutcome::Failed(format!("{title}: {why}")),
    }
}

pub(super) fn cases(quick: bool) -> Vec<Case> {
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

fn measure(hugewise: &Path, standin: &Path, case: Case) -> Result<Measured, Trouble> {
    let arguments =
        ["--only-described".to_owned(), "--segment".to_owned(), format!("{}MiB", case.mib)];
    let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
    let forecast = forecast(hugewise, arguments, case.page, case.sessions)?;
    // Base pages come out of no pool, so that others need not wait.
    let _guard = match case.page {
        PageSize::KIB_4 => None,
        page => {
            let guard = PoolGuard::take_for_test()?.with_watchdog();
            let pages = page.pages_for(Bytes::from_mib(case.mib));
            guard.set_pool(page, PageCount(committed(page)? + pages.get()))?;
            Some(guard)
        }
    };
    let mut held = Held::start(standin, case)?;
    let (begun, counts_all) = (Instant::now(), counts_all_levels()?);
    let measured = |growths: &[f64]| {
        u64::try_from(growths.len()).unwrap_or(u64::MAX).saturating_mul(case.sessions)
    };
    let (mut growths, mut of_processes, mut noisy) = (Vec::new(), Vec::new(), 0);
    // Where processes' own tables are all there is, they are enough processes for chance to even
    // out.
    let few = |growths: &[f64]| {
        growths.last().is_some_and(|last| *last < SMALL) && measured(growths) < PROCESSES
    };
    let large = |growths: &[f64]| growths.last().is_some_and(|last| *last > LARGE);
    let too_few = |growths: &[f64]| growths.len() < RUNS && !large(growths);
    while too_few(&growths) || few(&growths) || (begun.elapsed() < ENOUGH && growths.len() < OFTEN)
    {
        let before = TablesReading::settled(held.child.id())?;
        held.go_on()?;
        let after = TablesReading::settled(held.child.id())?;
        let own = held.of_processes();
        held.rest()?;
        let of_others = after.of_others - before.of_others;
        let mut growth = after.page_tables - before.page_tables - of_others;
        if !counts_all {
            // As far as the kernel counts them it must not be more.
            let whole = own + f64::from(u32::try_from(case.sessions).map_err(Failure::from)?) * TOP;
            if growth > whole {
                return Err(Failure::from(format!(
                    "PageTables grew by {growth}, all tables by {whole}"
                ))
                .into());
            }
            growth = whole;
        }
        if of_others.abs() > (growth).max(LEAST_NOISE) {
            noisy += 1;
            if noisy > PATIENCE {
                return Err(
                    Skip(format!("other programs come and go in each of {noisy} runs")).into()
                );
            }
            continue;
        }
        growths.push(growth);
        of_processes.push(own);
    }
    let (runs, growth, apart) = (growths.len(), middle(growths.clone()), spread(growths));
    let uncertain = apart / f64::from(u32::try_from(runs).unwrap_or(u32::MAX)).sqrt();
    if uncertain > growth * SPREAD {
        return Err(Skip(format!(
            "other programs come and go: {:.0} KiB between {runs} runs",
            apart / 1024.0
        ))
        .into());
    }
    Ok(Measured { forecast, runs, growth, of_processes: middle(of_processes), counts_all })
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
        command.args([
            "--segments",
            &format!("{}M", case.mib),
            "--sessions",
            &case.sessions.to_string(),
        ]);
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
        self.send_line()?;
        self.expect("ready")
    }

    /// Ends the sessions. The segment stays, so that the kernel has to clear it once alone.
    fn rest(&mut self) -> Result<(), Failure> {
        self.send_line()?;
        self.expect("made")
    }

    fn send_line(&mut self) -> Result<(), Failure> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        Ok(input.write_all(b"\n")?)
    }

    fn expect(&mut self, what: &str) -> Result<(), Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim_end() == what {
            Ok(())
        } else {
            Err(format!("the stand-in said {line:?}, not {what}").into())
        }
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
