//! Every cause, in machines beside each other, and what is said of every archive, in one table.

use std::path::Path;
use std::sync::Mutex;

use super::causes::Cause;
use super::collectors::{Collector, INTERVALS};
use super::judge::{self, Cell};
use super::play::{self, Scene, Truth};
use crate::Failure;

/// One cause with its cells.
pub(super) struct Row {
    cause: &'static Cause,
    cells: Vec<(Collector, u32, Cell)>,
}

/// Plays what is not in the folder yet, so many at a time; the names of those that failed, with the reason.
pub(super) fn play(scene: &Scene, causes: &[&'static Cause], folder: &Path, beside: usize) -> Vec<String> {
    let todo = causes.iter().filter(|cause| Truth::kept(&folder.join(cause.name)).is_none());
    let queue = Mutex::new(todo.collect::<Vec<_>>().into_iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..beside {
            scope.spawn(|| {
                while let Some(cause) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                    println!("== {}", cause.name);
                    if let Err(failure) = play::play(scene, cause, &folder.join(cause.name))
                        && let Ok(mut failed) = failed.lock()
                    {
                        println!("   {}: {failure}", cause.name);
                        failed.push(format!("{} was not played", cause.name));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_default()
}

/// What is said of the archives in the folder.
pub(super) fn judge(causes: &[&'static Cause], folder: &Path) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for cause in causes {
        let folder = folder.join(cause.name);
        let Some(truth) = Truth::kept(&folder) else { continue };
        rows.push(Row { cause, cells: judge::run(cause, &folder, truth)? });
    }
    Ok(rows)
}

/// The table, and why what was missed could not be told.
pub(super) fn print(rows: &[Row]) {
    let seconds = INTERVALS.map(|interval| interval.to_string()).join(", ");
    let names = Collector::ALL.map(Collector::name).join(" | ");
    println!("\n| cause, at {seconds} s | {names} |\n| --- |{}", " --- |".repeat(Collector::ALL.len()));
    for row in rows {
        let of = |collector| {
            let cells: Vec<String> = row.cells_of(collector).map(|(_, cell)| cell.to_string()).collect();
            match cells.as_slice() {
                [first, others @ ..] if others.iter().all(|other| other == first) => first.clone(),
                _ => cells.join(", "),
            }
        };
        println!("| {} | {} |", row.cause.name, Collector::ALL.map(of).join(" | "));
    }
    println!();
    let mut reasons: Vec<String> = rows.iter().flat_map(Row::reasons).collect();
    reasons.dedup();
    for reason in reasons {
        println!("{reason}");
    }
}

impl Row {
    fn cells_of(&self, collector: Collector) -> impl Iterator<Item = (u32, &Cell)> {
        self.cells.iter().filter(move |(of, ..)| *of == collector).map(|(_, interval, cell)| (*interval, cell))
    }

    fn reasons(&self) -> Vec<String> {
        let missed = self.cells.iter().filter_map(|(collector, interval, cell)| match cell {
            Cell::Missed(why) => Some(format!("{}, {} at {interval} s: {why}", self.cause.name, collector.name())),
            _ => None,
        });
        missed.collect()
    }

    /// What is not as it must be.
    pub(super) fn wrong(&self) -> Vec<String> {
        let wrong = self.cells.iter().filter(|(_, _, cell)| cell.is_wrong());
        wrong
            .map(|(collector, interval, cell)| {
                format!("{}, {} at {interval} s: {cell}", self.cause.name, collector.name())
            })
            .collect()
    }
}
