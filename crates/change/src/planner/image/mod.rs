//! Hosts that are made out of an image: files and boot-loader commands that last elsewhere are lost
//! there at the next update or boot, or refused. What they take instead is given as text.
//!
//! Where /etc is the machine's own (ostree, transactional-update, Flatcar), only the kernel's
//! command line goes another way. Elsewhere (Bottlerocket, Talos, NixOS, a root in memory) nothing
//! of the boot is ours.

mod instructions;

use hugewise_diagnose::wording::one_line;
use hugewise_host::kernel::mounts;
use hugewise_host::{FactReader, Source};
use hugewise_model::{Host, Remedy};

use super::PlanRequest;
use super::draft::{Draft, Drafted};
use crate::plan::{Change, EffectTime, Plan, Risk};
use instructions::{ImageSettings, render_image_instructions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Image {
    /// Fedora CoreOS, Silverblue and IoT, RHEL for Edge.
    Ostree,
    /// The same, made out of a container image.
    Bootc,
    /// Red Hat CoreOS, which OpenShift sets up.
    OpenShift,
    /// SLE Micro, openSUSE MicroOS.
    Transactional,
    Flatcar,
    Bottlerocket,
    Talos,
    NixOs,
    /// A live system, or one whose changes are kept in memory.
    InMemory,
}

impl Image {
    /// Whether files in /etc outlast the next boot and the next update.
    const fn keeps_etc(self) -> bool {
        matches!(
            self,
            Self::Ostree | Self::Bootc | Self::OpenShift | Self::Transactional | Self::Flatcar
        )
    }

    const fn explain_image(self) -> &'static str {
        match self {
            Self::Ostree => {
                "this is an ostree system: rpm-ostree writes its boot entries, and grubby's \
                     changes are lost"
            }
            Self::Bootc => "this is a bootc system: its boot entries are written with each image",
            Self::OpenShift => {
                "this is Red Hat CoreOS: the machine config operator reverts what others change"
            }
            Self::Transactional => {
                "this is a transactional system: its boot loader is changed with a snapshot"
            }
            Self::Flatcar => "this is Flatcar: its boot loader reads grub.cfg of the OEM partition",
            Self::Bottlerocket => {
                "this is Bottlerocket: each boot regenerates /etc from its settings"
            }
            Self::Talos => "this is Talos: everything comes from its machine config",
            Self::NixOs => {
                "this is NixOS: /etc and the boot entries are made from its configuration"
            }
            Self::InMemory => {
                "this system's root is in memory, so changes are lost at the next boot"
            }
        }
    }
}

fn detect_image(source: &dyn Source, host: &Host) -> Option<Image> {
    let release = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| source.read(path).into_known());
    let release = String::from_utf8_lossy(&release.unwrap_or_default()).into_owned();
    let field = |name: &str| {
        let value =
            release.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        value.map(|value| value.trim_matches(['"', '\'']).to_ascii_lowercase()).unwrap_or_default()
    };
    let (id, variant) = (field("ID"), field("VARIANT_ID"));
    let name = host.os.as_known().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let is = |ids: &[&str], names: &[&str]| {
        ids.contains(&id.as_str())
            || (id.is_empty() && names.iter().any(|text| name.starts_with(text)))
    };
    let there =
        |path: &str| !source.read(path).is_absent() || !source.list_folder(path).is_absent();
    let words = host.command_line.as_known().map(Vec::as_slice).unwrap_or_default();
    let word = |begins: &str| words.iter().any(|word| word.starts_with(begins));
    let suse = [
        "opensuse-microos",
        "sle-micro",
        "sl-micro",
        "suse-microos",
        "opensuse-leap-micro",
        "opensuse-aeon",
        "opensuse-kalpa",
        "opensuse-slowroll-micro",
    ];
    if is(&["talos"], &["talos"]) {
        Some(Image::Talos)
    } else if is(&["bottlerocket"], &["bottlerocket"]) {
        Some(Image::Bottlerocket)
    } else if is(&["nixos"], &["nixos"]) || there("/etc/NIXOS") {
        Some(Image::NixOs)
    } else if is(&["flatcar"], &["flatcar"]) {
        Some(Image::Flatcar)
    } else if is(&["rhcos", "scos"], &["red hat enterprise linux coreos"])
        || (id == "rhel" && variant == "coreos")
    {
        Some(Image::OpenShift)
    } else if there("/run/ostree-booted") || word("ostree=") {
        Some(if there("/usr/lib/bootc") || there("/usr/bin/bootc") {
            Image::Bootc
        } else {
            Image::Ostree
        })
    } else if word("composefs=") || (there("/usr/lib/bootc/kargs.d") && is_read_only(source)) {
        Some(Image::Bootc)
    } else if is(&suse, &["opensuse microos", "suse linux enterprise micro", "suse linux micro"])
        || (there("/usr/sbin/transactional-update") && is_read_only(source))
    {
        Some(Image::Transactional)
    } else {
        is_in_memory(source, &word).then_some(Image::InMemory)
    }
}

fn find_root_mount(source: &dyn Source) -> Option<mounts::Mount> {
    let mounts = mounts::read(&mut FactReader::new(source)).into_known()?;
    mounts.into_iter().rfind(|mount| mount.path == "/")
}

