//! Plays set-ups one after the other, and compares what was foretold with what happened.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use hugewise_lab::guard::PoolGuard;
use hugewise_testkit::Skip;
use serde_json::Value;

use super::advice;
use super::forecast::{Forecast, Moment};
use super::kinds::Kind;
use super::mappings::State;
use super::stage::Stage;
use crate::real::harness::{self, Check};

/// A host for the set-ups of one test. Call [`Scene::verdict`] at its end.
pub(super) struct Scene {
    pub(super) guard: PoolGuard,
    theme: &'static str,
    tally: RefCell<Tally>,
}

#[derive(Default)]
struct Tally {
    set_ups: usize,
    foretold: usize,
    wrong: Vec<String>,
}

/// What a person does on a host, told what the plan says.
type ByHand<'a> = &'a dyn Fn(&Stage<'_>, &str);

/// A set-up: `arrange` brings it about on a host that has just booted.
pub(super) struct SetUp<'a> {
    name: &'a str,
    servers: &'a [&'a dyn Kind],
    arrange: &'a dyn Fn(&Stage<'_>),
    left_out: Vec<(Moment, &'a str)>,
    indifferent: Vec<usize>,
    options: &'a [&'a str],
    by_hand: Option<ByHand<'a>>,
    leaves: Option<&'a str>,
}

impl<'a> SetUp<'a> {
    pub(super) fn new(
        name: &'a str,
        servers: &'a [&'a dyn Kind],
        arrange: &'a dyn Fn(&Stage<'_>),
    ) -> Self {
        Self {
            name,
            servers,
            arrange,
            left_out: Vec::new(),
            indifferent: Vec::new(),
            options: &[],
            by_hand: None,
            leaves: None,
        }
    }

    /// Options of plan and apply, where it is followed.
    pub(super) fn with(mut self, options: &'a [&'a str]) -> Self {
        self.options = options;
        self
    }

    /// What the plan leaves to a person, done after apply; it is told what the plan says.
    pub(super) fn by_hand(mut self, does: ByHand<'a>) -> Self {
        self.by_hand = Some(does);
        self
    }

    /// Does not play that moment, for a reason.
    pub(super) fn without(mut self, moment: Moment, reason: &'a str) -> Self {
        assert!(!reason.is_empty());
        self.left_out.push((moment, reason));
        self
    }

    /// That server does not ask for huge pages of a pool at any moment: that it has none is no
    /// finding, and that it is not counted says as much.
    pub(super) fn indifferent(mut self, at: usize) -> Self {
        self.indifferent.push(at);
        self
    }

    /// This is found afterwards and was not before, for a reason.
    pub(super) fn leaves(mut self, finding: &'a str, reason: &'a str) -> Self {
        assert!(!reason.is_empty());
        self.leaves = Some(finding);
        self
    }

    fn plays(&self, moment: Moment) -> bool {
        self.left_out.iter().all(|(left_out, _)| *left_out != moment)
    }
}

/// One server at one moment.
struct Outcome {
    foretold: String,
    seen: &'static str,
    why: String,
    evidence: String,
}

impl Scene {
    /// Waits for the pools. `theme` is what the lines of its set-ups begin with.
    pub(super) fn new(theme: &'static str) -> Result<Self, Skip> {
        harness::program(&["/lib/systemd/systemd-sysctl"])?;
        harness::program(&["/usr/bin/systemd-tmpfiles"])?;
        Ok(Self { guard: PoolGuard::take_for_test()?, theme, tally: RefCell::default() })
    }

