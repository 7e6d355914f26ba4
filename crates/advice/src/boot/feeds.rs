//! Where a boot loader's command line comes from: what it reads is often generated out of other files.

use hugewise_model::Host;

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
    match entry.map(|entry| entry.loader.as_str()) {
        Some("grub") => Feeds {
            file: "/etc/default/grub or /etc/default/grub.d".into(),
            how: vec![
                format!("# {place} is generated: change GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT, then"),
                format!("# update-grub (Debian, Ubuntu), or grub2-mkconfig -o {place}"),
            ],
        },
        Some("bls") => Feeds {
            file: "the boot entries, with grubby".into(),
            how: vec![
                format!(
                    "# {place} is rewritten with each kernel: grubby changes it, and what the next ones are made of:"
                ),
                "# grubby --update-kernel=ALL --remove-args='hugepages hugepagesz' --args='...'".into(),
                "# (on ostree: rpm-ostree kargs --editor)".into(),
            ],
        },
        Some("systemd-boot") => Feeds {
            file: "/etc/kernel/cmdline".into(),
            how: vec![
                format!(
                    "# {place} is rewritten with each kernel: change /etc/kernel/cmdline too, and the entry or image itself"
                ),
                "# (kernelstub -d and -a on Pop!_OS; kernel-install add or ukify elsewhere)".into(),
            ],
        },
        Some(_) | None => Feeds {
            file: "the boot loader's configuration".into(),
            how: vec!["# no boot loader that hugewise knows is here: change what starts this kernel".into()],
        },
    }
}
