//! What `hugewise size` says.

use hugewise_diagnose::fault_cost::render_duration;
use hugewise_diagnose::forecast::Basis;
use hugewise_diagnose::prediction::PredictionStage;
use hugewise_diagnose::sizing::{
    LimitNeed, PageTableForecastRow, PoolSizeTarget, SizedServer, Sizing, SizingRefusal,
};
use hugewise_engines::EngineKind;
use hugewise_model::{Bytes, DemandSource, Instance, PageCount, PageSize, group_thousands};

use super::describe_demand_source;
use crate::SizeReport;
use crate::palette::Role;
use crate::screen::Spans;
use crate::table::{TableCell, TableColumn};

pub(crate) const INSTANCES: [TableColumn; 6] = [
    TableColumn::left("instance").cut_to(12),
    TableColumn::right("pages"),
    TableColumn::right("of"),
    TableColumn::right("memory"),
    TableColumn::left("found by").cut_to(9),
    TableColumn::left("asks for them").short("asks"),
];

pub(crate) fn instance_rows(sizing: &Sizing) -> Vec<Vec<TableCell>> {
    let rows = sizing.instances.iter().flat_map(|sized| {
        let asks = match sized.asks {
            Some(true) => TableCell::new(Role::Good, "yes"),
            Some(false) => TableCell::new(Role::Warn, "NO"),
            None => TableCell::new(Role::Warn, "unknown"),
        };
        let row = |name: String, pages: PageCount, page: PageSize, found: DemandSource, asks| {
            let memory = pages.to_bytes(page);
            vec![
                TableCell::new(Role::Strong, name),
                TableCell::text(pages),
                TableCell::text(page),
                TableCell::text(memory),
                TableCell::text(describe_demand_source(
                    found,
                    found.error_percent(pages),
                    " off at most",
                )),
                asks,
            ]
        };
        let first = row(sized.title(), sized.demand_pages, sized.page_size, sized.source, asks);
        let beside = sized.beside.iter().map(|demand| {
            let asks = TableCell::new(Role::Text, "");
            row(String::new(), demand.pages, demand.page_size, demand.source, asks)
        });
        std::iter::once(first).chain(beside.collect::<Vec<_>>())
    });
    rows.collect()
}

/// Servers that are sized though a plan has no pages for them, and why it has none.
pub(crate) fn unplanned_notes(sizing: &Sizing) -> Vec<(String, String)> {
    let note = |sized: &SizedServer| {
        let why = sized.unplanned.as_ref()?.reason();
        Some((sized.title(), format!("{why}; plan --instance has pages for it")))
    };
    sizing.instances.iter().filter_map(note).collect()
}

/// Servers that are sized for their next start.
pub(crate) fn next_start_notes(report: &SizeReport<'_>) -> Vec<(String, &'static str)> {
    let next = report
        .sizing
        .instances
        .iter()
        .filter(|sized| sized.moment == PredictionStage::Restart && sized.change.is_none());
    let asleep = |sized: &SizedServer| report.instance_of(sized).is_some_and(Instance::is_stopped);
    let changed = "its settings have changed since it started: these figures are for its memory \
         after a restart";
    let down = "it is not running: this is what its files ask for";
    let about = "it is not running: this is what its files ask for, plus the margin of error of \
         the estimate";
    let of_asleep = |sized: &SizedServer| match sized.source.error_percent(sized.demand_pages) {
        None | Some(0) => down,
        Some(_) => about,
    };
    next.map(|sized| (sized.title(), if asleep(sized) { of_asleep(sized) } else { changed }))
        .collect()
}

pub(crate) const POOLS: [TableColumn; 8] = [
    TableColumn::right("pool of").short("pool"),
    TableColumn::right("node"),
    TableColumn::right("pages"),
    TableColumn::right("of these, spare").short("spare"),
    TableColumn::right("held by others").short("others"),
    TableColumn::right("now"),
    TableColumn::right("memory"),
    TableColumn::left("room for them now").short("room now"),
];

/// What is changed before a server can have its pages.
pub(crate) struct ChangeShown {
    pub(crate) title: String,
    pub(crate) what: String,
    /// In order, each with its lines.
    pub(crate) steps: Vec<Vec<String>>,
    /// Settings with their values, and where those come from.
    pub(crate) because: Vec<(String, String)>,
}

