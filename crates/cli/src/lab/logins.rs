//! `hugewise lab logins`.

use std::time::Duration;

use hugewise_lab::experiments::logins::Logins;
use hugewise_lab::fake_server::PreTouch;

use super::server::LabServerArguments;
use super::{Common, run_measurement};
use crate::outcome::{CommandFailure, CommandOutcome};

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
    server: LabServerArguments,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    // Sessions that touch the whole segment are the case of pre_page_sga.
    let pre_touch =
        if arguments.server.touch == 100 { PreTouch::Sessions } else { PreTouch::Creator };
    let mut experiment = Logins {
        server: arguments.server.server_settings(pre_touch),
        sessions: arguments.sessions,
        paced: arguments.paced,
        interval: Duration::from_millis(arguments.interval),
        ..Logins::for_story(arguments.server.compared_pages(&arguments.common)?)
    };
    run_measurement(&arguments.common, &mut experiment, &|_, _| Vec::new())
}