    /// Asks check, then lets each moment come.
    pub(super) fn play(&self, set_up: &SetUp<'_>) {
        let begun = Instant::now();
        let stage = Stage::new(&self.guard, set_up.servers);
        (set_up.arrange)(&stage);
        let running = stage.running();
        let checked = harness::check();
        let forecasts = forecasts(&checked, &stage, set_up);
        let mut worst = Vec::new();
        let mut lines = Vec::new();
        for (forecast, &at) in forecasts.iter().zip(&running) {
            let (state, evidence) = stage.look(at);
            worst.push((at, state));
            lines.push(vec![(
                Moment::Now,
                outcome(set_up, forecast, at, Moment::Now, state, evidence),
            )]);
        }

        let mut stage = stage;
        if set_up.plays(Moment::Restart) {
            for (place, &at) in running.iter().enumerate() {
                if place > 0 {
                    // What the restart before has moved is put back by bringing the whole set-up
                    // about again.
                    drop(stage);
                    stage = Stage::new(&self.guard, set_up.servers);
                    (set_up.arrange)(&stage);
                    let again = forecasts_states(&harness::check(), &stage, set_up);
                    let first: Vec<_> = forecasts.iter().map(Forecast::states).collect();
                    assert!(
                        again.iter().eq(first
                            .iter()
                            .map(|states| states.map(str::to_owned))
                            .collect::<Vec<_>>()
                            .iter()),
                        "{}: the same set-up is foretold in two ways: {first:?}, {again:?}",
                        set_up.name
                    );
                }
                let (state, evidence) = stage.restart(at);
                worst.push((at, state));
                lines[place].push((
                    Moment::Restart,
                    outcome(set_up, &forecasts[place], at, Moment::Restart, state, evidence),
                ));
            }
        }
        if set_up.plays(Moment::Reboot) {
            for (at, state, evidence) in stage.reboot(&running) {
                worst.push((at, state));
                let place = running.iter().position(|one| *one == at).unwrap();
                lines[place].push((
                    Moment::Reboot,
                    outcome(set_up, &forecasts[place], at, Moment::Reboot, state, evidence),
                ));
            }
        }
        drop(stage);

        let lacking = worst
            .iter()
            .any(|(at, state)| *state != State::All && !set_up.indifferent.contains(at));
        let mut wrong = advice::contradictions(&checked);
        if lacking && checked.code == 0 {
            wrong.push(
                "check ends with 0, and a server goes without its huge pages at one of the moments"
                    .into(),
            );
        }
        self.tell(set_up, &forecasts, lines, wrong, begun);
    }

    /// Does what hugewise plans, and sees that no server is worse off at once, that all are well
    /// and nothing is found any more after they were restarted and after a boot, and that undo
    /// leaves every file as it was.
    pub(super) fn follow(&self, set_up: &SetUp<'_>) {
        self.follow_and(set_up, &|| None);
    }

