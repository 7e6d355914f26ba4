//! What the switches of transparent huge pages must say for memory that asks by madvise
//! (Documentation/admin-guide/mm/transhuge.rst).

use hugewise_model::PageSize;

use crate::kernel_values::{page_size_folders as folders, read_value, value_if_any};
use crate::variant::Variant;

/// The folder of the switches.
pub const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// Kinds of memory by their switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThpMemoryKind {
    /// Private memory: `enabled`.
    #[default]
    Private,
    /// Shared anonymous memory and memory files: `shmem_enabled`.
    Shared,
    /// System V: only the top `shmem_enabled`. Linux 6.18 applies the sizes' own switches to
    /// mappings that it calls anonymous, and these have other operations (ipc/shm.c, mm/shmem.c).
    SystemV,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    page: PageSize,
    path: String,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ThpSwitchState {
    memory: ThpMemoryKind,
    /// The size of [`Variant::Thp`].
    large: PageSize,
    top: Option<String>,
    /// Since Linux 6.8 (shared: 6.11) each size has its own.
    own: Vec<Own>,
}

/// The switches to change, with their values, so that memory which asks for `pages` by madvise gets
/// them and no larger ones. Empty where all are right, and for pages that are not transparent.
pub(crate) fn switches_to_turn(
    pages: Variant,
    memory: ThpMemoryKind,
) -> Vec<(String, &'static str)> {
    let switches = ThpSwitchState::read(memory);
    match pages {
        Variant::Thp => switches.for_size(switches.large),
        Variant::Mthp(page) => switches.for_size(page),
        Variant::Base | Variant::Huge(_) => Vec::new(),
    }
}

/// Whether this kernel can give such pages at all.
pub(crate) fn can_offer_pages(pages: Variant, memory: ThpMemoryKind) -> bool {
    let switches = ThpSwitchState::read(memory);
    match pages {
        Variant::Thp => switches.top.is_some(),
        Variant::Mthp(page) => switches.own.iter().any(|own| own.page == page),
        Variant::Base | Variant::Huge(_) => true,
    }
}

/// The sizes that this kernel can give, smallest first, for [`Variant::Mthp`].
pub fn offered_page_sizes(memory: ThpMemoryKind) -> Vec<PageSize> {
    let switches = ThpSwitchState::read(memory);
    let mut sizes: Vec<_> =
        switches.own.iter().map(|own| own.page).filter(|page| *page < switches.large).collect();
    sizes.sort();
    sizes
}

/// The size of [`Variant::Thp`].
pub(crate) fn large_size() -> PageSize {
    read_value(&format!("{FOLDER}/hpage_pmd_size"))
        .ok()
        .and_then(|text| text.parse().ok())
        .and_then(PageSize::new)
        .unwrap_or(PageSize::MIB_2)
}

pub(crate) fn switch_paths() -> Vec<String> {
    let mut paths: Vec<_> =
        ["enabled", "shmem_enabled", "defrag"].map(|name| format!("{FOLDER}/{name}")).into();
    for (_, folder) in folders(FOLDER) {
        paths.extend(["enabled", "shmem_enabled"].map(|name| format!("{folder}/{name}")));
    }
    paths
}

impl ThpMemoryKind {
    const fn switch_file_name(self) -> &'static str {
        match self {
            Self::Private => "enabled",
            Self::Shared | Self::SystemV => "shmem_enabled",
        }
    }
}

impl ThpSwitchState {
    fn read(memory: ThpMemoryKind) -> Self {
        let name = memory.switch_file_name();
        let mut own = Vec::new();
        let no_own = memory == ThpMemoryKind::SystemV;
        for (page, folder) in folders(FOLDER).into_iter().filter(|_| !no_own) {
            let path = format!("{folder}/{name}");
            // A size without such a file is not available for such memory.
            if let Ok(Some(value)) = value_if_any(&path) {
                own.push(Own { page, path, value });
            }
        }
        let top = read_value(&format!("{FOLDER}/{name}")).ok();
        Self { memory, large: large_size(), top, own }
    }

