//! What `hugewise size` says: pages for each server, pools, what is left, what else is needed.

use std::io;

use hugewise_advice::forecast::Basis;
use hugewise_advice::situation::Moment;
use hugewise_advice::sizing::{Budget, ForecastRow, LimitNeed, PoolTarget, Refusal, Sizing};
use hugewise_model::{Bytes, DemandSource, PageCount, PageSize};

use super::{apart, closing, host};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, Cell, Column};
use crate::{Layout, SizeReport};

pub(crate) fn write(report: &SizeReport<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    let sizing = report.sizing;
    match report.request.memory {
        Some(memory) => {
            let text = format!("a host with {memory} of memory, its kernel and processor as here");
            screen.flow(2, &Spans::new().add(Role::Strong, "planned for  ").add(Role::Text, &text))?;
        }
        None => host::write(screen, report.host)?,
    }
    screen.blank()?;
    instances(screen, sizing)?;
    apart::write(screen, report.host, report.instances)?;
    screen.blank()?;
    if let Some(refusal) = &sizing.refusal {
        refused(screen, refusal)?;
    } else {
        pools(screen, &sizing.pools)?;
        for note in kept_notes(report) {
            screen.flow(4, &Spans::new().add(Role::Quiet, "  ").add(Role::Text, &note))?;
        }
    }
    screen.blank()?;
    budget(screen, &sizing.budget)?;
    screen.blank()?;
    choices(screen, sizing)?;
    screen.blank()?;
    forecast(screen, sizing)?;
    screen.blank()?;
    limits(screen, sizing)?;
    screen.blank()?;
    let read = if report.unread.is_empty() { "Everything was read." } else { "" };
    closing::end(screen, Spans::from(read), report.host, report.unread, false)
}

const fn column(heading: &'static str, right: bool) -> Column {
    Column { heading, short: heading, right, least: None }
}

fn text(text: impl std::fmt::Display) -> Cell {
    Cell::new(Role::Text, text.to_string())
}

/// A value, or `?` where it is not known.
fn maybe(value: Option<impl std::fmt::Display>) -> Cell {
    value.map_or_else(|| Cell::new(Role::Quiet, "?"), text)
}

pub(crate) const INSTANCES: [Column; 6] = [
    Column { heading: "instance", short: "instance", right: false, least: Some(12) },
    column("pages", true),
    column("of", true),
    column("memory", true),
    Column { heading: "found by", short: "found by", right: false, least: Some(9) },
    Column { heading: "asks for them", short: "asks", right: false, least: None },
];

pub(crate) fn instance_rows(sizing: &Sizing) -> Vec<Vec<Cell>> {
    let rows = sizing.instances.iter().flat_map(|sized| {
        let asks = match sized.asks {
            Some(true) => Cell::new(Role::Good, "yes"),
            Some(false) => Cell::new(Role::Warn, "NO"),
            None => Cell::new(Role::Warn, "unknown"),
        };
        let row = |name: String, pages: PageCount, page: PageSize, found, asks| {
            let memory = pages.of(page);
            vec![Cell::new(Role::Strong, name), text(pages), text(page), text(memory), text(source(found)), asks]
        };
        let first = row(sized.title(), sized.demand_pages, sized.page_size, sized.source, asks);
        let beside = sized.beside.iter().map(|demand| {
            let asks = Cell::new(Role::Text, "");
            row(String::new(), demand.pages, demand.page_size, demand.source, asks)
        });
        std::iter::once(first).chain(beside.collect::<Vec<_>>())
    });
    rows.collect()
}

fn instances(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    table::write(screen, &INSTANCES, &instance_rows(sizing))?;
    for sized in &sizing.instances {
        if let Some(why) = &sized.asks_unread {
            let line = Spans::new().add(Role::Quiet, "not read  ").add(Role::Strong, &sized.title());
            screen.flow(10, &line.add(Role::Text, &format!(": {why}; whether it asks is not known")))?;
        }
    }
    for (title, text) in next_start_notes(sizing) {
        let line = Spans::new().add(Role::Quiet, "next start ").add(Role::Strong, &title);
        screen.flow(10, &line.add(Role::Text, &format!(": {text}")))?;
    }
    for left in &sizing.left_out {
        let line = Spans::new().add(Role::Quiet, "left out  ").add(Role::Strong, &left.instance.to_string());
        screen.flow(10, &line.add(Role::Text, &format!(": {}", left.why)))?;
    }
    Ok(())
}

