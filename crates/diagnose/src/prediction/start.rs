//! One start of one server: what it asks for, what it finds, and what comes of it.

use hugewise_engines::{EngineKind, StartBehavior, Takes, TouchedAtStart};
use hugewise_model::instance::Mechanism;
use hugewise_model::{
    Bytes, Demand, Host, HugePageMode, HugePageUse, Instance, LinkState, NextStart, PageCount,
    PageSize,
};

use super::locking::predict_lock_refusal;
use super::segments::{
    Segments, ask_again, finds_essential_pages, pages_partly_taken, smallest_piece,
};
use super::stages::{Obstacle, StageForecast};
use super::supply::{FoundPages, NoSupply, Supplies};
use crate::cgroup::{ChargedBefore, HugetlbLimits, Shortage};
use crate::coverage::Coverage;
use crate::ipc_privileges::{IpcPrivileges, PrivilegeAlternatives};
use crate::memlock_charges::{self, MemlockNeeded};
use crate::wording::one_line;
use crate::{chain, demand};

/// What a mount, or another default of page sizes, makes of a start.
#[derive(Clone)]
pub(super) enum StartFit {
    Fits,
    /// It has pages of another size than the server would have now.
    Moves {
        request: NextStart,
        reason: String,
        /// What is in the way where these pages are not there.
        obstacle: Obstacle,
    },
    /// What comes of it without a word to the pools.
    Ends(StageForecast),
}

#[derive(Clone)]
pub(super) struct ServerStart<'a> {
    pub(super) instance: &'a Instance,
    pub(super) host: &'a Host,
    pub(super) request: NextStart,
    pub(super) fit: StartFit,
    pub(super) memlock: MemlockNeeded,
    pub(super) segments: Segments,
    pub(super) supplies: Supplies,
    /// What there is of memory for one that raises the pool itself; none where that is not known.
    pub(super) memory: Option<Bytes>,
    pub(super) limits: &'a HugetlbLimits,
    pub(super) others: ChargedBefore<'a>,
}

#[derive(Default)]
struct ObtainedPages {
    least: PageCount,
    most: PageCount,
    /// Pages that there are, of one that finds too few.
    too_few: PageCount,
    /// Whether it finds those without which it does not start, of one that insists.
    begins: bool,
    short: Option<String>,
    /// The limit that kills it once it touches more.
    endangered_by: Option<String>,
}

/// What a hugetlb limit makes of a start.
enum LimitEffect {
    Nothing,
    /// It starts with all its pages, and is killed when it touches too many.
    KillsLater(String),
    Decides(Coverage, String),
}

