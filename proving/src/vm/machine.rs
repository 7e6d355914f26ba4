//! One virtual machine: QEMU without KVM, and the port on which commands go in and come back.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use hugewise_testkit::tools::{Failure, shell};

/// How long a boot may take; without KVM it is about half a minute, and many times that on a busy
/// machine.
const BOOT: Duration = Duration::from_secs(1800);
/// How long a command may take; the longest take a minute or two on a machine that has nothing else
/// to do.
const COMMAND: Duration = Duration::from_secs(1800);

/// Bytes of further disks, and how their files' names end.
const FURTHER_DISK: u64 = 256 << 20;
const LEFT: &str = "left";
const SLOW: &str = "slow";

/// What the machine is made of.
#[derive(Clone, Copy)]
pub(crate) struct Hardware {
    /// Memory in MiB, the same on each node.
    pub(crate) memory_mib: u32,
    /// NUMA nodes; each has a processor as long as there are any. A machine that is reached by ssh
    /// has one, as several of them run at once.
    pub(crate) nodes: u32,
    /// As QEMU names it.
    pub(crate) cpu: &'static str,
    /// What its clocks go by.
    pub(crate) clock: Clock,
    /// Whether there is a further disk, `/dev/vdc`, on which it can leave a tar; [`Disk::unpack`]
    /// reads it.
    pub(crate) leaves: bool,
    /// Requests a second that another disk takes, `/dev/vdd`; without, there is none.
    pub(crate) slow_disk: Option<u32>,
    /// A port of this machine's loopback that leads to its sshd, and nothing from it to anywhere;
    /// without, it has no network.
    pub(crate) ssh: Option<u16>,
}

impl Default for Hardware {
    fn default() -> Self {
        let (leaves, slow_disk, ssh) = (false, None, None);
        Self {
            memory_mib: 1536,
            nodes: 1,
            cpu: "max,la57=off",
            clock: Clock::Ours,
            leaves,
            slow_disk,
            ssh,
        }
    }
}

/// What a machine's clocks go by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// This machine's clock: who has to wait for a processor here is late in there.
    Ours,
    /// Its own instructions, so many nanoseconds each as a power of two: it is as quick as that
    /// whatever else runs here. Where `leaps`, time in which it has nothing to do passes at once: a
    /// request to a disk that this machine serves late seems to take minutes in there, and where
    /// much else runs here it does not even come up.
    Instructions { shift: u8, leaps: bool },
}

impl Clock {
    /// With a clock of instructions Linux 6.1 does not come past the start of a second processor
    /// (QEMU 7.2).
    const fn processors(self) -> u32 {
        match self {
            Self::Ours => 2,
            Self::Instructions { .. } => 1,
        }
    }

    fn arguments(self) -> Vec<String> {
        match self {
            Self::Ours => vec!["-accel".to_owned(), "tcg,thread=multi".to_owned()],
            Self::Instructions { shift, leaps } => {
                let sleep = if leaps { "off" } else { "on" };
                let icount = format!("shift={shift},sleep={sleep}");
                let words = ["-accel", "tcg,thread=single", "-icount", &icount];
                words.map(str::to_owned).to_vec()
            }
        }
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
        let folder = tempfile::Builder::new().prefix("disk-").tempdir_in(super::folder()?)?;
        let file = folder.path().join("disk.qcow2");
        let mut create = shell::command("qemu-img");
        create.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(image).arg(&file);
        shell::output(&mut create)?;
        Ok(Self { file, format: "qcow2", _folder: Some(folder) })
    }

    /// Unpacks the tar that the machine left on its further disk.
    pub(crate) fn unpack(&self, folder: &Path) -> Result<(), Failure> {
        std::fs::create_dir_all(folder)?;
        let mut tar = shell::command("tar");
        tar.arg("-xf")
            .arg(self.file.with_extension(LEFT))
            .arg("-C")
            .arg(folder)
            .arg("--no-same-owner");
        shell::output(&mut tar).map(|_| ())
    }
}

/// What a command in the machine gave back.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// What QEMU is started with, at every boot.
struct Setup {
    disk: PathBuf,
    format: &'static str,
    programs: Option<PathBuf>,
    kernel: Option<Kernel>,
    hardware: Hardware,
    /// What its clock shows when it starts, as `2026-11-22T02:03:04` of UTC; without, what this
    /// machine's shows.
    begins: Option<String>,
    /// Of the socket and the console's log; a socket's name must be short.
    folder: TempDir,
}

