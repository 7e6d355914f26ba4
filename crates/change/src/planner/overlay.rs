//! A host as it will be: files over those of a source.

pub(crate) use hugewise_host::source::Overlay;
