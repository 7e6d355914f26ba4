//! How far the clock of a host is ahead of the others': as somebody says, or as the host's own time daemon did.

use hugewise_host::Source;

use super::hosts::Machine;
use crate::asked::Error;
use crate::verdict::Ahead;

/// A clock that is farther off is in another zone, or no clock.
const MOST: f64 = 86_400.0;
/// What is less does not show in samples of seconds.
const WORTH_TELLING: i64 = 500;

/// What `chronyc tracking` printed, as sosreports keep it.
const CHRONY: [&str; 2] = ["/sos_commands/chrony/chronyc_tracking", "/sos_commands/chrony/chronyc_-n_tracking"];
/// What `ntpq -p` printed.
const NTP: [&str; 2] = ["/sos_commands/ntp/ntpq_-p", "/sos_commands/ntp/ntpq_-pn"];

/// Hosts and how far their clocks are ahead in milliseconds: `db2=+3s`, `db2=-0.5`.
///
/// # Errors
/// One is none of these.
pub(super) fn given(texts: &[String]) -> Result<Vec<(&str, i64)>, Error> {
    let one = |text: &str| {
        let (host, seconds) = text.rsplit_once('=')?;
        let seconds = seconds.trim();
        let seconds = seconds.strip_suffix('s').unwrap_or(seconds).parse::<f64>().ok()?;
        (!host.is_empty()).then_some(milliseconds(seconds)?)
    };
    let all = texts.iter().map(|text| {
        let ahead = one(text).ok_or_else(|| Error::HostOffset(text.clone()))?;
        Ok((text.rsplit_once('=').map_or("", |(host, _)| host), ahead))
    });
    all.collect()
}

/// Sets what was given of hosts by their names, with or without their domains, and says what else is known.
///
/// # Errors
/// No host has one of the names.
pub(super) fn set(hosts: &mut [Machine], given: &[(&str, i64)]) -> Result<(), Error> {
    for (name, milliseconds) in given {
        let ahead = Ahead { milliseconds: *milliseconds, source: "--offset".to_owned() };
        let mut found = false;
        for host in hosts.iter_mut().filter(|host| host.name.as_deref().is_some_and(|host| is(host, name))) {
            host.ahead = Some(ahead.clone());
            found = true;
        }
        if !found {
            return Err(Error::NoHost((*name).to_owned()));
        }
    }
    for host in hosts {
        let Some(ahead) = host.ahead.as_ref().filter(|ahead| ahead.milliseconds.abs() >= WORTH_TELLING) else {
            continue;
        };
        host.notes.push(format!(
            "the clock of this host was {} ({}): times are what it showed, and are corrected where hosts are compared",
            ahead.words(),
            ahead.source
        ));
    }
    Ok(())
}

fn is(host: &str, name: &str) -> bool {
    let short = host.split('.').next().unwrap_or_default();
    host.eq_ignore_ascii_case(name) || (!name.contains('.') && short.eq_ignore_ascii_case(name))
}

fn milliseconds(seconds: f64) -> Option<i64> {
    // Of at most a day: it fits.
    #[allow(clippy::cast_possible_truncation)]
    (seconds.abs() <= MOST).then(|| (seconds * 1000.0).round() as i64)
}

/// What the time daemon of a captured host said.
pub(super) fn told(source: &dyn Source, label: &str) -> Option<Ahead> {
    let of = |paths: [&str; 2], read: fn(&str) -> Option<f64>| {
        paths.into_iter().find_map(|path| {
            let text = source.read(path).into_known()?;
            let milliseconds = milliseconds(read(&String::from_utf8_lossy(&text))?)?;
            Some(Ahead { milliseconds, source: format!("{label}{path}") })
        })
    };
    of(CHRONY, chrony).or_else(|| of(NTP, ntp))
}

/// `System time     : 3.000020390 seconds fast of NTP time`: in seconds ahead. A daemon that follows nobody knows nothing.
fn chrony(text: &str) -> Option<f64> {
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

/// `*10.0.0.1  .GPS.  1 u  33  64  377  0.412  -1.234  0.056`: the server that it follows, whose offset is how many milliseconds
/// the server is ahead.
fn ntp(text: &str) -> Option<f64> {
    let followed = text.lines().find(|line| line.starts_with('*') || line.starts_with('o'))?;
    let offset = followed.split_ascii_whitespace().rev().nth(1)?.parse::<f64>().ok()?;
    Some(-offset / 1000.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

    /// chronyc 4.3.
    const TRACKING: &str = "Reference ID    : C0A80001 (ntp1)\nStratum         : 3\n\
        Ref time (UTC)  : Wed Nov 25 12:00:00 2026\nSystem time     : 3.200020390 seconds slow of NTP time\n\
        Last offset     : +0.000012205 seconds\nLeap status     : Normal\n";

    #[test]
    fn a_time_daemon_says_how_far_the_clock_was_ahead() {
        let of = |path: &str, text: &str| {
            told(&MapSource::default().file(path, text), "sos").map(|ahead| (ahead.milliseconds, ahead.source))
        };
        let tracking = "sos/sos_commands/chrony/chronyc_tracking".to_owned();
        assert_eq!(of(CHRONY[0], TRACKING), Some((-3200, tracking.clone())));
        assert_eq!(of(CHRONY[0], &TRACKING.replace("slow", "fast")), Some((3200, tracking)));
        assert_eq!(of(CHRONY[0], &TRACKING.replace("Normal", "Not synchronised")), None);
        let peers = "     remote           refid      st t when poll reach   delay   offset  jitter\n\
            ==============================================================================\n\
            +10.0.0.2        .GPS.            1 u   33   64  377    0.412    9.000   0.056\n\
            *10.0.0.1        .GPS.            1 u   33   64  377    0.412  1500.25   0.056\n";
        assert_eq!(of(NTP[0], peers).unwrap().0, -1500);
        assert_eq!(of(NTP[1], &peers.replace('*', "x")), None);
        for text in ["", "System time : x", "System time : inf seconds fast of NTP time\nLeap status : Normal", "* 1"] {
            assert_eq!((of(CHRONY[1], text), of(NTP[0], text)), (None, None), "{text}");
        }
    }

    #[test]
    fn an_offset_is_of_a_host_that_is_there() {
        let texts = |text: &str| vec![text.to_owned()];
        for (text, expected) in [("db2=+3s", 3000), ("db2=-0.5", -500), ("db2=0s", 0), ("db2=86400s", 86_400_000)] {
            assert_eq!(given(&texts(text)).unwrap(), [("db2", expected)], "{text}");
        }
        for text in ["db2", "=3s", "db2=", "db2=x", "db2=inf", "db2=NaN", "db2=86401", "db2=3m"] {
            assert!(given(&texts(text)).is_err(), "{text}");
        }
        let host = |name: &str| Machine { name: Some(name.to_owned()), ..Machine::default() };
        let mut hosts = [host("db1"), host("db2.example.com")];
        set(&mut hosts, &[("DB2", 3000)]).unwrap();
        assert_eq!(hosts[0].ahead, None);
        assert!(
            hosts[1].notes[0].starts_with("the clock of this host was 3 s ahead (--offset)"),
            "{:?}",
            hosts[1].notes
        );
        assert_eq!(set(&mut hosts, &[("db3", 1)]), Err(Error::NoHost("db3".to_owned())));
        assert_eq!(set(&mut hosts, &[("db2.example.org", 1)]), Err(Error::NoHost("db2.example.org".to_owned())));
    }
}
