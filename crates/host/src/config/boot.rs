//! The command line that the boot loader will pass to the kernel at the next boot.
//!
//! In effect is what the loader reads: grub.cfg or the entries of the Boot Loader Specification.
//! /etc/default/grub and /etc/kernel/cmdline only feed the tools that write those, see [`pending_words`].

use hugewise_model::{Observed, configuration::BootEntry};

use super::bls::{self, Entry};
use super::files::{lines, overlaid, place};
use super::grub::{self, Variables};
use super::identity::unquoted;
use crate::Door;

/// Where the entries of the Boot Loader Specification lie.
const ENTRIES: [&str; 3] = ["/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries"];

/// The next boot's entry. Absent where there is no loader, as in containers; denied where its files are root's alone.
pub fn read(door: &mut Door<'_>) -> Observed<BootEntry> {
    let (file, config) = read_grub_config(door);
    match config {
        Observed::Known(bytes) => {
            let menu = grub::parse(&bytes);
            let environment = read_environment(door, &file);
            environment.and_then(|environment| from_grub(door, &file, &menu, environment))
        }
        Observed::Absent => read_systemd_boot(door),
        Observed::Denied => Observed::Denied,
        Observed::Malformed(why) => Observed::Malformed(why),
    }
}

/// grub.cfg: where UEFI started the host and a link of the distribution tells of it, the one on the EFI partition.
fn read_grub_config(door: &mut Door<'_>) -> (String, Observed<Vec<u8>>) {
    let mut files = Vec::new();
    if door.source.list("/sys/firmware/efi").is_known()
        && let Observed::Known(target) = door.source.link("/etc/grub2-efi.cfg")
    {
        files.push(format!("/{}", target.trim_start_matches("../").trim_start_matches('/')));
    }
    files.extend(["/boot/grub2/grub.cfg", "/boot/grub/grub.cfg"].map(str::to_owned));
    for file in files {
        let bytes = door.read(&file);
        if !bytes.is_absent() {
            return (file, bytes);
        }
    }
    (String::new(), Observed::Absent)
}

/// The environment block beside grub.cfg; on UEFI hosts that one is often a link to /boot/grub2/grubenv.
fn read_environment(door: &mut Door<'_>, config: &str) -> Observed<Variables> {
    let folder = config.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = format!("{folder}/grubenv");
    let found =
        [beside.as_str(), "/boot/grub2/grubenv", "/boot/grub/grubenv"].iter().fold(Observed::Absent, |block, path| {
            block.or_else_absent(|| door.parse(path, |bytes| Ok(grub::parse_environment(bytes))))
        });
    found.or_else_absent(|| Observed::Known(Variables::new()))
}

fn from_grub(door: &mut Door<'_>, file: &str, menu: &grub::Menu, environment: Variables) -> Observed<BootEntry> {
    let mut variables = menu.variables.clone();
    variables.extend(environment);
    let one_time = variables.get("next_entry").filter(|entry| !entry.is_empty()).cloned();
    let default = one_time.unwrap_or_else(|| grub::expand(menu.default.as_deref().unwrap_or("0"), &variables));
    if menu.bls {
        let entries = bls::read_entries(door, &ENTRIES);
        match entries {
            Observed::Known(entries) if !entries.is_empty() => {
                let Some(entry) = bls::grub_default(&entries, &default) else { return Observed::Absent };
                let text = grub::expand(&entry.options.join(" "), &variables);
                return Observed::Known(BootEntry {
                    loader: "bls".to_owned(),
                    command_line: grub::split(&text),
                    place: place(&entry.file, entry.line),
                });
            }
            Observed::Known(_) | Observed::Absent => {}
            unknown => return unknown.and_then(|_| Observed::Absent),
        }
    }
    match menu.entry(&default) {
        Some(grub::MenuEntry { linux: Some((line, words)), .. }) => {
            let expanded = words.iter().flat_map(|word| expanded_words(word, &variables)).collect();
            Observed::Known(BootEntry { loader: "grub".to_owned(), command_line: expanded, place: place(file, *line) })
        }
        _ => {
            let unknown = Observed::Malformed(format!("{file}: no entry \"{default}\" that boots Linux"));
            door.note("boot loader's default entry", &unknown);
            unknown
        }
    }
}

/// A word with its variables replaced: a variable may hold several words.
fn expanded_words(word: &str, variables: &Variables) -> Vec<String> {
    if word.contains('$') { grub::split(&grub::expand(word, variables)) } else { vec![word.to_owned()] }
}

