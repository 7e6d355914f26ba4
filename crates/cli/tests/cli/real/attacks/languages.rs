//! Every kind of hostile text as name, path, argument, setting, title and reason of a plan, in each
//! language that a plan is written in; read back by what will read it. Plans are made by hand: no
//! check of what a plan may hold stands before.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hugewise_change::plan::{
    Change, CommandChange, FileChange, HostIdentity, Instruction, Plan, Risk, Step, ValueChange,
};
use hugewise_model::Host;
use hugewise_model::escape::{plain, shell, yaml};
use hugewise_report::{PlanReport, TextLayout, formats};
use hugewise_testkit::require;

use super::formats::{PYTHON, ansible, commands_of_cloud_init, file, interpreters};
use crate::real::{harness, namespace, plans};

#[path = "../../../../../report/src/testing/hostile/corpus.rs"]
mod corpus;

/// Texts that a script may have as words.
fn sayable() -> Vec<String> {
    corpus::all_texts().into_iter().filter(|text| plain::is_clean(text)).collect()
}

/// A program that keeps its arguments, each with a NUL behind it.
fn recorder(folder: &Path) -> PathBuf {
    let path = file(
        folder,
        "record",
        &format!("#!/bin/sh\nprintf '%s\\0' \"$@\" >>'{}/said'\n", folder.display()),
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Paths below a folder that have the texts for names.
fn paths(folder: &Path, texts: &[String]) -> Vec<String> {
    let parts: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.split('/'))
        .filter(|part| !part.is_empty() && !matches!(*part, "." | "..") && part.len() < 200)
        .collect();
    let path =
        |(at, parts): (usize, &[&str])| format!("{}/{at}/{}", folder.display(), parts.join("/"));
    parts.chunks(20).enumerate().map(path).collect()
}

/// A plan for this machine that has the texts everywhere, and writes below a folder alone.
fn plan(folder: &Path, texts: &[String], all: &[String]) -> Plan {
    let host = HostIdentity {
        name: texts.concat(),
        machine_id: Some(plans::line("/etc/machine-id").unwrap_or_else(|| "none".into())),
        ..HostIdentity::default()
    };
    let mut plan = Plan::new(host, "2026-03-01T12:00:00Z");
    let odd = |at: usize| all[at % all.len()].clone();
    let step = |at: usize| {
        let step =
            Step::new(odd(at), odd(at + 1), Risk::Safe, odd(at + 2)).for_instance(odd(at + 3));
        step.expect_resolution(&odd(at + 4), &odd(at + 5), hugewise_change::plan::EffectTime::Now)
    };
    let paths = paths(folder, texts);
    for (at, path) in paths.iter().enumerate() {
        plan.steps.push(
            step(at * 7).with_change(FileChange::write(path, format!("{}\n", texts.join("\n")))),
        );
    }
    let mut of_all = step(3);
    let contents = [
        "#jinja2:variable_start_string:'['\n[lookup('pipe','touch OWNED')]\n",
        "{\"a\": 1}\n",
        "[1, 2]\n",
        "true\n",
        "{{ x }}",
    ];
    for (at, content) in contents.iter().enumerate() {
        of_all.changes.push(
            FileChange::write(format!("{}/usual/{at}.conf", folder.display()), *content).into(),
        );
    }
    of_all.changes.push(
        FileChange::write(format!("{}/usual/all.conf", folder.display()), all.join("\n")).into(),
    );
    of_all.changes.push(
        FileChange::remove(format!("{}/gone/{}", folder.display(), texts[8].replace('/', "_")))
            .into(),
    );
    of_all.changes.push(
        ValueChange::new(
            format!("{}/value {}", folder.display(), "{{{x}}}$(touch OWNED)"),
            texts[20].clone(),
        )
        .into(),
    );
    let record = folder.join("record").to_str().unwrap().to_owned();
    let said: Vec<String> = [record].into_iter().chain(texts.iter().cloned()).collect();
    of_all.changes.push(CommandChange::new(said.clone(), all.concat()).into());
    of_all.changes.push(
        CommandChange::new(said, all.concat()).unless_file_holds(&paths[0], &texts[8]).into(),
    );
    plan.steps.push(of_all);
    plan.warnings = all.to_vec();
    plan.instructions = vec![Instruction {
        title: all.concat(),
        text: texts.concat(),
        risk: Risk::Safe,
        instance: Some(odd(9)),
    }];
    plan.hugewise = all.concat();
    plan.made_at = all.concat();
    plan.seal();
    plan
}

/// What is in every file of a folder, by its path.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
            }
        }
    }
    found
}

