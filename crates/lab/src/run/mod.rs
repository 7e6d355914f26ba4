//! Programs with their private memory on huge pages: what they are, what they are told, how they
//! ran.

pub mod compare;
pub mod instructions;
pub mod launch;
pub mod program;
pub mod program_memory;
pub mod refusal;
mod thp;
