//! The parameters that an instance had at its last start, by its alert log: "System parameters with non-default values:", a
//! parameter a line, in quotes from 11g on, and of a list a member a line (Oracle 10.2 to 21c).

use hugewise_host::Source;

use super::log_lines::{Line, of_text};
use super::parameters::Assignment;
use super::{SETTINGS, log};
use crate::logs::{LogFile, Search};
use crate::settings::shown;

/// The line before the parameters.
const HEADER: &str = "System parameters with non-default values:";

/// What the last start in a log has noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastStart {
    /// The log, and when that was, as it writes it.
    pub(super) source: String,
    /// The parameters that are read; those that are not among them had their defaults.
    pub(super) parameters: Vec<Assignment>,
}

/// What the alert log of an instance says of its last start; none where there is no such log below the base of its software, or
/// none says anything of parameters.
pub(super) fn read(source: &dyn Source, home: &str, kind: &str, sid: &str) -> Option<LastStart> {
    let (base, _) = home.split_once("/product/")?;
    let folder = format!("{base}/diag/{kind}");
    let databases = source.list(&folder).into_known().unwrap_or_default();
    let paths = databases.iter().map(|name| format!("{folder}/{name}/{sid}/trace/alert_{sid}.log"));
    paths.into_iter().find_map(|path| {
        let file = LogFile::new(source, &path);
        let mut search = Search::open(&file).ok()?;
        let (excerpt, _) = search.next_mark(&[(HEADER.as_bytes(), &log::FORMAT)]).ok()??;
        let (stamp, parameters) = of_lines(&of_text(excerpt.lines()))?;
        let when = stamp.map(|stamp| format!(" of {stamp}")).unwrap_or_default();
        Some(LastStart { source: format!("{path}, last start{when}"), parameters })
    })
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
    let name = path.rsplit_once("/trace/").map(|(_, name)| name)?;
    if !path.contains("/diag/") || !name.starts_with("alert_") || !name.ends_with(".log") {
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

    const HOME: &str = "/u01/app/oracle/product/19.0.0/dbhome_1";
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
        let start = read(&MapSource::new().file(LOG, text), HOME, "rdbms", "PROD")?;
        Some((start.source, start.parameters.iter().map(|one| format!("{}={}", one.name, one.value)).collect()))
    }

    #[test]
    fn the_last_start_tells_the_parameters_that_are_no_defaults() {
        let source = format!("{LOG}, last start of 2023-04-27T15:18:31.192974-04:00");
        let parameters = ["processes=300", "sga_target=8G", "use_large_pages=ONLY"].map(str::to_owned).to_vec();
        assert_eq!(told(TEXT), Some((source, parameters)));
        assert_eq!(told("ALTER DATABASE OPEN\n"), None);
        assert_eq!(read(&MapSource::new(), HOME, "rdbms", "PROD"), None);
        assert_eq!(read(&MapSource::new().file(LOG, TEXT), "/opt/oracle", "rdbms", "PROD"), None);
    }

    #[test]
    fn a_capture_answers_the_same_and_keeps_nothing_else() {
        let captured = String::from_utf8(kept(LOG, TEXT.as_bytes()).unwrap()).unwrap();
        assert_eq!(told(&captured), told(TEXT));
        assert!(!captured.contains("S3cret") && !captured.contains("AMERICAN"), "{captured}");
        assert_eq!(kept("/u01/x/alert_PROD.log", TEXT.as_bytes()), None);
    }
}
