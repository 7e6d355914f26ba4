//! When a log's lines were written: with a date, or by what the log itself says of its boot.

use super::boot_clock;
use super::prefix::LogLineTime;
use crate::gather::clock::year_of_moment;
use crate::readers::line_timestamp::LineTimestamp;
use crate::series::UnplacedTimes;
use crate::{Moment, Series};
use hugewise_model::calendar::midnight_seconds;

/// Milliseconds by which a line has to go back to begin another year.
const BACK: i64 = 180 * DAY;
const DAY: i64 = 86_400_000;
/// The year of logs without years: it has a 29th of February.
const SOME_YEAR: i64 = 2000;
/// Milliseconds by which seconds since boot have to go back to be of another boot: processors write
/// at once, and some lines come late.
const ANOTHER_BOOT: i64 = 60_000;

/// Lines of one boot, or before the first date, that wait for it.
#[derive(Debug, Default)]
struct WaitingLines {
    /// The first of their marks.
    marks: usize,
    span: Option<(Moment, Moment)>,
}

#[derive(Debug)]
pub(super) struct LogTimeline {
    /// The current year, counted from [`SOME_YEAR`] on.
    year: i64,
    /// Whether a line has the year: others without one are of the same, or of the next.
    knows_year: bool,
    /// The first midnight of lines without a day.
    day: i64,
    last: Option<Moment>,
    last_of_day: Option<i64>,
    /// Milliseconds between the boot's clock and the calendar's, once known.
    shift: Option<i64>,
    /// Milliseconds on the boot's clock, of the last line.
    since: i64,
    waiting: Option<WaitingLines>,
    /// Lines of boots whose date nothing tells.
    left_waiting: Vec<WaitingLines>,
    placed: bool,
    began: Option<Moment>,
    kind: Option<UnplacedTimes>,
}

impl LogTimeline {
    pub(super) fn new(began: Option<Moment>) -> Self {
        let day = began.map_or(0, |began| began.0 - began.0.rem_euclid(DAY));
        Self {
            year: SOME_YEAR,
            knows_year: false,
            day,
            last: None,
            last_of_day: None,
            shift: None,
            since: 0,
            waiting: None,
            left_waiting: Vec::new(),
            placed: false,
            began,
            kind: None,
        }
    }

    pub(super) const fn enter_year_of(&mut self, other: &Self) {
        (self.year, self.knows_year) = (other.year, other.knows_year);
    }

    /// The moment of a line, which for now may be that of no calendar.
    pub(super) fn place_line(
        &mut self,
        series: &mut Series,
        when: &LogLineTime,
        message: &str,
    ) -> Option<Moment> {
        let at = match when {
            LogLineTime::At(stamp) => {
                let at = stamp.moment_on_clock(series);
                if !series.without_year {
                    (self.year, self.knows_year) = (i64::from(year_of_moment(at)), true);
                }
                at
            }
            LogLineTime::OfSomeYear(month, day, of_day) => {
                let at = self.place_in_year(*month, *day, *of_day)?;
                if self.knows_year {
                    LineTimestamp::at_wall_clock(at).moment_on_clock(series)
                } else {
                    series.without_year = true;
                    at
                }
            }
            LogLineTime::OfSomeMinute(month, day, of_day) => {
                series.without_year = true;
                let at = self.place_in_year(*month, *day, *of_day)?;
                self.note_date(series, at, self.since);
                at
            }
            LogLineTime::OfSomeDay(of_day) => self.place_in_day(*of_day),
            LogLineTime::SinceBoot(since) => {
                return Some(self.place_since_boot(series, *since, message));
            }
            LogLineTime::Dated(date, since) => {
                let at = self.place_line(series, date, message)?;
                // Only for what waits: a console that adds dates is late at times.
                if self.waiting.is_some() {
                    self.note_date(series, at, *since);
                }
                return Some(at);
            }
            LogLineTime::SinceLine(since) => {
                self.since = self.since.saturating_add(*since);
                return Some(self.place_waiting(series, UnplacedTimes::SinceBoot));
            }
        };
        if !matches!(when, LogLineTime::OfSomeDay(_)) {
            self.last_of_day = None;
        }
        self.placed = true;
        self.last = Some(at);
        series.extend_coverage(at);
        Some(at)
    }

