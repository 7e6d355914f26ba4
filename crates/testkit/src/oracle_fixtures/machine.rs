//! The machine, its kernel and its distribution.

use super::KIB_IN_MIB;
use super::files::FixtureFiles;
use super::memlock::FixtureMemlock;

/// A distribution, as far as boot files and names differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Red Hat Enterprise Linux 5, and Oracle's: rc.sysinit runs `sysctl -p`.
    RedHat5,
    /// Release 6: upstart, `apply_sysctl`, legacy GRUB.
    RedHat6,
    /// Oracle Linux 7 with UEK: systemd, GRUB 2.
    OracleLinux7,
    /// Oracle Linux 8 with UEK6.
    #[default]
    OracleLinux8,
    /// SUSE Linux Enterprise Server 11: boot.sysctl.
    Sles11,
}

impl Distribution {
    /// Its first kernel, as `uname -r` prints it.
    #[must_use]
    pub const fn kernel(self) -> &'static str {
        match self {
            Self::RedHat5 => "2.6.18-164.el5",
            Self::RedHat6 => "2.6.32-431.el6.x86_64",
            Self::OracleLinux7 => "4.1.12-61.1.6.el7uek.x86_64",
            Self::OracleLinux8 => "5.4.17-2136.307.3.el8uek.x86_64",
            Self::Sles11 => "2.6.32.12-0.7-default",
        }
    }

    const fn has_systemd(self) -> bool {
        matches!(self, Self::OracleLinux7 | Self::OracleLinux8)
    }

    /// Files by which it and its way to boot are known.
    fn release_files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::RedHat5 => &[
                ("/etc/redhat-release", "Red Hat Enterprise Linux Server release 5.4 (Tikanga)\n"),
                ("/etc/rc.d/rc.sysinit", "sysctl -e -p /etc/sysctl.conf >/dev/null 2>&1\n"),
                ("/proc/1/comm", "init\n"),
            ],
            Self::RedHat6 => &[
                ("/etc/redhat-release", "Red Hat Enterprise Linux Server release 6.5 (Santiago)\n"),
                ("/etc/rc.d/rc.sysinit", "apply_sysctl\n"),
                ("/proc/1/comm", "init\n"),
            ],
            Self::Sles11 => &[
                (
                    "/etc/os-release",
                    "PRETTY_NAME=\"SUSE Linux Enterprise Server 11 SP1\"\nID=sles\n",
                ),
                ("/etc/init.d/boot.sysctl", "sysctl -e -q -p /etc/sysctl.conf\n"),
                ("/proc/1/comm", "init\n"),
            ],
            Self::OracleLinux7 => &[
                (
                    "/etc/os-release",
                    "NAME=\"Oracle Linux Server\"\nPRETTY_NAME=\"Oracle Linux Server \
                         7.2\"\nID=ol\nVERSION_ID=7.2\n",
                ),
                ("/proc/1/comm", "systemd\n"),
            ],
            Self::OracleLinux8 => &[
                (
                    "/etc/os-release",
                    "NAME=\"Oracle Linux Server\"\nPRETTY_NAME=\"Oracle Linux Server \
                         8.6\"\nID=ol\nVERSION_ID=8.6\n",
                ),
                ("/proc/1/comm", "systemd\n"),
            ],
        }
    }
}

