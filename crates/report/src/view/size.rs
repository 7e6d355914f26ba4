//! What `hugewise size` says: pages for each server, pools, what is left, what else is needed.

use hugewise_advice::forecast::Basis;
use hugewise_advice::situation::Moment;
use hugewise_advice::sizing::{ForecastRow, LimitNeed, PoolTarget, Refusal, Sized, Sizing};
use hugewise_advice::touching::duration;
use hugewise_engines::Kind;
use hugewise_model::{Bytes, DemandSource, Instance, PageCount, PageSize};

use crate::SizeReport;
use crate::palette::Role;
use crate::screen::Spans;
use crate::table::{Cell, Column};

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

/// Columns of the servers.
pub(crate) const INSTANCES: [Column; 6] = [
    Column { heading: "instance", short: "instance", right: false, least: Some(12) },
    column("pages", true),
    column("of", true),
    column("memory", true),
    Column { heading: "found by", short: "found by", right: false, least: Some(9) },
    Column { heading: "asks for them", short: "asks", right: false, least: None },
];

/// A row a server and page size.
pub(crate) fn instance_rows(sizing: &Sizing) -> Vec<Vec<Cell>> {
    let rows = sizing.instances.iter().flat_map(|sized| {
        let asks = match sized.asks {
            Some(true) => Cell::new(Role::Good, "yes"),
            Some(false) => Cell::new(Role::Warn, "NO"),
            None => Cell::new(Role::Warn, "unknown"),
        };
        let row = |name: String, pages: PageCount, page: PageSize, found: DemandSource, asks| {
            let memory = pages.of(page);
            vec![Cell::new(Role::Strong, name), text(pages), text(page), text(memory), text(source(found, pages)), asks]
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

/// Servers that are sized for their next start and not as they run.
pub(crate) fn next_start_notes(report: &SizeReport<'_>) -> Vec<(String, &'static str)> {
    let next = report.sizing.instances.iter().filter(|sized| sized.moment == Moment::Restart && sized.change.is_none());
    let asleep = |sized: &Sized| {
        let itself = report.instances.iter().find(|it| it.engine == sized.engine && it.name == sized.name);
        itself.is_some_and(Instance::is_asleep)
    };
    let changed = "its settings have changed since it started: these figures are for its memory after a restart";
    let down = "it is not running: this is what its files ask for";
    let about = "it is not running: this is what its files ask for, plus the margin of error of the estimate";
    let of_asleep = |sized: &Sized| if is_exact(sized) { down } else { about };
    next.map(|sized| (sized.title(), if asleep(sized) { of_asleep(sized) } else { changed })).collect()
}

fn is_exact(sized: &Sized) -> bool {
    sized.source.error_percent(sized.demand_pages).unwrap_or_default() == 0
}

fn source(source: DemandSource, pages: PageCount) -> String {
    match (source, source.error_percent(pages)) {
        (DemandSource::Engine, _) => "the server's word".into(),
        (DemandSource::Measured, _) => "its mappings".into(),
        (_, None | Some(0)) => "calculated, exact".into(),
        (_, Some(percent)) => format!("estimate, {percent} % off at most"),
    }
}

/// Columns of the pools.
pub(crate) const POOLS: [Column; 8] = [
    Column { heading: "pool of", short: "pool", right: true, least: None },
    column("node", true),
    column("pages", true),
    Column { heading: "of these, spare", short: "spare", right: true, least: None },
    Column { heading: "held by others", short: "others", right: true, least: None },
    column("now", true),
    column("memory", true),
    Column { heading: "room for them now", short: "room now", right: false, least: None },
];

/// What is changed before a server can have its pages.
pub(crate) struct ChangeShown {
    pub(crate) title: String,
    pub(crate) what: String,
    /// In their order, each with its lines.
    pub(crate) steps: Vec<Vec<String>>,
    /// Settings with their values, and where those come from.
    pub(crate) because: Vec<(String, String)>,
}

/// The changes that are sized with, each as one outage.
pub(crate) fn changes(report: &SizeReport<'_>) -> Vec<ChangeShown> {
    let of = |sized: &Sized| {
        let change = sized.change.as_ref()?;
        let lines = change.lines.iter().map(|line| line.trim_start_matches("# ").to_owned()).collect();
        let itself = report.instances.iter().find(|it| it.engine == sized.engine && it.name == sized.name)?;
        let starter = Kind::of(itself.engine).starter.as_ref();
        let start = starter.map_or_else(|| vec!["restart it".to_owned()], |starter| (starter.how)(report.host, itself));
        let steps = vec![
            lines,
            vec!["sudo hugewise plan, then sudo hugewise apply: its pages and its limits".to_owned()],
            start.iter().map(|line| line.trim_start_matches("# ").to_owned()).collect(),
            vec!["sudo hugewise verify".to_owned()],
        ];
        let because = change.settings.iter().map(|one| (format!("{}={}", one.name, one.value), one.because.clone()));
        Some(ChangeShown {
            title: sized.title(),
            what: format!(" cannot use huge pages under {}. To take it off, in one outage:", change.instead_of),
            steps,
            because: because.collect(),
        })
    };
    report.sizing.instances.iter().filter_map(of).collect()
}

/// What a plan leaves in a pool beyond what is needed.
pub(crate) fn kept_notes(report: &SizeReport<'_>) -> Vec<String> {
    let wanted = |page| report.sizing.pools.iter().filter(|pool| pool.page_size == page).map(|pool| pool.pages).sum();
    let beyond = report.planned.iter().filter_map(|goal| {
        let page = goal.page_size;
        let needed: PageCount = wanted(page);
        if goal.goal > goal.now && goal.goal > needed && needed > PageCount::ZERO {
            let all = goal.goal;
            return Some(format!(
                "the pool of {page} is filled up to the {} that its boot files ask for",
                all.in_pages()
            ));
        }
        if needed > goal.goal && report.sizing.instances.iter().any(|sized| sized.change.is_some()) {
            let now = goal.goal.in_pages();
            return Some(format!(
                "the pool of {page} stays at {now} until the settings are changed: hugewise plan follows them"
            ));
        }
        let left = report.shrunk.iter().find(|shrunk| shrunk.page_size == page)?;
        let spare = goal.goal.saturating_sub(left.goal);
        let stays = spare > PageCount::ZERO && goal.goal == goal.now;
        stays.then(|| {
            format!(
                "the pool of {page} keeps its {}: hugewise plan --shrink gives back up to {spare}",
                goal.goal.in_pages()
            )
        })
    });
    beyond.collect()
}

/// A row a pool.
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
                Some(false) => Cell::new(Role::Warn, "not now; after a boot"),
                None => Cell::new(Role::Quiet, "?"),
            },
        ]
    });
    rows.collect()
}

