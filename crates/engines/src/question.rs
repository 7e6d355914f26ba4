//! What an engine says of how its servers are asked, and how it takes their answers in.

use hugewise_model::{Host, Instance, Process};

use crate::client::ClientError;
use crate::options;

/// Why a running server was not asked, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// Nothing of it runs here.
    #[error("a captured host cannot be asked")]
    Captured,
    /// It ran when the host was read.
    #[error("its process has ended")]
    Ended,
    /// Neither its files nor the kernel tell its socket; what to do about it.
    #[error("its socket is not known{0}")]
    NoSocket(&'static str),
    /// What it names as its socket may be the name of another host.
    #[error("its socket {0} is not a path")]
    NoPath(String),
    /// A socket's address has no room for it.
    #[error("{0} is too long for a socket's address; ask inside its container")]
    LongPath(String),
    /// What it answered has nothing in it that was asked for.
    #[error("{0} answer that makes sense")]
    Senseless(&'static str),
    /// Its client program.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A question to one server: a client program, its arguments, and where to look for it.
pub(crate) struct Question {
    /// Names of the program, the best first.
    pub(crate) programs: &'static [&'static str],
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
}

/// How a running server is asked.
pub(crate) type Ask = fn(&Instance, &Sockets<'_>) -> Result<Question, NoAnswer>;
/// How its answer is taken in.
pub(crate) type Answer = fn(&Host, &mut Instance, &str) -> Result<(), NoAnswer>;

/// Finds the way to a server's socket.
pub(crate) struct Sockets<'a> {
    pub(super) host: &'a Host,
    pub(super) main: &'a Process,
}

impl Sockets<'_> {
    /// The path under which we reach a socket that the server names so; `shown` is what the client
    /// is told, which may be its folder. A socket's address has room for 107 bytes (unix(7)).
    pub(crate) fn reach(&self, socket: &str) -> Result<String, NoAnswer> {
        // psql takes anything else for the name of a host, and a comma for another one: nothing goes over the net.
        if !socket.starts_with('/') || socket.contains(',') {
            return Err(NoAnswer::NoPath(socket.to_owned()));
        }
        let path = options::as_reader_opens(self.host, self.main, socket);
        if path.len() > 107 {
            return Err(NoAnswer::LongPath(path));
        }
        Ok(path)
    }
}

/// Lines of fields between tabs, the first of which is a name.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
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
        let sockets = Sockets { host: &host, main: &main };
        assert_eq!(sockets.reach("/run/s").unwrap(), "/proc/9/root/run/s");
        assert!(sockets.reach(&format!("/{}", "x".repeat(107))).is_err());
        assert!(sockets.reach("db.example.org/.s.PGSQL.5432").is_err());
        assert!(sockets.reach("/tmp,db.example.org/.s.PGSQL.5432").is_err());
        assert!(sockets.reach("-h/.s.PGSQL.5432").is_err());
    }
}
