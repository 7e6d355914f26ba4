//! `hugewise completions`.

use clap_complete::Shell;

use crate::outcome::{self, CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut crate::command_definition(),
        "hugewise",
        &mut script,
    );
    outcome::print_output(&script)?;
    Ok(CommandOutcome::Fine)
}
