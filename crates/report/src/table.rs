use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;

use crate::palette::Role;
use crate::plain::escape_line;
use crate::screen::{Screen, Spans, fitting_bytes, text_width};

#[derive(Clone, Copy, Debug)]
pub(crate) struct TableColumn {
    pub heading: &'static str,
    pub short: &'static str,
    pub right: bool,
    /// How far its cells may be cut; `None` for cells that are never cut.
    pub least: Option<usize>,
}

pub(crate) struct TableCell {
    pub role: Role,
    pub text: String,
    /// Shown instead where space is short.
    pub brief: Option<String>,
}

impl TableColumn {
    pub(crate) const fn left(heading: &'static str) -> Self {
        Self { heading, short: heading, right: false, least: None }
    }

    pub(crate) const fn right(heading: &'static str) -> Self {
        Self { right: true, ..Self::left(heading) }
    }

    /// With a shorter heading for where space is short.
    pub(crate) const fn short(self, short: &'static str) -> Self {
        Self { short, ..self }
    }

    pub(crate) const fn cut_to(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }
}

impl TableCell {
    pub(crate) fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: escape_line(&text.into()).into_owned(), brief: None }
    }

    pub(crate) fn text(text: impl Display) -> Self {
        Self::new(Role::Text, text.to_string())
    }

    /// Quiet `missing` where there is no value.
    pub(crate) fn text_or(value: Option<impl Display>, missing: &str) -> Self {
        value.map_or_else(|| Self::new(Role::Quiet, missing), Self::text)
    }

    #[must_use]
    pub(crate) fn with_brief(mut self, brief: impl Into<String>) -> Self {
        self.brief = Some(escape_line(&brief.into()).into_owned());
        self
    }
}

/// Between columns.
const GAP: usize = 2;
/// The indent where a row still wider than the terminal goes on.
const HANG: usize = 4;

pub(crate) fn write(
    screen: &mut Screen<'_>,
    table: &[TableColumn],
    rows: &[Vec<TableCell>],
) -> io::Result<()> {
    write_narrowing(screen, table, rows, &[])
}

/// If the table is still too wide, it drops columns of `give_way`, the first of them first.
pub(crate) fn write_narrowing(
    screen: &mut Screen<'_>,
    table: &[TableColumn],
    rows: &[Vec<TableCell>],
    give_way: &[usize],
) -> io::Result<()> {
    let long = measure_widths(table, rows, |column| column.heading, false);
    let short = total_width(&long) > screen.width();
    let heading = |column: &TableColumn| if short { column.short } else { column.heading };
    let whole = if short { measure_widths(table, rows, heading, false) } else { long };
    let brief = total_width(&whole) > screen.width();
    let mut widths = if brief { measure_widths(table, rows, heading, true) } else { whole };
    let mut shown: Vec<usize> = (0..table.len()).collect();
    for gone in give_way {
        if least_width(table, &widths, &shown) > screen.width() {
            shown.retain(|at| at != gone);
        }
    }
    let kept = |at: &usize| table.get(*at);
    let columns: Vec<&TableColumn> = shown.iter().filter_map(kept).collect();
    widths = shown.iter().filter_map(|at| widths.get(*at).copied()).collect();
    shrink_columns(&columns, &mut widths, screen.width());

    let cells = |at: usize, width: usize| -> Vec<String> {
        let texts: Vec<&str> =
            rows.iter().filter_map(|row| row.get(at)).map(|cell| cell_text(cell, brief)).collect();
        cut_apart(&texts, width)
    };
    let cut_cells: Vec<Vec<String>> =
        shown.iter().zip(&widths).map(|(at, width)| cells(*at, *width)).collect();
    let headings: Vec<TableCell> =
        table.iter().map(|column| TableCell::new(Role::Quiet, heading(column))).collect();
    let heads: Vec<(Role, String)> = shown
        .iter()
        .zip(&widths)
        .filter_map(|(at, width)| {
            headings.get(*at).map(|cell| (cell.role, truncate_text(&cell.text, *width)))
        })
        .collect();
    screen.write_paragraph(HANG, &render_row(&columns, &widths, &heads))?;
    for (number, row) in rows.iter().enumerate() {
        let cell = |(at, cells): (&usize, &Vec<String>)| {
            Some((row.get(*at)?.role, cells.get(number)?.clone()))
        };
        let cells: Vec<(Role, String)> = shown.iter().zip(&cut_cells).filter_map(cell).collect();
        screen.write_paragraph(HANG, &render_row(&columns, &widths, &cells))?;
    }
    Ok(())
}

/// Columns give way before a name is cut to fewer than this.
const OF_A_NAME: usize = 20;

