//! The image that scenarios start from: Debian 12 with systemd, GRUB on its disk, and PostgreSQL.
//!
//! Files come from mmdebstrap and go to a disk without being mounted; what needs the disk itself (GRUB's installation, the
//! database cluster) happens in the first boot. Kept under target/vm, by the recipe.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::machine::{Hardware, Kernel, Machine};
use crate::{Failure, debian, shell};

/// What building and running needs of this machine.
const NEEDS: debian::Needs = &[
    ("/usr/bin/mmdebstrap", "mmdebstrap"),
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/bin/qemu-img", "qemu-utils"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/sfdisk", "fdisk"),
];

/// What every image has.
const PACKAGES: &str = "systemd-sysv,dbus,udev,kmod,procps,initramfs-tools,grub-pc,postgresql-15,postgresql-client-15";

const DISK_BYTES: u64 = 3 << 30;
/// Where the one partition begins; GRUB's own code lies before it.
const PARTITION: u64 = 1 << 20;
const FILE_SYSTEM: &str = "6d1c3f2e-5a8b-4e0f-9c27-3b1f5e7a9d04";

/// Files that are there before packages are installed: name, mode, content.
const FILES: &[(&str, u32, &str)] = &[
    ("etc/hostname", 0o644, "vm\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost vm\n"),
    ("etc/machine-id", 0o444, "5e0f6c5d2c1f4b6fa4e97d21c0a8b3ef\n"),
    ("etc/postgresql-common/createcluster.conf", 0o644, "create_main_cluster = false\nadd_include_dir = 'conf.d'\n"),
    ("etc/initramfs-tools/conf.d/vm", 0o644, "MODULES=list\nCOMPRESS=gzip\n"),
    ("etc/initramfs-tools/hooks/vm", 0o755, INITRAMFS),
    ("etc/default/grub.d/10-vm.cfg", 0o644, GRUB),
    ("etc/systemd/system/vm-commands.service", 0o644, UNIT),
    ("usr/local/sbin/vm-commands", 0o755, COMMANDS),
];

/// The modules between the kernel and its disk.
const INITRAMFS: &str = "#!/bin/sh
case $1 in prereqs) exit 0 ;; esac
. /usr/share/initramfs-tools/hook-functions
manual_add_modules virtio_pci virtio_blk
";

/// No menu to wait at; everything on the serial console. On a busy machine the timer's interrupts come late, and the
/// kernel would take it for broken.
const GRUB: &str = "GRUB_TIMEOUT=0
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND=\"serial --unit=0 --speed=115200\"
GRUB_DISABLE_OS_PROBER=true
GRUB_CMDLINE_LINUX=\"console=ttyS0 no_timer_check\"
";

const UNIT: &str = "[Unit]
Description=Commands from outside
Wants=modprobe@virtio_console.service
After=modprobe@virtio_console.service

[Service]
ExecStart=/usr/local/sbin/vm-commands

[Install]
WantedBy=multi-user.target
";

/// The other end of `Machine::run`: a script's length and the script in; exit code, lengths and both outputs out.
const COMMANDS: &str = r#"#!/bin/bash
port=/dev/virtio-ports/hugewise.commands
here=/run/vm
mkdir -p $here
[ -b /dev/vdb ] && tar -xf /dev/vdb -C /usr/local/bin
until [ -e $port ]; do sleep 0.1; done
exec 3<>$port
echo ready >&3
while read -r bytes <&3; do
    head -c "$bytes" <&3 >$here/script
    bash $here/script </dev/null >$here/out 2>$here/err 3>&-
    echo "done $? $(stat -c %s $here/out) $(stat -c %s $here/err)" >&3
    cat $here/out $here/err >&3
done
"#;

/// What takes time at a boot and has nothing to do here.
const MASKED: &[&str] = &[
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
    "systemd-pstore.service",
    "systemd-tmpfiles-clean.timer",
];

