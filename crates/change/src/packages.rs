//! Folders that distributions' packages make for servers' settings: a plan writes into no others.

/// Whether a folder of option files is one that MySQL's and MariaDB's packages make: what a server's own files include is
/// its owner's word.
pub(crate) fn mysql_folder(folder: &str) -> bool {
    const FOLDERS: [&str; 6] = [
        // RHEL, Oracle Linux, SLES.
        "/etc/my.cnf.d",
        "/etc/mysql/my.cnf.d",
        // Debian and Ubuntu.
        "/etc/mysql/conf.d",
        "/etc/mysql/mariadb.conf.d",
        "/etc/mysql/mysql.conf.d",
        // Percona.
        "/etc/percona-server.conf.d",
    ];
    FOLDERS.contains(&folder)
}

/// Whether a folder is that of a cluster of Debian's packages: `/etc/postgresql/15/main/conf.d`. Elsewhere the server
/// keeps its settings itself (ALTER SYSTEM).
pub(crate) fn postgresql_folder(folder: &str) -> bool {
    let version = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match folder.split('/').collect::<Vec<_>>().as_slice() {
        ["", "etc", "postgresql", number, cluster, "conf.d"] => {
            version(number) && *number != "." && *number != ".." && plain(cluster) && !cluster.starts_with(['.', '-'])
        }
        _ => false,
    }
}

/// Letters, digits and what names and numbers have besides.
pub(crate) fn plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_ascii_alphanumeric() || "_.,:@-".contains(it))
}
