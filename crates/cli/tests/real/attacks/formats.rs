//! Texts of the host in languages that evaluate.
