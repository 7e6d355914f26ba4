//! The parameters of an instance's last start, by its alert log: "System parameters with
//! non-default values:", a parameter a line, in quotes from 11g on, and of a list a member a line
//! (Oracle 10.2 to 21c).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hugewise_host::Source;

use super::homes::is_alert_log;
use super::log_lines::{AlertLogLine, of_text};
use super::parameters::ParameterAssignment;
use super::{SETTINGS, log};
use crate::shared::logs::{LogFile, Search};
use crate::shared::settings::redact_value;

const HEADER: &str = "System parameters with non-default values:";
/// Stands between a log's path and the moment of a start, where that serves as a setting's file.
const IN_LOG: &str = ", last start";

/// Whether a setting comes from a start in a log, which nobody can change.
pub(super) fn is_place(file: &str) -> bool {
    file.contains(IN_LOG)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastStart {
    pub(super) source: String,
    pub(super) parameters: Vec<ParameterAssignment>,
}

/// The last start in the first of these alert logs that has one; the paths are below `root`.
pub(super) fn read(source: &dyn Source, root: &str, logs: &[String]) -> Option<LastStart> {
    logs.iter().find_map(|path| {
        let inside = format!("{root}{path}");
        let file = LogFile::new(source, &inside);
        let mut search = Search::open(&file).ok()?;
        let (excerpt, _) = search.next_mark(&[(HEADER.as_bytes(), &log::FORMAT)]).ok()??;
        let (stamp, parameters) = of_lines(&of_text(excerpt.complete_lines()))?;
        let when = stamp.map(|stamp| format!(" of {stamp}")).unwrap_or_default();
        Some(LastStart { source: format!("{path}{IN_LOG}{when}"), parameters })
    })
}

/// The last starts of running servers, which stay the same: a log is searched once.
#[derive(Debug, Default)]
pub(crate) struct LastStarts(Mutex<BTreeMap<u64, Option<LastStart>>>);

const MOST_KEPT: usize = 4096;

impl LastStarts {
    /// `identity` is the inode of the process in /proc.
    pub(super) fn get_or_search(
        &self,
        identity: Option<u64>,
        look: impl FnOnce() -> Option<LastStart>,
    ) -> Option<LastStart> {
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
fn of_lines(lines: &[AlertLogLine]) -> Option<(Option<String>, Vec<ParameterAssignment>)> {
    let at = lines.iter().rposition(|line| line.text == HEADER)?;
    let stamp = lines.get(at).and_then(|line| line.stamp.clone());
    let block = lines.iter().skip(at + 1).map_while(|line| parse_assignment(&line.text));
    let mut parameters = Vec::<ParameterAssignment>::new();
    for one in block.filter(|one| SETTINGS.contains(&one.name.as_str())) {
        // A list's first member counts.
        if parameters.iter().all(|other| other.name != one.name) {
            parameters.push(one);
        }
    }
    Some((stamp, parameters))
}

/// `sga_target               = 4G`; none of another line, which ends the block.
fn parse_assignment(line: &str) -> Option<ParameterAssignment> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let plain = |sign: u8| sign.is_ascii_alphanumeric() || b"_$#".contains(&sign);
    let value = value.trim().trim_matches('"').to_owned();
    let is_name = !name.is_empty() && name.bytes().all(plain);
    is_name.then(|| ParameterAssignment {
        sid: None,
        name: name.to_ascii_lowercase(),
        value,
        line: 0,
    })
}

/// What a capture keeps of an alert log: the last start's parameters that are read, and its stamp.
pub(super) fn redact_alert_log(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !is_alert_log(path) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let Some((stamp, parameters)) = of_lines(&of_text(text.lines())) else {
        return Some(Vec::new());
    };
    let stamp = stamp.map(|stamp| format!("{stamp}\n")).unwrap_or_default();
    let lines = parameters
        .iter()
        .map(|one| format!("  {:<24} = {}\n", one.name, redact_value(&one.name, &one.value)));
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

    fn read_start(text: &str) -> Option<(String, Vec<String>)> {
        let start = read(&MapSource::new().with_file(LOG, text), "", &[LOG.to_owned()])?;
        Some((
            start.source,
            start.parameters.iter().map(|one| format!("{}={}", one.name, one.value)).collect(),
        ))
    }

    #[test]
    fn a_process_is_asked_for_once() {
        let (starts, looks) = (LastStarts::default(), std::cell::Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            read(&MapSource::new().with_file(LOG, TEXT), "", &[LOG.to_owned()])
        };
        let first = starts.get_or_search(Some(7), look);
        assert!(
            first.is_some() && starts.get_or_search(Some(7), look) == first && looks.get() == 1
        );
        // Another process, and one that nobody can tell from others.
        starts.get_or_search(Some(8), look);
        starts.get_or_search(None, look);
        starts.get_or_search(None, look);
        assert_eq!(looks.get(), 4);
    }

    #[test]
    fn the_last_start_tells_the_parameters_that_are_no_defaults() {
        let source = format!("{LOG}, last start of 2023-04-27T15:18:31.192974-04:00");
        let parameters =
            ["processes=300", "sga_target=8G", "use_large_pages=ONLY"].map(str::to_owned).to_vec();
        assert_eq!(read_start(TEXT), Some((source, parameters)));
        assert_eq!(read_start("ALTER DATABASE OPEN\n"), None);
        assert_eq!(read(&MapSource::new(), "", &[LOG.to_owned()]), None);
        assert_eq!(read(&MapSource::new().with_file(LOG, TEXT), "", &[]), None);
    }

    #[test]
    fn a_capture_answers_the_same_and_keeps_nothing_else() {
        let captured = String::from_utf8(redact_alert_log(LOG, TEXT.as_bytes()).unwrap()).unwrap();
        assert_eq!(read_start(&captured), read_start(TEXT));
        assert!(!captured.contains("S3cret") && !captured.contains("AMERICAN"), "{captured}");
        assert_eq!(redact_alert_log("/u01/x/alert_PROD.log", TEXT.as_bytes()), None);
    }
}
