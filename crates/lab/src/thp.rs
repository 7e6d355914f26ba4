//! What the switches of transparent huge pages must say for memory that asks by madvise
//! (Documentation/admin-guide/mm/transhuge.rst).

use std::path::Path;

use hugewise_model::PageSize;

use crate::guard::{self, folders};
use crate::variant::Variant;

/// Where the switches stand.
pub const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// One size's own switch, for private or for shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    page: PageSize,
    path: String,
    value: String,
}

/// The switches as they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Switches {
    shared: bool,
    /// The size of [`Variant::Thp`].
    large: PageSize,
    /// `enabled` or `shmem_enabled` above all sizes.
    top: Option<String>,
    /// Since Linux 6.8 (shared: 6.11) each size has one of its own.
    own: Vec<Own>,
}

/// The switches to be turned, with their values, so that memory which asks for `pages` by madvise gets them and no
/// larger ones. Empty where all stand right already, and for pages that are not transparent.
pub fn wanted(pages: Variant, shared: bool) -> Vec<(String, &'static str)> {
    let switches = Switches::read(shared);
    match pages {
        Variant::Thp => switches.for_size(switches.large),
        Variant::Mthp(page) => switches.for_size(page),
        Variant::Base | Variant::Huge(_) => Vec::new(),
    }
}

/// Whether this kernel can give such pages at all.
pub fn offers(pages: Variant, shared: bool) -> bool {
    let switches = Switches::read(shared);
    match pages {
        Variant::Thp => switches.top.is_some(),
        Variant::Mthp(page) => switches.own.iter().any(|own| own.page == page),
        Variant::Base | Variant::Huge(_) => true,
    }
}

/// The sizes that this kernel can give, smallest first, for [`Variant::Mthp`].
pub fn sizes(shared: bool) -> Vec<PageSize> {
    let switches = Switches::read(shared);
    let mut sizes: Vec<_> = switches.own.iter().map(|own| own.page).filter(|page| *page < switches.large).collect();
    sizes.sort();
    sizes
}

/// The size of [`Variant::Thp`].
pub fn large_size() -> PageSize {
    guard::value_of(Path::new(&format!("{FOLDER}/hpage_pmd_size")))
        .ok()
        .and_then(|text| text.parse().ok())
        .and_then(PageSize::new)
        .unwrap_or(PageSize::MIB_2)
}

/// Every switch there is: what a guard must put back.
pub fn paths() -> Vec<String> {
    let mut paths: Vec<_> = ["enabled", "shmem_enabled", "defrag"].map(|name| format!("{FOLDER}/{name}")).into();
    for folder in folders(Path::new(FOLDER)).unwrap_or_default() {
        if size_of(&folder).is_some() {
            paths.extend(["enabled", "shmem_enabled"].map(|name| format!("{}/{name}", folder.display())));
        }
    }
    paths
}

fn size_of(folder: &Path) -> Option<PageSize> {
    let kib = folder.file_name()?.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    kib.parse().ok().and_then(PageSize::from_kib)
}

impl Switches {
    fn read(shared: bool) -> Self {
        let name = if shared { "shmem_enabled" } else { "enabled" };
        let mut own = Vec::new();
        for folder in folders(Path::new(FOLDER)).unwrap_or_default() {
            let path = format!("{}/{name}", folder.display());
            if let (Some(page), Ok(value)) = (size_of(&folder), guard::value_of(Path::new(&path))) {
                own.push(Own { page, path, value });
            }
        }
        let top = guard::value_of(Path::new(&format!("{FOLDER}/{name}"))).ok();
        Self { shared, large: large_size(), top, own }
    }

    /// Whether memory that asks gets pages under this word; `inherit` is the top's.
    fn gives(&self, word: &str) -> bool {
        match word {
            "inherit" => self.top.as_deref().is_some_and(|top| top != "inherit" && self.gives(top)),
            "always" | "madvise" | "advise" | "force" => true,
            // `within_size` gives what lies within the file; `never` and `deny` nothing.
            "within_size" => self.shared,
            _ => false,
        }
    }

    fn for_size(&self, page: PageSize) -> Vec<(String, &'static str)> {
        let asked = if self.shared { "advise" } else { "madvise" };
        let name = if self.shared { "shmem_enabled" } else { "enabled" };
        let top = format!("{FOLDER}/{name}");
        let mut turned = Vec::new();
        // The emergency words of shared memory override every size.
        let emergency = matches!(self.top.as_deref(), Some("deny" | "force"));
        let no_own = self.own.iter().all(|own| own.page != page);
        if emergency || no_own && !self.top.as_deref().is_some_and(|word| self.gives(word)) {
            turned.push((top, asked));
        }
        for own in &self.own {
            let gives = if emergency && own.value == "inherit" { true } else { self.gives(&own.value) };
            if own.page == page && !gives {
                turned.push((own.path.clone(), asked));
            } else if own.page > page && gives {
                // The kernel takes the largest size that fits.
                turned.push((own.path.clone(), "never"));
            }
        }
        turned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switches(shared: bool, top: &str, own: &[(u64, &str)]) -> Switches {
        let own = own.iter().map(|(kib, value)| Own {
            page: PageSize::from_kib(*kib).unwrap(),
            path: kib.to_string(),
            value: (*value).to_owned(),
        });
        Switches { shared, large: PageSize::MIB_2, top: Some(top.to_owned()), own: own.collect() }
    }

    fn turned(switches: &Switches, kib: u64) -> Vec<(String, &'static str)> {
        switches.for_size(PageSize::from_kib(kib).unwrap())
    }

    #[test]
    fn nothing_is_turned_that_stands_right() {
        let new = [(64, "never"), (2048, "inherit")];
        assert!(turned(&switches(false, "madvise", &new), 2048).is_empty());
        assert!(turned(&switches(false, "always", &new), 2048).is_empty());
        assert!(turned(&switches(true, "within_size", &new), 2048).is_empty());
        assert!(turned(&switches(false, "madvise", &[]), 2048).is_empty());
    }

    #[test]
    fn the_smallest_change_is_made() {
        let new = [(64, "never"), (2048, "inherit")];
        assert_eq!(turned(&switches(false, "never", &new), 2048), [("2048".to_owned(), "madvise")]);
        assert_eq!(turned(&switches(true, "never", &new), 2048), [("2048".to_owned(), "advise")]);
        assert_eq!(turned(&switches(false, "never", &[]), 2048), [(format!("{FOLDER}/enabled"), "madvise")]);
        // Sizes above the wanted one would be taken instead of it.
        assert_eq!(
            turned(&switches(false, "madvise", &new), 64),
            [("64".to_owned(), "madvise"), ("2048".to_owned(), "never")]
        );
        assert_eq!(turned(&switches(false, "never", &new), 64), [("64".to_owned(), "madvise")]);
    }

    #[test]
    fn deny_stands_above_all_sizes() {
        let denied = switches(true, "deny", &[(64, "advise"), (2048, "inherit")]);
        assert_eq!(turned(&denied, 64), [(format!("{FOLDER}/shmem_enabled"), "advise"), ("2048".to_owned(), "never")]);
        assert_eq!(turned(&denied, 2048), [(format!("{FOLDER}/shmem_enabled"), "advise")]);
    }
}
