//! A machine that Ansible reaches by ssh, and what is seen of it past Ansible and hugewise.

use super::control::{Control, free_port};
use crate::vm::host::{Snapshot, postgresql};
use crate::vm::{Disk, Hardware, Image, Machine, Stage, ensure};
use hugewise_testkit::tools::Failure;

/// What its memory is: a small server's.
const MEMORY_MIB: u32 = 1024;

/// The account's key, and the folder that Ansible makes in its home.
const AUTHORIZE: &str = "set -e
install -d -o ops -g ops -m 700 /home/ops/.ssh /home/ops/.ansible /home/ops/.ansible/tmp
cat >/home/ops/.ssh/authorized_keys
chown ops: /home/ops/.ssh/authorized_keys";

/// When the kernel started PostgreSQL's first process, in its own ticks.
const STARTED: &str =
    "cut -d ' ' -f 22 /proc/$(head -1 /var/lib/postgresql/15/main/postmaster.pid)/stat";

/// Bytes that hosts got, and bytes that they sent.
#[derive(Clone, Copy, Default)]
pub(super) struct Traffic {
    pub(super) got: u64,
    pub(super) sent: u64,
}

impl std::ops::Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { got: self.got + other.got, sent: self.sent + other.sent }
    }
}

pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) port: u16,
    pub(super) machine: Machine,
    noted: Option<Snapshot>,
    started: String,
    _disk: Disk,
}

impl Host {
    pub(super) fn boot(
        stage: &Stage,
        name: &'static str,
        control: &Control,
    ) -> Result<Self, Failure> {
        let (disk, port) = (stage.disk(Image::Managed)?, free_port()?);
        let hardware = Hardware { memory_mib: MEMORY_MIB, ssh: Some(port), ..Hardware::default() };
        let mut machine = stage.boot(&disk, hardware)?;
        machine.must(&format!("{{ {AUTHORIZE}\n}} <<'end'\n{}end\n", control.key()?))?;
        Ok(Self { name, port, machine, noted: None, started: String::new(), _disk: disk })
    }

    pub(super) fn must(&mut self, script: &str) -> Result<String, Failure> {
        self.machine.must(script).map_err(|failure| format!("{}: {failure}", self.name).into())
    }

    /// The key of its sshd.
    pub(super) fn key(&mut self) -> Result<String, Failure> {
        self.must("cut -d ' ' -f 1-2 /etc/ssh/ssh_host_ed25519_key.pub")
    }

    /// What went over its network since it was booted.
    pub(super) fn traffic(&mut self) -> Result<Traffic, Failure> {
        let text = self.must("cat /sys/class/net/en*/statistics/{rx,tx}_bytes")?;
        let numbers: Vec<u64> =
            text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        match numbers.as_slice() {
            [got, sent] => Ok(Traffic { got: *got, sent: *sent }),
            _ => Err(format!("{}: no traffic: {text}", self.name).into()),
        }
    }

    /// Notes how it is now.
    pub(super) fn note(&mut self) -> Result<(), Failure> {
        self.noted = Some(Snapshot::record(&mut self.machine)?);
        self.note_start()
    }

    /// Notes since when its PostgreSQL runs.
    pub(super) fn note_start(&mut self) -> Result<(), Failure> {
        self.started = self.must(STARTED)?;
        Ok(())
    }

    pub(super) fn must_be_as_noted(&mut self) -> Result<(), Failure> {
        let now = Snapshot::record(&mut self.machine)?;
        self.compare(&now, "")
    }

    /// The same but for the pools, which keep what a server holds.
    pub(super) fn must_have_files_as_noted(&mut self) -> Result<(), Failure> {
        let now = Snapshot::record(&mut self.machine)?;
        self.compare(&now, "value ")
    }

    fn compare(&self, now: &Snapshot, without: &str) -> Result<(), Failure> {
        let noted = self.noted.as_ref().ok_or("nothing was noted")?;
        let compared = if without.is_empty() {
            now.must_be(noted)
        } else {
            now.without(without).must_be(&noted.without(without))
        };
        compared.map_err(|failure| format!("{}: {failure}", self.name).into())
    }

    pub(super) fn must_not_have_restarted(&mut self) -> Result<(), Failure> {
        let (now, name) = (self.must(STARTED)?, self.name);
        ensure(now == self.started, || format!("{name}: PostgreSQL was restarted"))
    }

    pub(super) fn restart(&mut self) -> Result<(), Failure> {
        self.must("systemctl restart postgresql@15-main && systemctl is-active postgresql@15-main")
            .map(|_| ())
    }

    /// MiB of PostgreSQL's shared memory on huge pages, by the kernel's own word.
    pub(super) fn on_huge_pages(&mut self) -> Result<u64, Failure> {
        Ok(postgresql(&mut self.machine)
            .map_err(|failure| format!("{}: {failure}", self.name))?
            .huge)
    }

    pub(super) fn must_be_on_huge_pages(&mut self, stage: &Stage) -> Result<(), Failure> {
        let huge = self.on_huge_pages()?;
        ensure(huge >= 256, || format!("{}: PostgreSQL has {huge} MiB on huge pages", self.name))?;
        stage.report(&format!("{}: PostgreSQL has {huge} MiB on huge pages", self.name));
        Ok(())
    }

    pub(super) fn power_off(self) -> Result<(), Failure> {
        self.machine.power_off()
    }
}
