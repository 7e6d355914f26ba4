//! `hugewise lab access`.

use hugewise_lab::budget::Gauge;
use hugewise_lab::experiments::access::Access;
use hugewise_model::Bytes;

use super::{Common, all_pages, measure};
use crate::described::size;
use crate::outcome::{Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory to touch. Default: what the host can easily spare, at most 8 GiB.
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    segment: Option<Bytes>,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let pages = arguments.common.pages_or(all_pages());
    let mut experiment = match arguments.segment {
        Some(size) => Access::of(pages, size),
        None => Access::new(pages, &Gauge::new().read().map_err(|why| Failure::new(why.to_string()))?),
    };
    measure(&arguments.common, &mut experiment, &|_, _| Vec::new())
}
