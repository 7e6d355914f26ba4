//! /etc/fstab, as far as it mounts a hugetlbfs.

use hugewise_model::Observed;

use crate::{Door, ParseError};

/// What systemd mounts by a unit of its own.
const OF_SYSTEMD: &str = "/dev/hugepages";

/// Folders on which the boot mounts a hugetlbfs. Without the file, systemd's alone.
pub fn read(door: &mut Door<'_>) -> Observed<Vec<String>> {
    let named = door.parse("/etc/fstab", parse).or_else_absent(|| Observed::Known(Vec::new()));
    named.map(|mut folders| {
        folders.push(OF_SYSTEMD.to_owned());
        folders
    })
}

/// Folders of lines of the type hugetlbfs that are not `noauto` (fstab(5)).
///
/// # Errors
/// None: a line that makes no sense mounts nothing.
pub fn parse(bytes: &[u8]) -> Result<Vec<String>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let folder = |line: &str| {
        let mut fields = line.split_whitespace();
        let (device, folder, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or_default();
        let mounts =
            !device.starts_with('#') && kind == "hugetlbfs" && !options.split(',').any(|word| word == "noauto");
        // A space in a path is written so.
        mounts.then(|| folder.replace("\\040", " "))
    };
    Ok(text.lines().filter_map(folder).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_hugetlbfs_that_the_boot_mounts() {
        let text = "# nodev /off hugetlbfs defaults 0 0\n/dev/sda1 / ext4 defaults 0 1\nnodev /huge hugetlbfs pagesize=2M 0 0\n\
                    nodev /later hugetlbfs noauto,pagesize=1G 0 0\nnone\t/a\\040b\thugetlbfs\nshort line\n";
        assert_eq!(parse(text.as_bytes()).unwrap(), ["/huge", "/a b"]);
    }
}