    /// The moment of lines that have none.
    pub(super) fn place_untimed(&mut self, series: &mut Series) -> Moment {
        if let Some(began) = self.began {
            self.placed = true;
            series.extend_coverage(began);
            return began;
        }
        self.place_waiting(series, UnplacedTimes::Untimed)
    }

    fn place_since_boot(&mut self, series: &mut Series, since: i64, message: &str) -> Moment {
        if self.since.saturating_sub(since) > ANOTHER_BOOT {
            self.shift = None;
            self.left_waiting.extend(self.waiting.take());
        }
        self.since = since;
        if let Some(epoch) = boot_clock::parse_epoch(message)
            && let Some(stamp) = LineTimestamp::parse(&(epoch / 1000).to_string())
        {
            let at = stamp.moment_on_clock(series);
            let at = Moment(at.0.saturating_add(epoch % 1000));
            self.note_date(series, at, since);
        }
        self.place_waiting(series, UnplacedTimes::SinceBoot)
    }

    /// Places a line by the boot's clock, or lets it wait for a date.
    fn place_waiting(&mut self, series: &mut Series, kind: UnplacedTimes) -> Moment {
        if let Some(shift) = self.shift {
            let at = Moment(self.since.saturating_add(shift));
            self.last = Some(at);
            series.extend_coverage(at);
            return at;
        }
        self.kind = Some(kind);
        let at = Moment(self.since);
        let waiting =
            self.waiting.get_or_insert(WaitingLines { marks: series.marks.len(), span: None });
        let (from, to) = waiting.span.unwrap_or((at, at));
        waiting.span = Some((from.min(at), to.max(at)));
        at
    }

    /// Notes what the calendar showed at a moment of the boot's clock, and places what waited.
    fn note_date(&mut self, series: &mut Series, at: Moment, since: i64) {
        let shift = at.0.saturating_sub(since);
        self.shift = Some(shift);
        self.placed = true;
        let Some(waiting) = self.waiting.take() else { return };
        let moved = |at: Moment| Moment(at.0.saturating_add(shift));
        for mark in series.marks.iter_mut().skip(waiting.marks) {
            mark.at = moved(mark.at);
        }
        if let Some((from, to)) = waiting.span {
            series.extend_coverage(moved(from));
            series.extend_coverage(moved(to));
        }
    }

    fn place_in_year(&mut self, month: i64, day: i64, of_day: i64) -> Option<Moment> {
        let moment_of = |year| {
            Some(Moment(
                Moment::from_seconds(midnight_seconds(year, month, day)?).0.saturating_add(of_day),
            ))
        };
        let at = moment_of(self.year).or_else(|| moment_of(SOME_YEAR))?;
        let back = self.last.is_some_and(|last| last.0.saturating_sub(at.0) > BACK);
        if !back {
            return Some(at);
        }
        self.year += 1;
        moment_of(self.year)
    }

    fn place_in_day(&mut self, of_day: i64) -> Moment {
        // A line that was broken before its time, among others that have a day.
        if let Some(last) = self.last.filter(|_| self.last_of_day.is_none()) {
            self.day = last.0 - last.0.rem_euclid(DAY);
            self.last_of_day = Some(last.0.rem_euclid(DAY));
        } else if self.began.is_none() && self.last.is_none() {
            self.kind = Some(UnplacedTimes::OfSomeDay);
        }
        // After midnight; a line that came late does not begin the next day.
        if self.last_of_day.is_some_and(|last| last - of_day > DAY / 2) {
            self.day = self.day.saturating_add(DAY);
        }
        self.last_of_day = Some(of_day);
        Moment(self.day.saturating_add(of_day))
    }

    /// Leaves out lines whose date nothing tells, unless no line has one.
    pub(super) fn finish(mut self, series: &mut Series) {
        self.left_waiting.extend(self.waiting.take());
        if !self.placed {
            series.unplaced = self.kind;
            for (from, to) in self.left_waiting.iter().filter_map(|waiting| waiting.span) {
                series.extend_coverage(from);
                series.extend_coverage(to);
            }
            return;
        }
        if self.kind == Some(UnplacedTimes::OfSomeDay) {
            series.unplaced = self.kind;
        }
        if self.left_waiting.is_empty() {
            return;
        }
        series.add_problem("lines whose times are seconds since the kernel started are left out");
        // Moments of a boot's clock lie in the years around 1970.
        let (from, to) = series.covered.unwrap_or_default();
        series.marks.retain(|mark| (from..=to).contains(&mark.at));
    }
}
