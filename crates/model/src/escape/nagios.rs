//! The line of a monitoring plugin: behind its first bar stand numbers.

use super::plain;

/// A text in front of the bar.
pub fn escape_nagios_text(text: &str) -> String {
    plain::escape_line(text).replace('|', "/")
}
