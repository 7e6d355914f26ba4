//! Points in time, as all reports write them.

pub use hugewise_model::calendar::{format_rfc3339, format_utc_day};
