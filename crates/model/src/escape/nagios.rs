//! The line of a monitoring plugin: what stands behind its first bar is numbers.

use super::plain;

/// A text in front of the bar.
pub fn text(text: &str) -> String {
    plain::clean(text).replace('|', "/")
}
