//! Where collectors of this host usually write.

use std::path::{Path, PathBuf};

use hugewise_host::source::files::{self, OpenedPath};

/// Folders of their packages; `*` is any one folder.
const FOLDERS: &[&str] = &[
    // sysstat of Red Hat and its kin, SUSE; of Debian and Ubuntu.
    "/var/log/sa",
    "/var/log/sysstat",
    "/var/log/atop",
    "/var/log/pcp/pmlogger",
    "/var/log/nmon",
    "/var/log/collectl",
    // hugewise's own recorder.
    "/var/lib/hugewise/record",
    // OSWatcher of Oracle's cloud, by hand, and with AHF or TFA; ExaWatcher.
    "/var/log/ops/oswatcher/archive",
    "/opt/oswbb/archive",
    "/opt/oracle.ahf/data/repository/suptools/*/oswbb/*/archive",
    "/opt/oracle.ahf/data/*/diag/oswbb",
    "/opt/oracle.ExaWatcher/archive",
];

pub(crate) fn list_default_locations() -> String {
    FOLDERS.join(", ")
}

pub(crate) fn find_default_locations() -> Vec<PathBuf> {
    FOLDERS.iter().flat_map(|pattern| expand_folder_pattern(Path::new("/"), pattern)).collect()
}

fn expand_folder_pattern(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let step = |folder: PathBuf| {
            if part != "*" {
                return vec![folder.join(part)];
            }
            match files::open_path(&folder) {
                Ok(OpenedPath::Folder(below)) => {
                    below.folder_names().into_iter().map(|name| folder.join(name)).collect()
                }
                _ => Vec::new(),
            }
        };
        found = found.into_iter().flat_map(step).collect();
    }
    found.retain(|path| matches!(files::open_path(path), Ok(OpenedPath::Folder(_))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_folder() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/x/oswbb/root/archive", "a/y/oswbb", "a/z/oswbb/oracle/archive"] {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
        }
        let found = expand_folder_pattern(root.path(), "/a/*/oswbb/*/archive");
        let found: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(root.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(found, ["a/x/oswbb/root/archive", "a/z/oswbb/oracle/archive"]);
        assert!(expand_folder_pattern(root.path(), "/nothing/*").is_empty());
    }
}
