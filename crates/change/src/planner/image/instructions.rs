//! What each system takes, as text to copy.

use super::Image;

#[derive(Default)]
pub(super) struct ImageSettings {
    kernel: Vec<String>,
    settings: Vec<(String, String)>,
    /// Lines of tmpfiles.d.
    writes: Vec<String>,
    files: Vec<(String, String)>,
}

impl ImageSettings {
    pub(super) fn from_kernel_words(words: &[String]) -> Self {
        Self { kernel: words.to_vec(), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kernel.is_empty()
            && self.settings.is_empty()
            && self.writes.is_empty()
            && self.files.is_empty()
    }

    pub(super) fn add(&mut self, path: &str, text: &str) {
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        if path.starts_with("/etc/sysctl.d/") {
            let pairs = lines.filter_map(|line| line.split_once('='));
            self.settings
                .extend(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())));
        } else if path.starts_with("/etc/tmpfiles.d/") {
            self.writes.extend(lines.map(str::to_owned));
        } else {
            self.files.push((path.to_owned(), text.to_owned()));
        }
    }

    /// What has no place of its own in a system's configuration.
    fn remaining_lines(&self, with_writes: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if with_writes && !self.writes.is_empty() {
            lines.push("# these writes, early in each boot (lines of tmpfiles.d):".to_owned());
            lines.extend(self.writes.iter().map(|line| format!("#   {line}")));
        }
        for (path, text) in &self.files {
            lines.push(format!("# {path}, as other systems have it:"));
            lines.extend(text.lines().map(|line| format!("#   {line}")));
        }
        lines
    }
}

pub(super) fn render_image_instructions(image: Image, wanted: &ImageSettings) -> Vec<String> {
    let mut lines = vec![format!("# {}", image.explain_image())];
    match image {
        Image::Ostree => lines.extend(render_rpm_ostree(wanted)),
        Image::Bootc => {
            lines.push(
                "# in the image, for all machines that are made of it: \
                     /usr/lib/bootc/kargs.d/60-hugewise.toml"
                    .into(),
            );
            lines.push(format!("kargs = [{}]", quote_words(&wanted.kernel)));
            lines.push("# or on this machine alone, where it has rpm-ostree:".into());
            lines.extend(render_rpm_ostree(wanted));
        }
        Image::OpenShift => lines.extend(render_machine_config(wanted)),
        Image::Transactional => {
            lines.push(format!(
                "# add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {}",
                wanted.kernel.join(" ")
            ));
            lines.extend([
                "transactional-update grub.cfg".into(),
                "# then reboot into the new snapshot".into(),
            ]);
        }
        Image::Flatcar => {
            lines.push(
                "# add to /oem/grub.cfg (/usr/share/oem/grub.cfg on older releases), then reboot:"
                    .into(),
            );
            lines.push(format!("set linux_append=\"$linux_append {}\"", wanted.kernel.join(" ")));
            lines.push(
                "# or for machines to come, in Butane (it is read at the first boot alone):".into(),
            );
            lines.extend(render_butane("flatcar", "1.0.0", wanted));
        }
        Image::Bottlerocket => lines.extend(render_bottlerocket(wanted)),
        Image::Talos => lines.extend(render_talos(wanted)),
        Image::NixOs => lines.extend(render_nix(wanted)),
        Image::InMemory => {
            lines.push("# put these into the image that it boots from:".into());
            if !wanted.kernel.is_empty() {
                lines.push(format!("# on the kernel's command line: {}", wanted.kernel.join(" ")));
            }
            let settings = wanted.settings.iter();
            lines.extend(
                settings.map(|(key, value)| format!("# in /etc/sysctl.d: {key} = {value}")),
            );
            lines.extend(wanted.remaining_lines(true));
        }
    }
    lines
}

fn quote_words(words: &[String]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
}

/// Both words of a pair may be there for another size, so that with several none is looked for.
fn render_rpm_ostree(wanted: &ImageSettings) -> Vec<String> {
    let option = if wanted.kernel.len() > 2 { "--append" } else { "--append-if-missing" };
    let words: Vec<String> = wanted.kernel.iter().map(|word| format!("{option}={word}")).collect();
    vec![
        format!("rpm-ostree kargs {}", words.join(" ")),
        "# then reboot into the new deployment".into(),
    ]
}

fn render_butane(variant: &str, version: &str, wanted: &ImageSettings) -> Vec<String> {
    let mut lines = vec![
        format!("variant: {variant}"),
        format!("version: {version}"),
        "kernel_arguments:".to_owned(),
        "  should_exist:".to_owned(),
    ];
    lines.extend(wanted.kernel.iter().map(|word| format!("    - {word}")));
    lines
}

fn render_machine_config(wanted: &ImageSettings) -> Vec<String> {
    let mut lines: Vec<String> = [
        "# oc apply -f this file; the nodes of that role reboot one after the other:",
        "apiVersion: machineconfiguration.openshift.io/v1",
        "kind: MachineConfig",
        "metadata:",
        "  name: 60-hugewise",
        "  labels:",
        "    machineconfiguration.openshift.io/role: worker",
        "spec:",
        "  kernelArguments:",
    ]
    .map(str::to_owned)
    .to_vec();
    lines.extend(wanted.kernel.iter().map(|word| format!("    - {word}")));
    lines
}

