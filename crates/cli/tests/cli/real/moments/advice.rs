//! What must hold of check's commands in every set-up, whichever rules speak.

use std::collections::{BTreeMap, BTreeSet};

use crate::real::harness::Check;

/// Sentences about commands of one check that contradict each other: the same value of the kernel
/// written in two ways.
pub(super) fn contradictions(check: &Check) -> Vec<String> {
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for finding in check.json["findings"].as_array().expect("findings") {
        for line in finding["fix"].as_array().into_iter().flatten() {
            for (key, value) in assignments(line.as_str().unwrap_or_default()) {
                written.entry(key).or_default().insert(value);
            }
        }
    }
    let twice = written.into_iter().filter(|(_, values)| values.len() > 1);
    twice.map(|(key, values)| format!("check's commands set {key} to {values:?}")).collect()
}

/// What a command sets: `vm.nr_hugepages = 300`, or a number that is written to a file of a pool.
fn assignments(line: &str) -> Vec<(String, String)> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return Vec::new();
    }
    let mut found = Vec::new();
    for key in ["vm.nr_hugepages", "vm.nr_overcommit_hugepages", "vm.hugetlb_shm_group"] {
        for (at, _) in line.match_indices(key) {
            let rest = line[at + key.len()..].trim_start();
            if let Some(value) = rest.strip_prefix('=') {
                found.push((key.to_owned(), number(value)));
            }
        }
    }
    for name in ["nr_hugepages", "nr_overcommit_hugepages"] {
        if let Some((before, path)) = line.split_once('>')
            && path.trim().starts_with("/sys/")
            && path.trim().ends_with(name)
        {
            found.push((path.trim().to_owned(), number(before.trim().trim_start_matches("echo"))));
        }
    }
    found.retain(|(_, value)| !value.is_empty());
    found
}

fn number(text: &str) -> String {
    text.trim_start().chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn what_commands_set_is_read_from_their_words() {
    let texts_of = |line: &str| assignments(line);
    let pool = |value: &str| vec![("vm.nr_hugepages".to_owned(), value.to_owned())];
    assert_eq!(texts_of("sysctl -w vm.nr_hugepages=627"), pool("627"));
    assert_eq!(
        texts_of("printf 'vm.nr_hugepages = 300\\n' > /etc/sysctl.d/zz-hugepages.conf"),
        pool("300")
    );
    assert_eq!(texts_of("# vm.nr_hugepages=5 is too little"), []);
    let file = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
    assert_eq!(texts_of(&format!("echo 4 > {file}")), [(file.to_owned(), "4".to_owned())]);
}
