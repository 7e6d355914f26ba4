//! When a unit's commands run, beside systemd-tmpfiles-setup.service (bootup(7),
//! systemd.service(5), "Default Dependencies").

use hugewise_model::configuration::BootOrder;

use crate::unit;

/// What comes after systemd-tmpfiles-setup.service, so that who comes after it does too.
const LATER: [&str; 7] = [
    "systemd-tmpfiles-setup.service",
    "sysinit.target",
    "basic.target",
    "network-online.target",
    "multi-user.target",
    "graphical.target",
    "tuned.service",
];

const EARLIER: [&str; 4] = [
    "systemd-tmpfiles-setup.service",
    "local-fs-pre.target",
    "local-fs.target",
    "systemd-tmpfiles-setup-dev.service",
];

pub(super) fn of_unit(bytes: &[u8]) -> BootOrder {
    let all = unit::parse(bytes);
    let map_of = |key: &'static str| {
        all.iter()
            .filter(move |one| one.section == "Unit" && one.key == key)
            .map(|one| one.value.as_str())
    };
    let names = |key: &'static str, which: &[&str]| {
        map_of(key).any(|value| value.split_ascii_whitespace().any(|name| which.contains(&name)))
    };
    let no = |value: &str| {
        ["no", "false", "off", "0", "n", "f"].contains(&value.to_ascii_lowercase().as_str())
    };
    let by_default = !map_of("DefaultDependencies").next_back().is_some_and(no);
    // By default a service comes after sysinit.target, which waits for the files of tmpfiles.d.
    if by_default || names("After", &LATER) {
        BootOrder::Last
    } else if names("Before", &EARLIER) {
        BootOrder::First
    } else {
        BootOrder::Beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_comes_after_tmpfiles_unless_it_says_otherwise() {
        let boot_order_of = |text: &str| {
            of_unit(format!("[Unit]\n{text}\n[Service]\nExecStart=/bin/true\n").as_bytes())
        };
        assert_eq!(boot_order_of(""), BootOrder::Last);
        // MongoDB's documents.
        let mongodb =
            "DefaultDependencies=no\nAfter=sysinit.target local-fs.target\nBefore=mongod.service";
        assert_eq!(boot_order_of(mongodb), BootOrder::Last);
        assert_eq!(
            boot_order_of("DefaultDependencies=no\nBefore=sysinit.target"),
            BootOrder::Beside
        );
        assert_eq!(
            boot_order_of("DefaultDependencies=no\nBefore=local-fs.target"),
            BootOrder::First
        );
        assert_eq!(
            boot_order_of("DefaultDependencies=no\nDefaultDependencies=yes"),
            BootOrder::Last
        );
    }
}