/// A machine. Amounts are in KiB.
#[derive(Clone, Debug)]
pub struct FixtureMachine {
    /// Its name.
    pub name: String,
    /// Its distribution.
    pub distribution: Distribution,
    /// Its kernel's release.
    pub kernel: String,
    /// Its memory.
    pub memory: u64,
    /// Logical processors.
    pub processors: u32,
    /// Memory that is free.
    pub free: u64,
    /// Buffers.
    pub buffers: u64,
    /// Slab.
    pub slab: u64,
    /// Private memory beside that of its databases.
    pub private: u64,
    /// Swap, and how much of it is used.
    pub swap: (u64, u64),
    /// Pages of 2 MiB in the pool.
    pub pool: u64,
    /// The line of sysctl.conf for the pool, where it is set for the boot.
    pub pool_at_boot: Option<u64>,
    /// The switch of transparent huge pages; none on kernels without them.
    pub thp: Option<&'static str>,
    /// `vm.hugetlb_shm_group`.
    pub shm_group: u32,
    /// What limits.conf gives the accounts of Oracle for memlock.
    pub log_in_memlock: Option<FixtureMemlock>,
    /// kernel.shmmax in bytes, and kernel.shmall in pages.
    pub shm: (u64, u64),
    /// Fields of /proc/meminfo as a report has them, in place of those that are worked out.
    pub meminfo: Vec<(&'static str, u64)>,
}

impl Default for FixtureMachine {
    fn default() -> Self {
        Self::new("db1", Distribution::OracleLinux8, 64 << 20)
    }
}

impl FixtureMachine {
    /// One with so many KiB, four processors and nothing set up.
    #[must_use]
    pub fn new(name: &str, distribution: Distribution, memory: u64) -> Self {
        let has_thp = matches!(
            distribution,
            Distribution::RedHat6 | Distribution::OracleLinux7 | Distribution::OracleLinux8
        );
        Self {
            name: name.into(),
            distribution,
            kernel: distribution.kernel().into(),
            memory,
            processors: 4,
            free: memory / 64,
            buffers: memory / 256,
            slab: memory / 64,
            private: 512 * KIB_IN_MIB,
            swap: (8 << 20, 0),
            pool: 0,
            pool_at_boot: None,
            thp: has_thp.then_some("always"),
            shm_group: 0,
            log_in_memlock: None,
            // As Oracle's preinstallation packages set them.
            shm: (4_398_046_511_104, 1_073_741_824),
            meminfo: Vec::new(),
        }
    }

    /// Whether the kernel is that one or newer.
    pub(crate) fn is_kernel(&self, major: u32, minor: u32) -> bool {
        let mut numbers =
            self.kernel.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or_default());
        let (ours, next) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let patch = numbers.next().unwrap_or_default();
        // Of 2.6 the third number tells: 2.6.32 counts as 2.7 here, 2.6.18 does not.
        let next = if ours == 2 && patch >= 27 { 7 } else { next };
        (ours, next) >= (major, minor)
    }

    pub(crate) fn uid_of(&self, owner: &str) -> u32 {
        match owner {
            "root" => 0,
            "grid" => 54_331,
            "oracle" => 54_321,
            // Another account of its own: told by its name's letters.
            other => {
                54_400
                    + other.bytes().fold(0_u32, |sum, letter| (sum * 31 + u32::from(letter)) % 9973)
            }
        }
    }

    pub(crate) fn groups_of(owner: &str) -> Vec<u32> {
        match owner {
            "root" => vec![0],
            "grid" => vec![54_321, 54_325],
            _ => vec![54_321, 54_322],
        }
    }

    /// The cgroup of what Clusterware or a login has started; none before cgroups were mounted
    /// everywhere.
    pub(crate) fn cgroup_path(&self, clustered: bool) -> String {
        match (self.distribution.has_systemd(), clustered) {
            (false, _) => String::new(),
            (true, true) => "0::/system.slice/oracle-ohasd.service\n".into(),
            (true, false) => "0::/user.slice/user-54321.slice/session-3.scope\n".into(),
        }
    }

