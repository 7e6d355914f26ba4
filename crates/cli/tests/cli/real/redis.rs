//! Redis: it has no way to huge pages of the pool, and check does not send its people looking for
//! one.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use rustix::process::Signal;

use crate::real::change::{hugewise, run};
use crate::real::harness::{self, Server, User, kernel};
use crate::real::namespace::{self, State, assert_same};

/// Starts it with a value large enough that its data is worth a look.
fn start(folder: &tempfile::TempDir, arguments: &[&str]) -> Result<Server, Skip> {
    let redis = harness::program(&["/usr/bin/redis-server"])?;
    let user = User::named("redis")?;
    user.own(folder.path());
    let socket = folder.path().join("socket");
    let _ = fs::remove_file(&socket);
    let mut command = user.command(redis);
    command
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(&socket)
        .arg("--dir")
        .arg(folder.path());
    let mut server =
        Server::start(command.args(arguments), &folder.path().join("log"), Signal::TERM);
    server.wait_for("Redis ready", |_| socket.exists().then_some(()));
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$67108864\r\n").unwrap();
    client.write_all(&vec![b'x'; 64 << 20]).unwrap();
    client.write_all(b"\r\n").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"+OK\r\n");
    Ok(server)
}

/// Redis tells at its start, too: of transparent huge pages that it cannot do anything about.
#[test]
fn transparent_huge_pages_as_redis_wants_them_and_back() {
    if !require!(namespace::inside("redis::transparent_huge_pages_as_redis_wants_them_and_back")) {
        return;
    }
    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const WARNING: &str = "WARNING You have Transparent Huge Pages (THP) support enabled";
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    require!(guard.set_switch(THP, "always"));
    let folder = harness::folder();
    let arguments = ["--disable-thp", "no"];
    let server = require!(start(&folder, &arguments));
    assert!(server.log().contains(WARNING), "{}", server.log());
    assert!(transparent(server.pid) > 0, "it has none, and none are to be taken from it");
    let before = State::etc();
    let checked = harness::check();
    let found = checked.findings_of(checked.instance("redis", server.pid));
    assert!(found.contains(&("HW501".into(), "thp-policy".into())), "{found:?}");
    assert_eq!(checked.code, 1, "{:#}", checked.json["findings"]);

    let planned = run(&["plan"], 0);
    assert!(planned.contains("transparent huge pages: madvise"), "{planned}");
    assert_same(&before, &State::etc());
    run(&["apply", "--yes"], 0);
    let switch = fs::read_to_string(THP).unwrap();
    assert!(switch.contains("[madvise]"), "{switch}");
    assert!(run(&["plan"], 0).contains("nothing to change"));
    drop(server);

    let server = require!(start(&folder, &arguments));
    assert!(!server.log().contains(WARNING), "{}", server.log());
    assert_eq!(transparent(server.pid), 0);
    let checked = harness::check();
    assert_eq!(checked.code, 0, "{:#}", checked.json["findings"]);
    let found = checked.findings_of(checked.instance("redis", server.pid));
    assert!(found.is_empty(), "{found:?}");
    let verified = hugewise(&["verify"]);
    let said = String::from_utf8_lossy(&verified.stdout);
    assert!(!said.contains("HW5"), "{said}");
    assert!(run(&["plan"], 0).contains("nothing to change"));
    drop(server);

    run(&["undo"], 0);
    assert!(fs::read_to_string(THP).unwrap().contains("[always]"));
    assert_same(&before, &State::etc());
    let server = require!(start(&folder, &arguments));
    assert!(server.log().contains(WARNING), "{}", server.log());
}

/// What the kernel says of a process's transparent huge pages, in KiB.
fn transparent(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn is_never_on_huge_pages() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(64)));
    let folder = harness::folder();
    let server = require!(start(&folder, &[]));
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
    let checked = harness::check();
    let instance = checked.instance("redis", server.pid);
    assert_eq!(instance["huge_pages"], "none", "{instance:#}");
    assert_eq!(instance["asked"], "cannot", "{instance:#}");
    // Where there is no way, no link of it is missing.
    assert!([None, Some("asked")].contains(&harness::first_broken(instance)), "{instance:#}");
    let found = checked.findings_of(instance);
    assert!(
        found.iter().all(|(code, _)| !code.starts_with("HW2")),
        "a pool is no help to Redis: {found:?}"
    );
}