/// Servers that are sized for their next start and not as they run.
pub(crate) fn next_start_notes(sizing: &Sizing) -> Vec<(String, &'static str)> {
    let next = sizing.instances.iter().filter(|sized| sized.moment == Moment::Restart);
    let text = "its settings were changed since it started: all of this is of its memory as they make it";
    next.map(|sized| (sized.title(), text)).collect()
}

fn source(source: DemandSource) -> String {
    match source {
        DemandSource::Engine => "the server's word".into(),
        DemandSource::Measured => "its mappings".into(),
        DemandSource::Estimated { error_percent: 0 } => "reckoned, exact".into(),
        DemandSource::Estimated { error_percent } => format!("estimate, {error_percent} % off at most"),
    }
}

pub(crate) const POOLS: [Column; 8] = [
    Column { heading: "pool of", short: "pool", right: true, least: None },
    column("node", true),
    column("pages", true),
    Column { heading: "of these to spare", short: "spare", right: true, least: None },
    Column { heading: "held by others", short: "others", right: true, least: None },
    column("now", true),
    column("memory", true),
    Column { heading: "room for them now", short: "room now", right: false, least: None },
];

/// What a plan leaves in a pool beyond what is needed.
pub(crate) fn kept_notes(report: &SizeReport<'_>) -> Vec<String> {
    let beyond = report.planned.iter().filter_map(|goal| {
        let page = goal.page_size;
        let left = report.shrunk.iter().find(|shrunk| shrunk.page_size == page)?;
        let spare = goal.goal.saturating_sub(left.goal);
        let stays = spare > PageCount::ZERO && goal.goal == goal.now;
        stays.then(|| {
            format!(
                "the pool of {page} keeps its {} pages: hugewise plan --shrink looks for {spare} to give back",
                goal.goal
            )
        })
    });
    beyond.collect()
}

fn pools(screen: &mut Screen<'_>, pools: &[PoolTarget]) -> io::Result<()> {
    table::write(screen, &POOLS, &pool_rows(pools))
}

pub(crate) fn pool_rows(pools: &[PoolTarget]) -> Vec<Vec<Cell>> {
    let rows = pools.iter().map(|pool| {
        vec![
            Cell::new(Role::Strong, pool.page_size.to_string()),
            text(pool.node.map_or_else(|| "-".to_owned(), |node| node.to_string())),
            Cell::new(Role::Strong, pool.pages.to_string()),
            text(pool.spare_pages),
            text(pool.held_by_others),
            maybe(pool.now),
            text(pool.pages.of(pool.page_size)),
            match pool.room_now {
                Some(true) => Cell::new(Role::Good, "yes"),
                Some(false) => Cell::new(Role::Warn, "no, soon after a boot"),
                None => Cell::new(Role::Quiet, "?"),
            },
        ]
    });
    rows.collect()
}

fn refused(screen: &mut Screen<'_>, refusal: &Refusal) -> io::Result<()> {
    let heading = Spans::new().add(Role::Error, "does not fit").add(
        Role::Text,
        &format!("  {} too little; all pools together can have {}", refusal.short, refusal.largest_pools),
    );
    screen.flow(14, &heading)?;
    for reason in &refusal.reasons {
        screen.flow(14, &Spans::from(format!("              {reason}").as_str()))?;
    }
    for pool in &refusal.wanted {
        let node = pool.node.map(|node| format!(" on node {node}")).unwrap_or_default();
        let most = refusal.most_pages(pool.page_size);
        let line =
            format!("wanted {} pages of {}{node}; at most {most}, were they the only pool", pool.pages, pool.page_size);
        screen.flow(14, &Spans::from(format!("              {line}").as_str()))?;
    }
    Ok(())
}

