//! `hugewise record look`: a process of its own, so that its failures cost the recorder nothing.

use std::fmt::Write;

use hugewise_model::instance::SessionModel;

use crate::outcome::{self, CommandFailure, CommandOutcome};

pub(super) fn run() -> Result<CommandOutcome, CommandFailure> {
    // The recorder is the last process that the OOM killer takes; this one should go early.
    let _ = hugewise_record::record::be_killed_first();
    let source = outcome::open_source(None)?;
    let host = hugewise_host::read(source.as_ref());
    let mut text = String::new();
    for instance in hugewise_engines::find_instances(&host, source.as_ref())
        .instances
        .iter()
        .filter(|one| !one.is_stopped())
    {
        let name: String =
            instance.title().chars().map(|one| if one.is_control() { '?' } else { one }).collect();
        let sessions = instance.sessions.as_known().map_or_else(|| "-".to_owned(), u64::to_string);
        let model = match instance.session_model {
            SessionModel::Processes => "processes",
            _ => "threads",
        };
        let _ = write!(text, "{name}\t{sessions}\t{model}\t");
        for (place, pid) in instance.pids.iter().enumerate() {
            let _ = write!(text, "{}{pid}", if place == 0 { "" } else { " " });
        }
        text.push('\n');
    }
    outcome::print_output(text.as_bytes())?;
    Ok(CommandOutcome::Fine)
}
