//! `hugewise lab page-tables`.

use hugewise_advice::forecast::of_forked;
use hugewise_lab::experiments::page_tables::PageTables;
use hugewise_lab::experiments::postgresql::Scan;
use hugewise_lab::results::Run;
use hugewise_lab::standin::PreTouch;
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, Engine, Host, PageSize};
use hugewise_report::lab::Forecast;

use super::server::Server;
use super::{Common, Found, measure, usual_pages};
use crate::outcome::{Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What the sessions connect to.
    #[arg(long, value_enum, default_value_t = Which::Standin)]
    engine: Which,
    /// Number of sessions to reach.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,
    #[command(flatten)]
    server: Server,
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

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match arguments.engine {
        Which::Standin => {
            let pages = arguments.server.pages(&arguments.common)?;
            let settings = arguments.server.settings(PreTouch::Creator);
            let touched = settings.touched();
            let mut experiment = PageTables::new(pages, settings, arguments.sessions);
            measure(&arguments.common, &mut experiment, &|host, found| beside(host, found, Engine::Other, touched))
        }
        Which::Postgresql => {
            let pages = arguments.common.pages_or(usual_pages());
            let mut experiment = Scan::new(pages, arguments.server.segment, arguments.sessions);
            measure(&arguments.common, &mut experiment, &|host, found| beside(host, found, Engine::PostgreSql, 100))
        }
    }
}

/// The metric of which there is a forecast.
const PAGE_TABLES: &str = "page_tables";

/// What `size` says of every run of page tables: that many processes which each touch `percent` of the segment, beside
/// what was measured.
fn beside(host: &Host, found: &Found, engine: Engine, percent: u8) -> Vec<Forecast> {
    let base = host.base_page.get().unwrap_or(PageSize::KIB_4);
    let runs = found.runs.iter().filter(|run| run.metric == PAGE_TABLES && run.case.is_none());
    let forecast = |run: &Run| {
        let (sessions, segment) = (run.sessions?, Bytes(run.segment_bytes?));
        let page = match run.pages {
            Variant::Base => base,
            Variant::Huge(page) => page,
            // A table is there for transparent pages too: the kernel may have to split them.
            Variant::Thp | Variant::Mthp(_) => return None,
        };
        let touched = Bytes(segment.get().saturating_mul(u64::from(percent)) / 100);
        let page_tables = of_forked(engine, u64::from(sessions), touched, page, base);
        Some(Forecast { pages: run.pages, sessions, segment, page_tables, measured: bytes(run.median) })
    };
    runs.filter_map(forecast).collect()
}

fn bytes(value: f64) -> Bytes {
    // Below 2^53 a float holds every whole number.
    let whole = value.round().clamp(0.0, 9.0e15);
    format!("{whole:.0}").parse().map_or(Bytes::ZERO, Bytes)
}
