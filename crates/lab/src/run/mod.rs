//! Programs started with their private memory on huge pages: what they are, what they are told, how they ran.

pub mod compare;
pub mod instructions;
pub mod launch;
pub mod memory;
pub mod program;
pub mod refusal;
mod thp;
