//! How much of a pool nobody uses or asks for, and from when on that is worth a word. A plan and the rules of idle pools go by
//! the same bounds: what the one keeps, the others don't have given back.

use hugewise_model::{Bytes, PageCount, PageSize};

/// A pool of which at least this part is available to anyone is idle.
pub(crate) const IDLE: f64 = 0.5;
/// Less idle memory than this is not worth a word.
const LEAST_IDLE: Bytes = Bytes::from_mib(64);
/// Spare pages up to this part of a pool are what careful people set aside.
const SPARE: f64 = 0.1;
/// Spare pages of less memory than this are not worth a word.
const LEAST_SPARE: Bytes = Bytes::from_gib(1);
/// One of so many is a few.
pub(crate) const FEW: u64 = 50;

/// Whether half of a pool or more is left over, and enough memory to speak of.
pub(crate) fn is_idle(left_over: PageCount, total: PageCount, page: PageSize) -> bool {
    let part = left_over.of(page).part_of(total.of(page)).unwrap_or_default();
    left_over.of(page) >= LEAST_IDLE && part >= IDLE
}

/// Whether more is left over than careful people set aside.
pub(crate) fn is_beyond_spare(left_over: Bytes, total: Bytes) -> bool {
    left_over >= LEAST_SPARE && left_over.part_of(total).unwrap_or_default() >= SPARE
}

/// Whether a pool of which so many pages are left over is a rule's to have given back. A few more that may be asked for or not
/// make no other answer of it.
pub(crate) fn is_worth_giving_back(left_over: PageCount, total: PageCount, page: PageSize) -> bool {
    let left_over = left_over + PageCount(left_over.get() / FEW);
    is_beyond_spare(left_over.of(page), total.of(page)) || is_idle(left_over, total, page)
}
