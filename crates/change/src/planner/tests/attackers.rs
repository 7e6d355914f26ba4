//! Hosts made by an attacker: nothing is done on his word, and whatever is planned is on the closed
//! list.

use hugewise_diagnose::sizing::{self, Request};
use hugewise_diagnose::{Assessment, assess_host};
use hugewise_host::Source;
use hugewise_model::{Host, Instance};
use proptest::prelude::*;

use crate::plan::{Change, Plan};
use crate::planner::{PlanOptions, build_plan, mark_named_instances};
use hugewise_diagnose::target::to_size;

#[path = "../../../../../fuzz/src/attacker.rs"]
mod attacker;

struct Seen {
    host: Host,
    instances: Vec<Instance>,
    assessment: Assessment,
}

fn look(source: &dyn Source, options: &PlanOptions) -> Option<Seen> {
    let host = hugewise_host::read(source);
    let mut instances = hugewise_engines::find_instances(&host, source).instances;
    mark_named_instances(&mut instances, options).ok()?;
    let assessment = assess_host(&host, &instances);
    Some(Seen { host, instances, assessment })
}

fn planned(source: &dyn Source, options: &PlanOptions) -> Option<Plan> {
    let seen = look(source, options)?;
    let wanted = to_size(&seen.host, &seen.instances, &seen.assessment, options.target_wish());
    let sizing = sizing::size_servers(&seen.host, &wanted, &Request::default()).ok();
    build_plan(&seen.host, &seen.instances, &seen.assessment, sizing.as_ref(), source, options).ok()
}

fn plain(plan: &Plan) -> String {
    format!("{:#?}\n{:#?}", plan.steps, plan.instructions)
}

/// The plan of the same host without him.
fn without_him() -> String {
    use std::sync::OnceLock;
    static PLAN: OnceLock<String> = OnceLock::new();
    PLAN.get_or_init(|| {
        plain(&planned(&attacker::host_without_him(), &PlanOptions::default()).unwrap())
    })
    .clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_planned_on_an_attackers_word(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let source = attacker::host(&bytes);
        let plan = planned(&source, &PlanOptions::default()).expect("a plan");
        prop_assert!(plan.refusal.is_none());
        crate::allowed::check_plan_allowed(&plan).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(plain(&plan), without_him());
    }

    #[test]
    fn even_by_name_he_gets_nothing_that_is_not_on_the_list(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let source = attacker::host(&bytes);
        let Some(seen) = look(&source, &PlanOptions::default()) else { return Ok(()) };
        for stranger in seen.instances.iter().filter(|instance| instance.pid >= attacker::FIRST) {
            prop_assert!(!stranger.is_trusted(), "{stranger:?}");
            let handle = stranger.unique_title();
            let options = PlanOptions { instances: vec![handle.clone()], restart: vec![handle], ..PlanOptions::default() };
            let Some(plan) = planned(&source, &options) else { continue };
            crate::allowed::check_plan_allowed(&plan).map_err(|error| TestCaseError::fail(format!("{error}\n{plan:#?}")))?;
            for (_, change) in plan.changes() {
                let text = format!("{change:?}");
                prop_assert!(!text.contains("\"restart\""), "{text}");
                // The server itself keeps what ALTER SYSTEM sets, as its owner.
                let Change::File(file) = change else { continue };
                for folder in ["/etc/postgresql", "/etc/ssh", "/etc/apt", "/etc/sudoers.d", "/home"] {
                    prop_assert!(!file.path.starts_with(folder), "{text}");
                }
                prop_assert!(!file.path.contains(".service.d"), "{text}");
            }
        }
    }
}

/// The host has something to plan for, so that the property above says something.
#[test]
fn the_server_beside_him_is_planned_for() {
    let plan = without_him();
    assert!(
        plan.contains("nr_hugepages")
            && plan.contains("/etc/postgresql/15/main/conf.d/zz-hugewise.conf"),
        "{plan}"
    );
}
