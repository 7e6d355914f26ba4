//! What THP begins with on kernels of distributions, for hosts where no file says how theirs was
//! built.
//!
//! A kernel is told by its release: who builds another one for the same distribution gives it
//! another name. What is not listed is not known.

use hugewise_model::host::KernelRelease;

/// Kernels whose configuration was read: what the release begins with, what it has behind that, and
/// what it is in words.
/// - Red Hat's 7, 8 and 9, as its rebuilds have them (`SOURCES/kernel-*.config` of
///   github.com/openela-main/kernel and github.com/ciq-rocky-lts/kernel); 10: "enabled by default"
///   (Red Hat Enterprise Linux 10, "Managing transparent hugepages"), and
///   `kernel-x86_64-rhel.config` of Fedora's kernel package;
/// - UEK7 and UEK8 (`uek-rpm/ol9/config-x86_64` and `uek-rpm/ol10/config-x86_64` of
///   github.com/oracle/linux-uek);
/// - Debian 12 and 13 (linux-image-6.1.0-56-cloud-amd64, linux-config-6.12);
/// - Ubuntu 24.04 (`debian.master/config/annotations` of its 6.8, as github.com/NVIDIA/NV-Kernels
///   has it), but for POWER.
const KNOWN: &[(&str, &str, &str, &str)] = &[
    ("3.10.0-", ".el7.", "always", "the RHEL 7 kernel"),
    ("4.18.0-", ".el8", "always", "the RHEL 8 kernel"),
    ("5.14.0-", ".el9", "always", "the RHEL 9 kernel"),
    ("6.12.0-", ".el10", "always", "the RHEL 10 kernel"),
    ("5.15.0-", "uek", "always", "UEK7"),
    ("6.12.0-", "uek", "always", "UEK8"),
    ("6.1.", "-amd64", "always", "Debian's kernel 6.1"),
    ("6.12.", "-amd64", "always", "Debian's kernel 6.12"),
    ("6.8.0-", "-generic", "madvise", "Ubuntu's kernel 6.8"),
];

/// What THP begins with, and by whose default; `None` where nothing tells. `architecture` is as
/// `uname -m` says it.
pub fn default_thp_mode(
    kernel: &KernelRelease,
    architecture: &str,
) -> Option<(&'static str, &'static str)> {
    if !["x86_64", "aarch64"].contains(&architecture) {
        return None;
    }
    let text = kernel.text.as_str();
    let is = |(begins, has, ..): &&(&str, &str, &str, &str)| {
        let behind = text.strip_prefix(begins).and_then(|rest| rest.split_once(has));
        // A kernel of somebody else's for release 9 has more behind that: `.el9.elrepo`, `.el9uek`.
        behind.is_some_and(|(_, rest)| is_end(rest))
    };
    KNOWN.iter().find(is).map(|(_, _, word, whose)| (*word, *whose))
}

/// Whether what stands behind the mark is the update and the architecture alone: `_10.x86_64`,
/// `.aarch64+64k`, nothing.
fn is_end(rest: &str) -> bool {
    let architectures = ["x86_64", "aarch64"];
    let update = rest.trim_start_matches(|sign: char| sign == '_' || sign.is_ascii_digit());
    let update = update.trim_start_matches('.');
    update.is_empty()
        || architectures.iter().any(|name| update == *name || update == format!("{name}+64k"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_procfs::kernel::release;

    fn of_text(text: &str) -> Option<&'static str> {
        default_thp_mode(&release::parse(text.as_bytes()).unwrap(), "x86_64").map(|(word, _)| word)
    }

    #[test]
    fn kernels_whose_configuration_was_read_are_told_by_their_release() {
        for release in [
            "3.10.0-1160.119.1.el7.x86_64",
            "4.18.0-553.el8_10.x86_64",
            "5.14.0-503.11.1.el9_5.x86_64",
            "5.14.0-427.13.1.el9_4.aarch64+64k",
            "6.12.0-55.9.1.el10_0.x86_64",
            "5.15.0-305.176.4.el8uek.x86_64",
            "6.12.0-1.23.3.2.el9uek.x86_64",
            "6.1.0-30-amd64",
            "6.1.0-56-cloud-amd64",
            "6.12.48+deb13-amd64",
        ] {
            assert_eq!(of_text(release), Some("always"), "{release}");
        }
        assert_eq!(of_text("6.8.0-45-generic"), Some("madvise"));
        assert_eq!(
            default_thp_mode(&release::parse(b"6.8.0-45-generic").unwrap(), "ppc64le"),
            None
        );
    }

    #[test]
    fn nothing_is_said_of_a_kernel_of_somebody_else() {
        for release in [
            "6.12.9-1.el9.elrepo.x86_64",
            "5.14.0-503.el9.elrepo.x86_64",
            "5.14.0-1.el9.mine.x86_64",
            "4.14.35-2047.540.4.el7uek.x86_64",
            "5.4.17-2136.330.7.el8uek.x86_64",
            "4.18.0-553.el8_10.x86_64+debug-mine",
            "2.6.32-754.el6.x86_64",
            "6.18.44-fc-v769",
            "6.1.0",
            "5.15.0-105-generic",
            "6.10.0-1-amd64",
        ] {
            assert_eq!(of_text(release), None, "{release}");
        }
    }
}
