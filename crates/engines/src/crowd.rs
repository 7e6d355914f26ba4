//! Whose the sessions of a server are and what they do, where it has far more of them than the processors can serve.
//!
//! That takes a look at the files of each of its processes, and a moment's watching: it is for who looks at a host once.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use hugewise_host::kernel::tcp::{self, Connection};
use hugewise_host::{Door, Source};
use hugewise_model::instance::{Crowd, SessionModel};
use hugewise_model::{Host, Instance, Observed};

/// From so many sessions on they may be a crowd.
pub const LEAST: u64 = 100;
/// And from so many for each processor.
pub const EACH: u64 = 50;

/// How often the states of sessions are looked at.
const LOOKS: u32 = 10;
/// And how far apart.
const APART: Duration = Duration::from_millis(30);
/// Files of one process that are asked about: servers hold their client's socket among the first.
const MOST_FILES: usize = 1024;

/// Sessions for each processor, where these are a crowd.
pub fn of_each_processor(host: &Host, instance: &Instance) -> Option<u64> {
    let sessions = instance.sessions.get().filter(|sessions| *sessions >= LEAST)?;
    sessions.checked_div(host.processors.online.get()?).filter(|each| *each >= EACH)
}

/// Looks at the sessions of all servers that have a crowd of them, each a process.
pub fn look(host: &Host, source: &dyn Source, instances: &mut [Instance]) {
    for instance in instances {
        let by_processes = instance.session_model == SessionModel::Processes && instance.pid != 0;
        if by_processes && of_each_processor(host, instance).is_some() {
            instance.crowd = Observed::Known(of(host, source, instance));
        }
    }
}

fn of(host: &Host, source: &dyn Source, instance: &Instance) -> Crowd {
    let mut crowd = Crowd { clients: clients(source, instance), ..Crowd::default() };
    // What was captured was looked at once, and not for this.
    if !host.live {
        return crowd;
    }
    for look in 0..LOOKS {
        if look > 0 {
            thread::sleep(APART);
        }
        for pid in &instance.pids {
            match source.read(&format!("/proc/{pid}/stat")).known().and_then(|text| state(text)) {
                Some(b'R') => crowd.running += 1,
                Some(b'D') => crowd.waiting += 1,
                _ => {}
            }
        }
        crowd.looks += 1;
    }
    crowd
}

/// The state of /proc/PID/stat: the letter behind the name, which may hold anything.
fn state(text: &[u8]) -> Option<u8> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end + 2).copied()
}

/// The clients of its sessions by address, the most sessions first. A session is a process that holds a connection to the port
/// that most of them have on this side: what they open themselves has a port of its own.
fn clients(source: &dyn Source, instance: &Instance) -> Vec<(IpAddr, u64)> {
    let mut door = Door::new(source);
    let files = tcp::paths(instance.pid);
    let mut by_inode = HashMap::<u64, Connection>::new();
    for path in files {
        let connections = door.parse(&path, tcp::parse);
        let held = connections.known().into_iter().flatten().filter(|it| it.inode != 0);
        by_inode.extend(held.map(|it| (it.inode, *it)));
    }
    if by_inode.is_empty() {
        return Vec::new();
    }
    let held: Vec<Vec<Connection>> = instance.pids.iter().map(|pid| connections_of(source, *pid, &by_inode)).collect();
    let mut ports = BTreeMap::<u16, u64>::new();
    for connection in held.iter().flatten() {
        *ports.entry(connection.local_port).or_default() += 1;
    }
    let Some((port, _)) = ports.into_iter().max_by_key(|(_, count)| *count) else { return Vec::new() };
    let mut clients = BTreeMap::<IpAddr, u64>::new();
    for of_one in held {
        if let Some(client) = of_one.iter().find(|it| it.local_port == port) {
            *clients.entry(client.peer).or_default() += 1;
        }
    }
    let mut clients: Vec<_> = clients.into_iter().collect();
    clients.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), *address));
    clients
}

fn connections_of(source: &dyn Source, pid: u32, by_inode: &HashMap<u64, Connection>) -> Vec<Connection> {
    let folder = format!("/proc/{pid}/fd");
    let names = source.list(&folder);
    let sockets = names.known().into_iter().flatten().take(MOST_FILES);
    sockets
        .filter_map(|name| {
            let link = source.link(&format!("{folder}/{name}"));
            by_inode.get(&inode(link.known()?)?).copied()
        })
        .collect()
}

/// `socket:[20777]`
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_stands_behind_the_name_whatever_that_is() {
        assert_eq!(state(b"812 (oracle) S) R 1 2 3"), Some(b'R'));
        assert_eq!(state(b"812 (postgres) D 1"), Some(b'D'));
        assert_eq!(state(b"812 (postgres)"), None);
        assert_eq!(state(b""), None);
        assert_eq!(inode("socket:[20777]"), Some(20777));
        assert_eq!(inode("/var/log/socket:[1]"), None);
    }
}
