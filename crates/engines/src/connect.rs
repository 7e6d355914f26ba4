//! Asks the running servers themselves, for `--connect`.
//!
//! Everything else in this crate looks on. This runs the server's own client program as the
//! account that the server runs under, so that the server lets it in without a password; none is
//! ever asked for or passed.

use std::time::Duration;

use hugewise_model::{Host, Instance, Process, Reason, Unread};

use crate::client::{Account, Client};
use crate::question::{Answer, Ask, NoAnswer, Sockets};
use crate::{Kind, options};

/// How long a server may think about its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks each instance that has a client program for what it knows better than its files. What it
/// answers replaces what was read; an instance that does not answer is left as it is, and named.
pub fn ask(host: &Host, instances: &mut [Instance]) -> Vec<Unread> {
    let mut unread = Vec::new();
    for instance in instances.iter_mut().filter(|instance| !instance.is_asleep()) {
        let Some((question, answer)) = Kind::of(instance.engine).connect else { continue };
        if let Err(why) = put(host, instance, question, answer) {
            unread.push(Unread::new(instance.title(), Reason::untold(why.to_string())));
        }
    }
    unread
}

fn put(host: &Host, instance: &mut Instance, question: Ask, answer: Answer) -> Result<(), NoAnswer> {
    if !host.live {
        return Err(NoAnswer::Captured);
    }
    let main = host.process(instance.pid).ok_or(NoAnswer::Ended)?;
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
        assert_eq!(unread[0].why.to_string(), "a captured host cannot be asked");
    }

    #[test]
    fn clients_are_looked_for_next_to_their_server() {
        let host = Host::default();
        let mut main = Process { executable: Observed::Known("/opt/my/sbin/mysqld".into()), ..Process::default() };
        assert_eq!(folders(&host, &main)[..3], ["/opt/my/sbin", "/opt/my/bin", "/usr/bin"]);
        main.executable = Observed::Denied;
        assert_eq!(folders(&host, &main)[0], "/usr/bin");
    }
}
