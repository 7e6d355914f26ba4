//! The table of instances.

use std::collections::BTreeSet;

use hugewise_advice::chain;
use hugewise_advice::forecast::per_session;
use hugewise_advice::situation::Moment;
use hugewise_advice::standing::Standing;
use hugewise_advice::stranger;
use hugewise_engines::Kind;
use hugewise_model::instance::{Mechanism, SessionModel};
use hugewise_model::{AtBoot, Bytes, Chain, Engine, HugePageUse, Instance, InstanceId, Observed};

use super::{apart, shown, standing as roles};
use crate::Checked;
use crate::palette::Role;
use crate::plain::clean;
use crate::table::{Cell, Column};

/// The columns of the table.
pub(crate) const COLUMNS: [Column; 8] = [
    Column { heading: "instance", short: "instance", right: false, least: Some(12) },
    Column { heading: "now", short: "now", right: false, least: None },
    Column { heading: "restart", short: "restart", right: false, least: None },
    Column { heading: "reboot", short: "reboot", right: false, least: None },
    Column { heading: "sessions", short: "sess.", right: true, least: None },
    Column { heading: "segments", short: "segments", right: true, least: None },
    Column { heading: "page tables", short: "tables", right: true, least: None },
    Column { heading: "a session", short: "session", right: true, least: None },
];

/// The columns that a narrow terminal does without, the first of them first.
pub(crate) const GIVE_WAY: [usize; 4] = [7, 4, 6, 5];

/// What there is to say of instances below their table, each with its title.
pub(crate) fn notes(checked: &Checked<'_>) -> Vec<(String, String)> {
    let transparent = checked.instances.iter().filter_map(|one| Some((one.title(), on_transparent(one)?)));
    let unvouched: Vec<&Instance> = checked.instances.iter().filter(|instance| !instance.is_vouched()).collect();
    let named = unvouched.iter().take(MOST_UNVOUCHED).map(|instance| {
        let how = format!("{}; to plan for it, name it: {}", stranger::why(instance), stranger::plan_for(instance));
        (instance.title(), how)
    });
    let more = unvouched.len().checked_sub(MOST_UNVOUCHED).filter(|more| *more > 0);
    let more = more.map(|more| (format!("{more} more"), "hugewise has no reason to trust them".to_owned()));
    let apart = apart::notes(checked.host, checked.instances).into_iter();
    apart.chain(transparent).chain(on_asleep(checked)).chain(named).chain(more).collect()
}

/// How many that nothing vouches for are named one by one: anybody can start as many as he likes.
const MOST_UNVOUCHED: usize = 3;

/// `1.7 of 2.2 GiB on transparent huge pages`; nothing where none of it is known to be.
pub(crate) fn on_transparent(instance: &Instance) -> Option<String> {
    let transparent = instance.transparent.get().filter(|bytes| *bytes > Bytes::ZERO)?;
    let (part, whole) = (transparent.to_string(), instance.segment_bytes().to_string());
    let part = match (part.split_once(' '), whole.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
        _ => part,
    };
    Some(format!("at least {part} of {whole} is on transparent huge pages"))
}

/// The table's rows, an instance a row.
pub(crate) fn rows(checked: &Checked<'_>) -> Vec<Vec<Cell>> {
    let running = checked.instances.iter().filter(|instance| !instance.is_asleep());
    running.chain(asleep(checked).into_iter().take(MOST_ASLEEP)).map(|instance| row(checked, instance)).collect()
}

/// How many that do not run have rows and words of their own.
const MOST_ASLEEP: usize = 5;

/// Those that belong to the host and do not run, those first that the boot starts.
fn asleep<'a>(checked: &Checked<'a>) -> Vec<&'a Instance> {
    let mut asleep: Vec<&Instance> = checked.instances.iter().filter(|instance| instance.is_asleep()).collect();
    asleep.sort_by_key(|instance| instance.waits_for_hands());
    asleep
}

