//! Journals and files that somebody has changed between apply and undo.
