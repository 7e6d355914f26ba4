//! A running experiment: rounds, variants in random order, pages provided and given back.

use std::time::Instant;

use super::outline::{pool_growth, switches_needed};
use super::{
    Context, Experiment, ExperimentFailure, ExperimentProgress, Options, Outline, shuffle_variants,
};
use hugewise_model::Bytes;

use crate::results::{MetricReading, ON_HUGE_PAGES, RunCollector};
use crate::variant::Variant;

pub(super) struct Runner<'a> {
    experiment: &'a mut dyn Experiment,
    options: &'a Options,
    context: &'a Context<'a>,
    variants: Vec<Variant>,
    pub(super) collector: RunCollector,
    pub(super) notes: Vec<String>,
    pub(super) begun: Instant,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        experiment: &'a mut dyn Experiment,
        options: &'a Options,
        plan: &Outline,
        context: &'a Context<'a>,
    ) -> Self {
        let (mut variants, mut notes) = (Vec::new(), Vec::new());
        for planned in &plan.variants {
            match &planned.left_out {
                None => variants.push(planned.pages),
                Some(reason) => notes.push(format!("skipped {}: {reason}", planned.pages)),
            }
        }
        Self {
            experiment,
            options,
            context,
            variants,
            collector: RunCollector::default(),
            notes,
            begun: Instant::now(),
        }
    }

    pub(super) fn run_rounds(
        &mut self,
        progress: &mut dyn FnMut(&ExperimentProgress),
    ) -> Result<(), ExperimentFailure> {
        self.experiment.prepare_host(self.context)?;
        let rounds = self.options.warm_ups.saturating_add(self.options.rounds);
        let mut done = 0;
        for round in 0..rounds {
            let warm_up = round < self.options.warm_ups;
            let order = shuffle_variants(&self.variants, self.options.seed, round);
            for (at, pages) in order.iter().enumerate() {
                self.context.cancel.check_running()?;
                let in_round = u32::try_from(order.len()).unwrap_or(u32::MAX);
                let number = done
                    + (in_round - u32::try_from(at).unwrap_or(0))
                    + (rounds - round - 1) * in_round;
                let elapsed = self.begun.elapsed();
                progress(&ExperimentProgress {
                    pages: *pages,
                    round: if warm_up { round + 1 } else { round + 1 - self.options.warm_ups },
                    rounds: if warm_up { self.options.warm_ups } else { self.options.rounds },
                    warm_up,
                    done,
                    of: number,
                    elapsed,
                    left: elapsed.checked_div(done).unwrap_or_default() * (number - done),
                });
                self.run_variant(*pages, warm_up)?;
                done += 1;
            }
            if self.variants.is_empty() {
                return Err(ExperimentFailure::Unavailable(self.notes.join("; ")));
            }
        }
        Ok(())
    }

    fn run_variant(&mut self, pages: Variant, warm_up: bool) -> Result<(), ExperimentFailure> {
        match self.measure_on_pages(pages) {
            Ok(readings) if warm_up => drop(readings),
            Ok(readings) => {
                self.note_shortage(pages, &readings);
                self.collector.add(
                    self.experiment.name(),
                    self.experiment.engine(),
                    pages,
                    readings,
                );
            }
            Err(ExperimentFailure::Unavailable(reason)) => {
                self.notes.push(format!("skipped {pages}: {reason}"));
                self.variants.retain(|variant| *variant != pages);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn note_shortage(&mut self, pages: Variant, readings: &[MetricReading]) {
        let Variant::Huge(_) = pages else { return };
        for reading in readings.iter().filter(|reading| reading.metric == ON_HUGE_PAGES) {
            let least = reading.values.iter().copied().fold(f64::INFINITY, f64::min);
            let Some(segment) =
                reading.segment_bytes.filter(|segment| least < Bytes(*segment).as_f64())
            else {
                continue;
            };
            let on_huge = least / Bytes(segment).as_f64() * 100.0;
            let note = format!(
                "{pages}: only {on_huge:.0} % of the segment was on huge pages, and its other \
                 figures reflect that mixture"
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    fn measure_on_pages(
        &mut self,
        pages: Variant,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let needs = self.experiment.resource_needs(pages);
        self.context.room_for(needs.memory + pool_growth(pages, &needs))?;
        if let Some(guard) = self.context.guard {
            if let Some(page) = pages.pool_page_size() {
                guard.provide_pages(page, page.pages_for(needs.huge))?;
            }
            for (path, value) in switches_needed(pages, needs.obeys) {
                guard.set_switch(&path, value)?;
            }
        }
        let readings = self.experiment.measure_variant(pages, self.context);
        if let Some(guard) = self.context.guard {
            guard.give_back()?;
        }
        // A stop is the cause of whatever else failed.
        match readings {
            Err(ExperimentFailure::Failed(what)) => Err(self
                .context
                .cancel
                .check_running()
                .err()
                .map_or(ExperimentFailure::Failed(what), Into::into)),
            readings => readings,
        }
    }
}
