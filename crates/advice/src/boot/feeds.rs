//! Where a boot loader's command line comes from: what it reads is often generated out of other files.

use hugewise_model::Host;
use hugewise_model::configuration::Loader;

/// The place to change words of the command line in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feeds {
    /// The files, in words: `/etc/default/grub or /etc/default/grub.d`.
    pub file: String,
    /// How the change gets to the loader: `#` lines and commands.
    pub how: Vec<String>,
}

/// Where the next boot's command line is changed on this host.
pub fn feeds(host: &Host) -> Feeds {
    let entry = host.configuration.boot.known();
    let place = entry.map(|entry| entry.place.file.clone()).unwrap_or_default();
    match entry.map(|entry| entry.loader) {
        Some(Loader::Grub) => Feeds {
            file: "/etc/default/grub or /etc/default/grub.d".into(),
            how: vec![
                format!("# {place} is generated: change GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT, then"),
                format!("# update-grub (Debian, Ubuntu), or grub2-mkconfig -o {place}"),
            ],
        },
        Some(Loader::GrubLegacy) => Feeds {
            file: place.clone(),
            how: vec![format!("# in {place}: on the `kernel` line of the entry that `default=` names")],
        },
        Some(Loader::Bls) => Feeds {
            file: "the boot entries, with grubby".into(),
            how: vec![
                format!(
                    "# {place} is rewritten with each kernel: grubby changes it, and what the next ones are made of:"
                ),
                "# grubby --update-kernel=ALL --remove-args='hugepages hugepagesz' --args='...'".into(),
                "# (on ostree: rpm-ostree kargs --editor)".into(),
            ],
        },
        Some(Loader::SystemdBoot) => Feeds {
            file: "/etc/kernel/cmdline".into(),
            how: vec![
                format!(
                    "# {place} is rewritten with each kernel: change /etc/kernel/cmdline too, and the entry or image itself"
                ),
                "# (kernelstub -d and -a on Pop!_OS; kernel-install add or ukify elsewhere)".into(),
            ],
        },
        None => Feeds {
            file: "the boot loader's configuration".into(),
            how: vec!["# hugewise knows no boot loader on this host: change what starts this kernel".into()],
        },
    }
}

/// What stands behind a word in the name of its place.
const ON_COMMAND_LINE: &str = " on the kernel's command line";

/// The place of a word of the command line: in no file, whichever the boot loader has it from.
pub(super) fn on_command_line(word: &str) -> String {
    format!("{word}{ON_COMMAND_LINE}")
}

/// The word of the kernel's command line that a place is, where it is one.
pub fn word_at(place: &str) -> Option<&str> {
    place.strip_suffix(ON_COMMAND_LINE)
}

/// Where a setting of the next boot is changed: a word of the command line where the boot loader's file is made from.
pub fn place_to_edit(host: &Host, place: &str) -> String {
    let entry = host.configuration.boot.known().map(|entry| entry.place.file.as_str());
    let is_loaders =
        entry.is_some_and(|file| place == file || place.strip_prefix(file).is_some_and(|rest| rest.starts_with(':')));
    if is_loaders || word_at(place).is_some() || place.starts_with("/proc/cmdline") {
        feeds(host).file
    } else {
        place.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;
    use hugewise_model::configuration::{BootEntry, Place};

    use super::*;

    #[test]
    fn a_generated_file_is_not_the_place_to_edit() {
        let mut host = Host::default();
        assert_eq!(place_to_edit(&host, "/proc/cmdline"), "the boot loader's configuration");
        let place = Place { file: "/boot/grub/grub.cfg".into(), line: 3 };
        let entry = BootEntry { loader: Loader::Grub, command_line: Vec::new(), place };
        host.configuration.boot = Observed::Known(entry);
        let word = on_command_line("hugepages=4");
        assert_eq!(word_at(&word), Some("hugepages=4"));
        for place in ["/boot/grub/grub.cfg:3", "/boot/grub/grub.cfg", "/proc/cmdline", &word] {
            assert_eq!(place_to_edit(&host, place), "/etc/default/grub or /etc/default/grub.d");
        }
        assert_eq!(place_to_edit(&host, "/etc/sysctl.d/a.conf:1"), "/etc/sysctl.d/a.conf:1");
    }
}
