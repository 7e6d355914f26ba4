//! How fast a pool can be had at runtime, from memory as it is and from memory broken into pieces on purpose, and how
//! far surplus pages get.

use std::time::{Duration, Instant};

use hugewise_model::{Bytes, PageCount, PageSize};

use super::server::processors;
use crate::budget::{Gauge, NotTold};
use crate::experiment::{Context, Experiment, Failure, Needs};
use crate::fragment::Fragments;
use crate::guard::PoolGuard;
use crate::results::Reading;
use crate::segment::{Kind, Pages, Segment};
use crate::variant::{Variant, base_page};

/// Steps in which a pool grows: each one is a sample, and a moment to end it.
const STEPS: u64 = 16;
/// The largest pool that is tried without being asked for.
const LARGEST: Bytes = Bytes::from_gib(4);
/// Time for one gibibyte of pool, the three ways together, and for a gibibyte of fragments.
const PER_GIB: Duration = Duration::from_millis(3000);
const FRAGMENT: Duration = Duration::from_millis(1500);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The page sizes; what has no pool is none of this experiment's.
    pub variants: Vec<Variant>,
    /// How much memory the pool shall get.
    pub size: Bytes,
    /// How much free memory is broken into pieces; nothing where it is zero.
    pub fragments: Bytes,
}

impl Pool {
    /// Up to 4 GiB, a quarter of what the host has to spare, and all free memory but the floor broken into pieces.
    ///
    /// # Errors
    /// Where the kernel does not tell how much memory there is.
    pub fn new(variants: Vec<Variant>, gauge: &Gauge) -> Result<Self, NotTold> {
        let room = gauge.read()?;
        let size = room.spare().shared_by(4).unwrap_or_default().min(LARGEST);
        // A page cache is not to be driven out for it: free memory alone, and a pool's worth left for what happens.
        let free = gauge.free().unwrap_or_default().min(room.available);
        let fragments = free.saturating_sub(room.floor()).saturating_sub(Bytes::from_mib(256));
        Ok(Self { variants, size, fragments })
    }

    /// Grows the pool step by step. A step that brings nothing is the last one.
    fn grow(
        &self,
        page: PageSize,
        case: &str,
        guard: &PoolGuard,
        context: &Context<'_>,
    ) -> Result<Vec<Reading>, Failure> {
        let wanted = PageCount(self.size.get() / page.bytes().get());
        let before = guard.pool(page)?;
        let (mut rates, mut got) = (Vec::new(), PageCount::ZERO);
        let begun = Instant::now();
        for step in 1..=STEPS {
            context.cancel.check()?;
            let target = PageCount(wanted.get() * step / STEPS);
            let missing = target.saturating_sub(got);
            if missing == PageCount::ZERO {
                continue;
            }
            context.room_for(missing.of(page))?;
            let started = Instant::now();
            let now = guard.ask_once(page, before + target)?.saturating_sub(before);
            let more = now.saturating_sub(got).of(page);
            rates.push(more.as_f64() / started.elapsed().as_secs_f64());
            got = now;
            if got < target {
                break;
            }
        }
        let took = begun.elapsed().as_secs_f64();
        guard.give_back()?;
        let mut readings = vec![Reading::higher("pool_got", "1", share(got, wanted)).case(case)];
        if got >= wanted {
            // Half a pool sooner had is not the better one.
            readings.push(Reading::lower("pool_time", "s", took).case(case));
            readings.push(Reading::higher("pool_growth", "B/s", 0.0).values(rates).case(case));
        }
        Ok(readings)
    }

    /// Maps pages that no pool holds: the kernel makes them when they are reserved. Less is tried where it refuses.
    fn surplus(
        &self,
        page: PageSize,
        case: &str,
        guard: &PoolGuard,
        context: &Context<'_>,
    ) -> Result<Vec<Reading>, Failure> {
        let wanted = PageCount(self.size.get() / page.bytes().get());
        let free = crate::values::available(page).unwrap_or_default();
        if page > PageSize::MIB_2 && guard.set_overcommit(page, wanted).is_err() {
            // Gigantic pages cannot be made on demand (mm/hugetlb.c).
            return Ok(Vec::new());
        }
        guard.set_overcommit(page, wanted)?;
        let (mut pages, mut got) = (wanted, PageCount::ZERO);
        let mut rate = None;
        while pages > PageCount::ZERO {
            context.cancel.check()?;
            context.room_for(pages.of(page))?;
            let started = Instant::now();
            // What the pool has free is taken first and would not be surplus.
            match Segment::create(Kind::Private, (pages + free).of(page), Pages::Huge(page)) {
                Ok(segment) => {
                    rate = Some(pages.of(page).as_f64() / started.elapsed().as_secs_f64());
                    got = pages;
                    drop(segment);
                    break;
                }
                Err(_) => pages = PageCount(pages.get() * 3 / 4),
            }
        }
        guard.give_back()?;
        let mut readings = vec![Reading::higher("surplus_got", "1", share(got, wanted)).case(case)];
        readings.extend(rate.map(|rate| Reading::higher("surplus_growth", "B/s", rate).case(case)));
        Ok(readings)
    }

