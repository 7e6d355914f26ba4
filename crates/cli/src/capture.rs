//! `hugewise capture`.

use std::path::PathBuf;

use crate::outcome::{Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to: a name that ends in .tar.gz or .tar becomes an archive, any other a new folder.
    /// Without it hugewise-HOST-DATE.tar.gz in this folder.
    #[arg(short, long, value_name = "TARGET")]
    output: Option<PathBuf>,
    /// Capture from what was captured instead of from this host.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
}

pub(crate) fn run(_arguments: &Arguments) -> Result<Outcome, Failure> {
    Err(Failure::new("capture"))
}
