//! Archives that somebody left for root to read.
