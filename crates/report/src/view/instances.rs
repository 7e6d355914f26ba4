use std::collections::BTreeSet;

use hugewise_diagnose::chain;
use hugewise_diagnose::forecast::per_session;
use hugewise_diagnose::prediction::{PredictionStage, StageForecast, StageForecasts};
use hugewise_diagnose::untrusted;
use hugewise_engines::EngineKind;
use hugewise_model::instance::{Mechanism, SessionModel};
use hugewise_model::{
    AtBoot, Bytes, Engine, HugePageChain, HugePageUse, Instance, InstanceId, Observed,
};

use super::{describe_fact, namesakes};
use crate::CheckReport;
use crate::palette::Role;
use crate::plain::escape_line;
use crate::table::{TableCell, TableColumn};

pub(crate) const COLUMNS: [TableColumn; 8] = [
    TableColumn::left("instance").cut_to(12),
    TableColumn::left("now"),
    TableColumn::left("restart"),
    TableColumn::left("reboot"),
    TableColumn::right("sessions").short("sess."),
    TableColumn::right("segments"),
    TableColumn::right("page tables").short("tables"),
    TableColumn::right("a session").short("session"),
];

/// The columns that a narrow terminal drops, the first of them first.
pub(crate) const GIVE_WAY: [usize; 4] = [7, 4, 6, 5];

/// Notes below the table, each with the title of its instance.
pub(crate) fn instance_notes(checked: &CheckReport<'_>) -> Vec<(String, String)> {
    let transparent =
        checked.instances.iter().filter_map(|one| Some((one.title(), on_transparent(one)?)));
    let unvouched: Vec<&Instance> =
        checked.instances.iter().filter(|instance| !instance.is_trusted()).collect();
    let named = unvouched.iter().take(MOST_UNVOUCHED).map(|instance| {
        let how = format!(
            "{}; to plan for it, name it: {}",
            untrusted::untrusted_reason(instance),
            untrusted::plan_for(instance)
        );
        (instance.title(), how)
    });
    let more = unvouched.len().checked_sub(MOST_UNVOUCHED).filter(|more| *more > 0);
    let more = more
        .map(|more| (format!("{more} more"), "hugewise has no reason to trust them".to_owned()));
    let apart = namesakes::namesake_notes(checked.host, checked.instances).into_iter();
    let asleep = on_asleep(checked).into_iter().chain(start_reasons(checked));
    apart.chain(transparent).chain(asleep).chain(named).chain(more).collect()
}

/// Only so many servers have what keeps them from huge pages at a start below the table.
const MOST_REASONS: usize = 5;

/// Why the table foretells anything else than `all` of a start; what is not known is told last.
fn start_reasons(checked: &CheckReport<'_>) -> Vec<(String, String)> {
    let of_instance = |instance: &Instance| {
        let moments = checked.assessment.situation.forecasts_for(instance)?;
        Some((instance.title(), join_start_reasons(checked, instance, moments)?))
    };
    let mut notes: Vec<(String, String)> =
        checked.instances.iter().filter_map(of_instance).collect();
    if let Some(more) = notes.len().checked_sub(MOST_REASONS).filter(|more| *more > 0) {
        notes.truncate(MOST_REASONS);
        let what = "would not start wholly on huge pages either (--format json lists all)";
        notes.push((format!("{more} more"), what.to_owned()));
    }
    notes
}

/// Without those that a finding on the server gives.
fn join_start_reasons(
    checked: &CheckReport<'_>,
    instance: &Instance,
    moments: &StageForecasts,
) -> Option<String> {
    let is_told = |forecast: &StageForecast| {
        forecast.obstacle.is_some_and(|one| checked.assessment.tells_obstacle(instance, one))
    };
    let reason = |forecast: &StageForecast| {
        let is_less = forecast.rank().is_some_and(|rank| rank < 3);
        forecast.why.clone().filter(|_| is_less && !is_told(forecast))
    };
    Some(match (reason(&moments.restart), reason(&moments.boot)) {
        // What starts it at a boot, or does not, is told before what keeps it from its pages.
        (Some(restart), Some(boot)) if boot.ends_with(&restart) => {
            format!("restart and reboot: {restart}")
        }
        (Some(restart), Some(boot)) => format!("restart: {restart}; reboot: {boot}"),
        (Some(restart), None) => format!("restart: {restart}"),
        (None, Some(boot)) => format!("reboot: {boot}"),
        (None, None) => return None,
    })
}

