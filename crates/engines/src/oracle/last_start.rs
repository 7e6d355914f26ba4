//! The parameters that an instance had at its last start, by its alert log: "System parameters with non-default values:", a
//! parameter a line, in quotes from 11g on, and of a list a member a line (Oracle 10.2 to 21c).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hugewise_host::Source;

use super::homes::is_alert_log;
use super::log_lines::{Line, of_text};
use super::parameters::Assignment;
use super::{SETTINGS, log};
use crate::logs::{LogFile, Search};
use crate::settings::shown;

/// The line before the parameters.
const HEADER: &str = "System parameters with non-default values:";

/// Between a log and the moment of the start in it, where that stands for a file.
const IN_LOG: &str = ", last start";

/// Whether a setting's place is a start in a log, which nobody can change.
pub(super) fn is_place(file: &str) -> bool {
    file.contains(IN_LOG)
}

/// What the last start in a log has noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastStart {
    /// The log, and when that was, as it writes it.
    pub(super) source: String,
    /// The parameters that are read; those that are not among them had their defaults.
    pub(super) parameters: Vec<Assignment>,
}

/// What the first of these alert logs that tells says of the last start; none where none of them does. The reader has their paths
/// below `root`.
pub(super) fn read(source: &dyn Source, root: &str, logs: &[String]) -> Option<LastStart> {
    logs.iter().find_map(|path| {
        let inside = format!("{root}{path}");
        let file = LogFile::new(source, &inside);
        let mut search = Search::open(&file).ok()?;
        let (excerpt, _) = search.next_mark(&[(HEADER.as_bytes(), &log::FORMAT)]).ok()??;
        let (stamp, parameters) = of_lines(&of_text(excerpt.lines()))?;
        let when = stamp.map(|stamp| format!(" of {stamp}")).unwrap_or_default();
        Some(LastStart { source: format!("{path}{IN_LOG}{when}"), parameters })
    })
}

/// What the last starts of servers that run had noted. As long as a process runs, its start stays the same: who reads a host again
/// and again searches its log once.
#[derive(Debug, Default)]
pub(crate) struct LastStarts(Mutex<BTreeMap<u64, Option<LastStart>>>);

/// More processes than these on one host are forgotten together.
const MOST_KEPT: usize = 4096;

impl LastStarts {
    /// Of the process with that inode in /proc.
    pub(super) fn of(&self, identity: Option<u64>, look: impl FnOnce() -> Option<LastStart>) -> Option<LastStart> {
        let Some(identity) = identity else { return look() };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(start) = kept.get(&identity) {
            return start.clone();
        }
        let start = look();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(identity, start.clone());
        start
    }
}

/// The parameters behind the last header, and the stamp before them.
fn of_lines(lines: &[Line]) -> Option<(Option<String>, Vec<Assignment>)> {
    let at = lines.iter().rposition(|line| line.text == HEADER)?;
    let stamp = lines.get(at).and_then(|line| line.stamp.clone());
    let block = lines.iter().skip(at + 1).map_while(|line| assignment(&line.text));
    let mut parameters = Vec::<Assignment>::new();
    for one in block.filter(|one| SETTINGS.contains(&one.name.as_str())) {
        // Of a list the first member counts.
        if parameters.iter().all(|other| other.name != one.name) {
            parameters.push(one);
        }
    }
    Some((stamp, parameters))
}

/// `sga_target               = 4G`; none of another line, with which the block is at its end.
fn assignment(line: &str) -> Option<Assignment> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let plain = |sign: u8| sign.is_ascii_alphanumeric() || b"_$#".contains(&sign);
    let value = value.trim().trim_matches('"').to_owned();
    let is_name = !name.is_empty() && name.bytes().all(plain);
    is_name.then(|| Assignment { sid: None, name: name.to_ascii_lowercase(), value, line: 0 })
}

/// What a capture keeps of an alert log: the parameters that are read of the last start, and when that was.
pub(super) fn kept(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !is_alert_log(path) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let Some((stamp, parameters)) = of_lines(&of_text(text.lines())) else { return Some(Vec::new()) };
    let stamp = stamp.map(|stamp| format!("{stamp}\n")).unwrap_or_default();
    let lines = parameters.iter().map(|one| format!("  {:<24} = {}\n", one.name, shown(&one.name, &one.value)));
    Some(format!("{stamp}{HEADER}\n{}", lines.collect::<String>()).into_bytes())
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

    const LOG: &str = "/u01/app/oracle/diag/rdbms/prod/PROD/trace/alert_PROD.log";

    /// As 19c writes it, with an older start before it and what the instance said later.
    const TEXT: &str = "2023-04-20T10:00:00.000000-04:00
Starting ORACLE instance (normal) (OS id: 1)
System parameters with non-default values:
  processes                = 100
  sga_target               = 1G
2023-04-27T15:18:31.192974-04:00
Starting ORACLE instance (normal) (OS id: 2)
System parameters with non-default values:
  processes                = 300
  nls_language             = \"AMERICAN\"
  control_files            = \"/u02/control01.ctl\"
  control_files            = \"/u03/control02.ctl\"
  sga_target               = 8G
2023-04-27T15:18:31.292974-04:00
  use_large_pages          = \"ONLY\"
  db_name                  = \"S3cret\"
NOTE: remote asm mode is local (mode 0x1; from cluster type)
  sga_target               = 2G
ALTER DATABASE OPEN
";

    fn told(text: &str) -> Option<(String, Vec<String>)> {
        let start = read(&MapSource::new().file(LOG, text), "", &[LOG.to_owned()])?;
        Some((start.source, start.parameters.iter().map(|one| format!("{}={}", one.name, one.value)).collect()))
    }

    #[test]
    fn a_process_is_asked_for_once() {
        let (starts, looks) = (LastStarts::default(), std::cell::Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            read(&MapSource::new().file(LOG, TEXT), "", &[LOG.to_owned()])
        };
        let first = starts.of(Some(7), look);
        assert!(first.is_some() && starts.of(Some(7), look) == first && looks.get() == 1);
        // Another process, and one that nobody can tell from others.
        starts.of(Some(8), look);
        starts.of(None, look);
        starts.of(None, look);
        assert_eq!(looks.get(), 4);
    }

    #[test]
    fn the_last_start_tells_the_parameters_that_are_no_defaults() {
        let source = format!("{LOG}, last start of 2023-04-27T15:18:31.192974-04:00");
        let parameters = ["processes=300", "sga_target=8G", "use_large_pages=ONLY"].map(str::to_owned).to_vec();
        assert_eq!(told(TEXT), Some((source, parameters)));
        assert_eq!(told("ALTER DATABASE OPEN\n"), None);
        assert_eq!(read(&MapSource::new(), "", &[LOG.to_owned()]), None);
        assert_eq!(read(&MapSource::new().file(LOG, TEXT), "", &[]), None);
    }

    #[test]
    fn a_capture_answers_the_same_and_keeps_nothing_else() {
        let captured = String::from_utf8(kept(LOG, TEXT.as_bytes()).unwrap()).unwrap();
        assert_eq!(told(&captured), told(TEXT));
        assert!(!captured.contains("S3cret") && !captured.contains("AMERICAN"), "{captured}");
        assert_eq!(kept("/u01/x/alert_PROD.log", TEXT.as_bytes()), None);
    }
}