    fn both(
        &self,
        page: PageSize,
        case: &str,
        guard: &PoolGuard,
        context: &Context<'_>,
    ) -> Result<Vec<Reading>, Failure> {
        let whole = context.gauge.free_in_blocks(page, base_page());
        let whole = whole.map(|free| Reading::higher("free_in_blocks", "B", free.as_f64()).case(case));
        let mut readings: Vec<_> = whole.into_iter().collect();
        readings.extend(self.grow(page, case, guard, context)?);
        readings.extend(self.surplus(page, case, guard, context)?);
        Ok(readings)
    }
}

impl Experiment for Pool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn engine(&self) -> &'static str {
        "memory"
    }

    fn variants(&self) -> Vec<Variant> {
        self.variants.iter().copied().filter(|variant| variant.pool().is_some()).collect()
    }

    fn needs(&self, _: Variant) -> Needs {
        // Of the fragments an eighth stays while the pool grows; both never stand side by side in full.
        let stays = self.fragments.shared_by(8).unwrap_or_default();
        let gibibytes = |bytes: Bytes| bytes.part_of(Bytes::from_gib(1)).unwrap_or(0.0);
        let threads = f64::from(processors());
        Needs {
            memory: self.fragments.max(stays + self.size),
            processes: 1,
            time: PER_GIB.mul_f64(gibibytes(self.size)) + FRAGMENT.mul_f64(gibibytes(self.fragments) / threads),
            ..Needs::default()
        }
    }

    fn refusal(&self) -> Option<String> {
        (!PoolGuard::may_change()).then(|| "only root can change the size of a pool".to_owned())
    }

    fn changes(&self) -> Vec<String> {
        let mut changes = vec![format!("grows pools and their overcommit by up to {}, several times", self.size)];
        if self.fragments > Bytes::ZERO {
            changes.push(format!("takes {} of free memory and returns most of it in pieces", self.fragments));
        }
        changes
    }

    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let Some(page) = variant.pool() else {
            return Err(Failure::Unavailable(format!("{variant} pages have no pool")));
        };
        if page.bytes() > self.size {
            return Err(Failure::Unavailable(format!("{} is less than one {page} page", self.size)));
        }
        let guard =
            context.guard.ok_or_else(|| Failure::Unavailable("hugewise may not change the pools".to_owned()))?;
        let mut readings = self.both(page, "as it is", guard, context)?;
        if self.fragments > Bytes::ZERO {
            let threads = usize::try_from(processors()).unwrap_or(1);
            let fragments = Fragments::make(self.fragments, threads, context)?;
            readings.extend(self.both(page, "fragmented", guard, context)?);
            drop(fragments);
        }
        Ok(readings.into_iter().map(|reading| reading.segment(self.size.get())).collect())
    }
}

fn share(got: PageCount, wanted: PageCount) -> f64 {
    Bytes(got.get()).part_of(Bytes(wanted.get())).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Cancel;
    use crate::require;
    use crate::values::{pool_file, value};

    #[test]
    fn a_pool_grows_step_by_step_and_is_as_before() {
        let guard = require!(PoolGuard::take());
        let (cancel, gauge) = (Cancel::never(), Gauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: Some(&guard), floor: Bytes::from_gib(1) };
        let file = |name| value(&pool_file(PageSize::MIB_2, name)).unwrap();
        let before = [file("nr_hugepages"), file("nr_overcommit_hugepages")];
        let mut pool =
            Pool { variants: vec![Variant::MIB_2], size: Bytes::from_mib(64), fragments: Bytes::from_mib(64) };
        let readings = pool.measure(Variant::MIB_2, &context).unwrap();
        for case in ["as it is", "fragmented"] {
            let of = |metric| readings.iter().find(|one| one.metric == metric && one.case.as_deref() == Some(case));
            // A machine that is full and fragmented may not have 64 MiB in one step each.
            let got = of("pool_got").unwrap().values[0];
            assert!((0.0..=1.0).contains(&got), "{got}");
            assert_eq!(of("pool_growth").map(|growth| growth.values.len()), (got == 1.0).then_some(16));
            assert!((0.0..=1.0).contains(&of("surplus_got").unwrap().values[0]));
            assert!(of("free_in_blocks").unwrap().values[0] >= 0.0);
        }
        assert_eq!([file("nr_hugepages"), file("nr_overcommit_hugepages")], before);
        let none = Pool { size: Bytes::from_mib(1), ..pool.clone() }.measure(Variant::MIB_2, &context);
        assert!(matches!(none, Err(Failure::Unavailable(_))));
        assert!(matches!(pool.measure(Variant::Base, &context), Err(Failure::Unavailable(_))));
    }
}
