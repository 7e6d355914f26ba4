//! The processors that a release is built for.

/// One of them, as everybody calls it.
pub(super) struct Processor {
    /// rustc's name of what is built for.
    pub(super) target: &'static str,
    /// As `uname -m` and RPM say it.
    pub(super) machine: &'static str,
    /// As Debian does.
    pub(super) debian: &'static str,
    /// As Go and therefore container images do:
    /// <https://github.com/opencontainers/image-spec/blob/main/image-index.md#platform-variants>.
    pub(super) image: &'static str,
}

/// That of the machines that build releases.
pub(super) const X86_64: Processor = Processor {
    target: "x86_64-unknown-linux-gnu",
    machine: "x86_64",
    debian: "amd64",
    image: "amd64",
};

/// Built in a root file system of Debian sid ([`super::cross`]).
pub(super) const ARM64: Processor = Processor {
    target: "aarch64-unknown-linux-gnu",
    machine: "aarch64",
    debian: "arm64",
    image: "arm64",
};