/// The parts of the memory: the first field says how much and at how many sessions.
pub(crate) fn budget_fields(budget: &Budget) -> Vec<Spans> {
    let total = budget.total.map_or_else(|| "?".into(), |total| total.to_string());
    let at = format!("at {}", sessions_of(budget.sessions));
    let mut fields =
        vec![Spans::new().add(Role::Strong, &format!("memory {total}")).add(Role::Text, &format!(" {at}:"))];
    let parts = [
        ("pools", Some(budget.pools)),
        ("sessions", budget.sessions_private),
        ("page tables", budget.page_tables),
        ("other processes", budget.others),
        ("kernel", budget.kernel),
        ("watermarks", budget.watermarks),
        ("kept for cache", Some(budget.floor)),
    ];
    for (name, amount) in parts {
        if let Some(amount) = amount {
            fields.push(Spans::new().add(Role::Quiet, name).add(Role::Text, &format!(" {amount}")));
        }
    }
    if budget.short > Bytes::ZERO {
        fields.push(Spans::new().add(Role::Error, &format!("missing {}", budget.short)));
    } else if let Some(left) = budget.left {
        fields.push(Spans::new().add(Role::Strong, &format!("left {left}")));
    }
    fields
}

fn budget(screen: &mut Screen<'_>, budget: &Budget) -> io::Result<()> {
    screen.fields(2, &budget_fields(budget))?;
    if budget.unknown.is_empty() {
        return Ok(());
    }
    let unknown = Spans::new().add(Role::Quiet, "  not counted: ").add(Role::Text, &budget.unknown.join(", "));
    screen.flow(4, &unknown)
}

pub(crate) const CHOICES: [Column; 6] = [
    Column { heading: "all on pages of", short: "all on", right: true, least: None },
    column("pages", true),
    Column { heading: "lost to rounding", short: "rounding", right: true, least: None },
    Column { heading: "page tables at the most", short: "tables", right: true, least: None },
    Column { heading: "TLB reach", short: "TLB reach", right: true, least: None },
    column("plan", false),
];

pub(crate) fn choice_rows(sizing: &Sizing) -> Vec<Vec<Cell>> {
    let rows = sizing.choices.iter().map(|row| {
        vec![
            text(row.page_size),
            maybe(row.pages),
            maybe(row.waste),
            text(row.page_tables_at_max),
            maybe(row.tlb_reach),
            if row.chosen { Cell::new(Role::Good, "chosen") } else { Cell::new(Role::Quiet, "-") },
        ]
    });
    rows.collect()
}

fn choices(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    if sizing.choices.is_empty() {
        return Ok(());
    }
    let sessions = sizing.choices.iter().map(|row| row.sessions).max().unwrap_or_default();
    table::write(screen, &CHOICES, &choice_rows(sizing))?;
    let most = format!("  the most is {}", sessions_of(sessions));
    screen.flow(2, &Spans::new().add(Role::Quiet, &most))?;
    for row in sizing.choices.iter().filter(|row| !row.note.is_empty()) {
        let note = Spans::new().add(Role::Quiet, &format!("  {}: ", row.page_size)).add(Role::Text, &row.note);
        screen.flow(4, &note)?;
    }
    Ok(())
}

pub(crate) const FORECAST: [Column; 5] = [
    column("sessions", true),
    column("pages of", true),
    column("page tables", true),
    column("a log-in", true),
    column("memory left", true),
];

fn forecast(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    table::write(screen, &FORECAST, &forecast_rows(sizing))?;
    let notes = [few_note(sizing), forecast_note(sizing)];
    notes.iter().flatten().try_for_each(|note| screen.flow(4, &Spans::new().add(Role::Quiet, note)))
}

