//! Accounts that no file knows: of LDAP, SSSD, systemd-homed. The C library's own modules answer
//! for them, asked through getent(1), which runs in a cage: in this program they would read what a
//! directory says with root's rights.

use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hugewise_model::Host;
use hugewise_model::host::{AccountGroup, User};

use crate::accounts;
use crate::sandbox::{Sandbox, SandboxedRun};
use hugewise_source::sys::ResourceBounds;

const GETENT: &str = "/usr/bin/getent";
const PATIENCE: Duration = Duration::from_secs(5);
/// No account has a longer line; of a group, its members are not asked for.
const LONGEST: u64 = 64 << 10;
/// More owners of servers than any host has.
const MOST: usize = 16;
const BOUNDS: ResourceBounds =
    ResourceBounds { seconds: 5, memory: 1 << 30, file: 0, descriptors: 64, processes: 16 };

/// Adds the accounts of these users, and their groups' names, where no file knows them; whether any
/// was added. What is in a file the directory cannot change.
pub fn add(host: &mut Host, users: impl IntoIterator<Item = u32>) -> bool {
    add_by(host, users, &run_getent)
}

fn add_by(
    host: &mut Host,
    users: impl IntoIterator<Item = u32>,
    ask: &dyn Fn(&str, u32) -> Option<String>,
) -> bool {
    let known = &host.accounts.users;
    // Without the file itself nobody knows who is in it.
    let mut unknown: Vec<u32> =
        users.into_iter().filter(|uid| !known.is_empty() && !known.contains_key(uid)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    let before = host.accounts.users.len();
    for uid in unknown.into_iter().take(MOST).filter(|_| host.live) {
        let Some(user) = ask("passwd", uid).and_then(|said| parse_getent_user(&said, uid)) else {
            continue;
        };
        // A name of the files belongs to whom they say.
        if host.accounts.users.values().any(|known| known.name == user.name) {
            continue;
        }
        let gid = user.gid;
        host.accounts.users.insert(uid, user);
        if !host.accounts.groups.is_empty() && !host.accounts.groups.contains_key(&gid) {
            let group = ask("group", gid).and_then(|said| parse_getent_group(&said, gid));
            let taken = |group: &AccountGroup| {
                host.accounts.groups.values().any(|known| known.name == group.name)
            };
            if let Some(group) = group.filter(|group| !taken(group)) {
                host.accounts.groups.insert(gid, group);
            }
        }
    }
    host.accounts.users.len() > before
}

/// `None` where it is not the one that was asked for, or is not called as users are.
fn parse_getent_user(said: &str, uid: u32) -> Option<User> {
    let line = only_line(said, 7)?;
    let mut users = accounts::parse_users(line.as_bytes());
    users.remove(&uid).filter(|user| is_plain(&user.name) && uid != 0 && user.gid != u32::MAX)
}

fn parse_getent_group(said: &str, gid: u32) -> Option<AccountGroup> {
    let line = only_line(said, 4)?;
    let group = accounts::parse_groups(line.as_bytes()).remove(&gid)?;
    // The directory was not asked for members; the kernel knows the groups of a process.
    Some(AccountGroup { members: Vec::new(), other_names: Vec::new(), ..group })
        .filter(|group| is_plain(&group.name) && gid != 0)
}

fn only_line(said: &str, fields: usize) -> Option<&str> {
    let line = said.strip_suffix('\n')?;
    (!line.contains('\n') && line.split(':').count() == fields).then_some(line)
}

/// useradd(8) takes such names: they stand in files and commands as they are.
fn is_plain(name: &str) -> bool {
    let first = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    first
        && name.len() <= 32
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter))
}

