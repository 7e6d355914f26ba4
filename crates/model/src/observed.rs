//! What is known of a fact, and why not where it is not.

use serde::{Deserialize, Serialize};

/// A fact as it was read. Absent is never zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed<T> {
    /// Read and understood.
    Known(T),
    /// This kernel or this host has no such file or field.
    #[default]
    Absent,
    /// It is there, but whoever reads may not see it.
    Denied,
    /// It was read and makes no sense; the text says what is wrong with it.
    Malformed(String),
}

impl<T> Observed<T> {
    /// The fact, where it is known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            _ => None,
        }
    }

    /// The fact by value, where it is known.
    pub fn into_known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the fact is known.
    pub const fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Whether the host has no such fact, as against one that could not be read.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Borrows the fact.
    pub fn as_ref(&self) -> Observed<&T> {
        match self {
            Self::Known(value) => Observed::Known(value),
            Self::Absent => Observed::Absent,
            Self::Denied => Observed::Denied,
            Self::Malformed(why) => Observed::Malformed(why.clone()),
        }
    }

    /// Turns the fact into another, keeping the reason where it is not known.
    pub fn map<U>(self, turn: impl FnOnce(T) -> U) -> Observed<U> {
        self.and_then(|value| Observed::Known(turn(value)))
    }

    /// Goes on with a step that can itself fail to know.
    pub fn and_then<U>(self, next: impl FnOnce(T) -> Observed<U>) -> Observed<U> {
        match self {
            Self::Known(value) => next(value),
            Self::Absent => Observed::Absent,
            Self::Denied => Observed::Denied,
            Self::Malformed(why) => Observed::Malformed(why),
        }
    }

    /// Goes on with a parser; its error becomes [`Observed::Malformed`].
    pub fn parse<U, E: std::fmt::Display>(self, parser: impl FnOnce(T) -> Result<U, E>) -> Observed<U> {
        self.and_then(|value| match parser(value) {
            Ok(parsed) => Observed::Known(parsed),
            Err(error) => Observed::Malformed(error.to_string()),
        })
    }

    /// This fact, or the other where this one is absent.
    #[must_use]
    pub fn or_else_absent(self, other: impl FnOnce() -> Self) -> Self {
        if self.is_absent() { other() } else { self }
    }

    /// Why the fact is not known: `absent`, `denied`, `malformed: ...`.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Known(_) => None,
            Self::Absent => Some("absent".into()),
            Self::Denied => Some("denied".into()),
            Self::Malformed(why) => Some(format!("malformed: {why}")),
        }
    }
}

impl<T: Copy> Observed<T> {
    /// The fact by copy, where it is known.
    pub const fn get(&self) -> Option<T> {
        match self {
            Self::Known(value) => Some(*value),
            _ => None,
        }
    }
}

impl<T> From<Option<T>> for Observed<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Known)
    }
}

/// A fact that is there and could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unread {
    /// The file, interface or question: `/proc/4711/maps`.
    pub what: String,
    /// Why: `denied`, `malformed: line 3: ...`, `skipped: time budget`.
    pub why: String,
}
