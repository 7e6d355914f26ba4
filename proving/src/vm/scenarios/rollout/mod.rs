//! Four machines with a PostgreSQL each, reached by ssh: a roll-out in three waves, of which the
//! second fails.

mod control;
mod reached;

use std::path::{Path, PathBuf};

use serde_json::json;

use super::fragmented::fragment;
use crate::vm::{Scenario, Stage, ensure};
use control::{Control, Played};
use hugewise_testkit::tools::Failure;
use reached::{Host, Traffic};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "rollout",
    shows: "Ansible over ssh: a wave that fails is undone, the next is untouched; mended, it goes \
         on; once more, no role changes \
            anything",
    run,
};

const INSTALL: &str = "- hosts: all
  gather_facts: false
  become: true
  roles: [hugewise.hosts.install]
";
const OBSERVE: &str = "- hosts: all
  gather_facts: false
  become: true
  roles: [hugewise.hosts.observe]
";

/// The services that `observe` starts, each with what systemd says of it.
const OBSERVED: &str = "for unit in hugewise-serve hugewise-record; do
    echo $(systemctl is-enabled $unit) $(systemctl is-active $unit)
done";

/// How they get the program.
pub(super) const BEFORE: Scenario = Scenario {
    name: "rollout-install",
    shows: "Ansible over ssh: an archive with another checksum is refused, with its own it is \
         installed",
    run: install,
};

fn run(stage: &Stage) -> Result<(), Failure> {
    let names: Vec<&str> = control::WAVES.iter().flat_map(|(_, names)| *names).copied().collect();
    let mut trial = Trial::start(stage, &names)?;
    let package = trial.install_package()?;
    trial.survey()?;
    trial.fails_in_the_second_wave()?;
    trial.goes_on()?;
    trial.observe(true)?;
    trial.changes_nothing(&package)?;
    trial.observe(false)?;
    trial.end()
}

fn install(stage: &Stage) -> Result<(), Failure> {
    let mut trial = Trial::start(stage, &["a1"])?;
    trial.install()?;
    trial.end()
}

struct Trial<'a> {
    stage: &'a Stage,
    control: Control,
    hosts: Vec<Host>,
}