/// What a reader of the forecast has to know of numbers that rest on a few sessions.
pub(crate) fn few_note(sizing: &Sizing) -> Option<String> {
    let rows = sizing.forecast.iter().filter(|row| !row.basis.is_broad() && row.page_tables_most > row.page_tables);
    let row = rows.max_by_key(|row| row.sessions)?;
    let Basis::Measured(few) = row.basis else { return None };
    Some(format!(
        "On pages of {} the forecast rests on {} that {} now; were {} to touch all of the memory: {} at most.",
        row.page_size,
        sessions_of(few),
        if few == 1 { "runs" } else { "run" },
        sessions_of(row.sessions),
        row.page_tables_most
    ))
}

/// What a reader of the forecast has to know of pages whose tables sessions may share.
pub(crate) fn forecast_note(sizing: &Sizing) -> Option<String> {
    let apart = |row: &&ForecastRow| row.page_tables_least < row.page_tables;
    let row = sizing.forecast.iter().filter(apart).max_by_key(|row| row.sessions)?;
    let ForecastRow { page_size, page_tables, page_tables_least, sessions, .. } = row;
    Some(format!(
        "On pages of {page_size} sessions share tables where they map a segment at one address, forked or by their own \
         choice: then {} of them have {page_tables_least}. {page_tables} is the average of addresses that the kernel chooses.",
        PageCount(*sessions)
    ))
}

pub(crate) fn forecast_rows(sizing: &Sizing) -> Vec<Vec<Cell>> {
    let mut before = None;
    let rows = sizing.forecast.iter().map(|row| {
        let again = before.replace(row.sessions) == Some(row.sessions);
        let most = if row.configured_max { "max " } else { "" };
        let sessions = if again { String::new() } else { format!("{most}{}", PageCount(row.sessions)) };
        let left = match row.memory_left {
            Some(Bytes::ZERO) => Cell::new(Role::Error, "none"),
            left => maybe(left),
        };
        vec![
            Cell::new(Role::Strong, sessions),
            text(row.page_size),
            text(row.page_tables),
            row.login_seconds.map_or_else(|| Cell::new(Role::Quiet, "-"), |seconds| text(duration(seconds))),
            left,
        ]
    });
    rows.collect()
}

/// `1.4 s`, `21 ms`, `0.3 ms`.
fn duration(seconds: f64) -> String {
    match seconds * 1000.0 {
        thousandths if thousandths >= 1000.0 => format!("{seconds:.1} s"),
        thousandths if thousandths >= 10.0 => format!("{thousandths:.0} ms"),
        thousandths if thousandths >= 0.1 => format!("{thousandths:.1} ms"),
        _ => "< 0.1 ms".into(),
    }
}

/// The kernel's defaults for System V memory are a little below 2^64, which is no limit.
const NO_LIMIT: Bytes = Bytes(1 << 60);

/// The limits that matter, a line each; then those that the kernel does not check, by the reason.
pub(crate) fn limit_lines(sizing: &Sizing) -> Vec<Spans> {
    let mut said = Vec::new();
    let limits = &sizing.limits;
    let memory = |bytes: Bytes| if bytes >= NO_LIMIT { "unlimited".into() } else { bytes.to_string() };
    let pages = |pages: u64| {
        if Bytes(pages) >= NO_LIMIT { "unlimited".into() } else { format!("{} pages", PageCount(pages)) }
    };
    let group = |group: u32| format!("group {group}");
    let lines = [
        line("memlock", &limits.memlock, memory),
        line("shmmax", &limits.shmmax, memory),
        line("shmall", &limits.shmall_pages, pages),
        line("hugetlb_shm_group", &limits.hugetlb_shm_group, group),
        line("CommitLimit", &limits.commit_limit, memory),
    ];
    let mut unchecked: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for limit in &lines {
        let why = match limit.checked {
            Some(false) => Some("not checked  "),
            None if limit.needed.is_none() => Some("not known whether checked  "),
            _ => None,
        };
        if let Some(why) = why {
            match unchecked.iter_mut().find(|(_, evidence, _)| *evidence == limit.evidence) {
                Some((_, _, names)) => names.push(limit.name),
                None => unchecked.push((why, limit.evidence, vec![limit.name])),
            }
            continue;
        }
        let (role, verdict) = match limit.enough {
            Some(true) => (Role::Good, "enough"),
            Some(false) => (Role::Error, "NOT enough"),
            None => (Role::Quiet, "not known whether that is enough"),
        };
        let needed = limit.needed.as_deref().unwrap_or("?");
        let now = limit.now.as_deref().unwrap_or("?");
        let asks = if limit.checked.is_none() { ", perhaps not checked" } else { "" };
        let spans = Spans::new()
            .add(Role::Strong, limit.name)
            .add(Role::Text, &format!("  {needed} needed, {now} now: "))
            .add(role, verdict)
            .add(Role::Text, asks)
            .add(Role::Quiet, &format!(" ({})", limit.evidence));
        said.push(spans);
    }
    for (why, evidence, names) in unchecked {
        let spans = Spans::new().add(Role::Quiet, why).add(Role::Text, &names.join(", "));
        said.push(spans.add(Role::Quiet, &format!(" ({evidence})")));
    }
    said
}

