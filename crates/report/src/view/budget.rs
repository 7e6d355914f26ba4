//! How the host's memory is divided, as planned and at most.

use hugewise_diagnose::sizing::{MemoryBudget, Sizing, Work};
use hugewise_engines::work_memory::MemoryGrant;
use hugewise_model::{Bytes, group_thousands};

use super::size::sessions_of;
use crate::palette::Role;
use crate::table::{TableCell, TableColumn};

pub(crate) struct BudgetPart {
    pub(crate) name: &'static str,
    /// Its sign in [`draw_budget_bar`].
    pub(crate) letter: char,
    amount: fn(&MemoryBudget) -> Option<Bytes>,
}

impl BudgetPart {
    pub(crate) fn part_bytes(&self, budget: &MemoryBudget) -> Option<Bytes> {
        (self.amount)(budget)
    }
}

/// From the bottom up.
pub(crate) const PARTS: [BudgetPart; 8] = [
    BudgetPart { name: "pools", letter: 'P', amount: |budget| Some(budget.pools) },
    BudgetPart { name: "private memory", letter: 'S', amount: |budget| budget.sessions_private },
    BudgetPart { name: "managed global area", letter: 'M', amount: |budget| budget.managed },
    BudgetPart { name: "page tables", letter: 'T', amount: |budget| budget.page_tables },
    BudgetPart { name: "other processes", letter: 'O', amount: |budget| budget.others },
    BudgetPart { name: "kernel", letter: 'K', amount: |budget| budget.kernel },
    BudgetPart { name: "watermarks", letter: 'W', amount: |budget| budget.watermarks },
    BudgetPart { name: "page cache reserve", letter: 'C', amount: |budget| Some(budget.floor) },
];

const COLUMNS: [TableColumn; 4] = [
    TableColumn::left("memory"),
    TableColumn::left(""),
    TableColumn::right("planned for"),
    TableColumn::right("at most"),
];

/// As planned, and at most.
pub(crate) fn list_budgets(sizing: &Sizing) -> impl Iterator<Item = &MemoryBudget> + Clone {
    std::iter::once(&sizing.budget).chain(&sizing.at_most)
}

pub(crate) fn budget_columns(sizing: &Sizing) -> &'static [TableColumn] {
    COLUMNS.get(..2 + list_budgets(sizing).count()).unwrap_or_default()
}

/// A row a part; at the end what is left, or missing.
pub(crate) fn budget_rows(sizing: &Sizing) -> Vec<Vec<TableCell>> {
    let row = |name: &str, letter: String, cells: Vec<TableCell>| {
        let head =
            [TableCell::new(Role::Quiet, name.to_owned()), TableCell::new(Role::Quiet, letter)];
        head.into_iter().chain(cells).collect::<Vec<_>>()
    };
    let amount = |amount: Option<Bytes>| TableCell::text_or(amount, "?");
    let sessions = |budget: &MemoryBudget| TableCell::text(group_thousands(budget.sessions));
    let mut rows = vec![
        row(
            "total",
            String::new(),
            list_budgets(sizing).map(|budget| amount(budget.total)).collect(),
        ),
        row("sessions", String::new(), list_budgets(sizing).map(sessions).collect()),
    ];
    for part in PARTS
        .iter()
        .filter(|part| list_budgets(sizing).any(|budget| part.part_bytes(budget).is_some()))
    {
        let cells = list_budgets(sizing).map(|budget| amount(part.part_bytes(budget))).collect();
        rows.push(row(part.name, part.letter.to_string(), cells));
    }
    let end = |budget: &MemoryBudget| match (budget.short, budget.left) {
        (Bytes::ZERO, left) => left.map_or_else(
            || TableCell::new(Role::Quiet, "?"),
            |left| TableCell::new(Role::Strong, left.to_string()),
        ),
        (short, _) => TableCell::new(Role::Error, format!("{short} short")),
    };
    rows.push(row("left", ".".into(), list_budgets(sizing).map(end).collect()));
    rows
}

/// Letters for all of the memory, where there is room.
const LETTERS: u64 = 60;
/// Columns of a name before a bar.
const NAME: usize = 8;

/// `all` letters for the whole memory; what exceeds it is behind a `|`.
pub(crate) fn draw_budget_bar(budget: &MemoryBudget, all: u64) -> Option<String> {
    let total = budget.total.filter(|total| *total > Bytes::ZERO)?;
    let place = |bytes: Bytes| {
        let letters = u128::from(bytes.get()) * u128::from(all) / u128::from(total.get());
        // Bars end at a tenth beyond the memory.
        u64::try_from(letters).unwrap_or(u64::MAX).min(all + all / 10)
    };
    let (mut sum, mut drawn) = (Bytes::ZERO, String::new());
    let mut at = 0;
    for part in &PARTS {
        sum += part.part_bytes(budget).unwrap_or_default();
        let end = place(sum);
        while at < end {
            if at == all {
                drawn.push('|');
            }
            drawn.push(part.letter);
            at += 1;
        }
    }
    while at < all {
        drawn.push('.');
        at += 1;
    }
    Some(drawn)
}

