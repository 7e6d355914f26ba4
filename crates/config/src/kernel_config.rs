//! How the kernel that runs was built: what THP is where nothing sets it.
//!
//! CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS, _MADVISE or _NEVER is what the switch begins with
//! (mm/Kconfig); with less than 512 MiB of memory the kernel begins with `never` (`hugepage_init()`
//! of mm/huge_memory.c, <https://github.com/torvalds/linux/blob/v3.10/mm/huge_memory.c>), which who
//! asks has to look at.

use hugewise_model::Observed;
use hugewise_model::configuration::FileLocation;

use super::files::{file_location, first_present, numbered_lines};
use hugewise_procfs::kernel::release;
use hugewise_source::FactReader;

const OPTION: &str = "CONFIG_TRANSPARENT_HUGEPAGE";

/// The word that the switch begins with, and its place. Absent where no such file is kept here.
pub(crate) fn read(door: &mut FactReader<'_>) -> Observed<(String, FileLocation)> {
    let running = door.parse(release::PATH, release::parse);
    let Some(kernel) =
        running.or_else_absent(|| door.parse(release::VERSION, release::parse)).into_known()
    else {
        return Observed::Absent;
    };
    let text = &kernel.text;
    if text.contains('/') {
        return Observed::Absent;
    }
    let files = [format!("/boot/config-{text}"), format!("/lib/modules/{text}/config")];
    first_present(&files.each_ref().map(String::as_str), |path| {
        let begins = door.read(path).and_then(|bytes| Observed::from(parse(&bytes)));
        begins.map(|(word, line)| (word.to_owned(), file_location(path, line)))
    })
}

/// Whether a path is that of such a file.
pub fn is_one(path: &str) -> bool {
    path.starts_with("/boot/config-")
        || (path.starts_with("/lib/modules/") && path.ends_with("/config"))
}

/// The lines of the file that are about THP.
pub fn distill_kernel_config(bytes: &[u8]) -> Vec<u8> {
    let kept = |line: &str| {
        if line.contains(OPTION) && line.len() < 80 { line.to_owned() } else { String::new() }
    };
    let all: Vec<String> = numbered_lines(bytes).map(|(_, line)| kept(&line)).collect();
    let text = all.join("\n");
    // Thousands of empty lines at the end tell nothing.
    text.trim_end().as_bytes().to_vec()
}

/// The word and its line: `never` for a kernel without THP. None where the file does not say it.
pub(crate) fn parse(bytes: &[u8]) -> Option<(&'static str, u64)> {
    let mut without = None;
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        match line.trim_ascii_end().strip_prefix(OPTION.as_bytes()) {
            Some(b"_ALWAYS=y") => return Some(("always", number)),
            Some(b"_MADVISE=y") => return Some(("madvise", number)),
            Some(b"_NEVER=y") => return Some(("never", number)),
            Some(_) => {}
            None if without.is_none() && line.starts_with(b"# ") => {
                let named = line.get(2..).and_then(|line| line.strip_prefix(OPTION.as_bytes()));
                without = named.filter(|rest| rest.trim_ascii() == b"is not set").map(|_| number);
            }
            None => {}
        }
    }
    without.map(|line| ("never", line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    const DEBIAN: &str = "CONFIG_HAVE_ARCH_TRANSPARENT_HUGEPAGE=y\nCONFIG_TRANSPARENT_HUGEPAGE=y\n\
        CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS=y\n# CONFIG_TRANSPARENT_HUGEPAGE_MADVISE is not \
         set\nCONFIG_NET=y\n";

    #[test]
    fn the_switch_begins_as_the_kernel_was_built() {
        assert_eq!(parse(DEBIAN.as_bytes()), Some(("always", 3)));
        let madvise =
            b"CONFIG_TRANSPARENT_HUGEPAGE=y\n# CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS is not set\n\
            CONFIG_TRANSPARENT_HUGEPAGE_MADVISE=y\n";
        assert_eq!(parse(madvise), Some(("madvise", 3)));
        assert_eq!(parse(b"CONFIG_TRANSPARENT_HUGEPAGE_NEVER=y\n"), Some(("never", 1)));
        assert_eq!(parse(b"x\n# CONFIG_TRANSPARENT_HUGEPAGE is not set\n"), Some(("never", 2)));
        assert_eq!(parse(b"CONFIG_NET=y\nCONFIG_TRANSPARENT_HUGEPAGE=y\n"), None);
    }

    #[test]
    fn the_file_of_the_running_kernel_counts() {
        let host = MapSource::new()
            .with_file("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
            .with_file("/boot/config-6.1.0-17-amd64", "CONFIG_TRANSPARENT_HUGEPAGE_NEVER=y\n")
            .with_file("/boot/config-6.1.0-18-amd64", DEBIAN);
        let (word, at) = read(&mut FactReader::new(&host)).into_known().unwrap();
        assert_eq!(
            (word.as_str(), at.to_string().as_str()),
            ("always", "/boot/config-6.1.0-18-amd64:3")
        );
        let only_modules = MapSource::new()
            .with_file(
                "/proc/version",
                "Linux version 5.14.0-503.el9.x86_64 (mockbuild@x) (gcc) #1 SMP\n",
            )
            .with_file("/lib/modules/5.14.0-503.el9.x86_64/config", DEBIAN);
        assert!(read(&mut FactReader::new(&only_modules)).is_known());
        assert_eq!(read(&mut FactReader::new(&MapSource::new())), Observed::Absent);
        assert_eq!(
            parse(&distill_kernel_config(DEBIAN.as_bytes())),
            parse(DEBIAN.as_bytes()),
            "as a capture keeps it"
        );
        assert!(
            !String::from_utf8(distill_kernel_config(DEBIAN.as_bytes())).unwrap().contains("NET")
        );
    }
}