fn read_systemd_boot(door: &mut Door<'_>) -> Observed<BootEntry> {
    let config = ["/efi/loader/loader.conf", "/boot/loader/loader.conf", "/boot/efi/loader/loader.conf"]
        .iter()
        .fold(Observed::Absent, |found, path| {
            found.or_else_absent(|| door.parse(path, |bytes| Ok(bls::loader_default(bytes))))
        });
    let entries = bls::read_entries(door, &ENTRIES);
    let entries =
        entries.and_then(|entries| config.or_else_absent(|| Observed::Known(None)).map(|default| (entries, default)));
    let known = |(entries, default): (Vec<Entry>, Option<String>)| {
        let entry = bls::systemd_boot_default(&entries, default.as_deref())?;
        Some(BootEntry {
            loader: "systemd-boot".to_owned(),
            command_line: entry
                .options
                .iter()
                .flat_map(|options| options.split_whitespace().map(str::to_owned))
                .collect(),
            place: place(&entry.file, entry.line),
        })
    };
    entries.and_then(|found| Observed::from(known(found))).or_else_absent(|| read_unified(door))
}

/// A unified kernel image has the command line that /etc/kernel/cmdline had when it was built.
fn read_unified(door: &mut Door<'_>) -> Observed<BootEntry> {
    let images = ["/efi/EFI/Linux", "/boot/efi/EFI/Linux", "/boot/EFI/Linux"];
    let any = images.iter().any(|folder| {
        door.source.list(folder).known().is_some_and(|names| names.iter().any(|name| name.ends_with(".efi")))
    });
    if !any {
        return Observed::Absent;
    }
    let file = "/etc/kernel/cmdline";
    door.read(file).map(|bytes| BootEntry {
        loader: "systemd-boot".to_owned(),
        command_line: String::from_utf8_lossy(&bytes).split_whitespace().map(str::to_owned).collect(),
        place: place(file, 0),
    })
}

