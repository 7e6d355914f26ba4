//! The experiments, one file each.

pub mod access;
mod arena;
mod cluster;
pub mod logins;
pub mod page_tables;
pub mod pool;
pub mod postgresql;
mod server;
pub mod sort;
pub mod workload;

use hugewise_model::{Bytes, PageSize};

use crate::experiment::Failure;
use crate::segment::{Kind, Pages, Segment};
use crate::variant::Variant;

/// Private memory on a variant's pages.
fn private(variant: Variant, size: Bytes) -> Result<Segment, Failure> {
    let pages = variant.pool().map_or(Pages::Base, Pages::Huge);
    let segment = Segment::create(Kind::Private, size, pages)
        .map_err(|error| Failure::Unavailable(format!("{size} on {variant} pages: {error}")))?;
    if variant.pool().is_none() {
        // A kernel without transparent huge pages has nothing to keep away.
        segment.transparent(variant.is_transparent()).or_else(|error| {
            if variant.is_transparent() { Err(Failure::Unavailable(error.to_string())) } else { Ok(()) }
        })?;
    }
    Ok(segment)
}

/// Touches as much memory as will be measured, and gives it back: a hypervisor gives a machine its memory when that
/// touches it, which is not to be measured. What is freed here comes back at the next asking, for the most part.
fn warm(variant: Variant, size: Bytes, threads: usize) -> Result<(), Failure> {
    Ok(private(variant, size)?.populate(unit(variant), threads)?)
}

/// What each thread's part of the memory is a multiple of.
fn unit(variant: Variant) -> PageSize {
    variant.pool().unwrap_or(PageSize::MIB_2)
}