/// Columns of the page sizes beside each other.
pub(crate) const CHOICES: [Column; 6] = [
    Column { heading: "page size", short: "page size", right: true, least: None },
    column("pages", true),
    Column { heading: "lost to rounding", short: "rounding", right: true, least: None },
    Column { heading: "page tables, at most", short: "tables", right: true, least: None },
    Column { heading: "TLB reach", short: "TLB reach", right: true, least: None },
    column("plan", false),
];

/// A row a page size.
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

/// Columns of the forecast: with what a login waits for, where that is known, and otherwise with what sessions spend on touching
/// memory as they come to use it.
pub(crate) fn forecast_columns(sizing: &Sizing) -> [Column; 5] {
    let touching = if waits(sizing) { "a login" } else { "touching" };
    ["sessions", "pages of", "page tables", touching, "memory left"].map(|heading| column(heading, true))
}

/// Whether logins wait until memory is touched.
fn waits(sizing: &Sizing) -> bool {
    sizing.forecast.iter().any(|row| row.login_seconds.is_some())
}

/// What the times of the forecast are made of.
pub(crate) fn touching_note(sizing: &Sizing) -> Option<String> {
    sizing.forecast.iter().find_map(|row| row.touching_seconds)?;
    let waits = sizing.instances.iter().find_map(|sized| Some((sized, sized.touches_all.as_ref()?)));
    let machine = "estimated from a machine with 2 processors; `hugewise lab logins` measures it here";
    Some(match waits {
        Some((sized, setting)) => format!(
            "A login: {setting} makes each process of {} touch all of its memory before anything else; {machine}.",
            sized.title()
        ),
        None => format!("Touching: the time one session spends on touching memory for the first time; {machine}."),
    })
}

/// What a reader of the forecast has to know of numbers that rest on a few sessions.
pub(crate) fn few_note(sizing: &Sizing) -> Option<String> {
    let rows = sizing.forecast.iter().filter(|row| !row.basis.is_broad() && row.page_tables_most > row.page_tables);
    let row = rows.max_by_key(|row| row.sessions)?;
    let Basis::Measured(few) = row.basis else { return None };
    Some(format!(
        "On pages of {}, the forecast is based on {} that {} now; if {} touched all of the memory, it would be {}.",
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
        "On pages of {page_size}, sessions that map a segment at one address share tables: {} of them then have \
         {page_tables_least}. {page_tables} is the average if the kernel chooses each address.",
        PageCount(*sessions)
    ))
}