    /// The same, and `works` says what went wrong with the server as it runs.
    pub(super) fn follow_and(&self, set_up: &SetUp<'_>, works: &dyn Fn() -> Option<String>) {
        let begun = Instant::now();
        let stage = Stage::new(&self.guard, set_up.servers);
        (set_up.arrange)(&stage);
        let servers = stage.running();
        let before: Vec<State> = servers.iter().map(|at| stage.look(*at).0).collect();
        let (files, pool) = (stage.files(), stage.lasting_pages());
        let mut known = found(&harness::check());
        known.extend(set_up.leaves.map(str::to_owned));
        let mut wrong = Vec::new();
        let planned = hugewise(&[&["plan"], set_up.options].concat()).1;
        let (code, said) = hugewise(&[&["apply", "--yes"], set_up.options].concat());
        if code != Some(0) {
            wrong.push(format!("apply ended with {code:?}"));
        }
        for (&at, before) in servers.iter().zip(before) {
            let (state, evidence) = stage.look(at);
            if state < before {
                wrong.push(format!(
                    "server {at} is worse off at once: {} ({evidence})",
                    state.as_str()
                ));
            }
        }
        wrong.extend(works().map(|went| format!("as it runs: {went}")));
        wrong.extend(
            planned_again(set_up.options, &[]).map(|steps| format!("right after apply: {steps}")),
        );
        if let Some(does) = set_up.by_hand {
            does(&stage, &planned);
        }
        let refused = stage.restart_all(&servers);
        let mut told = Vec::new();
        for &at in &servers {
            let why = refused.iter().find(|(index, _)| *index == at).map(|(_, why)| why.clone());
            told.push((
                Moment::Restart,
                at,
                why.map_or_else(|| stage.look(at), |why| (State::DoesNotStart, why)),
            ));
        }
        if refused.is_empty() {
            wrong.extend(works().map(|went| format!("after a restart: {went}")));
            wrong.extend(not_clean(&known).map(|what| format!("after a restart: {what}")));
            // What a person has done may let a plan do more than it could. One whose demand was
            // reckoned is made to insist once it has shown that it has its pages.
            if set_up.by_hand.is_none() {
                let again = planned_again(set_up.options, &[" = on"]);
                wrong.extend(again.map(|steps| format!("after a restart: {steps}")));
            }
        }
        told.extend(
            stage
                .reboot(&servers)
                .into_iter()
                .map(|(at, state, why)| (Moment::Reboot, at, (state, why))),
        );
        wrong.extend(not_clean(&known).map(|what| format!("after a boot: {what}")));
        if !said.contains("Nothing to do") {
            let (mut code, mut undone) = hugewise(&["undo"]);
            // Pages that a heap has yet to grow into go when it has been stopped, as undo says.
            if code == Some(2) && undone.contains("may still take more") {
                stage.stop_all();
                (code, undone) = hugewise(&["undo"]);
            }
            if code != Some(0) {
                wrong.push(format!("undo ended with {code:?}: {undone}"));
            }
        }
        stage.stop_all();
        if set_up.by_hand.is_none() {
            wrong.extend(
                files
                    .differences(&stage.files())
                    .into_iter()
                    .map(|text| format!("after undo: {text}")),
            );
        }
        if stage.lasting_pages() != pool {
            wrong.push(format!(
                "after undo the pool has {} pages, had {pool}",
                stage.lasting_pages()
            ));
        }
        drop(stage);
        for (moment, at, (state, evidence)) in told {
            if state != State::All {
                wrong.push(format!("server {at} at {moment}: {} ({evidence})", state.as_str()));
            }
        }
        if !wrong.is_empty() {
            wrong.push(format!("planned:\n{planned}\napplied:\n{said}"));
        }
        let line = format!(
            "moments  {}: {}  {}",
            self.theme,
            set_up.name,
            if wrong.is_empty() { "all well" } else { "WRONG" }
        );
        self.end(set_up, line + "\n", wrong, begun);
    }

    fn tell(
        &self,
        set_up: &SetUp<'_>,
        forecasts: &[Forecast],
        lines: Vec<Vec<(Moment, Outcome)>>,
        mut wrong: Vec<String>,
        begun: Instant,
    ) {
        let mut tally = self.tally.borrow_mut();
        let mut text = String::new();
        for (forecast, outcomes) in forecasts.iter().zip(lines) {
            text.push_str(&format!("moments  {}: {}  {}", self.theme, set_up.name, forecast.title));
            for (moment, outcome) in outcomes {
                tally.foretold += 1;
                let Outcome { foretold, seen, why, evidence } = outcome;
                let right = foretold == seen;
                text.push_str(&format!(
                    "  {moment} {foretold}{}{seen}",
                    if right { " = " } else { " WRONG, seen " }
                ));
                if !right {
                    wrong.push(format!(
                        "{} at {moment}: foretold {foretold} ({why}), seen {seen} ({evidence})",
                        forecast.title
                    ));
                }
            }
            text.push('\n');
        }
        drop(tally);
        self.end(set_up, text, wrong, begun);
    }

