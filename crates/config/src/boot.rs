//! The command line that the boot loader will pass to the kernel at the next boot.
//!
//! In effect is what the loader reads: grub.cfg or the entries of the Boot Loader Specification.
//! /etc/default/grub and /etc/kernel/cmdline only feed the tools that write those.

use hugewise_model::Observed;
use hugewise_model::configuration::{BootEntry, BootLoader};

use super::bls::{self, BlsEntry};
use super::files::{file_location, first_present, limit_size};
use super::grub::{self, Variables};
use super::grub_legacy;
use hugewise_source::FactReader;

const ENTRIES: [&str; 3] =
    ["/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries"];

/// Bytes of a menu: a hundred kernels take 200 KiB.
const MOST_OF_MENU: usize = 4 << 20;

/// Absent where there is no loader, as in containers; denied where its files are root's alone.
pub(crate) fn read(door: &mut FactReader<'_>) -> Observed<BootEntry> {
    let (file, config) = read_grub_config(door);
    if config.is_absent() {
        return read_grub_legacy(door).unwrap_or_else(|| read_systemd_boot(door));
    }
    config.and_then(|bytes| {
        let menu = grub::parse(&bytes);
        let environment = read_environment(door, &file);
        environment.and_then(|environment| choose_grub_entry(door, &file, &menu, environment))
    })
}

fn read_grub_legacy(door: &mut FactReader<'_>) -> Option<Observed<BootEntry>> {
    let mut files = grub_legacy::FILES.into_iter().map(|file| (file, door.read(file)));
    let (file, bytes) = files.find(|(_, bytes)| !bytes.is_absent())?;
    let entry = bytes.and_then(|bytes| match grub_legacy::parse(&bytes).default_entry() {
        Some(entry) => Observed::Known(BootEntry {
            loader: BootLoader::GrubLegacy,
            command_line: entry.words.clone(),
            place: file_location(file, entry.line),
        }),
        None => Observed::Malformed(format!("{file}: cannot tell which entry boots by default")),
    });
    if matches!(entry, Observed::Malformed(_)) {
        door.note_unknown("boot loader's default entry", &entry);
    }
    Some(entry)
}

/// Where UEFI started the host, a link of the distribution tells of one on the EFI partition.
fn read_grub_config(door: &mut FactReader<'_>) -> (String, Observed<Vec<u8>>) {
    let mut files = Vec::new();
    if door.source.list_folder("/sys/firmware/efi").is_known()
        && let Observed::Known(target) = door.source.read_link("/etc/grub2-efi.cfg")
    {
        files.push(format!("/{}", target.trim_start_matches("../").trim_start_matches('/')));
    }
    files.extend(["/boot/grub2/grub.cfg", "/boot/grub/grub.cfg"].map(str::to_owned));
    for file in files {
        let bytes = door.read(&file).and_then(|bytes| limit_size(bytes, MOST_OF_MENU));
        if let Observed::Malformed(_) = &bytes {
            door.note_unknown(&file, &bytes);
        }
        if !bytes.is_absent() {
            return (file, bytes);
        }
    }
    (String::new(), Observed::Absent)
}

/// Beside grub.cfg; on UEFI hosts often a link to /boot/grub2/grubenv.
fn read_environment(door: &mut FactReader<'_>, config: &str) -> Observed<Variables> {
    let folder = config.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = format!("{folder}/grubenv");
    let paths = [beside.as_str(), "/boot/grub2/grubenv", "/boot/grub/grubenv"];
    first_present(&paths, |path| door.parse(path, |bytes| Ok(grub::parse_environment(bytes))))
        .or_else_absent(|| Observed::Known(Variables::new()))
}

