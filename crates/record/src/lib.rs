//! The flight recorder: what a host did, second by second, in a ring on its disk.
//!
//! [`ring`] is the file: its format, a writer and a reader that survives cuts anywhere. [`record`] takes the samples and is
//! built to keep its pace while the host does not: [`sampler`] has its threads, [`kernel`] what each of the kernel's files
//! says. docs/recorder.md describes both for people.

mod crc;
pub mod field;
pub mod kernel;
pub mod latest;
pub mod notes;
pub mod record;
pub mod ring;
pub mod sample;
pub mod sampler;
pub mod status;
#[doc(hidden)]
pub mod testing;
mod varint;

pub use field::{Field, Unit};
pub use latest::{Latest, latest};
pub use notes::{Event, EventKind, Instance, Instances, Process, Processes};
pub use record::{Error, Options, record};
pub use sample::{Pool, Sample};

#[cfg(test)]
#[global_allocator]
static COUNTING: hugewise_lab::counting::Counting = hugewise_lab::counting::Counting;
