//! What the files of Oracle's Grid Infrastructure give its stack for a memlock limit at a boot:
//! every database that the stack starts has the same.
//!
//! `s_crsconfig_NODE_env.txt` of its home has the limits of all that it starts
//! (<https://docs.oracle.com/en/database/oracle/oracle-database/19/cwadd/administering-oracle-clusterware.html>);
//! without a line there, the scripts of init that start the stack have one, as `ulimit -l
//! $CRS_LIMIT_MEMLOCK`.

use hugewise_model::configuration::{Clusterware, FileLocation};
use hugewise_model::{Bytes, Limit, Observed};

use super::files::numbered_lines;
use hugewise_source::FactReader;

/// Where the home is told: `crs_home=/u01/app/19.0.0/grid`.
pub(crate) const LOCATION: &str = "/etc/oracle/olr.loc";

/// What init runs to start the stack, the one that runs last first.
const SCRIPTS: [&str; 2] = ["/etc/init.d/ohasd", "/etc/init.d/init.ohasd"];

const VARIABLE: &str = "CRS_LIMIT_MEMLOCK";

pub(crate) fn read(door: &mut FactReader<'_>) -> Option<Clusterware> {
    let location = door.read(LOCATION);
    if location.is_absent() && SCRIPTS.iter().all(|path| door.source.read(path).is_absent()) {
        return None;
    }
    let home =
        location.as_known().and_then(|text| value_of(text, "crs_home").map(|(value, _)| value));
    let environment = home.as_deref().and_then(|home| find_environment_file(door, home));
    let mut found = Observed::Absent;
    for path in environment.iter().map(String::as_str).chain(SCRIPTS) {
        found = door.read(path).and_then(|text| match find_memlock_limit(&text) {
            Some((Some(limit), line)) => {
                Observed::Known((limit, FileLocation { file: path.to_owned(), line }))
            }
            Some((None, line)) => {
                Observed::Malformed(format!("the memlock limit in line {line} of {path}"))
            }
            None => Observed::Absent,
        });
        if !found.is_absent() {
            break;
        }
    }
    let script = || SCRIPTS.iter().find(|path| door.source.read(path).is_known());
    let file = environment.or_else(|| script().map(|path| (*path).to_owned()));
    Some(Clusterware { memlock: found, file })
}

fn find_environment_file(door: &mut FactReader<'_>, home: &str) -> Option<String> {
    let folder = format!("{}/crs/install", home.trim_end_matches('/'));
    let names = door.list_folder(&folder).into_known()?;
    let name =
        names.iter().find(|name| name.starts_with("s_crsconfig_") && name.ends_with("_env.txt"))?;
    Some(format!("{folder}/{name}"))
}

/// The last `NAME=VALUE` of a file, with its line.
fn value_of(text: &[u8], name: &str) -> Option<(String, u64)> {
    let assigned = numbered_lines(text).filter_map(|(number, line)| {
        let line = line.trim_start().strip_prefix("export ").unwrap_or(line.trim_start());
        let value = line.strip_prefix(name)?.strip_prefix('=')?;
        let value = value.split([';', ' ', '\t', '#']).next()?;
        Some((value.trim_matches(['"', '\'']).to_owned(), number))
    });
    assigned.last()
}

/// Of the last `ulimit -l`, else of the variable. An inner `None` is a value that is none.
fn find_memlock_limit(text: &[u8]) -> Option<(Option<Limit>, u64)> {
    let variable = value_of(text, VARIABLE);
    let run = numbered_lines(text).filter_map(|(number, line)| {
        let word = parse_ulimit_word(&line)?;
        let name = word.strip_prefix('$').map(|name| name.trim_matches(['{', '}']));
        match name {
            Some(VARIABLE) => variable.clone(),
            Some(name) => value_of(text, name),
            None => Some((word.to_owned(), number)),
        }
    });
    let (value, number) = run.last().or(variable)?;
    Some((parse_limit_value(&value), number))
}

/// The word of `ulimit -l WORD`, also of `-Hl`, `-Sl`, and behind other limits.
fn parse_ulimit_word(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return None;
    }
    let commands = line.split([';', '&', '|']);
    let mut found = commands.filter_map(|command| {
        let mut words = command
            .split_whitespace()
            .skip_while(|word| matches!(*word, "then" | "do" | "else" | "{"));
        words.next().filter(|word| *word == "ulimit")?;
        words.find(|word| word.starts_with('-') && word.contains('l'))?;
        words.next().map(|word| word.trim_matches(['"', '\'']))
    });
    found.next_back()
}

/// `unlimited`, or KiB.
fn parse_limit_value(value: &str) -> Option<Limit> {
    if value == "unlimited" || value == "infinity" {
        return Some(Limit::Unlimited);
    }
    value.parse::<u64>().ok()?.checked_mul(1024).map(|bytes| Limit::At(Bytes(bytes)))
}

