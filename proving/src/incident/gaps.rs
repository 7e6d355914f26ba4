//! How long each collector wrote nothing in a storm, beside each other.

use std::path::Path;

use hugewise_investigate::{Options, investigate};

use super::collectors::{Collector, OSWATCHER};
use hugewise_testkit::tools::Failure;

/// Milliseconds between two samples of the recorder at the most, at one a second.
const RECORDER: i64 = 2000;

/// One collector's samples.
pub(super) struct Gap {
    pub(super) name: String,
    samples: usize,
    /// Between two samples, in the middle and at the most, in milliseconds.
    usual: i64,
    pub(super) largest: i64,
}

impl Gap {
    /// What is wrong with the recorder's, and with no other's.
    pub(super) fn too_large(&self) -> Option<String> {
        let too_large =
            self.name.starts_with(Collector::Recorder.name()) && self.largest > RECORDER;
        too_large
            .then(|| format!("the recorder took no sample for {} ms in the storm", self.largest))
    }
}

/// Of all that sample every second, of atop, which samples every ten beside them, and of
/// OSWatcher's loop.
pub(super) fn find_gaps(folder: &Path) -> Result<Vec<Gap>, Failure> {
    let seconds = Collector::ALL.map(|collector| {
        let interval = if collector.samples_at(1) { 1 } else { 10 };
        (format!("{} at {interval} s", collector.name()), collector.archive(folder, interval))
    });
    let loops = [("OSWatcher's vmstat loop".to_owned(), folder.join(OSWATCHER))];
    let all = seconds.into_iter().chain(loops);
    all.map(|(name, archive)| gap(name, &archive)).collect()
}

fn gap(name: String, archive: &Path) -> Result<Gap, Failure> {
    let options = Options { zone: Some("UTC".to_owned()), ..Options::default() };
    let said = investigate(&[archive.to_owned()], &options, &|_| ())?;
    let series = said.hosts.iter().flat_map(|host| &host.series);
    let mut moments: Vec<i64> =
        series.flat_map(|series| series.samples().iter().map(|sample| sample.at.0)).collect();
    moments.sort_unstable();
    let mut apart: Vec<i64> =
        moments.windows(2).filter_map(|two| Some(two.last()? - two.first()?)).collect();
    apart.sort_unstable();
    let Some(largest) = apart.last().copied() else {
        return Err(format!("{}: fewer than two samples", archive.display()).into());
    };
    let usual = apart.get(apart.len() / 2).copied().unwrap_or_default();
    Ok(Gap { name, samples: moments.len(), usual, largest })
}

pub(super) fn print(gaps: &[Gap]) {
    println!(
        "\n| collector | samples | usually apart | largest gap |\n| --- | ---: | ---: | ---: |"
    );
    for Gap { name, samples, usual, largest } in gaps {
        println!(
            "| {name} | {samples} | {:.1} s | {:.1} s |",
            *usual as f64 / 1000.0,
            *largest as f64 / 1000.0
        );
    }
}
