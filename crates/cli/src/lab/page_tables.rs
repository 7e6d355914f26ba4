//! `hugewise lab page-tables`.

use hugewise_lab::experiments::page_tables::PageTables;
use hugewise_lab::experiments::postgresql::Scan;
use hugewise_lab::standin::PreTouch;
use hugewise_model::{Engine, Host, PageSize};
use hugewise_report::lab::{Forecast, forecasts};

use super::server::Server;
use super::{Common, Found, measure, usual_pages};
use crate::outcome::{Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What the sessions belong to.
    #[arg(long, value_enum, default_value_t = Which::Standin)]
    engine: Which,
    /// Sessions at the end.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Processes around shared memory that are started for it.
    Standin,
    /// A PostgreSQL server of its own whose sessions scan a table as large as --segment.
    Postgresql,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match arguments.engine {
        Which::Standin => {
            let pages = arguments.server.pages(&arguments.common)?;
            let settings = arguments.server.settings(PreTouch::Creator);
            let touched = settings.touched();
            let mut experiment = PageTables::new(pages, settings, arguments.sessions);
            measure(&arguments.common, &mut experiment, &|host, found| beside(host, found, Engine::Oracle, touched))
        }
        Which::Postgresql => {
            let pages = arguments.common.pages_or(usual_pages());
            let mut experiment = Scan::new(pages, arguments.server.segment, arguments.sessions);
            measure(&arguments.common, &mut experiment, &|host, found| beside(host, found, Engine::PostgreSql, 100))
        }
    }
}

fn beside(host: &Host, found: &Found, engine: Engine, touched: u8) -> Vec<Forecast> {
    forecasts(found, engine, touched, host.base_page.get().unwrap_or(PageSize::KIB_4))
}
