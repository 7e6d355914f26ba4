//! Mounts: /proc/self/mountinfo, or /proc/mounts where only that was kept.

use hugewise_model::host::HugetlbfsMount;
use hugewise_model::{Observed, PageSize};

use super::text::{parse_digits, text_lines, unescape_octal};
use hugewise_source::{FactReader, ParseError};

/// With the root of each mount, unlike [`MOUNTS`].
pub(crate) const MOUNTINFO: &str = "/proc/self/mountinfo";
pub(crate) const MOUNTS: &str = "/proc/mounts";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub path: String,
    /// File system.
    pub kind: String,
    /// Which part of the file system is mounted; absent in /proc/mounts.
    pub root: Observed<String>,
    /// Options of the mount, then of the file system.
    pub options: String,
}

impl Mount {
    /// Whether the option is set.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|word| word == option)
    }
}

/// One entry a line of either file. Fails on a line that is neither, and without any.
pub fn parse(bytes: &[u8]) -> Result<Vec<Mount>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut mounts = Vec::new();
    for (line, content) in text_lines(&text) {
        if content.trim().is_empty() {
            continue;
        }
        let mount = parse_mountinfo_line(content).or_else(|| parse_fstab_line(content));
        mounts.push(mount.ok_or(ParseError::at_line(line, "no mount"))?);
    }
    if mounts.is_empty() { Err(ParseError::whole_file("empty")) } else { Ok(mounts) }
}

/// `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/root rw`.
fn parse_mountinfo_line(content: &str) -> Option<Mount> {
    let (left, right) = content.split_once(" - ")?;
    let mut left = left.split(' ');
    parse_digits::<u64>(left.next()?)?;
    let (root, path, own) = (left.nth(2)?, left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, _device, all) = (right.next()?, right.next()?, right.next()?);
    Some(Mount {
        path: unescape_octal(path),
        kind: kind.to_owned(),
        root: Observed::Known(unescape_octal(root)),
        options: format!("{own},{all}"),
    })
}

/// `/dev/root / ext4 rw,noatime 0 0`.
fn parse_fstab_line(content: &str) -> Option<Mount> {
    let mut words = content.split(' ');
    let (_device, path, kind, options) =
        (words.next()?, words.next()?, words.next()?, words.next()?);
    parse_digits::<u64>(words.next()?)?;
    Some(Mount {
        path: unescape_octal(path),
        kind: kind.to_owned(),
        root: Observed::Absent,
        options: options.to_owned(),
    })
}

/// Reads whichever of the two files exists.
pub fn read(door: &mut FactReader<'_>) -> Observed<Vec<Mount>> {
    door.parse(MOUNTINFO, parse).or_else_absent(|| door.parse(MOUNTS, parse))
}

/// A cluster's node has one for each page size of each pod: a few hundred.
pub const MOST_HUGETLBFS: usize = 4096;

/// The hugetlbfs ones; without a valid `pagesize=` a mount has the default size. Fails on more than
/// any host has, as files are read for each.
pub fn find_hugetlbfs_mounts(
    mounts: &[Mount],
    default: &Observed<PageSize>,
) -> Result<Vec<HugetlbfsMount>, ParseError> {
    let hugetlbfs = || mounts.iter().filter(|mount| mount.kind == "hugetlbfs");
    if hugetlbfs().count() > MOST_HUGETLBFS {
        return Err(ParseError::whole_file("more than 4096 mounts of hugetlbfs"));
    }
    let page_size_of = |mount: &Mount| match mount
        .options
        .split(',')
        .find_map(|word| word.strip_prefix("pagesize="))
    {
        Some(text) => page_size(text).map_or_else(
            || Observed::Malformed("pagesize= is not a page size".into()),
            Observed::Known,
        ),
        None => default.clone(),
    };
    let all = hugetlbfs().map(|mount| HugetlbfsMount {
        path: mount.path.clone(),
        page_size: page_size_of(mount),
        options: mount.options.clone(),
    });
    Ok(all.collect())
}

/// `2M`, `1024M`, `64K`, `1G`, or bytes: as fs/hugetlbfs prints and mount(8) takes it.
pub fn page_size(text: &str) -> Option<PageSize> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return None,
    };
    PageSize::new(parse_digits::<u64>(number)?.checked_mul(1 << shift)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INFO: &str = "22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
        40 22 0:31 / /dev/hugepages rw,nosuid shared:7 - hugetlbfs hugetlbfs rw,pagesize=2M\n\
        41 22 0:32 / /mnt/huge\\0401g rw,relatime - hugetlbfs none \
         rw,gid=54321,mode=770,pagesize=1024M\n\
        42 22 0:33 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";

    #[test]
    fn more_mounts_than_any_host_has_are_not_gone_through() {
        let line = "41 22 0:32 / /h rw - hugetlbfs none rw,pagesize=2M\n";
        let found = |count| {
            find_hugetlbfs_mounts(&parse(line.repeat(count).as_bytes()).unwrap(), &Observed::Absent)
        };
        assert_eq!(found(4096).unwrap().len(), 4096);
        assert!(found(4097).is_err());
    }

    #[test]
    fn hugetlbfs_mounts_have_their_size() {
        let mounts = parse(INFO.as_bytes()).unwrap();
        let found = find_hugetlbfs_mounts(&mounts, &Observed::Known(PageSize::MIB_2)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].path, "/dev/hugepages");
        assert_eq!(found[0].page_size, Observed::Known(PageSize::MIB_2));
        assert_eq!(found[1].path, "/mnt/huge 1g");
        assert_eq!(found[1].page_size, Observed::Known(PageSize::GIB_1));
        assert_eq!(found[1].options, "rw,relatime,rw,gid=54321,mode=770,pagesize=1024M");
        assert_eq!(mounts[3].root, Observed::Known("/docker/ab".into()));
        assert!(mounts[3].has_option("nsdelegate") && !mounts[3].has_option("nsdel"));
    }

    #[test]
    fn proc_mounts_is_understood_too_and_lacks_the_size_on_old_kernels() {
        let mounts =
            parse(b"rootfs / rootfs rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw,relatime 0 0\n")
                .unwrap();
        let default = Observed::Known(PageSize::new(512 << 20).unwrap());
        assert_eq!(find_hugetlbfs_mounts(&mounts, &default).unwrap()[0].page_size, default);
        assert_eq!(mounts[0].root, Observed::Absent);
        let odd = parse(b"none /h hugetlbfs rw,pagesize=3M 0 0\n").unwrap();
        assert!(matches!(
            find_hugetlbfs_mounts(&odd, &default).unwrap()[0].page_size,
            Observed::Malformed(_)
        ));
        assert!(parse(b"").is_err());
        assert!(parse(b"two words\n").is_err());
    }

    proptest! {
        #[test]
        fn whole_lines_of_a_torn_file_are_kept(end in 0..INFO.len()) {
            crate::testing::rows_before_a_cut(INFO, end, 0, parse);
        }

        #[test]
        fn what_has_no_unit_of_the_kernels_is_no_size(number in 0..1_000_000_u64, unit in "[^0-9KkMmGg]{1,4}|[KMG][a-zA-Z]{1,3}") {
            prop_assert_eq!(page_size(&format!("{number}{unit}")), None);
        }

        #[test]
        fn sizes_in_any_unit_are_one(shift in 12..40u32) {
            let bytes = 1_u64 << shift;
            prop_assert_eq!(page_size(&bytes.to_string()), PageSize::new(bytes));
            prop_assert_eq!(page_size(&format!("{}K", bytes >> 10)), PageSize::new(bytes));
        }
    }
}
