//! The proof of the whole: random hosts in a world of their own, which says what becomes of each server now, at its restart
//! and at a boot; hugewise is asked about the same host, and held to the world.
//!
//! The world reads nothing with hugewise's readers: it knows the kernel's pools by mm/hugetlb.c, servers by what they did
//! when they were measured, and boot files by their manual pages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod boot;
mod draw;
mod found;
mod judge;
mod kernel;
mod numbers;
mod orders;
mod render;
mod servers;
mod world;

use std::collections::BTreeMap;

use hugewise_change::planner::Options;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use draw::spec;
use judge::Seen;

/// What goes wrong on so many hosts, by its kind, the most frequent first: how often, and its shortest example. The same
/// hosts each time.
fn surveyed(cases: u32) -> Vec<(String, (usize, String))> {
    let mut runner = TestRunner::deterministic();
    let mut kinds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for _ in 0..cases {
        let spec = spec().new_tree(&mut runner).unwrap().current();
        let world = spec.world();
        let options = Seen::of(&world).options(spec.wish);
        let seen = Seen::asked(&world, &options);
        let moments = world.moments();
        let mut wrong = judge::foretold(&world, &seen, &moments);
        let (plan, more) = judge::planned(&world, &seen, &moments, &options);
        wrong.extend(more);
        if options == Options::default() {
            wrong.extend(numbers::differing(&seen, &plan));
        }
        for one in wrong {
            let example = format!("{one}\n{spec:#?}\n{}", judge::shown(&plan));
            let entry = kinds.entry(kind_of(&one)).or_insert((0, example.clone()));
            entry.0 += 1;
            if example.len() < entry.1.len() {
                entry.1 = example;
            }
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    kinds
}

/// A line without its numbers, but for the code of a rule.
fn kind_of(line: &str) -> String {
    let hidden = |word: &str| -> String {
        if word.starts_with("HW") { word.into() } else { word.replace(|c: char| c.is_ascii_digit(), "#") }
    };
    let line = line.split(' ').map(hidden).collect::<Vec<_>>().join(" ");
    let line = line.replace("##", "#").replace("##", "#");
    line.split_once('(').map_or(line.clone(), |(line, _)| line.to_owned())
}

/// Hosts that the gate looks at; more where `HUGEWISE_CASES` says so as this is compiled.
const HOSTS: u32 = 200;

#[test]
fn each_moment_is_foretold_and_the_plan_makes_it_good() {
    let more = option_env!("HUGEWISE_CASES").map(|text| text.parse::<u32>().expect("a number of hosts"));
    let wrong = surveyed(more.unwrap_or(HOSTS).max(HOSTS));
    for (kind, (count, example)) in &wrong {
        println!("{count:>5} {kind}\n=== {example}");
    }
    assert!(wrong.is_empty(), "{} kinds of faults", wrong.len());
}
