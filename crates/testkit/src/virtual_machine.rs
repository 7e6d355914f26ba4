//! A virtual machine with Debian's cloud kernel and files of this host: for what needs a machine
//! that has just booted, another kernel, another layout of memory, or another processor.
//!
//! It is emulated (QEMU's tcg), so that it runs wherever QEMU does, and takes some seconds to boot.
//! All its files are in its memory; what it has to say, it says on its console.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Skip;

/// A kernel, by the processor that it is for.
#[derive(Clone, Copy, Debug)]
pub enum GuestKernel<'a> {
    /// That of the machines which build and test hugewise.
    X86_64(&'a Path),
    /// As QEMU loads it: the kernel's own `Image`, not packed.
    Arm64(&'a Path),
}

impl GuestKernel<'_> {
    const fn qemu_path(self) -> &'static str {
        match self {
            Self::X86_64(_) => "/usr/bin/qemu-system-x86_64",
            Self::Arm64(_) => "/usr/bin/qemu-system-aarch64",
        }
    }

    /// The machine, and a processor: of arm64's the oldest that has each size of base pages, as
    /// newer ones sign each return address, which is slow to emulate.
    const fn qemu_hardware(self) -> [&'static str; 4] {
        match self {
            Self::X86_64(_) => ["-machine", "q35", "-cpu", "max"],
            Self::Arm64(_) => ["-machine", "virt", "-cpu", "neoverse-n1"],
        }
    }

    const fn console_device(self) -> &'static str {
        match self {
            Self::X86_64(_) => "ttyS0",
            Self::Arm64(_) => "ttyAMA0",
        }
    }

    const fn kernel_image(&self) -> &Path {
        match self {
            Self::X86_64(image) | Self::Arm64(image) => image,
        }
    }
}

/// A cpio archive of the kind that the kernel unpacks (newc): the machine's files.
#[derive(Debug, Default)]
pub struct InitramfsArchive {
    bytes: Vec<u8>,
    count: usize,
    folders: BTreeSet<String>,
}

impl InitramfsArchive {
    /// With busybox, the shell and everything else of it, and the folders that every machine has.
    ///
    /// # Errors
    /// Where busybox is not installed or cannot be read.
    pub fn with_busybox() -> Result<Self, Skip> {
        let mut files = Self::default();
        for folder in
            ["bin", "sbin", "usr/bin", "usr/sbin", "proc", "sys", "dev", "tmp", "run/lock", "etc"]
        {
            files.add_folder(folder);
        }
        let busybox = find_installed(&["/bin/busybox", "/usr/bin/busybox"])?;
        files
            .copy_as(&busybox, "bin/busybox")
            .map_err(|error| Skip(format!("{}: {error}", busybox.display())))?;
        Ok(files)
    }