/// What there is to say of those that do not run: whether the boot starts them, and what says so.
fn on_asleep(checked: &Checked<'_>) -> Vec<(String, String)> {
    let asleep = asleep(checked);
    let mut notes: Vec<(String, String)> = asleep.iter().take(MOST_ASLEEP).filter_map(|it| on_one(it)).collect();
    if let Some(more) = asleep.len().checked_sub(MOST_ASLEEP).filter(|more| *more > 0) {
        let at_boot = asleep.iter().skip(MOST_ASLEEP).filter(|it| !it.waits_for_hands()).count();
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
    let asleep = instance.asleep.as_ref()?;
    let boot = match &asleep.at_boot {
        AtBoot::Yes(why) => format!("the boot starts it: {why}"),
        AtBoot::No(why) => format!("the boot does not start it: {why}"),
        AtBoot::Unknown(why) => why.clone(),
    };
    Some((instance.title(), format!("not running; {boot}")))
}

fn row(checked: &Checked<'_>, instance: &Instance) -> Vec<Cell> {
    let moments = checked.assessment.situation.of(instance);
    let at = |moment: Moment| match moments {
        Some(moments) => outlook(&moments.at(moment).standing),
        None => Cell::new(Role::Quiet, "?"),
    };
    vec![
        title(instance),
        if instance.is_asleep() { Cell::new(Role::Quiet, "down") } else { at(Moment::Now) },
        at(Moment::Restart),
        at(Moment::Boot),
        Cell::new(Role::Text, shown(&instance.sessions)),
        Cell::new(Role::Text, segments(instance)),
        Cell::new(Role::Text, shown(&instance.page_tables)),
        Cell::new(Role::Text, shown(&a_session(checked, instance))),
    ]
}

/// `oracle PROD 19.22.0`, `postgresql 5433 (15)`; without the version where there is no place for it.
fn title(instance: &Instance) -> Cell {
    let title = instance.title();
    let version = instance.version.known().filter(|version| !instance.name.starts_with(version.as_str()));
    let Some(version) = version else { return Cell::new(Role::Strong, title) };
    // A number behind a number would be taken for a part of the name.
    let is_number = instance.name.rsplit(' ').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    let whole = if is_number { format!("{title} ({version})") } else { format!("{title} {version}") };
    Cell { brief: Some(clean(&title).into_owned()), ..Cell::new(Role::Strong, whole) }
}

/// A moment in one word.
fn outlook(standing: &Standing) -> Cell {
    Cell::new(roles::role(standing), standing.in_a_word())
}

fn segments(instance: &Instance) -> String {
    match (instance.segments.is_empty(), instance.huge_pages) {
        _ if instance.is_asleep() => "-".into(),
        (true, HugePageUse::Unknown) => "?".into(),
        (true, _) => "-".into(),
        (false, _) => instance.segment_bytes().to_string(),
    }
}

/// Page tables of one more session, as the forecast reckons them. Sessions that are threads
/// share the one set of page tables and cost none of their own.
fn a_session(checked: &Checked<'_>, instance: &Instance) -> Observed<Bytes> {
    match instance.session_model {
        SessionModel::Threads => Observed::Absent,
        SessionModel::Processes => {
            instance.page_tables.clone().and_then(|_| Observed::from(per_session(checked.host, instance)))
        }
    }
}

/// What people call those kinds of servers here that were never tried on a real server, each once.
pub(crate) fn untried<'a>(checked: &Checked<'a>) -> impl Iterator<Item = &'static str> + use<'a> {
    let engines: BTreeSet<Engine> = checked.instances.iter().map(|instance| instance.engine).collect();
    let untried = |engine: Engine| (!Kind::of(engine).tried).then(|| Kind::of(engine).name_of(engine));
    // What no engine knows has no vendor.
    engines.into_iter().filter(|engine| *engine != Engine::Other).filter_map(untried)
}

/// Chains of instances that no finding names. An engine that cannot use huge pages from a pool has nothing broken.
pub(crate) fn unmentioned<'a>(checked: &'a Checked<'_>) -> impl Iterator<Item = &'a Chain> {
    let assessment = checked.assessment;
    let mentioned = |id: &InstanceId| assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(id));
    let has_none = |id: &InstanceId| {
        let itself = checked.instances.iter().find(|instance| instance.id() == *id);
        itself.is_some_and(|it| it.mechanism == Mechanism::None && !chain::is_amm(it))
    };
    assessment.chains.iter().filter(move |chain| !mentioned(&chain.instance) && !has_none(&chain.instance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn cell(name: &str, version: &str) -> String {
        let mut instance = samples::prod().instances.remove(0);
        (instance.name, instance.version) = (name.into(), Observed::Known(version.into()));
        title(&instance).text
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
                asleep: Some(hugewise_model::Asleep::new(known_by, at_boot)),
                ..one.clone()
            }
        }));
        sample.assessment.situation = hugewise_advice::situation::situation(&sample.host, &sample.instances);
        sample
    }

    #[test]
    fn those_that_do_not_run_have_rows_behind_those_that_do() {
        let text = with_asleep(2).text(100);
        let row = |name: &str| text.lines().position(|line| line.starts_with(&format!("postgresql {name} "))).unwrap();
        assert!(row("15/main") < row("15/n1") && row("15/n1") < row("15/n0"), "{text}");
        let words: Vec<&str> = text.lines().nth(row("15/n0")).unwrap().split_whitespace().collect();
        assert_eq!((words[3], words[5]), ("down", "-"), "{text}");
        assert!(text.contains("postgresql 15/n1: not running; the boot starts it: start.conf"), "{text}");
        assert!(text.contains("postgresql 15/n0: not running; the boot does not start it: start.conf"), "{text}");
    }

    #[test]
    fn fifty_that_do_not_run_do_not_drown_the_table() {
        let (few, many) = (with_asleep(5).text(100), with_asleep(50).text(100));
        assert!(many.lines().count() <= few.lines().count() + 2, "{many}");
        assert!(many.contains("45 more: not running; the boot probably starts 20 of them"), "{many}");
        assert_eq!(with_asleep(50).json()["instances"].as_array().unwrap().len(), 52);
    }

    #[test]
    fn json_says_what_runs_and_what_the_boot_starts() {
        let json = with_asleep(1).json();
        let all = json["instances"].as_array().unwrap();
        assert_eq!((&all[0]["running"], &all[0]["asleep"]), (&true.into(), &serde_json::Value::Null));
        let down = all.iter().find(|it| it["running"] == false).unwrap();
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
        assert!(String::from_utf8(page).unwrap().contains("at least 1.7 of 2.2 GiB is on transparent huge pages"));
        assert_eq!(sample.json()["instances"][0]["transparent_bytes"], 1740_u64 << 20);
        assert_eq!(sample.json()["instances"][1]["reasons"]["transparent_bytes"], "absent");
    }
}