pub(crate) fn setting_changes(report: &SizeReport<'_>) -> Vec<ChangeShown> {
    let change_shown_of = |sized: &SizedServer| {
        let change = sized.change.as_ref()?;
        let lines =
            change.lines.iter().map(|line| line.trim_start_matches("# ").to_owned()).collect();
        let itself = report.instance_of(sized)?;
        let starter = EngineKind::for_engine(itself.engine).restart.starter.as_ref();
        let start = starter.map_or_else(
            || vec!["restart it".to_owned()],
            |starter| (starter.how)(report.host, itself),
        );
        let steps = vec![
            lines,
            vec![
                "sudo hugewise plan, then sudo hugewise apply: its pages and its limits".to_owned(),
            ],
            start.iter().map(|line| line.trim_start_matches("# ").to_owned()).collect(),
            vec!["sudo hugewise verify".to_owned()],
        ];
        let because = change
            .settings
            .iter()
            .map(|one| (format!("{}={}", one.name, one.value), one.because.clone()));
        Some(ChangeShown {
            title: sized.title(),
            what: format!(
                " cannot use huge pages under {}. To take it off, in one outage:",
                change.instead_of
            ),
            steps,
            because: because.collect(),
        })
    };
    report.sizing.instances.iter().filter_map(change_shown_of).collect()
}