/// Why each server that runs is taken for one of the host's, or what each reason lacks.
pub(crate) fn trust_notes(instances: &[Instance]) -> impl Iterator<Item = (String, String)> {
    let is_told = |one: &&Instance| !one.is_stopped() || !one.trust.failed.is_empty();
    instances.iter().filter(is_told).filter_map(|instance| {
        let reasons: Vec<&str> = instance.trusted_by.iter().map(|reason| reason.as_str()).collect();
        let proofs = &instance.trust;
        let text = if !proofs.held.is_empty() {
            format!("trusted ({}): {}", reasons.join(", "), proofs.held.join("; "))
        } else if !proofs.failed.is_empty() && !instance.is_trusted() {
            let failed = proofs.failed.iter();
            let lacks = failed.map(|(reason, why)| format!("{}: {why}", reason.as_str()));
            format!("not trusted: {}", lacks.collect::<Vec<_>>().join("; "))
        } else {
            return None;
        };
        Some((instance.title(), text))
    })
}

/// Only so many are named: anybody can start as many servers as he likes.
const MOST_UNVOUCHED: usize = 3;

/// `at least 1.7 of 2.2 GiB is on transparent huge pages`.
pub(crate) fn on_transparent(instance: &Instance) -> Option<String> {
    let transparent = instance.transparent.get().filter(|bytes| *bytes > Bytes::ZERO)?;
    let (part, whole) = (transparent.to_string(), instance.segment_bytes().to_string());
    let part = match (part.split_once(' '), whole.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
        _ => part,
    };
    Some(format!("at least {part} of {whole} is on transparent huge pages"))
}

pub(crate) fn checked_instance_rows(checked: &CheckReport<'_>) -> Vec<Vec<TableCell>> {
    let running = checked.instances.iter().filter(|instance| !instance.is_stopped());
    running
        .chain(stopped_instances(checked).into_iter().take(MOST_ASLEEP))
        .map(|instance| checked_instance_row(checked, instance))
        .collect()
}

/// Stopped servers with a row and a note of their own.
const MOST_ASLEEP: usize = 5;

/// Those that the boot starts first.
fn stopped_instances<'a>(checked: &CheckReport<'a>) -> Vec<&'a Instance> {
    let mut asleep: Vec<&Instance> =
        checked.instances.iter().filter(|instance| instance.is_stopped()).collect();
    asleep.sort_by_key(|instance| instance.waits_for_hands());
    asleep
}

/// Whether the boot starts the stopped servers, and what says so.
fn on_asleep(checked: &CheckReport<'_>) -> Vec<(String, String)> {
    let asleep = stopped_instances(checked);
    let mut notes: Vec<(String, String)> =
        asleep.iter().take(MOST_ASLEEP).filter_map(|instance| on_one(instance)).collect();
    if let Some(more) = asleep.len().checked_sub(MOST_ASLEEP).filter(|more| *more > 0) {
        let at_boot =
            asleep.iter().skip(MOST_ASLEEP).filter(|instance| !instance.waits_for_hands()).count();
        let starts = match at_boot {
            0 => "starts none of them".to_owned(),
            all if all == more => "probably starts all of them".to_owned(),
            some => format!("probably starts {some} of them"),
        };
        let what = format!("not running; the boot {starts}");
        notes.push((format!("{more} more"), what));
    }
    notes
}

fn on_one(instance: &Instance) -> Option<(String, String)> {
    let asleep = instance.stopped.as_ref()?;
    let boot = match &asleep.at_boot {
        AtBoot::Yes(why) => format!("the boot starts it: {why}"),
        AtBoot::No(why) => format!("the boot does not start it: {why}"),
        AtBoot::Unknown(why) => why.clone(),
    };
    Some((instance.title(), format!("not running; {boot}")))
}

