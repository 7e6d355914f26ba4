//! Asks the running servers themselves, for `--connect`.
//!
//! Everything else in this crate looks on. This runs the server's own client program as the
//! account that the server runs under, so that the server lets it in without a password; none is
//! ever asked for or passed.

pub mod client;

use std::time::Duration;

use hugewise_model::{Host, Instance, Process, Unread};

use crate::{Kind, options};
use client::{Account, Client};

/// How long a server may think about its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question to one server: a client program, its arguments, and where to look for it.
pub(crate) struct Question {
    /// Names of the program, the best first.
    pub(crate) programs: &'static [&'static str],
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
}

/// How a running server is asked.
pub(crate) type Ask = fn(&Instance, &Sockets<'_>) -> Result<Question, String>;
/// How its answer is taken in.
pub(crate) type Answer = fn(&Host, &mut Instance, &str) -> Result<(), String>;

/// Asks each instance that has a client program for what it knows better than its files. What it
/// answers replaces what was read; an instance that does not answer is left as it is, and named.
pub fn ask(host: &Host, instances: &mut [Instance]) -> Vec<Unread> {
    let mut unread = Vec::new();
    for instance in instances {
        let Some((question, answer)) = Kind::of(instance.engine).connect else { continue };
        if let Err(why) = put(host, instance, question, answer) {
            unread.push(Unread { what: instance.title(), why });
        }
    }
    unread
}

fn put(host: &Host, instance: &mut Instance, question: Ask, answer: Answer) -> Result<(), String> {
    if !host.live {
        return Err("a captured host cannot be asked".into());
    }
    let main = host.process(instance.pid).ok_or("its process has ended")?;
    let question = question(instance, &Sockets { host, main })?;
    let account = Account { uid: main.uid, gid: main.gid };
    let client = Client::find(question.programs, &folders(host, main), account)?;
    let text = client.run(&question.arguments, PATIENCE)?;
    answer(host, instance, &text)
}

/// Folders with client programs: next to the server first, unless the server's files are a container's.
fn folders(host: &Host, main: &Process) -> Vec<String> {
    let own = main.executable.known().filter(|_| !options::sees_other_files(host, main));
    let own = own.and_then(|path| Some(path.rsplit_once('/')?.0.to_owned()));
    let beside = own.iter().filter_map(|folder| folder.strip_suffix("/sbin")).map(|folder| format!("{folder}/bin"));
    let usual = ["/usr/bin", "/usr/local/bin", "/bin"].map(String::from);
    own.iter().cloned().chain(beside).chain(usual).collect()
}

/// Finds the way to a server's socket.
pub(crate) struct Sockets<'a> {
    host: &'a Host,
    main: &'a Process,
}

impl Sockets<'_> {
    /// The path under which we reach a socket that the server names so; `shown` is what the client
    /// is told, which may be its folder. A socket's address has room for 107 bytes (unix(7)).
    pub(crate) fn reach(&self, socket: &str) -> Result<String, String> {
        // psql takes anything else for the name of a host, and a comma for another one: nothing goes over the net.
        if !socket.starts_with('/') || socket.contains(',') {
            return Err(format!("its socket {socket} is not a path"));
        }
        let path = options::as_reader_opens(self.host, self.main, socket);
        if path.len() > 107 {
            return Err(format!("{path} is too long for a socket's address; ask inside its container"));
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
    use super::*;
    use crate::testing;
    use hugewise_model::Observed;

    #[test]
    fn a_captured_host_is_not_asked() {
        let main = Process {
            pid: 9,
            command: Observed::Known(vec!["mysqld".into()]),
            executable: Observed::Known("/usr/sbin/mysqld".into()),
            ..Process::default()
        };
        let host = Host { processes: testing::known([main]), ..Host::default() };
        let mut found = crate::find(&host, &hugewise_host::source::MapSource::new());
        let unread = ask(&host, &mut found.instances);
        assert_eq!(unread.len(), 1);
        assert_eq!(unread[0].why, "a captured host cannot be asked");
    }

    #[test]
    fn clients_are_looked_for_next_to_their_server() {
        let host = Host::default();
        let mut main = Process { executable: Observed::Known("/opt/my/sbin/mysqld".into()), ..Process::default() };
        assert_eq!(folders(&host, &main)[..3], ["/opt/my/sbin", "/opt/my/bin", "/usr/bin"]);
        main.executable = Observed::Denied;
        assert_eq!(folders(&host, &main)[0], "/usr/bin");
    }

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
