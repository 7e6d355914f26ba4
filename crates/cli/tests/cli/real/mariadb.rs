//! MariaDB of Debian: threads in one process, private memory, and every chunk falls back on its
//! own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use rustix::process::Signal;

use crate::real::harness::{self, MIB, Server, User, kernel};

pub(crate) struct Installed {
    folder: tempfile::TempDir,
    user: User,
}

impl Installed {
    pub(crate) fn new() -> Result<Self, Skip> {
        harness::program(&["/usr/sbin/mariadbd"])?;
        let (folder, user) = (harness::folder(), User::named("mysql")?);
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        user.own(folder.path());
        let mut install = Command::new("mariadb-install-db");
        install.args([
            "--no-defaults",
            "--user=mysql",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        ]);
        // Names of temporary tables bear a pid, and that of another pid namespace may be the same.
        install.env("TMPDIR", folder.path());
        harness::must(install.arg(format!("--datadir={}", data.display())));
        Ok(Self { folder, user })
    }

    /// Its settings, once it was configured.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("my.cnf")
    }

    /// What it writes its messages to.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The same where `log_error` says so.
    pub(crate) fn error_log(&self) -> PathBuf {
        self.folder.path().join("error.log")
    }

    /// Writes its settings: a buffer pool of 256 MiB, then these.
    pub(crate) fn configure(&self, settings: &str) {
        let folder = self.folder.path().display();
        let own = format!(
            "datadir={folder}/data\ntmpdir={folder}\nsocket={folder}/socket\npid-file={folder}/pid\nskip-networking\n"
        );
        fs::write(
            self.config(),
            format!("[mariadbd]\n{own}innodb_buffer_pool_size=256M\n{settings}\n"),
        )
        .unwrap();
    }

    /// The server by its settings.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.user.command("/usr/sbin/mariadbd");
        command.arg(format!("--defaults-file={}", self.config().display()));
        command
    }

    pub(crate) fn start(&self, settings: &str) -> Server {
        self.configure(settings);
        let mut command = self.command();
        let logs = [self.log(), self.error_log()];
        let _ = fs::remove_file(self.error_log());
        let mut server = Server::start(&mut command, &self.log(), Signal::TERM);
        server.wait_for("MariaDB ready", |_| {
            let ready = |log: &PathBuf| {
                fs::read_to_string(log).unwrap_or_default().contains("ready for connections")
            };
            logs.iter().any(ready).then_some(())
        });
        server
    }
}

#[test]
fn in_every_state() {
    let installed = require!(Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(400)));
    let server = installed.start("");
    let checked = harness::check();
    checked.assert_verdict("mariadb", server.pid, "none", Some("asked"));
    let instance = checked.instance("mariadb", server.pid);
    assert!(harness::segment_bytes(instance, false) >= 256 * MIB, "{instance:#}");
    drop(server);

    let server = installed.start("large-pages");
    let (huge, base) = kernel::large_mappings(server.pid, 200 * MIB);
    assert!(
        huge >= 256 * MIB && base == 0,
        "the buffer pool: {huge} huge, {base} base\n{}",
        server.log()
    );
    harness::check().assert_verdict("mariadb", server.pid, "all", None);
    drop(server);

    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let server = installed.start("large-pages");
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
    harness::check().assert_verdict("mariadb", server.pid, "none", Some("pool"));
    drop(server);

    // Enough for its small pieces, not for its buffer pool.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(100)));
    let server = installed.start("large-pages");
    // Pages that are reserved and not yet touched count too, and only the mappings show them.
    let (on_huge, _) = kernel::large_mappings(server.pid, MIB);
    let (_, on_base) = kernel::large_mappings(server.pid, 200 * MIB);
    assert!(on_base >= 256 * MIB, "{}", server.log());
    let checked = harness::check();
    checked.assert_verdict(
        "mariadb",
        server.pid,
        if on_huge > 0 { "partly" } else { "none" },
        Some("room"),
    );
}
