//! Every captured host.

use std::path::{Path, PathBuf};

use hugewise_advice::sizing::Request;

use super::world::{World, holds, shown};
use crate::planner::Options;

fn hosts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut hosts: Vec<PathBuf> = entries.filter(|path| !path.to_string_lossy().ends_with(".expected.txt")).collect();
    hosts.sort();
    assert!(hosts.len() >= 12, "the fixtures are gone");
    hosts
}

#[test]
fn each_captured_host_ends_up_as_its_plan_says() {
    let shrink = Options { shrink: true, ..Options::default() };
    let early = Options { early: true, ..Options::default() };
    let boot_only = Options { now: false, ..Options::default() };
    let now_only = Options { boot: false, ..Options::default() };
    for path in hosts() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = hugewise_host::source::open(Some(&path)).unwrap();
        let world = World::new(&*source);
        let (plan, _) = holds(&name, &world, &Options::default(), &Request::default());
        insta::assert_snapshot!(name, shown(&plan));
        for (what, options) in [("shrink", &shrink), ("early", &early), ("boot only", &boot_only), ("now only", &now_only)] {
            holds(&format!("{name}, {what}"), &world, options, &Request::default());
        }
    }
}