impl<'a> Trial<'a> {
    fn start(stage: &'a Stage, names: &[&'static str]) -> Result<Self, Failure> {
        let control = Control::new()?;
        std::fs::write(control.path("install.yml"), INSTALL)?;
        std::fs::write(control.path("observe.yml"), OBSERVE)?;
        let (mut hosts, mut known) = (Vec::new(), Vec::new());
        for name in names {
            let mut host = Host::boot(stage, name, &control)?;
            known.push((host.name, host.port, host.key()?));
            hosts.push(host);
        }
        control.knows(&known)?;
        Ok(Self { stage, control, hosts })
    }

    fn end(self) -> Result<(), Failure> {
        self.hosts.into_iter().try_for_each(Host::power_off)
    }

    fn host(&mut self, name: &str) -> Result<&mut Host, Failure> {
        let found = self.hosts.iter_mut().find(|host| host.name == name);
        found.ok_or_else(|| format!("no host {name}").into())
    }

    /// Plays it, and says how long it took and what went over the network, of all hosts together.
    fn play(&mut self, name: &str, variables: &serde_json::Value) -> Result<Played, Failure> {
        let before = self.traffic()?;
        let played = self.control.play(name, variables)?;
        let after = self.traffic()?;
        let (to, from) = ((after.got - before.got) >> 10, (after.sent - before.sent) >> 10);
        let (seconds, hosts) = (played.seconds, self.hosts.len());
        self.stage.report(&format!(
            "{name}: {seconds} s; {to} KiB to {hosts} hosts, {from} KiB from them"
        ));
        self.stage.show("its output", &played.text);
        Ok(played)
    }

    /// Of all hosts together.
    fn traffic(&mut self) -> Result<Traffic, Failure> {
        self.hosts.iter_mut().try_fold(Traffic::default(), |sum, host| Ok(sum + host.traffic()?))
    }

    fn rollout(&mut self) -> Result<Played, Failure> {
        let waves: Vec<&str> = control::WAVES.iter().map(|(wave, _)| *wave).collect();
        let variables = json!({
            "rollout_from": self.control.path("plans"), "rollout_reviewed": self.control.path("reviewed.sha256"),
            "rollout_waves": waves, "rollout_restart": ["15/main"],
        });
        self.play("hugewise.hosts.rollout", &variables)
    }

    /// Plays the role `install` with a file that has that digest.
    fn play_install(&mut self, file: &Path, digest: &str) -> Result<Played, Failure> {
        self.play("install.yml", &json!({ "install_package": file, "install_sha256": digest }))
    }

    /// The program, out of an archive, in the place of the one that the machines came with.
    fn install(&mut self) -> Result<(), Failure> {
        let (archive, digest) =
            self.control.archive(&self.stage.programs()?.with_file_name("hugewise"))?;
        self.host("a1")?.must("rm /usr/local/bin/hugewise")?;
        let played = self.play_install(&archive, &"0".repeat(64))?;
        ensure(!played.succeeded && played.text.contains("nothing was installed"), || played.text)?;
        self.host("a1")?.must("test ! -e /usr/local/bin/hugewise")?;
        let played = self.play_install(&archive, &digest)?;
        ensure(played.succeeded, || played.text)?;
        self.host("a1")?.must("hugewise version")?;
        self.stage
            .report("an archive with another checksum is refused; with its own it is installed");
        Ok(())
    }

    /// The Debian package on all hosts, in the place of the program that the machines came with;
    /// the package and its digest.
    fn install_package(&mut self) -> Result<(PathBuf, String), Failure> {
        let (package, digest) =
            self.control.package(&self.stage.programs()?.with_file_name("hugewise"))?;
        for host in &mut self.hosts {
            host.must("rm /usr/local/bin/hugewise")?;
        }
        let played = self.play_install(&package, &digest)?;
        ensure(played.succeeded, || played.text)?;
        for host in &mut self.hosts {
            let installed = host.must("command -v hugewise && hugewise version")?;
            ensure(installed.starts_with("/usr/bin/hugewise"), || {
                format!("{}: {installed}", host.name)
            })?;
        }
        self.stage.report("the package is installed on all hosts");
        Ok((package, digest))
    }

    fn play_survey(&mut self, to: &str) -> Result<Played, Failure> {
        let variables = json!({ "survey_to": self.control.path(to), "plan_restart": ["15/main"] });
        self.play("hugewise.hosts.survey", &variables)
    }

    /// Starts the services, or stops them.
    fn observe(&mut self, wanted: bool) -> Result<(), Failure> {
        let played = self.play_observe(wanted)?;
        ensure(played.succeeded, || played.text)?;
        let state = if wanted { "enabled active" } else { "disabled inactive" };
        for host in &mut self.hosts {
            let services = host.must(OBSERVED)?;
            ensure(services == format!("{state}\n{state}\n"), || {
                format!("{}: {services}", host.name)
            })?;
        }
        self.stage.report(&format!("hugewise-serve and hugewise-record: {state} on all hosts"));
        Ok(())
    }

    fn play_observe(&mut self, wanted: bool) -> Result<Played, Failure> {
        self.play("observe.yml", &json!({ "observe_serve": wanted, "observe_record": wanted }))
    }

    fn survey(&mut self) -> Result<(), Failure> {
        for host in &mut self.hosts {
            host.note()?;
        }
        let played = self.play_survey("plans")?;
        ensure(played.succeeded, || played.text.clone())?;
        for host in &mut self.hosts {
            ensure(played.recap(host.name).contains("changed=0"), || played.text.clone())?;
            host.must_be_as_noted()?;
            let size = |end: &str| {
                std::fs::metadata(self.control.path("plans").join(format!("{}{end}", host.name)))
            };
            let (capture, plan) = (size(".tar.gz")?.len(), size(".plan.json")?.len());
            let saved =
                std::fs::read(self.control.path("plans").join(format!("{}.plan.json", host.name)))?;
            let saved: serde_json::Value = serde_json::from_slice(&saved)?;
            let steps = saved
                .get("steps")
                .and_then(serde_json::Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let steps: Vec<&str> =
                steps.iter().filter_map(|step| step.get("id")?.as_str()).collect();
            ensure(steps.contains(&"restart-postgresql-15/main"), || {
                format!("{}: a plan of {steps:?}", host.name)
            })?;
            self.stage.report(&format!(
                "{}: a capture of {capture} bytes, a plan of {plan}: {}",
                host.name,
                steps.join(", ")
            ));
        }
        self.control.review()
    }

    fn fails_in_the_second_wave(&mut self) -> Result<(), Failure> {
        let stage = self.stage;
        fragment(stage, &mut self.host("b2")?.machine)?;
        let played = self.rollout()?;
        ensure(!played.succeeded && played.text.contains("The wave failed, by b2."), || {
            played.text.clone()
        })?;
        self.host("a1")?.must_be_on_huge_pages(stage)?;
        // The pages that the restarted server holds are given back when it ends, and not before.
        let b1 = self.host("b1")?;
        let held =
            b1.must("grep -H . /sys/kernel/mm/hugepages/hugepages-2048kB/{nr,surplus}_hugepages")?;
        stage.report(&format!("b1, undone: {}", held.trim().replace('\n', ", ")));
        b1.must_have_files_as_noted()?;
        b1.restart()?;
        b1.must_be_as_noted()?;
        ensure(b1.on_huge_pages()? == 0, || {
            "b1 still has huge pages after undo and restart".into()
        })?;
        stage.report(
            "b1, undone and restarted: every file and value is as before, PostgreSQL on base pages",
        );
        self.host("b2")?.must_be_as_noted()?;
        self.host("b2")?.must_not_have_restarted()?;
        let c1 = self.host("c1")?;
        c1.must_be_as_noted()?;
        c1.must_not_have_restarted()?;
        c1.must("test ! -e /var/lib/hugewise/rollout")?;
        stage.report("b2 is as before, c1 was never touched");
        Ok(())
    }

    fn goes_on(&mut self) -> Result<(), Failure> {
        let stage = self.stage;
        self.host("b2")?.must("systemctl stop fragment && echo 1 >/proc/sys/vm/compact_memory")?;
        self.host("a1")?.note_start()?;
        let played = self.rollout()?;
        ensure(played.succeeded, || played.text.clone())?;
        for host in &mut self.hosts {
            host.must_be_on_huge_pages(stage)?;
        }
        self.host("a1")?.must_not_have_restarted()?;
        stage.report("mended, it went on: all are verified, the canary was not restarted again");
        Ok(())
    }

    /// Every role once more.
    fn changes_nothing(&mut self, (package, digest): &(PathBuf, String)) -> Result<(), Failure> {
        for host in &mut self.hosts {
            host.note()?;
        }
        for (roles, played) in [
            ("install", self.play_install(package, digest)?),
            ("capture and plan", self.play_survey("plans-again")?),
            ("apply", self.rollout()?),
            ("observe", self.play_observe(true)?),
        ] {
            ensure(played.succeeded, || played.text.clone())?;
            for host in &self.hosts {
                let recap = played.recap(host.name);
                ensure(recap.contains("changed=0"), || {
                    format!("{roles}: {recap}\n{}", played.text)
                })?;
                self.stage.report(&format!(
                    "{roles}: {}",
                    recap.split_whitespace().collect::<Vec<_>>().join(" ")
                ));
            }
        }
        for host in &mut self.hosts {
            host.must_be_as_noted()?;
            host.must_not_have_restarted()?;
        }
        self.stage.report("once more, no role changes anything, and no server is restarted");
        Ok(())
    }
}
