//! Oracle homes: where their instances keep parameter files and write alert logs.

use std::collections::BTreeSet;

use hugewise_host::Source;
use hugewise_host::capture::shape::ValueShape;

use crate::shared::options::file_name;
use crate::shared::versions;

/// Names a home's base and says whether the home is read-only (Installation Guide for Linux 18c to
/// 23ai, "About orabasetab").
const TABLE: &str = "/install/orabasetab";
/// Where adrci keeps the ADR bases that it has opened, a path a line: one more place to try.
const ADR_BASES: &str = "/log/diag/adrci_dir.mif";
const MOST_DATABASES: usize = 512;
const MOST_BASES: usize = 8;

/// The release in a home's path: `19.3.0` below `product`, or in SAP's layout `112_64`, `11204`,
/// `12102` or `19` below `/oracle/SID` (SAP, "Oracle Database Software Installation", ORACLE_HOME).
pub(super) fn version_in_home_path(home: &str) -> Option<String> {
    versions::in_path(home).or_else(|| {
        let (_, folder) = home.strip_prefix("/oracle/")?.trim_end_matches('/').split_once('/')?;
        let digits = folder.split_once('_').map_or(folder, |(digits, _)| digits);
        let fits =
            (2..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let (major, rest) = digits.split_at_checked(2).filter(|_| fits)?;
        Some(rest.chars().fold(major.to_owned(), |version, part| format!("{version}.{part}")))
    })
}

/// `/oracle/C11` of a program below it that runs as `orac11`: SAP's installer makes an account for
/// each database.
pub(super) fn of_sap_account<'a>(program: &'a str, account: &str) -> Option<&'a str> {
    let (sid, _) = program.strip_prefix("/oracle/")?.split_once('/')?;
    let is_its = account
        .strip_prefix("ora")
        .is_some_and(|name| name.eq_ignore_ascii_case(sid) && sid.len() == 3);
    program.get(.."/oracle/".len() + sid.len()).filter(|_| is_its)
}

/// A line of a home's orabasetab: `HOME:BASE:NAME:Y`, Y for a read-only home.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OracleHomeEntry {
    base: String,
    is_read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    path: String,
    entry: Option<OracleHomeEntry>,
    bases: Vec<String>,
}

impl Home {
    pub(super) fn read(source: &dyn Source, root: &str, path: &str) -> Self {
        let path = path.trim_end_matches('/').to_owned();
        let table = source.read(&format!("{root}{path}{TABLE}")).into_known();
        let entry =
            table.and_then(|bytes| find_home_entry(&String::from_utf8_lossy(&bytes), &path));
        let bases = source.read(&format!("{root}{path}{ADR_BASES}")).into_known();
        let bases =
            bases.map(|bytes| bases_in(&String::from_utf8_lossy(&bytes))).unwrap_or_default();
        Self { path, entry, bases }
    }

    /// The folder of parameter files: a read-only home has them below its base.
    pub(super) fn parameter_folder(&self) -> String {
        match &self.entry {
            Some(OracleHomeEntry { base, is_read_only: true }) => format!("{base}/dbs"),
            _ => format!("{}/dbs", self.path),
        }
    }

    /// Adds folders below which other instances of the owner write their logs.
    pub(super) fn with_bases(mut self, more: impl IntoIterator<Item = String>) -> Self {
        for base in more {
            if !self.bases.contains(&base) && self.bases.len() < MOST_BASES {
                self.bases.push(base);
            }
        }
        self
    }

