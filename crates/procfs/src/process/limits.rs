//! /proc/PID/limits (Documentation/filesystems/proc.rst, section 3.5 and fs/proc/base.c).

use hugewise_model::process::SoftHard;
use hugewise_model::{Bytes, Limit};

use hugewise_source::ParseError;

/// Takes `Max locked memory` from a limits file. Fails without that line or its two values.
pub fn parse(bytes: &[u8]) -> Result<SoftHard, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    for (number, line) in (1..).zip(text.lines()) {
        let Some(values) = line.strip_prefix("Max locked memory") else { continue };
        let mut values = values.split_ascii_whitespace().map(parse_limit);
        return match (values.next().flatten(), values.next().flatten()) {
            (Some(soft), Some(hard)) => Ok(SoftHard { soft, hard }),
            _ => Err(ParseError::at_line(number, "not two values")),
        };
    }
    Err(ParseError::whole_file("no \"Max locked memory\""))
}

fn parse_limit(value: &str) -> Option<Limit> {
    if value == "unlimited" {
        Some(Limit::Unlimited)
    } else {
        value.parse().ok().map(|bytes| Limit::At(Bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = "Limit                     Soft Limit           Hard \
         Limit           Units     \n\
        Max processes             95820                95820                processes \n\
        Max locked memory         65536                unlimited            bytes     \n";

    #[test]
    fn takes_both_values() {
        let expected = SoftHard { soft: Limit::At(Bytes(65536)), hard: Limit::Unlimited };
        assert_eq!(parse(REAL.as_bytes()), Ok(expected));
        assert_eq!(parse(b"Max locked memory  8x 9 bytes").unwrap_err().line, 1);
        assert!(parse(b"Max cpu time  unlimited unlimited seconds").is_err());
    }

    proptest! {
        #[test]
        fn any_two_numbers_come_back(soft: u64, hard: u64) {
            let line = format!("Max locked memory         {soft:<20} {hard:<20} bytes\n");
            let expected = SoftHard { soft: Limit::At(Bytes(soft)), hard: Limit::At(Bytes(hard)) };
            prop_assert_eq!(parse(line.as_bytes()), Ok(expected));
        }
    }
}