impl ServerStart<'_> {
    /// What the server asks for, on pages of the size that it gets.
    fn fitted_request(&self) -> &NextStart {
        match &self.fit {
            StartFit::Moves { request, .. } => request,
            StartFit::Fits | StartFit::Ends(_) => &self.request,
        }
    }

    pub(super) fn page_sizes(&self) -> impl Iterator<Item = PageSize> {
        let asks = self.request.asks_for_huge_pages() && !matches!(self.fit, StartFit::Ends(_));
        let demands = self.fitted_request().demands.iter().filter(move |_| asks);
        demands.map(|demand| demand.page_size).chain(self.tried_page().filter(move |_| asks))
    }

    /// The size of the page that tells it whether there are huge pages.
    fn tried_page(&self) -> Option<PageSize> {
        let tries = (start_behavior(self.instance).tries_default_page)(self.instance);
        self.host.default_huge_page.get().filter(|_| tries)
    }

    /// Whether a Java machine switches large pages off because there is not one.
    fn goes_without(&self, found: PageCount, supplies: &Supplies) -> bool {
        let tried = self.tried_page().and_then(|page| supplies.get(&page)?.as_ref().ok());
        (start_behavior(self.instance).goes_without_any)(self.instance)
            && found + tried.map(|tried| tried.pages).unwrap_or_default() == PageCount::ZERO
    }

    pub(super) fn predict(&self, privileges: &IpcPrivileges) -> StageForecast {
        if let StartFit::Ends(forecast) = &self.fit
            && self.request.asks_for_huge_pages()
        {
            return forecast.clone();
        }
        let forecast = self
            .check_settings()
            .or_else(|| self.check_permission(privileges))
            .unwrap_or_else(|| self.predict_pages());
        let forecast = predict_lock_refusal(self.host, self.instance, privileges, &forecast)
            .unwrap_or(forecast);
        self.name_limit_of_pages(forecast)
    }

    fn check_settings(&self) -> Option<StageForecast> {
        let request = self.fitted_request();
        let setting = request.setting.as_ref().map(ToString::to_string);
        match request.asked {
            HugePageMode::No | HugePageMode::Cannot => {
                let refuses = (start_behavior(self.instance).refuses)(self.instance, request.asked);
                let coverage = if refuses { Coverage::DoesNotStart } else { Coverage::None };
                let why = setting.as_deref().unwrap_or("its settings don't ask for huge pages");
                Some(StageForecast::blocked(coverage, Obstacle::Settings, why))
            }
            HugePageMode::Unknown => {
                let why = setting.as_deref().unwrap_or("its settings could not be read");
                Some(StageForecast::unknown(why))
            }
            HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises => {
                let is_open = request.demands.is_empty();
                is_open.then(|| StageForecast::unknown("its demand is not known"))
            }
        }
    }

    fn check_permission(&self, privileges: &IpcPrivileges) -> Option<StageForecast> {
        // Without its segments it is down, whatever its right to huge pages.
        if let Segments::Refused(why) = &self.segments
            && start_behavior(self.instance).only_shm
        {
            let coverage = Coverage::DoesNotStart;
            return Some(StageForecast::blocked(coverage, Obstacle::Segments, why));
        }
        let refused = coverage_without_pages(self.fitted_request().asked);
        match check_right(self.host, self.instance, privileges, self.memlock) {
            (LinkState::Ok, _) => {}
            (LinkState::Unknown, why) => return Some(StageForecast::unknown(why)),
            (LinkState::Broken, why) => {
                return Some(StageForecast::blocked(refused, Obstacle::Right, why));
            }
        }
        match &self.segments {
            Segments::Fit => None,
            // Where it gets no pages with its segments either, that makes no difference.
            Segments::Unknown(_) if self.predict_pages().coverage == self.without_segments() => {
                None
            }
            Segments::Unknown(why) => Some(StageForecast::unknown(why)),
            Segments::Refused(why) => {
                Some(StageForecast::blocked(refused, Obstacle::Segments, why))
            }
        }
    }

    fn without_segments(&self) -> Coverage {
        match start_behavior(self.instance).only_shm {
            true => Coverage::DoesNotStart,
            false => coverage_without_pages(self.fitted_request().asked),
        }
    }

    pub(super) fn surely_has_right(&self, ways: &PrivilegeAlternatives) -> bool {
        ways.all_alternatives().all(|privileges| {
            check_right(self.host, self.instance, privileges, self.memlock).0 == LinkState::Ok
        })
    }

    /// What comes of the pages that it finds, as far as the errors of estimates make no difference.
    fn predict_pages(&self) -> StageForecast {
        let demands = &self.fitted_request().demands;
        let told = self.predict_exactly(demands, &self.supplies);
        if told.rank().is_none() {
            return told;
        }
        let straddles = demands.iter().find_map(|demand| self.describe_uncertain_fit(demand));
        let is_exact = |demand: &Demand| demand.at_least().pages == demand.at_most().pages;
        if straddles.is_none() && demands.iter().all(is_exact) {
            return told;
        }
        let most: Vec<Demand> = demands.iter().map(Demand::at_most).collect();
        let least: Vec<Demand> = demands.iter().map(Demand::at_least).collect();
        let mut most_found = self.supplies.clone();
        for found in most_found.values_mut().flatten() {
            *found = found.at_most();
        }
        let variants = [
            (&most, &self.supplies),
            (&least, &self.supplies),
            (&most, &most_found),
            (&least, &most_found),
        ];
        let differs = variants
            .into_iter()
            .map(|(demands, supplies)| self.predict_exactly(demands, supplies))
            .find(|other| other.coverage != told.coverage);
        match (differs, straddles) {
            (None, _) => told,
            (Some(_), Some(why)) => StageForecast::blocked(Coverage::Unknown, Obstacle::Pages, why),
            (Some(other), None) => {
                let obstacle = told.obstacle.or(other.obstacle);
                let why = told.why.or(other.why).unwrap_or_default();
                let unknown =
                    StageForecast::unknown(format_args!("its demand is an estimate: {why}"));
                StageForecast { obstacle, ..unknown }
            }
        }
    }

    fn predict_exactly(&self, demands: &[Demand], supplies: &Supplies) -> StageForecast {
        let told = self.predict_as_found(demands, supplies);
        let with_each = |change: fn(&FoundPages) -> FoundPages| {
            let changed = supplies.iter().map(|(page, supply)| {
                (*page, supply.as_ref().map(change).map_err(NoSupply::clone))
            });
            self.predict_as_found(demands, &changed.collect())
        };
        // Whether others take some of the pages makes no difference where the same comes of both.
        if told.rank().is_none() && supplies.values().flatten().any(FoundPages::is_doubtful) {
            let best = with_each(FoundPages::without_doubt);
            if best.rank().is_some() && best.coverage == with_each(FoundPages::at_worst).coverage {
                return best;
            }
        }
        told
    }

    fn predict_as_found(&self, demands: &[Demand], supplies: &Supplies) -> StageForecast {
        let demands = &ask_again(self.instance, demands, supplies);
        match self.obtain_pages(demands, supplies) {
            Err(settled) => settled,
            Ok(ObtainedPages { most, too_few, begins, short: Some(why), .. }) => {
                let insists = self.fitted_request().asked == HugePageMode::Must && !begins;
                let coverage = match most {
                    _ if insists && !self.goes_without(most + too_few, supplies) => {
                        Coverage::DoesNotStart
                    }
                    PageCount::ZERO => Coverage::None,
                    _ => Coverage::Partly,
                };
                StageForecast::blocked(coverage, Obstacle::Pages, why)
            }
            Ok(_) if self.instance.asks_in_part() => {
                let why = "it asks for huge pages for a part of its memory";
                StageForecast::blocked(Coverage::Partly, Obstacle::Settings, why)
            }
            Ok(obtained) => match (self.perhaps_short(supplies), obtained.endangered_by) {
                (Some(why), _) => StageForecast::unknown(why),
                (None, Some(why)) => StageForecast::blocked(Coverage::All, Obstacle::Cgroup, why),
                (None, None) => StageForecast::ALL,
            },
        }
    }

    /// What it gets of all that it asks for; an error is what comes of the start whatever it gets.
    fn obtain_pages(
        &self,
        demands: &[Demand],
        supplies: &Supplies,
    ) -> Result<ObtainedPages, StageForecast> {
        let mut all = ObtainedPages::default();
        for demand in demands {
            let obtained = self.obtain_of_pool(demand, supplies)?;
            // The limit of its cgroup counts for pages that are there to be had.
            let danger = self.check_cgroup(demand, &obtained)?;
            all.endangered_by = all.endangered_by.or(danger);
            all.most = all.most + obtained.most;
            all.too_few = all.too_few + obtained.too_few;
            all.begins |= obtained.begins;
            all.short = all.short.or(obtained.short);
        }
        Ok(all)
    }

    fn obtain_of_pool(
        &self,
        demand: &Demand,
        supplies: &Supplies,
    ) -> Result<ObtainedPages, StageForecast> {
        let found = match supplies.get(&demand.page_size) {
            None => {
                let why = format!("pages of {}: not known", demand.page_size);
                return Err(StageForecast::unknown(why));
            }
            Some(Err(NoSupply::Unknown(why))) => return Err(StageForecast::unknown(why)),
            Some(Err(NoSupply::NoPool(why))) => {
                return Ok(ObtainedPages { short: Some(why.clone()), ..ObtainedPages::default() });
            }
            Some(Ok(found)) => found,
        };
        let needed = || demand.pages.in_pages_of(demand.page_size);
        if found.pages < demand.pages {
            return Ok(self.obtain_of_too_few(demand, found));
        }
        if let Some(taken) = found.perhaps.iter().find(|taken| taken.left < demand.pages) {
            let (left, why) = (taken.left, &taken.why);
            let why = format!("{why}: that may leave {left} of the {} needed", needed());
            return Err(StageForecast { obstacle: taken.obstacle, ..StageForecast::unknown(why) });
        }
        if found.sure < demand.pages {
            let late = demand.pages.saturating_sub(found.sure);
            return Err(StageForecast::unknown(format_args!(
                "{late} of its {} {} asked for late in the boot{}",
                needed(),
                late.linking_verb(),
                found.note
            )));
        }
        Ok(ObtainedPages { least: demand.pages, most: demand.pages, ..ObtainedPages::default() })
    }

    fn obtain_of_too_few(&self, demand: &Demand, found: &FoundPages) -> ObtainedPages {
        let (page, pages) = (demand.page_size, found.pages);
        let lacking = demand.pages.saturating_sub(pages);
        let too_few = pages;
        if can_raise_pool(self.memory, self.fitted_request(), lacking, page)
            || can_begin(self.instance, page, pages, demand.pages)
        {
            let (least, most) = (demand.pages, demand.pages);
            return ObtainedPages {
                least,
                most,
                too_few,
                begins: true,
                ..ObtainedPages::default()
            };
        }
        let begins = finds_essential_pages(self.instance, page, pages);
        let takes_some = (takes_part(self.instance, self.fitted_request()) || begins)
            && pages >= smallest_piece(self.instance, page);
        let (least, most) = if takes_some {
            pages_partly_taken(self.instance, page, pages)
        } else {
            (PageCount::ZERO, PageCount::ZERO)
        };
        let why = format!("needs {} and finds {pages}{}", demand::in_words(demand), found.note);
        ObtainedPages { least, most, too_few, begins, short: Some(why), endangered_by: None }
    }

    /// What a limit that does not keep it from starting threatens it with afterwards.
    fn check_cgroup(
        &self,
        demand: &Demand,
        gets: &ObtainedPages,
    ) -> Result<Option<String>, StageForecast> {
        let (coverage, why) = match self.meet_cgroup_limit(demand, gets.most)? {
            LimitEffect::Nothing => return Ok(None),
            LimitEffect::KillsLater(why) => return Ok(Some(why)),
            LimitEffect::Decides(coverage, why) => (coverage, why),
        };
        let least = self.meet_cgroup_limit(demand, gets.least)?;
        Err(match coverage {
            // Which of its stretches find room decides.
            Coverage::DoesNotStart
                if !matches!(least, LimitEffect::Decides(Coverage::DoesNotStart, _)) =>
            {
                let why = format!("{why}, and how much of what is there it takes is not known");
                StageForecast::blocked(Coverage::Unknown, Obstacle::Cgroup, why)
            }
            _ => StageForecast::blocked(coverage, Obstacle::Cgroup, why),
        })
    }

    /// As the kernel goes about it: a mapping is held against the reservation limit, and what is
    /// touched of it against the fault limit.
    fn meet_cgroup_limit(
        &self,
        demand: &Demand,
        pages: PageCount,
    ) -> Result<LimitEffect, StageForecast> {
        if pages == PageCount::ZERO {
            return Ok(LimitEffect::Nothing);
        }
        let page = demand.page_size;
        let meet = |pages| {
            let demand = Demand { pages, ..demand.clone() };
            let met = self.limits.shortages_at_start(self.instance, &demand, self.others);
            met.map_err(StageForecast::unknown)
        };
        let short = meet(pages)?;
        let Some(refused) = short.reserved else {
            let touched = short.touched.map(|short| self.touch_beyond(&short));
            return Ok(touched.unwrap_or(LimitEffect::Nothing));
        };
        let piece = smallest_piece(self.instance, page).to_bytes(page);
        let why = refused.in_words();
        if !takes_part(self.instance, self.fitted_request()) || piece > refused.room {
            let coverage = coverage_without_pages(self.fitted_request().asked);
            return Ok(LimitEffect::Decides(coverage, why));
        }
        let mapped = PageCount(refused.room.get() / page.bytes().get());
        let touched = meet(mapped)?.touched.map(|short| self.touch_beyond(&short));
        Ok(match touched {
            Some(LimitEffect::Decides(coverage, why)) => LimitEffect::Decides(coverage, why),
            _ => LimitEffect::Decides(Coverage::Partly, why),
        })
    }

    /// All that it asks for is mapped, and a fault limit allows it less than that.
    fn touch_beyond(&self, short: &Shortage) -> LimitEffect {
        let (page, why) = (short.page_size.bytes(), short.in_words());
        let touches = (start_behavior(self.instance).touches)(self.instance, short.demand);
        // Where two stretches meet, a page belongs to both.
        let fits = |most: Bytes| most + page + page <= short.room;
        match touches {
            _ if short.room < page => LimitEffect::Decides(Coverage::DoesNotStart, why),
            TouchedAtStart::All => LimitEffect::Decides(Coverage::DoesNotStart, why),
            TouchedAtStart::AtMost(most) if fits(most) => LimitEffect::KillsLater(why),
            _ if self.has_started_below(short) => LimitEffect::KillsLater(why),
            _ => {
                let why = format!("{why}, and how much it touches as it starts is not known");
                LimitEffect::Decides(Coverage::Unknown, why)
            }
        }
    }

    /// It runs with all of these pages, and has touched no more of them than the limit allows.
    fn has_started_below(&self, short: &Shortage) -> bool {
        let held = demand::pages_mapped(self.instance, short.page_size);
        self.instance.huge_pages == HugePageUse::All
            && held.to_bytes(short.page_size) >= short.demand
            && (short.page_size.bytes()..=short.room).contains(&short.charged)
    }

    /// Files may have been changed since its start, by less than mappings tell.
    fn perhaps_short(&self, supplies: &Supplies) -> Option<String> {
        let demands = &self.fitted_request().demands;
        self.instance.possible_demands.iter().find_map(|perhaps| {
            let takes = demands.iter().any(|demand| demand.page_size == perhaps.page_size);
            let page = demands.first().filter(|_| !takes).unwrap_or(perhaps).page_size;
            let most = page.pages_for(perhaps.pages.to_bytes(perhaps.page_size));
            let FoundPages { pages, note, .. } = supplies.get(&page)?.as_ref().ok()?;
            let tells = EngineKind::for_engine(self.instance.engine).settings.tells_demand;
            let (needs, finds) = (most.in_pages_of(page), format!("finds {pages}{note}: {tells}"));
            (*pages < most).then(|| match self.instance.is_stopped() {
                true => format!("going by its files it may need up to {needs}, and {finds}"),
                false => format!(
                    "its files may ask for {needs}, if they were changed since it started; it \
                     {finds}"
                ),
            })
        })
    }

    /// Where the bounds of a demand and of what it finds leave open whether that is enough.
    fn describe_uncertain_fit(&self, demand: &Demand) -> Option<String> {
        let FoundPages { pages, up_to, note, .. } =
            self.supplies.get(&demand.page_size)?.as_ref().ok()?;
        let (least, most) = (demand.at_least().pages, demand.at_most().pages);
        if *pages >= most || (least == most && pages == up_to) {
            return None;
        }
        let in_pages = most.in_pages_of(demand.page_size);
        let needs = if least == most { in_pages } else { format!("{least} to {in_pages}") };
        let finds = if pages == up_to { pages.to_string() } else { format!("{pages} to {up_to}") };
        // What others leave it hangs on estimates of theirs.
        let tells = match EngineKind::for_engine(self.instance.engine).settings.tells_demand {
            tells if least < most && !tells.is_empty() => format!(": {tells}"),
            _ => String::new(),
        };
        Some(format!("may need {needs} and finds {finds}{note}{tells}"))
    }

    fn name_limit_of_pages(&self, mut forecast: StageForecast) -> StageForecast {
        if forecast.obstacle != Some(Obstacle::Pages) {
            return forecast;
        }
        if self.supplies.values().flatten().any(|found| found.limited_by_nodes) {
            forecast.obstacle = Some(Obstacle::Nodes);
        }
        if let StartFit::Moves { reason, obstacle, .. } = &self.fit {
            forecast.obstacle = Some(*obstacle);
            let why = forecast.why.unwrap_or_default();
            forecast.why = Some(one_line(&format!("{reason}: {why}")));
        }
        forecast
    }
}