impl Setup {
    fn new(disk: &Disk, hardware: Hardware) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("hugewise-vm-").tempdir()?;
        let (disk, format) = (disk.file.clone(), disk.format);
        Ok(Self { disk, format, programs: None, kernel: None, hardware, begins: None, folder })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("commands")
    }

    fn console(&self) -> PathBuf {
        self.folder.path().join("console")
    }

    fn command(&self) -> Command {
        let Hardware { memory_mib, nodes, cpu, clock, leaves, slow_disk, ssh } = self.hardware;
        let mut qemu = Command::new("qemu-system-x86_64");
        let processors = if ssh.is_some() { 1 } else { clock.processors() };
        qemu.args(clock.arguments()).args(["-machine", "q35", "-cpu", cpu]);
        qemu.arg("-smp").arg(processors.to_string());
        if let Some(begins) = &self.begins {
            qemu.arg("-rtc").arg(format!("base={begins},clock=vm"));
        }
        qemu.args(["-nodefaults", "-display", "none", "-action", "reboot=shutdown", "-m"]);
        qemu.arg(format!("{}M", memory_mib * nodes));
        match ssh {
            Some(port) => {
                let network =
                    format!("user,id=network,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22");
                qemu.arg("-netdev").arg(network).args(["-device", "virtio-net-pci,netdev=network"]);
            }
            None => {
                qemu.args(["-net", "none"]);
            }
        }
        if nodes > 1 {
            for node in 0..nodes {
                qemu.arg("-object")
                    .arg(format!("memory-backend-ram,id=m{node},size={memory_mib}M"));
                let processor =
                    if node < processors { format!(",cpus={node}") } else { String::new() };
                qemu.arg("-numa").arg(format!("node,memdev=m{node}{processor}"));
            }
        }
        qemu.arg("-drive").arg(format!(
            "file={},if=virtio,format={}",
            self.disk.display(),
            self.format
        ));
        if let Some(programs) = &self.programs {
            qemu.arg("-drive")
                .arg(format!("file={},if=virtio,format=raw,readonly=on", programs.display()));
        }
        if leaves {
            let disk = self.disk.with_extension(LEFT);
            qemu.arg("-drive")
                .arg(format!("file={},if=virtio,format=raw,cache=unsafe", disk.display()));
        }
        if let Some(requests) = slow_disk {
            let disk = self.disk.with_extension(SLOW);
            qemu.arg("-drive").arg(format!(
                "file={},if=virtio,format=raw,cache=unsafe,throttling.iops-total={requests}",
                disk.display()
            ));
        }
        if let Some(kernel) = &self.kernel {
            qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&kernel.initrd);
            qemu.args(["-append", "root=/dev/vda1 console=ttyS0 no_timer_check"]);
        }
        qemu.arg("-serial").arg(format!("file:{}", self.console().display()));
        qemu.arg("-chardev")
            .arg(format!("socket,id=commands,server=on,wait=off,path={}", self.socket().display()));
        qemu.args([
            "-device",
            "virtio-serial",
            "-device",
            "virtserialport,chardev=commands,name=hugewise.commands",
        ]);
        qemu.stdin(Stdio::null());
        qemu
    }

    fn start(&self) -> Result<Power, Failure> {
        let qemu =
            self.command().spawn().map_err(|error| format!("qemu-system-x86_64: {error}"))?;
        Ok(Power(qemu))
    }
}

/// A running QEMU. It ends with this value.
struct Power(Child);

impl Power {
    fn cut(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    fn is_off(&mut self) -> Result<bool, Failure> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        self.cut();
    }
}

/// A running machine.
pub(crate) struct Machine {
    power: Power,
    commands: UnixStream,
    /// Read from the port and not yet taken.
    pending: Vec<u8>,
    setup: Setup,
}

impl Machine {
    /// Starts it from the disk's boot loader, and waits until systemd has started everything.
    pub(crate) fn boot(disk: &Disk, programs: &Path, hardware: Hardware) -> Result<Self, Failure> {
        Self::start(Setup { programs: Some(programs.to_owned()), ..Setup::new(disk, hardware)? })
    }

    /// Starts it from the disk of an image that has no boot loader yet.
    pub(crate) fn first_boot(
        disk: &Path,
        kernel: Kernel,
        hardware: Hardware,
    ) -> Result<Self, Failure> {
        let disk = Disk { file: disk.to_owned(), format: "raw", _folder: None };
        Self::start(Setup { kernel: Some(kernel), ..Setup::new(&disk, hardware)? })
    }

    /// The same, with its clock at that moment.
    pub(crate) fn boot_at(
        disk: &Disk,
        programs: &Path,
        hardware: Hardware,
        begins: &str,
    ) -> Result<Self, Failure> {
        let begins = Some(begins.to_owned());
        Self::start(Setup {
            programs: Some(programs.to_owned()),
            begins,
            ..Setup::new(disk, hardware)?
        })
    }

    fn start(setup: Setup) -> Result<Self, Failure> {
        let further = [(setup.hardware.leaves, LEFT), (setup.hardware.slow_disk.is_some(), SLOW)];
        for (_, name) in further.into_iter().filter(|(wanted, _)| *wanted) {
            File::create(setup.disk.with_extension(name))?.set_len(FURTHER_DISK)?;
        }
        let mut power = setup.start()?;
        let commands = connect(&mut power, &setup.socket())?;
        let mut machine = Self { power, commands, pending: Vec::new(), setup };
        machine.wait_until_up()?;
        Ok(machine)
    }

