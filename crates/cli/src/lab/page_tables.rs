//! `hugewise lab page-tables`.

use hugewise_diagnose::forecast::of_forked;
use hugewise_lab::experiments::page_tables::PageTables;
use hugewise_lab::experiments::postgresql::Scan;
use hugewise_lab::fake_server::PreTouch;
use hugewise_lab::results::MetricRun;
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, Engine, Host, PageSize};
use hugewise_report::lab::LabForecast;

use super::server::LabServerArguments;
use super::{Common, Found, run_measurement, usual_pages};
use crate::outcome::{CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What the sessions connect to.
    #[arg(long, value_enum, default_value_t = Which::Standin)]
    engine: Which,
    /// Number of sessions to reach.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,
    #[command(flatten)]
    server: LabServerArguments,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Stand-in processes that share memory.
    Standin,
    /// A PostgreSQL started for this, whose sessions scan a table of the size of --segment.
    Postgresql,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    match arguments.engine {
        Which::Standin => {
            let pages = arguments.server.compared_pages(&arguments.common)?;
            let settings = arguments.server.server_settings(PreTouch::Creator);
            let touched = settings.touched_percent();
            let mut experiment = PageTables::new(pages, settings, arguments.sessions);
            run_measurement(&arguments.common, &mut experiment, &|host, found| {
                forecast_runs(host, found, Engine::Other, touched)
            })
        }
        Which::Postgresql => {
            let pages = arguments.common.pages_or(usual_pages());
            let mut experiment = Scan::new(pages, arguments.server.segment, arguments.sessions);
            run_measurement(&arguments.common, &mut experiment, &|host, found| {
                forecast_runs(host, found, Engine::PostgreSql, 100)
            })
        }
    }
}

const PAGE_TABLES: &str = "page_tables";

/// `size`'s forecast for every run of page tables, if processes touch `percent` of the segment.
fn forecast_runs(host: &Host, found: &Found, engine: Engine, percent: u8) -> Vec<LabForecast> {
    let base = host.base_page.get().unwrap_or(PageSize::KIB_4);
    let runs = found.runs.iter().filter(|run| run.metric == PAGE_TABLES && run.case.is_none());
    let forecast = |run: &MetricRun| {
        let (sessions, segment) = (run.sessions?, Bytes(run.segment_bytes?));
        let page = match run.pages {
            Variant::Base => base,
            Variant::Huge(page) => page,
            // Transparent pages have tables too: the kernel may have to split them.
            Variant::Thp | Variant::Mthp(_) => return None,
        };
        let touched = Bytes(segment.get().saturating_mul(u64::from(percent)) / 100);
        let page_tables = of_forked(engine, u64::from(sessions), touched, page, base);
        Some(LabForecast {
            pages: run.pages,
            sessions,
            segment,
            page_tables,
            measured: round_to_bytes(run.median),
        })
    };
    runs.filter_map(forecast).collect()
}

fn round_to_bytes(value: f64) -> Bytes {
    // A float holds every whole number below 2^53.
    let whole = value.round().clamp(0.0, 9.0e15);
    format!("{whole:.0}").parse().map_or(Bytes::ZERO, Bytes)
}
