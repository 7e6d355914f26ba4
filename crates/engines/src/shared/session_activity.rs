//! Clients and states of a server's sessions, where it has far more than the processors can serve.
//! States are seen twice: when the processes are read, and after everything else was.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::each_known;
use hugewise_host::kernel::tcp::{self, TcpConnection};
use hugewise_host::{FactReader, Source};
use hugewise_model::instance::{SessionActivity, SessionModel};
use hugewise_model::{Host, Instance, Observed};

/// The fewest sessions that are a crowd.
pub const LEAST: u64 = 100;
/// The fewest sessions for each processor that are a crowd.
pub const EACH: u64 = 50;
/// Files of one process that are looked at: a client's socket is among the first.
const MOST_FILES: usize = 1024;

/// Sessions for each processor, where they are a crowd.
pub fn of_each_processor(host: &Host, instance: &Instance) -> Option<u64> {
    let sessions = instance.sessions.get().filter(|sessions| *sessions >= LEAST)?;
    sessions.checked_div(host.processors.online.get()?).filter(|each| *each >= EACH)
}

/// Fills in the sessions of all servers with a crowd of them, each a process. With `earlier`, for
/// repeated readings, no stranger's files are looked at: that takes as long as he wants.
pub fn measure_session_activity(
    host: &Host,
    source: &dyn Source,
    instances: &mut [Instance],
    earlier: Option<&[Instance]>,
) {
    for instance in instances {
        let by_processes = instance.session_model == SessionModel::Processes && instance.pid != 0;
        if !by_processes || of_each_processor(host, instance).is_none() {
            continue;
        }
        let clients = match earlier {
            Some(_) if !instance.is_trusted() => Vec::new(),
            Some(earlier) => {
                clients_before(earlier, instance).unwrap_or_else(|| count_clients(source, instance))
            }
            None => count_clients(source, instance),
        };
        // What was captured was looked at once, and not for this.
        let states = host.live.then(|| count_states(host, source, &instance.pids));
        instance.session_activity =
            Observed::Known(SessionActivity { clients, ..states.unwrap_or_default() });
    }
}

fn clients_before(earlier: &[Instance], instance: &Instance) -> Option<Vec<(IpAddr, u64)>> {
    let before = earlier.iter().find(|before| before.pids == instance.pids)?;
    Some(before.session_activity.as_known()?.clients.clone())
}

fn count_states(host: &Host, source: &dyn Source, pids: &[u32]) -> SessionActivity {
    let both_states = |pid: u32| {
        let process = host.find_process(pid);
        let at_first = process.and_then(|process| process.state);
        // Who has not run since is where he was.
        let ran = process.and_then(|process| process.cpu_time);
        if ran.is_some() && source.processes().cpu_time(pid).get() == ran {
            return [at_first, at_first];
        }
        let stat = source.read(&format!("/proc/{pid}/stat"));
        [at_first, stat.as_known().and_then(|stat| parse_process_state(stat))]
    };
    let mut activity = SessionActivity { looks: 2, ..SessionActivity::default() };
    for state in pids.iter().flat_map(|pid| both_states(*pid)) {
        match state {
            Some(b'R') => activity.running += 1,
            Some(b'D') => activity.waiting += 1,
            _ => {}
        }
    }
    activity
}

/// The state in /proc/PID/stat: the letter behind the name, which may hold anything.
fn parse_process_state(text: &[u8]) -> Option<u8> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end + 2).copied()
}

/// The clients by address, the most sessions first. A session is a process with a connection to
/// the local port that most have: connections that they open themselves have ports of their own.
fn count_clients(source: &dyn Source, instance: &Instance) -> Vec<(IpAddr, u64)> {
    let mut facts = FactReader::new(source);
    let mut by_inode = HashMap::<u64, TcpConnection>::new();
    for path in tcp::tcp_paths(instance.pid) {
        let connections = facts.parse(&path, tcp::parse);
        let held = each_known(&connections).filter(|connection| connection.inode != 0);
        by_inode.extend(held.map(|connection| (connection.inode, *connection)));
    }
    if by_inode.is_empty() {
        return Vec::new();
    }
    let held: Vec<Vec<TcpConnection>> =
        instance.pids.iter().map(|pid| connections_of(source, *pid, &by_inode)).collect();
    let mut ports = BTreeMap::<u16, u64>::new();
    for connection in held.iter().flatten() {
        *ports.entry(connection.local_port).or_default() += 1;
    }
    let Some((port, _)) = ports.into_iter().max_by_key(|(_, count)| *count) else {
        return Vec::new();
    };
    let mut clients = BTreeMap::<IpAddr, u64>::new();
    for of_one in held {
        if let Some(client) = of_one.iter().find(|connection| connection.local_port == port) {
            *clients.entry(client.peer).or_default() += 1;
        }
    }
    let mut clients: Vec<_> = clients.into_iter().collect();
    clients.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), *address));
    clients
}

fn connections_of(
    source: &dyn Source,
    pid: u32,
    by_inode: &HashMap<u64, TcpConnection>,
) -> Vec<TcpConnection> {
    let folder = format!("/proc/{pid}/fd");
    let names = source.list_folder(&folder);
    let sockets = each_known(&names).take(MOST_FILES);
    sockets
        .filter_map(|name| {
            let link = source.read_link(&format!("{folder}/{name}"));
            by_inode.get(&parse_socket_inode(link.as_known()?)?).copied()
        })
        .collect()
}

fn parse_socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hugewise_host::source::MapSource;
    use hugewise_model::Process;

    use super::*;
    use crate::testing;

    #[test]
    fn states_are_seen_when_the_processes_are_read_and_once_more() {
        let process = |pid, state| Process { pid, state: Some(state), ..Process::default() };
        let processes = testing::known([process(1, b'R'), process(2, b'S'), process(3, b'D')]);
        let host = Host { live: true, processes, ..Host::default() };
        let source = MapSource::new()
            .with_file("/proc/1/stat", "1 (postgres) R 1")
            .with_file("/proc/2/stat", "2 (postgres) D 1");
        let activity = count_states(&host, &source, &[1, 2, 3]);
        assert_eq!((activity.looks, activity.running, activity.waiting), (2, 2, 2));
    }

    #[test]
    fn who_has_not_run_since_is_not_read_again() {
        let ran = Duration::from_nanos(7);
        let process =
            |pid| Process { pid, state: Some(b'D'), cpu_time: Some(ran), ..Process::default() };
        let processes = testing::known([process(1), process(2)]);
        let host = Host { live: true, processes, ..Host::default() };
        let source = MapSource::new()
            .with_file("/proc/1/stat", "1 (postgres) R 1")
            .with_file("/proc/2/stat", "2 (postgres) R 1")
            .cpu_time(1, ran)
            .cpu_time(2, ran + Duration::from_nanos(1));
        let activity = count_states(&host, &source, &[1, 2]);
        assert_eq!((activity.running, activity.waiting), (1, 3));
    }

    #[test]
    fn a_state_stands_behind_the_name_whatever_that_is() {
        assert_eq!(parse_process_state(b"812 (oracle) S) R 1 2 3"), Some(b'R'));
        assert_eq!(parse_process_state(b"812 (postgres) D 1"), Some(b'D'));
        assert_eq!(parse_process_state(b"812 (postgres)"), None);
        assert_eq!(parse_process_state(b""), None);
        assert_eq!(parse_socket_inode("socket:[20777]"), Some(20777));
        assert_eq!(parse_socket_inode("/var/log/socket:[1]"), None);
    }
}
