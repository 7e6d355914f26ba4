//! What sqlplus, srvctl and dbca print of a start that failed, as people paste it.

use hugewise_model::Engine;

use super::log::{FATAL, explain_errno};
use super::log_lines::is_stamp;
use crate::shared::logs::{LogReport, LogVerdict};

/// Text with a stamp is a part of an alert log: what it lacks is told of that.
pub(super) fn read(text: &str) -> Option<LogReport> {
    let lines: Vec<&str> = text.lines().map(strip_prompt).collect();
    if lines.iter().any(|line| is_stamp(line)) {
        return None;
    }
    let is_error = |line: &&&str| {
        line.starts_with("ORA-") && FATAL.iter().any(|error| line.starts_with(error))
    };
    let at = lines.iter().rposition(|line| is_error(&line))?;
    let error = lines.get(at)?;
    let errno = lines.get(at + 1).filter(|next| next.contains(" Error: "));
    let mut report = LogReport::new(Engine::Oracle, "oracle client's messages");
    report.add_error(error);
    if let Some(errno) = errno {
        report.add_error(errno);
    }
    report.set_verdict(LogVerdict::Failed);
    report.reason = explain_client_error(error, errno.unwrap_or(&""));
    Some(report)
}

/// `SQL> ORA-27104: ...`
fn strip_prompt(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix("SQL>").unwrap_or(line).trim_start()
}

fn explain_client_error(error: &str, errno: &str) -> String {
    let code = error.split(':').next().unwrap_or(error);
    let meaning = if error.starts_with("ORA-27104") {
        "the SGA goes beyond kernel.shmmax or kernel.shmall, or does not fit into the memory that \
         the instance sees, as in a container: its alert log says which"
    } else {
        explain_errno(error, errno)
    };
    let page = format!("hugewise rules {code} explains it");
    if meaning.is_empty() { page } else { format!("{meaning}; {page}") }
}
