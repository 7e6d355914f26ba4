//! A host's series as signatures and incidents look at them.

use std::cell::OnceCell;

use hugewise_model::Bytes;

use super::late_rows;
use super::rows::SeriesRows;
use crate::page::BasePage;
use crate::series::MetricColumn;
use crate::{IncidentHistory, Metric, Moment};

pub(crate) struct Observations<'a> {
    pub(crate) history: &'a IncidentHistory,
    pub(crate) rows: Vec<SeriesRows<'a>>,
    /// MemTotal.
    pub(crate) memory: Option<f64>,
    pub(crate) page: BasePage,
    late: OnceCell<Vec<(Moment, i64)>>,
}

impl<'a> Observations<'a> {
    pub(crate) fn new(history: &'a IncidentHistory) -> Self {
        let page = BasePage::of_host(history);
        Self {
            history,
            rows: history.series.iter().map(|series| SeriesRows::new(series, page)).collect(),
            page,
            memory: total_memory(history),
            late: OnceCell::new(),
        }
    }

    pub(crate) fn processor_count(&self) -> Option<f64> {
        let told =
            self.rows.iter().filter_map(|rows| rows.column(Metric::Processors)?.iter().last());
        told.map(|(_, processors)| processors).find(|processors| *processors >= 1.0)
    }

    pub(crate) fn worst_lateness(&self, from: Moment, to: Moment) -> Option<i64> {
        let late = self
            .late
            .get_or_init(|| self.rows.iter().flat_map(late_rows::measure_lateness).collect());
        late.iter().filter(|(at, _)| from < *at && *at <= to).map(|(_, by)| *by).max()
    }
}

fn total_memory(history: &IncidentHistory) -> Option<f64> {
    let value_of = |column: &MetricColumn| column.iter().next().map(|(_, total)| total);
    let told =
        history.series.iter().filter_map(|series| value_of(series.column(Metric::MemTotal)?));
    let captured = history.facts.as_ref().and_then(|facts| facts.memory).map(Bytes::as_f64);
    told.chain(captured).find(|total| *total > 0.0)
}