    /// A folder with those above it.
    pub fn add_folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        let above = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for folder in above.filter_map(|end| path.get(..end)).filter(|folder| !folder.is_empty()) {
            if self.folders.insert(folder.to_owned()) {
                self.write_entry(folder, 0o040_755, &[]);
            }
        }
    }

    /// A file with that content.
    pub fn add_file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        let path = path.trim_start_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.add_folder(folder);
        }
        self.write_entry(path, 0o100_000 | (permissions & 0o7777), content);
    }

    /// This host's file under another name; a link becomes what it leads to.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn copy_as(&mut self, file: &Path, path: &str) -> io::Result<()> {
        let content = fs::read(file)?;
        self.add_file(path, fs::metadata(file)?.permissions().mode(), &content);
        Ok(())
    }

    /// This host's file or folder under the same name, without what `leave_out` names.
    ///
    /// # Errors
    /// Where something in it cannot be read.
    pub fn copy_from_host(
        &mut self,
        path: &Path,
        leave_out: &dyn Fn(&Path) -> bool,
    ) -> io::Result<()> {
        if leave_out(path) {
            return Ok(());
        }
        if fs::metadata(path)?.is_dir() {
            self.add_folder(&path.to_string_lossy());
            for entry in fs::read_dir(path)? {
                self.copy_from_host(&entry?.path(), leave_out)?;
            }
            return Ok(());
        }
        self.copy_as(path, &path.to_string_lossy())
    }

    /// A folder that is the machine's root: with its links as they are, and everything root's.
    /// Devices are left out.
    ///
    /// # Errors
    /// Where something in it cannot be read.
    pub fn copy_root_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.copy_tree(folder, "")
    }

    fn copy_tree(&mut self, folder: &Path, path: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let from = entry?.path();
            let to = format!("{path}/{}", from.file_name().unwrap_or_default().to_string_lossy());
            let metadata = fs::symlink_metadata(&from)?;
            if metadata.is_symlink() {
                self.read_link(&to, &fs::read_link(&from)?);
            } else if metadata.is_dir() {
                self.add_folder(&to);
                self.copy_tree(&from, &to)?;
            } else if metadata.is_file() {
                self.add_file(&to, metadata.permissions().mode(), &fs::read(&from)?);
            }
        }
        Ok(())
    }

    fn read_link(&mut self, path: &str, target: &Path) {
        self.write_entry(
            path.trim_start_matches('/'),
            0o120_777,
            target.as_os_str().as_encoded_bytes(),
        );
    }

    /// What these programs and libraries of this host need to run: what `ldd` names, the program
    /// interpreter among it.
    ///
    /// # Errors
    /// Where `ldd` does not run, or a library cannot be read.
    pub fn libraries_of(&mut self, programs: &[&Path]) -> io::Result<()> {
        let said = Command::new("ldd").args(programs).stderr(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let words = said
            .lines()
            .filter(|line| line.starts_with(char::is_whitespace))
            .flat_map(str::split_ascii_whitespace);
        let libraries: BTreeSet<&str> = words.filter(|word| word.starts_with('/')).collect();
        for library in libraries {
            self.copy_as(Path::new(library), library)?;
        }
        Ok(())
    }

    /// What the kernel needs to give memory that it has freed back to this host: commands for
    /// `/init`.
    ///
    /// # Errors
    /// Where the kernel's modules are not installed.
    pub fn gives_back(&mut self) -> Result<String, Skip> {
        let kernel = find_debian_kernel()?;
        let name = kernel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = name.trim_start_matches("vmlinuz-");
        let mut commands = String::new();
        for module in GIVES_BACK {
            let from = format!("/lib/modules/{version}/kernel/drivers/virtio/{module}.ko");
            let to = format!("/lib/modules/{module}.ko");
            self.copy_as(Path::new(&from), &to)
                .map_err(|error| Skip(format!("{from}: {error}")))?;
            commands.push_str(&format!("insmod {to}\n"));
        }
        Ok(commands)
    }

    fn write_entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.count += 1;
        let (number, size, name_size) = (self.count, content.len(), name.len() + 1);
        let head =
            format!("070701{number:08x}{mode:08x}{0:08x}{0:08x}{1:08x}{0:08x}{size:08x}", 0, 1);
        let rest = format!("{0:08x}{0:08x}{0:08x}{0:08x}{name_size:08x}{0:08x}", 0);
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(rest.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad_to_word();
        self.bytes.extend_from_slice(content);
        self.pad_to_word();
    }

    fn pad_to_word(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The archive as a file that has no name any more.
    fn into_archive(mut self) -> io::Result<fs::File> {
        self.write_entry("TRAILER!!!", 0, &[]);
        let path = std::env::temp_dir().join(format!(
            "hugewise-machine-{}-{:p}",
            std::process::id(),
            &raw const self
        ));
        let mut archive =
            fs::File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        archive.write_all(&self.bytes)?;
        archive.rewind()?;
        Ok(archive)
    }
}

/// What the machine's kernel needs to give memory that it has freed back to this host, in the order
/// in which `/init` loads it.
const GIVES_BACK: [&str; 6] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_balloon",
];

/// QEMU's part of it.
pub const GIVES_BACK_OPTIONS: [&str; 2] = ["-device", "virtio-balloon-pci,free-page-reporting=on"];

/// What the machine is to be.
#[derive(Debug)]
pub struct VirtualMachine {
    /// Its files: `/init` is what it runs.
    pub files: InitramfsArchive,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// What else QEMU is to be told: NUMA nodes.
    pub options: Vec<String>,
    /// The kernel's arguments besides its console.
    pub kernel_arguments: String,
}

/// A machine that runs; ended when dropped.
struct RunningMachine(Child);

impl VirtualMachine {
    /// Boots it and gives each line of its console to `said`, until it powers itself off.
    ///
    /// # Errors
    /// Where this host lacks what it takes, and where the machine has not ended by itself after
    /// `limit`.
    pub fn run(self, limit: Duration, said: &mut dyn FnMut(&str)) -> Result<(), Skip> {
        self.run_on(GuestKernel::X86_64(&find_debian_kernel()?), limit, said)
    }

