//! What a user without rights tries against root's hugewise: each attack played for real, by a user
//! of his own with a program and files of his own, and nothing got done, read or stopped by it.
//!
//! SECURITY.md has a table of attack to test. `HUGEWISE_BINARY=PATH cargo test ...` plays them
//! against another build.

mod attacker;

mod accounts;
mod archives;
mod captures;
mod clients;
mod containers;
mod formats;
mod identity;
mod languages;
mod lasting;
mod memory;
mod plans;
mod reading;
mod serving;
mod undoing;
mod vouching;

pub(crate) use attacker::{Attacker, Fake, Looks};
