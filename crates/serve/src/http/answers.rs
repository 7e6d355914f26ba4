//! What is said of a reading, written once for all who ask: a thousand questions take no longer than one, and a thousand
//! clients who take nothing of their answers hold one copy between them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;

/// What can be asked of a reading and has one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// `/metrics`, in the format of Prometheus.
    Prometheus,
    /// `/metrics`, in that of OpenMetrics.
    OpenMetrics,
    /// `/api/v1/check`.
    Check,
    /// `/api/v1/history`.
    History,
}

/// The answers of the last reading that was asked about.
#[derive(Default)]
pub(super) struct Answers(Mutex<(u64, BTreeMap<Kind, Bytes>)>);

impl Answers {
    /// The answer of the reading with that number.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn of(
        &self,
        number: u64,
        kind: Kind,
        write: impl FnOnce() -> std::io::Result<Vec<u8>>,
    ) -> std::io::Result<Bytes> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has waited long may still hold an older reading.
        if number > kept.0 {
            *kept = (number, BTreeMap::new());
        }
        if number == kept.0
            && let Some(there) = kept.1.get(&kind)
        {
            return Ok(there.clone());
        }
        let text = Bytes::from(write()?);
        if number == kept.0 {
            kept.1.insert(kind, text.clone());
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_written_once_a_reading() {
        let answers = Answers::default();
        let said = |number, kind, text: &str| answers.of(number, kind, || Ok(text.into())).unwrap();
        assert_eq!(said(1, Kind::Check, "a"), "a");
        assert_eq!(said(1, Kind::Check, "b"), "a");
        assert_eq!(said(1, Kind::History, "c"), "c");
        assert_eq!(said(2, Kind::Check, "d"), "d");
        assert_eq!(said(1, Kind::Check, "e"), "e", "of an older one nothing is kept");
        assert_eq!(said(2, Kind::Check, "f"), "d");
        assert!(answers.of(3, Kind::Check, || Err(std::io::ErrorKind::Other.into())).is_err());
        assert_eq!(said(3, Kind::Check, "g"), "g");
    }
}
