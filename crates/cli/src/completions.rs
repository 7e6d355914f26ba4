//! `hugewise completions`.

use clap_complete::Shell;

use crate::outcome::{self, Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::command(), "hugewise", &mut script);
    outcome::print(&script)?;
    Ok(Outcome::Fine)
}
