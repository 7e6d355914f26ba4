//! What is in the archive that sysstat's collector wrote, beside what investigate says of it.

use std::fs::File;
use std::path::Path;

use hugewise_investigate::{Metric, Series, readers};

use hugewise_testkit::tools::Failure;

/// The extremes of a run.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Page tables of all memory, in percent, at the most.
    pub(super) page_tables: f64,
    /// %system in the middle and at the most.
    pub(super) system: (f64, f64),
    /// Free memory at the least, in MiB.
    pub(super) free_low: f64,
    /// Swap used at the most, in MiB.
    pub(super) swap: f64,
    /// Pages a second that kswapd and that processes themselves scanned, at the most.
    pub(super) scans: (f64, f64),
}

impl Figures {
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let series = readers::read(File::open(file)?, &file.to_string_lossy())?;
        let [series] = series.as_slice() else {
            return Err("sysstat's file is of more than one host".into());
        };
        let values = |metric| -> Vec<f64> {
            series
                .column(metric)
                .into_iter()
                .flat_map(|column| column.iter().map(|(_, value)| value))
                .collect()
        };
        let most = |metric| values(metric).into_iter().fold(0.0, f64::max);
        let mut system = values(Metric::CpuSystem);
        system.sort_by(f64::total_cmp);
        let total = most(Metric::MemTotal);
        if series.samples().is_empty() || total == 0.0 || system.is_empty() {
            return Err(format!("{}: no samples", file.display()).into());
        }
        Ok(Self {
            page_tables: 100.0 * most(Metric::PageTables) / total,
            system: (middle(&system), system.last().copied().unwrap_or_default()),
            free_low: least(series, Metric::MemFree) / MIB,
            swap: most(Metric::SwapUsed) / MIB,
            scans: (most(Metric::ScanKswapd), most(Metric::ScanDirect)),
        })
    }
}

const MIB: f64 = 1_048_576.0;

fn middle(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn least(series: &Series, metric: Metric) -> f64 {
    let column =
        series.column(metric).into_iter().flat_map(|column| column.iter().map(|(_, value)| value));
    column.fold(f64::INFINITY, f64::min)
}
