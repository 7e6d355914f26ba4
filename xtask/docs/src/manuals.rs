//! Manual pages and shells' completions, from the definition of the command line.

use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;
use hugewise_testkit::tools::Failure;

use crate::Files;

pub(crate) fn add(files: &mut Files) -> Result<(), Failure> {
    let mut program = hugewise_cli::command_definition();
    program.build();
    let source = format!("hugewise {}", program.get_version().unwrap_or_default());
    add_manual_pages(program, &source, files)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        let mut program = hugewise_cli::command_definition();
        clap_complete::generate(shell, &mut program, "hugewise", &mut text);
        let name = match shell {
            Shell::Zsh => "_hugewise".to_owned(),
            other => format!("hugewise.{other}"),
        };
        files.insert(Path::new("docs/completions").join(name), text);
    }
    Ok(())
}

/// The end of each manual page.
const SEE_ALSO: &str = ".SH \"SEE ALSO\"\nPool, segment, memlock and the other terms are \
     explained in docs/glossary.md, which comes \
                        with hugewise.\n";

/// A page for the program and one for each subcommand, as `man hugewise-check` finds it.
fn add_manual_pages(
    command: clap::Command,
    source: &str,
    files: &mut Files,
) -> Result<(), Failure> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        add_manual_pages(subcommand.clone(), source, files)?;
    }
    // Building has given each subcommand a display name: hugewise-check.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = format!("docs/man/{name}.1");
    let mut text = Vec::new();
    Man::new(command).source(source).manual("hugewise").render(&mut text)?;
    text.extend_from_slice(SEE_ALSO.as_bytes());
    files.insert(path.into(), text);
    Ok(())
}
