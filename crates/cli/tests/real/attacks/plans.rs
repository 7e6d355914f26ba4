//! Where root writes and what it restarts.
