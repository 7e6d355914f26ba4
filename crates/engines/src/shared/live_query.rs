//! How an engine's servers are asked, and how their answers are applied.

use hugewise_model::{Host, Instance, Process};
use rustix::fs::Mode;

use crate::shared::client::ClientError;
use crate::shared::options;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("a captured host cannot be asked")]
    Captured,
    /// It ran when the host was read.
    #[error("its process has ended")]
    Ended,
    /// Who started it is another than the account that a client would run as.
    #[error("it is a set-user-ID program, so its account may not have started it")]
    SetUserId,
    /// No client runs as root: it would do for a server what that account may not.
    #[error(
        "root runs it, and no client is run as root; run the server as an account of its own, or \
         ask it with its own client"
    )]
    Root,
    /// Its group is root's on the host, where the client would run.
    #[error("it runs in a container as root's group; ask it inside its container")]
    GroupOfRoot,
    /// What to do about a socket that neither its files nor the kernel tell.
    #[error("its socket is not known{0}")]
    NoSocket(&'static str),
    /// The path could be the name of another host.
    #[error("its socket {0} is not a path")]
    NoPath(String),
    /// A socket's address has no room for it.
    #[error("{0} is too long for a socket's address; ask inside its container")]
    LongPath(String),
    /// Who answers there may be anybody.
    #[error("its socket {0} is not its account's, or lies where others can put one")]
    OfOthers(String),
    #[error("{0} answer that makes sense")]
    Senseless(&'static str),
    #[error(transparent)]
    Client(#[from] ClientError),
}

pub(crate) struct LiveQuery {
    pub(crate) programs: &'static [&'static str],
    pub(crate) arguments: Vec<String>,
}

pub(crate) type BuildLiveQuery = fn(&Instance, &SocketPaths<'_>) -> Result<LiveQuery, NoAnswer>;
pub(crate) type ApplyLiveReply = fn(&Host, &mut Instance, &str) -> Result<(), NoAnswer>;

pub(crate) struct SocketPaths<'a> {
    host: &'a Host,
    main: &'a Process,
}

impl<'a> SocketPaths<'a> {
    pub(crate) const fn new(host: &'a Host, main: &'a Process) -> Self {
        Self { host, main }
    }

    /// The path by which the reader reaches a server's socket; unix(7) has room for 107 bytes.
    pub(crate) fn resolve_socket(&self, socket: &str) -> Result<String, NoAnswer> {
        // psql takes anything else for a host and a comma for another: nothing goes over the net.
        if !socket.starts_with('/') || socket.contains(',') {
            return Err(NoAnswer::NoPath(socket.to_owned()));
        }
        let path = options::as_reader_opens(self.host, self.main, socket);
        if path.len() > 107 {
            return Err(NoAnswer::LongPath(path));
        }
        if self.host.live && !self.is_of_account(&path) {
            return Err(NoAnswer::OfOthers(path));
        }
        Ok(path)
    }

    /// Whether only root and the server's account can have bound the socket: whoever may write to
    /// its folder can bind one in the place of one that is gone.
    fn is_of_account(&self, path: &str) -> bool {
        let own = |uid: u32| uid == 0 || uid == self.main.uid;
        let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
        let (Ok(socket), Ok(folder)) =
            (rustix::fs::lstat(path), rustix::fs::stat(format!("{folder}/")))
        else {
            return false;
        };
        let mode = Mode::from_raw_mode(folder.st_mode);
        // In a folder with the sticky bit nobody else can replace what is there.
        let is_open = mode.contains(Mode::WOTH)
            || (mode.contains(Mode::WGRP) && ![0, self.main.gid].contains(&folder.st_gid));
        own(socket.st_uid) && own(folder.st_uid) && (!is_open || mode.contains(Mode::SVTX))
    }
}

/// Lines of fields between tabs, the first of which is a name.
pub(crate) fn parse_rows(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?, fields.next()?, fields.next().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;

    #[test]
    fn a_socket_in_a_container_is_reached_through_its_root() {
        let mut host = Host::default();
        let mut main = Process { pid: 9, ..Process::default() };
        host.namespaces.mount = Observed::Known(1);
        main.namespaces.mount = Observed::Known(2);
        let sockets = SocketPaths { host: &host, main: &main };
        assert_eq!(sockets.resolve_socket("/run/s").unwrap(), "/proc/9/root/run/s");
        assert!(sockets.resolve_socket(&format!("/{}", "x".repeat(107))).is_err());
        assert!(sockets.resolve_socket("db.example.org/.s.PGSQL.5432").is_err());
        assert!(sockets.resolve_socket("/tmp,db.example.org/.s.PGSQL.5432").is_err());
        assert!(sockets.resolve_socket("-h/.s.PGSQL.5432").is_err());
    }

    /// A name that is gone from /tmp is anybody's to bind.
    #[test]
    fn nobody_is_asked_where_somebody_else_can_answer() {
        use std::os::unix::fs::{PermissionsExt, chown};
        if !rustix::process::geteuid().is_root() {
            return hugewise_testkit::Skip("only root gives files away".into()).report();
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let host = Host { live: true, ..Host::default() };
        let main = Process { pid: 9, uid: 4242, gid: 4242, ..Process::default() };
        let is_asked = |owner: u32, folder_owner: u32, folder_mode: u32| {
            chown(&socket, Some(owner), None).unwrap();
            chown(folder.path(), Some(folder_owner), Some(4242)).unwrap();
            let mode = std::fs::Permissions::from_mode(folder_mode);
            std::fs::set_permissions(folder.path(), mode).unwrap();
            let sockets = SocketPaths { host: &host, main: &main };
            sockets.resolve_socket(socket.to_str().unwrap()).is_ok()
        };
        assert!(is_asked(4242, 4242, 0o755) && is_asked(4242, 0, 0o1777));
        assert!(is_asked(4242, 0, 0o2775), "a folder of its own group's");
        assert!(!is_asked(4343, 0, 0o1777) && !is_asked(4242, 0, 0o777));
        assert!(!is_asked(4242, 4343, 0o755));
    }
}
