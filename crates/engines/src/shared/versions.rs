//! Versions in paths.

use hugewise_model::Process;

use crate::shared::options;

/// The last version in a path: `19c` of `/opt/oracle/product/19c/dbhome_1`, `7.0.5` of
/// `/opt/mongodb-linux-x86_64-7.0.5/bin/mongod`.
pub(crate) fn in_path(path: &str) -> Option<String> {
    path.split('/').rev().find_map(|part| {
        let last = part.rsplit('-').next()?;
        (is_version(part) || is_version(last))
            .then(|| if is_version(part) { part } else { last }.to_owned())
    })
}

pub(crate) fn of_program(process: &Process) -> Option<String> {
    in_path(process.executable.as_known()?)
}

pub(crate) fn is_short_number(text: &str) -> bool {
    options::is_number(text) && text.len() <= 5
}

fn is_version(text: &str) -> bool {
    let release = ["ai", "c", "g"].iter().find_map(|letters| text.strip_suffix(letters));
    release.is_some_and(is_short_number)
        || (text.contains('.') && text.split('.').all(is_short_number))
}

#[cfg(test)]
mod tests {
    use super::in_path;

    #[test]
    fn a_version_is_a_folder_of_its_own_or_ends_one() {
        for (path, version) in [
            ("/u01/app/oracle/product/19.3.0/dbhome_1", Some("19.3.0")),
            ("/u01/app/oracle/product/12.1.0.2/db_1", Some("12.1.0.2")),
            ("/opt/oracle/product/23ai/dbhomeFree", Some("23ai")),
            ("/opt/oracle/product/18c/dbhomeXE", Some("18c")),
            ("/opt/mongodb-linux-x86_64-ubuntu2204-7.0.5/bin/mongod", Some("7.0.5")),
            ("/usr/bin/mongod", None),
            ("/oracle/PROD/db1", None),
            ("/srv/c/oracle", None),
            ("", None),
        ] {
            assert_eq!(in_path(path).as_deref(), version, "{path}");
        }
    }
}
