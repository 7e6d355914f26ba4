use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn file(bytes: &[u8]) -> FileState {
    let labels = vec![ExtendedAttribute {
        name: "security.selinux".into(),
        value: b"system_u:object_r:etc_t:s0\0".to_vec(),
    }];
    FileState {
        content: FileContent::new(bytes.to_vec()),
        mode: FileMode(0o640),
        uid: 0,
        gid: 26,
        labels,
    }
}

fn plan() -> Plan {
    let host =
        HostIdentity { name: "db7".into(), kernel: "5.15.0".into(), ..HostIdentity::default() };
    let mut plan = Plan::new(host, "2026-03-01T12:00:00Z");
    let pool = PoolRef { page_size: PageSize::GIB_1, node: Some(1) };
    let mut limits = FileChange::write(
        "/etc/security/limits.d/zz-hugewise.conf",
        "oracle - memlock unlimited\n",
    );
    limits.before = Some(file(&[0xff, b'\n']));
    plan.steps.push(
        Step::new("pool-1G-now", "4 pages of 1 GiB", Risk::Safe, "for PROD")
            .for_instance("oracle PROD")
            .expect_resolution("HW201", "no-pool", EffectTime::Now)
            .with_change(ValueChange::for_pool(pool, 4))
            .with_change(limits)
            .with_change(FileChange::remove("/etc/sysctl.d/zz-hugewise.conf"))
            .with_change(
                CommandChange::new(
                    ["/usr/sbin/grubby", "--update-kernel=ALL", "--args=hugepages=4"],
                    "boot",
                )
                .undone_by(["/usr/sbin/grubby", "--update-kernel=ALL", "--remove-args=hugepages=4"])
                .with_rewritten_file("/boot/loader/entries/*.conf")
                .unless_file_holds("/etc/x", "y"),
            ),
    );
    plan.seal();
    plan
}

#[test]
fn a_plan_survives_its_file() {
    let plan = plan();
    assert_eq!(Plan::from_json(plan.to_json().as_bytes()).unwrap(), plan);
    let json: Value = serde_json::from_str(&plan.to_json()).unwrap();
    let changes = &json["steps"][0]["changes"];
    assert_eq!(
        changes[0],
        json!({
            "kind": "value",
            "path": "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages",
            "before": null,
            "after": "4",
            "pool": {"page_bytes": 1_073_741_824, "node": 1},
        })
    );
    assert_eq!(changes[1]["after"]["content"], json!({"text": "oracle - memlock unlimited\n"}));
    // `printf '\377\n' | base64` says so.
    assert_eq!(changes[1]["before"]["content"], json!({"base64": "/wo="}));
    assert_eq!(changes[1]["before"]["mode"], "0640");
    assert_eq!(changes[2]["after"], Value::Null);
    assert_eq!(json["checksum"].as_str().map(str::len), Some(64));
}

#[test]
fn a_plan_obeys_its_schema() {
    let schema: Value = serde_json::from_str(&plan_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let json: Value = serde_json::from_str(&plan().to_json()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(&json!({"schema": "hugewise.plan/2"})));
}

#[test]
fn a_plan_that_was_changed_by_hand_is_refused_with_the_reason() {
    let text = plan().to_json();
    let refused = |old: &str, new: &str| {
        let changed = text.replacen(old, new, 1);
        assert_ne!(changed, text, "{old}");
        Plan::from_json(changed.as_bytes()).unwrap_err().to_string()
    };
    assert!(refused("\"after\": \"4\"", "\"after\": \"5\"").contains("checksum"));
    assert!(refused("\"uid\": 0", "\"uid\": 1000").contains("checksum"));
    assert!(refused("\"name\": \"db7\"", "\"name\": \"db8\"").contains("checksum"));
    assert!(refused("\"steps\": [", "\"more\": 1, \"steps\": [").contains("edited by hand"));
    assert!(refused("\"path\"", "\"extra\": 1, \"path\"").contains("edited by hand"));
    assert!(refused("\"mode\": \"0640\"", "\"mode\": \"99\"").contains("99"));
    assert!(refused("hugewise.plan/1", "hugewise.plan/2").contains("hugewise.plan/2"));
    assert!(Plan::from_json(b"{}").unwrap_err().to_string().contains("not a hugewise plan"));
    // A file that was only laid out anew says the same.
    let compact = serde_json::to_string(&serde_json::from_str::<Value>(&text).unwrap()).unwrap();
    assert_eq!(Plan::from_json(compact.as_bytes()).unwrap(), plan());
}

proptest! {
    #[test]
    fn any_bytes_are_a_plan_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Plan::from_json(&bytes).is_err());
    }

    #[test]
    fn a_plan_with_any_byte_changed_is_no_other_plan(place in 0..4000_usize, byte in any::<u8>()) {
        let mut text = plan().to_json().into_bytes();
        let place = place % text.len();
        text[place] = byte;
        if let Ok(read) = Plan::from_json(&text) {
            prop_assert_eq!(read, plan());
        }
    }

    #[test]
    fn a_files_bytes_survive(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let text = serde_json::to_string(&file(&bytes)).unwrap();
        let read: FileState = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read.content.bytes(), bytes.as_slice());
        prop_assert_eq!(read, file(&bytes));
    }
}

#[test]
fn a_plan_is_undecided_where_a_rule_is_and_it_plans_nothing() {
    let mut nothing = Plan::new(HostIdentity::default(), "2026-03-01T12:00:00Z");
    nothing.warnings.push("HW201 no-pool of mariadb 7 cannot be decided (maps: denied)".into());
    assert!(!nothing.is_undecided(), "a warning's words decide nothing");
    nothing.undecided = true;
    nothing.seal();
    assert!(nothing.is_undecided());
    assert_eq!(Plan::from_json(nothing.to_json().as_bytes()).unwrap(), nothing);
    assert!(!Plan { undecided: true, ..plan() }.is_undecided());
}