/// Words that the next run of update-grub or grub2-mkconfig would bring and that the entry in effect lacks:
/// an edit that nobody has carried over.
pub fn pending_words(door: &mut Door<'_>, in_effect: &BootEntry) -> Observed<Vec<String>> {
    let more = overlaid(door, &["/etc/default/grub.d"], ".cfg").or_else_absent(|| Observed::Known(Vec::new()));
    let found = more.and_then(|more| {
        let paths: Vec<String> = std::iter::once("/etc/default/grub".to_owned()).chain(more).collect();
        super::files::joined(door, &paths, |_, bytes| parse_grub_defaults(bytes))
    });
    found.map(|assignments| {
        let value =
            |name: &str| assignments.iter().rfind(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
        let words = [value("GRUB_CMDLINE_LINUX"), value("GRUB_CMDLINE_LINUX_DEFAULT")];
        let all = words.iter().flat_map(|value| value.split_whitespace());
        all.filter(|word| !in_effect.command_line.iter().any(|other| other == word)).map(str::to_owned).collect()
    })
}

/// Assignments of /etc/default/grub, a shell script: those without substitution.
pub fn parse_grub_defaults(bytes: &[u8]) -> Vec<(String, String)> {
    let assignment = |(_, line): (u64, std::borrow::Cow<'_, str>)| {
        let (key, value) = line.trim().split_once('=')?;
        (key.starts_with("GRUB_") && !value.contains('$')).then(|| (key.to_owned(), unquoted(value)))
    };
    lines(bytes).filter_map(assignment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::map::MapSource;

    fn boot(source: &MapSource) -> (String, String, String) {
        match read(&mut Door::new(source)) {
            Observed::Known(entry) => (entry.loader, entry.command_line.join(" "), entry.place.to_string()),
            other => panic!("{other:?}"),
        }
    }

    fn is(source: &MapSource, loader: &str, line: &str, at: &str) {
        assert_eq!(boot(source), (loader.to_owned(), line.to_owned(), at.to_owned()));
    }

    const GRUB: &str = "set default=\"${saved_entry}\"\nset extra=\"a b\"\nmenuentry 'One' --id one {\n linux /k1 root=1 $extra\n}\nmenuentry 'Two' --id two {\n linux /k2 root=2 hugepages=8\n}\n";

    #[test]
    fn grub_follows_its_saved_entry() {
        let source = MapSource::new().file("/boot/grub/grub.cfg", GRUB);
        is(&source, "grub", "root=1 a b", "/boot/grub/grub.cfg:4");
        let saved = source.file("/boot/grub/grubenv", "# GRUB Environment Block\nsaved_entry=two\n####");
        is(&saved, "grub", "root=2 hugepages=8", "/boot/grub/grub.cfg:7");
        let once = saved.file("/boot/grub/grubenv", "saved_entry=two\nnext_entry=One\n");
        is(&once, "grub", "root=1 a b", "/boot/grub/grub.cfg:4");
    }

    /// RHEL 8 keeps the words in grubenv's `kernelopts`; RHEL 9 in each entry.
    #[test]
    fn entries_of_red_hat() {
        let source = MapSource::new()
            .file("/boot/grub2/grub.cfg", "set default=\"${saved_entry}\"\nset tuned_params=\"transparent_hugepage=never\"\ninsmod blscfg\nblscfg\n")
            .file("/boot/grub2/grubenv", "# GRUB Environment Block\nsaved_entry=m-4.18.0-477.el8.x86_64\nkernelopts=root=/dev/sda2 ro hugepages=64 \n##")
            .file("/boot/loader/entries/m-4.18.0-477.el8.x86_64.conf", "title OL 8\nversion 4.18.0-477.el8.x86_64\nlinux /vmlinuz-4.18.0\noptions $kernelopts $tuned_params\n")
            .file("/boot/loader/entries/m-4.18.0-80.el8.x86_64.conf", "title old\nlinux /vmlinuz\noptions root=old\n")
            .file("/boot/loader/entries/m-0-rescue.conf", "title rescue\nlinux /vmlinuz-r\noptions root=rescue\n");
        let at = "/boot/loader/entries/m-4.18.0-477.el8.x86_64.conf:4";
        is(&source, "bls", "root=/dev/sda2 ro hugepages=64 transparent_hugepage=never", at);
        let newest = source.file("/boot/grub2/grubenv", "kernelopts=root=/dev/sda2\n");
        is(&newest, "bls", "root=/dev/sda2 transparent_hugepage=never", at);
        let second = newest.file("/boot/grub2/grubenv", "saved_entry=1\n");
        is(&second, "bls", "root=old", "/boot/loader/entries/m-4.18.0-80.el8.x86_64.conf:3");
    }

    #[test]
    fn uefi_hosts_have_their_own_grub_cfg() {
        let source = MapSource::new()
            .folder("/sys/firmware/efi")
            .link("/etc/grub2-efi.cfg", "../boot/efi/EFI/redhat/grub.cfg")
            .file("/boot/efi/EFI/redhat/grub.cfg", GRUB)
            .file("/boot/efi/EFI/redhat/grubenv", "saved_entry=Two\n")
            .file("/boot/grub2/grub.cfg", "");
        is(&source, "grub", "root=2 hugepages=8", "/boot/efi/EFI/redhat/grub.cfg:7");
    }

    #[test]
    fn systemd_boot_takes_its_pattern_or_the_newest() {
        let source = MapSource::new()
            .file("/boot/loader/loader.conf", "timeout 3\n")
            .file("/boot/loader/entries/m-6.1.conf", "title a\nversion 6.1\nlinux /a\noptions root=1\noptions quiet\n")
            .file("/boot/loader/entries/m-6.10.conf", "title b\nversion 6.10\nlinux /b\noptions root=2\n")
            .file("/boot/loader/entries/windows.conf", "title w\nefi /w\n");
        is(&source, "systemd-boot", "root=2", "/boot/loader/entries/m-6.10.conf:4");
        let pattern = source.file("/boot/loader/loader.conf", "default m-6.1.*\n");
        is(&pattern, "systemd-boot", "root=1 quiet", "/boot/loader/entries/m-6.1.conf:4");
        let unified =
            MapSource::new().file("/efi/EFI/Linux/6.1.efi", "MZ").file("/etc/kernel/cmdline", "root=3 hugepages=1\n");
        is(&unified, "systemd-boot", "root=3 hugepages=1", "/etc/kernel/cmdline");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert_eq!(read(&mut Door::new(&MapSource::new())), Observed::Absent);
        let denied = MapSource::new().denied("/boot/grub2/grub.cfg");
        let mut door = Door::new(&denied);
        assert_eq!(read(&mut door), Observed::Denied);
        assert_eq!(door.unread.len(), 1);
        let empty = MapSource::new().file("/boot/grub/grub.cfg", b"\xff\0");
        assert!(matches!(read(&mut Door::new(&empty)), Observed::Malformed(_)));
    }

    #[test]
    fn an_edit_that_waits_for_update_grub() {
        let source = MapSource::new()
            .file("/boot/grub/grub.cfg", "menuentry 'x' {\n linux /k root=1 quiet\n}\n")
            .file(
                "/etc/default/grub",
                "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
            )
            .file("/etc/default/grub.d/hp.cfg", "GRUB_CMDLINE_LINUX=\"hugepages=64\"\n");
        let mut door = Door::new(&source);
        let entry = read(&mut door).into_known().unwrap();
        assert_eq!(pending_words(&mut door, &entry), Observed::Known(vec!["hugepages=64".to_owned()]));
    }
}
