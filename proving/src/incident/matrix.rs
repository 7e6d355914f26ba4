//! Every cause, in machines beside each other, and what is said of every archive, in one table.

use std::path::Path;
use std::sync::Mutex;

use super::causes::{Cause, Play};
use super::collectors::{Collector, INTERVALS};
use super::judge::{self, Row};
use super::play::{self, PlayedTruth, Scene};
use hugewise_testkit::tools::Failure;

/// A play and those of its causes that are wanted.
pub(super) type Wanted = (&'static Play, Vec<&'static Cause>);

/// Plays what is not in the folder yet, so many at a time; what was not played.
pub(super) fn play(scene: &Scene, wanted: &[Wanted], folder: &Path, beside: usize) -> Vec<String> {
    let todo = wanted.iter().filter(|(play, causes)| {
        let kept = PlayedTruth::read(&folder.join(play.name));
        !causes.iter().all(|cause| kept.iter().any(|truth| truth.cause == cause.name))
    });
    let queue = Mutex::new(todo);
    let failed = Mutex::new(Vec::new());
    let next = || queue.lock().ok()?.next();
    std::thread::scope(|scope| {
        for _ in 0..beside {
            scope.spawn(|| {
                while let Some((play, causes)) = next() {
                    println!("== {}", play.name);
                    if let Err(failure) = play::play(scene, play, causes, &folder.join(play.name)) {
                        println!("   {}: {failure}", play.name);
                        if let Ok(mut failed) = failed.lock() {
                            failed.push(format!("{} was not played", play.name));
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_default()
}

/// What is said of the archives in the folder.
pub(super) fn judge(wanted: &[Wanted], folder: &Path) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (play, causes) in wanted {
        let folder = folder.join(play.name);
        let all = judge::run(&folder, &PlayedTruth::read(&folder))?;
        rows.extend(
            all.into_iter().filter(|row| causes.iter().any(|cause| cause.name == row.cause.name)),
        );
    }
    Ok(rows)
}

/// The table, and why what was missed could not be told.
pub(super) fn print(rows: &[Row]) {
    let seconds = INTERVALS.map(|interval| interval.to_string()).join(", ");
    let names = Collector::ALL.map(Collector::name).join(" | ");
    println!(
        "\n| cause, at {seconds} s | {names} |\n| --- |{}",
        " --- |".repeat(Collector::ALL.len())
    );
    for row in rows {
        let text_of = |collector| {
            let cells: Vec<String> =
                row.cells_of(collector).map(|(_, cell)| cell.to_string()).collect();
            match cells.as_slice() {
                [first, others @ ..] if others.iter().all(|other| other == first) => first.clone(),
                _ => cells.join(", "),
            }
        };
        println!("| {} | {} |", row.cause.name, Collector::ALL.map(text_of).join(" | "));
    }
    println!();
    let mut reasons: Vec<String> = rows.iter().flat_map(Row::reasons).collect();
    reasons.dedup();
    for reason in reasons {
        println!("{reason}");
    }
}