fn render_bottlerocket(wanted: &ImageSettings) -> Vec<String> {
    let mut lines = Vec::new();
    let pools: Vec<(&str, &str)> = wanted
        .kernel
        .chunks(2)
        .filter_map(|pair| match pair {
            [size, pages] => {
                Some((size.strip_prefix("hugepagesz=")?, pages.strip_prefix("hugepages=")?))
            }
            _ => None,
        })
        .collect();
    if !pools.is_empty() {
        lines.push("# releases that have settings.kernel.hugepages, then reboot:".to_owned());
        lines.push("apiclient apply <<EOF".into());
        lines.push("[settings.kernel.hugepages.static]".into());
        lines.extend(
            pools.iter().map(|(size, pages)| format!("\"{size}i\" = {{ count = \"{pages}\" }}")),
        );
        lines.push("EOF".into());
    }
    if !wanted.settings.is_empty() {
        lines.push("apiclient apply <<EOF".into());
        lines.push("[settings.kernel.sysctl]".into());
        lines.extend(wanted.settings.iter().map(|(key, value)| format!("\"{key}\" = \"{value}\"")));
        lines.push("EOF".into());
    }
    lines.extend(wanted.remaining_lines(true));
    lines
}

fn render_talos(wanted: &ImageSettings) -> Vec<String> {
    let mut lines = vec![
        "# talosctl patch machineconfig --patch @FILE, with this in the file:".to_owned(),
        "machine:".into(),
    ];
    if !wanted.settings.is_empty() {
        lines.push("  sysctls:".into());
        lines.extend(wanted.settings.iter().map(|(key, value)| format!("    {key}: \"{value}\"")));
    }
    if !wanted.kernel.is_empty() {
        lines.push("  install:".into());
        lines.push("    extraKernelArgs:".into());
        lines.extend(wanted.kernel.iter().map(|word| format!("      - {word}")));
        lines.push(
            "# kernel arguments take effect with the next talosctl upgrade; where the \
             image brings its own command line"
                .into(),
        );
        lines.push(
            "# (UKI, systemd-boot), they belong into the schematic of that image instead".into(),
        );
    }
    lines.extend(wanted.remaining_lines(true));
    lines
}

fn render_nix(wanted: &ImageSettings) -> Vec<String> {
    let mut lines = vec!["# in configuration.nix, then nixos-rebuild switch:".to_owned()];
    for (key, value) in &wanted.settings {
        let value = if value.bytes().all(|byte| byte.is_ascii_digit()) {
            value.clone()
        } else {
            format!("{value:?}")
        };
        lines.push(format!("boot.kernel.sysctl.{key:?} = {value};"));
    }
    if !wanted.kernel.is_empty() {
        let words: Vec<String> = wanted.kernel.iter().map(|word| format!("{word:?}")).collect();
        lines.push(format!("boot.kernelParams = [ {} ];", words.join(" ")));
    }
    if !wanted.writes.is_empty() {
        let writes: Vec<String> = wanted.writes.iter().map(|line| format!("{line:?}")).collect();
        lines.push(format!("systemd.tmpfiles.rules = [ {} ];", writes.join(" ")));
    }
    lines.extend(wanted.remaining_lines(false));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> ImageSettings {
        let mut wanted = ImageSettings {
            kernel: ["hugepagesz=1G", "hugepages=4"].map(str::to_owned).to_vec(),
            ..ImageSettings::default()
        };
        wanted.add(
            "/etc/sysctl.d/zz-hugewise-pool.conf",
            "# Made by hugewise.\nvm.nr_hugepages = 600\n",
        );
        wanted.add("/etc/tmpfiles.d/00-hugewise-pools.conf", "w /sys/x - - - - 4\n");
        wanted.add("/etc/security/limits.d/zz-hugewise.conf", "oracle - memlock unlimited\n");
        wanted
    }

    #[test]
    fn each_system_has_its_own_way() {
        for (image, parts) in [
            (
                Image::Ostree,
                vec![
                    "rpm-ostree kargs --append-if-missing=hugepagesz=1G \
                         --append-if-missing=hugepages=4",
                ],
            ),
            (Image::Bootc, vec!["kargs = [\"hugepagesz=1G\", \"hugepages=4\"]"]),
            (
                Image::OpenShift,
                vec!["kind: MachineConfig", "    - hugepagesz=1G\n    - hugepages=4"],
            ),
            (
                Image::Transactional,
                vec!["transactional-update grub.cfg", "hugepagesz=1G hugepages=4"],
            ),
            (
                Image::Flatcar,
                vec![
                    "set linux_append=\"$linux_append hugepagesz=1G hugepages=4\"",
                    "variant: flatcar",
                ],
            ),
            (
                Image::Bottlerocket,
                vec!["\"1Gi\" = { count = \"4\" }", "\"vm.nr_hugepages\" = \"600\"", "memlock"],
            ),
            (Image::Talos, vec!["    vm.nr_hugepages: \"600\"", "      - hugepages=4", "w /sys/x"]),
            (
                Image::NixOs,
                vec![
                    "boot.kernel.sysctl.\"vm.nr_hugepages\" = 600;",
                    "boot.kernelParams = [ \"hugepagesz=1G\"",
                ],
            ),
            (Image::InMemory, vec!["vm.nr_hugepages = 600", "memlock unlimited"]),
        ] {
            let text = render_image_instructions(image, &wanted()).join("\n");
            for part in parts {
                assert!(text.contains(part), "{image:?}: {part} is not in\n{text}");
            }
        }
    }

    #[test]
    fn words_of_two_sizes_are_not_taken_for_each_other() {
        let kernel = ["hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=4"]
            .map(str::to_owned)
            .to_vec();
        let text = render_image_instructions(
            Image::Ostree,
            &ImageSettings { kernel, ..ImageSettings::default() },
        )
        .join("\n");
        assert!(text.contains("--append=hugepagesz=2M --append=hugepages=4"), "{text}");
    }
}