fn choose_grub_entry(
    door: &mut FactReader<'_>,
    file: &str,
    menu: &grub::GrubMenu,
    environment: Variables,
) -> Observed<BootEntry> {
    let mut variables = menu.variables.clone();
    variables.extend(environment);
    let one_time = variables.get("next_entry").filter(|entry| !entry.is_empty()).cloned();
    let default = grub::expand_grub_variables(menu.default.as_deref().unwrap_or("0"), &variables);
    let default = match one_time.map_or(default, Ok) {
        Ok(default) => default,
        Err(why) => return note_no_default(door, format!("{file}: {why}")),
    };
    if menu.bls {
        match bls::read_entries(door, &ENTRIES) {
            Observed::Known(entries) if !entries.is_empty() => {
                let Some(entry) = bls::grub_default(&entries, &default) else {
                    return Observed::Absent;
                };
                return match grub::expand_grub_variables(&entry.options.join(" "), &variables) {
                    Ok(text) => Observed::Known(BootEntry {
                        loader: BootLoader::Bls,
                        command_line: grub::split_grub_words(&text),
                        place: file_location(&entry.file, entry.line),
                    }),
                    Err(why) => note_no_default(door, format!("{}: {why}", entry.file)),
                };
            }
            Observed::Known(_) | Observed::Absent => {}
            unknown => return unknown.and_then(|_| Observed::Absent),
        }
    }
    let Some(grub::MenuEntry { linux: Some((line, words)), .. }) = menu.default_entry(&default)
    else {
        return note_no_default(door, format!("{file}: no entry \"{default}\" that boots Linux"));
    };
    let place = file_location(file, *line);
    match grub::expand_words(words, &variables) {
        Ok(command_line) => {
            Observed::Known(BootEntry { loader: BootLoader::Grub, command_line, place })
        }
        Err(why) => note_no_default(door, format!("{place}: {why}")),
    }
}

fn note_no_default(door: &mut FactReader<'_>, why: String) -> Observed<BootEntry> {
    let unknown = Observed::Malformed(why);
    door.note_unknown("boot loader's default entry", &unknown);
    unknown
}

fn read_systemd_boot(door: &mut FactReader<'_>) -> Observed<BootEntry> {
    let paths =
        ["/efi/loader/loader.conf", "/boot/loader/loader.conf", "/boot/efi/loader/loader.conf"];
    let config =
        first_present(&paths, |path| door.parse(path, |bytes| Ok(bls::loader_default(bytes))));
    let entries = bls::read_entries(door, &ENTRIES);
    let entries = entries.and_then(|entries| {
        config.or_else_absent(|| Observed::Known(None)).map(|default| (entries, default))
    });
    let known = |(entries, default): (Vec<BlsEntry>, Option<String>)| {
        let entry = bls::systemd_boot_default(&entries, default.as_deref())?;
        Some(BootEntry {
            loader: BootLoader::SystemdBoot,
            command_line: entry
                .options
                .iter()
                .flat_map(|options| options.split_whitespace())
                .map(str::to_owned)
                .collect(),
            place: file_location(&entry.file, entry.line),
        })
    };
    entries.and_then(|found| Observed::from(known(found))).or_else_absent(|| read_unified(door))
}

