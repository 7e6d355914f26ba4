//! Memory by hand: [`segment`]s by page-size policy, sessions as processes ([`session_process`]),
//! and the [`guard`] that takes a host's pools for an experiment or a test and restores them.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod budget;
pub mod cancel;
mod cpu_load;
pub mod experiment;
pub mod experiments;
pub mod fake_server;
mod fragment;
pub mod guard;
mod kernel_values;
mod periodic_task;
mod pointer_chase;
pub mod results;
pub mod run;
pub mod segment;
pub mod session_process;
mod system_call;
pub mod thp_switches;
mod tlb_counter;
pub mod touch;
pub mod variant;
mod watchdog;
