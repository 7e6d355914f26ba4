//! Values of /proc/sys, or of the `sysctl -a` that a sosreport keeps instead.

use std::collections::BTreeMap;

use hugewise_model::host::KernelSettings;
use hugewise_model::{Bytes, Observed, PageCount};

use super::number;
use super::text::parse_digits;
use hugewise_source::{FactReader, ParseError};

/// A sosreport's output of `sysctl -a`.
pub(super) const SYSCTL: &str = "/sos_commands/kernel/sysctl_-a";

/// Values by name, as `sysctl -a` prints them: `vm.nr_hugepages = 512`; other lines, such as
/// errors, are skipped. Fails where no line has the form.
pub fn parse(bytes: &[u8]) -> Result<BTreeMap<String, String>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let pairs = text
        .lines()
        .filter_map(|line| line.split_once(" = ").or_else(|| Some((line.strip_suffix(" =")?, ""))));
    let plain = pairs.filter(|(name, _)| !name.contains(char::is_whitespace) && name.contains('.'));
    let values: BTreeMap<_, _> =
        plain.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    if values.is_empty() {
        Err(ParseError::whole_file("it has no line of sysctl -a"))
    } else {
        Ok(values)
    }
}

/// A group id. The kernel prints ids from 2^31 up as negative ones. Fails on no 32-bit number.
pub fn parse_group(bytes: &[u8]) -> Result<u32, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let word = text.trim();
    let signed = || word.parse::<i32>().ok().map(i32::cast_unsigned);
    parse_digits(word).or_else(signed).ok_or(ParseError::whole_file("no group id"))
}

/// One value from its own file or, where there is none, from the kept output.
pub fn read_setting<T>(
    door: &mut FactReader<'_>,
    kept: &Observed<BTreeMap<String, String>>,
    name: &str,
    parser: impl Fn(&[u8]) -> Result<T, ParseError>,
) -> Observed<T> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let own = door.parse(&path, &parser);
    if !own.is_absent() {
        return own;
    }
    let text = kept.as_known().and_then(|values| values.get(name));
    let value = Observed::from(text).parse(|text| parser(text.as_bytes()));
    door.note_unknown(SYSCTL, &value);
    value
}

/// Reads the settings that concern huge pages.
pub fn read(
    door: &mut FactReader<'_>,
    kept: &Observed<BTreeMap<String, String>>,
) -> KernelSettings {
    let mut number = |name: &str| read_setting(door, kept, name, number::parse);
    KernelSettings {
        shmmax: number("kernel.shmmax").map(Bytes),
        shmall_pages: number("kernel.shmall"),
        shmmni: number("kernel.shmmni"),
        overcommit_memory: number("vm.overcommit_memory"),
        overcommit_ratio: number("vm.overcommit_ratio"),
        nr_hugepages: number("vm.nr_hugepages").map(PageCount),
        nr_overcommit_hugepages: number("vm.nr_overcommit_hugepages").map(PageCount),
        min_free: number("vm.min_free_kbytes").map(Bytes::from_kib),
        swappiness: number("vm.swappiness"),
        max_map_count: number("vm.max_map_count"),
        hugetlb_shm_group: read_setting(door, kept, "vm.hugetlb_shm_group", parse_group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEPT: &str = "sysctl: reading key \"net.ipv6.conf.all.stable_secret\"\nkernel.osrelease \
         = 3.10.0-1160.el7.x86_64\n\
        kernel.shmmax = 18446744073692774399\nkernel.domainname = (none)\nkernel.modprobe \
         =\nvm.nr_hugepages = 8704\n";

    #[test]
    fn values_by_name() {
        let values = parse(KEPT.as_bytes()).unwrap();
        assert_eq!(values.len(), 5);
        assert_eq!(values.get("kernel.shmmax").map(String::as_str), Some("18446744073692774399"));
        assert_eq!(values.get("kernel.modprobe").map(String::as_str), Some(""));
        assert!(parse(b"").is_err());
        assert!(parse(b"sh: sysctl: command not found\n").is_err());
    }

    #[test]
    fn group_ids_wrap_as_the_kernel_prints_them() {
        assert_eq!(parse_group(b"54321\n"), Ok(54_321));
        assert_eq!(parse_group(b"-2\n"), Ok(4_294_967_294));
        assert!(parse_group(b"4294967296").is_err());
        assert!(parse_group(b"dba").is_err());
    }

    proptest! {
        #[test]
        fn whole_lines_of_a_torn_file_are_kept(end in 0..KEPT.len()) {
            let whole = parse(KEPT.as_bytes()).unwrap();
            let lines = KEPT[..end].matches('\n').count();
            match parse(&KEPT.as_bytes()[..end]) {
                // The first line is a complaint.
                Err(_) => prop_assert!(lines < 2),
                Ok(torn) => {
                    let same = torn.iter().filter(|(name, value)| whole.get(*name) == Some(value)).count();
                    prop_assert!(same + 1 >= lines && torn.len() <= same + 1, "{torn:?}");
                }
            }
        }

        #[test]
        fn every_group_id_comes_back(group: u32) {
            prop_assert_eq!(parse_group(group.cast_signed().to_string().as_bytes()), Ok(group));
        }
    }
}