/// A row a number of sessions and page size.
pub(crate) fn forecast_rows(sizing: &Sizing) -> Vec<Vec<Cell>> {
    let mut before = None;
    let waits = waits(sizing);
    let rows = sizing.forecast.iter().map(|row| {
        let again = before.replace(row.sessions) == Some(row.sessions);
        let most = if row.configured_max { "max " } else { "" };
        let sessions = if again { String::new() } else { format!("{most}{}", PageCount(row.sessions)) };
        let left = match row.memory_left {
            Some(Bytes::ZERO) => Cell::new(Role::Error, "none"),
            left => maybe(left),
        };
        let seconds = if waits { row.login_seconds } else { row.touching_seconds };
        vec![
            Cell::new(Role::Strong, sessions),
            text(row.page_size),
            text(row.page_tables),
            seconds.map_or_else(|| Cell::new(Role::Quiet, "-"), |seconds| text(duration(seconds))),
            left,
        ]
    });
    rows.collect()
}

/// The kernel's defaults for System V memory are a little below 2^64, which is no limit.
const NO_LIMIT: Bytes = Bytes(1 << 60);

/// The limit that is no amount.
const GROUP: &str = "hugetlb_shm_group";

/// The limits that matter, a line each; then those that the kernel does not check, by the reason.
pub(crate) fn limit_lines(sizing: &Sizing) -> Vec<Spans> {
    let mut said = Vec::new();
    let limits = &sizing.limits;
    let memory = |bytes: Bytes| if bytes >= NO_LIMIT { "unlimited".into() } else { bytes.to_string() };
    let pages = |pages: u64| {
        if Bytes(pages) >= NO_LIMIT { "unlimited".into() } else { PageCount(pages).in_pages() }
    };
    let group = |group: u32| format!("group {group}");
    let lines = [
        line("memlock", &limits.memlock, memory),
        line("shmmax", &limits.shmmax, memory),
        line("shmall", &limits.shmall_pages, pages),
        line(GROUP, &limits.hugetlb_shm_group, group),
        line("CommitLimit", &limits.commit_limit, memory),
    ];
    let mut unchecked: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for limit in &lines {
        let why = match limit.checked {
            Some(false) => Some("not checked  "),
            None if limit.needed.is_none() => Some("maybe not checked  "),
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
            // A group is the right one or not.
            Some(true) if limit.name == GROUP => (Role::Good, "right"),
            Some(false) if limit.name == GROUP => (Role::Error, "WRONG"),
            Some(true) => (Role::Good, "enough"),
            Some(false) => (Role::Error, "NOT enough"),
            None => (Role::Quiet, "unknown whether that is enough"),
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

/// `1 session`, `1,000 sessions`.
pub(crate) fn sessions_of(number: u64) -> String {
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
/// How much is missing where the pools do not fit.
pub(crate) fn shortage(refusal: &Refusal) -> String {
    format!("{} too little; all pools together can take {}", refusal.short, refusal.largest_pools)
}

/// What was wanted of each pool that does not fit, a line each.
pub(crate) fn wanted_lines(refusal: &Refusal) -> Vec<String> {
    let line = |pool: &PoolTarget| {
        let node = pool.node.map(|node| format!(" on node {node}")).unwrap_or_default();
        let most = refusal.most_pages(pool.page_size);
        format!("wanted {}{node}; at most {most} if this were the only pool", pool.pages.in_pages_of(pool.page_size))
    };
    refusal.wanted.iter().map(line).collect()
}

/// The host that memory was given for, in words.
pub(crate) fn planned_host(memory: Bytes) -> String {
    format!("a host with {memory} of memory and the kernel and processor of this one")
}

#[cfg(test)]
mod tests {
    /// What is beyond the sum of the pools as sized may still be held or awaited by others: what --shrink would leave counts.
    #[test]
    fn what_shrink_gives_back_is_what_its_plan_would_give_back() {
        use hugewise_advice::target::Goal;

        use crate::samples;

        let goal = |pages| Goal {
            page_size: super::PageSize::MIB_2,
            now: super::PageCount(20_000),
            surplus: super::PageCount(0),
            goal: super::PageCount(pages),
            nodes: Vec::new(),
            needed: super::PageCount(0),
            kept: None,
            not_now: None,
            crowds: false,
        };
        samples::prod().sized(None, |report| {
            for (left, said) in [(19_990, Some("gives back up to 10")), (20_000, None)] {
                let report = crate::SizeReport { planned: &[goal(20_000)], shrunk: &[goal(left)], ..*report };
                let notes = super::kept_notes(&report);
                assert_eq!(notes.len(), usize::from(said.is_some()), "{notes:?}");
                assert!(said.is_none_or(|said| notes.concat().contains(said)), "{notes:?}");
            }
        });
    }
}