    fn wait_until_up(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + BOOT;
        let line = self.line(until)?;
        if line != "ready" {
            return Err(self.trouble(&format!("instead of `ready`: {line}")));
        }
        // Exit code 1 says `degraded`; which units failed is for the scenario to look at.
        let said = self.run_until("systemctl is-system-running --wait", until)?;
        match said.out.trim() {
            "running" | "degraded" => Ok(()),
            other => Err(format!("after the boot systemd is `{other}`").into()),
        }
    }

    /// Runs a bash script as root in the machine.
    pub(crate) fn run(&mut self, script: &str) -> Result<CommandOutput, Failure> {
        self.run_until(script, Instant::now() + COMMAND)
    }

    /// Runs a script that may take as long as that and must end well; its standard output.
    pub(crate) fn must_within(&mut self, script: &str, limit: Duration) -> Result<String, Failure> {
        let said = self.run_until(script, Instant::now() + limit)?;
        if said.code == 0 {
            return Ok(said.out);
        }
        Err(format!("exit code {}\n{}{}", said.code, said.out, said.err).into())
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
    ///
    /// QEMU ends at the reset and is started anew, with the same disk: for the machine that is the
    /// same, and QEMU is quicker when it has translated nothing yet.
    pub(crate) fn reboot(mut self) -> Result<Self, Failure> {
        self.send("systemctl reboot")?;
        self.wait_until_off()?;
        Self::start(self.setup)
    }

    /// Shuts it down in good order.
    pub(crate) fn power_off(mut self) -> Result<(), Failure> {
        self.send("systemctl poweroff")?;
        self.wait_until_off()
    }

    /// Takes the power away, gives it back, and waits until the machine is up again: what its
    /// kernel had not written to the disk is lost.
    pub(crate) fn power_cut(mut self) -> Result<Self, Failure> {
        self.power.cut();
        Self::start(self.setup)
    }

    /// The same, and its clock shows that moment when the power is back.
    pub(crate) fn power_cut_until(mut self, begins: &str) -> Result<Self, Failure> {
        self.power.cut();
        self.setup.begins = Some(begins.to_owned());
        Self::start(self.setup)
    }

    fn wait_until_off(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + BOOT;
        while !self.power.is_off()? {
            if Instant::now() > until {
                return Err(self.trouble("it does not end"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn run_until(&mut self, script: &str, until: Instant) -> Result<CommandOutput, Failure> {
        self.send(script)?;
        let line = self.line(until).map_err(|failure| format!("`{script}`: {failure}"))?;
        let numbers: Option<Vec<usize>> = line
            .strip_prefix("done ")
            .map(|rest| rest.split(' ').filter_map(|word| word.parse().ok()).collect());
        let Some([code, out, err]) = numbers.as_deref() else {
            return Err(self.trouble(&format!("`{script}` gave `{line}`")));
        };
        let out = self.read_bytes(*out, until)?;
        let err = self.read_bytes(*err, until)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(CommandOutput { code: i32::try_from(*code)?, out: text(out), err: text(err) })
    }

    fn send(&mut self, script: &str) -> Result<(), Failure> {
        Ok(self.commands.write_all(format!("{}\n{script}", script.len()).as_bytes())?)
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

    fn read_bytes(&mut self, bytes: usize, until: Instant) -> Result<Vec<u8>, Failure> {
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
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                Err(self.trouble("no answer in time"))
            }
            // A read with a time limit ends when this is stopped and goes on, without any signal of
            // its own (signal(7)).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// With the end of what its console says.
    fn trouble(&self, what: &str) -> Failure {
        let console = std::fs::read(self.setup.console()).unwrap_or_default();
        let console = String::from_utf8_lossy(&console).replace('\r', "");
        let lines: Vec<&str> = console.lines().collect();
        let end = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n");
        format!("{what}; the console's end:\n{end}").into()
    }
}

fn connect(power: &mut Power, socket: &Path) -> Result<UnixStream, Failure> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > until => {
                return Err(format!("{}: {error}", socket.display()).into());
            }
            Err(_) => {}
        }
        if power.is_off()? {
            return Err("qemu-system-x86_64 ended at once".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A disk of programs as the machine unpacks it at every boot, into /usr/local/bin, with the names
/// that they have there.
pub(crate) fn programs(folder: &Path, files: &[(&str, &Path)]) -> Result<PathBuf, Failure> {
    let disk = folder.join("programs.tar");
    let mut tar = shell::command("tar");
    tar.arg("-cf").arg(&disk).arg("-C").arg(folder);
    for (name, file) in files {
        std::fs::copy(file, folder.join(name))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        tar.arg(name);
    }
    shell::output(&mut tar)?;
    // QEMU takes whole mebibytes without a word.
    let bytes = File::open(&disk)?.metadata()?.len();
    File::options().write(true).open(&disk)?.set_len(bytes.next_multiple_of(1 << 20))?;
    Ok(disk)
}
