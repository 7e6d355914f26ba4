//! A server with System V segments under systemd, which knows nothing of limits.d: unit, group and
//! limits are set.

use serde_json::Value;

use super::{apply, check, must_find, undo, verify};
use crate::vm::host::Snapshot;
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "memlock",
    shows: "a System V server whose limits are lost under systemd: drop-in, group and pool, on \
         huge pages after a reboot",
    run,
};

/// The stand-in with Oracle's process names, as a service that an administrator wrote; limits.d is
/// right for logins alone.
const SERVICE: &str = "set -e
groupadd oinstall
useradd --gid oinstall --home-dir /opt/oracle --no-create-home oracle
mkdir -p /opt/oracle/bin /opt/oracle/dbs
cp /usr/local/bin/standin /opt/oracle/bin/oracle
echo \"*.use_large_pages='TRUE'\" >/opt/oracle/dbs/initPROD.ora
chown -R oracle:oinstall /opt/oracle
echo 'oracle - memlock unlimited' >/etc/security/limits.d/20-oracle.conf
cat >/etc/systemd/system/oracle.service <<'end'
[Unit]
Description=Oracle PROD
After=local-fs.target

[Service]
User=oracle
Group=oinstall
LimitMEMLOCK=64K
Environment=ORACLE_HOME=/opt/oracle ORACLE_SID=PROD
WorkingDirectory=/opt/oracle/dbs
ExecStart=/bin/sh -c 'sleep infinity | exec /opt/oracle/bin/oracle --as oracle:PROD --segments \
     300M --pages 2M --fall-back --sessions 3'

[Install]
WantedBy=multi-user.target
end
systemctl daemon-reload
systemctl enable --quiet --now oracle
for second in $(seq 120); do [ $(pgrep -cf '^oraclePROD') -ge 3 ] && exit; sleep 1; done
journalctl -u oracle --no-pager >&2
exit 1
";

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    machine.must(SERVICE)?;
    let before = Snapshot::record(&mut machine)?;
    let found = check(&mut machine)?;
    must_find(stage, &found, "HW201")?;
    let of_prod = prod(&found)?;
    ensure(of_prod.get("huge_pages").is_some_and(|json| json == "none"), || {
        format!("before: {of_prod:#}")
    })?;
    apply(stage, &mut machine, "")?;
    let mut machine = stage.reboot(machine)?;
    let limit = machine.must(
        "systemctl show oracle.service --property LimitMEMLOCK --value; \
         sysctl -n vm.hugetlb_shm_group; getent group oinstall",
    )?;
    stage.report(&format!(
        "after the reboot: memlock of the unit, group: {}",
        limit.trim().replace('\n', ", ")
    ));
    ensure(!limit.starts_with("65536"), || format!("the unit's limit is still {limit}"))?;
    // The kernel's own word: the segment is in the pool.
    let used = machine.must(
        "pid=$(pgrep -f '^ora_pmon_PROD'); awk '/_Hugetlb:/ { huge += $2 } \
         END { print int(huge / 1024) }' /proc/$pid/smaps",
    )?;
    ensure(used.trim() == "300", || format!("{} MiB of 300 are on huge pages", used.trim()))?;
    stage.report("oracle PROD, started by systemd: 300 MiB on huge pages");
    let said = verify(&mut machine)?;
    ensure(said.code == 0, || {
        format!("verify ended with {}:\n{}{}", said.code, said.out, said.err)
    })?;
    undo(stage, &mut machine)?;
    let mut machine = stage.reboot(machine)?;
    Snapshot::record(&mut machine)?.must_be(&before)?;
    stage.report("after undo and reboot every file and value is as before");
    machine.power_off()
}

fn prod(check: &Value) -> Result<&Value, Failure> {
    let instances = check["instances"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = instances.iter().find(|instance| instance["name"] == "PROD");
    found.ok_or_else(|| format!("no PROD: {:#}", check["instances"]).into())
}
