//! Rows that came late, and by how much.
//!
//! A collector on a schedule (cron, a timer) is late by the phase of its rows, and its next sample
//! is on time again: late, then short. A loop of work and sleep drifts, so only its usual pace tells
//! a hole. Times between rows decide, not their intervals: `vmstat 1 3` every 30 s has two seconds.

use std::iter::StepBy;
use std::ops::Range;

use super::rows::{MINUTE, SECOND, SILENT, SeriesRows, whole_milliseconds};
use crate::baseline::{FEWEST, median_of};
use crate::{CollectedTool, Moment, SignatureStrength, SourceFormat};

/// On hosts at ease, samples of cron were up to 3 s late, those of systemd's timers 9.
const TOLERANCE: i64 = 15 * SECOND;
/// Or so many median deviations, where a timer is lax.
const DEVIATIONS: i64 = 6;
/// Part of the rows that must keep the phase of a schedule.
const KEEP: f64 = 0.75;
/// As late as this is clear.
const LATE: i64 = MINUTE;
/// A loop's hole: so many times its usual pace, and a moment more.
const HOLE: f64 = 1.5;
const MOMENT: i64 = 5 * SECOND;
const MOST_LEARNT: usize = 1500;
/// A longer hole is a collector that was off.
const OFF: i64 = 120 * MINUTE;

pub(super) struct Late {
    pub(super) row: usize,
    /// Milliseconds.
    pub(super) by: i64,
    pub(super) strength: SignatureStrength,
    pub(super) what: String,
    pub(super) caveat: Option<&'static str>,
}

pub(super) fn measure_lateness(rows: &SeriesRows<'_>) -> Vec<(Moment, i64)> {
    find_late_rows(rows)
        .into_iter()
        .map(|late| (rows.moment_at(late.row), late.by / SECOND))
        .collect()
}

pub(super) fn find_late_rows(rows: &SeriesRows<'_>) -> Vec<Late> {
    let mut found = Vec::new();
    for (judged, learnt) in rows.split_by_day() {
        let learnt = learnt.clone().step_by(learnt.len().div_ceil(MOST_LEARNT).max(1));
        let mut apart: Vec<f64> = learnt
            .clone()
            .filter_map(|row| rows.since_before(row))
            .map(|apart| apart as f64)
            .collect();
        if apart.len() < FEWEST {
            continue;
        }
        let period = median_of(&mut apart).map_or(0, whole_milliseconds).clamp(0, OFF);
        let schedule = Schedule::learn_schedule(rows, learnt, period);
        for row in judged {
            found.extend(match &schedule {
                Some(schedule) => schedule.check_row(rows, row),
                None => detect_gap(rows, row, period),
            });
        }
    }
    found
}

struct Schedule {
    period: i64,
    phase: i64,
    tolerance: i64,
}

impl Schedule {
    /// The phase that most rows keep. Schedules are of whole minutes; samples are off by seconds.
    fn learn_schedule(
        rows: &SeriesRows<'_>,
        learnt: StepBy<Range<usize>>,
        period: i64,
    ) -> Option<Self> {
        let told = period;
        let period = (period + MINUTE / 2) / MINUTE * MINUTE;
        if period < MINUTE || (period - told).abs() > MOMENT {
            return None;
        }
        const BINS: i64 = 60;
        let mut counts = [0u32; 60];
        let places = || learnt.clone().map(|row| rows.moment_at(row).0.rem_euclid(period));
        for place in places() {
            if let Some(count) =
                usize::try_from(place * BINS / period).ok().and_then(|bin| counts.get_mut(bin))
            {
                *count += 1;
            }
        }
        let (fullest, _) = (0i64..).zip(counts).max_by_key(|(_, count)| *count)?;
        let center = fullest * period / BINS + period / BINS / 2;
        let off = |place: i64| (place - center + period / 2).rem_euclid(period) - period / 2;
        let mut offs: Vec<f64> = places().map(|place| off(place) as f64).collect();
        let middle = median_of(&mut offs)?;
        offs.iter_mut().for_each(|off| *off = (*off - middle).abs());
        let tolerance = TOLERANCE.max(DEVIATIONS * whole_milliseconds(median_of(&mut offs)?));
        let kept = offs.iter().filter(|off| **off <= tolerance as f64).count();
        let keeps = kept as f64 >= KEEP * offs.len() as f64 && tolerance <= period / 4;
        keeps.then(|| Self {
            period,
            phase: (center + whole_milliseconds(middle)).rem_euclid(period),
            tolerance,
        })
    }