/// The plan's folder as it should be when the plan is done.
fn expected(plan: &Plan, texts: &[String]) -> BTreeMap<String, Vec<u8>> {
    let mut expected = BTreeMap::new();
    for (_, change) in plan.changes() {
        match change {
            Change::File(FileChange { path, after: Some(after), .. }) => {
                expected.insert(path.clone(), after.content.bytes().to_owned());
            }
            Change::Value(value) => {
                drop(expected.insert(value.path.clone(), format!("{}\n", value.after).into_bytes()))
            }
            _ => {}
        }
    }
    let said: Vec<u8> = texts.iter().flat_map(|text| text.bytes().chain([0])).collect();
    expected.insert("said".into(), said);
    expected
}

/// Each of the three, run for real by the real tool: files and arguments come out byte for byte,
/// and nothing else runs.
#[test]
fn scripts_playbooks_and_cloud_configs_say_what_the_plan_says() {
    let test = "attacks::languages::scripts_playbooks_and_cloud_configs_say_what_the_plan_says";
    if !require!(namespace::inside(test)) {
        return;
    }
    require!(interpreters());
    let (texts, all) = (sayable(), corpus::all_texts());
    for format in ["dash", "bash", "busybox", "ansible", "cloud-init"] {
        let scratch = harness::folder();
        let (home, folder) = (scratch.path().join("home"), scratch.path().join("plan"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(folder.join("gone")).unwrap();
        recorder(&folder);
        let plan = plan(&folder, &texts, &all);
        fs::write(folder.join("value {{{x}}}$(touch OWNED)"), "before\n").unwrap();
        let gone = folder.join("gone").join(texts[8].replace('/', "_"));
        fs::write(&gone, "here\n").unwrap();
        let run = |command: &mut Command| {
            harness::must(command.current_dir(&home).env("HOME", &home).stdin(Stdio::null()))
        };
        match format {
            "ansible" => {
                let playbook = file(
                    scratch.path(),
                    "playbook",
                    &formats::render_ansible(&plan, false).unwrap(),
                );
                let output = ansible(&home, &playbook, &["--diff"]);
                let said = String::from_utf8_lossy(&output.stdout);
                assert!(
                    output.status.success(),
                    "{said}\n{}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            "cloud-init" => {
                let config =
                    file(scratch.path(), "config", &formats::cloud_init(&plan, false).unwrap());
                let commands = file(scratch.path(), "commands", &commands_of_cloud_init(&config));
                run(Command::new("sh").arg("-e").arg(commands));
            }
            shell => {
                let script =
                    file(scratch.path(), "script", &formats::render_shell(&plan, false).unwrap());
                let arguments: &[&str] = if shell == "busybox" { &["sh"] } else { &[] };
                run(Command::new(shell).args(arguments).arg(script));
            }
        }
        let mut found = contents(&folder);
        found.remove(&folder.join("record"));
        let names = |paths: Vec<PathBuf>| {
            paths.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let mut wanted: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for (path, bytes) in expected(&plan, &texts) {
            wanted.insert(folder.join(path), bytes);
        }
        assert_eq!(
            names(found.keys().cloned().collect()),
            names(wanted.keys().cloned().collect()),
            "by {format}"
        );
        for (path, bytes) in &wanted {
            assert_eq!(
                String::from_utf8_lossy(&found[path]),
                String::from_utf8_lossy(bytes),
                "{} by {format}",
                path.display()
            );
        }
        let home = contents(scratch.path());
        assert!(!home.keys().any(|path| path.ends_with("OWNED")), "{format}: {:?}", home.keys());
    }
}

/// Characters that act on whatever shows them are refused where they would be words, however they
/// come.
#[test]
fn what_no_script_should_have_is_in_none() {
    let texts = corpus::all_texts();
    for text in texts.iter().filter(|text| !plain::is_clean(text)) {
        let host = HostIdentity { name: "db7".into(), ..HostIdentity::default() };
        let with = |change: Change| {
            let mut plan = Plan::new(host.clone(), "now");
            plan.steps = vec![Step::new("odd", "odd", Risk::Safe, "why")];
            plan.steps[0].changes = vec![change];
            plan
        };
        for plan in [
            with(FileChange::write(text, "").into()),
            with(FileChange::remove(text).into()),
            with(ValueChange::new(text, "1").into()),
            with(ValueChange::new("/proc/sys/vm/x", text).into()),
            with(CommandChange::new([text], "why").into()),
            with(CommandChange::new(["/usr/bin/psql"], "why").as_user(text).into()),
            with(CommandChange::new(["/usr/bin/psql"], "why").unless_file_holds("/x", text).into()),
        ] {
            for format in [formats::render_shell, formats::render_ansible, formats::cloud_init] {
                assert_eq!(format(&plan, true), Err(formats::Unwritable::Characters(text.clone())));
            }
        }
    }
}

/// The review is of the plan's own lines: a text is on the line that it belongs to.
#[test]
fn no_text_of_a_plan_makes_a_line_of_its_review() {
    let (texts, all) = (sayable(), corpus::all_texts());
    let reviewed = |texts: &[String], all: &[String]| {
        let mut plan = plan(Path::new("/srv"), texts, all);
        for (at, step) in plan.steps.iter_mut().enumerate() {
            let path = format!("/srv/conf.d/{}", all[at % all.len()]);
            step.changes.push(FileChange::write(&path, "x\n").into());
            step.changes.push(ValueChange::new(path, all[(at + 1) % all.len()].as_str()).into());
        }
        let mut out = Vec::new();
        let planned = PlanReport {
            host: &Host::default(),
            plan: &plan,
            kept: None,
            options: "",
            asking: false,
            unread: &[],
        };
        planned.write_text(&mut out, TextLayout::plain_text(100_000)).unwrap();
        String::from_utf8(out).unwrap()
    };
    let shown = reviewed(&texts, &all);
    let odd = shown.lines().find(|line| !plain::is_clean(line));
    assert_eq!(odd, None);
    // Two headings for each file and value, of which the first of those that are removed has none
    // to show.
    let headings =
        shown.lines().filter(|line| line.starts_with("--- ") || line.starts_with("+++ ")).count();
    let plan = plan(Path::new("/srv"), &texts, &all);
    let files = plan.changes().filter(|(_, change)| !matches!(change, Change::Command(_))).count();
    assert_eq!(headings, 2 * (files - 1 + 2 * plan.steps.len()));
    let forged = shown.lines().find(|line| line.trim_start().starts_with("1  forged-step"));
    assert_eq!(forged, None);
}

/// Words of a shell and scalars of YAML, all in one go.
#[test]
fn words_and_scalars_are_read_back_as_they_are() {
    require!(interpreters());
    let scratch = harness::folder();
    let texts = sayable();
    let said: Vec<u8> = texts.iter().flat_map(|text| text.bytes().chain([0])).collect();
    let exact: Vec<String> = texts.iter().map(|text| shell::quote_exact(text).unwrap()).collect();
    let shown: Vec<String> = texts.iter().map(|text| shell::quote_argument(text)).collect();
    for words in [exact, shown] {
        let script =
            file(scratch.path(), "words", &format!("printf '%s\\0' {}\n", words.join(" ")));
        for shell in [&["dash"][..], &["bash"], &["bash", "--posix"], &["busybox", "sh"]] {
            let output = Command::new(shell[0])
                .args(&shell[1..])
                .arg(&script)
                .current_dir(scratch.path())
                .output()
                .unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&said),
                "{shell:?}"
            );
        }
    }

    let all = corpus::all_texts();
    let mut document = String::new();
    for text in &all {
        document += &format!(
            "- {}\n- {}\n- {}\n",
            yaml::quote_scalar(text),
            yaml::quote_list([text.as_str()]),
            yaml::format_text(text, 4)
        );
    }
    let document = file(scratch.path(), "document", &document);
    let read = "import sys, json, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1], \
         encoding='utf-8'))))";
    let read = harness::must(Command::new(PYTHON).args(["-c", read]).arg(document));
    let read: serde_json::Value = serde_json::from_str(&read).unwrap();
    for (at, text) in all.iter().enumerate() {
        assert_eq!(
            (&read[3 * at], &read[3 * at + 1][0], &read[3 * at + 2]),
            (&text.as_str().into(), &text.as_str().into(), &text.as_str().into())
        );
    }
    assert!(!scratch.path().join("OWNED").exists());
}
