//! x
/// Where journals are.
pub const FOLDER: &str = "/var/lib/hugewise/journal";
