//! Where a boot loader's command line comes from: it is often generated out of other files.

use hugewise_model::Host;
use hugewise_model::configuration::BootLoader;

use super::BootPlace;

/// The place to change words of the command line in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmdlineSource {
    /// The files, in words: `/etc/default/grub or /etc/default/grub.d`.
    pub file: String,
    /// How the change gets to the loader: `#` lines and commands.
    pub how: Vec<String>,
}

/// Where the next boot's command line is changed on this host.
pub fn find_cmdline_source(host: &Host) -> CmdlineSource {
    let entry = host.configuration.boot.as_known();
    let place = entry.map(|entry| entry.place.file.clone()).unwrap_or_default();
    match entry.map(|entry| entry.loader) {
        Some(BootLoader::Grub) => CmdlineSource {
            file: "/etc/default/grub or /etc/default/grub.d".into(),
            how: vec![
                format!(
                    "# {place} is generated: change GRUB_CMDLINE_LINUX or \
                     GRUB_CMDLINE_LINUX_DEFAULT, then"
                ),
                format!("# update-grub (Debian, Ubuntu), or grub2-mkconfig -o {place}"),
            ],
        },
        Some(BootLoader::GrubLegacy) => CmdlineSource {
            file: place.clone(),
            how: vec![format!(
                "# in {place}: on the `kernel` line of the entry that `default=` names"
            )],
        },
        Some(BootLoader::Bls) => CmdlineSource {
            file: "the boot entries, with grubby".into(),
            how: vec![
                format!(
                    "# {place} is rewritten with each kernel: grubby changes it, and what the next \
                     ones are made of:"
                ),
                "# grubby --update-kernel=ALL --remove-args='hugepages hugepagesz' --args='...'"
                    .into(),
                "# (on ostree: rpm-ostree kargs --editor)".into(),
            ],
        },
        Some(BootLoader::SystemdBoot) => CmdlineSource {
            file: "/etc/kernel/cmdline".into(),
            how: vec![
                format!(
                    "# {place} is rewritten with each kernel: change /etc/kernel/cmdline too, and \
                     the entry or image itself"
                ),
                "# (kernelstub -d and -a on Pop!_OS; kernel-install add or ukify elsewhere)".into(),
            ],
        },
        None => CmdlineSource {
            file: "the boot loader's configuration".into(),
            how: vec![
                "# hugewise knows no boot loader on this host: change what starts this kernel"
                    .into(),
            ],
        },
    }
}

/// The file to change a setting of the next boot in: a word of the command line, in its source.
pub(crate) fn place_to_edit(host: &Host, place: &BootPlace) -> String {
    let loader = host.configuration.boot.as_known().map(|entry| entry.place.file.as_str());
    let is_command_line = |file| Some(file) == loader || file == "/proc/cmdline";
    if place.kernel_word().is_some() || place.file().is_some_and(is_command_line) {
        find_cmdline_source(host).file
    } else {
        place.to_string()
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;
    use hugewise_model::configuration::{BootEntry, FileLocation};

    use super::*;

    #[test]
    fn a_generated_file_is_not_the_place_to_edit() {
        let mut host = Host::default();
        let file = |file: &str, line| BootPlace::File(FileLocation { file: file.into(), line });
        let unknown = place_to_edit(&host, &file("/proc/cmdline", 0));
        assert_eq!(unknown, "the boot loader's configuration");
        let place = FileLocation { file: "/boot/grub/grub.cfg".into(), line: 3 };
        let entry = BootEntry { loader: BootLoader::Grub, command_line: Vec::new(), place };
        host.configuration.boot = Observed::Known(entry);
        for place in [
            file("/boot/grub/grub.cfg", 3),
            file("/boot/grub/grub.cfg", 0),
            file("/proc/cmdline", 0),
            BootPlace::KernelWord("hugepages=4".into()),
        ] {
            assert_eq!(place_to_edit(&host, &place), "/etc/default/grub or /etc/default/grub.d");
        }
        let sysctl = place_to_edit(&host, &file("/etc/sysctl.d/a.conf", 1));
        assert_eq!(sysctl, "/etc/sysctl.d/a.conf:1");
    }
}