fn checked_instance_row(checked: &CheckReport<'_>, instance: &Instance) -> Vec<TableCell> {
    let moments = checked.assessment.situation.forecasts_for(instance);
    let at = |moment: PredictionStage| match moments {
        Some(moments) => {
            let coverage = &moments.at_stage(moment).coverage;
            TableCell::new(Role::from(coverage), coverage.label())
        }
        None => TableCell::new(Role::Quiet, "?"),
    };
    vec![
        instance_title_cell(instance),
        if instance.is_stopped() {
            TableCell::new(Role::Quiet, "down")
        } else {
            at(PredictionStage::Now)
        },
        at(PredictionStage::Restart),
        at(PredictionStage::Boot),
        TableCell::text(describe_fact(&instance.sessions)),
        TableCell::text(describe_segments(instance)),
        TableCell::text(describe_fact(&instance.page_tables)),
        TableCell::text(describe_fact(&a_session(checked, instance))),
    ]
}

/// `oracle PROD 19.22.0`, `postgresql 5433 (15)`; without the version where space is short.
fn instance_title_cell(instance: &Instance) -> TableCell {
    let title = instance.title();
    let version =
        instance.version.as_known().filter(|version| !instance.name.starts_with(version.as_str()));
    let Some(version) = version else { return TableCell::new(Role::Strong, title) };
    // A number behind a number would be taken for a part of the name.
    let is_number = instance
        .name
        .rsplit(' ')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    let whole =
        if is_number { format!("{title} ({version})") } else { format!("{title} {version}") };
    TableCell {
        brief: Some(escape_line(&title).into_owned()),
        ..TableCell::new(Role::Strong, whole)
    }
}

fn describe_segments(instance: &Instance) -> String {
    match (instance.segments.is_empty(), instance.huge_pages) {
        _ if instance.is_stopped() => "-".into(),
        (true, HugePageUse::Unknown) => "?".into(),
        (true, _) => "-".into(),
        (false, _) => instance.segment_bytes().to_string(),
    }
}

/// Page tables of one more session, as forecast. Threads share those of their process.
fn a_session(checked: &CheckReport<'_>, instance: &Instance) -> Observed<Bytes> {
    match instance.session_model {
        SessionModel::Threads => Observed::Absent,
        SessionModel::Processes => instance
            .page_tables
            .clone()
            .and_then(|_| Observed::from(per_session(checked.host, instance))),
    }
}

/// Names of engines here that were never tried on a real server.
pub(crate) fn untried_engines<'a>(
    checked: &CheckReport<'a>,
) -> impl Iterator<Item = &'static str> + use<'a> {
    let engines: BTreeSet<Engine> =
        checked.instances.iter().map(|instance| instance.engine).collect();
    let untried = |engine: Engine| {
        (!EngineKind::for_engine(engine).tried)
            .then(|| EngineKind::for_engine(engine).name_of(engine))
    };
    // What no engine knows has no vendor.
    engines.into_iter().filter(|engine| *engine != Engine::Other).filter_map(untried)
}

