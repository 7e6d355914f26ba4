//! How fast a pool grows at runtime, from memory as it is and from fragmented memory, and how far
//! surplus pages get.

use std::time::{Duration, Instant};

use hugewise_model::{Bytes, PageCount, PageSize};

use super::server::processor_count;
use crate::budget::{NotTold, ResourceGauge};
use crate::experiment::{Context, Experiment, ExperimentFailure, Needs};
use crate::fragment::Fragments;
use crate::guard::PoolGuard;
use crate::results::MetricReading;
use crate::segment::{MappedSegment, SegmentPages, SegmentSource};
use crate::variant::{Variant, base_page};

/// Steps in which a pool grows, each a sample and a chance to stop.
const STEPS: u64 = 16;
const LARGEST: Bytes = Bytes::from_gib(4);
/// Time for a gibibyte of pool in all three ways, and for a gibibyte of fragments.
const PER_GIB: Duration = Duration::from_millis(3000);
const FRAGMENT: Duration = Duration::from_millis(1500);

/// The experiment's settings.
#[derive(Clone, Debug)]
pub struct PoolExperiment {
    /// The page sizes; those without a pool are ignored.
    pub variants: Vec<Variant>,
    /// Memory that the pool is to get.
    pub size: Bytes,
    /// Free memory that is fragmented; zero for none.
    pub fragments: Bytes,
}

impl PoolExperiment {
    /// With a quarter of the spare memory, up to 4 GiB, and all free memory but the floor
    /// fragmented. Errors: the kernel does not tell how much memory there is.
    pub fn new(variants: Vec<Variant>, gauge: &ResourceGauge) -> Result<Self, NotTold> {
        let room = gauge.read()?;
        let size = room.spare_memory().shared_by(4).unwrap_or_default().min(LARGEST);
        // Free memory alone, so that no page cache is dropped, with a reserve.
        let free = gauge.read_free_memory().unwrap_or_default().min(room.available);
        let fragments =
            free.saturating_sub(room.memory_floor()).saturating_sub(Bytes::from_mib(256));
        Ok(Self { variants, size, fragments })
    }

    fn measure_pool_growth(
        &self,
        page: PageSize,
        case: &str,
        guard: &PoolGuard,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let wanted = PageCount(self.size.get() / page.bytes().get());
        let before = guard.pool_size(page)?;
        let (mut rates, mut got) = (Vec::new(), PageCount::ZERO);
        let begun = Instant::now();
        for step in 1..=STEPS {
            context.cancel.check_running()?;
            let target = PageCount(wanted.get() * step / STEPS);
            let missing = target.saturating_sub(got);
            if missing == PageCount::ZERO {
                continue;
            }
            context.room_for(missing.to_bytes(page))?;
            let started = Instant::now();
            let now = guard.ask_once(page, before + target)?.saturating_sub(before);
            let more = now.saturating_sub(got).to_bytes(page);
            rates.push(more.as_f64() / started.elapsed().as_secs_f64());
            got = now;
            if got < target {
                break;
            }
        }
        let took = begun.elapsed().as_secs_f64();
        guard.give_back()?;
        let mut readings = vec![
            MetricReading::higher_is_better("pool_got", "1", share_obtained(got, wanted))
                .with_case(case),
        ];
        if got >= wanted {
            // A part of the pool that comes sooner is not better.
            readings.push(MetricReading::lower_is_better("pool_time", "s", took).with_case(case));
            readings.push(
                MetricReading::higher_is_better("pool_growth", "B/s", 0.0)
                    .with_values(rates)
                    .with_case(case),
            );
        }
        Ok(readings)
    }

    /// Maps pages that no pool has: the kernel makes them at the reservation. Where it refuses,
    /// less is tried.
    fn measure_surplus_growth(
        &self,
        page: PageSize,
        case: &str,
        guard: &PoolGuard,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let wanted = PageCount(self.size.get() / page.bytes().get());
        let free = crate::kernel_values::available_pages(page).unwrap_or_default();
        if page > PageSize::MIB_2 && guard.set_overcommit(page, wanted).is_err() {
            // Gigantic pages cannot be made on demand (mm/hugetlb.c).
            return Ok(Vec::new());
        }
        guard.set_overcommit(page, wanted)?;
        let (mut pages, mut got) = (wanted, PageCount::ZERO);
        let mut rate = None;
        while pages > PageCount::ZERO {
            context.cancel.check_running()?;
            context.room_for(pages.to_bytes(page))?;
            let started = Instant::now();
            // The pool's free pages are taken first and are not surplus.
            match MappedSegment::create(
                SegmentSource::Private,
                (pages + free).to_bytes(page),
                SegmentPages::Huge(page),
            ) {
                Ok(segment) => {
                    rate = Some(pages.to_bytes(page).as_f64() / started.elapsed().as_secs_f64());
                    got = pages;
                    drop(segment);
                    break;
                }
                Err(_) => pages = PageCount(pages.get() * 3 / 4),
            }
        }
        guard.give_back()?;
        let mut readings = vec![
            MetricReading::higher_is_better("surplus_got", "1", share_obtained(got, wanted))
                .with_case(case),
        ];
        readings.extend(rate.map(|rate| {
            MetricReading::higher_is_better("surplus_growth", "B/s", rate).with_case(case)
        }));
        Ok(readings)
    }