fn least_width(table: &[TableColumn], widths: &[usize], shown: &[usize]) -> usize {
    let width = |at: &usize| {
        let (column, width) = (table.get(*at)?, *widths.get(*at)?);
        Some(column.least.map_or(width, |least| width.min(least.max(OF_A_NAME))))
    };
    total_width(&shown.iter().filter_map(width).collect::<Vec<_>>())
}

fn cell_text(cell: &TableCell, brief: bool) -> &str {
    cell.brief.as_deref().filter(|_| brief).unwrap_or(&cell.text)
}

fn measure_widths(
    table: &[TableColumn],
    rows: &[Vec<TableCell>],
    heading: impl Fn(&TableColumn) -> &'static str,
    brief: bool,
) -> Vec<usize> {
    let width = |at: usize, column: &TableColumn| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(at))
            .map(|cell| text_width(cell_text(cell, brief)));
        cells.max().unwrap_or(0).max(text_width(heading(column)))
    };
    table.iter().enumerate().map(|(at, column)| width(at, column)).collect()
}

fn total_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Takes columns of text from the widest column that may be cut, one at a time.
fn shrink_columns(table: &[&TableColumn], widths: &mut [usize], room: usize) {
    while total_width(widths) > room {
        let spare = |(column, width): (&&TableColumn, &usize)| {
            column.least.map_or(0, |least| width.saturating_sub(least))
        };
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

fn render_row(table: &[&TableColumn], widths: &[usize], row: &[(Role, String)]) -> Spans {
    let mut spans = Spans::new();
    let last = row.len().saturating_sub(1);
    for (at, ((column, width), (role, text))) in table.iter().zip(widths).zip(row).enumerate() {
        let fill = " ".repeat(width.saturating_sub(text_width(text)));
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

/// Texts that would look the same are cut in their middle: they differ at their ends, as in a pid.
fn cut_apart(texts: &[&str], width: usize) -> Vec<String> {
    let plain: Vec<String> = texts.iter().map(|text| truncate_text(text, width)).collect();
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

/// Keeps the end of the text, up to two thirds of the room.
fn cut_middle(text: &str, width: usize) -> String {
    let room = width.saturating_sub(1);
    let mut end = text.len();
    for (at, _) in text.char_indices().rev() {
        if text_width(text.get(at..).unwrap_or_default()) > room * 2 / 3 {
            break;
        }
        end = at;
    }
    let tail = text.get(end..).unwrap_or_default();
    let before = room.saturating_sub(text_width(tail));
    let head = text
        .get(..fitting_bytes(text, before))
        .filter(|head| text_width(head) <= before)
        .unwrap_or_default();
    format!("{head}…{tail}")
}

/// Ends in `…` where something is missing.
pub(crate) fn truncate_text(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let kept = text
        .get(..fitting_bytes(text, room))
        .filter(|kept| text_width(kept) <= room)
        .unwrap_or_default();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextLayout;

    /// Widths as terminals have them: xterm, and `wc -L` of coreutils, which asks wcwidth(3).
    #[test]
    fn wide_characters_take_two_columns_and_accents_none() {
        for (text, width) in
            [("db1", 3), ("データ", 6), ("数据库-1", 8), ("한국", 4), ("cafe\u{301}", 4), ("é", 1)]
        {
            assert_eq!(text_width(text), width, "{text}");
        }
        assert_eq!(
            (truncate_text("データベース", 7), truncate_text("データベース", 6)),
            ("データ…".into(), "デー…".into())
        );
        assert_eq!(
            (truncate_text("データ", 6), truncate_text("データ", 1)),
            ("データ".into(), "…".into())
        );
        let table = [TableColumn::left("instance").cut_to(10), TableColumn::right("tables")];
        let row = |name: &str| {
            vec![TableCell::new(Role::Strong, name), TableCell::new(Role::Text, "64 KiB")]
        };
        let mut out = Vec::new();
        write(
            &mut Screen::new(&mut out, TextLayout::plain_text(40)),
            &table,
            &[row("oracle 本番"), row("oracle prod")],
        )
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
            TableColumn::left("instance").cut_to(10),
            TableColumn::right("page tables").short("tables"),
        ];
        let rows = [
            vec![
                TableCell::new(Role::Strong, "oracle A_VERY_LONG_SERVICE_NAME_OF_40"),
                TableCell::new(Role::Text, "11.2 GiB"),
            ],
            vec![TableCell::new(Role::Strong, "redis 6379"), TableCell::new(Role::Text, "64 KiB")],
        ];
        let mut out = Vec::new();
        write(&mut Screen::new(&mut out, TextLayout::plain_text(40)), &table, &rows).unwrap();
        let expected = "\
instance                          tables
oracle A_VERY_LONG_SERVICE_NA…  11.2 GiB
redis 6379                        64 KiB
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