/// Chains of instances that no finding names, but for engines that cannot use a pool.
pub(crate) fn unmentioned_chains<'a>(
    checked: &'a CheckReport<'_>,
) -> impl Iterator<Item = &'a HugePageChain> {
    let assessment = checked.assessment;
    let mentioned = |id: &InstanceId| {
        assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(id))
    };
    let has_none = |id: &InstanceId| {
        let itself = checked.instances.iter().find(|instance| instance.id() == *id);
        itself.is_some_and(|instance| {
            instance.mechanism == Mechanism::None && !chain::is_amm(instance)
        })
    };
    assessment
        .chains
        .iter()
        .filter(move |chain| !mentioned(&chain.instance) && !has_none(&chain.instance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageReport;
    use crate::samples;

    fn cell(name: &str, version: &str) -> String {
        let mut instance = samples::prod().instances.remove(0);
        (instance.name, instance.version) = (name.into(), Observed::Known(version.into()));
        instance_title_cell(&instance).text
    }

    #[test]
    fn a_version_is_in_parentheses_where_it_could_be_taken_for_a_part_of_the_name() {
        assert_eq!(cell("PROD", "19.22.0"), "oracle PROD 19.22.0");
        assert_eq!(cell("5433", "15"), "oracle 5433 (15)");
        assert_eq!(cell("PROD2", "19c"), "oracle PROD2 19c");
        assert_eq!(cell("15/main", "15"), "oracle 15/main");
    }

    /// A host on which so many servers of PostgreSQL's do not run: the boot starts every other one.
    fn with_asleep(count: usize) -> samples::Sample {
        let mut sample = samples::prod();
        let one = sample.instances[1].clone();
        sample.instances.extend((0..count).map(|at| {
            let why = format!("start.conf (/etc/postgresql/15/n{at}/start.conf)");
            let at_boot = if at % 2 == 0 { AtBoot::No(why) } else { AtBoot::Yes(why) };
            let known_by = format!("/etc/postgresql/15/n{at}/postgresql.conf");
            Instance {
                name: format!("15/n{at}"),
                pid: 0,
                pids: Vec::new(),
                segments: Vec::new(),
                huge_pages: HugePageUse::Unknown,
                page_tables: Observed::Absent,
                sessions: Observed::Absent,
                stopped: Some(hugewise_model::StoppedInstance::new(known_by, at_boot)),
                ..one.clone()
            }
        }));
        sample.assessment.situation =
            hugewise_diagnose::prediction::predict_host(&sample.host, &sample.instances);
        sample
    }

    #[test]
    fn those_that_do_not_run_have_rows_behind_those_that_do() {
        let text = with_asleep(2).text(100);
        let row = |name: &str| {
            text.lines().position(|line| line.starts_with(&format!("postgresql {name} "))).unwrap()
        };
        assert!(row("15/main") < row("15/n1") && row("15/n1") < row("15/n0"), "{text}");
        let words: Vec<&str> = text.lines().nth(row("15/n0")).unwrap().split_whitespace().collect();
        assert_eq!((words[3], words[5]), ("down", "-"), "{text}");
        assert!(
            text.contains("postgresql 15/n1: not running; the boot starts it: start.conf"),
            "{text}"
        );
        assert!(
            text.contains("postgresql 15/n0: not running; the boot does not start it: start.conf"),
            "{text}"
        );
    }

    #[test]
    fn fifty_that_do_not_run_do_not_drown_the_table() {
        let (few, many) = (with_asleep(5).text(100), with_asleep(50).text(100));
        assert!(many.lines().count() <= few.lines().count() + 2, "{many}");
        assert!(
            many.contains("45 more: not running; the boot probably starts 20 of them"),
            "{many}"
        );
        assert_eq!(with_asleep(50).json()["instances"].as_array().unwrap().len(), 52);
    }

    #[test]
    fn json_says_what_runs_and_what_the_boot_starts() {
        let json = with_asleep(1).json();
        let all = json["instances"].as_array().unwrap();
        assert_eq!(
            (&all[0]["running"], &all[0]["asleep"]),
            (&true.into(), &serde_json::Value::Null)
        );
        let down = all.iter().find(|json| json["running"] == false).unwrap();
        assert_eq!((&down["asleep"]["at_boot"], &down["pid"]), (&"no".into(), &0.into()));
        assert_eq!(down["asleep"]["known_by"], "/etc/postgresql/15/n0/postgresql.conf");
        let states = ["now", "reboot"].map(|moment| down["moments"][moment]["state"].clone());
        assert_eq!(states, ["not_running", "not_running"]);
    }

    #[test]
    fn what_is_on_transparent_huge_pages_is_said_below_the_table_in_text_and_on_the_page() {
        let mut sample = samples::prod();
        sample.instances[0].transparent = Observed::Known(Bytes::from_mib(1740));
        sample.instances[0].segments.truncate(1);
        sample.instances[0].segments[0].size = Bytes::from_mib(2252);
        let said = "oracle PROD: at least 1.7 of 2.2 GiB is on transparent huge pages";
        assert!(sample.text(80).contains(said), "{}", sample.text(80));
        assert!(sample.text(100).contains(said));
        let mut page = Vec::new();
        sample.checked().write_html(&mut page).unwrap();
        assert!(
            String::from_utf8(page)
                .unwrap()
                .contains("at least 1.7 of 2.2 GiB is on transparent huge pages")
        );
        assert_eq!(sample.json()["instances"][0]["transparent_bytes"], 1740_u64 << 20);
        assert_eq!(sample.json()["instances"][1]["reasons"]["transparent_bytes"], "absent");
    }
}
