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
    /// Memory that the pool shall get; without it a quarter of what the host can spare, at most 4 GiB.
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    size: Option<Bytes>,
    /// Leave out what breaks free memory into pieces on purpose.
    #[arg(long)]
    no_fragments: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let pages = arguments.common.pages_or(vec![Variant::MIB_2, Variant::GIB_1]);
    if let Some(none) = pages.iter().find(|pages| pages.pool().is_none()) {
        return Err(Failure::new(format!("{none} come from no pool; 2m and 1g do")));
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
