//! Versions of sysstat.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SysstatVersion(pub(super) u8, pub(super) u8, pub(super) u8, pub(super) u8);

impl std::fmt::Display for SysstatVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(version, patch, sub, extra) = self;
        write!(f, "{version}.{patch}.{sub}")?;
        if *extra > 0 { write!(f, ".{extra}") } else { Ok(()) }
    }
}
