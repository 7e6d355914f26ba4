//! What is known of a fact, and why not where it is not.

use std::borrow::Cow;
use std::fmt;

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
    pub const fn as_known(&self) -> Option<&T> {
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

    /// The fact by value, `None` where it is absent.
    ///
    /// # Errors
    /// Why it is not known, where it is there.
    pub fn into_present(self) -> Result<Option<T>, Reason> {
        match self {
            Self::Known(value) => Ok(Some(value)),
            Self::Absent => Ok(None),
            Self::Denied => Err(Reason::Denied),
            Self::Malformed(why) => Err(Reason::Malformed(why)),
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
    pub fn parse<U, E: std::fmt::Display>(
        self,
        parser: impl FnOnce(T) -> Result<U, E>,
    ) -> Observed<U> {
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

    /// Why the fact is not known, in words: `absent`, `denied`, `malformed: ...`.
    pub fn reason_text(&self) -> Option<String> {
        self.unknown_reason().as_ref().map(Reason::to_string)
    }

    /// Why the fact is not known.
    pub fn unknown_reason(&self) -> Option<Reason> {
        match self {
            Self::Known(_) => None,
            Self::Absent => Some(Reason::Absent),
            Self::Denied => Some(Reason::Denied),
            Self::Malformed(why) => Some(Reason::Malformed(why.clone())),
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

/// Why a fact is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// This kernel or this host has no such file or field.
    Absent,
    /// Whoever reads may not see it.
    Denied,
    /// It makes no sense, or could not be read.
    Malformed(String),
    /// Left out, so that the reading stays within its limits.
    Skipped(String),
    /// The processes or files of one user beyond what is read of his.
    LeftOut {
        /// The user.
        user: u32,
        /// What is beyond which limit.
        why: String,
    },
    /// Nobody looked, what was seen does not tell, or there was no answer.
    Untold(Cow<'static, str>),
}

impl Reason {
    /// Whether there is nothing to be known, as against something that is not.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether whoever read had too few rights, as against a fact that nobody can read.
    pub const fn is_denied(&self) -> bool {
        matches!(self, Self::Denied)
    }

    /// In these words.
    pub fn from_text(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Untold(why.into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Denied => f.write_str("denied"),
            Self::Malformed(why) => write!(f, "malformed: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::LeftOut { why, .. } => f.write_str(why),
            Self::Untold(why) => f.write_str(why),
        }
    }
}

/// A fact that is missing, in words, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// `/proc/meminfo: absent`.
    pub text: String,
    /// What of it counts for the exit code.
    pub why: Reason,
}

impl Lack {
    /// `what: why`.
    pub fn new(what: impl fmt::Display, why: Reason) -> Self {
        Self { text: format!("{what}: {why}"), why }
    }

    /// Of a fact that is not known.
    pub fn from_fact<T>(what: impl fmt::Display, fact: &Observed<T>) -> Self {
        Self::new(what, fact.unknown_reason().unwrap_or(Reason::from_text("not understood")))
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A fact that exists but could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unread {
    /// The file, interface or question: `/proc/4711/maps`.
    pub what: String,
    /// Why: `denied`, `malformed: line 3: ...`, `skipped: time budget`.
    pub why: Reason,
}

impl Unread {
    /// A note on this.
    pub fn new(what: impl Into<String>, why: Reason) -> Self {
        Self { what: what.into(), why }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
