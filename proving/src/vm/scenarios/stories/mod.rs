//! Troubles of PostgreSQL, MariaDB, Redis and a JVM over page sizes, each made to happen: what
//! check foretells before, what investigate says of what collectors, the recorder and the servers'
//! own logs kept of it.
//!
//! The archives lie below target/vm/stories afterwards; those that the tests of `hugewise` replay
//! were made by this.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::vm::machine::Machine;
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};
use hugewise_testkit::tools::{Failure, shell};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "stories",
    shows: "PostgreSQL, MariaDB, Redis and a JVM in trouble over page sizes: foretold by check, \
         told by investigate",
    run,
};

/// Where the surroundings say so, only stories are played whose names have this in them.
const ASKED: &str = "HUGEWISE_STORY";

/// What all of them start from.
const COLLECT: &str = include_str!("collect.sh");

struct Story {
    name: &'static str,
    memory_mib: u32,
    script: &'static str,
    /// Whether the machine is rebooted before it happens.
    reboots: bool,
    /// Rules that have to speak before it happens.
    foretold: &'static [&'static str],
    /// What investigate has to take it for, where it makes an incident.
    verdict: Option<&'static str>,
    /// Rules that have to speak of the capture that was taken last.
    after: &'static [&'static str],
}

const STORIES: &[Story] = &[
    Story {
        name: "postgresql",
        memory_mib: 2048,
        script: include_str!("postgresql.sh"),
        reboots: true,
        foretold: &["HW601"],
        verdict: Some("huge-pages-lost"),
        after: &["HW401"],
    },
    Story {
        name: "mariadb",
        memory_mib: 1536,
        script: include_str!("mariadb.sh"),
        reboots: false,
        foretold: &[],
        verdict: None,
        after: &["HW203", "HW401"],
    },
    Story {
        name: "redis",
        memory_mib: 768,
        script: include_str!("redis.sh"),
        reboots: false,
        foretold: &["HW501"],
        // Whether the host feels it depends on how long the save takes: a machine that has its
        // processors has done it in 4 s.
        verdict: None,
        after: &[],
    },
    Story {
        name: "jvm",
        memory_mib: 1536,
        script: include_str!("jvm.sh"),
        reboots: false,
        foretold: &[],
        verdict: Some("cgroup-limit"),
        after: &[],
    },
];

fn run(stage: &Stage) -> Result<(), Failure> {
    let asked = std::env::var(ASKED).unwrap_or_default();
    let stories: Vec<&Story> = STORIES.iter().filter(|story| story.name.contains(&asked)).collect();
    ensure(!stories.is_empty(), || format!("{ASKED}={asked} is in no name of a story"))?;
    let mut wrong = Vec::new();
    for story in stories {
        stage.report(&format!("{}:", story.name));
        wrong.extend(story.play(stage)?);
    }
    ensure(wrong.is_empty(), || wrong.join("\n"))
}

impl Story {
    /// Lets it happen; what is not as it must be.
    fn play(&self, stage: &Stage) -> Result<Vec<String>, Failure> {
        let disk = stage.disk(Image::Servers)?;
        let mut machine =
            stage.boot(&disk, Hardware { memory_mib: self.memory_mib, ..Hardware::default() })?;
        self.must(&mut machine, "begin; sleep 5; arrange; look before")?;
        if self.reboots {
            self.must(&mut machine, "end")?;
            machine = stage.reboot(machine)?;
            self.must(&mut machine, "begin")?;
        }
        self.must(&mut machine, "happens")?;
        let notes = self.must(&mut machine, "end; cat $kept/notes")?;
        stage.show("what the kernel and the server say", &notes);
        let folder = crate::vm::folder()?.join("stories").join(self.name);
        save_files(&mut machine, &folder)?;
        machine.power_off()?;

        let mut wrong = Vec::new();
        for (file, when, codes) in
            [("before", "before", self.foretold), ("worst", "after", self.after)]
        {
            if codes.is_empty() {
                continue;
            }
            let check: Value =
                serde_json::from_slice(&fs::read(folder.join(format!("{file}.check.json")))?)?;
            for code in codes {
                match super::finding(&check, code) {
                    Some(finding) => {
                        stage.report(&format!("{when}: {code} {}", field_text(finding, "summary")))
                    }
                    None => wrong.push(format!("{}: check says no {code} {when}", self.name)),
                }
            }
        }
        let said = investigate(&stage.programs()?.with_file_name("hugewise"), &folder)?;
        let incidents =
            said.get("incidents").and_then(Value::as_array).cloned().unwrap_or_default();
        for incident in &incidents {
            stage.report(&format!(
                "after: {} ({}): {}",
                field_text(incident, "verdict"),
                field_text(incident, "confidence"),
                field_text(incident, "summary")
            ));
        }
        if let Some(verdict) = self.verdict
            && !incidents.iter().any(|incident| incident["verdict"] == verdict)
        {
            wrong.push(format!("{}: investigate says no {verdict}", self.name));
        }
        Ok(wrong)
    }

    fn must(&self, machine: &mut Machine, what: &str) -> Result<String, Failure> {
        machine.must(&format!("{COLLECT}{}\n{what}", self.script))
    }
}

fn field_text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn investigate(program: &Path, folder: &Path) -> Result<Value, Failure> {
    let output =
        Command::new(program).arg("investigate").arg(folder).args(["--format", "json"]).output()?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("investigate: {error}: {}", String::from_utf8_lossy(&output.stderr)).into()
    })
}

/// What the machine kept, in a folder of its own.
fn save_files(machine: &mut Machine, folder: &PathBuf) -> Result<(), Failure> {
    let packed = machine.must("tar -C /var/log/kept -czf - . | base64 -w 0")?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let text = folder.join("kept.base64");
    File::create(&text)?.write_all(packed.as_bytes())?;
    let tar = folder.join("kept.tar.gz");
    let mut decode = shell::command("base64");
    shell::run(decode.arg("-d").arg(&text).stdout(File::create(&tar)?))?;
    shell::output(
        shell::command("tar").arg("-xzf").arg(&tar).arg("-C").arg(folder).arg("--no-same-owner"),
    )?;
    fs::remove_file(text)?;
    Ok(fs::remove_file(tar)?)
}
