//! Answers written once per reading: a thousand requests take no longer than one, and a thousand
//! clients who take nothing of theirs hold one copy between them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AnswerKind {
    /// `/metrics` for Prometheus.
    Prometheus,
    /// `/metrics` as OpenMetrics.
    OpenMetrics,
    /// `/api/v1/check`.
    Check,
    /// `/api/v1/history`.
    History,
}

/// The answers of the newest reading that was asked about.
#[derive(Default)]
pub(super) struct Answers(Mutex<(u64, BTreeMap<AnswerKind, Bytes>)>);

impl Answers {
    pub(super) fn answer_for_reading(
        &self,
        number: u64,
        kind: AnswerKind,
        write: impl FnOnce() -> std::io::Result<Vec<u8>>,
    ) -> std::io::Result<Bytes> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A request that has waited long may hold an older reading.
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
        let said = |number, kind, text: &str| {
            answers.answer_for_reading(number, kind, || Ok(text.into())).unwrap()
        };
        assert_eq!(said(1, AnswerKind::Check, "a"), "a");
        assert_eq!(said(1, AnswerKind::Check, "b"), "a");
        assert_eq!(said(1, AnswerKind::History, "c"), "c");
        assert_eq!(said(2, AnswerKind::Check, "d"), "d");
        assert_eq!(said(1, AnswerKind::Check, "e"), "e", "of an older one nothing is kept");
        assert_eq!(said(2, AnswerKind::Check, "f"), "d");
        assert!(
            answers
                .answer_for_reading(3, AnswerKind::Check, || Err(std::io::ErrorKind::Other.into()))
                .is_err()
        );
        assert_eq!(said(3, AnswerKind::Check, "g"), "g");
    }
}
