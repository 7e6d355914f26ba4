//! Asks running servers, for `--connect`; everything else in this crate only reads. The server's
//! own client program runs as the server's account, so that it needs no password; none is ever
//! asked for or passed.

use std::time::Duration;

use hugewise_model::{Host, Instance, Process, Reason, Unread};

use crate::EngineKind;
use crate::shared::client::{Client, ClientAccount};
use crate::shared::live_query::{ApplyLiveReply, BuildLiveQuery, NoAnswer, SocketPaths};
use crate::shared::options;

const PATIENCE: Duration = Duration::from_secs(5);

/// Asks each instance that has a client program; its answers replace what was read. Returns the
/// instances that did not answer.
pub fn query_instances(host: &Host, instances: &mut [Instance]) -> Vec<Unread> {
    let mut unread = Vec::new();
    for instance in instances.iter_mut().filter(|instance| !instance.is_stopped()) {
        let Some((question, answer)) = EngineKind::for_engine(instance.engine).connect else {
            continue;
        };
        if let Err(why) = query_instance(host, instance, question, answer) {
            unread.push(Unread::new(instance.title(), Reason::from_text(why.to_string())));
        }
    }
    unread
}

fn query_instance(
    host: &Host,
    instance: &mut Instance,
    question: BuildLiveQuery,
    answer: ApplyLiveReply,
) -> Result<(), NoAnswer> {
    if !host.live {
        return Err(NoAnswer::Captured);
    }
    let main = host.find_process(instance.pid).ok_or(NoAnswer::Ended)?;
    if main.caller.is_some() {
        return Err(NoAnswer::SetUserId);
    }
    if rustix::process::geteuid().is_root() {
        check_account(host, main)?;
    }
    let question = question(instance, &SocketPaths::new(host, main))?;
    let account = ClientAccount { uid: main.uid, gid: main.gid };
    let client = Client::find_in_folders(question.programs, &client_folders(host, main), account)?
        .without_passwords();
    let text = client.run(&question.arguments, PATIENCE)?;
    answer(host, instance, &text)
}

/// A client runs as the account of its server, and reads what that sends it: who answers may be
/// anybody in a container, where root is root of the host.
fn check_account(host: &Host, main: &Process) -> Result<(), NoAnswer> {
    if main.uid == 0 {
        return Err(NoAnswer::Root);
    }
    if main.gid == 0 && options::foreign_surroundings(host, main).is_some() {
        return Err(NoAnswer::GroupOfRoot);
    }
    Ok(())
}

/// Folders with client programs: next to the server first, unless its files are a container's.
fn client_folders(host: &Host, main: &Process) -> Vec<String> {
    let own = main.executable.as_known().filter(|_| !options::sees_other_files(host, main));
    let own = own.and_then(|path| Some(path.rsplit_once('/')?.0.to_owned()));
    let beside = own
        .iter()
        .filter_map(|folder| folder.strip_suffix("/sbin"))
        .map(|folder| format!("{folder}/bin"));
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
        let mut found = crate::find_instances(&host, &hugewise_host::source::MapSource::new());
        let unread = query_instances(&host, &mut found.instances);
        assert_eq!(unread.len(), 1);
        assert_eq!(unread[0].why.to_string(), "a captured host cannot be asked");
    }

    #[test]
    fn no_client_runs_with_roots_rights() {
        let mut host = Host::default();
        host.namespaces.mount = Observed::Known(1);
        let of = |uid, gid, mount| {
            let mut main = Process { uid, gid, ..Process::default() };
            main.namespaces.mount = Observed::Known(mount);
            check_account(&host, &main).is_ok()
        };
        assert_eq!((of(0, 0, 1), of(0, 5, 2), of(102, 0, 2)), (false, false, false));
        assert_eq!((of(102, 104, 1), of(102, 0, 1), of(102, 104, 2)), (true, true, true));
    }

    #[test]
    fn clients_are_looked_for_next_to_their_server() {
        let host = Host::default();
        let mut main = Process {
            executable: Observed::Known("/opt/my/sbin/mysqld".into()),
            ..Process::default()
        };
        assert_eq!(client_folders(&host, &main)[..3], ["/opt/my/sbin", "/opt/my/bin", "/usr/bin"]);
        main.executable = Observed::Denied;
        assert_eq!(client_folders(&host, &main)[0], "/usr/bin");
    }
}
