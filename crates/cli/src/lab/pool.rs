//! `hugewise lab pool`.

use hugewise_lab::budget::ResourceGauge;
use hugewise_lab::experiments::pool::PoolExperiment;
use hugewise_lab::variant::Variant;
use hugewise_model::Bytes;

use super::{Common, run_measurement};
use crate::described_servers::parse_size;
use crate::outcome::{CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Size of the pool. Default: a quarter of what the host can spare, at most 4 GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    size: Option<Bytes>,
    /// Skip the part that fragments free memory on purpose.
    #[arg(long)]
    no_fragments: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let pages = arguments.common.pages_or(vec![Variant::MIB_2, Variant::GIB_1]);
    if let Some(none) = pages.iter().find(|pages| pages.pool_page_size().is_none()) {
        return Err(CommandFailure::new(format!(
            "{none} pages do not come from a pool; use 2m or 1g"
        )));
    }
    let mut experiment =
        PoolExperiment::new(pages, &ResourceGauge::new()).map_err(CommandFailure::new)?;
    if let Some(size) = arguments.size {
        experiment.size = size;
    }
    if arguments.no_fragments {
        experiment.fragments = Bytes::ZERO;
    }
    run_measurement(&arguments.common, &mut experiment, &|_, _| Vec::new())
}
