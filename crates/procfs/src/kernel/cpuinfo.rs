//! /proc/cpuinfo: every architecture has its own fields.

use hugewise_model::Observed;

use super::text::{parse_digits, parse_number, text_lines};
use hugewise_source::ParseError;

pub(super) const PATH: &str = "/proc/cpuinfo";

/// What /proc/cpuinfo tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuinfo {
    /// Processors listed: the online ones.
    pub processors: Observed<u64>,
    /// `vendor_id`, or the name of arm64's `CPU implementer`.
    pub vendor: Observed<String>,
    /// `model name`; `cpu` on POWER.
    pub model: Observed<String>,
    /// Whether x86's `flags` name `pdpe1gb`. Absent elsewhere.
    pub gib_pages: Observed<bool>,
}

/// Reads the first processor and counts the others. Fails where no line is one of cpuinfo's.
pub fn parse(bytes: &[u8]) -> Result<Cpuinfo, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut all = Cpuinfo::default();
    let mut listed = 0_u64;
    let mut fields = 0_u64;
    let first = |fact: &mut Observed<String>, value: &str| {
        if fact.is_absent() && !value.is_empty() {
            *fact = Observed::Known(
                value.chars().filter(|character| !character.is_control()).take(200).collect(),
            );
        }
    };
    for (line, content) in text_lines(&text) {
        let Some((name, value)) = content.split_once(':') else { continue };
        let value = value.trim();
        fields = fields.saturating_add(1);
        match name.trim() {
            "processor" if parse_digits::<u64>(value).is_some() => {
                listed = listed.saturating_add(1)
            }
            // s390 prints a count.
            "# processors" => {
                all.processors =
                    Observed::Known(parse_number(Some(value), line, "number of processors")?)
            }
            "vendor_id" => first(&mut all.vendor, value),
            "CPU implementer" => first(&mut all.vendor, arm_implementer_name(value)),
            "model name" | "cpu" => first(&mut all.model, value),
            "flags" if all.gib_pages.is_absent() => {
                all.gib_pages =
                    Observed::Known(value.split_ascii_whitespace().any(|flag| flag == "pdpe1gb"));
            }
            _ => fields = fields.saturating_sub(1),
        }
    }
    if fields == 0 {
        return Err(ParseError::whole_file("it has no field of cpuinfo"));
    }
    if all.processors.is_absent() && listed > 0 {
        all.processors = Observed::Known(listed);
    }
    Ok(all)
}

/// Arm's implementer codes (MIDR_EL1 of the Arm Architecture Reference Manual) of servers.
fn arm_implementer_name(code: &str) -> &str {
    match code {
        "0x41" => "ARM",
        "0x42" => "Broadcom",
        "0x43" => "Cavium",
        "0x46" => "Fujitsu",
        "0x48" => "HiSilicon",
        "0x4e" => "NVIDIA",
        "0x51" => "Qualcomm",
        "0x61" => "Apple",
        "0xc0" => "Ampere",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n\
        model name\t: Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz\nflags\t\t: fpu pse nx pdpe1gb \
         rdtscp lm\n\n\
        processor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: another\nflags\t\t: fpu\n\n";

    #[test]
    fn x86_says_whether_it_has_gib_pages() {
        let all = parse(X86.as_bytes()).unwrap();
        assert_eq!(all.processors, Observed::Known(2));
        assert_eq!(all.vendor, Observed::Known("GenuineIntel".into()));
        assert_eq!(all.model, Observed::Known("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz".into()));
        assert_eq!(all.gib_pages, Observed::Known(true));
        let without = X86.replace(" pdpe1gb", " xpdpe1gb");
        assert_eq!(parse(without.as_bytes()).unwrap().gib_pages, Observed::Known(false));
    }

    #[test]
    fn arm64_has_no_such_flag() {
        let all = parse(
            b"processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: \
                 0x41\n\
              CPU architecture: 8\nCPU part\t: 0xd0c\n\n",
        )
        .unwrap();
        assert_eq!(all.gib_pages, Observed::Absent);
        assert_eq!(all.vendor, Observed::Known("ARM".into()));
        assert_eq!(all.model, Observed::Absent);
    }

    #[test]
    fn s390_and_power_tell_it_their_way() {
        let s390 =
            parse(b"vendor_id       : IBM/S390\n# processors    : 4\nprocessor 0: version = FF\n")
                .unwrap();
        assert_eq!(s390.processors, Observed::Known(4));
        let power = parse(b"processor\t: 0\ncpu\t\t: POWER9, altivec supported\n").unwrap();
        assert_eq!(power.model, Observed::Known("POWER9, altivec supported".into()));
        assert!(parse(b"").is_err());
        assert!(parse(b"\x7fELF: 2").is_err());
    }

    proptest! {
        #[test]
        fn processors_are_counted(count in 1..300usize) {
            let all = parse("processor\t: 7\n\n".repeat(count).as_bytes()).unwrap();
            prop_assert_eq!(all.processors, Observed::Known(u64::try_from(count).unwrap()));
        }
    }
}
