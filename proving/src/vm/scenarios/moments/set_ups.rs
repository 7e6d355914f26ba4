//! The set-ups themselves.

use super::SetUp;
use super::servers::Server;

/// Once, on a fresh disk: a second cluster, and a stand-in with Oracle's names. Both are put aside
/// until they are wanted.
pub(super) const PREPARE: &str = "set -e
pg_createcluster 15 second --port 5433 --start-conf manual -- --no-sync
mkdir /root/aside
mv /etc/postgresql/15/second /root/aside/settings
mv /var/lib/postgresql/15/second /root/aside/data
systemctl daemon-reload
groupadd oinstall
useradd --gid oinstall --home-dir /opt/oracle --no-create-home --shell /bin/sh oracle
mkdir -p /opt/oracle/bin /opt/oracle/dbs
cp /usr/local/bin/standin /opt/oracle/bin/oracle
echo \"*.use_large_pages='TRUE'\" >/opt/oracle/dbs/initPROD.ora
cp /opt/oracle/dbs/initPROD.ora /opt/oracle/dbs/initTEST.ora
chown -R oracle:oinstall /opt/oracle
";

/// Undoes a set-up: pools and files are as after a boot without anything that is about huge pages,
/// and no server runs.
pub(super) const FORGET: &str = r#"systemctl stop 'postgresql@*' 2>/dev/null || true
end_oracle
systemctl stop oracle-test 2>/dev/null || true
pkill -u oracle || true
systemctl --quiet disable oracle oracle-test moments 2>/dev/null || true
rm -rf /etc/systemd/system/oracle* /etc/systemd/system/moments.service /etc/systemd/system.conf.d /etc/rc.local
rm -f /etc/postgresql/15/main/conf.d/w-moments.conf /etc/sysctl.d/*moments.conf /usr/lib/sysctl.d/*moments.conf
rm -f /etc/tmpfiles.d/moments.conf /etc/security/limits.d/20-moments.conf
sed -i /nr_hugepages/d /etc/sysctl.conf
if [ -e /etc/default/grub.d/moments.cfg ]; then rm /etc/default/grub.d/moments.cfg; update-grub 2>/dev/null; fi
systemctl --quiet unmask systemd-sysctl systemd-tmpfiles-setup postgresql@15-main postgresql@15-second 2>/dev/null
systemctl --quiet enable postgresql 2>/dev/null
if [ -e /etc/postgresql/15/second ]; then
    mv /etc/postgresql/15/second /root/aside/settings
    mv /var/lib/postgresql/15/second /root/aside/data
fi
for pool in /sys/kernel/mm/hugepages/hugepages-*; do echo 0 >$pool/nr_hugepages; done
echo 0 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages
echo 0 >/proc/sys/vm/hugetlb_shm_group
systemctl daemon-reload
systemctl reset-failed
"#;

const MAIN: Server = Server::PostgreSql("main");
const SECOND: Server = Server::PostgreSql("second");

const fn set_up(
    name: &'static str,
    arrange: &'static str,
    expected: &'static [(Server, [&'static str; 3])],
) -> SetUp {
    SetUp { name, arrange, expected }
}

/// What each boot ends. Two share one where neither takes anything from the other.
pub(super) const BOOTS: &[&[SetUp]] = &[
    &[set_up(
        "rc.local would write the pool, and may not be run, which is not asked",
        "pages 450; printf '#!/bin/sh\\necho 0 >/proc/sys/vm/nr_hugepages\\n' >/etc/rc.local; \
                 start",
        &[(MAIN, ["all", "all", "unknown"])],
    )],
    &[set_up(
        "300 pages by hand, which it must have",
        "settings 'huge_pages = on'; pool 2048 300; start",
        &[(MAIN, ["all", "all", "does_not_start"])],
    )],
    &[set_up(
        "a page of 1 GiB, made at run time alone",
        "settings 'huge_page_size = 1GB' 'shared_buffers = 800MB'; pool 1048576 1; start",
        &[(MAIN, ["all", "all", "none"])],
    )],
    &[set_up(
        "a page of 1 GiB, on the next command line alone, and the server must have it since it \
             started",
        "start; line hugepagesz=1G hugepages=1; settings 'huge_page_size = 1GB' 'shared_buffers = \
             800MB' 'huge_pages = on'",
        &[(MAIN, ["none", "does_not_start", "all"])],
    )],
    &[set_up(
        "300 pages on the next command line, and a file that says 0",
        "line hugepages=300; echo 'vm.nr_hugepages = 0' >/etc/sysctl.d/10-moments.conf; pool 2048 \
             300; start",
        &[(MAIN, ["all", "all", "none"])],
    )],
    &[set_up(
        "20 pages on the next command line, and the rest beyond the pool",
        "start; line hugepages=20; echo 'vm.nr_overcommit_hugepages = 280' \
             >/etc/sysctl.d/50-moments.conf",
        &[(MAIN, ["none", "none", "all"])],
    )],
    &[set_up(
        "300 pages in sysctl.d, and tmpfiles.d writes 20",
        "kept 300; tmpfile /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages 20
settings 'huge_pages = on'; pool 2048 300; start",
        &[(MAIN, ["all", "all", "does_not_start"])],
    )],
    &[set_up(
        "300 pages, kept, taken away under it",
        "kept 300; pool 2048 300; start; take_away",
        &[(MAIN, ["all", "none", "all"])],
    )],
    &[set_up(
        "300 pages, kept, taken away under one that must have them",
        "settings 'huge_pages = on'; kept 300; pool 2048 300; start; take_away",
        &[(MAIN, ["all", "does_not_start", "all"])],
    )],
    &[set_up(
        "more buffers since the start than the pool has pages for",
        "kept 300; pool 2048 300; start; settings 'shared_buffers = 700MB'",
        &[(MAIN, ["all", "none", "none"])],
    )],
    &[set_up(
        "more buffers since the start, which must have pages",
        "settings 'huge_pages = on'; kept 300; pool 2048 300; start; settings 'huge_pages = on' \
             'shared_buffers = 700MB'",
        &[(MAIN, ["all", "does_not_start", "does_not_start"])],
    )],
    &[set_up(
        "pages beyond the pool, allowed at run time alone",
        "echo 300 >/proc/sys/vm/nr_overcommit_hugepages; start",
        &[(MAIN, ["all", "all", "none"])],
    )],
    &[set_up(
        "systemd-sysctl is masked",
        "kept 300; pool 2048 300; start; systemctl --quiet mask systemd-sysctl",
        &[(MAIN, ["all", "all", "none"])],
    )],
    &[set_up(
        "systemd-sysctl is masked, and tmpfiles.d writes the pool",
        "systemctl --quiet mask systemd-sysctl; kept 0; tmpfile /proc/sys/vm/nr_hugepages 300; \
             start",
        &[(MAIN, ["none", "none", "all"])],
    )],
    &[set_up(
        "the end of /etc/sysctl.conf says 0, after sysctl.d",
        "kept 300; echo vm.nr_hugepages=0 >>/etc/sysctl.conf; pool 2048 300; start",
        &[(MAIN, ["all", "all", "none"])],
    )],
    &[set_up(
        "a file of the distribution's, masked in /etc",
        "echo vm.nr_hugepages=300 >/usr/lib/sysctl.d/50-moments.conf; ln -s /dev/null \
             /etc/sysctl.d/50-moments.conf
pool 2048 300; start",
        &[(MAIN, ["all", "all", "none"])],
    )],
    &[set_up(
        "tmpfiles.d writes the pool of the node",
        "tmpfile /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages 300; start",
        &[(MAIN, ["none", "none", "all"])],
    )],
    &[set_up(
        "rc.local writes the pool",
        "printf '#!/bin/sh\\necho 300 >/proc/sys/vm/nr_hugepages\\n' >/etc/rc.local; chmod +x \
             /etc/rc.local; start",
        &[(MAIN, ["none", "none", "unknown"])],
    )],
    &[set_up(
        "a service writes the pool",
        "kept 300; service '/bin/sh -c \"echo 0 >/proc/sys/vm/nr_hugepages\"'; systemctl --quiet \
             enable moments
pool 2048 300; start",
        &[(MAIN, ["all", "all", "unknown"])],
    )],
    &[set_up(
        "a cluster that is down and would start at the boot, but for pages that it must have",
        "kept 160; pool 2048 160; start; second auto; echo 'huge_pages = on' \
             >>/etc/postgresql/15/second/conf.d/w-moments.conf
settings 'huge_pages = off'",
        &[(SECOND, ["not_running", "does_not_start", "all"])],
    )],
    // The last one: what comes after it would start on a kernel whose pages by default are of 1
    // GiB.
    &[set_up(
        "pages of 1 GiB by default from the next command line on, and one of them",
        "start; line default_hugepagesz=1G hugepagesz=1G hugepages=1",
        &[(MAIN, ["none", "none", "all"])],
    )],
];

/// The same on a kernel that goes by memlock limits.
pub(super) const BOOTS_OF_OLD_KERNEL: &[&[SetUp]] = &[
    &[
        set_up("enough pages, kept", "pages 450; start", &[(MAIN, ["all", "all", "all"])]),
        set_up(
            "memlock: the unit gives 64 KiB, a login everything",
            "pages 450; memlock unlimited; unit LimitMEMLOCK=64K",
            &[(Server::Oracle, ["none", "all", "none"])],
        ),
    ],
    &[set_up(
        "memlock: the unit gives everything, a login 64 KiB",
        "pages 450; memlock 64; unit LimitMEMLOCK=infinity",
        &[(Server::Oracle, ["all", "none", "all"])],
    )],
    &[
        set_up(
            "a service that nothing starts would write the pool",
            "pages 450; service '/bin/sh -c \"echo 0 >/proc/sys/vm/nr_hugepages\"'; start",
            &[(MAIN, ["all", "all", "all"])],
        ),
        set_up(
            "memlock: a drop-in for the unit since its start",
            "pages 450; memlock 64; unit LimitMEMLOCK=64K; drop_in LimitMEMLOCK=infinity",
            &[(Server::Oracle, ["none", "none", "all"])],
        ),
    ],
    &[
        set_up(
            "a cluster that is down, and that the boot starts",
            "pages 450; start; second auto",
            &[(MAIN, ["all", "all", "all"]), (SECOND, ["not_running", "all", "all"])],
        ),
        set_up(
            "memlock: the unit's drop-in is gone since its start",
            "pages 450; memlock unlimited; mkdir -p /etc/systemd/system/oracle.service.d; drop_in \
                 LimitMEMLOCK=infinity
unit LimitMEMLOCK=64K; rm /etc/systemd/system/oracle.service.d/moments.conf; systemctl \
                 daemon-reload",
            &[(Server::Oracle, ["all", "all", "none"])],
        ),
    ],
    &[
        set_up(
            "a cluster that is down, and that waits for a person",
            "pages 450; start; second manual",
            &[(MAIN, ["all", "all", "all"]), (SECOND, ["not_running", "all", "not_running"])],
        ),
        set_up(
            "memlock: every unit's by system.conf since the start",
            "pages 450; memlock 64; unit ''; mkdir /etc/systemd/system.conf.d
printf '[Manager]\\nDefaultLimitMEMLOCK=infinity\\n' >/etc/systemd/system.conf.d/moments.conf",
            &[(Server::Oracle, ["none", "none", "all"])],
        ),
    ],
    &[
        set_up(
            "a cluster that is down and disabled",
            "pages 450; start; second disabled",
            &[
                (MAIN, ["all", "all", "all"]),
                (SECOND, ["not_running", "does_not_start", "not_running"]),
            ],
        ),
        set_up(
            "hugetlb_shm_group at run time alone",
            "pages 450; memlock 64; group >/proc/sys/vm/hugetlb_shm_group; unit LimitMEMLOCK=64K",
            &[(Server::Oracle, ["all", "all", "none"])],
        ),
    ],
    &[
        set_up(
            "a cluster whose unit is masked since its start",
            "pages 450; start; systemctl --quiet mask postgresql@15-main",
            &[(MAIN, ["all", "does_not_start", "does_not_start"])],
        ),
        set_up(
            "hugetlb_shm_group at the boot alone",
            "pages 450; memlock 64; unit LimitMEMLOCK=64K
echo vm.hugetlb_shm_group = $(group) >/etc/sysctl.d/60-moments.conf",
            &[(Server::Oracle, ["none", "none", "all"])],
        ),
    ],
    &[set_up(
        "memlock: 250 MiB for two servers of one user, of 200 MiB each",
        "pages 450; memlock 256000; other LimitMEMLOCK=250M; unit LimitMEMLOCK=250M",
        &[(Server::Oracle, ["none", "none", "none"])],
    )],
    &[set_up(
        "memlock: 410 MiB for two servers of one user, of 200 MiB each",
        "pages 450; memlock 419840; other LimitMEMLOCK=410M; unit LimitMEMLOCK=410M",
        &[(Server::Oracle, ["all", "all", "all"])],
    )],
];
