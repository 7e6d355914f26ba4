//! MariaDB of Debian.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use hugewise_model::{Bytes, PageSize};
use rustix::process::Signal;

use super::server::{self, Server, Start, User};
use super::{Case, Cases};
use hugewise_testkit::tools::Failure;

/// One data directory for all cases.
struct Installed {
    folder: tempfile::TempDir,
    user: User,
    program: PathBuf,
    version: String,
}

/// A server with this buffer pool.
struct Pool {
    installed: Rc<Installed>,
    mib: u64,
}

pub(super) fn cases(quick: bool) -> Result<Cases, Failure> {
    let program = server::program("/usr/sbin/mariadbd")?;
    let (folder, user) = (server::folder()?, User::named("mysql")?);
    let data = folder.path().join("data");
    fs::create_dir(&data)?;
    user.give_file(folder.path())?;
    let mut install = Command::new("mariadb-install-db");
    install.args([
        "--no-defaults",
        "--user=mysql",
        "--skip-test-db",
        "--auth-root-authentication-method=normal",
    ]);
    server::must(install.arg(format!("--datadir={}", data.display())))?;
    let version = server::must(Command::new(&program).args(["--no-defaults", "--version"]))?;
    let version = version
        .split_once("Ver ")
        .map_or("", |(_, rest)| rest)
        .split('-')
        .next()
        .unwrap_or_default()
        .to_owned();
    let installed = Rc::new(Installed { folder, user, program, version });
    let pools: &[u64] = if quick { &[512] } else { &[64, 101, 128, 256, 512, 1024, 4096] };
    Ok(pools
        .iter()
        .map(|mib| Box::new(Pool { installed: Rc::clone(&installed), mib: *mib }) as Box<dyn Case>)
        .collect())
}

impl Pool {
    /// Writes its settings, and says where.
    fn configure(&self, huge: bool) -> Result<PathBuf, Failure> {
        let folder = self.installed.folder.path().display();
        let file = self.installed.folder.path().join("my.cnf");
        let own = format!(
            "datadir={folder}/data\nsocket={folder}/socket\npid-file={folder}/pid\nskip-networking\n"
        );
        let large = if huge { "large-pages\n" } else { "" };
        fs::write(
            &file,
            format!("[mariadbd]\n{own}innodb_buffer_pool_size={}M\n{large}", self.mib),
        )?;
        Ok(file)
    }
}

impl Case for Pool {
    fn engine(&self) -> String {
        format!("MariaDB {}", self.installed.version)
    }

    fn settings(&self) -> String {
        format!("buffer pool {} MiB", self.mib)
    }

    fn page(&self) -> PageSize {
        PageSize::MIB_2
    }

    fn memory(&self) -> Bytes {
        Bytes::from_mib(self.mib)
    }

    fn all_or_nothing(&self) -> bool {
        false
    }

    /// Where the kernel does not put the buffer pool at a multiple of 8 MiB, it is asked for anew
    /// with up to 10 MiB more.
    fn by_chance(&self) -> u64 {
        5
    }

    fn describe(&self) -> Result<Vec<OsString>, Failure> {
        let file = self.configure(true)?;
        Ok(vec!["--engine".into(), "mariadb".into(), "--config".into(), file.into()])
    }

    fn start(&self, huge: bool) -> Result<Start, Failure> {
        let file = self.configure(huge)?;
        let mut command = self.installed.user.command(&self.installed.program);
        command.arg(format!("--defaults-file={}", file.display()));
        let log = self.installed.folder.path().join("log");
        Server::start(&mut command, &log, Signal::TERM, |pid| {
            fs::read_to_string(&log)
                .unwrap_or_default()
                .contains("ready for connections")
                .then_some(pid)
        })
    }
}
