//! The images that machines start from: Debian with systemd, GRUB on its disk, and PostgreSQL.
//!
//! Files come from mmdebstrap and go to a disk without being mounted; what needs the disk itself
//! (GRUB's installation, the database cluster) happens in the first boot. Kept under target/vm, by
//! the recipe.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::machine::{Hardware, Kernel, Machine};
use super::recipe::{
    BY_HAND, CLEAN, FILES, FIRST_BOOT, MANAGED, MASKED, NEWCOMER_BOOT, NEWCOMER_POSTGRESQL,
    NEWCOMER_SERVERS,
};
use hugewise_testkit::tools::{Failure, debian, shell};

/// What building and running needs of this machine.
const NEEDS: debian::Needs = &[
    ("/usr/bin/mmdebstrap", "mmdebstrap"),
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/bin/qemu-img", "qemu-utils"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/sfdisk", "fdisk"),
];

/// What every image of Debian 12 has.
const PACKAGES: &str =
    "systemd-sysv,dbus,udev,kmod,procps,initramfs-tools,grub-pc,postgresql-15,postgresql-client-15";
/// What a newcomer's has beside its servers.
const NEWCOMER: &str = "systemd-sysv,dbus,udev,kmod,procps,initramfs-tools,grub-pc,sudo,bsdutils";

const DISK_BYTES: u64 = 3 << 30;
/// Where the one partition begins; GRUB's own code lies before it.
const PARTITION: u64 = 1 << 20;
const FILE_SYSTEM: &str = "6d1c3f2e-5a8b-4e0f-9c27-3b1f5e7a9d04";

/// Makes the names of PCP's metrics, which pmcd makes at its first start otherwise: pmlogger runs
/// without it.
const NAMES: &str = "cd /var/lib/pcp/pmns && ./Rebuild -s";

/// Where Debian's packages come from.
const ARCHIVE: &str = "http://deb.debian.org/debian";

/// A suite of Debian's archive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Debian 12.
    Bookworm,
    /// Debian 13.
    Trixie,
    /// What becomes the next one.
    Sid,
}

impl Suite {
    /// As the archive has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Sid => "sid",
        }
    }
}

/// A kind of image.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Image {
    /// What every scenario needs.
    Plain,
    /// The same on Debian 11's kernel, which goes by memlock limits for System V huge pages.
    OldKernel,
    /// And tuned, with the profile that it recommends for virtual machines.
    Tuned,
    /// And collectors, none of which starts by itself, and what makes trouble for them to see;
    /// PostgreSQL is not started.
    Collectors,
    /// And MariaDB, Redis, a JVM and sysstat; none of the servers is started.
    Servers,
    /// And what Ansible wants of a host: sshd, Python and sudo, with an account for it.
    Managed,
    /// A fresh Debian with its PostgreSQL, on which nobody has set anything up, and an account that
    /// may use sudo.
    Newcomer(Suite),
    /// The same with MariaDB, Redis and a JVM in PostgreSQL's place; none of them is started.
    NewcomerServers(Suite),
}

