//! What root reads for others.