/// What a plan leaves in a pool beyond what is needed.
pub(crate) fn kept_notes(report: &SizeReport<'_>) -> Vec<String> {
    let wanted = |page| {
        report
            .sizing
            .pools
            .iter()
            .filter(|pool| pool.page_size == page)
            .map(|pool| pool.pages)
            .sum()
    };
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
        if needed > goal.goal && report.sizing.instances.iter().any(|sized| sized.change.is_some())
        {
            let now = goal.goal.in_pages();
            return Some(format!(
                "the pool of {page} stays at {now} until the settings are changed: hugewise plan \
                     follows them"
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

pub(crate) fn pool_rows(pools: &[PoolSizeTarget]) -> Vec<Vec<TableCell>> {
    let rows = pools.iter().map(|pool| {
        vec![
            TableCell::new(Role::Strong, pool.page_size.to_string()),
            TableCell::text(pool.node.map_or_else(|| "-".to_owned(), |node| node.to_string())),
            TableCell::new(Role::Strong, pool.pages.to_string()),
            TableCell::text(pool.spare_pages),
            TableCell::text(pool.held_by_others),
            TableCell::text_or(pool.now, "?"),
            TableCell::text(pool.pages.to_bytes(pool.page_size)),
            match pool.room_now {
                Some(true) => TableCell::new(Role::Good, "yes"),
                Some(false) => TableCell::new(Role::Warn, "not now; after a boot"),
                None => TableCell::new(Role::Quiet, "?"),
            },
        ]
    });
    rows.collect()
}

pub(crate) const CHOICES: [TableColumn; 6] = [
    TableColumn::right("page size"),
    TableColumn::right("pages"),
    TableColumn::right("lost to rounding").short("rounding"),
    TableColumn::right("page tables, at most").short("tables"),
    TableColumn::right("TLB reach"),
    TableColumn::left("plan"),
];

pub(crate) fn choice_rows(sizing: &Sizing) -> Vec<Vec<TableCell>> {
    let rows = sizing.choices.iter().map(|row| {
        vec![
            TableCell::text(row.page_size),
            TableCell::text_or(row.pages, "?"),
            TableCell::text_or(row.waste, "?"),
            TableCell::text(row.page_tables_at_max),
            TableCell::text_or(row.tlb_reach, "?"),
            if row.chosen {
                TableCell::new(Role::Good, "chosen")
            } else {
                TableCell::new(Role::Quiet, "-")
            },
        ]
    });
    rows.collect()
}

/// With the time of a login, where it is known, or of touching memory.
pub(crate) fn forecast_columns(sizing: &Sizing) -> [TableColumn; 5] {
    let touching = if waits_for_pretouch(sizing) { "a login" } else { "touching" };
    ["sessions", "pages of", "page tables", touching, "memory left"].map(TableColumn::right)
}

/// Whether logins wait until memory is touched.
fn waits_for_pretouch(sizing: &Sizing) -> bool {
    sizing.forecast.iter().any(|row| row.login_seconds.is_some())
}

/// What the times of the forecast are made of.
pub(crate) fn touching_note(sizing: &Sizing) -> Option<String> {
    sizing.forecast.iter().find_map(|row| row.touching_seconds)?;
    let waits =
        sizing.instances.iter().find_map(|sized| Some((sized, sized.touches_all.as_ref()?)));
    let machine =
        "estimated from a machine with 2 processors; `hugewise lab logins` measures it here";
    Some(match waits {
        Some((sized, setting)) => format!(
            "A login: {setting} makes each process of {} touch all of its memory before anything \
                 else; {machine}.",
            sized.title()
        ),
        None => format!(
            "Touching: the time one session spends on touching memory for the first time; \
                 {machine}."
        ),
    })
}

/// Says that numbers rest on a few sessions.
pub(crate) fn few_note(sizing: &Sizing) -> Option<String> {
    let rows = sizing
        .forecast
        .iter()
        .filter(|row| !row.basis.is_broad() && row.page_tables_most > row.page_tables);
    let row = rows.max_by_key(|row| row.sessions)?;
    let Basis::Measured(few) = row.basis else { return None };
    Some(format!(
        "On pages of {}, the forecast is based on {} that {} now; if {} touched all of the \
             memory, it would be {}.",
        row.page_size,
        sessions_of(few),
        if few == 1 { "runs" } else { "run" },
        sessions_of(row.sessions),
        row.page_tables_most
    ))
}

/// Says that sessions may share page tables.
pub(crate) fn forecast_note(sizing: &Sizing) -> Option<String> {
    let apart = |row: &&PageTableForecastRow| row.page_tables_least < row.page_tables;
    let row = sizing.forecast.iter().filter(apart).max_by_key(|row| row.sessions)?;
    let PageTableForecastRow { page_size, page_tables, page_tables_least, sessions, .. } = row;
    Some(format!(
        "On pages of {page_size}, sessions that map a segment at one address share tables: {} of \
             them then have \
         {page_tables_least}. {page_tables} is the average if the kernel chooses each address.",
        group_thousands(*sessions)
    ))
}

pub(crate) fn forecast_rows(sizing: &Sizing) -> Vec<Vec<TableCell>> {
    let mut before = None;
    let waits = waits_for_pretouch(sizing);
    let rows = sizing.forecast.iter().map(|row| {
        let again = before.replace(row.sessions) == Some(row.sessions);
        let most = if row.configured_max { "max " } else { "" };
        let sessions =
            if again { String::new() } else { format!("{most}{}", group_thousands(row.sessions)) };
        let left = match row.memory_left {
            Some(Bytes::ZERO) => TableCell::new(Role::Error, "none"),
            left => TableCell::text_or(left, "?"),
        };
        let seconds = if waits { row.login_seconds } else { row.touching_seconds };
        vec![
            TableCell::new(Role::Strong, sessions),
            TableCell::text(row.page_size),
            TableCell::text(row.page_tables),
            TableCell::text_or(seconds.map(render_duration), "-"),
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
    let memory =
        |bytes: Bytes| if bytes >= NO_LIMIT { "unlimited".into() } else { bytes.to_string() };
    let pages = |pages: u64| {
        if Bytes(pages) >= NO_LIMIT { "unlimited".into() } else { PageCount(pages).in_pages() }
    };
    let group = |group: u32| format!("group {group}");
    let lines = [
        build_limit_line("memlock", &limits.memlock, memory),
        build_limit_line("shmmax", &limits.shmmax, memory),
        build_limit_line("shmall", &limits.shmall_pages, pages),
        build_limit_line(GROUP, &limits.hugetlb_shm_group, group),
        build_limit_line("CommitLimit", &limits.commit_limit, memory),
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
    format!("{} {}", group_thousands(number), if number == 1 { "session" } else { "sessions" })
}

struct LimitLine<'a> {
    name: &'static str,
    needed: Option<String>,
    now: Option<String>,
    enough: Option<bool>,
    checked: Option<bool>,
    evidence: &'a str,
}

fn build_limit_line<'a, T: Copy>(
    name: &'static str,
    limit: &'a LimitNeed<T>,
    shown: impl Fn(T) -> String,
) -> LimitLine<'a> {
    LimitLine {
        name,
        needed: limit.needed.map(&shown),
        now: limit.now.map(&shown),
        enough: limit.enough,
        checked: limit.checked,
        evidence: &limit.evidence,
    }
}
pub(crate) fn describe_shortage(refusal: &SizingRefusal) -> String {
    format!("{} too little; all pools together can take {}", refusal.short, refusal.largest_pools)
}

pub(crate) fn wanted_lines(refusal: &SizingRefusal) -> Vec<String> {
    let line = |pool: &PoolSizeTarget| {
        let node = pool.node.map(|node| format!(" on node {node}")).unwrap_or_default();
        let most = refusal.most_pages(pool.page_size);
        format!(
            "wanted {}{node}; at most {most} if this were the only pool",
            pool.pages.in_pages_of(pool.page_size)
        )
    };
    refusal.wanted.iter().map(line).collect()
}

pub(crate) fn planned_host(memory: Bytes) -> String {
    format!("a host with {memory} of memory and the kernel and processor of this one")
}

#[cfg(test)]
mod tests {
    /// What is beyond the sum of the pools as sized may still be held or awaited by others: what
    /// --shrink would leave counts.
    #[test]
    fn what_shrink_gives_back_is_what_its_plan_would_give_back() {
        use hugewise_diagnose::target::PoolGoal;

        use crate::samples;

        let goal = |pages| PoolGoal {
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
                let report = crate::SizeReport {
                    planned: &[goal(20_000)],
                    shrunk: &[goal(left)],
                    ..*report
                };
                let notes = super::kept_notes(&report);
                assert_eq!(notes.len(), usize::from(said.is_some()), "{notes:?}");
                assert!(said.is_none_or(|said| notes.concat().contains(said)), "{notes:?}");
            }
        });
    }
}
