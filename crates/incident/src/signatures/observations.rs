//! A host's series as signatures and incidents look at them: what is asked of them again and again is reckoned once.

use std::cell::OnceCell;

use hugewise_model::Bytes;

use super::late;
use super::rows::Rows;
use crate::page::Page;
use crate::series::Column;
use crate::{History, Metric, Moment};

/// All that is known of a host, made ready.
pub(crate) struct Observations<'a> {
    pub(crate) history: &'a History,
    /// Of each series.
    pub(crate) rows: Vec<Rows<'a>>,
    /// MemTotal.
    pub(crate) memory: Option<f64>,
    /// The base page of the host.
    pub(crate) page: Page,
    late: OnceCell<Vec<(Moment, i64)>>,
}

impl<'a> Observations<'a> {
    pub(crate) fn of(history: &'a History) -> Self {
        let page = Page::of_host(history);
        Self {
            history,
            rows: history.series.iter().map(|series| Rows::of(series, page)).collect(),
            page,
            memory: memory(history),
            late: OnceCell::new(),
        }
    }

    /// How many processors the host has, from whichever source tells.
    pub(crate) fn processors(&self) -> Option<f64> {
        let told = self.rows.iter().filter_map(|rows| rows.column(Metric::Processors)?.iter().last());
        told.map(|(_, processors)| processors).find(|processors| *processors >= 1.0)
    }

    /// The most seconds that a row of any collector came late in a window.
    pub(crate) fn latest(&self, from: Moment, to: Moment) -> Option<i64> {
        let late = self.late.get_or_init(|| self.rows.iter().flat_map(late::lateness).collect());
        late.iter().filter(|(at, _)| from < *at && *at <= to).map(|(_, by)| *by).max()
    }
}

/// MemTotal, from whichever source has it.
fn memory(history: &History) -> Option<f64> {
    let of = |column: &Column| column.iter().next().map(|(_, total)| total);
    let told = history.series.iter().filter_map(|series| of(series.column(Metric::MemTotal)?));
    let captured = history.facts.as_ref().and_then(|facts| facts.memory).map(Bytes::as_f64);
    told.chain(captured).find(|total| *total > 0.0)
}
