//! The flight recorder: what a host did, second by second, in a ring on its disk.
//!
//! [`ring`] is the file: its format, a writer, and a reader that survives cuts anywhere. [`record`]
//! takes the samples, and keeps its pace while the host does not: [`sampler`] has its threads,
//! [`kernel`] the kernel's files. docs/recorder.md describes both for people.

mod bounded_list;
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

pub use field::{Field, FieldUnit};
pub use latest::{Latest, read_latest};
pub use notes::{
    Instances, RecordedEvent, RecordedEventKind, RecordedInstance, RecordedProcess,
    RecordedProcesses,
};
pub use record::{Error, Options, run_recorder};
pub use sample::{HostSample, RecordedPool};

static CRC32C: crc::Crc<u32, crc::Table<16>> =
    crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);

#[cfg(test)]
#[global_allocator]
static COUNTING: hugewise_testkit::allocation_counter::Counting =
    hugewise_testkit::allocation_counter::Counting;
