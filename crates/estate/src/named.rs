//! Estates by name.
