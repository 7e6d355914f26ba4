//! Asks running servers, for `--connect`; everything else in this crate only reads. The server's
//! own client program runs as the server's account, so that it needs no password; none is ever
//! asked for or passed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hugewise_host::source::Owner;
use hugewise_model::{Host, Instance, Process, Reason, Unread};

use crate::EngineKind;
use crate::shared::client::{Client, ClientAccount, ClientError};
use crate::shared::live_query::{ApplyLiveReply, BuildLiveQuery, NoAnswer, SocketPaths};
use crate::shared::options;

/// How long servers are waited for.
#[derive(Clone, Copy, Debug)]
struct QueryLimits {
    /// For one.
    each: Duration,
    /// For all together: anybody can listen at any number of sockets and never answer.
    all: Duration,
    /// Servers that are asked at the same time.
    at_once: usize,
}

const LIMITS: QueryLimits =
    QueryLimits { each: Duration::from_secs(5), all: Duration::from_secs(15), at_once: 8 };

/// Asks each instance that has a client program; its answers replace what was read. Returns the
/// instances that did not answer, or were not asked any more.
pub fn query_instances(host: &Host, instances: &mut [Instance]) -> Vec<Unread> {
    query_within(host, instances, LIMITS)
}

/// A server's client, ready to run.
struct ReadyQuery {
    place: usize,
    client: Client,
    arguments: Vec<String>,
}

fn query_within(host: &Host, instances: &mut [Instance], limits: QueryLimits) -> Vec<Unread> {
    let mut order: Vec<usize> = (0..instances.len()).collect();
    // Strangers take no time from those that something vouches for.
    order.sort_by_key(|place| Reverse(instances.get(*place).is_some_and(Instance::is_trusted)));
    let (mut queries, mut unread) = (Vec::new(), Vec::new());
    for place in order {
        let Some(instance) = instances.get(place).filter(|instance| !instance.is_stopped()) else {
            continue;
        };
        let Some((question, _)) = EngineKind::for_engine(instance.engine).connect else { continue };
        match prepare_query(host, instance, question) {
            Ok((client, arguments)) => queries.push(ReadyQuery { place, client, arguments }),
            Err(why) => unread.push(unanswered(instance, &why)),
        }
    }
    for (place, answer) in run_queries(&queries, limits) {
        let Some(instance) = instances.get_mut(place) else { continue };
        let Some((_, apply)) = EngineKind::for_engine(instance.engine).connect else { continue };
        match answer {
            Some(answer) => {
                let applied = answer
                    .map_err(NoAnswer::from)
                    .and_then(|text| (apply as ApplyLiveReply)(host, instance, &text));
                unread.extend(applied.err().map(|why| unanswered(instance, &why)));
            }
            None => unread.push(not_asked(host, instance, limits)),
        }
    }
    unread
}

fn unanswered(instance: &Instance, why: &NoAnswer) -> Unread {
    Unread::new(instance.title(), Reason::from_text(why.to_string()))
}

fn not_asked(host: &Host, instance: &Instance, limits: QueryLimits) -> Unread {
    let main = host.find_process(instance.pid);
    let user = main.map_or(0, |main| Owner::user_behind(Owner::from_process(main).uid));
    let why = format!("not asked: others took the {} s for all to answer", limits.all.as_secs());
    Unread::new(instance.title(), Reason::LeftOut { user, why })
}

/// Answers by place; nothing of those whose turn did not come in time.
fn run_queries(
    queries: &[ReadyQuery],
    limits: QueryLimits,
) -> BTreeMap<usize, Option<Result<String, ClientError>>> {
    let deadline = Instant::now() + limits.all;
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some(query) = queries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = (!left.is_zero())
                .then(|| query.client.run(&query.arguments, limits.each.min(left)));
            answers.lock().unwrap_or_else(PoisonError::into_inner).insert(query.place, answer);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..limits.at_once.min(queries.len()) {
            scope.spawn(work);
        }
        work();
    });
    answers.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn prepare_query(
    host: &Host,
    instance: &Instance,
    question: BuildLiveQuery,
) -> Result<(Client, Vec<String>), NoAnswer> {
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
    // The client of a stranger would run in the session of root: it gets one that root installed.
    let trusts = instance.is_trusted();
    let folders = client_folders(host, main);
    let client = Client::find_in_folders(question.programs, &folders, account, trusts)?;
    let known = host.accounts.users.get(&main.uid).map(|user| user.name.as_str());
    let client = client.for_server_of(known);
    Ok((client, question.arguments))
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
    fn servers_that_never_answer_share_the_time() {
        let account = ClientAccount {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        };
        let query = |place: usize| {
            let client = Client::from_path("/bin/sh", account).unwrap().unwrap();
            let script = if place == 0 { "echo yes" } else { "exec sleep 60" };
            ReadyQuery { place, client, arguments: vec!["-c".into(), script.into()] }
        };
        let queries: Vec<ReadyQuery> = (0..40).map(query).collect();
        let limits = QueryLimits {
            each: Duration::from_millis(700),
            all: Duration::from_secs(2),
            at_once: 8,
        };
        let started = Instant::now();
        let answers = run_queries(&queries, limits);
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(answers.len(), 40);
        assert!(matches!(&answers[&0], Some(Ok(text)) if text == "yes\n"));
        assert!(
            answers.values().any(|answer| matches!(answer, Some(Err(ClientError::Late { .. }))))
        );
        // Eight at a time for less than a second each: three rounds.
        let asked = answers.values().filter(|answer| answer.is_some()).count();
        assert!((9..=32).contains(&asked), "{asked}");
    }

    #[test]
    fn who_was_not_asked_is_told() {
        let mut instance = Instance { name: "15/main".into(), ..Instance::default() };
        instance.pid = 7;
        let main = Process { pid: 7, uid: 26, ..Process::default() };
        let host = Host { processes: testing::known([main]), ..Host::default() };
        let told = not_asked(&host, &instance, LIMITS);
        assert!(matches!(&told.why, Reason::LeftOut { user: 26, .. }), "{told}");
        assert!(told.to_string().contains("not asked: others took the 15 s"), "{told}");
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