/// A unified kernel image has the command line that /etc/kernel/cmdline had when it was built.
fn read_unified(door: &mut FactReader<'_>) -> Observed<BootEntry> {
    let images = ["/efi/EFI/Linux", "/boot/efi/EFI/Linux", "/boot/EFI/Linux"];
    let mut names =
        images.iter().flat_map(|folder| door.source.list_folder(folder).into_known()).flatten();
    if !names.any(|name| name.ends_with(".efi")) {
        return Observed::Absent;
    }
    let file = "/etc/kernel/cmdline";
    door.read(file).map(|bytes| BootEntry {
        loader: BootLoader::SystemdBoot,
        command_line: String::from_utf8_lossy(&bytes)
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        place: file_location(file, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    fn boot(source: &MapSource) -> (String, String, String) {
        match read(&mut FactReader::new(source)) {
            Observed::Known(entry) => {
                (entry.loader.to_string(), entry.command_line.join(" "), entry.place.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    fn is(source: &MapSource, loader: &str, line: &str, at: &str) {
        assert_eq!(boot(source), (loader.to_owned(), line.to_owned(), at.to_owned()));
    }

    const GRUB: &str = "set default=\"${saved_entry}\"\nset extra=\"a b\"\nmenuentry 'One' --id \
         one {\n linux /k1 root=1 $extra\n}\nmenuentry 'Two' --id two \
         {\n linux /k2 root=2 hugepages=8\n}\n";

    #[test]
    fn grub_follows_its_saved_entry() {
        let source = MapSource::new().with_file("/boot/grub/grub.cfg", GRUB);
        is(&source, "grub", "root=1 a b", "/boot/grub/grub.cfg:4");
        let saved = source
            .with_file("/boot/grub/grubenv", "# GRUB Environment Block\nsaved_entry=two\n####");
        is(&saved, "grub", "root=2 hugepages=8", "/boot/grub/grub.cfg:7");
        let once = saved.with_file("/boot/grub/grubenv", "saved_entry=two\nnext_entry=One\n");
        is(&once, "grub", "root=1 a b", "/boot/grub/grub.cfg:4");
    }

    /// RHEL 8 keeps the words in grubenv's `kernelopts`; RHEL 9 in each entry.
    #[test]
    fn entries_of_red_hat() {
        let source = MapSource::new()
            .with_file(
                "/boot/grub2/grub.cfg",
                "set default=\"${saved_entry}\"\nset \
                 tuned_params=\"transparent_hugepage=never\"\ninsmod blscfg\nblscfg\n",
            )
            .with_file(
                "/boot/grub2/grubenv",
                "# GRUB Environment \
                 Block\nsaved_entry=m-4.18.0-477.el8.x86_64\nkernelopts=root=/dev/sda2 ro \
                 hugepages=64 \n##",
            )
            .with_file(
                "/boot/loader/entries/m-4.18.0-477.el8.x86_64.conf",
                "title OL 8\nversion \
                 4.18.0-477.el8.x86_64\nlinux /vmlinuz-4.18.0\noptions $kernelopts $tuned_params\n",
            )
            .with_file(
                "/boot/loader/entries/m-4.18.0-80.el8.x86_64.conf",
                "title old\nlinux \
                 /vmlinuz\noptions root=old\n",
            )
            .with_file(
                "/boot/loader/entries/m-0-rescue.conf",
                "title rescue\nlinux \
                 /vmlinuz-r\noptions root=rescue\n",
            );
        let at = "/boot/loader/entries/m-4.18.0-477.el8.x86_64.conf:4";
        is(&source, "bls", "root=/dev/sda2 ro hugepages=64 transparent_hugepage=never", at);
        let newest = source.with_file("/boot/grub2/grubenv", "kernelopts=root=/dev/sda2\n");
        is(&newest, "bls", "root=/dev/sda2 transparent_hugepage=never", at);
        let second = newest.with_file("/boot/grub2/grubenv", "saved_entry=1\n");
        is(&second, "bls", "root=old", "/boot/loader/entries/m-4.18.0-80.el8.x86_64.conf:3");
    }

    #[test]
    fn grub_before_version_2_has_a_menu_that_people_edit() {
        let menu = "default=0\ntitle RHEL 6\n\tkernel /vmlinuz ro transparent_hugepage=never\n";
        let source = MapSource::new().with_file("/boot/grub/grub.conf", menu);
        is(&source, "grub-legacy", "ro transparent_hugepage=never", "/boot/grub/grub.conf:3");
        let suse = MapSource::new().with_file("/boot/grub/menu.lst", menu);
        is(&suse, "grub-legacy", "ro transparent_hugepage=never", "/boot/grub/menu.lst:3");
        is(
            &source.with_file("/boot/grub2/grub.cfg", GRUB),
            "grub",
            "root=1 a b",
            "/boot/grub2/grub.cfg:4",
        );
        let saved = MapSource::new().with_file(
            "/boot/grub/grub.conf",
            menu.replace("=0", "=saved") + "title b\nkernel /b\n",
        );
        assert!(matches!(read(&mut FactReader::new(&saved)), Observed::Malformed(_)));
    }

    #[test]
    fn uefi_hosts_have_their_own_grub_cfg() {
        let source = MapSource::new()
            .with_folder("/sys/firmware/efi")
            .with_link("/etc/grub2-efi.cfg", "../boot/efi/EFI/redhat/grub.cfg")
            .with_file("/boot/efi/EFI/redhat/grub.cfg", GRUB)
            .with_file("/boot/efi/EFI/redhat/grubenv", "saved_entry=Two\n")
            .with_file("/boot/grub2/grub.cfg", "");
        is(&source, "grub", "root=2 hugepages=8", "/boot/efi/EFI/redhat/grub.cfg:7");
    }

    #[test]
    fn systemd_boot_takes_its_pattern_or_the_newest() {
        let source = MapSource::new()
            .with_file("/boot/loader/loader.conf", "timeout 3\n")
            .with_file(
                "/boot/loader/entries/m-6.1.conf",
                "title a\nversion 6.1\nlinux /a\noptions root=1\noptions quiet\n",
            )
            .with_file(
                "/boot/loader/entries/m-6.10.conf",
                "title b\nversion 6.10\nlinux /b\noptions root=2\n",
            )
            .with_file("/boot/loader/entries/windows.conf", "title w\nefi /w\n");
        is(&source, "systemd-boot", "root=2", "/boot/loader/entries/m-6.10.conf:4");
        let pattern = source.with_file("/boot/loader/loader.conf", "default m-6.1.*\n");
        is(&pattern, "systemd-boot", "root=1 quiet", "/boot/loader/entries/m-6.1.conf:4");
        let unified = MapSource::new()
            .with_file("/efi/EFI/Linux/6.1.efi", "MZ")
            .with_file("/etc/kernel/cmdline", "root=3 hugepages=1\n");
        is(&unified, "systemd-boot", "root=3 hugepages=1", "/etc/kernel/cmdline");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert_eq!(read(&mut FactReader::new(&MapSource::new())), Observed::Absent);
        let denied = MapSource::new().with_denied("/boot/grub2/grub.cfg");
        let mut door = FactReader::new(&denied);
        assert_eq!(read(&mut door), Observed::Denied);
        assert_eq!(door.unread.len(), 1);
        let empty = MapSource::new().with_file("/boot/grub/grub.cfg", b"\xff\0");
        assert!(matches!(read(&mut FactReader::new(&empty)), Observed::Malformed(_)));
    }

    /// A megabyte that stands for 20 GB.
    #[test]
    fn a_line_that_is_longer_than_any_kernels_is_not_put_together_and_that_is_said() {
        let large = "x".repeat(1 << 20);
        let doubled = "set a=\"${a}${a}\"\n".repeat(40);
        for text in [
            format!("set a={large}\nmenuentry 'x' {{\n linux /k {}\n}}\n", "$a".repeat(20_000)),
            format!(
                "set a={}\nmenuentry 'x' {{\n linux /k {}\n}}\n",
                &large[..60_000],
                "$a ".repeat(20_000)
            ),
            format!("menuentry 'x' {{\n linux /k {}\n}}\n", "${".repeat(1 << 20)),
            format!("set a={large}\nset default=\"{}\"\n", "$a".repeat(20_000)),
        ] {
            let source = MapSource::new().with_file("/boot/grub/grub.cfg", text);
            let mut door = FactReader::new(&source);
            let Observed::Malformed(why) = read(&mut door) else { panic!("known") };
            assert!(why.contains("longer than 64 KiB"), "{why}");
            assert_eq!(door.unread.len(), 1);
        }
        // A variable that holds its own name is that name, as it is written.
        let text = format!("set a=x\n{doubled}menuentry 'x' {{\n linux /k $a hugepages=1\n}}\n");
        is(
            &MapSource::new().with_file("/boot/grub/grub.cfg", text),
            "grub",
            "${a}${a} hugepages=1",
            "/boot/grub/grub.cfg:43",
        );
        let menu = "menuentry 'x' {\n linux /k\n}\n".repeat(200_000);
        let source = MapSource::new().with_file("/boot/grub/grub.cfg", menu);
        let mut door = FactReader::new(&source);
        assert!(matches!(read(&mut door), Observed::Malformed(_)));
        assert_eq!(
            door.unread.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/boot/grub/grub.cfg: malformed: larger than 4 MiB"]
        );
    }
}
