use std::io::Write;
use std::process::{Command, Stdio};

use hugewise_change::plan::{FileChange, FileContent, PlanRefusal, ValueChange};
use hugewise_change::{Plan, Risk, Step};
use proptest::prelude::*;

use super::testing::plan;
use super::*;

/// Without the tools, which are the same in every plan.
fn own(text: &str) -> String {
    let mut shown = String::new();
    let mut hidden = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("fail() {") {
            hidden = true;
            shown += "(tools)\n";
        } else if trimmed == "tasks:"
            || trimmed.starts_with("fits ")
            || trimmed.starts_with("[ \"$(id")
        {
            hidden = false;
        }
        if !hidden {
            shown += line;
            shown += "\n";
        }
    }
    shown
}

#[test]
fn a_script() {
    insta::assert_snapshot!(own(&render_shell(&plan(), false).unwrap()));
}

#[test]
fn a_playbook() {
    insta::assert_snapshot!(own(&render_ansible(&plan(), false).unwrap()));
}

#[test]
fn a_cloud_config() {
    let text = cloud_init(&plan(), false).unwrap();
    assert!(text.starts_with("#cloud-config\n"));
    insta::assert_snapshot!(own(&text));
}

#[test]
fn a_plan_that_should_not_be_applied_is_written_by_force_alone() {
    let mut plan = plan();
    let reasons = vec!["1 GiB is missing".to_owned()];
    plan.refusal = Some(PlanRefusal {
        reasons: reasons.clone(),
        short_bytes: 1 << 30,
        largest_pools_bytes: 0,
    });
    for format in [render_shell, render_ansible, cloud_init] {
        assert_eq!(format(&plan, false), Err(Unwritable::Refused(reasons.clone())));
        assert!(format(&plan, true).is_ok());
    }
}

fn with_path(path: &str, content: FileContent) -> Plan {
    let mut plan = plan();
    let mut change = FileChange::write(path, "");
    change.after.as_mut().unwrap().content = content;
    plan.steps[0].title = path.into();
    plan.steps[0].why = path.into();
    plan.steps.push(
        Step::new("odd", path, Risk::Safe, path)
            .with_change(change)
            .with_change(ValueChange::new(path, path)),
    );
    plan
}

/// The shell's own opinion.
fn is_shell(text: &str) -> bool {
    let mut shell =
        Command::new("sh").arg("-n").stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    shell.wait().unwrap().success()
}

#[test]
fn characters_that_act_on_a_terminal_are_refused_in_words_and_packed_in_files() {
    for odd in ["/etc/\x1b[2J", "/etc/\u{202e}x", "/etc/a\0b"] {
        for format in [render_shell, render_ansible, cloud_init] {
            assert!(matches!(
                format(&with_path(odd, FileContent::Text("a\n".into())), false),
                Err(Unwritable::Characters(_))
            ));
        }
    }
    for content in ["\x1b[2J\n", "a\0b\n", "no end", "", "END\nEND_\n"] {
        let plan = with_path("/etc/x", FileContent::Text(content.into()));
        for format in [render_shell, render_ansible, cloud_init] {
            let text = format(&plan, false).unwrap();
            assert!(!text.contains(['\x1b', '\0']), "{text}");
        }
        assert!(is_shell(&render_shell(&plan, false).unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_text_of_a_plan_becomes_a_command(path in "[ -~\n]{0,30}", content in "[ -~\n\t]{0,60}") {
        let plan = with_path(&path, FileContent::Text(content));
        if path.contains('\n') {
            for format in [render_shell, render_ansible, cloud_init] {
                prop_assert_eq!(format(&plan, false), Err(Unwritable::Characters(path.clone())));
            }
            return Ok(());
        }
        let script = render_shell(&plan, false).unwrap();
        prop_assert!(is_shell(&script), "{script}");
        prop_assert_eq!(
            Command::new("sh").args(["-c", &format!("printf %s. {}", quote_word(&path).unwrap())]).output().unwrap().stdout,
            format!("{path}.").into_bytes()
        );
    }
}
