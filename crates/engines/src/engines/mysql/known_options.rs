//! Names of options: a server does not start with unknown ones in its files (mysys/my_getopt.c:
//! "unknown variable").
//!
//! `names.txt` has those that `mariadbd --verbose --help` of 10.11.19 prints, and those in the
//! reference manuals of MySQL up to 8.4 and of MariaDB up to 11.8, plugins among them. Releases are
//! not told apart.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::values::{Dialect, PREFIXES};

static NAMES: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| include_str!("names.txt").lines().collect());

/// Prefixes of plugins' options that are in no manual's list.
const OF_PLUGINS: [&str; 13] = [
    "audit_log_",
    "authentication_",
    "columnstore_",
    "connect_",
    "keyring_",
    "mroonga_",
    "ndb_",
    "ndbcluster",
    "rocksdb_",
    "server_audit_",
    "spider_",
    "thread_pool_",
    "tokudb_",
];

/// Whether no server of this release knows an option, with dashes or underscores. False for
/// releases beyond the list, and behind `loose-`, which only warns.
pub(super) fn is_unknown(name: &str, dialect: Dialect) -> bool {
    let last = if dialect.mariadb { (11, 8) } else { (8, 4) };
    if dialect.version.is_none_or(|version| (version.0, version.1) > last) {
        return false;
    }
    let plain = name.trim().to_ascii_lowercase().replace('-', "_");
    let mut rest = plain.as_str();
    while !is_known(rest) {
        match PREFIXES.into_iter().find_map(|prefix| Some((prefix, rest.strip_prefix(prefix)?))) {
            Some(("loose_", _)) => return false,
            Some((_, behind)) => rest = behind,
            None => return true,
        }
    }
    false
}

fn is_known(name: &str) -> bool {
    let begins = || NAMES.range(name..).next().is_some_and(|next| next.starts_with(name));
    begins() || OF_PLUGINS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARIADB: Dialect = Dialect { mariadb: true, version: Some((10, 11, 19)) };

    /// As mariadbd 10.11.19 takes them from a file: "unknown variable", "unknown option", or not.
    #[test]
    fn names_that_no_server_knows() {
        for name in [
            "nosuchoption",
            "set-variable",
            "innodb-bufer-pool-size",
            "skip-nosuch",
            "innodb_log_file_sizes",
            "thread",
        ] {
            assert_eq!(is_unknown(name, MARIADB), name != "thread", "{name}");
        }
        for name in [
            "loose-nosuchoption",
            "loose_skip_nosuch",
            "skip-loose-nosuchoption",
            "max-conn",
            "LARGE-PAGES",
            "skip-large-pages",
            "innodb_file_per_table",
            "maximum-max-connections",
            "server_audit_logging",
            "wsrep_provider",
            "plugin_load_add",
            "log-error",
            "default-authentication-plugin",
            "user",
            "port",
        ] {
            assert!(!is_unknown(name, MARIADB), "{name}");
        }
        // What a release that came later knows is not known here.
        assert!(!is_unknown("nosuchoption", Dialect { version: Some((12, 1, 2)), ..MARIADB }));
        assert!(!is_unknown("nosuchoption", Dialect { version: None, ..MARIADB }));
        assert!(is_unknown("nosuchoption", Dialect { mariadb: false, version: Some((8, 0, 36)) }));
    }

    #[test]
    fn every_setting_that_is_read_is_among_them() {
        // `include` and `includedir` are no options: the lines with a `!` are.
        for name in
            super::super::KIND.capture.settings.iter().filter(|name| !name.starts_with("include"))
        {
            assert!(is_known(name), "{name}");
        }
        assert!(
            NAMES
                .iter()
                .all(|name| name.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_'))
        );
    }
}
