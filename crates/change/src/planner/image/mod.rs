//! Hosts that are made out of an image: files and boot-loader commands that last elsewhere are lost there at the next
//! update or boot, or refused. What such a system takes instead is given as text.
//!
//! Where /etc is the machine's own (ostree, transactional-update, Flatcar), drop-ins in it are; only the kernel's command
//! line goes another way. Where it is not (Bottlerocket, Talos, NixOS, a root in memory), nothing of the boot is ours.

mod instructions;

use hugewise_host::kernel::mounts;
use hugewise_host::{Door, Source};
use hugewise_model::{Host, Remedy};

use super::Ask;
use super::draft::{Draft, Drafted};
use crate::plan::{Change, Plan, Risk, When};
use instructions::Wanted;

/// How a system is made.
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
    /// Whether files in /etc are there after the next boot and the next update.
    const fn keeps_etc(self) -> bool {
        matches!(self, Self::Ostree | Self::Bootc | Self::OpenShift | Self::Transactional | Self::Flatcar)
    }

    const fn why(self) -> &'static str {
        match self {
            Self::Ostree => {
                "this is an ostree system: rpm-ostree writes its boot entries, and grubby's changes are lost"
            }
            Self::Bootc => "this is a bootc system: its boot entries are written with each image",
            Self::OpenShift => "this is Red Hat CoreOS: the machine config operator reverts what others change",
            Self::Transactional => "this is a transactional system: its boot loader is changed with a snapshot",
            Self::Flatcar => "this is Flatcar: its boot loader reads grub.cfg of the OEM partition",
            Self::Bottlerocket => "this is Bottlerocket: each boot regenerates /etc from its settings",
            Self::Talos => "this is Talos: everything comes from its machine config",
            Self::NixOs => "this is NixOS: /etc and the boot entries are made from its configuration",
            Self::InMemory => "this system's root is in memory, so changes are lost at the next boot",
        }
    }
}

fn of(source: &dyn Source, host: &Host) -> Option<Image> {
    let release = ["/etc/os-release", "/usr/lib/os-release"].iter().find_map(|path| source.read(path).into_known());
    let release = String::from_utf8_lossy(&release.unwrap_or_default()).into_owned();
    let field = |name: &str| {
        let value = release.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        value.map(|value| value.trim_matches(['"', '\'']).to_ascii_lowercase()).unwrap_or_default()
    };
    let (id, variant) = (field("ID"), field("VARIANT_ID"));
    let name = host.os.known().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let is = |ids: &[&str], names: &[&str]| {
        ids.contains(&id.as_str()) || (id.is_empty() && names.iter().any(|it| name.starts_with(it)))
    };
    let there = |path: &str| !source.read(path).is_absent() || !source.list(path).is_absent();
    let words = host.command_line.known().map(Vec::as_slice).unwrap_or_default();
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
    } else if is(&["rhcos", "scos"], &["red hat enterprise linux coreos"]) || (id == "rhel" && variant == "coreos") {
        Some(Image::OpenShift)
    } else if there("/run/ostree-booted") || word("ostree=") {
        Some(if there("/usr/lib/bootc") || there("/usr/bin/bootc") { Image::Bootc } else { Image::Ostree })
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

fn root_mount(source: &dyn Source) -> Option<mounts::Mount> {
    let mounts = mounts::read(&mut Door::new(source)).into_known()?;
    mounts.into_iter().rfind(|mount| mount.path == "/")
}

fn is_read_only(source: &dyn Source) -> bool {
    root_mount(source).is_some_and(|root| root.options.split(',').next() == Some("ro"))
}

/// systemd.volatile, Ubuntu's overlayroot, dracut's and Debian's live systems; or a root that says it itself.
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
    said.iter().any(|it| word(it))
        || root_mount(source).is_some_and(|root| matches!(root.kind.as_str(), "tmpfs" | "ramfs" | "rootfs"))
}

/// What is to be done by hand for these words on the kernel's command line; `None` where hugewise does it.
pub(super) fn kernel_words(ask: &Ask<'_>, words: &[String]) -> Option<Vec<String>> {
    let image = of(ask.source, ask.host)?;
    Some(instructions::lines(image, &Wanted::kernel(words.to_vec())))
}

/// Takes out of the plan what this system would not keep, and says what it takes instead.
pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let Some(image) = of(ask.source, ask.host).filter(|image| !image.keeps_etc()) else { return };
    let mut wanted = Wanted::default();
    for step in &mut draft.steps {
        let pools = step.part.keeps_pools();
        let files: Vec<String> = take_files(step, &mut wanted);
        if files.is_empty() {
            continue;
        }
        for path in files {
            draft.after.forget(&path);
        }
        if pools {
            draft.pools.iter_mut().for_each(|goal| goal.at_boot = false);
        }
    }
    draft.steps.retain(|step| !step.changes.is_empty());
    if !wanted.is_empty() {
        let title = "what the next boot should find, in this system's own configuration";
        draft.instruct(title, &instructions::lines(image, &wanted), Risk::Reboot, None);
    }
}

/// The files of a step in /etc, and the commands that go with them.
fn take_files(step: &mut Drafted, wanted: &mut Wanted) -> Vec<String> {
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
        let of_boot = |remedy: &Remedy| matches!(remedy, Remedy::KeepAtBoot(_) | Remedy::KeepThpAtBoot);
        step.carries.retain(|it| it.when == When::Now && !of_boot(&it.remedy));
    }
    files
}

/// Says first that a plan is not for here.
pub(super) fn confined(host: &Host, plan: &mut Plan) {
    if let Some(why) = &host.confined {
        let why = hugewise_advice::words::one_line(why);
        plan.warnings.insert(0, format!("{why}: hugewise apply refuses to run here; run it on the host itself"));
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::Observed;

    use super::*;

    fn image(source: &MapSource, words: &str) -> Option<Image> {
        let words = words.split_whitespace().map(str::to_owned).collect();
        of(source, &Host { command_line: Observed::Known(words), ..Host::default() })
    }

    #[test]
    fn systems_are_told_by_what_they_say_of_themselves() {
        let release = |text: &str| MapSource::new().file("/etc/os-release", text);
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
        assert_eq!(image(&debian().file("/usr/bin/bootc", ""), "ro"), None, "bootc builds images on any host");
        assert_eq!(image(&debian(), "ostree=/ostree/boot.1/debian/0"), Some(Image::Ostree));
        let fedora = || release("ID=fedora\nVARIANT_ID=coreos\n").file("/run/ostree-booted", "");
        assert_eq!(image(&fedora(), ""), Some(Image::Ostree));
        assert_eq!(image(&fedora().file("/usr/lib/bootc/kargs.d/1.toml", ""), ""), Some(Image::Bootc));
        assert_eq!(image(&debian(), "boot=live components"), Some(Image::InMemory));
        let memory = debian().file("/proc/self/mountinfo", "22 1 0:31 / / rw - tmpfs tmpfs rw\n");
        assert_eq!(image(&memory, ""), Some(Image::InMemory));
    }
}
