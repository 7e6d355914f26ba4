//! Pages of 1 GiB, in a virtual machine that has just booted: a host that has run for a while has
//! no gibibyte in one piece.
//!
//! The machine runs this very program with `--inside`, on the same paths as here, and says on its
//! console what came out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_testkit::Skip;
use hugewise_testkit::virtual_machine::{GIVES_BACK_OPTIONS, InitramfsArchive, VirtualMachine};
use serde::Serialize;
use serde::de::DeserializeOwned;

use hugewise_testkit::tools::{Failure, shell};

/// Its memory: seven pages of 1 GiB, which are to be found in one piece, and what the servers need
/// besides.
const MEMORY_MIB: u64 = 14 << 10;

/// What this host has to have available for it: it gives back what it has freed, but not at once.
const ROOM_KIB: u64 = 15 << 20;

/// Emulated servers take their time.
const LIMIT: Duration = Duration::from_secs(5400);

/// Where the cases with pages of 1 GiB are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// In a virtual machine where this host has no such pages to give.
    Auto,
    /// In a virtual machine.
    Always,
    /// Here, or not at all.
    Never,
}

/// What the machine says on its console, each on a line of its own.
const ROW: &str = "@@row ";
const SKIP: &str = "@@skip ";
const FAILED: &str = "@@failed ";
const DONE: &str = "@@done ";

/// What came out of one case in there.
pub(crate) enum CaseOutcome<T> {
    Row(T),
    Skip(String),
    Failed(String),
}

impl<T: Serialize> CaseOutcome<T> {
    /// Prints it as the machine's console has it.
    pub(crate) fn print(&self) -> Result<(), Failure> {
        match self {
            Self::Row(row) => println!("\n{ROW}{}", serde_json::to_string(row)?),
            Self::Skip(why) => println!("\n{SKIP}{}", one_line(why)),
            Self::Failed(why) => println!("\n{FAILED}{}", one_line(why)),
        }
        Ok(())
    }
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" / ")
}

/// Runs `xtask COMMAND --inside` with these programs and folders in such a machine, and gives what
/// came out as it comes.
pub(crate) fn run<T: DeserializeOwned>(
    command: &str,
    programs: &[&Path],
    folders: &[PathBuf],
    report: &mut dyn FnMut(CaseOutcome<T>),
) -> Result<(), Failure> {
    room()?;
    let own = std::env::current_exe()?;
    let mut files = InitramfsArchive::with_busybox().map_err(|Skip(why)| why)?;
    let mut executables = vec![own.clone(), PathBuf::from("/usr/bin/setpriv")];
    executables.extend(programs.iter().map(|program| program.to_path_buf()));
    for program in &executables {
        files.copy_from_host(program, &|_| false)?;
    }
    for folder in folders {
        files.copy_from_host(folder, &left_out)?;
        executables.extend(binaries(folder));
    }
    files.libraries_of(&executables.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let gives_back = files.gives_back().map_err(|Skip(why)| why)?;
    files.add_file("init", 0o755, init(&own, command, &gives_back).as_bytes());
    files.add_file(
        "etc/passwd",
        0o644,
        b"root:x:0:0::/:/bin/sh\npostgres:x:107:112::/tmp:/bin/sh\nmysql:x:108:113::/tmp:/bin/sh\n",
    );
    files.add_file("etc/group", 0o644, b"root:x:0:\npostgres:x:112:\nmysql:x:113:\n");
    files.add_file("etc/hostname", 0o644, b"gibibytes\n");
    let (mut console, mut done) = (Vec::new(), None);
    let machine = VirtualMachine {
        files,
        memory_mib: MEMORY_MIB,
        options: GIVES_BACK_OPTIONS.map(str::to_owned).to_vec(),
        kernel_arguments: "hugepagesz=1G hugepages=0".into(),
    };
    let mut listen = |line: &str| {
        if let Some(row) = line.strip_prefix(ROW) {
            match serde_json::from_str(row) {
                Ok(row) => report(CaseOutcome::Row(row)),
                Err(error) => report(CaseOutcome::Failed(format!(
                    "the virtual machine said {row:?}: {error}"
                ))),
            }
        } else if let Some(why) = line.strip_prefix(SKIP) {
            report(CaseOutcome::Skip(why.to_owned()));
        } else if let Some(why) = line.strip_prefix(FAILED) {
            report(CaseOutcome::Failed(why.to_owned()));
        } else if let Some(code) = line.strip_prefix(DONE) {
            done = code.trim().parse::<u8>().ok();
        } else if !line.trim().is_empty() {
            console.push(line.to_owned());
        }
    };
    machine.run(LIMIT, &mut listen).map_err(|Skip(why)| why)?;
    let last = console.split_off(console.len().saturating_sub(12)).join("\n");
    match done {
        Some(0) => Ok(()),
        Some(_) => Err(format!("in the virtual machine:\n{last}").into()),
        None => Err(format!("the virtual machine did not finish:\n{last}").into()),
    }
}

fn room() -> Result<(), Failure> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    let kib: u64 = line.split_ascii_whitespace().next().unwrap_or_default().parse()?;
    if kib < ROOM_KIB {
        return Err(format!(
            "a virtual machine takes {} GiB, {} are available",
            ROOM_KIB >> 20,
            kib >> 20
        )
        .into());
    }
    Ok(())
}

/// What no server needs: just-in-time compilers, headers, translations, manuals.
fn left_out(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let compiled = ["bitcode", "include", "locale", "man", "doc", "pkgconfig", "pgxs", "contrib"];
    compiled.contains(&name.as_ref())
        || name.starts_with("llvmjit")
        || name.starts_with("libLLVM")
        || name.ends_with(".a")
}

/// Programs and libraries right below a server's folder.
fn binaries(folder: &Path) -> Vec<PathBuf> {
    let list = |name: &str| {
        fs::read_dir(folder.join(name)).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let files =
        ["bin", "lib"].into_iter().flat_map(list).filter(|path| path.is_file() && !left_out(path));
    files.collect()
}

fn init(own: &Path, command: &str, gives_back: &str) -> String {
    let (own, target) = (own.display(), shell::target());
    let target = target.display();
    format!(
        "#!/bin/busybox sh\n\
         /bin/busybox --install -s /bin\n\
         mount -t proc proc /proc\n\
         mount -t sysfs sys /sys\n\
         mount -t devtmpfs dev /dev\n\
         mkdir -p /dev/shm\n\
         mount -t tmpfs shm /dev/shm\n\
         chmod 1777 /tmp /dev/shm\n\
         {gives_back}\
         ifconfig lo 127.0.0.1 up\n\
         echo 1 > /proc/sys/vm/overcommit_memory\n\
         export PATH=/usr/bin:/bin LANG=C TZ=UTC HOME=/ CARGO_TARGET_DIR='{target}'\n\
         '{own}' {command} --inside < /dev/null\n\
         echo \"\n{DONE}$?\"\n\
         poweroff -f\n"
    )
}
