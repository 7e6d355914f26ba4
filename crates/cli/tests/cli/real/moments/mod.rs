//! What check foretells of three moments (now, the next restart of a server, the next boot of the
//! host) beside what really happens then.
//!
//! A set-up is pools, boot files, running servers, and what was changed since they started. check
//! is asked; then the servers' mappings are looked at, each server is really stopped and started,
//! and the boot is played: pools at nothing, systemd's own sysctl and tmpfiles over the files, all
//! servers in each order, of which the worst counts. Each set-up prints a line, foretold beside
//! seen.
//!
//! Other set-ups are followed: what hugewise plans is done, and everything has to be well then.

mod advice;
mod forecast;
mod kinds;
mod mappings;
mod scene;
mod stage;

mod advised;
mod boot_files;
mod ergonomics;
mod limits;
mod machine;
mod pools;
mod remedied;
mod settings;
mod several;
mod sizes;
