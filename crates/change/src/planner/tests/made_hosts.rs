//! Hosts made up for what no captured one has.
