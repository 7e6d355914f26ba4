//! `hugewise lab logins`.

use std::time::Duration;

use hugewise_lab::experiments::logins::Logins;
use hugewise_lab::standin::PreTouch;

use super::server::Server;
use super::{Common, measure};
use crate::outcome::{Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Sessions that log in at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,
    /// Sessions that log in one by one; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    paced: u32,
    /// Milliseconds between two of these logins.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    interval: u64,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    // A session that touches all of the segment is what pre_page_sga made of it.
    let pre_touch = if arguments.server.touch == 100 { PreTouch::Sessions } else { PreTouch::Creator };
    let mut experiment = Logins {
        server: arguments.server.settings(pre_touch),
        sessions: arguments.sessions,
        paced: arguments.paced,
        interval: Duration::from_millis(arguments.interval),
        ..Logins::story(arguments.server.pages(&arguments.common)?)
    };
    measure(&arguments.common, &mut experiment, &|_, _| Vec::new())
}