    /// The same on another kernel than this host's, or on another processor.
    ///
    /// # Errors
    /// As with [`run`](Self::run).
    pub fn run_on(
        self,
        kernel: GuestKernel<'_>,
        limit: Duration,
        said: &mut dyn FnMut(&str),
    ) -> Result<(), Skip> {
        let qemu = find_installed(&[kernel.qemu_path()])?;
        let archive = self
            .files
            .into_archive()
            .map_err(|error| Skip(format!("a machine's files: {error}")))?;
        // Whatever ends this process, the machine goes with it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--"]).arg(qemu);
        command
            .args(["-accel", "tcg,thread=multi"])
            .args(kernel.qemu_hardware())
            .args(["-smp", "2"]);
        command.args(["-m", &self.memory_mib.to_string()]).args(&self.options);
        command.args([
            "-display",
            "none",
            "-monitor",
            "none",
            "-serial",
            "file:/dev/stdout",
            "-no-reboot",
            "-net",
            "none",
        ]);
        command.arg("-kernel").arg(kernel.kernel_image()).args(["-initrd", "/dev/stdin"]);
        let console = kernel.console_device();
        command.args([
            "-append",
            &format!("console={console} quiet panic=-1 {}", self.kernel_arguments),
        ]);
        let done = RunningMachine::spawn_qemu(command.stdin(archive))
            .and_then(|mut running| running.read_console(limit, said));
        done.map_err(|error| Skip(format!("a virtual machine: {error}")))
    }
}

impl RunningMachine {
    fn spawn_qemu(command: &mut Command) -> io::Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().map(Self)
    }

    fn read_console(&mut self, limit: Duration, said: &mut dyn FnMut(&str)) -> io::Result<()> {
        let console = self.0.stdout.take().ok_or_else(|| io::Error::other("no console"))?;
        let (sender, lines) = mpsc::channel();
        // Ends when the machine does.
        thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n') {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let until = Instant::now() + limit;
        loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => said(String::from_utf8_lossy(&line?).trim_end_matches('\r')),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(io::Error::other(format!(
                        "not done after {} seconds",
                        limit.as_secs()
                    )));
                }
            }
        }
        let status = self.0.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("it ended with {status}")))
        }
    }
}

impl Drop for RunningMachine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first of these files that is there.
fn find_installed(paths: &[&str]) -> Result<PathBuf, Skip> {
    let found = paths.iter().map(PathBuf::from).find(|path| path.exists());
    let name = paths.first().copied().unwrap_or_default();
    found.ok_or_else(|| Skip(format!("{name} is not installed; `cargo xtask test` installs it")))
}

/// Debian's cloud kernel: it has the console and everything else that the machine needs built in.
fn find_debian_kernel() -> Result<PathBuf, Skip> {
    let names = fs::read_dir("/boot").map_err(|error| Skip(format!("/boot: {error}")))?;
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        name.starts_with("vmlinuz-6.1.") && name.contains("cloud")
    };
    let kernels = names.flatten().map(|entry| entry.path()).filter(is_ours);
    kernels.max().ok_or_else(|| {
        Skip("no Debian cloud kernel in /boot; `cargo xtask test` installs it".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cpio` of busybox reads the archive as the kernel does.
    #[test]
    fn the_archive_is_one_that_cpio_reads() {
        let mut files = crate::require!(InitramfsArchive::with_busybox());
        files.add_file("/app/home/name", 0o640, b"content\n");
        files.add_file("app/other", 0o755, b"");
        let folder = tempfile::tempdir().unwrap();
        let mut cpio = Command::new("busybox");
        cpio.args(["cpio", "-idu"]).current_dir(folder.path()).stdin(files.into_archive().unwrap());
        assert!(cpio.stderr(Stdio::null()).status().unwrap().success());
        assert_eq!(fs::read(folder.path().join("app/home/name")).unwrap(), b"content\n");
        let mode = |path: &str| {
            fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(
            (mode("app/home/name"), mode("app/other"), mode("bin/busybox")),
            (0o640, 0o755, 0o755)
        );
    }

    #[test]
    fn links_of_a_root_lead_where_they_led() {
        let from = tempfile::tempdir().unwrap();
        fs::create_dir_all(from.path().join("usr/bin")).unwrap();
        fs::write(from.path().join("usr/bin/sh"), b"shell").unwrap();
        std::os::unix::fs::symlink("usr/bin", from.path().join("bin")).unwrap();
        std::os::unix::fs::symlink("/nowhere/here", from.path().join("away")).unwrap();
        let mut files = InitramfsArchive::default();
        files.copy_root_folder(from.path()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let busybox = crate::require!(find_installed(&["/bin/busybox", "/usr/bin/busybox"]));
        let mut cpio = Command::new(busybox);
        cpio.args(["cpio", "-idu"]).current_dir(folder.path()).stdin(files.into_archive().unwrap());
        assert!(cpio.stderr(Stdio::null()).status().unwrap().success());
        assert_eq!(fs::read_link(folder.path().join("away")).unwrap(), Path::new("/nowhere/here"));
        assert_eq!(fs::read(folder.path().join("usr/bin/sh")).unwrap(), b"shell");
    }
}