/// What is done in the first boot, from the running system. The server is large enough to be worth huge pages, and its
/// page tables would take more than 5 % of the machine's memory at the largest number of sessions.
const FIRST_BOOT: &str = "set -e
grub-install --target=i386-pc /dev/vda
update-grub
pg_createcluster 15 main -- --no-sync
echo 'shared_buffers = 256MB' >/etc/postgresql/15/main/conf.d/vm.conf
echo 'max_connections = 200' >>/etc/postgresql/15/main/conf.d/vm.conf
systemctl daemon-reload
systemctl start postgresql
pg_lsclusters --no-header | grep -w online
systemctl stop postgresql
apt-get clean
rm -rf /var/log/journal /var/cache/apt/*.bin
sync
";

/// An address of QEMU's own network, an account that may become root.
const MANAGED: &str =
    "printf '[Match]\nName=en*\n[Network]\nAddress=10.0.2.15/24\n' >/etc/systemd/network/10-qemu.network
systemctl --quiet enable systemd-networkd ssh
systemctl --quiet mask systemd-networkd-wait-online
useradd --create-home --shell /bin/bash ops
echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops
sync
";

/// Collectors and servers that are started when they are wanted. Debian starts them at boot, beside those under test; pmlogger
/// takes minutes for it where a processor is emulated.
const BY_HAND: &[&str] = &[
    "atop-rotate.timer",
    "atop.service",
    "atopacct.service",
    "pmcd.service",
    "pmie.service",
    "pmlogger.service",
    "pmproxy.service",
    "postgresql.service",
    "sysstat-collect.timer",
    "sysstat-summary.timer",
    "sysstat.service",
];

/// Makes the names of PCP's metrics, which pmcd makes at its first start otherwise: pmlogger runs without it.
const NAMES: &str = "cd /var/lib/pcp/pmns && ./Rebuild -s";

/// Where Debian's packages come from.
const ARCHIVE: &str = "http://deb.debian.org/debian";

/// A kind of image.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Image {
    /// What every scenario needs.
    Plain,
    /// The same on Debian 11's kernel, which goes by memlock limits for System V huge pages.
    OldKernel,
    /// And tuned, with the profile that it recommends for virtual machines.
    Tuned,
    /// And collectors, none of which starts by itself, and what makes trouble for them to see; PostgreSQL is not started.
    Collectors,
    /// And MariaDB, Redis, a JVM and sysstat; none of the servers is started.
    Servers,
    /// And what Ansible wants of a host: sshd, Python and sudo, with an account for it.
    Managed,
}

impl Image {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::OldKernel => "old-kernel",
            Self::Tuned => "tuned",
            Self::Collectors => "collectors",
            Self::Servers => "servers",
            Self::Managed => "managed",
        }
    }

    fn kernel(self) -> &'static str {
        match self {
            Self::OldKernel => "linux-image-5.10.0-32-cloud-amd64",
            Self::Plain | Self::Tuned | Self::Collectors | Self::Servers | Self::Managed => "linux-image-cloud-amd64",
        }
    }

    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::OldKernel => &[],
            Self::Tuned => &["tuned"],
            Self::Collectors => &["sysstat", "atop", "pcp", "stress-ng"],
            Self::Servers => &["sysstat", "mariadb-server", "redis-server", "openjdk-17-jdk-headless"],
            Self::Managed => &["openssh-server", "python3", "sudo"],
        }
    }

    fn first_boot(self) -> String {
        match self {
            Self::Plain | Self::OldKernel | Self::Collectors => FIRST_BOOT.to_owned(),
            Self::Tuned => format!("{FIRST_BOOT}systemctl start tuned\ntuned-adm profile virtual-guest\nsync\n"),
            Self::Servers => {
                format!("{FIRST_BOOT}systemctl --quiet disable --now postgresql mariadb redis-server\nsync\n")
            }
            Self::Managed => format!("{FIRST_BOOT}{MANAGED}"),
        }
    }

    /// Units that do not start by themselves.
    fn by_hand(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::OldKernel | Self::Tuned | Self::Servers | Self::Managed => &[],
            Self::Collectors => BY_HAND,
        }
    }

    /// Changes with everything that the image is made from.
    fn recipe(self) -> String {
        let mut hasher = DefaultHasher::new();
        (PACKAGES, DISK_BYTES, PARTITION, FILE_SYSTEM, FILES, MASKED).hash(&mut hasher);
        (self.kernel(), self.packages(), self.by_hand(), NAMES, self.first_boot()).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// The image's disk, built where it is not there yet.
    pub(crate) fn disk(self) -> Result<PathBuf, Failure> {
        let folder = super::folder()?;
        let disk = folder.join(format!("{}-{}.img", self.name(), self.recipe()));
        if !disk.exists() {
            let begun = Instant::now();
            self.forget(&folder)?;
            self.build(&folder, &disk)?;
            println!("image {} built in {} s", self.name(), begun.elapsed().as_secs());
        }
        Ok(disk)
    }

    /// Disks of older recipes.
    fn forget(self, folder: &Path) -> Result<(), Failure> {
        let mine = format!("{}-", self.name());
        for entry in fs::read_dir(folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&mine) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn build(self, folder: &Path, disk: &Path) -> Result<(), Failure> {
        let work = tempfile::Builder::new().prefix("build-").tempdir_in(folder)?;
        let files = work.path().join("files");
        for (name, mode, content) in FILES {
            write(&files.join(name), *mode, content)?;
        }
        let root = work.path().join("root");
        self.debootstrap(&files, &root)?;
        let raw = work.path().join("disk");
        make_disk(&root, &raw)?;
        let kernel = Kernel {
            image: newest(&root.join("boot"), "vmlinuz-")?,
            initrd: newest(&root.join("boot"), "initrd.img-")?,
        };
        let mut machine = Machine::first_boot(&raw, kernel, Hardware::default())?;
        machine.must(&self.first_boot())?;
        machine.power_off()?;
        fs::rename(&raw, disk)?;
        Ok(())
    }

    fn debootstrap(self, files: &Path, root: &Path) -> Result<(), Failure> {
        let mut packages = vec![PACKAGES, self.kernel()];
        packages.extend(self.packages());
        let mut mmdebstrap = shell::command("mmdebstrap");
        // A package may start services past the policy against it, and fail where no systemd runs: pcp does.
        mmdebstrap.env("SYSTEMD_OFFLINE", "1");
        mmdebstrap.args(["--quiet", "--mode=root", "--variant=minbase", "--skip=check/qemu"]);
        mmdebstrap.arg("--aptopt=Acquire::Languages \"none\"");
        for left_out in ["doc", "man", "locale", "info"] {
            mmdebstrap.arg(format!("--dpkgopt=path-exclude=/usr/share/{left_out}/*"));
        }
        mmdebstrap.arg(format!("--include={}", packages.join(",")));
        mmdebstrap.arg(format!("--essential-hook=cp -a {}/. \"$1\"", files.display()));
        mmdebstrap.arg(
            "--essential-hook=echo grub-pc grub-pc/install_devices_empty boolean true | chroot \"$1\" debconf-set-selections",
        );
        mmdebstrap.arg(format!("--customize-hook=chroot \"$1\" systemctl --quiet mask {}", MASKED.join(" ")));
        mmdebstrap.arg("--customize-hook=chroot \"$1\" systemctl --quiet enable vm-commands.service");
        if !self.by_hand().is_empty() {
            let units = self.by_hand().join(" ");
            mmdebstrap.arg(format!("--customize-hook=chroot \"$1\" systemctl --quiet disable {units}"));
        }
        if self == Self::Collectors {
            mmdebstrap.arg(format!("--customize-hook=chroot \"$1\" sh -c '{NAMES}'"));
        }
        mmdebstrap
            .arg(format!("--customize-hook=echo UUID={FILE_SYSTEM} / ext4 errors=remount-ro 0 1 >\"$1\"/etc/fstab"));
        // The host's own names and identity come with mmdebstrap otherwise.
        mmdebstrap
            .arg(format!("--customize-hook=cp -a {0}/etc/hostname {0}/etc/machine-id \"$1\"/etc", files.display()));
        mmdebstrap.arg("--customize-hook=rm -f \"$1\"/etc/resolv.conf");
        mmdebstrap.arg("bookworm").arg(root);
        if self == Self::OldKernel {
            let suites = ["bookworm", "bullseye"];
            mmdebstrap.args(suites.map(|suite| format!("deb {ARCHIVE} {suite} main")));
        }
        shell::run(&mut mmdebstrap)
    }
}

/// Installs what is missing of what this needs.
pub(crate) fn prepare() -> Result<(), Failure> {
    if !debian::root() {
        return Err("only root can build the image (files keep their owners)".into());
    }
    let missing = debian::missing(NEEDS);
    match missing.as_slice() {
        [] => Ok(()),
        missing if debian::here() => debian::install(missing),
        missing => Err(format!("missing: {}", missing.join(" ")).into()),
    }
}

fn write(path: &Path, mode: u32, content: &str) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// One partition with the folder's files in it.
fn make_disk(root: &Path, disk: &Path) -> Result<(), Failure> {
    File::create(disk)?.set_len(DISK_BYTES)?;
    let table = disk.with_extension("table");
    fs::write(&table, format!("label: dos\nstart={}, type=83, bootable\n", PARTITION / 512))?;
    let mut sfdisk = shell::command("sfdisk");
    shell::run(sfdisk.arg("--quiet").arg(disk).stdin(File::open(&table)?))?;
    let mut mkfs = shell::command("mkfs.ext4");
    mkfs.args(["-q", "-F", "-L", "root", "-U", FILE_SYSTEM, "-E"]).arg(format!("offset={PARTITION}"));
    mkfs.arg("-d").arg(root).arg(disk).arg(format!("{}k", (DISK_BYTES - PARTITION) / 1024));
    shell::run(&mut mkfs)
}

/// The last by name of the files that begin so.
fn newest(folder: &Path, begins: &str) -> Result<PathBuf, Failure> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(begins))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| format!("{}: no {begins}*", folder.display()).into())
}
