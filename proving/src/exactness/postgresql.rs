//! PostgreSQL: one piece of shared memory, wholly on huge pages or not at all.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use hugewise_model::{Bytes, PageSize};
use rustix::process::Signal;

use super::server::{self, Server, Start, User};
use super::tools::Install;
use super::{Case, Cases};
use hugewise_testkit::tools::Failure;

/// A cluster of one major in a folder of its own.
pub(crate) struct Cluster {
    pub(crate) version: String,
    folder: tempfile::TempDir,
    owner: User,
    home: PathBuf,
    copied: bool,
    base_settings: String,
}

impl Cluster {
    /// Makes it. Programs that ordinary users cannot reach are copied to where they can.
    pub(crate) fn new(install: Install) -> Result<Self, Failure> {
        let Install { major, home, copied } = install;
        let mut home = home?;
        let (folder, owner) =
            (server::folder()?, User::named("postgres").or_else(|_| User::named("nobody"))?);
        if copied {
            let reachable = folder.path().join(format!("pgsql-{major}"));
            server::must(Command::new("cp").arg("-rL").arg(&home).arg(&reachable))?;
            server::must(Command::new("chmod").args(["-R", "go=rX"]).arg(&reachable))?;
            home = reachable;
        }
        owner_only(&owner, &folder)?;
        let mut cluster = Self {
            version: String::new(),
            folder,
            owner,
            home,
            copied,
            base_settings: String::new(),
        };
        let version = server::must(cluster.command("postgres").arg("--version"))?;
        version
            .split_ascii_whitespace()
            .nth(2)
            .unwrap_or_default()
            .clone_into(&mut cluster.version);
        let mut initdb = cluster.command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "-D"]).arg(cluster.data());
        server::must(&mut initdb)?;
        cluster.base_settings = fs::read_to_string(cluster.data().join("postgresql.conf"))?;
        Ok(cluster)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// One of its programs, run by its owner.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.owner.command(self.program(program));
        if self.copied {
            command.env("LD_LIBRARY_PATH", self.home.join("lib"));
        }
        command
    }

    fn program(&self, name: &str) -> PathBuf {
        self.home.join("bin").join(name)
    }

    /// Whether the build has that library.
    fn has_library(&self, name: &str) -> bool {
        ["lib", "lib/postgresql"].iter().any(|folder| self.home.join(folder).join(name).exists())
    }

    /// Writes its postgresql.conf anew: initdb's, then these.
    pub(crate) fn configure(&self, settings: &str) -> Result<(), Failure> {
        let socket = self.folder.path().display();
        let own = format!(
            "listen_addresses = ''\nunix_socket_directories = '{socket}'\nfsync = off\n{settings}\n"
        );
        let file = self.data().join("postgresql.conf");
        fs::write(&file, format!("{}\n{own}", self.base_settings))?;
        self.owner.give_file(&file)
    }

    /// Starts it as it is configured.
    pub(crate) fn start(&self) -> Result<Start, Failure> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        let file = self.data().join("postmaster.pid");
        let _ = fs::remove_file(&file);
        Server::start(&mut command, &self.folder.path().join("log"), Signal::INT, |pid| {
            let text = fs::read_to_string(&file).ok()?;
            (text.lines().nth(7)?.trim() == "ready").then_some(pid)
        })
    }

    /// A client that runs this statement in its own session, where what it prints goes nowhere.
    pub(crate) fn psql(&self, statement: &str) -> Command {
        let mut command = self.owner.command("/usr/bin/psql");
        command.args([
            "--no-psqlrc",
            "-At",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-h",
        ]);
        command.arg(self.folder.path()).args(["-c", statement]);
        command
    }
}

fn owner_only(owner: &User, folder: &tempfile::TempDir) -> Result<(), Failure> {
    server::must(Command::new("chmod").arg("755").arg(folder.path()))?;
    owner.give_file(folder.path())
}

/// A server with these settings.
struct Settings {
    cluster: Rc<Cluster>,
    shared_buffers: (&'static str, Bytes),
    connections: u32,
    page: PageSize,
    extension: bool,
    /// Majors below 14 know no huge_page_size.
    says_page: bool,
}

pub(super) fn cases(install: Install, quick: bool) -> Result<Cases, Failure> {
    let major = install.major;
    let cluster = Rc::new(Cluster::new(install)?);
    let sizes =
        [("128MB", Bytes::from_mib(128)), ("1GB", Bytes::from_gib(1)), ("6GB", Bytes::from_gib(6))];
    let mut cases: Cases = Vec::new();
    for page in [PageSize::MIB_2, PageSize::GIB_1] {
        for shared_buffers in sizes {
            for connections in [20, 1000] {
                for extension in [false, true] {
                    let left_out = (page == PageSize::GIB_1 && major < 14)
                        || (extension && !cluster.has_library("pg_stat_statements.so"))
                        || (quick
                            && (page == PageSize::GIB_1
                                || shared_buffers.0 != "1GB"
                                || connections != 20));
                    if !left_out {
                        let cluster = Rc::clone(&cluster);
                        let says_page = major >= 14;
                        cases.push(Box::new(Settings {
                            cluster,
                            shared_buffers,
                            connections,
                            page,
                            extension,
                            says_page,
                        }));
                    }
                }
            }
        }
    }
    Ok(cases)
}

impl Settings {
    fn configure(&self, huge: bool) -> Result<(), Failure> {
        let mut text = format!(
            "shared_buffers = {}\nmax_connections = {}\n",
            self.shared_buffers.0, self.connections
        );
        text.push_str(if huge { "huge_pages = on\n" } else { "huge_pages = off\n" });
        if self.says_page && huge {
            text.push_str(if self.page == PageSize::GIB_1 {
                "huge_page_size = 1GB\n"
            } else {
                "huge_page_size = 2MB\n"
            });
        }
        if self.extension {
            text.push_str("shared_preload_libraries = 'pg_stat_statements'\n");
        }
        self.cluster.configure(&text)
    }
}

impl Case for Settings {
    fn engine(&self) -> String {
        format!("PostgreSQL {}", self.cluster.version)
    }

    fn settings(&self) -> String {
        let extension = if self.extension { ", pg_stat_statements" } else { "" };
        format!("{}, {} connections{extension}", self.shared_buffers.0, self.connections)
    }

    fn page(&self) -> PageSize {
        self.page
    }

    fn memory(&self) -> Bytes {
        self.shared_buffers.1
    }

    fn all_or_nothing(&self) -> bool {
        true
    }

    fn describe(&self) -> Result<Vec<OsString>, Failure> {
        self.configure(true)?;
        let data = [
            "--engine".into(),
            "postgresql".into(),
            "--data-dir".into(),
            self.cluster.data().into(),
        ];
        let mut described: Vec<OsString> = data.to_vec();
        described.extend(["--server-binary".into(), self.cluster.program("postgres").into()]);
        Ok(described)
    }

    fn start(&self, huge: bool) -> Result<Start, Failure> {
        self.configure(huge)?;
        self.cluster.start()
    }
}
