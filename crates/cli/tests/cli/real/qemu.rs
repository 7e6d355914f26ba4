//! QEMU: a guest's memory is a memfd, on huge pages where the command line says so.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use rustix::process::Signal;

use crate::real::harness::{self, MIB, Server, kernel};

fn start(folder: &tempfile::TempDir, program: &std::path::Path, memory: &[&str]) -> Server {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig=KILL", "--"]).arg(program);
    // -S: the guest's processor never runs, its memory is there all the same.
    command.args([
        "-accel",
        "tcg",
        "-nodefaults",
        "-display",
        "none",
        "-S",
        "-name",
        "guest=one",
        "-m",
        "512M",
    ]);
    let control = folder.path().join("control");
    let _ = std::fs::remove_file(&control);
    command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", control.display())).args(memory);
    let mut server = Server::start(&mut command, &folder.path().join("log"), Signal::TERM);
    // It greets when the machine, memory included, is made.
    server.wait_for("QEMU's greeting", |_| {
        let mut greeting = [0; 6];
        UnixStream::connect(&control).ok()?.read_exact(&mut greeting).ok()?;
        (greeting == *b"{\"QMP\"").then_some(())
    });
    server
}

#[test]
fn in_every_state() {
    let program = require!(harness::program(&["/usr/bin/qemu-system-x86_64"]));
    let folder = harness::folder();
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(256)));
    let base =
        ["-machine", "q35,memory-backend=ram", "-object", "memory-backend-memfd,id=ram,size=512M"];
    let server = start(&folder, &program, &base);
    harness::check().assert_verdict("qemu", server.pid, "none", Some("asked"));
    drop(server);

    let huge = [
        "-machine",
        "q35,memory-backend=ram",
        "-object",
        "memory-backend-memfd,id=ram,size=512M,hugetlb=on,hugetlbsize=2M",
    ];
    let server = start(&folder, &program, &huge);
    let (on_huge, _) = kernel::large_mappings(server.pid, 200 * MIB);
    assert_eq!(on_huge, 512 * MIB);
    let checked = harness::check();
    checked.assert_verdict("qemu", server.pid, "all", None);
    assert_eq!(harness::segment_bytes(checked.instance("qemu", server.pid), true), 512 * MIB);
    drop(server);

    let both = [
        "-machine",
        "q35",
        "-object",
        "memory-backend-memfd,id=near,size=256M,hugetlb=on,hugetlbsize=2M",
        "-object",
        "memory-backend-memfd,id=far,size=256M",
        "-numa",
        "node,memdev=near",
        "-numa",
        "node,memdev=far",
    ];
    let server = start(&folder, &program, &both);
    let checked = harness::check();
    let instance = checked.instance("qemu", server.pid);
    assert_eq!(instance["huge_pages"], "partly", "{instance:#}");
    assert_eq!(harness::segment_bytes(instance, true), 256 * MIB, "{instance:#}");
}
