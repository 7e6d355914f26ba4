//! Where a running instance writes its traces and alert log, by the trace files that its processes
//! hold open: the only witness where DIAGNOSTIC_DEST stands in a spfile in ASM. An ADR home is
//! `DIAGNOSTIC_DEST/diag/TYPE/DB_UNIQUE_NAME/SID` with the folder `trace` (Oracle Database
//! Administrator's Guide 11.1 to 19c, "Structure, Contents, and Location of the Automatic
//! Diagnostic Repository").

use hugewise_host::Source;
use hugewise_host::capture::shape::ValueShape;
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::ServerSetting;
use hugewise_model::{Host, Instance};

use crate::shared::options;
use crate::shared::settings::new_setting;

/// The background processes, which write traces, are the first of an instance.
const MOST_PROCESSES: usize = 32;
const MOST_FILES: usize = 512;

pub(super) fn find_diag_destination(
    host: &Host,
    source: &dyn Source,
    instance: &Instance,
    kind: &str,
) -> Option<ServerSetting> {
    instance.pids.iter().take(MOST_PROCESSES).find_map(|pid| {
        let process = host.find_process(*pid)?;
        let folder = format!("/proc/{pid}/fd");
        let names = source.list_folder(&folder).into_known()?;
        names.iter().take(MOST_FILES).find_map(|name| {
            let file = format!("{folder}/{name}");
            let target = source.read_link(&file).into_known()?;
            let target = options::as_process_names(process, &target);
            let base = base_of(target, kind, &instance.name)?.to_owned();
            Some(new_setting("diagnostic_dest", base, Some(FileLocation { file, line: 0 })))
        })
    })
}
fn base_of<'a>(path: &'a str, kind: &str, sid: &str) -> Option<&'a str> {
    let (base, below) = path.split_once(&format!("/diag/{kind}/"))?;
    let mut folders = below.split('/');
    let (_, own, trace) = (folders.next()?, folders.next()?, folders.next()?);
    let is_file = folders.next().is_some() && folders.next().is_none();
    (own == sid
        && trace == "trace"
        && is_file
        && base.starts_with('/')
        && ValueShape::Path.matches_value(base))
    .then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_file_tells_the_base_of_its_own_instance() {
        let text_of = |path: &'static str| base_of(path, "rdbms", "PROD1");
        assert_eq!(text_of("/logs/diag/rdbms/prod/PROD1/trace/PROD1_dbrm_4242.trc"), Some("/logs"));
        assert_eq!(
            text_of("/u01/app/oracle/diag/rdbms/prod/PROD1/trace/alert_PROD1.log"),
            Some("/u01/app/oracle")
        );
        for other in [
            "/logs/diag/rdbms/prod/PROD2/trace/PROD2_dbrm_1.trc",
            "/logs/diag/asm/+asm/PROD1/trace/x.trc",
            "/logs/diag/rdbms/prod/PROD1/incident/incdir_1/x.trc",
            "/logs/diag/rdbms/prod/PROD1/trace",
            "diag/rdbms/prod/PROD1/trace/x.trc",
            "/lo gs\n/diag/rdbms/prod/PROD1/trace/x.trc",
            "socket:[77]",
        ] {
            assert_eq!(text_of(other), None, "{other}");
        }
    }
}
