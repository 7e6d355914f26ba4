//! The host's memory dealt out: now, and at the most that its servers may come to.

use hugewise_advice::sizing::{Budget, Sizing, Work};
use hugewise_engines::work::Grant;
use hugewise_model::{Bytes, PageCount};

use super::size::sessions_of;
use crate::palette::Role;
use crate::table::{Cell, Column};

/// One part of the memory.
pub(crate) struct Part {
    /// What it is.
    pub(crate) name: &'static str,
    /// What it is in a picture made of letters.
    pub(crate) letter: char,
    amount: fn(&Budget) -> Option<Bytes>,
}

impl Part {
    /// How much of it there is.
    pub(crate) fn of(&self, budget: &Budget) -> Option<Bytes> {
        (self.amount)(budget)
    }
}

/// From the bottom up.
pub(crate) const PARTS: [Part; 8] = [
    Part { name: "pools", letter: 'P', amount: |budget| Some(budget.pools) },
    Part { name: "private memory", letter: 'S', amount: |budget| budget.sessions_private },
    Part { name: "managed global area", letter: 'M', amount: |budget| budget.managed },
    Part { name: "page tables", letter: 'T', amount: |budget| budget.page_tables },
    Part { name: "other processes", letter: 'O', amount: |budget| budget.others },
    Part { name: "kernel", letter: 'K', amount: |budget| budget.kernel },
    Part { name: "watermarks", letter: 'W', amount: |budget| budget.watermarks },
    Part { name: "page cache reserve", letter: 'C', amount: |budget| Some(budget.floor) },
];

const fn column(heading: &'static str, right: bool) -> Column {
    Column { heading, short: heading, right, least: None }
}

const COLUMNS: [Column; 4] =
    [column("memory", false), column("", false), column("planned for", true), column("at most", true)];

/// The budgets that there are: the one that is planned for, and the one at most.
pub(crate) fn budgets(sizing: &Sizing) -> impl Iterator<Item = &Budget> + Clone {
    std::iter::once(&sizing.budget).chain(&sizing.at_most)
}

/// Columns of the parts: a budget each.
pub(crate) fn columns(sizing: &Sizing) -> &'static [Column] {
    COLUMNS.get(..2 + budgets(sizing).count()).unwrap_or_default()
}

/// A row a part, with what it is in [`picture`]; at the end what is left, or missing.
pub(crate) fn rows(sizing: &Sizing) -> Vec<Vec<Cell>> {
    let row = |name: &str, letter: String, cells: Vec<Cell>| {
        let head = [Cell::new(Role::Quiet, name.to_owned()), Cell::new(Role::Quiet, letter)];
        head.into_iter().chain(cells).collect::<Vec<_>>()
    };
    let amount = |amount: Option<Bytes>| {
        amount.map_or_else(|| Cell::new(Role::Quiet, "?"), |amount| Cell::new(Role::Text, amount.to_string()))
    };
    let sessions = |budget: &Budget| Cell::new(Role::Text, PageCount(budget.sessions).to_string());
    let mut rows = vec![
        row("total", String::new(), budgets(sizing).map(|budget| amount(budget.total)).collect()),
        row("sessions", String::new(), budgets(sizing).map(sessions).collect()),
    ];
    for part in PARTS.iter().filter(|part| budgets(sizing).any(|budget| part.of(budget).is_some())) {
        let cells = budgets(sizing).map(|budget| amount(part.of(budget))).collect();
        rows.push(row(part.name, part.letter.to_string(), cells));
    }
    let end = |budget: &Budget| match (budget.short, budget.left) {
        (Bytes::ZERO, left) => {
            left.map_or_else(|| Cell::new(Role::Quiet, "?"), |left| Cell::new(Role::Strong, left.to_string()))
        }
        (short, _) => Cell::new(Role::Error, format!("{short} short")),
    };
    rows.push(row("left", ".".into(), budgets(sizing).map(end).collect()));
    rows
}

/// Letters that all of the memory is, where there is room.
const LETTERS: u64 = 60;
/// Columns of a name before a picture.
const NAME: usize = 8;