    /// Instances of a database that have an alert log here. An ADR home has the database's unique
    /// name in small letters.
    pub(super) fn instances_of(&self, source: &dyn Source, database: &str) -> Vec<String> {
        let folders = self.diag_destinations(None).into_iter();
        let folders = folders.map(|base| format!("{base}/diag/rdbms/{}", database.to_lowercase()));
        let instances = |folder: String| {
            let mut sids = list_names(source, &folder);
            sids.retain(|sid| has_alert_log(source, &folder, sid));
            sids
        };
        folders.flat_map(instances).collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(super) fn have_run(
        &self,
        source: &dyn Source,
        sids: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let names = |folder: &str| list_names(source, folder).into_iter().take(MOST_DATABASES);
        let mut found = BTreeSet::new();
        for base in self.diag_destinations(None) {
            for kind in ["rdbms", "asm"] {
                let folder = format!("{base}/diag/{kind}");
                for database in names(&folder) {
                    let folder = format!("{folder}/{database}");
                    let is_here = |sid: &String| has_alert_log(source, &folder, sid);
                    found.extend(names(&folder).filter(|sid| sids.contains(sid) && is_here(sid)));
                }
            }
            let folder = format!("{base}/admin");
            for database in names(&folder) {
                let logs = names(&format!("{folder}/{database}/bdump"));
                let logged = logs.filter_map(|log| {
                    Some(log.strip_prefix("alert_")?.strip_suffix(".log")?.to_owned())
                });
                found.extend(logged.filter(|sid| sids.contains(sid)));
            }
        }
        found
    }

    /// Folders that may have `diag`, the likeliest first: DIAGNOSTIC_DEST, the base as its default,
    /// and `ORACLE_HOME/log` without a base (Oracle Database Reference, DIAGNOSTIC_DEST). SAP has
    /// it below `/oracle/SID`.
    fn diag_destinations(&self, set: Option<&str>) -> Vec<String> {
        let named = self.entry.as_ref().map(|entry| entry.base.clone());
        let above = || self.path.split_once("/product/").map(|(base, _)| base.to_owned());
        let of_sap = || {
            let (sid, _) = self.path.strip_prefix("/oracle/")?.split_once('/')?;
            Some(format!("/oracle/{sid}/saptrace"))
        };
        let base = named.or_else(above);
        let set = set.filter(|set| set.starts_with('/')).map(str::to_owned);
        let all = [set, base, of_sap(), Some(format!("{}/log", self.path))];
        let mut all: Vec<String> =
            all.into_iter().flatten().chain(self.bases.iter().cloned()).collect();
        all.dedup();
        all
    }

    /// Possible alert logs of an instance: from 11.1 on below `diag`, before that in the usual
    /// BACKGROUND_DUMP_DEST. `kind` is `rdbms` or `asm`; `set` is its DIAGNOSTIC_DEST.
    pub(super) fn alert_logs(
        &self,
        source: &dyn Source,
        root: &str,
        kind: &str,
        sid: &str,
        set: Option<&str>,
    ) -> Vec<String> {
        let below = |folder: String, rest: &str| {
            let names = list_names(source, &format!("{root}{folder}"));
            names.into_iter().map(|name| format!("{folder}/{name}/{rest}")).collect::<Vec<_>>()
        };
        let destinations = self.diag_destinations(set);
        let trace = format!("{sid}/trace/alert_{sid}.log");
        let mut logs: Vec<String> = destinations
            .iter()
            .flat_map(|base| below(format!("{base}/diag/{kind}"), &trace))
            .collect();
        let old = format!("bdump/alert_{sid}.log");
        logs.extend(destinations.iter().flat_map(|base| below(format!("{base}/admin"), &old)));
        logs
    }
}

pub(super) fn kind_of(sid: &str) -> &'static str {
    if sid.starts_with('+') { "asm" } else { "rdbms" }
}

fn list_names(source: &dyn Source, folder: &str) -> Vec<String> {
    source.list_folder(folder).into_known().unwrap_or_default()
}

fn has_alert_log(source: &dyn Source, folder: &str, sid: &str) -> bool {
    list_names(source, &format!("{folder}/{sid}/trace")).contains(&format!("alert_{sid}.log"))
}

fn bases_in(text: &str) -> Vec<String> {
    let paths = text.split(['\n', '\r', '\0']).map(|line| line.trim().trim_end_matches('/'));
    let paths = paths.filter(|path| path.starts_with('/') && ValueShape::Path.matches_value(path));
    paths.take(MOST_BASES).map(str::to_owned).collect()
}

/// The last line of a home counts.
fn find_home_entry(text: &str, home: &str) -> Option<OracleHomeEntry> {
    let fields = |line: &str| {
        let mut fields = line.trim().split(':');
        let (path, base, _, letter) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let base = base.trim_end_matches('/');
        let fits = path.trim_end_matches('/') == home && base.starts_with('/');
        fits.then(|| OracleHomeEntry { base: base.to_owned(), is_read_only: letter == "Y" })
    };
    text.lines().filter_map(fields).next_back()
}

