//! Every captured host.

use std::path::{Path, PathBuf};

use hugewise_diagnose::sizing::Request;

use super::world::{World, shown, tried};
use crate::planner::PlanOptions;

fn hosts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut hosts: Vec<PathBuf> =
        entries.filter(|path| !path.to_string_lossy().ends_with(".expected.txt")).collect();
    hosts.sort();
    assert!(hosts.len() >= 12, "the fixtures are gone");
    hosts
}

#[test]
fn each_captured_host_ends_up_as_its_plan_says() {
    let shrink = PlanOptions { shrink: true, ..PlanOptions::default() };
    let early = PlanOptions { early: true, ..PlanOptions::default() };
    let boot_only = PlanOptions { now: false, ..PlanOptions::default() };
    let now_only = PlanOptions { boot: false, ..PlanOptions::default() };
    let mut wrong = Vec::new();
    for path in hosts() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = hugewise_host::source::open_source(Some(&path)).unwrap();
        let world = World::new(&*source);
        let defaults = ("defaults", &PlanOptions::default());
        let all = [
            defaults,
            ("shrink", &shrink),
            ("early", &early),
            ("boot only", &boot_only),
            ("now only", &now_only),
        ];
        for (what, options) in all {
            let (plan, _, problems) = tried(&world, options, &Request::default());
            wrong.extend(problems.into_iter().map(|problem| format!("{name}, {what}: {problem}")));
            if what == "defaults" {
                insta::assert_snapshot!(name.clone(), shown(&plan));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
