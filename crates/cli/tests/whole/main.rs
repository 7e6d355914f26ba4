//! The proof of the whole: random hosts in a world of their own, which says what becomes of each server now, at its restart
//! and at a boot; hugewise is asked about the same host, and held to the world.
//!
//! The world reads nothing with hugewise's readers: it knows the kernel's pools by mm/hugetlb.c, servers by what they did
//! when they were measured, and boot files by their manual pages. `HUGEWISE_CASES` sets how many hosts are drawn.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod boot;
mod draw;
mod found;
mod judge;
mod kernel;
mod numbers;
mod render;
mod servers;
mod world;

use hugewise_change::planner::Options;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use draw::{Spec, spec};
use judge::Seen;

fn cases() -> u32 {
    std::env::var("HUGEWISE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

fn config() -> Config {
    Config { cases: cases(), failure_persistence: None, max_shrink_iters: 400, ..Config::default() }
}

#[test]
fn whatever_a_host_is_each_moment_is_foretold() {
    let each = |spec: Spec| {
        let world = spec.world();
        let seen = Seen::of(&world);
        let wrong = judge::foretold(&world, &seen, &world.moments());
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
        Ok(())
    };
    TestRunner::new(config()).run(&spec(), each).unwrap();
}

#[test]
fn whatever_a_host_is_the_plan_makes_it_good() {
    let each = |(spec, shrink): (Spec, bool)| {
        let world = spec.world();
        let seen = Seen::of(&world);
        let options = Options { shrink, ..Options::default() };
        let (plan, wrong) = judge::planned(&world, &seen, &world.moments(), &options);
        prop_assert!(wrong.is_empty(), "{wrong:#?}\n{}", judge::shown(&plan));
        let differing = if shrink { Vec::new() } else { numbers::differing(&seen, &plan) };
        prop_assert!(differing.is_empty(), "{differing:#?}\n{}", judge::shown(&plan));
        Ok(())
    };
    TestRunner::new(config()).run(&(spec(), prop::bool::weighted(0.25)), each).unwrap();
}

/// Counts what goes wrong over many hosts, by its kind: to see all faults at once and not the first.
#[test]
#[ignore = "a survey"]
fn survey() {
    use proptest::strategy::ValueTree;
    let mut runner = TestRunner::deterministic();
    let mut kinds: std::collections::BTreeMap<String, (usize, String)> = [].into();
    for _ in 0..cases() {
        let spec = spec().new_tree(&mut runner).unwrap().current();
        let world = spec.world();
        let seen = Seen::of(&world);
        let moments = world.moments();
        let mut wrong = judge::foretold(&world, &seen, &moments);
        let (plan, more) = judge::planned(&world, &seen, &moments, &Options::default());
        wrong.extend(more);
        wrong.extend(numbers::differing(&seen, &plan));
        for one in wrong {
            let hidden = |word: &str| -> String {
                if word.starts_with("HW") { word.into() } else { word.replace(|c: char| c.is_ascii_digit(), "#") }
            };
            let key = one.split(' ').map(hidden).collect::<Vec<_>>().join(" ");
            let key = key.replace("##", "#").replace("##", "#").replace("##", "#");
            let key = key.split_once('(').map_or(key.clone(), |(key, _)| key.to_owned());
            let example = format!("{one}\n{spec:#?}\n{}", judge::shown(&plan));
            let entry = kinds.entry(key).or_insert((0, example.clone()));
            entry.0 += 1;
            if example.len() < entry.1.len() {
                entry.1 = example;
            }
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (key, (count, example)) in &kinds {
        println!("{count:>5} {key}\n=== {example}");
    }
}
