//! Where an instance that runs writes its traces and its alert log, by the trace files that its processes hold open: the one
//! witness where DIAGNOSTIC_DEST stands in a server parameter file that lies in ASM.
//!
//! An ADR home is `DIAGNOSTIC_DEST/diag/TYPE/DB_UNIQUE_NAME/SID`, and has the folder `trace` (Oracle Database Administrator's Guide
//! 11.1 to 19c, "Structure, Contents, and Location of the Automatic Diagnostic Repository").

use hugewise_host::Source;
use hugewise_host::capture::shape::Shape;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;
use hugewise_model::{Host, Instance};

use crate::options;

/// Processes that are looked at: the background ones, which write traces, are the first of an instance.
const MOST_PROCESSES: usize = 32;

/// Open files of a process that are looked at.
const MOST_FILES: usize = 512;

/// DIAGNOSTIC_DEST as the open trace files show it.
pub(super) fn destination(host: &Host, source: &dyn Source, pids: &[u32], kind: &str, sid: &str) -> Option<Setting> {
    pids.iter().take(MOST_PROCESSES).find_map(|pid| {
        let process = host.process(*pid)?;
        let folder = format!("/proc/{pid}/fd");
        let names = source.list(&folder).into_known()?;
        names.iter().take(MOST_FILES).find_map(|name| {
            let file = format!("{folder}/{name}");
            let target = source.link(&file).into_known()?;
            let base = base_of(options::as_process_names(process, &target), kind, sid)?.to_owned();
            Some(Setting { name: "diagnostic_dest".into(), value: base, place: Some(Place { file, line: 0 }) })
        })
    })
}

/// The same for an instance.
pub(super) fn of(host: &Host, source: &dyn Source, instance: &Instance, kind: &str) -> Option<Setting> {
    destination(host, source, &instance.pids, kind, &instance.name)
}

/// What stands before `/diag` in the path of a trace file of that instance.
fn base_of<'a>(path: &'a str, kind: &str, sid: &str) -> Option<&'a str> {
    let (base, below) = path.split_once(&format!("/diag/{kind}/"))?;
    let mut folders = below.split('/');
    let (_, own, trace) = (folders.next()?, folders.next()?, folders.next()?);
    let is_file = folders.next().is_some() && folders.next().is_none();
    (own == sid && trace == "trace" && is_file && base.starts_with('/') && Shape::Path.fits(base)).then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_file_tells_the_base_of_its_own_instance() {
        let of = |path: &'static str| base_of(path, "rdbms", "PROD1");
        assert_eq!(of("/logs/diag/rdbms/prod/PROD1/trace/PROD1_dbrm_4242.trc"), Some("/logs"));
        assert_eq!(of("/u01/app/oracle/diag/rdbms/prod/PROD1/trace/alert_PROD1.log"), Some("/u01/app/oracle"));
        for other in [
            "/logs/diag/rdbms/prod/PROD2/trace/PROD2_dbrm_1.trc",
            "/logs/diag/asm/+asm/PROD1/trace/x.trc",
            "/logs/diag/rdbms/prod/PROD1/incident/incdir_1/x.trc",
            "/logs/diag/rdbms/prod/PROD1/trace",
            "diag/rdbms/prod/PROD1/trace/x.trc",
            "/lo gs\n/diag/rdbms/prod/PROD1/trace/x.trc",
            "socket:[77]",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
