//! Tables that shrink to the terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::palette::Role;
use crate::plain::clean;
use crate::screen::{Screen, Spans, columns, fitting};

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its heading where there is room.
    pub heading: &'static str,
    /// Its heading where there is not.
    pub short: &'static str,
    /// Numbers stand to the right.
    pub right: bool,
    /// How far its cells may be cut; `None` for cells that are never cut.
    pub least: Option<usize>,
}

/// A cell.
pub struct Cell {
    /// Meaning.
    pub role: Role,
    /// Text.
    pub text: String,
    /// What is enough of it where there is too little place.
    pub brief: Option<String>,
}

impl Cell {
    /// A cell of plain text.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: clean(&text.into()).into_owned(), brief: None }
    }

    /// The same, with what is enough of it where there is too little place.
    #[must_use]
    pub fn briefly(mut self, brief: impl Into<String>) -> Self {
        self.brief = Some(clean(&brief.into()).into_owned());
        self
    }
}

/// Columns between columns.
const GAP: usize = 2;
/// Where a row goes on that is wider than the terminal for all that was cut of it.
const HANG: usize = 4;

/// Writes a table; rows have as many cells as there are columns.
///
/// # Errors
/// Where it cannot be written.
pub fn write(screen: &mut Screen<'_>, table: &[Column], rows: &[Vec<Cell>]) -> io::Result<()> {
    write_narrowing(screen, table, rows, &[])
}

/// The same, and where it is too wide in spite of all, without the columns that `give_way`, the first of them first.
///
/// # Errors
/// Where it cannot be written.
pub fn write_narrowing(
    screen: &mut Screen<'_>,
    table: &[Column],
    rows: &[Vec<Cell>],
    give_way: &[usize],
) -> io::Result<()> {
    let long = widths(table, rows, |column| column.heading, false);
    let short = total(&long) > screen.width();
    let heading = |column: &Column| if short { column.short } else { column.heading };
    let whole = if short { widths(table, rows, heading, false) } else { long };
    let brief = total(&whole) > screen.width();
    let mut widths = if brief { widths(table, rows, heading, true) } else { whole };
    let mut shown: Vec<usize> = (0..table.len()).collect();
    for gone in give_way {
        if least(table, &widths, &shown) > screen.width() {
            shown.retain(|at| at != gone);
        }
    }
    let kept = |at: &usize| table.get(*at);
    let columns: Vec<&Column> = shown.iter().filter_map(kept).collect();
    widths = shown.iter().filter_map(|at| widths.get(*at).copied()).collect();
    shrink(&columns, &mut widths, screen.width());

    let cells = |at: usize, width: usize| -> Vec<String> {
        let texts: Vec<&str> = rows.iter().filter_map(|row| row.get(at)).map(|cell| text(cell, brief)).collect();
        cut_apart(&texts, width)
    };
    let cut_cells: Vec<Vec<String>> = shown.iter().zip(&widths).map(|(at, width)| cells(*at, *width)).collect();
    let headings: Vec<Cell> = table.iter().map(|column| Cell::new(Role::Quiet, heading(column))).collect();
    let heads: Vec<(Role, String)> = shown
        .iter()
        .zip(&widths)
        .filter_map(|(at, width)| headings.get(*at).map(|cell| (cell.role, cut(&cell.text, *width))))
        .collect();
    screen.flow(HANG, &line(&columns, &widths, &heads))?;
    for (number, row) in rows.iter().enumerate() {
        let cell = |(at, cells): (&usize, &Vec<String>)| Some((row.get(*at)?.role, cells.get(number)?.clone()));
        let cells: Vec<(Role, String)> = shown.iter().zip(&cut_cells).filter_map(cell).collect();
        screen.flow(HANG, &line(&columns, &widths, &cells))?;
    }
    Ok(())
}

/// A name is worth this many columns: others give way before it is cut to fewer.
const OF_A_NAME: usize = 20;

/// The least that the columns shown should take.
fn least(table: &[Column], widths: &[usize], shown: &[usize]) -> usize {
    let width = |at: &usize| {
        let (column, width) = (table.get(*at)?, *widths.get(*at)?);
        Some(column.least.map_or(width, |least| width.min(least.max(OF_A_NAME))))
    };
    total(&shown.iter().filter_map(width).collect::<Vec<_>>())
}

/// The text of a cell, or as much of it as is enough.
fn text(cell: &Cell, brief: bool) -> &str {
    cell.brief.as_deref().filter(|_| brief).unwrap_or(&cell.text)
}