impl Image {
    fn name(self) -> &'static str {
        match self {
            Self::Newcomer(Suite::Bookworm) => "newcomer-bookworm",
            Self::Newcomer(Suite::Trixie) => "newcomer-trixie",
            Self::Newcomer(Suite::Sid) => "newcomer-sid",
            // No name begins as another one's does: images of older recipes are forgotten by it.
            Self::NewcomerServers(Suite::Bookworm) => "servers-of-newcomer-bookworm",
            Self::NewcomerServers(Suite::Trixie) => "servers-of-newcomer-trixie",
            Self::NewcomerServers(Suite::Sid) => "servers-of-newcomer-sid",
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
            _ => "linux-image-cloud-amd64",
        }
    }

    fn suite(self) -> Suite {
        if let Self::Newcomer(suite) | Self::NewcomerServers(suite) = self {
            suite
        } else {
            Suite::Bookworm
        }
    }

    fn base(self) -> &'static str {
        match self {
            Self::Newcomer(_) | Self::NewcomerServers(_) => NEWCOMER,
            _ => PACKAGES,
        }
    }

    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::OldKernel => &[],
            Self::Newcomer(_) => &["postgresql"],
            Self::NewcomerServers(_) => &["mariadb-server", "redis-server", "default-jre-headless"],
            Self::Tuned => &["tuned"],
            Self::Collectors => &["sysstat", "atop", "pcp", "stress-ng"],
            Self::Servers => {
                &["sysstat", "mariadb-server", "redis-server", "openjdk-17-jdk-headless"]
            }
            Self::Managed => &["openssh-server", "python3", "python3-apt", "sudo"],
        }
    }

    fn first_boot(self) -> String {
        match self {
            Self::Plain | Self::OldKernel | Self::Collectors => format!("{FIRST_BOOT}{CLEAN}"),
            Self::Newcomer(_) => format!("{NEWCOMER_BOOT}{NEWCOMER_POSTGRESQL}{CLEAN}"),
            Self::NewcomerServers(_) => format!("{NEWCOMER_BOOT}{NEWCOMER_SERVERS}{CLEAN}"),
            Self::Tuned => format!(
                "{FIRST_BOOT}{CLEAN}systemctl start tuned\ntuned-adm profile virtual-guest\nsync\n"
            ),
            Self::Servers => {
                format!(
                    "{FIRST_BOOT}{CLEAN}systemctl --quiet disable --now postgresql mariadb \
                         redis-server\nsync\n"
                )
            }
            Self::Managed => format!("{FIRST_BOOT}{CLEAN}{MANAGED}"),
        }
    }

    /// Units that do not start by themselves.
    fn by_hand(self) -> &'static [&'static str] {
        match self {
            Self::Collectors => BY_HAND,
            _ => &[],
        }
    }

    /// Changes with everything that the image is made from.
    fn recipe(self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.base(), DISK_BYTES, PARTITION, FILE_SYSTEM, FILES, MASKED).hash(&mut hasher);
        (self.kernel(), self.packages(), self.by_hand(), NAMES, self.first_boot())
            .hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// The image's disk, built where it is not there yet.
    pub(crate) fn disk(self) -> Result<PathBuf, Failure> {
        let folder = super::folder()?;
        let disk = folder.join(format!("{}-{}.img", self.name(), self.recipe()));
        if !disk.exists() {
            let begun = Instant::now();
            forget(&format!("{}-", self.name()))?;
            self.build(&folder, &disk)?;
            println!("image {} built in {} s", self.name(), begun.elapsed().as_secs());
        }
        Ok(disk)
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
        let mut packages = vec![self.base(), self.kernel()];
        packages.extend(self.packages());
        let mut mmdebstrap = shell::command("mmdebstrap");
        // A package may start services past the policy against it, and fail where no systemd runs:
        // pcp does.
        mmdebstrap.env("SYSTEMD_OFFLINE", "1");
        mmdebstrap.args(["--quiet", "--mode=root", "--variant=minbase", "--skip=check/qemu"]);
        mmdebstrap.arg("--aptopt=Acquire::Languages \"none\"");
        if self.suite() != Suite::Bookworm {
            // A mirror may be some days behind.
            mmdebstrap.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
        }
        for left_out in ["doc", "man", "locale", "info"] {
            mmdebstrap.arg(format!("--dpkgopt=path-exclude=/usr/share/{left_out}/*"));
        }
        mmdebstrap.arg(format!("--include={}", packages.join(",")));
        mmdebstrap.arg(format!("--essential-hook=cp -a {}/. \"$1\"", files.display()));
        // A JRE's alternatives fail where no package has brought this folder, as manual pages are
        // left out.
        mmdebstrap.arg("--essential-hook=mkdir -p \"$1\"/usr/share/man/man1");
        mmdebstrap.arg(
            "--essential-hook=echo grub-pc grub-pc/install_devices_empty boolean true | \
                 chroot \"$1\" debconf-set-selections",
        );
        mmdebstrap.arg(format!(
            "--customize-hook=chroot \"$1\" systemctl --quiet mask {}",
            MASKED.join(" ")
        ));
        mmdebstrap
            .arg("--customize-hook=chroot \"$1\" systemctl --quiet enable vm-commands.service");
        if !self.by_hand().is_empty() {
            let units = self.by_hand().join(" ");
            mmdebstrap
                .arg(format!("--customize-hook=chroot \"$1\" systemctl --quiet disable {units}"));
        }
        if self == Self::Collectors {
            mmdebstrap.arg(format!("--customize-hook=chroot \"$1\" sh -c '{NAMES}'"));
        }
        mmdebstrap.arg(format!(
            "--customize-hook=echo UUID={FILE_SYSTEM} / ext4 errors=remount-ro 0 1 \
                 >\"$1\"/etc/fstab"
        ));
        // The host's own names and identity come with mmdebstrap otherwise.
        mmdebstrap.arg(format!(
            "--customize-hook=cp -a {0}/etc/hostname {0}/etc/machine-id \"$1\"/etc",
            files.display()
        ));
        mmdebstrap.arg("--customize-hook=rm -f \"$1\"/etc/resolv.conf");
        mmdebstrap.arg(self.suite().name()).arg(root);
        if self == Self::OldKernel {
            let suites = ["bookworm", "bullseye"];
            mmdebstrap.args(suites.map(|suite| format!("deb {ARCHIVE} {suite} main")));
        }
        shell::run(&mut mmdebstrap)
    }
}

/// Removes what older recipes made: disks and folders whose names begin so.
pub(super) fn forget(begins: &str) -> Result<(), Failure> {
    for entry in fs::read_dir(super::folder()?)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(begins) {
            if entry.path().is_dir() {
                fs::remove_dir_all(entry.path())?
            } else {
                fs::remove_file(entry.path())?
            }
        }
    }
    Ok(())
}

/// Installs what is missing of what this needs.
pub(crate) fn prepare() -> Result<(), Failure> {
    need(NEEDS)
}

/// The same for those files; only root may go on.
pub(super) fn need(needs: debian::Needs) -> Result<(), Failure> {
    if !debian::root() {
        return Err("only root can build the image (files keep their owners)".into());
    }
    let missing = debian::missing(needs);
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
    mkfs.args(["-q", "-F", "-L", "root", "-U", FILE_SYSTEM, "-E"])
        .arg(format!("offset={PARTITION}"));
    mkfs.arg("-d").arg(root).arg(disk).arg(format!("{}k", (DISK_BYTES - PARTITION) / 1024));
    shell::run(&mut mkfs)
}

/// The last by name of the files that begin so.
pub(super) fn newest(folder: &Path, begins: &str) -> Result<PathBuf, Failure> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(begins))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| format!("{}: no {begins}*", folder.display()).into())
}