    fn measure_pool_and_surplus(
        &self,
        page: PageSize,
        case: &str,
        guard: &PoolGuard,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let whole = context.gauge.free_in_blocks(page, base_page());
        let whole = whole.map(|free| {
            MetricReading::higher_is_better("free_in_blocks", "B", free.as_f64()).with_case(case)
        });
        let mut readings: Vec<_> = whole.into_iter().collect();
        readings.extend(self.measure_pool_growth(page, case, guard, context)?);
        readings.extend(self.measure_surplus_growth(page, case, guard, context)?);
        Ok(readings)
    }
}

impl Experiment for PoolExperiment {
    fn name(&self) -> &'static str {
        "pool"
    }
    fn engine(&self) -> &'static str {
        "memory"
    }
    fn variants(&self) -> Vec<Variant> {
        self.variants.iter().copied().filter(|variant| variant.pool_page_size().is_some()).collect()
    }

    fn resource_needs(&self, _: Variant) -> Needs {
        // An eighth of the fragments stays while the pool grows.
        let stays = self.fragments.shared_by(8).unwrap_or_default();
        let gibibytes = |bytes: Bytes| bytes.part_of(Bytes::from_gib(1)).unwrap_or(0.0);
        let threads = f64::from(processor_count());
        Needs {
            memory: self.fragments.max(stays + self.size),
            processes: 1,
            time: PER_GIB.mul_f64(gibibytes(self.size))
                + FRAGMENT.mul_f64(gibibytes(self.fragments) / threads),
            ..Needs::default()
        }
    }

    fn refusal_reason(&self) -> Option<String> {
        (!PoolGuard::may_change()).then(|| "only root can change the size of a pool".to_owned())
    }

    fn host_changes(&self) -> Vec<String> {
        let mut changes =
            vec![format!("grows pools and their overcommit by up to {}, several times", self.size)];
        if self.fragments > Bytes::ZERO {
            changes.push(format!(
                "takes {} of free memory and returns most of it in pieces",
                self.fragments
            ));
        }
        changes
    }

    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let Some(page) = variant.pool_page_size() else {
            return Err(ExperimentFailure::Unavailable(format!("{variant} pages have no pool")));
        };
        if page.bytes() > self.size {
            return Err(ExperimentFailure::Unavailable(format!(
                "{} is less than one {page} page",
                self.size
            )));
        }
        let guard = context.guard.ok_or_else(|| {
            ExperimentFailure::Unavailable("hugewise may not change the pools".to_owned())
        })?;
        let mut readings = self.measure_pool_and_surplus(page, "as it is", guard, context)?;
        if self.fragments > Bytes::ZERO {
            let threads = usize::try_from(processor_count()).unwrap_or(1);
            let fragments = Fragments::fragment_memory(self.fragments, threads, context)?;
            readings.extend(self.measure_pool_and_surplus(page, "fragmented", guard, context)?);
            drop(fragments);
        }
        Ok(readings.into_iter().map(|reading| reading.with_segment(self.size.get())).collect())
    }
}

fn share_obtained(got: PageCount, wanted: PageCount) -> f64 {
    Bytes(got.get()).part_of(Bytes(wanted.get())).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Cancel;
    use crate::kernel_values::{pool_file, read_value};
    use hugewise_testkit::require;

    #[test]
    fn a_pool_grows_step_by_step_and_is_as_before() {
        let guard = require!(PoolGuard::take_for_test());
        let (cancel, gauge) = (Cancel::never(), ResourceGauge::new());
        let context = Context {
            cancel: &cancel,
            gauge: &gauge,
            guard: Some(&guard),
            floor: Bytes::from_gib(1),
        };
        let file = |name| read_value(&pool_file(PageSize::MIB_2, name)).unwrap();
        let before = [file("nr_hugepages"), file("nr_overcommit_hugepages")];
        let mut pool = PoolExperiment {
            variants: vec![Variant::MIB_2],
            size: Bytes::from_mib(64),
            fragments: Bytes::from_mib(64),
        };
        let readings = pool.measure_variant(Variant::MIB_2, &context).unwrap();
        for case in ["as it is", "fragmented"] {
            let metric_reading_of = |metric| {
                readings
                    .iter()
                    .find(|one| one.metric == metric && one.case.as_deref() == Some(case))
            };
            // A machine that is full and fragmented may not have 64 MiB in one step each.
            let got = metric_reading_of("pool_got").unwrap().values[0];
            assert!((0.0..=1.0).contains(&got), "{got}");
            assert_eq!(
                metric_reading_of("pool_growth").map(|growth| growth.values.len()),
                (got == 1.0).then_some(16)
            );
            assert!((0.0..=1.0).contains(&metric_reading_of("surplus_got").unwrap().values[0]));
            assert!(metric_reading_of("free_in_blocks").unwrap().values[0] >= 0.0);
        }
        assert_eq!([file("nr_hugepages"), file("nr_overcommit_hugepages")], before);
        let none = PoolExperiment { size: Bytes::from_mib(1), ..pool.clone() }
            .measure_variant(Variant::MIB_2, &context);
        assert!(matches!(none, Err(ExperimentFailure::Unavailable(_))));
        assert!(matches!(
            pool.measure_variant(Variant::Base, &context),
            Err(ExperimentFailure::Unavailable(_))
        ));
    }
}
