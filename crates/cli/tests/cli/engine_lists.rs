//! Every kind of server, in every list of the product: one that is missing in a list is missed by
//! whoever reads it there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use hugewise_engines::{DescribedBy, EngineKind, SettingsBy, UNTRIED, all_kinds};
use hugewise_model::Engine;

fn said(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(arguments)
        .output()
        .expect("hugewise runs");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
}

fn document(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Those that have a name: what no engine knows has none.
fn named() -> impl Iterator<Item = (&'static EngineKind, Engine, &'static str)> {
    all_kinds()
        .iter()
        .flat_map(|kind| kind.names.iter().map(|(engine, name)| (*kind, *engine, *name)))
}

/// Every word of a text that could be an engine's name.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric()).collect()
}

#[test]
fn each_is_said_to_be_looked_for() {
    let empty = tempfile::tempdir().unwrap();
    let proc = empty.path().join("proc");
    std::fs::create_dir_all(&proc).unwrap();
    std::fs::write(proc.join("meminfo"), "MemTotal: 1048576 kB\nHugepagesize: 2048 kB\n").unwrap();
    // A process, or it would be said that none can be read.
    std::fs::create_dir(proc.join("1")).unwrap();
    std::fs::write(
        proc.join("1/stat"),
        "1 (init) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 1 1 1\n",
    )
    .unwrap();
    std::fs::write(
        proc.join("1/status"),
        "Name:\tinit\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n",
    )
    .unwrap();
    std::fs::write(proc.join("1/cmdline"), "/sbin/init\0").unwrap();
    let text = said(&["check", "--root", empty.path().to_str().unwrap()]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (_, engine, name) in named() {
        assert!(text.contains(name), "{engine} is looked for and nobody says so: {text}");
    }
}

#[test]
fn each_that_can_be_described_is_offered_completed_and_documented() {
    let help = said(&["size", "--help"]);
    let sizing = document("docs/sizing.md");
    let manual = document("docs/man/hugewise-size.1");
    for (kind, engine, name) in named() {
        let Some((by, _)) = kind.describe else {
            assert!(
                !said(&["size", "--engine", engine.as_str()]).contains("needs"),
                "{engine} cannot be described"
            );
            continue;
        };
        assert_ne!(by, DescribedBy::Segment, "{engine}");
        assert!(words(&help).contains(engine.as_str()), "{engine} is not in `size --help`");
        assert!(
            words(&manual).contains(engine.as_str()),
            "{engine} is not in its manual page: cargo xtask docs"
        );
        for shell in ["bash", "zsh", "fish"] {
            assert!(
                words(&said(&["completions", shell])).contains(engine.as_str()),
                "{shell} does not complete {engine}"
            );
        }
        for file in ["hugewise.bash", "_hugewise", "hugewise.fish"] {
            let kept = document(&format!("docs/completions/{file}"));
            assert!(
                words(&kept).contains(engine.as_str()),
                "{engine} is not in {file}: cargo xtask docs"
            );
        }
        // What people call it, or one word of that.
        let called = name.split('/').any(|word| sizing.contains(word));
        assert!(called, "docs/sizing.md does not say where the numbers of {name} come from");
        let told = said(&["size", "--engine", engine.as_str()]);
        assert!(
            told.contains(&format!("--engine {engine} needs")),
            "{engine} says what describes it: {told}"
        );
    }
}

#[test]
fn each_is_in_the_readme() {
    let readme = document("README.md");
    for (_, engine, name) in named() {
        let called =
            name.split('/').any(|word| readme.contains(word)) || readme.contains(engine.as_str());
        assert!(called, "{engine} is not in README.md");
    }
}

#[test]
fn what_was_not_tried_on_a_real_server_is_marked() {
    let readme = document("README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, behind) =
        readme.split_once(&format!("{UNTRIED}: ")).expect("README says what was not tried");
    let marked = behind.split_once('.').map(|(list, _)| list.split(", ").collect::<BTreeSet<_>>());
    let untried = named().filter(|(kind, ..)| !kind.tried).map(|(_, _, name)| name).collect();
    assert_eq!(marked, Some(untried));
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/db2-no-pool");
    let host = host.to_str().unwrap();
    assert!(said(&["check", "-v", "--root", host]).contains(&format!("IBM Db2: {UNTRIED}")));
    assert!(!said(&["check", "--root", host]).contains(UNTRIED));
}

/// Who says of THP what an administrator has to meet is named on the page of the rule about it.
#[test]
fn each_that_has_a_word_on_thp_is_named_by_its_rule() {
    let page = document("docs/rules/HW501-thp-policy.md");
    for (kind, engine, name) in named() {
        let host = hugewise_model::Host::default();
        let source = hugewise_host::source::MapSource::new();
        let scene = hugewise_engines::EngineContext::new(&host, &source);
        let instance =
            scene.new_instance(engine, "x".into(), &hugewise_model::Process::default(), Vec::new());
        if !matches!((kind.thp.advise)(&host, &instance), Ok(None)) {
            assert!(page.contains(name), "HW501's page does not name {name}");
        }
    }
}

#[test]
fn what_a_plan_sets_has_a_word_for_it() {
    for (kind, engine, _) in named() {
        let in_a_word = kind.settings.asks_by != "in its own settings";
        assert_eq!(in_a_word, !matches!(kind.settings.changed_by, SettingsBy::Nobody), "{engine}");
    }
}
