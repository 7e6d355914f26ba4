//! What more or fewer sessions would do: a table, and a slider that picks a row of it.

use hugewise_diagnose::sizing::MemoryBudget;
use hugewise_model::Bytes;
use maud::{Markup, html};

use super::super::parts::{clean_text, role_class};
use crate::chart::{round_to_hundredths, shade_class};
use crate::view::budget::PARTS;
use crate::view::what_if::{COLUMNS, WhatIfRow, what_if_rows};
use crate::{HostReport, SizeReport, Stop};

/// Width of the picture, in hundredths of the widest bar.
const WIDE: f64 = 100.0;

pub(super) fn what_if(report: &HostReport<'_>, sized: &SizeReport<'_>) -> Markup {
    let rows = what_if_rows(report.checked.host, report.stops, sized.sizing.budget.sessions);
    let widest = widest_memory(report.stops);
    let planned = rows.iter().position(|row| row.is_planned).unwrap_or(0);
    let total = sized.sizing.budget.total.map(|total| scale_bytes(total, widest));
    let parts: Vec<Vec<f64>> =
        report.stops.iter().map(|stop| scale_budget_parts(&stop.sizing.budget, widest)).collect();
    html! {
        p {
            "Each row is what " code { "hugewise size --sessions N" } " says about this host, \
                 with the private memory that this many \
            sessions are expected to take. The memory budget also shows the most they may take."
        }
        div.slider hidden {
            label for="sessions" { "Sessions on the host" }
            input #sessions type="range" min="0" max=(rows.len().saturating_sub(1)) step="1" value=(planned);
            output for="sessions" { @if let Some(row) = rows.get(planned) { (row.says) } }
            svg.chart viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="Memory at this number of sessions, by use" {
                @for (look, (start, width)) in place_parts(parts.get(planned)).enumerate() {
                    rect class={ "bar s" (look % 6) (shade_class(look)) } x=(round_to_hundredths(start)) y="0" width=(round_to_hundredths(width)) height="8" {}
                }
                @if let Some(total) = total { line.axis x1=(round_to_hundredths(total)) x2=(round_to_hundredths(total)) y1="0" y2="8" stroke-width="0.6" {} }
            }
            ul.keys {
                @for (look, part) in PARTS.iter().enumerate() {
                    li {
                        svg.chart viewBox="0 0 12 12" aria-hidden="true" {
                            rect class={ "bar s" (look % 6) (shade_class(look)) } width="12" height="12" {}
                        }
                        (part.name)
                    }
                }
                @if let Some(total) = sized.sizing.budget.total { li { "line: all memory, " (total) } }
            }
        }
        div.scroll tabindex="0" role="region" aria-label="table: what if" {
            table.stops {
                thead { tr { @for column in &COLUMNS { th.number scope="col" { (column.heading) } } } }
                tbody { @for (row, parts) in rows.iter().zip(&parts) { (render_row(row, parts)) } }
            }
        }
    }
}

fn render_row(row: &WhatIfRow, parts: &[f64]) -> Markup {
    let parts: Vec<String> =
        parts.iter().map(|part| round_to_hundredths(*part).to_string()).collect();
    html! {
        tr data-says=(clean_text(&row.says)) data-parts=(parts.join(" ")) {
            @for cell in &row.cells { td.number { span class=(role_class(cell.role)) { (cell.text) } } }
        }
    }
}

fn widest_memory(stops: &[Stop]) -> f64 {
    let taken = |budget: &MemoryBudget| {
        PARTS.iter().filter_map(|part| part.part_bytes(budget)).sum::<Bytes>().as_f64()
    };
    let each = stops.iter().map(|stop| taken(&stop.sizing.budget));
    let total = stops.iter().filter_map(|stop| stop.sizing.budget.total).map(Bytes::as_f64);
    each.chain(total).fold(1.0, f64::max)
}

fn scale_bytes(bytes: Bytes, widest: f64) -> f64 {
    bytes.as_f64() / widest * WIDE
}

fn scale_budget_parts(budget: &MemoryBudget, widest: f64) -> Vec<f64> {
    PARTS
        .iter()
        .map(|part| scale_bytes(part.part_bytes(budget).unwrap_or_default(), widest))
        .collect()
}

fn place_parts(parts: Option<&Vec<f64>>) -> impl Iterator<Item = (f64, f64)> {
    parts.into_iter().flatten().scan(0.0, |end, width| {
        let start = *end;
        *end += width;
        Some((start, *width))
    })
}