/// Bars with their names, in `room` columns.
pub(crate) fn draw_budget_bars(sizing: &Sizing, room: usize) -> Vec<(&'static str, String)> {
    let names = ["planned ", "at most "];
    // Leaves room for the tenth beyond, and the `|`.
    let letters = room.saturating_sub(NAME + 1) * 10 / 11;
    let letters = u64::try_from(letters).unwrap_or(LETTERS).clamp(1, LETTERS);
    let drawn = |(name, budget)| Some((name, draw_budget_bar(budget, letters)?));
    names.into_iter().zip(list_budgets(sizing)).filter_map(drawn).collect()
}

/// What each server's private memory is made of.
pub(crate) fn work_notes(sizing: &Sizing) -> Vec<(String, String)> {
    sizing
        .work
        .iter()
        .filter_map(|work| Some((work.instance.to_string(), work_note(work)?)))
        .collect()
}

fn work_note(work: &Work) -> Option<String> {
    let grants = &work.grants;
    let by = |grant: &MemoryGrant| grant.by.clone();
    let mut said = Vec::new();
    said.extend(work.held.map(|held| format!("its processes hold {held} of private memory now")));
    if let Some(target) = grants.target.as_ref() {
        let counts = if Some(target.bytes.saturating_sub(grants.managed.unwrap_or_default()))
            == work.counted
        {
            "counts as"
        } else {
            "its target is less:"
        };
        said.push(format!("{counts} {} ({})", target.bytes, by(target)));
    }
    if let (Some(most), Some(sessions)) = (work.at_most, work.most_sessions) {
        let each =
            grants.each.as_ref().map(|each| format!("{} a session: {}", each.bytes, each.by));
        let once = grants.once.as_ref().map(by);
        let limit = grants.limit.as_ref().map(by);
        let why: Vec<String> = [limit, each, once].into_iter().flatten().collect();
        if !why.is_empty() {
            said.push(format!("at most {most} at {} ({})", sessions_of(sessions), why.join("; ")));
        }
    }
    said.extend(grants.managed.map(|managed| {
        format!(
            "{managed} of managed global area in /dev/shm is part of its PGA, and has its own \
             row here"
        )
    }));
    let grants_any = grants.target.is_some()
        || grants.each.is_some()
        || grants.once.is_some()
        || grants.managed.is_some();
    grants_any.then(|| said.join("; "))
}

/// What happens if all take what they may.
pub(crate) fn most_note(sizing: &Sizing) -> Option<String> {
    let most = sizing.at_most.as_ref().filter(|most| most.short > Bytes::ZERO)?;
    if sizing.budget.short > Bytes::ZERO {
        return None;
    }
    Some(format!(
        "If {} take everything that their settings allow, the host is {} short, and swaps or \
             kills processes. Allow less memory or fewer sessions.",
        sessions_of(most.sessions),
        most.short
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(gib: [u64; 5]) -> MemoryBudget {
        let [total, pools, private, tables, others] = gib.map(Bytes::from_gib);
        MemoryBudget {
            total: Some(total),
            pools,
            sessions_private: Some(private),
            page_tables: Some(tables),
            others: Some(others),
            ..MemoryBudget::default()
        }
    }

    #[test]
    fn a_letter_is_a_sixtieth_of_the_memory() {
        let drawn = draw_budget_bar(&budget([60, 30, 10, 0, 5]), 60).unwrap();
        assert_eq!(
            drawn,
            format!("{}{}{}{}", "P".repeat(30), "S".repeat(10), "O".repeat(5), ".".repeat(15))
        );
        let beyond = draw_budget_bar(&budget([60, 30, 20, 0, 12]), 60).unwrap();
        assert_eq!(beyond, format!("{}{}{}|OO", "P".repeat(30), "S".repeat(20), "O".repeat(10)));
        // However far beyond it is, the line ends.
        let far = draw_budget_bar(&budget([1, 1 << 30, 1 << 30, 1 << 30, 1 << 30]), 60).unwrap();
        assert_eq!(far.len(), 67, "{far}");
        assert_eq!(draw_budget_bar(&MemoryBudget::default(), 60), None);
    }
}