/// The parts one behind the other, `all` letters for the whole memory; what goes beyond it stands behind a bar. None where
/// the memory is not known.
pub(crate) fn picture(budget: &Budget, all: u64) -> Option<String> {
    let total = budget.total.filter(|total| *total > Bytes::ZERO)?;
    let place = |bytes: Bytes| {
        let letters = u128::from(bytes.get()) * u128::from(all) / u128::from(total.get());
        // Three times the memory tells no more than twice.
        u64::try_from(letters).unwrap_or(u64::MAX).min(all + all / 10)
    };
    let (mut sum, mut drawn) = (Bytes::ZERO, String::new());
    let mut at = 0;
    for part in &PARTS {
        sum += part.of(budget).unwrap_or_default();
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

/// The pictures, each with its name, in so many columns.
pub(crate) fn pictures(sizing: &Sizing, room: usize) -> Vec<(&'static str, String)> {
    let names = ["planned ", "at most "];
    // A tenth more, and a bar, where the memory does not reach.
    let letters = room.saturating_sub(NAME + 1) * 10 / 11;
    let letters = u64::try_from(letters).unwrap_or(LETTERS).clamp(1, LETTERS);
    let drawn = |(name, budget)| Some((name, picture(budget, letters)?));
    names.into_iter().zip(budgets(sizing)).filter_map(drawn).collect()
}

/// What each server's private memory is made of.
pub(crate) fn work_notes(sizing: &Sizing) -> Vec<(String, String)> {
    sizing.work.iter().filter_map(|work| Some((work.instance.to_string(), note(work)?))).collect()
}

fn note(work: &Work) -> Option<String> {
    let grants = &work.grants;
    let by = |grant: &Grant| grant.by.clone();
    let mut said = Vec::new();
    said.extend(work.held.map(|held| format!("its processes hold {held} of private memory now")));
    if let Some(target) = grants.target.as_ref() {
        let counts = if Some(target.bytes.saturating_sub(grants.managed.unwrap_or_default())) == work.counted {
            "counts as"
        } else {
            "its target is less:"
        };
        said.push(format!("{counts} {} ({})", target.bytes, by(target)));
    }
    if let (Some(most), Some(sessions)) = (work.at_most, work.most_sessions) {
        let each = grants.each.as_ref().map(|each| format!("{} a session: {}", each.bytes, each.by));
        let once = grants.once.as_ref().map(by);
        let limit = grants.limit.as_ref().map(by);
        let why: Vec<String> = [limit, each, once].into_iter().flatten().collect();
        if !why.is_empty() {
            said.push(format!("at most {most} at {} ({})", sessions_of(sessions), why.join("; ")));
        }
    }
    said.extend(grants.managed.map(|managed| {
        format!("{managed} of managed global area in /dev/shm is part of its PGA, and has its own row here")
    }));
    let grants_any =
        grants.target.is_some() || grants.each.is_some() || grants.once.is_some() || grants.managed.is_some();
    grants_any.then(|| said.join("; "))
}

/// What happens where all take what they may.
pub(crate) fn most_note(sizing: &Sizing) -> Option<String> {
    let most = sizing.at_most.as_ref().filter(|most| most.short > Bytes::ZERO)?;
    if sizing.budget.short > Bytes::ZERO {
        return None;
    }
    Some(format!(
        "If {} take everything that their settings allow, the host is {} short, and swaps or kills processes. Allow less memory or fewer sessions.",
        sessions_of(most.sessions),
        most.short
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(gib: [u64; 5]) -> Budget {
        let [total, pools, private, tables, others] = gib.map(Bytes::from_gib);
        Budget {
            total: Some(total),
            pools,
            sessions_private: Some(private),
            page_tables: Some(tables),
            others: Some(others),
            ..Budget::default()
        }
    }

    #[test]
    fn a_letter_is_a_sixtieth_of_the_memory() {
        let drawn = picture(&budget([60, 30, 10, 0, 5]), 60).unwrap();
        assert_eq!(drawn, format!("{}{}{}{}", "P".repeat(30), "S".repeat(10), "O".repeat(5), ".".repeat(15)));
        let beyond = picture(&budget([60, 30, 20, 0, 12]), 60).unwrap();
        assert_eq!(beyond, format!("{}{}{}|OO", "P".repeat(30), "S".repeat(20), "O".repeat(10)));
        // However far beyond it is, the line ends.
        let far = picture(&budget([1, 1 << 30, 1 << 30, 1 << 30, 1 << 30]), 60).unwrap();
        assert_eq!(far.len(), 67, "{far}");
        assert_eq!(picture(&Budget::default(), 60), None);
    }
}