    fn check_row(&self, rows: &SeriesRows<'_>, row: usize) -> Option<Late> {
        let apart = rows.since_before(row)?;
        let at = rows.moment_at(row).0;
        // The row before may have been late itself, and belongs to the slot before it.
        let before = at.saturating_sub(apart).saturating_add(self.tolerance - self.phase);
        let due = before
            .div_euclid(self.period)
            .saturating_add(1)
            .saturating_mul(self.period)
            .saturating_add(self.phase);
        let by = at.saturating_sub(due);
        if by <= self.tolerance {
            return None;
        }
        let next = rows.since_before(row + 1);
        let on_time = by.rem_euclid(self.period);
        let missed = on_time.min(self.period - on_time) <= self.tolerance
            && by >= self.period - self.tolerance;
        if missed {
            let missing = by.saturating_add(self.tolerance) / self.period;
            return Some(Late {
                row,
                by,
                strength: if is_silence(by, apart) && missing > 1 {
                    SignatureStrength::Strong
                } else {
                    SignatureStrength::Weak
                },
                what: format!(
                    "{missing} samples on the schedule of {} s are missing before this one",
                    self.period / SECOND
                ),
                caveat: Some(
                    "where samples are missing altogether, collection may have been switched off",
                ),
            });
        }
        let short = next.map(|next| next <= self.period - on_time / 2);
        let after = next.filter(|_| short == Some(true));
        let after =
            after.map(|next| format!("; the next came after {} s, on time again", next / SECOND));
        Some(Late {
            row,
            by,
            strength: if by >= LATE && short != Some(false) {
                SignatureStrength::Clear
            } else {
                SignatureStrength::Weak
            },
            what: format!(
                "the sample came {} s late on a schedule of {} s{}",
                by / SECOND,
                self.period / SECOND,
                after.unwrap_or_default()
            ),
            caveat: (short == Some(false)).then_some(
                "the next sample was just as late: somebody may have moved the schedule",
            ),
        })
    }
}

/// Whether a silence is long enough to be an event, and too short for a collector that was off.
const fn is_silence(by: i64, apart: i64) -> bool {
    by >= SILENT && apart <= OFF
}

fn detect_gap(rows: &SeriesRows<'_>, row: usize, period: i64) -> Option<Late> {
    let apart = rows.since_before(row)?;
    if apart <= whole_milliseconds(HOLE * period as f64) + MOMENT {
        return None;
    }
    let by = apart - period;
    let (command, why) = match rows.series.format {
        // OSWatcher runs these in its loop; the others are skipped while they hang.
        SourceFormat::OsWatcher(CollectedTool::Meminfo | CollectedTool::Slabinfo) => {
            (false, "the loop itself stalled")
        }
        SourceFormat::OsWatcher(_) => (true, "that command hung, or the loop did"),
        _ => (false, "the loop stalled"),
    };
    let clear = by >= (2 * period).clamp(TOLERANCE, LATE) && apart <= OFF && !command;
    Some(Late {
        row,
        by,
        strength: match clear {
            true if is_silence(by, apart) => SignatureStrength::Strong,
            true => SignatureStrength::Clear,
            false => SignatureStrength::Weak,
        },
        what: format!(
            "nothing for {} s, usually every {} s: {why}",
            apart / SECOND,
            period / SECOND
        ),
        caveat: (apart > OFF).then_some("a gap this long is more likely a collector that was off"),
    })
}
