//! `hugewise rules`.

use hugewise_advice::Rule;
use hugewise_report::rules::{write_json, write_list, write_message, write_message_json, write_page};

use crate::format::Format;
use crate::outcome::{self, Failure, Outcome};
use crate::terminal::{self, ColorChoice};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A rule, by code or name (HW201, no-pool), or a server's error message (ORA-27102).
    #[arg(value_name = "CODE")]
    rule: Option<String>,
    /// Text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let layout = terminal::layout(arguments.color, false);
    if let Some(message) = arguments.rule.as_deref().and_then(hugewise_advice::docs::message) {
        let mut text = Vec::new();
        let written = match arguments.format {
            Format::Json => write_message_json(message, &mut text),
            Format::Text => write_message(message, &mut text, layout),
        };
        written.map_err(|error| Failure::new(format!("the message cannot be shown: {error}")))?;
        outcome::print(&text)?;
        return Ok(Outcome::Fine);
    }
    let chosen = match &arguments.rule {
        None => hugewise_advice::rules().to_vec(),
        Some(wanted) => vec![find(wanted)?],
    };
    let mut text = Vec::new();
    let written = match (arguments.format, chosen.as_slice()) {
        (Format::Json, rules) => write_json(rules, &mut text),
        (Format::Text, [rule]) if arguments.rule.is_some() => write_page(rule, &mut text, layout),
        (Format::Text, rules) => write_list(rules, &mut text, layout),
    };
    written.map_err(|error| Failure::new(format!("the rules cannot be shown: {error}")))?;
    outcome::print(&text)?;
    Ok(Outcome::Fine)
}

fn find(wanted: &str) -> Result<&'static Rule, Failure> {
    let found = hugewise_advice::docs::find(wanted);
    found.ok_or_else(|| Failure::new(format!("there is no rule or message {wanted}; 'hugewise rules' lists the rules")))
}
