//! Tables that shrink to the terminal.

use std::io;

use crate::palette::Role;
use crate::plain::clean;
use crate::screen::{Screen, Spans, columns, fitting};

/// A column.
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
}

/// Columns between columns.
const GAP: usize = 2;

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

    let headings: Vec<Cell> = table.iter().map(|column| Cell::new(Role::Quiet, heading(column))).collect();
    for row in std::iter::once(&headings).chain(rows) {
        let row: Vec<&Cell> = shown.iter().filter_map(|at| row.get(*at)).collect();
        screen.line(&line(&columns, &widths, &row, brief))?;
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

fn line(table: &[&Column], widths: &[usize], row: &[&Cell], brief: bool) -> Spans {
    let mut spans = Spans::new();
    let last = row.len().saturating_sub(1);
    for (at, ((column, width), cell)) in table.iter().zip(widths).zip(row).enumerate() {
        let text = cut(text(cell, brief), *width);
        let fill = " ".repeat(width.saturating_sub(columns(&text)));
        if column.right {
            spans.push(Role::Text, &fill);
        }
        spans.push(cell.role, &text);
        if at < last {
            if !column.right {
                spans.push(Role::Text, &fill);
            }
            spans.push(Role::Text, &" ".repeat(GAP));
        }
    }
    spans
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
