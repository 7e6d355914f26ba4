//! Clock offsets given by hand: `--offset db2=+3s`.

use super::clock_skew::skew_milliseconds;
use super::hosts::GatheredHost;
use crate::rank::is_named;
use crate::request::Error;
use crate::verdict::ClockSkew;

/// Milliseconds; less does not show in samples of seconds.
const WORTH_TELLING: i64 = 500;

pub(super) fn parse_host_offsets(texts: &[String]) -> Result<Vec<(&str, i64)>, Error> {
    let parsed = texts
        .iter()
        .map(|text| parse_host_offset(text).ok_or_else(|| Error::HostOffset(text.clone())));
    parsed.collect()
}

fn parse_host_offset(text: &str) -> Option<(&str, i64)> {
    let (host, seconds) = text.rsplit_once('=')?;
    let seconds = seconds.trim();
    let seconds = seconds.strip_suffix('s').unwrap_or(seconds).parse::<f64>().ok()?;
    Some((host, skew_milliseconds(seconds)?)).filter(|_| !host.is_empty())
}

pub(super) fn apply_host_offsets(
    hosts: &mut [GatheredHost],
    given: &[(&str, i64)],
) -> Result<(), Error> {
    for (name, milliseconds) in given {
        let ahead = ClockSkew { milliseconds: *milliseconds, source: "--offset".to_owned() };
        let mut found = false;
        let is_meant = |host: &&mut GatheredHost| {
            host.name.as_deref().is_some_and(|host| is_named(host, name))
        };
        for host in hosts.iter_mut().filter(is_meant) {
            host.ahead = Some(ahead.clone());
            found = true;
        }
        if !found {
            return Err(Error::NoHost((*name).to_owned()));
        }
    }
    for host in hosts {
        let Some(ahead) =
            host.ahead.as_ref().filter(|ahead| ahead.milliseconds.abs() >= WORTH_TELLING)
        else {
            continue;
        };
        host.notes.push(format!(
            "this host's clock was {} ({}): times are as it showed them, and corrected where \
                 hosts are compared",
            ahead.describe_skew(),
            ahead.source
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_of_a_host_that_is_there() {
        let texts = |text: &str| vec![text.to_owned()];
        for (text, expected) in
            [("db2=+3s", 3000), ("db2=-0.5", -500), ("db2=0s", 0), ("db2=86400s", 86_400_000)]
        {
            assert_eq!(parse_host_offsets(&texts(text)).unwrap(), [("db2", expected)], "{text}");
        }
        for text in ["db2", "=3s", "db2=", "db2=x", "db2=inf", "db2=NaN", "db2=86401", "db2=3m"] {
            assert!(parse_host_offsets(&texts(text)).is_err(), "{text}");
        }
        let host =
            |name: &str| GatheredHost { name: Some(name.to_owned()), ..GatheredHost::default() };
        let mut hosts = [host("db1"), host("db2.example.com")];
        apply_host_offsets(&mut hosts, &[("DB2", 3000)]).unwrap();
        assert_eq!(hosts[0].ahead, None);
        assert!(
            hosts[1].notes[0].starts_with("this host's clock was 3 s ahead (--offset)"),
            "{:?}",
            hosts[1].notes
        );
        assert_eq!(
            apply_host_offsets(&mut hosts, &[("db3", 1)]),
            Err(Error::NoHost("db3".to_owned()))
        );
        assert_eq!(
            apply_host_offsets(&mut hosts, &[("db2.example.org", 1)]),
            Err(Error::NoHost("db2.example.org".to_owned()))
        );
    }
}
