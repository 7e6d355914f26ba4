//! Transparent huge pages (Documentation/admin-guide/mm/transhuge.rst).

use hugewise_model::PageSize;
use hugewise_model::host::{THP_FOLDERS, Thp, ThpSize};

use super::{hugepages, number};
use hugewise_source::{ConfigCache, FactReader, ParseError};

/// The choice in brackets: `always [madvise] never`. Fails without a single one.
pub fn parse(bytes: &[u8]) -> Result<String, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut chosen =
        text.split_ascii_whitespace().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match (chosen.next(), chosen.next()) {
        (Some(word), None) if !word.is_empty() => Ok(word.to_owned()),
        _ => Err(ParseError::whole_file("no choice in brackets")),
    }
}

/// The choice of a switch, and all its words.
fn parse_switch(bytes: &[u8]) -> Result<(String, Vec<String>), ParseError> {
    Ok((parse(bytes)?, parse_choices(bytes)))
}

/// All words, without the brackets.
fn parse_choices(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.split_ascii_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

/// khugepaged's numbers; RHEL 6 prints a switch among them as `[yes] no`.
fn parse_khugepaged(bytes: &[u8]) -> Result<u64, ParseError> {
    match parse(bytes).as_deref() {
        Ok("yes") => Ok(1),
        Ok("no") => Ok(0),
        _ => number::parse(bytes),
    }
}

/// Reads the switches of the host; those of each size from `sizes` where they are there.
pub fn read(door: &mut FactReader<'_>, sizes: &ConfigCache<&'static str, Vec<ThpSize>>) -> Thp {
    let [usual, old] = THP_FOLDERS;
    let mut thp = Thp::default();
    let mut switch = door.parse(&format!("{usual}/enabled"), parse_switch);
    if switch.is_absent() {
        let there = door.parse(&format!("{old}/enabled"), parse_switch);
        if !there.is_absent() {
            (thp.of_rhel_6, switch) = (true, there);
        }
    }
    thp.choices = switch.as_known().map(|(_, words)| words.clone()).unwrap_or_default();
    thp.enabled = switch.map(|(choice, _)| choice);
    let folder = thp.sysfs_folder();
    thp.defrag = door.parse(&format!("{folder}/defrag"), parse);
    thp.shmem_enabled = door.parse(&format!("{folder}/shmem_enabled"), parse);
    let pmd = format!("{folder}/hpage_pmd_size");
    thp.pmd_size = door.parse(&pmd, |bytes| {
        let size = number::parse(bytes)?;
        PageSize::new(size).ok_or(ParseError::whole_file("no page size"))
    });
    for name in door.list_folder(&format!("{folder}/khugepaged")).into_known().unwrap_or_default() {
        let value = door.parse(&format!("{folder}/khugepaged/{name}"), parse_khugepaged);
        thp.khugepaged.insert(name, value);
    }
    thp.sizes = sizes.read(door, folder, |door| read_sizes(door, folder));
    thp
}

/// The switches of each size, smallest first.
fn read_sizes(door: &mut FactReader<'_>, folder: &str) -> Vec<ThpSize> {
    let mut sizes = Vec::new();
    for name in door.list_folder(folder).into_known().unwrap_or_default() {
        let Ok(page_size) = hugepages::parse(name.as_bytes()) else { continue };
        let enabled = door.parse(&format!("{folder}/{name}/enabled"), parse);
        let shmem_enabled = door.parse(&format!("{folder}/{name}/shmem_enabled"), parse);
        sizes.push(ThpSize { page_size, enabled, shmem_enabled });
    }
    sizes.sort_by_key(|size| size.page_size);
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_choice_in_brackets() {
        assert_eq!(parse(b"always [madvise] never\n"), Ok("madvise".into()));
        assert_eq!(
            parse(b"always defer [defer+madvise] madvise never\n"),
            Ok("defer+madvise".into())
        );
        assert_eq!(parse(b"always within_size advise [never] deny force\n"), Ok("never".into()));
        for text in ["", "madvise\n", "[always] [never]\n", "[] never\n", "always [mad"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_switch_of_khugepaged_is_a_number_even_on_rhel_6() {
        assert_eq!(parse_khugepaged(b"1\n"), Ok(1));
        assert_eq!(parse_khugepaged(b"[yes] no\n"), Ok(1));
        assert_eq!(parse_khugepaged(b"yes [no]\n"), Ok(0));
        assert!(parse_khugepaged(b"maybe\n").is_err());
    }

    proptest! {
        #[test]
        fn numbers_of_khugepaged_are_read(number: u64) {
            prop_assert_eq!(parse_khugepaged(format!("{number}\n").as_bytes()), Ok(number));
        }

        #[test]
        fn what_is_chosen_is_read(words in prop::collection::vec("[a-z_+]{1,10}", 1..6), at in any::<prop::sample::Index>()) {
            let at = at.index(words.len());
            let line: Vec<_> =
                words.iter().enumerate().map(|(i, word)| if i == at { format!("[{word}]") } else { word.clone() }).collect();
            prop_assert_eq!(parse(line.join(" ").as_bytes()), Ok(words[at].clone()));
        }
    }
}
