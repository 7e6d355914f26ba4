//! How far a host's clock was ahead, by its own time daemon.

use hugewise_host::Source;

use crate::verdict::ClockSkew;

/// Seconds: a clock that is farther off is in another zone, or no clock.
const MOST: f64 = 86_400.0;

const CHRONY: [&str; 2] =
    ["/sos_commands/chrony/chronyc_tracking", "/sos_commands/chrony/chronyc_-n_tracking"];
const NTP: [&str; 2] = ["/sos_commands/ntp/ntpq_-p", "/sos_commands/ntp/ntpq_-pn"];

pub(super) fn skew_milliseconds(seconds: f64) -> Option<i64> {
    // Of at most a day: it fits.
    #[allow(clippy::cast_possible_truncation)]
    (seconds.abs() <= MOST).then(|| (seconds * 1000.0).round() as i64)
}

pub(super) fn read_clock_skew(source: &dyn Source, label: &str) -> Option<ClockSkew> {
    let value_of = |paths: [&str; 2], read: fn(&str) -> Option<f64>| {
        paths.into_iter().find_map(|path| {
            let text = source.read(path).into_known()?;
            let milliseconds = skew_milliseconds(read(&String::from_utf8_lossy(&text))?)?;
            Some(ClockSkew { milliseconds, source: format!("{label}{path}") })
        })
    };
    value_of(CHRONY, parse_chrony_tracking).or_else(|| value_of(NTP, parse_ntpq_peers))
}

/// Seconds ahead of `System time     : 3.000020390 seconds fast of NTP time`, if synchronised.
fn parse_chrony_tracking(text: &str) -> Option<f64> {
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    };
    if value("Leap status")?.starts_with("Not synchronised") {
        return None;
    }
    let (seconds, rest) = value("System time")?.split_once(' ')?;
    let seconds = seconds.parse::<f64>().ok().filter(|seconds| seconds.is_finite())?;
    match rest.split_ascii_whitespace().nth(1)? {
        "fast" => Some(seconds),
        "slow" => Some(-seconds),
        _ => None,
    }
}

/// `*10.0.0.1  .GPS.  1 u  33  64  377  0.412  -1.234  0.056`: the server that it follows, and how
/// many milliseconds that server is ahead.
fn parse_ntpq_peers(text: &str) -> Option<f64> {
    let followed = text.lines().find(|line| line.starts_with('*') || line.starts_with('o'))?;
    let offset = followed.split_ascii_whitespace().rev().nth(1)?.parse::<f64>().ok()?;
    Some(-offset / 1000.0)
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

    /// chronyc 4.3.
    const TRACKING: &str = "Reference ID    : C0A80001 (ntp1)\nStratum         : 3\n\
        Ref time (UTC)  : Wed Nov 25 12:00:00 2026\nSystem time     : 3.200020390 seconds slow of \
         NTP time\n\
        Last offset     : +0.000012205 seconds\nLeap status     : Normal\n";

    #[test]
    fn a_time_daemon_says_how_far_the_clock_was_ahead() {
        let seconds_of = |path: &str, text: &str| {
            read_clock_skew(&MapSource::default().with_file(path, text), "sos")
                .map(|ahead| (ahead.milliseconds, ahead.source))
        };
        let tracking = "sos/sos_commands/chrony/chronyc_tracking".to_owned();
        assert_eq!(seconds_of(CHRONY[0], TRACKING), Some((-3200, tracking.clone())));
        assert_eq!(
            seconds_of(CHRONY[0], &TRACKING.replace("slow", "fast")),
            Some((3200, tracking))
        );
        assert_eq!(seconds_of(CHRONY[0], &TRACKING.replace("Normal", "Not synchronised")), None);
        let peers = "     remote           refid      st t when poll \
             reach   delay   offset  jitter\n\
            ==============================================================================\n\
            +10.0.0.2        .GPS.            1 u   33   64  377    0.412    9.000   0.056\n\
            *10.0.0.1        .GPS.            1 u   33   64  377    0.412  1500.25   0.056\n";
        assert_eq!(seconds_of(NTP[0], peers).unwrap().0, -1500);
        assert_eq!(seconds_of(NTP[1], &peers.replace('*', "x")), None);
        for text in [
            "",
            "System time : x",
            "System time : inf seconds fast of NTP time\nLeap status : Normal",
            "* 1",
        ] {
            assert_eq!(
                (seconds_of(CHRONY[1], text), seconds_of(NTP[0], text)),
                (None, None),
                "{text}"
            );
        }
    }
}
