//! Offsets of clocks that were given by hand: `--offset db2=+3s`.

use super::ahead::milliseconds;
use super::hosts::Machine;
use crate::asked::Error;
use crate::verdict::Ahead;

/// What is less does not show in samples of seconds.
const WORTH_TELLING: i64 = 500;

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
            "this host's clock was {} ({}): times are as it showed them, and corrected where hosts are compared",
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

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
            hosts[1].notes[0].starts_with("this host's clock was 3 s ahead (--offset)"),
            "{:?}",
            hosts[1].notes
        );
        assert_eq!(set(&mut hosts, &[("db3", 1)]), Err(Error::NoHost("db3".to_owned())));
        assert_eq!(set(&mut hosts, &[("db2.example.org", 1)]), Err(Error::NoHost("db2.example.org".to_owned())));
    }
}