fn run_getent(table: &str, number: u32) -> Option<String> {
    let arguments = [table.to_owned(), number.to_string()];
    let run = SandboxedRun {
        arguments: &arguments,
        folder: Path::new("/"),
        environment: &[],
        input: false,
        offline: false,
        bounds: BOUNDS,
    };
    let mut caged = Sandbox::new().run(GETENT, run).ok()?;
    let output = caged.take_stdout()?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.take(LONGEST).read_to_string(&mut text).ok().map(|_| text)
    });
    let begun = Instant::now();
    let ended = loop {
        match caged.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if begun.elapsed() < PATIENCE && !reader.is_finished() => {
                thread::sleep(Duration::from_millis(5))
            }
            Ok(None) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(1)),
            _ => break false,
        }
    };
    // With it goes whoever might keep its output open.
    let _ = caged.kill_and_wait();
    reader.join().ok().flatten().filter(|_| ended)
}

#[cfg(test)]
mod tests {
    use hugewise_testkit::Skip;

    use super::*;

    fn host() -> Host {
        let mut host = Host { live: true, ..Host::default() };
        host.accounts.users.insert(0, User { name: "root".into(), gid: 0, home: None });
        host.accounts.users.insert(26, User { name: "postgres".into(), gid: 26, home: None });
        host.accounts
            .groups
            .insert(0, AccountGroup { name: "root".into(), ..AccountGroup::default() });
        host
    }

    fn said(answer: &str) -> Host {
        let mut host = host();
        add_by(&mut host, [4242, 26], &|table, number| {
            assert!(number != 26, "who is in a file is not asked for");
            match table {
                "passwd" => Some(answer.to_owned()),
                _ => Some("dba:*:4343:everybody,else\n".into()),
            }
        });
        host
    }

    #[test]
    fn what_a_directory_knows_is_added() {
        let host = said("oracle:*:4242:4343:Oracle, Inc.:/home/oracle:/bin/bash\n");
        assert_eq!(host.accounts.user_name(4242), "oracle");
        assert_eq!(
            host.accounts.groups.get(&4343).map(|group| (group.name.as_str(), group.members.len())),
            Some(("dba", 0))
        );
    }

    #[test]
    fn what_makes_no_sense_or_takes_what_is_anothers_is_not_believed() {
        for answer in [
            "",
            "oracle:*:4242:4343:::",
            "oracle:*:4343:4343:::\n",
            "oracle:*:0:0:::\n",
            "root:*:4242:0:::\n",
            "postgres:*:4242:26:::\n",
            "oracle:*:4242:4343:::\nx:*:4242:1:::\n",
            "-rf:*:4242:4343:::\n",
            "4242:*:4242:4343:::\n",
            "@wheel:*:4242:4343:::\n",
            "*:*:4242:4343:::\n",
            "a b:*:4242:4343:::\n",
            "a;id:*:4242:4343:::\n",
            "\u{1b}[2J:*:4242:4343:::\n",
            "a/../b:*:4242:4343:::\n",
            "ürgen:*:4242:4343:::\n",
            "+oracle:*:4242:4343:::\n",
            "oracle:*:4242:4343\n",
            "oracle:*:4242:-1:::\n",
        ] {
            assert_eq!(said(answer).accounts.user_name(4242), "4242", "{answer:?}");
        }
        let long = format!("{}:*:4242:4343:::\n", "a".repeat(33));
        assert_eq!(said(&long).accounts.user_name(4242), "4242");
    }

    #[test]
    fn of_a_captured_host_nobody_is_asked() {
        let mut host = Host { live: false, ..host() };
        assert!(!add_by(&mut host, [4242], &|_, _| panic!("asked")));
        let mut empty = Host { live: true, ..Host::default() };
        assert!(!add_by(&mut empty, [4242], &|_, _| panic!("asked")));
    }

    #[test]
    fn getent_itself_answers_in_its_cage() {
        if !Path::new(GETENT).exists() {
            return Skip(format!("no {GETENT}")).report();
        }
        assert!(
            run_getent("passwd", 0).is_some_and(|said| said.starts_with("root:")),
            "{:?}",
            run_getent("passwd", 0)
        );
        assert_eq!(run_getent("passwd", 3_999_999_999), None);
    }
}
