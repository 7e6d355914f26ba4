//! Carries a plan out.

/// What may be overruled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Apply a plan that was refused, or that leaves too little memory.
    pub force: bool,
    /// A step that fails is taken back alone, and the rest goes on.
    pub keep_going: bool,
    /// A pool that got fewer pages than asked for keeps them.
    pub keep_partial: bool,
}
