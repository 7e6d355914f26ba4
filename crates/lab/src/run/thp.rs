//! Whether private memory gets transparent huge pages on request, and which file decides
//! (Documentation/admin-guide/mm/transhuge.rst).

use hugewise_model::Observed;
use hugewise_model::host::Thp;

use super::refusal::LaunchRefusal;
use crate::thp_switches::FOLDER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThpGrant {
    /// Even without a request.
    pub(super) always: bool,
    /// The top switch says `madvise`, without which glibc's malloc does not ask
    /// (sysdeps/generic/malloc-hugepages.h, `do_set_hugetlb` in malloc/malloc.c).
    pub(super) glibc_asks: bool,
}

pub(super) fn derive_thp_grant(thp: &Thp) -> Result<ThpGrant, LaunchRefusal> {
    let top = format!("{FOLDER}/enabled");
    let Some(above) = thp.enabled.as_known() else {
        return Err(LaunchRefusal(match &thp.enabled {
            Observed::Absent => {
                "this kernel has no transparent huge pages; use --pages 2M for pages from a pool"
                    .into()
            }
            unread => {
                format!("{top} cannot be read ({})", unread.reason_text().unwrap_or_default())
            }
        }));
    };
    let glibc_asks = above == "madvise";
    // Before Linux 6.8 there is only the top switch.
    let large = thp.pmd_size.get().filter(|_| !thp.sizes.is_empty());
    let own = large.map(|page| {
        let file = format!("{FOLDER}/hugepages-{}kB/enabled", page.bytes().get() >> 10);
        let size = thp.sizes.iter().find(|size| size.page_size == page);
        (page, file, size.map_or(&Observed::Absent, |size| &size.enabled))
    });
    let repair_above = format!("echo madvise > {top}");
    let (word, file, repair) = match &own {
        None => (above, top, repair_above),
        Some((_, _, Observed::Known(word))) if word == "inherit" => (above, top, repair_above),
        Some((_, file, Observed::Known(word))) => {
            let inherit = format!("echo inherit > {file}");
            let works = matches!(above.as_str(), "madvise" | "always");
            (word, file.clone(), if works { inherit } else { format!("{inherit}; {repair_above}") })
        }
        Some((page, file, Observed::Absent)) => {
            return Err(LaunchRefusal(format!(
                "this kernel has no transparent huge pages of {page} for private memory ({file} is \
                 not there); use --pages 2M for pages from a pool"
            )));
        }
        Some((_, file, unread)) => {
            return Err(LaunchRefusal(format!(
                "{file} cannot be read ({})",
                unread.reason_text().unwrap_or_default()
            )));
        }
    };
    match word.as_str() {
        "always" => Ok(ThpGrant { always: true, glibc_asks }),
        "madvise" => Ok(ThpGrant { always: false, glibc_asks }),
        _ => Err(LaunchRefusal(format!(
            "THP is `{word}` on this host ({file}), so a program gets none even if it asks; as \
             root: {repair}, or use --pages 2M"
        ))),
    }
}

pub(super) fn glibc_is_silent(thp: &Thp) -> String {
    let above = thp.enabled.as_known().map_or("not known", String::as_str);
    format!(
        "glibc's malloc asks for transparent huge pages only if {FOLDER}/enabled is madvise, and \
         it is `{above}`; as root: echo madvise > {FOLDER}/enabled, or use --pages 2M"
    )
}

#[cfg(test)]
mod tests {
    use hugewise_model::PageSize;
    use hugewise_model::host::ThpSize;

    use super::*;

    /// The switch above all sizes, and those of sizes in kB; an empty word is a size without the
    /// file.
    fn switches(above: &str, sizes: &[(u64, &str)]) -> Thp {
        let size = |(kib, word): &(u64, &str)| ThpSize {
            page_size: PageSize::from_kib(*kib).unwrap(),
            enabled: if word.is_empty() {
                Observed::Absent
            } else {
                Observed::Known((*word).into())
            },
            shmem_enabled: Observed::Known("inherit".into()),
        };
        let enabled = Observed::Known(above.into());
        let pmd_size = Observed::Known(PageSize::MIB_2);
        Thp { enabled, pmd_size, sizes: sizes.iter().map(size).collect(), ..Thp::default() }
    }

    #[test]
    fn the_file_that_decides_is_named() {
        let own = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
        let top = "/sys/kernel/mm/transparent_hugepage/enabled";
        for (above, sizes, named, repair) in [
            // A kernel without switches of sizes.
            ("never", &[][..], top, format!("as root: echo madvise > {top},")),
            (
                "never",
                &[(64, "always"), (2048, "inherit")],
                top,
                format!("as root: echo madvise > {top},"),
            ),
            (
                "madvise",
                &[(64, "always"), (2048, "never")],
                own,
                format!("as root: echo inherit > {own},"),
            ),
            ("always", &[(2048, "never")], own, format!("as root: echo inherit > {own},")),
            (
                "never",
                &[(2048, "never")],
                own,
                format!("as root: echo inherit > {own}; echo madvise > {top},"),
            ),
        ] {
            let LaunchRefusal(why) = derive_thp_grant(&switches(above, sizes)).unwrap_err();
            assert!(
                why.contains(&format!("THP is `never` on this host ({named})")),
                "{above} {sizes:?}: {why}"
            );
            assert!(why.contains(&repair), "{above} {sizes:?}: {why}");
        }
    }

    #[test]
    fn a_size_without_the_file_inherits_nothing() {
        // Linux 6.18 lists hugepages-8kB, which shared memory alone can have.
        let LaunchRefusal(why) =
            derive_thp_grant(&switches("always", &[(64, "inherit"), (2048, "")])).unwrap_err();
        assert!(why.contains("hugepages-2048kB/enabled is not there"), "{why}");
        assert!(
            derive_thp_grant(&switches("always", &[(8, ""), (64, "inherit")])).is_err(),
            "it is not listed at all"
        );
        assert!(
            derive_thp_grant(&switches("always", &[(8, ""), (2048, "inherit")])).unwrap().always
        );
        let mut denied = switches("always", &[(2048, "inherit")]);
        denied.sizes[0].enabled = Observed::Denied;
        assert!(
            derive_thp_grant(&denied)
                .is_err_and(|why| why.0.contains("hugepages-2048kB/enabled cannot be read"))
        );
    }

    #[test]
    fn what_is_given_without_asking_and_whether_glibc_asks() {
        let thp_grant_of =
            |above: &str, own: &str| derive_thp_grant(&switches(above, &[(2048, own)])).unwrap();
        assert_eq!(
            thp_grant_of("madvise", "inherit"),
            ThpGrant { always: false, glibc_asks: true }
        );
        assert_eq!(thp_grant_of("always", "inherit"), ThpGrant { always: true, glibc_asks: false });
        assert_eq!(thp_grant_of("never", "always"), ThpGrant { always: true, glibc_asks: false });
        assert_eq!(thp_grant_of("never", "madvise"), ThpGrant { always: false, glibc_asks: false });
        assert_eq!(
            thp_grant_of("always", "madvise"),
            ThpGrant { always: false, glibc_asks: false }
        );
    }
}