    /// Whether memory that asks gets pages under this word; `inherit` follows the top switch.
    fn gives_pages(&self, word: &str) -> bool {
        match word {
            "inherit" => {
                self.top.as_deref().is_some_and(|top| top != "inherit" && self.gives_pages(top))
            }
            "always" | "madvise" | "advise" | "force" => true,
            // `within_size` gives what is within the file; `never` and `deny` nothing.
            "within_size" => self.memory != ThpMemoryKind::Private,
            _ => false,
        }
    }

    fn for_size(&self, page: PageSize) -> Vec<(String, &'static str)> {
        let asked = if self.memory == ThpMemoryKind::Private { "madvise" } else { "advise" };
        let name = self.memory.switch_file_name();
        let top = format!("{FOLDER}/{name}");
        let mut turned = Vec::new();
        // The emergency words of shared memory override every size.
        let emergency = matches!(self.top.as_deref(), Some("deny" | "force"));
        let no_own = self.own.iter().all(|own| own.page != page);
        if emergency || no_own && !self.top.as_deref().is_some_and(|word| self.gives_pages(word)) {
            turned.push((top, asked));
        }
        for own in &self.own {
            let gives = emergency && own.value == "inherit" || self.gives_pages(&own.value);
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

    fn switches(memory: ThpMemoryKind, top: &str, own: &[(u64, &str)]) -> ThpSwitchState {
        let own = own.iter().map(|(kib, value)| Own {
            page: PageSize::from_kib(*kib).unwrap(),
            path: kib.to_string(),
            value: (*value).to_owned(),
        });
        ThpSwitchState {
            memory,
            large: PageSize::MIB_2,
            top: Some(top.to_owned()),
            own: own.collect(),
        }
    }

    fn turned(switches: &ThpSwitchState, kib: u64) -> Vec<(String, &'static str)> {
        switches.for_size(PageSize::from_kib(kib).unwrap())
    }

    #[test]
    fn nothing_is_turned_that_stands_right() {
        let new = [(64, "never"), (2048, "inherit")];
        assert!(turned(&switches(ThpMemoryKind::Private, "madvise", &new), 2048).is_empty());
        assert!(turned(&switches(ThpMemoryKind::Private, "always", &new), 2048).is_empty());
        assert!(turned(&switches(ThpMemoryKind::Shared, "within_size", &new), 2048).is_empty());
        assert!(turned(&switches(ThpMemoryKind::Private, "madvise", &[]), 2048).is_empty());
    }

    #[test]
    fn the_smallest_change_is_made() {
        let new = [(64, "never"), (2048, "inherit")];
        assert_eq!(
            turned(&switches(ThpMemoryKind::Private, "never", &new), 2048),
            [("2048".to_owned(), "madvise")]
        );
        assert_eq!(
            turned(&switches(ThpMemoryKind::Shared, "never", &new), 2048),
            [("2048".to_owned(), "advise")]
        );
        assert_eq!(
            turned(&switches(ThpMemoryKind::Private, "never", &[]), 2048),
            [(format!("{FOLDER}/enabled"), "madvise")]
        );
        // Sizes above the wanted one would be taken instead of it.
        assert_eq!(
            turned(&switches(ThpMemoryKind::Private, "madvise", &new), 64),
            [("64".to_owned(), "madvise"), ("2048".to_owned(), "never")]
        );
        assert_eq!(
            turned(&switches(ThpMemoryKind::Private, "never", &new), 64),
            [("64".to_owned(), "madvise")]
        );
    }

    #[test]
    fn system_v_obeys_the_top_alone() {
        let top = [(format!("{FOLDER}/shmem_enabled"), "advise")];
        assert_eq!(turned(&switches(ThpMemoryKind::SystemV, "never", &[]), 2048), top);
        assert!(turned(&switches(ThpMemoryKind::SystemV, "within_size", &[]), 2048).is_empty());
        assert!(!can_offer_pages(
            Variant::Mthp(PageSize::from_kib(64).unwrap()),
            ThpMemoryKind::SystemV
        ));
    }

    #[test]
    fn deny_stands_above_all_sizes() {
        let denied = switches(ThpMemoryKind::Shared, "deny", &[(64, "advise"), (2048, "inherit")]);
        assert_eq!(
            turned(&denied, 64),
            [(format!("{FOLDER}/shmem_enabled"), "advise"), ("2048".to_owned(), "never")]
        );
        assert_eq!(turned(&denied, 2048), [(format!("{FOLDER}/shmem_enabled"), "advise")]);
    }
}
