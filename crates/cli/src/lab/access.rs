//! `hugewise lab access`.

use hugewise_lab::budget::ResourceGauge;
use hugewise_lab::experiments::access::AccessExperiment;
use hugewise_model::Bytes;

use super::{Common, all_pages, run_measurement};
use crate::described_servers::parse_size;
use crate::outcome::{CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory to touch. Default: what the host can easily spare, at most 8 GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    segment: Option<Bytes>,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let pages = arguments.common.pages_or(all_pages());
    let mut experiment = match arguments.segment {
        Some(size) => AccessExperiment::with_size(pages, size),
        None => {
            AccessExperiment::new(pages, &ResourceGauge::new().read().map_err(CommandFailure::new)?)
        }
    };
    run_measurement(&arguments.common, &mut experiment, &|_, _| Vec::new())
}