fn is_read_only(source: &dyn Source) -> bool {
    find_root_mount(source).is_some_and(|root| root.options.split(',').next() == Some("ro"))
}

/// systemd.volatile, Ubuntu's overlayroot, dracut's and Debian's live systems; or a root in RAM.
fn is_in_memory(source: &dyn Source, word: &dyn Fn(&str) -> bool) -> bool {
    let said = [
        "systemd.volatile=yes",
        "systemd.volatile=state",
        "systemd.volatile=overlay",
        "overlayroot=tmpfs",
        "rd.live.image",
        "rd.live.overlay.overlayfs",
        "boot=live",
        "boot=casper",
    ];
    said.iter().any(|text| word(text))
        || find_root_mount(source)
            .is_some_and(|root| matches!(root.kind.as_str(), "tmpfs" | "ramfs" | "rootfs"))
}

/// `None` where hugewise changes the command line itself.
pub(super) fn kernel_word_lines(ask: &PlanRequest<'_>, words: &[String]) -> Option<Vec<String>> {
    let image = detect_image(ask.source, ask.host)?;
    let wanted = ImageSettings::from_kernel_words(words);
    Some(render_image_instructions(image, &wanted))
}

pub(super) fn plan_image_changes(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let Some(image) = detect_image(ask.source, ask.host).filter(|image| !image.keeps_etc()) else {
        return;
    };
    let mut wanted = ImageSettings::default();
    for step in &mut draft.steps {
        let pools = step.part.keeps_pools();
        let files = take_files(step, &mut wanted);
        if files.is_empty() {
            continue;
        }
        files.iter().for_each(|path| draft.after.forget_file(path));
        draft.described.retain(|instance| step.of != Some(instance.id()));
        if pools {
            draft.pools.iter_mut().for_each(|goal| goal.at_boot = false);
        }
    }
    draft.steps.retain(|step| !step.changes.is_empty());
    if !wanted.is_empty() {
        let title = "what the next boot should find, in this system's own configuration";
        let lines = render_image_instructions(image, &wanted);
        draft.add_instruction(title, &lines, Risk::Reboot, None);
    }
}

fn take_files(step: &mut Drafted, wanted: &mut ImageSettings) -> Vec<String> {
    let mut files = Vec::new();
    for change in &step.changes {
        if let Change::File(file) = change
            && file.path.starts_with("/etc/")
        {
            files.push(file.path.clone());
            if let Some(after) = &file.after {
                wanted.add(&file.path, &String::from_utf8_lossy(after.content.bytes()));
            }
        }
    }
    if !files.is_empty() {
        step.changes.retain(|change| matches!(change, Change::Value(_)));
        let of_boot =
            |remedy: &Remedy| matches!(remedy, Remedy::KeepAtBoot(_) | Remedy::KeepThpAtBoot);
        step.carries.retain(|carried| carried.when == EffectTime::Now && !of_boot(&carried.remedy));
    }
    files
}

pub(super) fn warn_confined_host(host: &Host, plan: &mut Plan) {
    if let Some(why) = &host.confined {
        let why = one_line(why);
        let text = format!("{why}: hugewise apply refuses to run here; run it on the host itself");
        plan.warnings.insert(0, text);
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::Observed;

    use super::*;

    fn image(source: &MapSource, words: &str) -> Option<Image> {
        let words = words.split_whitespace().map(str::to_owned).collect();
        detect_image(source, &Host { command_line: Observed::Known(words), ..Host::default() })
    }

    #[test]
    fn systems_are_told_by_what_they_say_of_themselves() {
        let release = |text: &str| MapSource::new().with_file("/etc/os-release", text);
        for (text, expected) in [
            ("ID=flatcar\n", Image::Flatcar),
            ("NAME=Bottlerocket\nID=bottlerocket\n", Image::Bottlerocket),
            ("ID=talos\n", Image::Talos),
            ("ID=\"sle-micro\"\n", Image::Transactional),
            ("ID=\"sl-micro\"\n", Image::Transactional),
            ("ID=\"opensuse-microos\"\n", Image::Transactional),
            ("ID=nixos\n", Image::NixOs),
            ("ID=\"rhcos\"\n", Image::OpenShift),
        ] {
            assert_eq!(image(&release(text), ""), Some(expected), "{text}");
        }
        let debian = || release("ID=debian\nVERSION_ID=\"12\"\n");
        assert_eq!(image(&debian(), "root=UUID=1 ro quiet"), None);
        assert_eq!(
            image(&debian().with_file("/usr/bin/bootc", ""), "ro"),
            None,
            "bootc builds images on any host"
        );
        assert_eq!(image(&debian(), "ostree=/ostree/boot.1/debian/0"), Some(Image::Ostree));
        let fedora =
            || release("ID=fedora\nVARIANT_ID=coreos\n").with_file("/run/ostree-booted", "");
        assert_eq!(image(&fedora(), ""), Some(Image::Ostree));
        assert_eq!(
            image(&fedora().with_file("/usr/lib/bootc/kargs.d/1.toml", ""), ""),
            Some(Image::Bootc)
        );
        assert_eq!(image(&debian(), "boot=live components"), Some(Image::InMemory));
        let memory =
            debian().with_file("/proc/self/mountinfo", "22 1 0:31 / / rw - tmpfs tmpfs rw\n");
        assert_eq!(image(&memory, ""), Some(Image::InMemory));
    }
}
