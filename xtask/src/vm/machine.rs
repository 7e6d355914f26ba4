//! One virtual machine: QEMU without KVM, and the port on which commands go in and come back.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::image;
use crate::{Failure, shell};

/// How long a boot may take; without KVM it is about half a minute.
const BOOT: Duration = Duration::from_secs(300);
/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(300);

/// What the machine is made of.
#[derive(Clone, Copy)]
pub(crate) struct Hardware {
    /// Memory in MiB, the same on each node.
    pub(crate) memory_mib: u32,
    /// NUMA nodes, a processor or two on each.
    pub(crate) nodes: u32,
    /// As QEMU names it.
    pub(crate) cpu: &'static str,
}

impl Default for Hardware {
    fn default() -> Self {
        Self { memory_mib: 1536, nodes: 1, cpu: "max,la57=off" }
    }
}

/// A kernel that QEMU loads itself, past the disk's boot loader.
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    pub(crate) initrd: PathBuf,
}

/// A disk that begins as the image and keeps what is written to it, over reboots and power cuts.
pub(crate) struct Disk {
    file: PathBuf,
    format: &'static str,
    _folder: Option<TempDir>,
}

impl Disk {
    /// A new one over the image.
    pub(crate) fn over(image: &Path) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("disk-").tempdir_in(image::folder()?)?;
        let file = folder.path().join("disk.qcow2");
        let mut create = shell::command("qemu-img");
        create.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(image).arg(&file);
        shell::output(&mut create)?;
        Ok(Self { file, format: "qcow2", _folder: Some(folder) })
    }
}

/// What a command in the machine gave back.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A running machine. It ends with this value.
pub(crate) struct Machine {
    qemu: Child,
    commands: UnixStream,
    /// Read from the port and not yet taken.
    pending: Vec<u8>,
    console: PathBuf,
    boot: String,
    _folder: TempDir,
}

impl Machine {
    /// Starts it from the disk's boot loader, and waits until systemd has started everything.
    pub(crate) fn boot(disk: &Disk, programs: &Path, hardware: Hardware) -> Result<Self, Failure> {
        let mut machine = Self::start(disk, Some(programs), None, hardware)?;
        machine.wait_until_up()?;
        Ok(machine)
    }

    /// Starts it from the disk of an image that has no boot loader yet.
    pub(crate) fn first_boot(disk: &Path, kernel: &Kernel, hardware: Hardware) -> Result<Self, Failure> {
        let disk = Disk { file: disk.to_owned(), format: "raw", _folder: None };
        let mut machine = Self::start(&disk, None, Some(kernel), hardware)?;
        machine.wait_until_up()?;
        Ok(machine)
    }