/// What a capture keeps of these files: bases, and the lines of homes without their names.
pub(super) fn redact_home_file(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if path.ends_with(ADR_BASES) {
        let bases = bases_in(&String::from_utf8_lossy(bytes));
        return Some(bases.iter().map(|base| format!("{base}\n")).collect::<String>().into_bytes());
    }
    let home = path.strip_suffix(TABLE).filter(|home| !home.is_empty())?;
    let text = String::from_utf8_lossy(bytes);
    // In a container the path begins with its root.
    let line = |line: &str| {
        let own = line
            .trim()
            .split(':')
            .next()
            .filter(|own| home.ends_with(own.trim_end_matches('/')))?;
        let OracleHomeEntry { base, is_read_only } =
            find_home_entry(line, own.trim_end_matches('/'))?;
        let fits = ValueShape::Path.matches_value(own) && ValueShape::Path.matches_value(&base);
        fits.then(|| format!("{own}:{base}::{}:\n", if is_read_only { 'Y' } else { 'N' }))
    };
    Some(text.lines().filter_map(line).collect::<String>().into_bytes())
}

pub(super) fn is_alert_log(path: &str) -> bool {
    let name = file_name(path);
    let of_instance = name.starts_with("alert_") && name.ends_with(".log");
    of_instance
        && ((path.contains("/diag/") && path.contains("/trace/")) || path.contains("/bdump/"))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

    const HOME: &str = "/u01/app/oracle/product/19.0.0/dbhome_1";

    /// As the Installation Guide shows it.
    fn home_with_letter(letter: &str) -> Home {
        let text = format!("# made by the installer\n{HOME}:/u02/base:OraDB19Home1:{letter}:\n");
        Home::read(
            &MapSource::new().with_file(&format!("{HOME}/install/orabasetab"), &text),
            "",
            HOME,
        )
    }

    #[test]
    fn a_read_only_home_has_its_parameter_files_below_the_base() {
        assert_eq!(home_with_letter("Y").parameter_folder(), "/u02/base/dbs");
        assert_eq!(home_with_letter("N").parameter_folder(), format!("{HOME}/dbs"));
        assert_eq!(
            Home::read(&MapSource::new(), "", HOME).parameter_folder(),
            format!("{HOME}/dbs")
        );
        let of_another = format!("{HOME}2:/u02/base:Ora:Y:\n");
        let source = MapSource::new().with_file(&format!("{HOME}/install/orabasetab"), &of_another);
        assert_eq!(Home::read(&source, "", HOME).parameter_folder(), format!("{HOME}/dbs"));
    }

    #[test]
    fn alert_logs_are_looked_for_where_each_layout_has_them() {
        let logs = |home: &str, file: &str, set: Option<&str>, sid: &str| {
            let source = MapSource::new().with_file(file, "log");
            Home::read(&source, "", home).alert_logs(&source, "", "rdbms", sid, set)
        };
        let usual = "/u01/app/oracle/diag/rdbms/prod/PROD1/trace/alert_PROD1.log";
        assert_eq!(logs(HOME, usual, None, "PROD1"), [usual]);
        let set = "/logs/diag/rdbms/prod/PROD1/trace/alert_PROD1.log";
        assert_eq!(logs("/opt/ora19", set, Some("/logs"), "PROD1"), [set]);
        let bare = "/opt/ora11/log/diag/rdbms/prod/PROD/trace/alert_PROD.log";
        assert_eq!(logs("/opt/ora11", bare, None, "PROD"), [bare]);
        let sap = "/oracle/C11/saptrace/diag/rdbms/c11/C11/trace/alert_C11.log";
        assert_eq!(logs("/oracle/C11/19.0.0", sap, None, "C11"), [sap]);
        // A table that names the base has no say over SAP's own place.
        let home = "/oracle/C11/19.0.0";
        let source = MapSource::new().with_file(sap, "log");
        let source = source
            .with_file(&format!("{home}{TABLE}"), format!("{home}:/oracle/C11:OraHome1:N:\n"));
        assert_eq!(
            Home::read(&source, "", home).alert_logs(&source, "", "rdbms", "C11", None),
            [sap]
        );
        let old = "/u01/app/oracle/admin/PROD/bdump/alert_PROD.log";
        assert_eq!(logs("/u01/app/oracle/product/10.2.0/db_1", old, None, "PROD"), [old]);
        let source = MapSource::new()
            .with_file(set, "log")
            .with_file("/opt/ora19/log/diag/adrci_dir.mif", "/opt/none\n/logs/\n");
        assert_eq!(
            Home::read(&source, "", "/opt/ora19").alert_logs(&source, "", "rdbms", "PROD1", None),
            [set]
        );
        for path in [usual, set, bare, sap, old] {
            assert!(is_alert_log(path), "{path}");
        }
        assert!(!is_alert_log("/u01/app/oracle/diag/rdbms/prod/PROD/trace/PROD_ora_1.trc"));
    }

    #[test]
    fn saps_account_is_that_of_its_database() {
        let program = "/oracle/C11/19.0.0/bin/oracle";
        assert_eq!(of_sap_account(program, "orac11"), Some("/oracle/C11"));
        for (program, account) in [
            (program, "oraq11"),
            (program, "c11"),
            ("/home/orac11/oracle/C11/bin/oracle", "orac11"),
            ("/oracle/", "ora"),
            ("/oracle//bin/oracle", "ora"),
            ("/oracle/GANIZER/bin/oracle", "oraganizer"),
        ] {
            assert_eq!(of_sap_account(program, account), None, "{program} {account}");
        }
    }

    #[test]
    fn who_has_run_here_is_told_by_alert_logs_of_every_layout() {
        let btree_set_of =
            |sids: &[&str]| sids.iter().map(|sid| (*sid).to_owned()).collect::<BTreeSet<String>>();
        let base = "/u01/app/oracle";
        let source = MapSource::new()
            .with_file(&format!("{base}/diag/rdbms/prod/PROD1/trace/alert_PROD1.log"), "log")
            .with_file(&format!("{base}/diag/rdbms/dev/DEV/trace/DEV_ora_1.trc"), "trace")
            .with_file(&format!("{base}/admin/OLD/bdump/alert_OLD.log"), "log")
            .with_file("/logs/diag/rdbms/far/FAR/trace/alert_FAR.log", "log");
        let home = Home::read(&source, "", HOME);
        let asked = btree_set_of(&["PROD1", "DEV", "OLD", "FAR", "NONE"]);
        assert_eq!(home.have_run(&source, &asked), btree_set_of(&["PROD1", "OLD"]));
        assert_eq!(home.have_run(&source, &btree_set_of(&["NONE"])), btree_set_of(&[]));
        // DIAGNOSTIC_DEST of another instance of the same software.
        let home = home.with_bases(["/logs".to_owned()]);
        assert_eq!(home.have_run(&source, &asked), btree_set_of(&["FAR", "PROD1", "OLD"]));
        assert_eq!(home.instances_of(&source, "PROD"), ["PROD1"]);
        assert!(home.instances_of(&source, "DEV").is_empty());
    }

    /// As SAP's guides for 10.2 to 19c name the folders.
    #[test]
    fn the_release_is_told_by_the_path_in_saps_layout_too() {
        for (home, release) in [
            (HOME, Some("19.0.0")),
            ("/oracle/C11/102_64", Some("10.2")),
            ("/oracle/C11/112_64", Some("11.2")),
            ("/oracle/C11/11204", Some("11.2.0.4")),
            ("/oracle/C11/12102/", Some("12.1.0.2")),
            ("/oracle/C11/19", Some("19")),
            ("/oracle/C11/19.0.0", Some("19.0.0")),
            ("/oracle/client/lib", None),
            ("/oracle/PROD/db1", None),
            ("/opt/ora/112", None),
        ] {
            assert_eq!(version_in_home_path(home).as_deref(), release, "{home}");
        }
    }

    #[test]
    fn a_capture_keeps_the_folders_and_no_name() {
        let path = format!("{HOME}{TABLE}");
        let text = format!("# S3\n{HOME}:/u02/base:S3:Y:S3\n/other:/x:S3:N:\n");
        let kept =
            redact_home_file(&path, text.as_bytes()).map(|kept| String::from_utf8(kept).unwrap());
        assert_eq!(kept.as_deref(), Some(&*format!("{HOME}:/u02/base::Y:\n")));
        assert_eq!(
            super::redact_home_file(&path, kept.as_deref().unwrap().as_bytes()),
            kept.map(String::into_bytes)
        );
        assert_eq!(super::redact_home_file("/etc/orabasetab", b"x"), None);
        let bases = super::redact_home_file(
            "/opt/ora19/log/diag/adrci_dir.mif",
            b"/logs/\nS3 S3\n/u01/app/oracle\n",
        );
        assert_eq!(bases.as_deref(), Some(&b"/logs\n/u01/app/oracle\n"[..]));
    }
}
