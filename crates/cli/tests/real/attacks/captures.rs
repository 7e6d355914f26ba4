//! Secrets that a user plants, for a capture to carry away.
