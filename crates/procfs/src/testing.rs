//! What tests of several parsers have in common.

use std::fmt::Debug;

/// A file whose every line after `heads` is a row, torn at `end`: the rows of its whole lines are
/// what they were, and what is left of the torn line is refused or one row more.
pub(crate) fn rows_before_a_cut<T: Debug + PartialEq, E: Debug>(
    text: &str,
    end: usize,
    heads: usize,
    parse: impl Fn(&[u8]) -> Result<Vec<T>, E>,
) {
    let whole = parse(text.as_bytes()).unwrap();
    assert_eq!(whole.len(), text.lines().count() - heads, "every line is a row");
    let rows = text[..end].matches('\n').count().saturating_sub(heads);
    let last = text[..end].rfind('\n').map_or(0, |at| at + 1);
    if rows > 0 {
        assert_eq!(parse(&text.as_bytes()[..last]).unwrap(), whole[..rows]);
    }
    if let Ok(torn) = parse(&text.as_bytes()[..end]) {
        assert!(torn.len() <= rows + 1, "{torn:?}");
        assert_eq!(torn[..rows], whole[..rows]);
    }
}