fn widths(table: &[Column], rows: &[Vec<Cell>], heading: impl Fn(&Column) -> &'static str, brief: bool) -> Vec<usize> {
    let width = |at: usize, column: &Column| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(text(cell, brief)));
        cells.max().unwrap_or(0).max(columns(heading(column)))
    };
    table.iter().enumerate().map(|(at, column)| width(at, column)).collect()
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Takes what is too much from the widest of the columns that may be cut, one at a time.
fn shrink(table: &[&Column], widths: &mut [usize], room: usize) {
    while total(widths) > room {
        let spare = |(column, width): (&&Column, &usize)| column.least.map_or(0, |least| width.saturating_sub(least));
        let most = (0..widths.len()).max_by_key(|at| match (table.get(*at), widths.get(*at)) {
            (Some(column), Some(width)) => spare((column, width)),
            _ => 0,
        });
        let Some(at) = most else { return };
        let (Some(column), Some(width)) = (table.get(at), widths.get_mut(at)) else { return };
        if spare((column, width)) == 0 {
            return;
        }
        *width -= 1;
    }
}

fn line(table: &[&Column], widths: &[usize], row: &[(Role, String)]) -> Spans {
    let mut spans = Spans::new();
    let last = row.len().saturating_sub(1);
    for (at, ((column, width), (role, text))) in table.iter().zip(widths).zip(row).enumerate() {
        let fill = " ".repeat(width.saturating_sub(columns(text)));
        if column.right {
            spans.push(Role::Text, &fill);
        }
        spans.push(*role, text);
        if at < last {
            if !column.right {
                spans.push(Role::Text, &fill);
            }
            spans.push(Role::Text, &" ".repeat(GAP));
        }
    }
    spans
}

/// Texts in at most `width` columns each. Those that would look the same are cut in their middle: what tells them apart stands
/// at their ends, as a pid does.
fn cut_apart(texts: &[&str], width: usize) -> Vec<String> {
    let plain: Vec<String> = texts.iter().map(|text| cut(text, width)).collect();
    let mut looks = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (text, look) in texts.iter().zip(&plain) {
        looks.entry(look).or_default().insert(text);
    }
    let alike = |look: &str| looks.get(look).is_some_and(|texts| texts.len() > 1);
    texts
        .iter()
        .zip(&plain)
        .map(|(text, look)| if alike(look) { cut_middle(text, width) } else { look.clone() })
        .collect()
}

/// The same with the end of the text, as far as it takes no more than two thirds.
fn cut_middle(text: &str, width: usize) -> String {
    let room = width.saturating_sub(1);
    let mut end = text.len();
    for (at, _) in text.char_indices().rev() {
        if columns(text.get(at..).unwrap_or_default()) > room * 2 / 3 {
            break;
        }
        end = at;
    }
    let tail = text.get(end..).unwrap_or_default();
    let before = room.saturating_sub(columns(tail));
    let head = text.get(..fitting(text, before)).filter(|head| columns(head) <= before).unwrap_or_default();
    format!("{head}…{tail}")
}

/// `text` in at most `width` columns, with `…` where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let kept = text.get(..fitting(text, room)).filter(|kept| columns(kept) <= room).unwrap_or_default();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    /// Widths as terminals have them: xterm, and `wc -L` of coreutils, which asks wcwidth(3).
    #[test]
    fn wide_characters_take_two_columns_and_accents_none() {
        for (text, width) in [("db1", 3), ("データ", 6), ("数据库-1", 8), ("한국", 4), ("cafe\u{301}", 4), ("é", 1)]
        {
            assert_eq!(columns(text), width, "{text}");
        }
        assert_eq!((cut("データベース", 7), cut("データベース", 6)), ("データ…".into(), "デー…".into()));
        assert_eq!((cut("データ", 6), cut("データ", 1)), ("データ".into(), "…".into()));
        let table = [
            Column { heading: "instance", short: "instance", right: false, least: Some(10) },
            Column { heading: "tables", short: "tables", right: true, least: None },
        ];
        let row = |name: &str| vec![Cell::new(Role::Strong, name), Cell::new(Role::Text, "64 KiB")];
        let mut out = Vec::new();
        write(&mut Screen::new(&mut out, Layout::plain(40)), &table, &[row("oracle 本番"), row("oracle prod")])
            .unwrap();
        let expected = "\
instance     tables
oracle 本番  64 KiB
oracle prod  64 KiB
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn names_give_way_and_numbers_do_not() {
        let table = [
            Column { heading: "instance", short: "instance", right: false, least: Some(10) },
            Column { heading: "page tables", short: "tables", right: true, least: None },
        ];
        let rows = [
            vec![Cell::new(Role::Strong, "oracle A_VERY_LONG_SERVICE_NAME_OF_40"), Cell::new(Role::Text, "11.2 GiB")],
            vec![Cell::new(Role::Strong, "redis 6379"), Cell::new(Role::Text, "64 KiB")],
        ];
        let mut out = Vec::new();
        write(&mut Screen::new(&mut out, Layout::plain(40)), &table, &rows).unwrap();
        let expected = "\
instance                          tables
oracle A_VERY_LONG_SERVICE_NA…  11.2 GiB
redis 6379                        64 KiB
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
