//! Values in unit files: limits with their units, and sets of capabilities.

use std::collections::BTreeSet;

use hugewise_model::{Bytes, Limit};

use super::files::split_while;

/// A set of capabilities by name, or all but those named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    all_but: bool,
    names: BTreeSet<&'static str>,
}

impl Capabilities {
    /// Whether the set holds a capability, named in capitals.
    pub fn has_capability(&self, name: &str) -> bool {
        self.names.contains(name) != self.all_but
    }

    /// One more line: a list without a single capability replaces what is there, and so does any
    /// list where nothing is there yet; otherwise a list is added, and one after `~` taken away.
    pub fn apply_line(&mut self, value: &str) {
        let (inverted, list) = match value.strip_prefix('~') {
            Some(list) => (true, list),
            None => (false, value),
        };
        let words = list.split_whitespace().map(|name| name.trim_matches(['"', '\'']));
        let named: BTreeSet<&'static str> = words.filter_map(parse_capability).collect();
        if named.is_empty() || *self == Self::default() {
            *self = Self { all_but: inverted, names: named };
        } else if inverted == self.all_but {
            self.names.extend(named);
        } else {
            self.names.retain(|name| !named.contains(name));
        }
    }
}

/// The capability of that name or number; systemd passes over what it does not know.
fn parse_capability(word: &str) -> Option<&'static str> {
    match word.parse::<usize>() {
        Ok(number) => CAPABILITIES.get(number).copied(),
        Err(_) => CAPABILITIES.iter().find(|name| name.eq_ignore_ascii_case(word)).copied(),
    }
}

/// By number (linux/capability.h of Linux 6.1).
const CAPABILITIES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// `infinity`, `64M`, or `soft:hard`.
pub fn parse_limit(value: &str) -> Option<(Limit, Limit)> {
    let (soft, hard) = match value.split_once(':') {
        Some((soft, hard)) => (parse_bytes(soft)?, parse_bytes(hard)?),
        None => (parse_bytes(value)?, parse_bytes(value)?),
    };
    (soft <= hard).then_some((soft, hard))
}

/// Bytes with a suffix to the base 1024: `64M`, `1.5G`, `1G 512M`.
pub(crate) fn parse_bytes(text: &str) -> Option<Limit> {
    if text == "infinity" {
        return Some(Limit::Unlimited);
    }
    let mut rest = text;
    let mut sum = 0_u64;
    let mut last = u64::MAX;
    loop {
        rest = rest.trim_start();
        let (number, after) = split_while(rest, |sign| sign.is_ascii_digit() || sign == '.');
        let suffixed = after.trim_start();
        let (unit, after) = match suffixed.chars().next() {
            Some(suffix) if suffix.is_ascii_alphabetic() => {
                (1 << suffix_shift(suffix)?, suffixed.get(1..)?)
            }
            _ => (1_u64, after),
        };
        // Each part is of a smaller unit than the one before it.
        if unit >= last {
            return None;
        }
        last = unit;
        sum = sum.checked_add(parse_scaled_number(number, unit)?)?;
        if after.is_empty() {
            return Some(Limit::At(Bytes(sum)));
        }
        rest = after;
    }
}

fn suffix_shift(suffix: char) -> Option<u32> {
    "BKMGTPE".find(suffix).and_then(|at| u32::try_from(at).ok()).map(|power| power * 10)
}

/// A decimal number times a unit, rounded down.
fn parse_scaled_number(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut bytes = u128::from(whole.parse::<u64>().ok()?).checked_mul(u128::from(unit))?;
    if !fraction.is_empty() {
        let digits = fraction.get(..fraction.len().min(15))?;
        let scale = 10_u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
        bytes += u128::from(digits.parse::<u64>().ok()?) * u128::from(unit) / scale;
    }
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: fn(u64) -> Limit = |bytes| Limit::At(Bytes(bytes));

    #[test]
    fn limits_as_systemd_writes_them() {
        // What `systemd --test` of systemd 252 makes of each.
        for (text, expected) in [
            ("infinity", Some((Limit::Unlimited, Limit::Unlimited))),
            ("524288", Some((AT(524_288), AT(524_288)))),
            ("64M", Some((AT(64 << 20), AT(64 << 20)))),
            ("1.5G", Some((AT(3 << 29), AT(3 << 29)))),
            ("1G 512M", Some((AT(3 << 29), AT(3 << 29)))),
            ("8M:infinity", Some((AT(8 << 20), Limit::Unlimited))),
            ("16E", None),
            ("infinity:8M", None),
            ("512M 1G", None),
            ("64MB", None),
            ("64 M", Some((AT(64 << 20), AT(64 << 20)))),
            ("1K 1", Some((AT(1025), AT(1025)))),
            ("1.5", Some((AT(1), AT(1)))),
            ("1 1", None),
            ("64k", None),
            ("B", None),
            ("5%", None),
            ("0x10", None),
            ("8M : 9M", None),
            ("-1", None),
            ("", None),
            (":", None),
        ] {
            assert_eq!(parse_limit(text), expected, "{text}");
        }
    }

    #[test]
    fn ambient_capabilities_add_up() {
        // What `systemd --test` of systemd 252 makes of each.
        for (lines, held) in [
            (vec!["CAP_IPC_LOCK"], true),
            (vec!["CAP_NET_ADMIN cap_ipc_lock"], true),
            (vec!["CAP_IPC_LOCK", "CAP_NET_ADMIN"], true),
            (vec!["CAP_IPC_LOCK", ""], false),
            (vec!["CAP_IPC_LOCK CAP_CHOWN", "~CAP_IPC_LOCK"], false),
            (vec!["CAP_CHOWN"], false),
            (vec!["~CAP_CHOWN"], true),
            (vec!["~CAP_IPC_LOCK"], false),
            (vec!["~"], true),
            (vec!["CAP_IPC_LOCK", "BOGUS"], false),
            (vec!["CAP_CHOWN,CAP_IPC_LOCK"], false),
            (vec!["ipc_lock"], false),
            (vec!["\"CAP_IPC_LOCK\""], true),
            (vec!["14"], true),
        ] {
            let mut set = Capabilities::default();
            lines.iter().for_each(|line| set.apply_line(line));
            assert_eq!(set.has_capability("CAP_IPC_LOCK"), held, "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn any_limit_is_survived(text in "[0-9.:KMGTPE infity]{0,24}") {
            if let Some((soft, hard)) = parse_limit(&text) {
                prop_assert!(soft <= hard);
            }
        }

        #[test]
        fn whole_numbers_read_back(number in 0_u64..1 << 40, power in 0_u32..3) {
            let suffix = ["", "K", "M"][power as usize];
            let expected = AT(number << (10 * power));
            prop_assert_eq!(parse_limit(&format!("{number}{suffix}")), Some((expected, expected)));
        }
    }
}