    /// Adds its files, with accounts for these owners.
    pub(crate) fn add(&self, owners: &[&str], files: &mut FixtureFiles) {
        for (path, text) in self.distribution.release_files() {
            files.add_file(path, text);
        }
        files.add_file(
            "/proc/version",
            format!("Linux version {} (build@host) (gcc) #1 SMP\n", self.kernel),
        );
        files.add_file("/etc/hostname", format!("{}\n", self.name));
        let (swap, used) = self.swap;
        files.add_file(
            "/proc/swaps",
            format!("Filename\tType\tSize\tUsed\tPriority\n/dev/dm-1 partition {swap} {used} -1\n"),
        );
        let model = "vendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu \
             pse pse36 pdpe1gb rdtscp lm\n";
        let processors = 0..self.processors;
        files.add_file(
            "/proc/cpuinfo",
            processors
                .map(|number| format!("processor\t: {number}\n{model}\n"))
                .collect::<String>(),
        );
        files.add_file(
            "/sys/devices/system/cpu/online",
            format!("0-{}\n", self.processors.saturating_sub(1)),
        );
        files.add_file(
            "/proc/buddyinfo",
            "Node 0, zone   Normal  812 401 290 166 80 41 12 5 2 1 3\n",
        );
        files.add_file("/proc/uptime", "8640000.00 20000000.00\n");
        let settings = [
            ("kernel/osrelease", self.kernel.clone()),
            ("kernel/hostname", self.name.clone()),
            ("kernel/shmmax", self.shm.0.to_string()),
            ("kernel/shmall", self.shm.1.to_string()),
            ("kernel/shmmni", "4096".into()),
            ("vm/hugetlb_shm_group", self.shm_group.to_string()),
            ("vm/nr_overcommit_hugepages", "0".into()),
            ("vm/overcommit_memory", "0".into()),
            ("vm/overcommit_ratio", "50".into()),
            ("vm/swappiness", "60".into()),
            ("vm/min_free_kbytes", "67584".into()),
            ("vm/max_map_count", "65530".into()),
        ];
        for (name, value) in settings {
            files.add_file(&format!("/proc/sys/{name}"), format!("{value}\n"));
        }
        let mut conf = format!("kernel.shmmax = {}\nkernel.shmall = {}\n", self.shm.0, self.shm.1);
        if let Some(pages) = self.pool_at_boot {
            conf += &format!("vm.nr_hugepages = {pages}\n");
        }
        files.add_file("/etc/sysctl.conf", conf);
        if self.distribution.has_systemd() {
            // systemd-sysctl reads folders alone; Red Hat's packages of systemd, and what is made
            // of them, link the file there.
            files.read_link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf");
        }
        let mut accounts = "root:x:0:0:root:/root:/bin/bash\n".to_owned();
        let mut limits = String::new();
        for owner in owners {
            accounts +=
                &format!("{owner}:x:{}:54321::/home/{owner}:/bin/bash\n", self.uid_of(owner));
            if let Some(memlock) = self.log_in_memlock {
                limits +=
                    &format!("{owner} soft memlock {memlock}\n{owner} hard memlock {memlock}\n");
            }
        }
        files.add_file("/etc/passwd", accounts);
        files.add_file(
            "/etc/group",
            "root:x:0:\noinstall:x:54321:\ndba:x:54322:oracle\nasmdba:x:54325:grid,oracle\n",
        );
        files.add_file("/etc/security/limits.conf", limits);
        self.add_boot(files);
    }

    fn add_boot(&self, files: &mut FixtureFiles) {
        let kernel = &self.kernel;
        // What is not the kernel's own default was set at the boot.
        let thp = self
            .thp
            .filter(|thp| *thp != "always")
            .map(|thp| format!(" transparent_hugepage={thp}"))
            .unwrap_or_default();
        let words = format!("ro root=/dev/mapper/vg-root rhgb quiet{thp}");
        files.add_file("/proc/cmdline", format!("{words}\n"));
        match self.distribution {
            Distribution::RedHat5 | Distribution::RedHat6 => files.add_file(
                "/boot/grub/grub.conf",
                format!(
                    "default=0\ntitle Linux ({kernel})\n\troot (hd0,0)\n\tkernel \
                     /vmlinuz-{kernel} {words}\n\tinitrd /initrd-{kernel}.img\n"
                ),
            ),
            Distribution::Sles11 => files.add_file(
                "/boot/grub/menu.lst",
                format!(
                    "default 0\ntitle Linux\n    kernel /boot/vmlinuz-{kernel} \
                     {words}\n    initrd /boot/initrd-{kernel}\n"
                ),
            ),
            Distribution::OracleLinux7 | Distribution::OracleLinux8 => {
                files.add_file("/etc/default/grub", format!("GRUB_CMDLINE_LINUX=\"{words}\"\n"));
            }
        }
        if let Some(thp) = self.thp {
            // Red Hat's kernel of release 6 has a name of its own for the folder, Oracle's UEK has
            // not.
            let is_red_hat = self.distribution == Distribution::RedHat6 && !kernel.contains("uek");
            let folder =
                if is_red_hat { "redhat_transparent_hugepage" } else { "transparent_hugepage" };
            let words: &[&str] =
                if is_red_hat { &["always", "never"] } else { &["always", "madvise", "never"] };
            let switch: Vec<String> = words
                .iter()
                .map(|word| if *word == thp { format!("[{word}]") } else { (*word).to_owned() })
                .collect();
            files.add_file(&format!("/sys/kernel/mm/{folder}/enabled"), switch.join(" ") + "\n");
            files.add_file(&format!("/sys/kernel/mm/{folder}/defrag"), "[always] never\n");
            files.add_file(
                &format!("/boot/config-{kernel}"),
                "CONFIG_TRANSPARENT_HUGEPAGE=y\nCONFIG_TRANSPARENT_HUGEPAGE_ALWAYS=y\n# \
                     CONFIG_TRANSPARENT_HUGEPAGE_MADVISE is not set\n",
            );
        }
    }
}
