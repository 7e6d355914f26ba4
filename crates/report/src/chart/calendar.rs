use hugewise_investigate::Moment;
use hugewise_model::calendar::civil_time;
use jiff::civil::DateTime;

/// Seconds between ticks: of a minute, an hour, a day; then days.
const STEPS: [i64; 27] = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10_800,
    21_600,
    43_200,
    86_400,
    172_800,
    432_000,
    864_000,
    1_728_000,
    2_592_000,
    7_776_000,
    15_552_000,
    31_536_000,
    315_360_000,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub at: Moment,
    pub label: String,
}

/// About `wanted` round times at most, on a clock `offset` seconds east of Greenwich.
pub(crate) fn calendar_ticks((from, to): (Moment, Moment), offset: i32, wanted: i64) -> Vec<Tick> {
    let length = to.0.saturating_sub(from.0).max(1);
    let fits = |step: &&i64| length / (**step * 1000) <= wanted.max(1);
    let step = STEPS.iter().find(fits).or(STEPS.last()).copied().unwrap_or(1) * 1000;
    let offset = i64::from(offset) * 1000;
    let first =
        from.0.saturating_add(offset).div_euclid(step).saturating_mul(step).saturating_sub(offset);
    (0..=length / step + 1)
        .filter_map(|tick| first.checked_add(tick.checked_mul(step)?))
        .filter(|at| (from.0..=to.0).contains(at))
        .take(64)
        .filter_map(|at| {
            let local = civil_time(at.checked_add(offset)?)?;
            let midnight = local.time() == jiff::civil::Time::midnight();
            let label = match midnight {
                true => format_day_month(local),
                false if step < 60_000 => {
                    format!("{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second())
                }
                false => format!("{:02}:{:02}", local.hour(), local.minute()),
            };
            Some(Tick { at: Moment(at), label })
        })
        .collect()
}

pub(crate) fn format_day_month(time: DateTime) -> String {
    time.strftime("%-d %b").to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(from: i64, seconds: i64, offset: i32) -> Vec<String> {
        let span = (Moment::from_seconds(from), Moment::from_seconds(from + seconds));
        calendar_ticks(span, offset, 6).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn times_are_round_where_the_host_is() {
        // 2026-03-02 00:00:00 UTC.
        let monday = 1_772_409_600;
        assert_eq!(labels(monday + 600, 85_200, 0), ["06:00", "12:00", "18:00"]);
        assert_eq!(labels(monday, 86_400, -5 * 3600), ["2 Mar", "06:00", "12:00", "18:00"]);
        assert_eq!(
            labels(monday + 5, 20, 0),
            ["00:00:05", "00:00:10", "00:00:15", "00:00:20", "00:00:25"]
        );
        assert_eq!(
            labels(monday, 3600, 0),
            ["2 Mar", "00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]
        );
        assert_eq!(labels(monday, 4 * 86_400, 0), ["2 Mar", "3 Mar", "4 Mar", "5 Mar", "6 Mar"]);
    }

    proptest! {
        #[test]
        fn an_axis_has_few_times_and_all_of_them_on_it(from: i64, length: i64, offset in -50_000_i32..50_000) {
            let span = (Moment(from), Moment(from.saturating_add(length)));
            let ticks = calendar_ticks(span, offset, 6);
            prop_assert!(ticks.len() <= 64);
            prop_assert!(ticks.iter().all(|tick| span.0 <= tick.at && tick.at <= span.1));
        }
    }
}