    /// Counts a set-up and prints what is to be said of it.
    fn end(&self, set_up: &SetUp<'_>, mut text: String, wrong: Vec<String>, begun: Instant) {
        let mut tally = self.tally.borrow_mut();
        tally.set_ups += 1;
        let (all, told) = (tally.set_ups, tally.foretold);
        let begins = format!("{}: {}: ", self.theme, set_up.name);
        for one in &wrong {
            text.push_str(&format!("         {one}\n"));
        }
        tally.wrong.extend(wrong.into_iter().map(|one| begins.clone() + &one));
        text.push_str(&format!(
            "         so far {all} set-ups, {told} forecasts, {} wrong; {:.1} s\n",
            tally.wrong.len(),
            begun.elapsed().as_secs_f64()
        ));
        // Past the test runner, which shows only what failed.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Fails with what was foretold wrongly.
    #[track_caller]
    pub(super) fn verdict(self) {
        let Tally { set_ups, foretold, wrong } = self.tally.into_inner();
        drop(self.guard);
        let verdict = format!(
            "moments  {}: {set_ups} set-ups, {foretold} forecasts, {} wrong",
            self.theme,
            wrong.len()
        );
        let _ = writeln!(std::io::stderr(), "{verdict}");
        assert!(wrong.is_empty(), "{verdict}\n{}", wrong.join("\n"));
    }
}

/// Exit code and all that it says.
fn hugewise(arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        Command::new(harness::HUGEWISE).args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// What a plan would do once more, but for steps whose titles end so.
fn planned_again(options: &[&str], due: &[&str]) -> Option<String> {
    let (_, said) = hugewise(&[&["plan", "--format", "json"], options].concat());
    let plan: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let steps: Vec<&str> = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|step| step["title"].as_str())
        .collect();
    let steps: Vec<&str> =
        steps.into_iter().filter(|title| !due.iter().any(|end| title.ends_with(end))).collect();
    (!steps.is_empty()).then(|| format!("a second plan has {steps:?}"))
}

/// Findings as code and engine: a server's name may bear its pid.
fn found(check: &Check) -> BTreeSet<String> {
    let findings = check.json["findings"].as_array().expect("findings").iter();
    let text_of = |finding: &Value| {
        finding["instance"]
            .as_str()
            .and_then(|text| text.split(' ').next())
            .unwrap_or("host")
            .to_owned()
    };
    findings
        .map(|finding| format!("{} of {}", harness::text(&finding["code"]), text_of(finding)))
        .collect()
}

/// What check still finds after all that was planned is done, or finds now and did not before, and
/// what verify says.
fn not_clean(known: &BTreeSet<String>) -> impl Iterator<Item = String> {
    let checked = harness::check();
    let mut wrong: Vec<String> =
        found(&checked).difference(known).map(|new| format!("check has a new {new}")).collect();
    if checked.code != 0 {
        wrong.push(format!("check ends with {}: {:?}", checked.code, found(&checked)));
    }
    let (code, said) = hugewise(&["verify"]);
    if code != Some(0) {
        wrong.push(format!("verify ends with {code:?}: {said}"));
    }
    wrong.into_iter()
}

fn forecasts(check: &Check, stage: &Stage<'_>, set_up: &SetUp<'_>) -> Vec<Forecast> {
    let forecast_of = |at: usize| Forecast::of(check, set_up.servers[at].engine(), stage.pid(at));
    stage.running().into_iter().map(forecast_of).collect()
}

fn forecasts_states(check: &Check, stage: &Stage<'_>, set_up: &SetUp<'_>) -> Vec<[String; 3]> {
    forecasts(check, stage, set_up)
        .iter()
        .map(|forecast| forecast.states().map(str::to_owned))
        .collect()
}

fn outcome(
    set_up: &SetUp<'_>,
    forecast: &Forecast,
    at: usize,
    moment: Moment,
    state: State,
    evidence: String,
) -> Outcome {
    let exempt = set_up.indifferent.contains(&at)
        && state == State::None
        && forecast.state(moment) == "not_counted";
    let seen = if exempt { "not_counted" } else { state.as_str() };
    Outcome {
        foretold: forecast.state(moment).to_owned(),
        seen,
        why: forecast.why(moment).to_owned(),
        evidence,
    }
}
