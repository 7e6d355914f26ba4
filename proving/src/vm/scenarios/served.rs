//! The exporter as systemd runs it: a user without rights but two, who sees what root sees.

use serde_json::{Value, json};

use super::{check, must_find};
use crate::vm::machine::Machine;
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "served",
    shows: "hugewise serve under its hardened unit, as a user with two capabilities, tells what \
         root's check tells",
    run,
};

const UNIT: &str = include_str!("../../../../packaging/systemd/hugewise-serve.service");
const USER: &str = include_str!("../../../../packaging/systemd/hugewise.sysusers");

/// Reads a path of the exporter, without its head.
const GET: &str = "get() {
    exec 3<>/dev/tcp/127.0.0.1/9752 && printf 'GET %s HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' $1 >&3 && sed '1,/^\\r$/d' <&3
}
";

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    machine.must(&format!(
        "set -e
cp /usr/local/bin/hugewise /usr/bin/hugewise
cat >/etc/systemd/system/hugewise-serve.service <<'end of file'\n{UNIT}end of file
cat >/usr/lib/sysusers.d/hugewise.conf <<'end of file'\n{USER}end of file
systemd-sysusers
systemctl daemon-reload
systemctl start hugewise-serve
{GET}for second in $(seq 120); do get /metrics >/dev/null 2>&1 && exit; sleep 1; done
journalctl -u hugewise-serve --no-pager >&2
exit 1
"
    ))?;
    let user = machine
        .must("ps -o user= -p $(systemctl show hugewise-serve --property MainPID --value)")?;
    ensure(user.trim() == "hugewise", || format!("it runs as {user}"))?;

    let by_root = check(&mut machine)?;
    must_find(stage, &by_root, "HW201")?;
    let served: Value = serde_json::from_str(&machine.must(&format!("{GET}get /api/v1/check"))?)?;
    let (root, told) = (summary(&by_root), summary(&served));
    ensure(root == told, || format!("root sees {root:#}\nthe exporter {told:#}"))?;
    let metrics = machine.must(&format!("{GET}get /metrics"))?;
    let errors: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("hugewise_collector_errors{") && !line.ends_with(" 0"))
        .collect();
    ensure(errors.is_empty(), || format!("errors of the exporter: {errors:?}"))?;
    stage.report(
        "the exporter, as user hugewise: the same instances, chains and findings, and \
         nothing unread",
    );
    stage.report(&security(&mut machine, "hugewise-serve")?);
    machine.power_off()
}

/// What must be the same whoever looks: instances with their chains, findings, and what could not
/// be read.
pub(super) fn summary(check: &Value) -> Value {
    let list = |field: &str| check[field].as_array().cloned().unwrap_or_default();
    let instances: Vec<Value> = list("instances")
        .iter()
        .map(|other_json| {
            json!([
                other_json["engine"],
                other_json["name"],
                other_json["huge_pages"],
                other_json["demand"],
                other_json["chain"],
                other_json["settings"]
            ])
        })
        .collect();
    let findings: Vec<Value> = list("findings")
        .iter()
        .map(|other_json| json!([other_json["code"], other_json["instance"]]))
        .collect();
    json!({ "instances": instances, "findings": findings, "unread": check["unread"] })
}

/// What systemd thinks of a unit.
pub(super) fn security(machine: &mut Machine, unit: &str) -> Result<String, Failure> {
    let said = machine.must(&format!("systemd-analyze security {unit} --no-pager | tail -n 1"))?;
    Ok(said.trim().trim_start_matches(|letter: char| !letter.is_ascii_alphabetic()).to_owned())
}
