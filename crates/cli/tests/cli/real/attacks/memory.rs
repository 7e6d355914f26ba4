//! Processes whose memory costs whoever reads of it: with tens of thousands of mappings, and with
//! locks that are never given back.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_testkit::{Skip, require};

use super::{Attacker, Fake, Looks};
use crate::real::harness::{self, HUGEWISE};

/// Each has so many shared mappings of two MiB, which cost it next to nothing.
const MANY_MAPPINGS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **arguments) {
    int processes = atoi(arguments[1]), mappings = atoi(arguments[2]), done[2];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pipe(done)) return 3;
    for (int process = 0; process < processes; process++)
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int at = 0; at < mappings; at++)
                mmap(0, 2 << 20, at & 1 ? PROT_READ : PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (write(done[1], "", 1) != 1) return 3;
            for (;;) pause();
        }
    for (int process = 0; process < processes; process++) {
        char one;
        if (read(done[0], &one, 1) != 1) return 3;
    }
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
"#;
const SILENT: &str = include_str!("silent.c");

/// A program of the attacker's, killed with its children when dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self, Skip> {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let running = Self(child);
        if line == "ready\n" { Ok(running) } else { Err(Skip(format!("{command:?}: {line:?}"))) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compile(attacker: &Attacker, name: &str, source: &str) -> PathBuf {
    let (file, program) = (attacker.file(&format!("{name}.c"), source), attacker.path(name));
    harness::must(Command::new("cc").args(["-O1", "-w", "-o"]).arg(&program).arg(&file));
    program
}

/// What root's `check` prints, and the most memory it had, in KiB.
fn check_measured(folder: &Path) -> (String, u64) {
    let (said, errors) = (folder.join("said"), folder.join("errors"));
    let mut child = Command::new(HUGEWISE)
        .args(["check", "--format", "json"])
        .stdout(fs::File::create(&said).unwrap())
        .stderr(fs::File::create(errors).unwrap())
        .spawn()
        .unwrap();
    let mut most = 0;
    loop {
        if let Some(peak) = harness::kernel::status(child.id(), "VmHWM:") {
            most = most.max(peak);
        }
        if child.try_wait().unwrap().is_some() {
            return (fs::read_to_string(&said).unwrap(), most);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_crowd_of_mappings_takes_little_memory_and_is_named() {
    let attacker = require!(Attacker::new());
    let program = compile(&attacker, "mappings", MANY_MAPPINGS);
    let _crowd = require!(Running::start(attacker.command(&program).args(["12", "60000"])));
    let (said, most) = check_measured(attacker.home());
    assert!(most < 256 << 10, "{most} KiB");
    assert!(most > 1 << 10, "nothing was measured");
    let uid = attacker.user.uid;
    let left_out = format!("/proc/PID/maps of 9 processes of user {uid}");
    assert!(said.contains(&left_out), "{said}");
}

/// Threads that wait for others' files, and those that are ready to.
fn count_readers(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name == "proc\n").count()
}

fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn count_readings(metrics: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix("hugewise_readings_total "));
    line.unwrap_or_else(|| panic!("{metrics}")).trim().parse().unwrap()
}

/// A server that another user runs than the attacker.
fn start_as_root(attacker: &Attacker, data: &Path) -> Result<Fake, Skip> {
    let looks = Looks {
        program: "postgres",
        arguments: &["-D", data.to_str().unwrap()],
        directory: data,
        memory: "anon",
        mapped: 64,
        touched: 8,
    };
    Fake::start_by(attacker, &looks, |program| Command::new(program))
}

/// Other programs that read /proc, `ps` among them, wait meanwhile.
#[test]
#[ignore = "takes the whole host: cargo xtask test runs it by itself"]
fn locked_memory_keeps_few_threads_and_no_server_from_being_read() {
    let attacker = require!(Attacker::new());
    if !Path::new("/dev/fuse").exists() {
        return Skip("no FUSE".into()).report();
    }
    let program = compile(&attacker, "silent", SILENT);
    let folder = attacker.folder("mounted");
    let uid = attacker.user.uid.to_string();
    let _locked =
        require!(Running::start(Command::new(program).arg(folder).args(["12", uid.as_str()])));
    let data = attacker.postgresql("data", "shared_buffers = 128MB\n");
    let _other = require!(start_as_root(&attacker, &data));
    let started = Instant::now();
    let (said, _) = check_measured(attacker.home());
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    for file in ["maps", "cmdline"] {
        let left_out = format!("/proc/PID/{file} of ");
        assert!(said.contains(&left_out), "{file}: {said}");
    }
    assert!(said.contains("the kernel does not answer"), "{said}");
    assert!(said.contains(data.to_str().unwrap()), "{said}");

    let mut command = Command::new(HUGEWISE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--interval", "1"]);
    let mut served = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut output = BufReader::new(served.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim().rsplit("//").next().unwrap().to_owned();
    let before = count_readings(&scrape(&address));
    let metrics = harness::wait_for("several readings", || {
        let metrics = scrape(&address);
        (count_readings(&metrics) >= before + 4).then_some(metrics)
    });
    assert!(metrics.contains("hugewise_instance_info{engine=\"postgresql\""), "{metrics}");
    let readers = count_readers(served.0.id());
    assert!((1..=3).contains(&readers), "{readers} threads");
}

#[test]
fn files_that_never_answer_cost_their_owner_alone() {
    let attacker = require!(Attacker::new());
    if !Path::new("/dev/fuse").exists() {
        return Skip("no FUSE".into()).report();
    }
    let silent = compile(&attacker, "silent", SILENT);
    let (folder, uid) = (attacker.folder("mounted"), attacker.user.uid.to_string());
    let server = require!(attacker.program("postgres"));
    let never = folder.join("never");
    let mut command = Command::new(silent);
    command.arg(&folder).args(["0", uid.as_str()]).arg(server).arg("-D").arg(never);
    command.env("MEMORY", "anon").env("MAPPED", "64").env("TOUCHED", "8");
    let _locked = require!(Running::start(&mut command));
    let data = attacker.postgresql("data", "shared_buffers = 128MB\n");
    let _other = require!(start_as_root(&attacker, &data));
    let (said, _) = check_measured(attacker.home());
    let left_out = format!("left out: the files of user {uid}'s servers take longer than");
    assert!(said.contains(&left_out), "{said}");
    let name = format!("\"data_directory\": \"{}\"", data.display());
    assert!(said.contains(&name), "{said}");
}
