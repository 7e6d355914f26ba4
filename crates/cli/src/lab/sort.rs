//! `hugewise lab sort`.

use hugewise_lab::experiments::sort::{Sort, SortSettings};
use hugewise_model::Bytes;

use super::{Common, run_measurement};
use crate::described_servers::parse_size;
use crate::outcome::{CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rows to sort.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value_t = SortSettings::default().rows)]
    rows: u32,
    /// Bytes per row.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=65536), default_value_t = SortSettings::default().row_bytes)]
    row_bytes: u32,
    /// Sizes of the extents in which memory is allocated; powers of two.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_size, default_value = "64K,1M,16M")]
    extents: Vec<Bytes>,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let extent = |extent: &Bytes| u32::try_from(extent.get()).unwrap_or(u32::MAX);
    let usual = SortSettings::default();
    let settings = SortSettings {
        rows: arguments.rows,
        row_bytes: arguments.row_bytes,
        extents: arguments.extents.iter().map(extent).collect(),
        variants: arguments.common.pages_or(usual.variants),
    };
    let mut sort = Sort::new(settings).map_err(CommandFailure::new)?;
    run_measurement(&arguments.common, &mut sort, &|_, _| Vec::new())
}
