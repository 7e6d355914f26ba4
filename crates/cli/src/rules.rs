//! `hugewise rules`.

use hugewise_diagnose::docs;
use hugewise_report::rules::{
    write_json, write_list, write_message, write_message_json, write_page,
};

use crate::format::OutputFormat;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::{self, ColorChoice};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A rule, by code or name (HW201, no-pool), or a server's error message (ORA-27102).
    #[arg(value_name = "CODE")]
    rule: Option<String>,
    /// Text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let layout = terminal::text_layout(arguments.color, false);
    let message = arguments.rule.as_deref().and_then(docs::find_message);
    let text = match (message, &arguments.rule) {
        (Some(message), _) => outcome::render_report(|out| match arguments.format {
            OutputFormat::Json => write_message_json(message, out),
            OutputFormat::Text => write_message(message, out, layout),
        }),
        (None, Some(wanted)) => {
            let rule = docs::find_rule(wanted).ok_or_else(|| {
                CommandFailure::new(format!(
                    "there is no rule or message {wanted}; 'hugewise rules' lists the rules"
                ))
            })?;
            outcome::render_report(|out| match arguments.format {
                OutputFormat::Json => write_json(&[rule], out),
                OutputFormat::Text => write_page(rule, out, layout),
            })
        }
        (None, None) => outcome::render_report(|out| match arguments.format {
            OutputFormat::Json => write_json(hugewise_diagnose::all_rules(), out),
            OutputFormat::Text => write_list(hugewise_diagnose::all_rules(), out, layout),
        }),
    };
    outcome::print_output(&text?)?;
    Ok(CommandOutcome::Fine)
}
