//! What is said of a command line that makes no sense, and what was meant.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};

use crate::CommandLine;
use crate::outcome::{self, Failure, Outcome};

/// Help and version go to standard output; everything else that clap says is a usage error.
pub(crate) fn explain(wrong: &clap::Error, arguments: &[OsString]) -> Result<Outcome, Failure> {
    if wrong.use_stderr() {
        let mut text = wrong.render().to_string().replace("\n\n\n", "\n\n");
        let format = format_as_option(wrong).map(|format| format!("write '--format {format}'"));
        if let Some(tip) = format.or_else(|| path_as_word(wrong, arguments)) {
            let tip = format!("\n\n  tip: {tip}\n\nUsage:");
            text = text.replacen("\n\nUsage:", &tip, 1);
        }
        return Err(Failure::of_lines(text.strip_prefix("error: ").unwrap_or(&text).trim_end()));
    }
    outcome::print(wrong.render().to_string().as_bytes())?;
    Ok(Outcome::Fine)
}

/// `json` of an option `--json` that nothing here has.
fn format_as_option(wrong: &clap::Error) -> Option<&'static str> {
    let ContextValue::String(written) = wrong.get(ContextKind::InvalidArg)? else { return None };
    let formats = ["json", "html", "text", "shell", "ansible", "cloud-init", "nagios"];
    formats.into_iter().find(|format| written.strip_prefix("--") == Some(format))
}

/// How a captured host is named, where somebody wrote its path alone.
fn path_as_word(wrong: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let written = wrong.get(ContextKind::InvalidArg).or_else(|| wrong.get(ContextKind::InvalidSubcommand))?;
    let ContextValue::String(written) = written else { return None };
    let all = CommandLine::command();
    let words = || arguments.iter().skip(1).filter_map(|word| word.to_str());
    let named = words().find_map(|word| all.find_subcommand(word));
    let takes_one = named.unwrap_or(&all).get_arguments().any(|option| option.get_long() == Some("root"));
    let has_one = words().any(|word| word == "--root" || word.starts_with("--root="));
    (takes_one && !has_one && is_path(written)).then(|| {
        let name = named.map_or("check", clap::Command::get_name);
        format!("a captured host comes behind an option: 'hugewise {name} --root {written}'")
    })
}

/// Whether a word is a path of something that is there, or looks like no other word.
pub(crate) fn is_path(word: &str) -> bool {
    !word.starts_with('-') && (word.starts_with(['/', '.', '~']) || rustix::fs::stat(word).is_ok())
}
