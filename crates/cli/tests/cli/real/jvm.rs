//! A Java virtual machine: OpenJDK of Debian, running a service of its own runtime.

use std::fs;
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use rustix::process::Signal;

use crate::real::harness::{self, MIB, Server, kernel};

const HEAP: u64 = 256 * MIB;

/// The flags that every machine here is started with.
pub(crate) const HEAP_ARGUMENTS: &[&str] =
    &["-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch", "-XX:+UseParallelGC"];

pub(crate) fn start(folder: &tempfile::TempDir, flags: &[&str]) -> Result<Server, Skip> {
    start_as(folder, &[HEAP_ARGUMENTS, flags].concat())
}

/// One with these flags and no others.
pub(crate) fn start_as(folder: &tempfile::TempDir, flags: &[&str]) -> Result<Server, Skip> {
    start_in(folder, flags, &[])
}

/// The same with these variables in its environment.
fn start_in(
    folder: &tempfile::TempDir,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> Result<Server, Skip> {
    let java = harness::program(&["/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "/usr/bin/java"])?;
    let mut command = Command::new(java);
    command.args(flags).envs(environment.iter().copied());
    // A free port; the registry's class is in every runtime image.
    command.args(["-m", "java.rmi/sun.rmi.registry.RegistryImpl", "0"]);
    let mut server = Server::start(&mut command, &folder.path().join("log"), Signal::TERM);
    // Its program runs, so its heap is made and touched. How much of it is resident says little:
    // a heap that did not get huge pages is touched in their steps all the same.
    server.wait_for("the registry's listener", |pid| {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let names =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        names.into_iter().any(|name| name.starts_with("RMI TCP Accept")).then_some(())
    });
    Ok(server)
}

#[test]
fn in_every_state() {
    let folder = harness::folder();
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(400)));
    let server = require!(start(&folder, &[]));
    let checked = harness::check();
    checked.assert_verdict("jvm", server.pid, "none", Some("asked"));
    let instance = checked.instance("jvm", server.pid);
    assert!(harness::segment_bytes(instance, false) >= HEAP, "{instance:#}");
    drop(server);

    let server = require!(start(&folder, &["-XX:+UseLargePages"]));
    assert!(kernel::hugetlb_bytes(server.pid) >= HEAP, "{}", server.log());
    harness::check().assert_verdict("jvm", server.pid, "all", None);
    drop(server);

    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let server = require!(start(&folder, &["-XX:+UseLargePages"]));
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
    harness::check().assert_verdict("jvm", server.pid, "none", Some("pool"));
    drop(server);

    require!(guard.set_pool(PageSize::MIB_2, PageCount(100)));
    let server = require!(start(&folder, &["-XX:+UseLargePages"]));
    let (huge, base) = kernel::large_mappings(server.pid, 200 * MIB);
    assert!(huge == 0 && base >= HEAP, "{}", server.log());
    // Its code may have found room where the heap has not.
    let (on_huge, _) = kernel::large_mappings(server.pid, MIB);
    let verdict = if on_huge > 0 { "partly" } else { "none" };
    harness::check().assert_verdict("jvm", server.pid, verdict, Some("room"));
}

/// Its environment may keep it from telling of itself, too: its pages show that its command line is
/// not all that it was told.
#[test]
fn one_that_is_silenced_by_its_environment_is_not_said_to_ask_for_nothing() {
    let folder = harness::folder();
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(400)));
    let told = [HEAP_ARGUMENTS, &["-XX:+UseLargePages", "-XX:-UsePerfData"]].concat().join(" ");
    for variable in ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"] {
        let server = require!(start_in(&folder, &[], &[(variable, &told)]));
        assert!(kernel::hugetlb_bytes(server.pid) >= HEAP, "{}", server.log());
        let checked = harness::check();
        let instance = checked.instance("jvm", server.pid);
        assert_ne!(instance["asked"], "no", "{instance:#}");
        assert_eq!(instance["huge_pages"], "all", "{instance:#}");
    }
    // One that stands on none is taken at its command line.
    let server = require!(start(&folder, &["-XX:-UsePerfData"]));
    let checked = harness::check();
    assert_eq!(checked.instance("jvm", server.pid)["asked"], "no");
}
