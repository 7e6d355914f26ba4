//! A user without rights, and the programs that he calls servers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use hugewise_testkit::Skip;

use crate::real::harness::{self, MIB, User};

/// A user that is in no file of this host.
const UID: u32 = 4242;

/// A process that maps shared memory (`MEMORY` is `anon`, `sysv` or `huge`, which reserves no page
/// of a pool; `MAPPED` and `TOUCHED` are MiB), touches a part of it and sleeps. What the kernel calls it is the name of its file, and its
/// arguments are its own affair.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

int main(void) {
    size_t map = strtoull(getenv("MAPPED"), 0, 10) << 20, touch = strtoull(getenv("TOUCHED"), 0, 10) << 20;
    char *memory = 0;
    if (map && !strcmp(getenv("MEMORY"), "sysv")) {
        int id = shmget(IPC_PRIVATE, map, IPC_CREAT | 0600);
        if (id < 0 || (memory = shmat(id, 0, 0)) == (void *)-1) return 3;
        shmctl(id, IPC_RMID, 0);
    } else if (map) {
        int huge = strcmp(getenv("MEMORY"), "huge") ? 0 : MAP_HUGETLB;
        memory = mmap(0, map, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | huge, -1, 0);
        if (memory == MAP_FAILED) return 3;
    }
    for (size_t at = 0; at < touch; at += 4096) memory[at] = 1;
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
"#;

/// The user, with a folder of his own that everybody may go through.
pub(crate) struct Attacker {
    pub(crate) user: User,
    pub(crate) folder: tempfile::TempDir,
}

impl Attacker {
    pub(crate) fn new() -> Result<Self, Skip> {
        harness::program(&["/usr/bin/setpriv"])?;
        if !rustix::process::geteuid().is_root() {
            return Err(Skip("to be attacked takes root".into()));
        }
        let attacker = Self { user: User { uid: UID, gid: UID }, folder: harness::folder() };
        attacker.user.own(attacker.folder.path());
        Ok(attacker)
    }

    /// A path in his folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// His own folder.
    pub(crate) fn home(&self) -> &Path {
        self.folder.path()
    }

    /// A folder of his.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        self.user.own(self.folder.path());
        path
    }

    /// A file of his.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        self.user.own(self.folder.path());
        path
    }

    /// A link of his.
    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        std::os::unix::fs::symlink(target, &path).unwrap();
        path
    }

    /// A data directory that looks like PostgreSQL's, with this configuration.
    pub(crate) fn postgresql(&self, name: &str, configuration: &str) -> PathBuf {
        self.file(&format!("{name}/PG_VERSION"), "15\n");
        self.file(&format!("{name}/postgresql.conf"), configuration);
        self.path(name)
    }

    /// The program under the name of a server.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf, Skip> {
        static COMPILED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let compiled = COMPILED.get_or_init(compile).clone().map_err(Skip)?;
        let path = self.path(name);
        if !path.exists() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::copy(compiled, &path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Ok(path)
    }

    /// What he runs.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.user.command(program)
    }
}

/// Compiled once a test; what a killed run has left is compiled anew. In namespaces of their own
/// tests have the same pid.
fn compile() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let (source, made, program) =
        (own.path().join("fake.c"), own.path().join("fake"), folder.join("fake"));
    fs::write(&source, PROGRAM).map_err(|error| error.to_string())?;
    let output = Command::new("cc").args(["-O1", "-o"]).arg(&made).arg(&source).output();
    let output = output.map_err(|error| format!("cc: {error}"))?;
    if !output.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::rename(made, &program).map_err(|error| error.to_string())?;
    Ok(program)
}

/// A process that calls itself a server, killed when dropped.
pub(crate) struct Fake {
    child: Child,
    /// Its id.
    pub(crate) pid: u32,
}

/// What a fake server looks like.
pub(crate) struct Looks<'a> {
    /// Name of its program's file, which the kernel takes for the process's name.
    pub(crate) program: &'a str,
    /// Its arguments.
    pub(crate) arguments: &'a [&'a str],
    /// Where it works.
    pub(crate) directory: &'a Path,
    /// `anon`, `sysv` or `huge`.
    pub(crate) memory: &'a str,
    /// What it maps, in MiB.
    pub(crate) mapped: u64,
    /// What of that it has touched.
    pub(crate) touched: u64,
}

impl Fake {
    /// Starts it as the attacker and waits until its memory is there.
    pub(crate) fn start(attacker: &Attacker, looks: &Looks<'_>) -> Result<Self, Skip> {
        Self::start_by(attacker, looks, |program| attacker.command(program))
    }

    /// The same, by whatever runs it.
    pub(crate) fn start_by(
        attacker: &Attacker,
        looks: &Looks<'_>,
        run: impl FnOnce(&Path) -> Command,
    ) -> Result<Self, Skip> {
        let program = attacker.program(looks.program)?;
        let name = looks.program.rsplit('/').next().unwrap_or(looks.program);
        // Servers call themselves by their bare names.
        let mut command = run(Path::new("bash"));
        command.args(["-c", "exec -a \"$0\" \"$@\"", name]).arg(program);
        command.args(looks.arguments).env("MEMORY", looks.memory);
        command.env("MAPPED", looks.mapped.to_string()).env("TOUCHED", looks.touched.to_string());
        command.current_dir(looks.directory).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{command:?}");
        let pid = child.id();
        Ok(Self { child, pid })
    }

    /// A postmaster of this data directory.
    pub(crate) fn postgres(
        attacker: &Attacker,
        directory: &Path,
        mapped: u64,
        touched: u64,
    ) -> Result<Self, Skip> {
        let data = directory.to_str().unwrap();
        let arguments = &["-D", data];
        let looks =
            Looks { program: "postgres", arguments, directory, memory: "anon", mapped, touched };
        Self::start(attacker, &looks)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fake is what hugewise takes for a server: the attacks below are about what it does with
/// that.
#[test]
fn a_sleeping_program_looks_like_a_server() {
    let attacker = hugewise_testkit::require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 128MB\n");
    let fake = hugewise_testkit::require!(Fake::postgres(&attacker, &data, 512, 8));
    let checked = harness::check();
    let instance = checked.instance("postgresql", fake.pid);
    assert_eq!(instance["owner"], UID.to_string());
    assert_eq!(harness::segment_bytes(instance, false), 512 * MIB);
}
