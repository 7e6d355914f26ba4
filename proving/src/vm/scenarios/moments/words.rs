//! The shell's words in which the set-ups are written.

/// Functions for the set-ups and for starting their servers. PostgreSQL's main cluster needs some
/// 145 pages of 2 MiB, the stand-in 100.
pub(super) const WORDS: &str = r#"set -e
pool() { echo $2 >/sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages; [ $(cat /sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages) = $2 ]; }
take_away() { echo 0 >/proc/sys/vm/nr_hugepages; }
pages() { kept $1; pool 2048 $1; }
kept() { echo "vm.nr_hugepages = $1" >/etc/sysctl.d/50-moments.conf; }
tmpfile() { echo "w $1 - - - - $2" >/etc/tmpfiles.d/moments.conf; }
settings() { printf '%s\n' "$@" >/etc/postgresql/15/main/conf.d/w-moments.conf; }
start() { systemctl start postgresql@15-main; }
line() { echo "GRUB_CMDLINE_LINUX_DEFAULT=\"\$GRUB_CMDLINE_LINUX_DEFAULT $*\"" >/etc/default/grub.d/moments.cfg; update-grub 2>/dev/null; }
second() {
    mv /root/aside/settings /etc/postgresql/15/second
    mv /root/aside/data /var/lib/postgresql/15/second
    echo $1 >/etc/postgresql/15/second/start.conf
    echo 'shared_buffers = 256MB' >/etc/postgresql/15/second/conf.d/w-moments.conf
    systemctl daemon-reload
}
oracle='cd /opt/oracle/dbs && ORACLE_HOME=/opt/oracle ORACLE_SID=PROD && export ORACLE_HOME ORACLE_SID && sleep infinity | exec /opt/oracle/bin/oracle --as oracle:PROD --segments 200M --pages 2M --fall-back --sessions 2'
oracle_up() {
    for second in $(seq 240); do [ $(pgrep -cf '^oraclePROD') -ge 2 ] && return; sleep 0.5; done
    journalctl -u oracle --no-pager >&2
    return 1
}
oracle_gone() { for second in $(seq 240); do pgrep -u oracle -f PROD >/dev/null || return 0; sleep 0.5; done; return 1; }
end_oracle() { systemctl stop oracle 2>/dev/null || true; pkill -u oracle -f PROD || true; oracle_gone; }
memlock() { echo "oracle - memlock $1" >/etc/security/limits.d/20-moments.conf; }
group() { getent group oinstall | cut -d: -f3; }
log_in() {
    setsid systemd-run --quiet --scope --slice=user-1001.slice --unit=session-$RANDOM.scope -- su oracle -c "$oracle" >/dev/null 2>&1 &
    oracle_up
}
unit() {
    mkdir -p /etc/systemd/system/oracle.service.d
    cat >/etc/systemd/system/oracle.service <<end
[Unit]
Description=Oracle PROD
After=local-fs.target

[Service]
User=oracle
Group=oinstall
$1
ExecStart=/bin/sh -c '$oracle'

[Install]
WantedBy=multi-user.target
end
    systemctl daemon-reload
    systemctl enable --quiet --now oracle
    oracle_up
}
other() {
    cat >/etc/systemd/system/oracle-test.service <<end
[Unit]
Description=Oracle TEST, which is up before PROD
After=local-fs.target
Before=oracle.service

[Service]
User=oracle
Group=oinstall
$1
ExecStart=/bin/sh -c '${oracle//PROD/TEST}'
ExecStartPost=/bin/sh -c 'for second in \$\$(seq 240); do pgrep -f ^oracleTEST && exit; sleep 0.5; done; exit 1'

[Install]
WantedBy=multi-user.target
end
    systemctl daemon-reload
    systemctl enable --quiet --now oracle-test
}
drop_in() { printf '[Service]\n%s\n' "$1" >/etc/systemd/system/oracle.service.d/moments.conf; }
service() {
    printf '[Service]\nType=oneshot\nExecStart=%s\n[Install]\nWantedBy=multi-user.target\n' "$1" >/etc/systemd/system/moments.service
    systemctl daemon-reload
}
"#;