fn limits(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    limit_lines(sizing).iter().try_for_each(|line| screen.flow(4, line))
}

/// `1 session`, `1,000 sessions`.
fn sessions_of(number: u64) -> String {
    format!("{} {}", PageCount(number), if number == 1 { "session" } else { "sessions" })
}

/// A limit in words.
struct LimitLine<'a> {
    name: &'static str,
    needed: Option<String>,
    now: Option<String>,
    enough: Option<bool>,
    checked: Option<bool>,
    evidence: &'a str,
}

fn line<'a, T: Copy>(name: &'static str, limit: &'a LimitNeed<T>, shown: impl Fn(T) -> String) -> LimitLine<'a> {
    LimitLine {
        name,
        needed: limit.needed.map(&shown),
        now: limit.now.map(&shown),
        enough: limit.enough,
        checked: limit.checked,
        evidence: &limit.evidence,
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;

    use crate::samples;
    use crate::screen::columns;

    #[test]
    fn two_servers_that_fit() {
        insta::assert_snapshot!(samples::prod().sized_text(None, 80));
    }

    #[test]
    fn a_host_that_is_too_small() {
        insta::assert_snapshot!(samples::prod().sized_text(Some(Bytes::from_gib(24)), 80));
    }

    #[test]
    fn log_ins_are_told_in_units_that_people_use() {
        let told = [0.000_01, 0.000_4, 0.021, 9.46].map(super::duration);
        assert_eq!(told, ["< 0.1 ms", "0.4 ms", "21 ms", "9.5 s"]);
    }

    #[test]
    fn hostile_names_reach_no_terminal_and_no_line_is_too_wide() {
        let text = samples::hostile().sized_text(None, 80);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'));
        for line in samples::prod().sized_text(None, 80).lines() {
            assert!(columns(line) <= 80, "{line}");
        }
    }

    /// What is beyond the sum of the pools as sized may still be held or awaited by others: what --shrink would leave counts.
    #[test]
    fn what_shrink_gives_back_is_what_its_plan_would_give_back() {
        use hugewise_advice::target::Goal;
        use hugewise_model::{PageCount, PageSize};

        let goal = |pages| Goal {
            page_size: PageSize::MIB_2,
            now: PageCount(20_000),
            surplus: PageCount(0),
            goal: PageCount(pages),
            nodes: Vec::new(),
            needed: PageCount(0),
            not_now: None,
            crowds: false,
        };
        samples::prod().sized(None, |report| {
            for (left, said) in [(19_990, Some("looks for 10 to give back")), (20_000, None)] {
                let report = crate::SizeReport { planned: &[goal(20_000)], shrunk: &[goal(left)], ..*report };
                let notes = super::kept_notes(&report);
                assert_eq!(notes.len(), usize::from(said.is_some()), "{notes:?}");
                assert!(said.is_none_or(|said| notes.concat().contains(said)), "{notes:?}");
            }
        });
    }
}
