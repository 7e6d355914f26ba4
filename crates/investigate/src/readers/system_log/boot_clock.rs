//! The date of a log of seconds since the kernel started, by what the kernel itself says of it: the
//! hardware clock that it read, and audit's records.
//!
//! Linux drivers/rtc/class.c (hctosys), kernel/audit.c, 2.6.18 to 6.18.

/// Seconds of 2001: what is earlier is no clock.
const EARLIEST: i64 = 1_000_000_000;

/// Milliseconds since the epoch at the moment of a message that says them: `rtc_cmos 00:01: setting
/// system clock to 2026-11-21T22:47:35 UTC (1795301255)`, `audit: type=2000
/// audit(1795301255.123:1): initialized`.
pub(super) fn parse_epoch(message: &str) -> Option<i64> {
    let seconds = match message.split_once(": setting system clock to ") {
        Some((_, rest)) => rest.rsplit_once('(')?.1.split_once(')')?.0.to_owned(),
        None => {
            let before = message.find("audit(").filter(|at| *at < 32)?;
            let inside = message.get(before + "audit(".len()..)?;
            inside.split_once(':')?.0.to_owned()
        }
    };
    let (whole, part) = seconds.split_once('.').unwrap_or((&seconds, ""));
    let whole: i64 = whole.parse().ok().filter(|whole| *whole >= EARLIEST)?;
    whole.checked_mul(1000)?.checked_add(hugewise_model::calendar::thousandths(part)?)
}