    fn start(
        disk: &Disk,
        programs: Option<&Path>,
        kernel: Option<&Kernel>,
        hardware: Hardware,
    ) -> Result<Self, Failure> {
        // A socket's name must be short.
        let folder = tempfile::Builder::new().prefix("hugewise-vm-").tempdir()?;
        let (socket, console) = (folder.path().join("commands"), folder.path().join("console"));
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", hardware.cpu, "-smp", "2"]);
        qemu.args(["-nodefaults", "-display", "none", "-net", "none", "-m"]);
        qemu.arg(format!("{}M", hardware.memory_mib * hardware.nodes));
        if hardware.nodes > 1 {
            for node in 0..hardware.nodes {
                qemu.arg("-object").arg(format!("memory-backend-ram,id=m{node},size={}M", hardware.memory_mib));
                qemu.arg("-numa").arg(format!("node,memdev=m{node},cpus={node}"));
            }
        }
        qemu.arg("-drive").arg(format!("file={},if=virtio,format={}", disk.file.display(), disk.format));
        if let Some(programs) = programs {
            qemu.arg("-drive").arg(format!("file={},if=virtio,format=raw,readonly=on", programs.display()));
        }
        if let Some(kernel) = kernel {
            qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&kernel.initrd);
            qemu.args(["-append", "root=/dev/vda1 console=ttyS0"]);
        }
        qemu.arg("-serial").arg(format!("file:{}", console.display()));
        qemu.arg("-chardev").arg(format!("socket,id=commands,server=on,wait=off,path={}", socket.display()));
        qemu.args(["-device", "virtio-serial", "-device", "virtserialport,chardev=commands,name=hugewise.commands"]);
        let mut qemu = qemu.stdin(Stdio::null()).spawn().map_err(|error| format!("qemu-system-x86_64: {error}"))?;
        match connect(&mut qemu, &socket) {
            Ok(commands) => {
                let (pending, boot) = (Vec::new(), String::new());
                Ok(Self { qemu, commands, pending, console, boot, _folder: folder })
            }
            Err(failure) => {
                let _ = qemu.kill();
                let _ = qemu.wait();
                Err(failure)
            }
        }
    }

    fn wait_until_up(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + BOOT;
        let line = self.line(until)?;
        let boot = line.strip_prefix("ready ").ok_or_else(|| format!("instead of `ready`: {line}"))?;
        if boot == self.boot {
            return Err("the machine did not boot anew".into());
        }
        self.boot = boot.to_owned();
        // Exit code 1 says `degraded`; which units failed is for the scenario to look at.
        let said = self.run_until("systemctl is-system-running --wait", until)?;
        match said.out.trim() {
            "running" | "degraded" => Ok(()),
            other => Err(format!("after the boot systemd is `{other}`").into()),
        }
    }

    /// Runs a bash script as root in the machine.
    pub(crate) fn run(&mut self, script: &str) -> Result<Said, Failure> {
        self.run_until(script, Instant::now() + COMMAND)
    }

    /// Runs a script that must end well; its standard output.
    pub(crate) fn must(&mut self, script: &str) -> Result<String, Failure> {
        let said = self.run(script)?;
        if said.code == 0 {
            return Ok(said.out);
        }
        Err(format!("exit code {} of `{script}`\n{}{}", said.code, said.out, said.err).into())
    }

    /// Restarts the machine the way an administrator does, and waits until it is up again.
    pub(crate) fn reboot(&mut self) -> Result<(), Failure> {
        self.must("systemctl reboot")?;
        self.wait_until_up()
    }

    /// Shuts it down in good order.
    pub(crate) fn power_off(mut self) -> Result<(), Failure> {
        self.must("systemctl poweroff")?;
        let until = Instant::now() + BOOT;
        while self.qemu.try_wait()?.is_none() {
            if Instant::now() > until {
                return Err(self.trouble("it does not power off"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Takes the power away: what the machine's kernel has not written to its disk is lost.
    pub(crate) fn power_cut(mut self) -> Result<(), Failure> {
        self.qemu.kill()?;
        self.qemu.wait()?;
        Ok(())
    }

    fn run_until(&mut self, script: &str, until: Instant) -> Result<Said, Failure> {
        self.commands.write_all(format!("{}\n{script}", script.len()).as_bytes())?;
        let line = self.line(until).map_err(|failure| format!("`{script}`: {failure}"))?;
        let numbers: Option<Vec<usize>> =
            line.strip_prefix("done ").map(|rest| rest.split(' ').filter_map(|word| word.parse().ok()).collect());
        let Some([code, out, err]) = numbers.as_deref() else {
            return Err(self.trouble(&format!("`{script}` gave `{line}`")));
        };
        let out = self.take(*out, until)?;
        let err = self.take(*err, until)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Said { code: i32::try_from(*code)?, out: text(out), err: text(err) })
    }

    fn line(&mut self, until: Instant) -> Result<String, Failure> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            self.fill(until)?;
        }
    }

    fn take(&mut self, bytes: usize, until: Instant) -> Result<Vec<u8>, Failure> {
        while self.pending.len() < bytes {
            self.fill(until)?;
        }
        Ok(self.pending.drain(..bytes).collect())
    }

    fn fill(&mut self, until: Instant) -> Result<(), Failure> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.trouble("no answer in time"));
        }
        self.commands.set_read_timeout(Some(left))?;
        let mut bytes = vec![0; 1 << 16];
        match self.commands.read(&mut bytes) {
            Ok(0) => Err(self.trouble("the machine is gone")),
            Ok(read) => {
                self.pending.extend(bytes.into_iter().take(read));
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(self.trouble("no answer in time")),
            Err(error) => Err(error.into()),
        }
    }

    /// With the end of what its console says.
    fn trouble(&self, what: &str) -> Failure {
        let console = std::fs::read(&self.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console).replace('\r', "");
        let lines: Vec<&str> = console.lines().collect();
        let end = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n");
        format!("{what}; the console's end:\n{end}").into()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

fn connect(qemu: &mut Child, socket: &Path) -> Result<UnixStream, Failure> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > until => return Err(format!("{}: {error}", socket.display()).into()),
            Err(_) => {}
        }
        if let Some(status) = qemu.try_wait()? {
            return Err(format!("qemu-system-x86_64 ended with {status}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A disk of programs as the machine unpacks it at every boot, into /usr/local/bin.
pub(crate) fn programs(folder: &Path, files: &[&Path]) -> Result<PathBuf, Failure> {
    let disk = folder.join("programs.tar");
    let mut tar = shell::command("tar");
    tar.arg("-cf").arg(&disk);
    for file in files {
        let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else {
            return Err(format!("{}: no file", file.display()).into());
        };
        tar.arg("-C").arg(parent).arg(name);
    }
    shell::output(&mut tar)?;
    // QEMU takes whole mebibytes without a word.
    let bytes = File::open(&disk)?.metadata()?.len();
    File::options().write(true).open(&disk)?.set_len(bytes.next_multiple_of(1 << 20))?;
    Ok(disk)
}
