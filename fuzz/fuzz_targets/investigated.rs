#![no_main]

//! Any bytes as a file that somebody gives to `investigate`, and what they cost.

hugewise_fuzz::target!(hugewise_fuzz::investigate_within_budget);
