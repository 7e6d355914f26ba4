//! From when on pages that nobody uses or asks for are worth a word, for a plan and for rules.

use hugewise_model::{Bytes, InstanceId, Lack, PageCount, PageSize, Reason};

use crate::Missing;

pub(crate) const IDLE: f64 = 0.5;
/// Less idle memory than this is not worth a word.
pub(crate) const LEAST_IDLE: Bytes = Bytes::from_mib(64);
/// Spare pages up to this part of a pool are what careful people set aside.
pub(crate) const SPARE: f64 = 0.1;
/// Spare pages of less memory than this are not worth a word.
pub(crate) const LEAST_SPARE: Bytes = Bytes::from_gib(1);
/// One of so many is a few.
pub(crate) const FEW: u64 = 50;

pub(crate) fn is_idle(left_over: PageCount, total: PageCount, page: PageSize) -> bool {
    let part = left_over.to_bytes(page).part_of(total.to_bytes(page)).unwrap_or_default();
    left_over.to_bytes(page) >= LEAST_IDLE && part >= IDLE
}

pub(crate) fn is_beyond_spare(left_over: Bytes, total: Bytes) -> bool {
    left_over >= LEAST_SPARE && left_over.part_of(total).unwrap_or_default() >= SPARE
}

/// A few more that may be asked for or not make no other answer of it.
pub(crate) fn is_worth_giving_back(left_over: PageCount, total: PageCount, page: PageSize) -> bool {
    let left_over = left_over + PageCount(left_over.get() / FEW);
    is_beyond_spare(left_over.to_bytes(page), total.to_bytes(page))
        || is_idle(left_over, total, page)
}

pub(crate) fn unread_next_demand(id: &InstanceId) -> Missing {
    Missing::Host(Lack::new(
        format_args!("what {id} will ask for at its next start"),
        Reason::Untold("its settings could not be read".into()),
    ))
}