/// The file as a capture keeps it: its lines keep their numbers, and nothing else is told of it.
pub fn distill_clusterware(path: &str, text: &[u8]) -> Option<Vec<u8>> {
    let is_environment = path.rsplit_once('/').is_some_and(|(folder, name)| {
        folder.ends_with("/crs/install")
            && name.starts_with("s_crsconfig_")
            && name.ends_with("_env.txt")
    });
    let kept = match path {
        LOCATION => {
            value_of(text, "crs_home").map(|(home, line)| (line, format!("crs_home={home}")))
        }
        _ if is_environment || SCRIPTS.contains(&path) => {
            find_memlock_limit(text).map(|(limit, line)| {
                let value = match limit {
                    Some(Limit::Unlimited) => "unlimited".to_owned(),
                    Some(Limit::At(bytes)) => (bytes.get() >> 10).to_string(),
                    None => "unknown".to_owned(),
                };
                (line, format!("{VARIABLE}={value}"))
            })
        }
        _ => return None,
    };
    let mut text = String::new();
    if let Some((line, kept)) = kept {
        text = "\n"
            .repeat(usize::try_from(line.saturating_sub(1)).unwrap_or_default().min(1 << 16))
            + &kept
            + "\n";
    }
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    const HOME: &str =
        "crs_home=/u01/app/19.0.0/grid\nolrconfig_loc=/u01/app/grid/crsdata/db1/olr/db1.olr\n";
    const ENVIRONMENT: &str = "/u01/app/19.0.0/grid/crs/install/s_crsconfig_db1_env.txt";

    fn memlock(source: &MapSource) -> Option<(String, String)> {
        let found = read(&mut FactReader::new(source))?;
        found.memlock.as_known().map(|(limit, place)| (limit.to_string(), place.to_string()))
    }

    fn known_limit(limit: &str, place: &str) -> Option<(String, String)> {
        Some((limit.into(), place.into()))
    }

    #[test]
    fn the_scripts_limit_holds_and_the_environment_of_the_home_before_it() {
        let script = "#!/bin/sh\nCRS_LIMIT_MEMLOCK=4194304\nstart()\n{\n  # ulimit -l 1\n  ulimit -l $CRS_LIMIT_MEMLOCK\n}\n";
        let source =
            MapSource::new().with_file(LOCATION, HOME).with_file("/etc/init.d/ohasd", script);
        assert_eq!(memlock(&source), known_limit("4.0 GiB", "/etc/init.d/ohasd:2"));
        let quiet = source.clone().with_file(ENVIRONMENT, "CRS_LIMIT_STACK=2048\nTZ=UTC\n");
        assert_eq!(memlock(&quiet), known_limit("4.0 GiB", "/etc/init.d/ohasd:2"));
        assert_eq!(read(&mut FactReader::new(&quiet)).unwrap().file.as_deref(), Some(ENVIRONMENT));
        let environment =
            source.with_file(ENVIRONMENT, "CRS_LIMIT_STACK=2048\nCRS_LIMIT_MEMLOCK=unlimited\n");
        assert_eq!(memlock(&environment), known_limit("unlimited", &format!("{ENVIRONMENT}:2")));
    }

    #[test]
    fn a_host_without_it_has_none_and_one_without_a_line_says_nothing() {
        assert!(read(&mut FactReader::new(&MapSource::new())).is_none());
        let source = MapSource::new().with_file("/etc/init.d/init.ohasd", "exec ohasd restart\n");
        let found = read(&mut FactReader::new(&source)).unwrap();
        assert!(found.memlock.is_absent());
        assert_eq!(found.file.as_deref(), Some("/etc/init.d/init.ohasd"));
    }

    /// Each line run by a real sh, which then printed `ulimit -l`.
    #[test]
    fn lines_are_read_as_a_shell_runs_them() {
        for (line, limit) in [
            ("ulimit -l 2048", Some("2.0 MiB")),
            ("ulimit -n 1024; ulimit -l 2048", Some("2.0 MiB")),
            ("if true; then ulimit -l 64; fi", Some("64 KiB")),
            ("ulimit -S -l 32", Some("32 KiB")),
            ("M=128\nulimit -l ${M}", Some("128 KiB")),
            ("ulimit -l 64\nulimit -l 32", Some("32 KiB")),
            ("ulimit -n 4096", None),
            ("# ulimit -l 64", None),
            ("echo ulimit -l 64", None),
        ] {
            let found = limit_of(line);
            assert_eq!(found.as_deref(), limit, "{line}");
            let kept = distill_clusterware("/etc/init.d/ohasd", line.as_bytes()).unwrap();
            assert_eq!(
                limit_of(&String::from_utf8(kept).unwrap()),
                found,
                "{line} as a capture keeps it"
            );
        }
    }

    fn limit_of(text: &str) -> Option<String> {
        super::find_memlock_limit(text.as_bytes())
            .and_then(|(limit, _)| limit)
            .map(|limit| limit.to_string())
    }

    #[test]
    fn a_capture_keeps_the_home_alone() {
        let kept = distill_clusterware(LOCATION, HOME.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(kept).unwrap(), "crs_home=/u01/app/19.0.0/grid\n");
        assert_eq!(distill_clusterware(ENVIRONMENT, b"TNS_ADMIN=/secret\n"), Some(Vec::new()));
        assert_eq!(distill_clusterware("/etc/oracle/ocr.loc", b"x"), None);
    }
}