pub(super) const fn coverage_without_pages(asked: HugePageMode) -> Coverage {
    if matches!(asked, HugePageMode::Must) { Coverage::DoesNotStart } else { Coverage::None }
}

fn start_behavior(instance: &Instance) -> &'static StartBehavior {
    &EngineKind::for_engine(instance.engine).start
}

pub(super) fn takes_part(instance: &Instance, start: &NextStart) -> bool {
    let behavior = start_behavior(instance);
    let only = start.setting.as_ref().is_some_and(behavior.raises_or_fails);
    (start.asked == HugePageMode::Try || (start.asked == HugePageMode::Raises && !only))
        && (behavior.takes)(instance) != Takes::All
}

/// Whether a server that grows later finds the pages that it begins with.
pub(super) fn can_begin(
    instance: &Instance,
    page: PageSize,
    pages: PageCount,
    demand: PageCount,
) -> bool {
    pages > PageCount::ZERO
        && pages >= pages_to_begin_with(instance, page, demand)
        && pages < demand
        && (start_behavior(instance).grows)(instance)
}

/// One that grows begins on huge pages with some, and takes the others later.
fn pages_to_begin_with(instance: &Instance, page: PageSize, demand: PageCount) -> PageCount {
    if let Some(first) = (start_behavior(instance).begins_with)(instance, page, demand) {
        return first;
    }
    let held = demand::pages_mapped(instance, page);
    let own: PageCount =
        instance.demands().filter(|own| own.page_size == page).map(|own| own.pages).sum();
    // One that has all that its settings come to took it at once, and will again.
    let grows = (start_behavior(instance).grows)(instance) && (held < own || demand <= own);
    if grows && instance.huge_pages == HugePageUse::All && held > PageCount::ZERO {
        held.min(demand)
    } else {
        demand
    }
}

pub(super) fn can_raise_pool(
    memory: Option<Bytes>,
    start: &NextStart,
    lacking: PageCount,
    page: PageSize,
) -> bool {
    start.asked == HugePageMode::Raises
        && memory.is_some_and(|memory| lacking.to_bytes(page) <= memory)
}

/// Whether the kernel is known to refuse a server all huge pages, were it the first of its user's.
pub(super) fn is_refused(host: &Host, instance: &Instance, ways: &PrivilegeAlternatives) -> bool {
    let needs = MemlockNeeded::without_others(memlock_charges::own_segment_bytes(host, instance));
    ways.all_alternatives()
        .all(|privileges| check_right(host, instance, privileges, needs).0 == LinkState::Broken)
}

fn check_right(
    host: &Host,
    instance: &Instance,
    privileges: &IpcPrivileges,
    memlock: MemlockNeeded,
) -> (LinkState, String) {
    // One that is only described is nobody's yet.
    let is_described = instance.pid == 0 && !instance.is_stopped();
    if instance.mechanism == Mechanism::SysvShm && !is_described {
        chain::check_sysv_permission(host, instance, privileges, memlock)
    } else {
        (LinkState::Ok, String::new())
    }
}
