//! What images are made of beside packages: files, units that stay off, and what is done in the
//! first boot.

/// Files that are there before packages are installed: name, mode, content.
pub(super) const FILES: &[(&str, u32, &str)] = &[
    ("etc/hostname", 0o644, "vm\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost vm\n"),
    ("etc/machine-id", 0o444, "5e0f6c5d2c1f4b6fa4e97d21c0a8b3ef\n"),
    (
        "etc/postgresql-common/createcluster.conf",
        0o644,
        "create_main_cluster = false\nadd_include_dir = 'conf.d'\n",
    ),
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

/// No menu to wait at; everything on the serial console. On a busy machine the timer's interrupts
/// come late, and the kernel would take it for broken.
const GRUB: &str = "GRUB_TIMEOUT=0
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND=\"serial --unit=0 --speed=115200\"
GRUB_DISABLE_OS_PROBER=true
GRUB_CMDLINE_LINUX=\"console=ttyS0 no_timer_check\"
";

/// systemd would end the whole unit, and with it all that a scenario runs, when the kernel kills
/// one of its processes for memory.
const UNIT: &str = "[Unit]
Description=Commands from outside
Wants=modprobe@virtio_console.service
After=modprobe@virtio_console.service

[Service]
ExecStart=/usr/local/sbin/vm-commands
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
";

/// The other end of `Machine::run`: a script's length and the script in; exit code, lengths and
/// both outputs out.
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
pub(super) const MASKED: &[&str] = &[
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

/// What is done in the first boot, from the running system. The server is large enough to be worth
/// huge pages, and its page tables would take more than 5 % of the machine's memory at the largest
/// number of sessions.
pub(super) const FIRST_BOOT: &str = "set -e
grub-install --target=i386-pc /dev/vda
update-grub
pg_createcluster 15 main -- --no-sync
echo 'shared_buffers = 256MB' >/etc/postgresql/15/main/conf.d/vm.conf
echo 'max_connections = 200' >>/etc/postgresql/15/main/conf.d/vm.conf
systemctl daemon-reload
systemctl start postgresql
pg_lsclusters --no-header | grep -w online
systemctl stop postgresql
";

/// The first boot of a newcomer's host: an account that may use sudo.
pub(super) const NEWCOMER_BOOT: &str = "set -e
grub-install --target=i386-pc /dev/vda
update-grub
useradd --create-home --shell /bin/bash dba
echo 'dba ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/dba
";

/// PostgreSQL as Debian sets it up, with a quarter of the memory as its buffer, as its manual
/// advises.
pub(super) const NEWCOMER_POSTGRESQL: &str = "version=$(ls /usr/lib/postgresql)
pg_createcluster $version main -- --no-sync
pg_conftool $version main set shared_buffers 512MB
pg_conftool $version main set max_connections 200
systemctl daemon-reload
systemctl start postgresql
pg_lsclusters --no-header | grep -w online
systemctl stop postgresql
";

/// Servers as Debian sets them up.
pub(super) const NEWCOMER_SERVERS: &str = "systemctl start mariadb redis-server
mariadb -e 'SELECT 1'
redis-cli ping
java -version
systemctl --quiet disable --now mariadb redis-server
";

/// The end of every first boot: without what an image needs no more.
pub(super) const CLEAN: &str = "apt-get clean
rm -rf /var/log/journal /var/cache/apt/*.bin
sync
";

/// An address of QEMU's own network, an account that may become root.
pub(super) const MANAGED: &str = "printf '[Match]\nName=en*\n[Network]\nAddress=10.0.2.15/24\n' \
         >/etc/systemd/network/10-qemu.network
systemctl --quiet enable systemd-networkd ssh
systemctl --quiet mask systemd-networkd-wait-online
useradd --create-home --shell /bin/bash ops
echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops
sync
";

/// Collectors and servers that are started when they are wanted. Debian starts them at boot, beside
/// those under test; pmlogger takes minutes for it where a processor is emulated.
pub(super) const BY_HAND: &[&str] = &[
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
