//! `hugewise record look`: what the recorder asks once a minute, in a program of its own: one that takes its time, needs
//! memory or fails, costs the recorder nothing.

use std::fmt::Write;

use hugewise_model::instance::SessionModel;

use crate::outcome::{self, Failure, Outcome};

pub(super) fn run() -> Result<Outcome, Failure> {
    // The recorder is the last to be killed for want of memory; this one is an early one.
    let _ = hugewise_record::record::be_killed_first();
    let source = outcome::open(None)?;
    let host = hugewise_host::read(source.as_ref());
    let mut text = String::new();
    for instance in hugewise_engines::find(&host, source.as_ref()).instances.iter().filter(|one| !one.is_asleep()) {
        let name: String = instance.title().chars().map(|one| if one.is_control() { '?' } else { one }).collect();
        let sessions = instance.sessions.known().map_or_else(|| "-".to_owned(), u64::to_string);
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
    outcome::print(text.as_bytes())?;
    Ok(Outcome::Fine)
}
