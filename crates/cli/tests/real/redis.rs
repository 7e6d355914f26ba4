//! Redis: it has no way to huge pages of the pool, and check does not send its people looking for one.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use hugewise_lab::guard::PoolGuard;
use hugewise_lab::require;
use hugewise_model::{PageCount, PageSize};
use rustix::process::Signal;

use crate::harness::{self, Server, User, kernel};

#[test]
fn is_never_on_huge_pages() {
    let redis = require!(harness::program(&["/usr/bin/redis-server"]));
    let user = require!(User::named("redis"));
    let guard = require!(PoolGuard::take());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(64)));
    let folder = harness::folder();
    user.own(folder.path());
    let socket = folder.path().join("socket");
    let mut command = user.command(redis);
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).arg("--dir").arg(folder.path());
    let mut server = Server::start(&mut command, &folder.path().join("log"), Signal::TERM);
    server.wait_for("Redis ready", |_| socket.exists().then_some(()));
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
    // A value large enough that its data is worth a look.
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$67108864\r\n").unwrap();
    client.write_all(&vec![b'x'; 64 << 20]).unwrap();
    client.write_all(b"\r\n").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"+OK\r\n");
    let checked = harness::check();
    checked.assert_verdict("redis", server.pid, "none", Some("asked"));
    let instance = checked.instance("redis", server.pid);
    let found = checked.findings_of(instance);
    assert!(found.iter().all(|(code, _)| !code.starts_with("HW2")), "a pool is no help to Redis: {found:?}");
}
