//! `hugewise lab pool`.

use hugewise_lab::budget::Gauge;
use hugewise_lab::experiments::pool::Pool;
use hugewise_lab::variant::Variant;
use hugewise_model::Bytes;

use super::{Common, measure};
use crate::described::size;
use crate::outcome::{Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Size of the pool. Default: a quarter of what the host can spare, at most 4 GiB.
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    size: Option<Bytes>,
    /// Skip the part that fragments free memory on purpose.
    #[arg(long)]
    no_fragments: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let pages = arguments.common.pages_or(vec![Variant::MIB_2, Variant::GIB_1]);
    if let Some(none) = pages.iter().find(|pages| pages.pool().is_none()) {
        return Err(Failure::new(format!("{none} pages do not come from a pool; use 2m or 1g")));
    }
    let mut experiment = Pool::new(pages, &Gauge::new()).map_err(|why| Failure::new(why.to_string()))?;
    if let Some(size) = arguments.size {
        experiment.size = size;
    }
    if arguments.no_fragments {
        experiment.fragments = Bytes::ZERO;
    }
    measure(&arguments.common, &mut experiment, &|_, _| Vec::new())
}
