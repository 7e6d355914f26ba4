//! The command line that the boot loader will pass to the kernel at the next boot.
//!
//! In effect is what the loader reads: grub.cfg or the entries of the Boot Loader Specification.
//! /etc/default/grub and /etc/kernel/cmdline only feed the tools that write those.

use hugewise_model::Observed;
use hugewise_model::configuration::{BootEntry, Loader};

use super::bls::{self, Entry};
use super::files::{bounded, place};
use super::grub::{self, Variables};
use super::grub_legacy;
use crate::Door;

/// Where the entries of the Boot Loader Specification lie.
const ENTRIES: [&str; 3] = ["/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries"];

/// Bytes of a menu: a hundred kernels take 200 KiB.
const MOST_OF_MENU: usize = 4 << 20;

/// The next boot's entry. Absent where there is no loader, as in containers; denied where its files are root's alone.
pub fn read(door: &mut Door<'_>) -> Observed<BootEntry> {
    let (file, config) = read_grub_config(door);
    match config {
        Observed::Known(bytes) => {
            let menu = grub::parse(&bytes);
            let environment = read_environment(door, &file);
            environment.and_then(|environment| from_grub(door, &file, &menu, environment))
        }
        Observed::Absent => read_grub_legacy(door).unwrap_or_else(|| read_systemd_boot(door)),
        Observed::Denied => Observed::Denied,
        Observed::Malformed(why) => Observed::Malformed(why),
    }
}

/// The menu of GRUB before version 2, where there is one.
fn read_grub_legacy(door: &mut Door<'_>) -> Option<Observed<BootEntry>> {
    let found =
        grub_legacy::FILES.into_iter().map(|file| (file, door.read(file))).find(|(_, bytes)| !bytes.is_absent());
    let (file, bytes) = found?;
    let entry = bytes.and_then(|bytes| match grub_legacy::parse(&bytes).started() {
        Some(entry) => Observed::Known(BootEntry {
            loader: Loader::GrubLegacy,
            command_line: entry.words.clone(),
            place: place(file, entry.line),
        }),
        None => Observed::Malformed(format!("{file}: cannot tell which entry boots by default")),
    });
    if matches!(entry, Observed::Malformed(_)) {
        door.note("boot loader's default entry", &entry);
    }
    Some(entry)
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
        let bytes = door.read(&file).and_then(|bytes| bounded(bytes, MOST_OF_MENU));
        if let Observed::Malformed(_) = &bytes {
            door.note(&file, &bytes);
        }
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
    let default = grub::expand(menu.default.as_deref().unwrap_or("0"), &variables);
    let default = match one_time.map_or(default, Ok) {
        Ok(default) => default,
        Err(why) => return too_long(door, file, why),
    };
    if menu.bls {
        let entries = bls::read_entries(door, &ENTRIES);
        match entries {
            Observed::Known(entries) if !entries.is_empty() => {
                let Some(entry) = bls::grub_default(&entries, &default) else { return Observed::Absent };
                let text = match grub::expand(&entry.options.join(" "), &variables) {
                    Ok(text) => text,
                    Err(why) => return too_long(door, &entry.file, why),
                };
                return Observed::Known(BootEntry {
                    loader: Loader::Bls,
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
            let place = place(file, *line);
            match grub::expand_words(words, &variables) {
                Ok(command_line) => Observed::Known(BootEntry { loader: Loader::Grub, command_line, place }),
                Err(why) => too_long(door, &place.to_string(), why),
            }
        }
        _ => {
            let unknown = Observed::Malformed(format!("{file}: no entry \"{default}\" that boots Linux"));
            door.note("boot loader's default entry", &unknown);
            unknown
        }
    }
}

fn too_long(door: &mut Door<'_>, what: &str, why: grub::TooLong) -> Observed<BootEntry> {
    let unknown = Observed::Malformed(format!("{what}: {why}"));
    door.note("boot loader's default entry", &unknown);
    unknown
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
            loader: Loader::SystemdBoot,
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
        loader: Loader::SystemdBoot,
        command_line: String::from_utf8_lossy(&bytes).split_whitespace().map(str::to_owned).collect(),
        place: place(file, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::map::MapSource;

    fn boot(source: &MapSource) -> (String, String, String) {
        match read(&mut Door::new(source)) {
            Observed::Known(entry) => (entry.loader.to_string(), entry.command_line.join(" "), entry.place.to_string()),
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
    fn grub_before_version_2_has_a_menu_that_people_edit() {
        let menu = "default=0\ntitle RHEL 6\n\tkernel /vmlinuz ro transparent_hugepage=never\n";
        let source = MapSource::new().file("/boot/grub/grub.conf", menu);
        is(&source, "grub-legacy", "ro transparent_hugepage=never", "/boot/grub/grub.conf:3");
        let suse = MapSource::new().file("/boot/grub/menu.lst", menu);
        is(&suse, "grub-legacy", "ro transparent_hugepage=never", "/boot/grub/menu.lst:3");
        is(&source.file("/boot/grub2/grub.cfg", GRUB), "grub", "root=1 a b", "/boot/grub2/grub.cfg:4");
        let saved =
            MapSource::new().file("/boot/grub/grub.conf", menu.replace("=0", "=saved") + "title b\nkernel /b\n");
        assert!(matches!(read(&mut Door::new(&saved)), Observed::Malformed(_)));
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

    /// A megabyte that stands for 20 GB.
    #[test]
    fn a_line_that_is_longer_than_any_kernels_is_not_put_together_and_that_is_said() {
        let large = "x".repeat(1 << 20);
        let doubled = "set a=\"${a}${a}\"\n".repeat(40);
        for text in [
            format!("set a={large}\nmenuentry 'x' {{\n linux /k {}\n}}\n", "$a".repeat(20_000)),
            format!("set a={}\nmenuentry 'x' {{\n linux /k {}\n}}\n", &large[..60_000], "$a ".repeat(20_000)),
            format!("menuentry 'x' {{\n linux /k {}\n}}\n", "${".repeat(1 << 20)),
            format!("set a={large}\nset default=\"{}\"\n", "$a".repeat(20_000)),
        ] {
            let source = MapSource::new().file("/boot/grub/grub.cfg", text);
            let mut door = Door::new(&source);
            let Observed::Malformed(why) = read(&mut door) else { panic!("known") };
            assert!(why.contains("longer than 64 KiB"), "{why}");
            assert_eq!(door.unread.len(), 1);
        }
        // A variable that holds its own name is that name, as it is written.
        let text = format!("set a=x\n{doubled}menuentry 'x' {{\n linux /k $a hugepages=1\n}}\n");
        is(
            &MapSource::new().file("/boot/grub/grub.cfg", text),
            "grub",
            "${a}${a} hugepages=1",
            "/boot/grub/grub.cfg:43",
        );
        let menu = "menuentry 'x' {\n linux /k\n}\n".repeat(200_000);
        let source = MapSource::new().file("/boot/grub/grub.cfg", menu);
        let mut door = Door::new(&source);
        assert!(matches!(read(&mut door), Observed::Malformed(_)));
        assert_eq!(
            door.unread.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/boot/grub/grub.cfg: malformed: larger than 4 MiB"]
        );
    }
}
