//! An experiment on its way: rounds, variants in random order, pages made ready and given back.

use std::time::Instant;

use super::outline::{growth, switches};
use super::{Context, Experiment, Failure, Options, Outline, Progress, shuffled};
use hugewise_model::Bytes;

use crate::results::{Collector, ON_HUGE_PAGES, Reading};
use crate::variant::Variant;

/// An experiment on its way.
pub(super) struct Runner<'a> {
    experiment: &'a mut dyn Experiment,
    options: &'a Options,
    context: &'a Context<'a>,
    /// Variants that are still in it.
    variants: Vec<Variant>,
    pub(super) collector: Collector,
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
        Self { experiment, options, context, variants, collector: Collector::default(), notes, begun: Instant::now() }
    }

    pub(super) fn go(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), Failure> {
        self.experiment.prepare(self.context)?;
        let rounds = self.options.warm_ups.saturating_add(self.options.rounds);
        let mut done = 0;
        for round in 0..rounds {
            let warm_up = round < self.options.warm_ups;
            let order = shuffled(&self.variants, self.options.seed, round);
            for (at, pages) in order.iter().enumerate() {
                self.context.cancel.check()?;
                let in_round = u32::try_from(order.len()).unwrap_or(u32::MAX);
                let of = done + (in_round - u32::try_from(at).unwrap_or(0)) + (rounds - round - 1) * in_round;
                let elapsed = self.begun.elapsed();
                progress(&Progress {
                    pages: *pages,
                    round: if warm_up { round + 1 } else { round + 1 - self.options.warm_ups },
                    rounds: if warm_up { self.options.warm_ups } else { self.options.rounds },
                    warm_up,
                    done,
                    of,
                    elapsed,
                    left: elapsed.checked_div(done).unwrap_or_default() * (of - done),
                });
                self.once(*pages, warm_up)?;
                done += 1;
            }
            if self.variants.is_empty() {
                return Err(Failure::Unavailable(self.notes.join("; ")));
            }
        }
        Ok(())
    }

    fn once(&mut self, pages: Variant, warm_up: bool) -> Result<(), Failure> {
        match self.measured(pages) {
            Ok(readings) if warm_up => drop(readings),
            Ok(readings) => {
                self.note_shortage(pages, &readings);
                self.collector.add(self.experiment.name(), self.experiment.engine(), pages, readings);
            }
            Err(Failure::Unavailable(reason)) => {
                self.notes.push(format!("skipped {pages}: {reason}"));
                self.variants.retain(|variant| *variant != pages);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// What stands under huge pages and was in part on others is no figure of huge pages.
    fn note_shortage(&mut self, pages: Variant, readings: &[Reading]) {
        let Variant::Huge(_) = pages else { return };
        for reading in readings.iter().filter(|reading| reading.metric == ON_HUGE_PAGES) {
            let least = reading.values.iter().copied().fold(f64::INFINITY, f64::min);
            let Some(segment) = reading.segment_bytes.filter(|segment| least < Bytes(*segment).as_f64()) else {
                continue;
            };
            let on_huge = least / Bytes(segment).as_f64() * 100.0;
            let note = format!(
                "{pages}: only {on_huge:.0} % of the segment was on huge pages, and its other figures reflect that mixture"
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Has the pages ready, measures, and gives them back.
    fn measured(&mut self, pages: Variant) -> Result<Vec<Reading>, Failure> {
        let needs = self.experiment.needs(pages);
        self.context.room_for(needs.memory + growth(pages, &needs))?;
        if let Some(guard) = self.context.guard {
            if let Some(page) = pages.pool() {
                guard.provide(page, page.pages_for(needs.huge))?;
            }
            for (path, value) in switches(pages, needs.obeys) {
                guard.set_switch(&path, value)?;
            }
        }
        let readings = self.experiment.measure(pages, self.context);
        if let Some(guard) = self.context.guard {
            guard.give_back()?;
        }
        // What ended it is the cause of whatever else went wrong thereby.
        match readings {
            Err(Failure::Failed(what)) => {
                Err(self.context.cancel.check().err().map_or(Failure::Failed(what), Into::into))
            }
            readings => readings,
        }
    }
}
