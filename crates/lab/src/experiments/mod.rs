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

use crate::experiment::ExperimentFailure;
use crate::segment::{MappedSegment, SegmentPages, SegmentSource};
use crate::variant::Variant;

fn create_private_segment(
    variant: Variant,
    size: Bytes,
) -> Result<MappedSegment, ExperimentFailure> {
    let pages = variant.pool_page_size().map_or(SegmentPages::Base, SegmentPages::Huge);
    let segment = MappedSegment::create(SegmentSource::Private, size, pages).map_err(|error| {
        ExperimentFailure::Unavailable(format!("{size} on {variant} pages: {error}"))
    })?;
    if variant.pool_page_size().is_none() {
        // A kernel without transparent huge pages has none to keep away.
        segment.advise_transparent(variant.is_transparent()).or_else(|error| {
            if variant.is_transparent() {
                Err(ExperimentFailure::Unavailable(error.to_string()))
            } else {
                Ok(())
            }
        })?;
    }
    Ok(segment)
}

/// Touches the memory that will be measured, and gives it back: a hypervisor provides memory at the
/// first touch, which is not to be measured. What is freed here mostly comes back next.
fn warm_up_memory(variant: Variant, size: Bytes, threads: usize) -> Result<(), ExperimentFailure> {
    Ok(create_private_segment(variant, size)?.populate_pages(populate_unit(variant), threads)?)
}

fn populate_unit(variant: Variant) -> PageSize {
    variant.pool_page_size().unwrap_or(PageSize::MIB_2)
}
