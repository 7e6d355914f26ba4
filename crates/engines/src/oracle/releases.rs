//! What each release of Oracle Database makes of huge pages.
//!
//! The release is told by the path of the home, which often says no more than `11.2.0` or `19.0.0`: what hangs on a patch set
//! that the path does not name is taken as the newest one has it.

use hugewise_model::instance::Setting;
use hugewise_model::{Asked, Host, Instance, Level};

use super::asks_for_amm;
use crate::kind::ThpAdvice;
use crate::start::Takes;
use hugewise_model::Bytes;

/// A release in numbers, as far as it is known: `11.2.0.4`, `19`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release(Vec<u32>);

impl Release {
    pub(super) fn of(instance: &Instance) -> Self {
        Self::parse(instance.version.known().map_or("", String::as_str))
    }

    fn parse(version: &str) -> Self {
        let numbers = version.split('.').map_while(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..digits)?.parse().ok()
        });
        Self(numbers.collect())
    }

    /// Whether it is known to be older than that one: numbers that it does not name may be any.
    fn is_before(&self, other: &[u32]) -> bool {
        let known = self.0.iter().zip(other);
        known.map(|(ours, theirs)| ours.cmp(theirs)).find(|order| order.is_ne()).is_some_and(std::cmp::Ordering::is_lt)
    }

    /// Whether it is known to be that one or a newer one.
    fn is_at_least(&self, other: &[u32]) -> bool {
        let mut known = self.0.iter().zip(other).map(|(ours, theirs)| ours.cmp(theirs));
        match known.find(|order| order.is_ne()) {
            Some(order) => order.is_gt(),
            None => self.0.len() >= other.len(),
        }
    }

    /// Whether it has the parameter USE_LARGE_PAGES: 11.2.0.2 brought it (Oracle Database Reference 11.2). A parameter file that
    /// names it keeps an older one from starting.
    pub(super) fn has_parameter(&self) -> bool {
        !self.is_before(&[11, 2, 0, 2])
    }

    /// What it takes of a pool that has not enough for it: up to 11.2.0.2 the whole SGA or nothing, from 11.2.0.3 on what there is
    /// (Oracle Database Reference 11.2 and 12.2, USE_LARGE_PAGES).
    pub(super) fn takes(&self) -> Takes {
        if self.is_before(&[11, 2, 0, 3]) { Takes::All } else { Takes::Pieces(Bytes(1)) }
    }

    /// Whether it does not start with MEMORY_TARGET or MEMORY_MAX_TARGET where USE_LARGE_PAGES is ONLY (Oracle Database Reference
    /// 18c and 19c, MEMORY_MAX_TARGET and MEMORY_TARGET). Of older releases nobody says what comes of it.
    fn refuses_amm_with_only(&self) -> bool {
        self.is_at_least(&[18])
    }
}

/// Whether the parameters of an instance contradict each other.
pub(super) fn refuses(instance: &Instance, asked: Asked) -> bool {
    let only = instance.setting_value("use_large_pages").is_some_and(|value| value.eq_ignore_ascii_case("only"));
    asked == Asked::Cannot && only && asks_for_amm(instance) && Release::of(instance).refuses_amm_with_only()
}

/// PRE_PAGE_SGA=TRUE, where it has every process that starts touch all of the SGA: up to 11.2 it does. From 12.1 on the first
/// process does that allocates a granule, and no login waits (Oracle Database Reference 11.2, PRE_PAGE_SGA; MOS 1987975.1).
pub(super) fn touches_all(instance: &Instance) -> Option<&Setting> {
    let setting = instance.settings.get("pre_page_sga")?;
    (setting.value.eq_ignore_ascii_case("true") && Release::of(instance).is_before(&[12, 1])).then_some(setting)
}

/// LOCK_SGA=TRUE (Oracle Database Reference, LOCK_SGA): SHM_LOCK of the segments, without which it ends with ORA-27102.
pub(super) fn locks_all(instance: &Instance) -> Option<&Setting> {
    instance.settings.get("lock_sga").filter(|setting| setting.value.eq_ignore_ascii_case("true"))
}

/// Whether there is a PGA_AGGREGATE_LIMIT: from 12.1 on (Oracle Database Reference 12.1).
pub(super) fn limits_pga(instance: &Instance) -> bool {
    Release::of(instance).is_at_least(&[12, 1])
}

/// The file by which an Exadata database server knows its cells (Exadata Database Machine documentation, "cellinit.ora").
pub(super) const CELLS: &str = "/etc/oracle/cell/network-config/cellinit.ora";

/// What an Exadata database server does not start with: from 19.27 and 23.8 on only AUTO_ONLY and ONLY are taken there (MOS
/// 3081878.1). A home whose path does not name its release update is not judged.
pub(super) fn refused_on_exadata(instance: &Instance) -> bool {
    let release = Release::of(instance);
    let refuses = match release.0.first() {
        Some(19) => release.is_at_least(&[19, 27]),
        Some(23) => release.is_at_least(&[23, 8]),
        _ => false,
    };
    let value = instance.setting_value("use_large_pages").map(str::to_ascii_uppercase);
    refuses && matches!(value.as_deref(), Some("TRUE" | "FALSE" | "AUTO"))
}

/// What Oracle's installation guides for Linux say of THP: up to 18c to disable them; 19c and later the same on kernels before
/// UEK7, and madvise from UEK7 on. Of Red Hat's kernels the newer guides say nothing.
pub(super) fn thp(host: &Host, instance: &Instance) -> ThpAdvice {
    let release = Release::of(instance);
    let old = release.is_before(&[19]) || (release.is_at_least(&[19]) && is_old_uek(host));
    if old { ThpAdvice::Never(Level::Warn) } else { ThpAdvice::Against(Level::Warn) }
}

/// Whether the kernel is one of Oracle's before UEK7, which is Linux 5.15.
fn is_old_uek(host: &Host) -> bool {
    host.kernel.known().is_some_and(|kernel| kernel.text.contains("uek") && !kernel.at_least(5, 15))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::{Engine, Observed};

    use super::*;
    use crate::Scene;

    #[test]
    fn up_to_11_2_each_process_touches_what_pre_page_sga_names() {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = Scene::new(&host, &source);
        for (version, value, touches) in [
            ("11.2.0.3", "TRUE", true),
            ("11.2.0", "true", true),
            ("9.2.0.8", "TRUE", true),
            ("11.2.0.4", "FALSE", false),
            ("12.1.0.2", "TRUE", false),
            ("12c", "TRUE", false),
            ("19.3.0", "TRUE", false),
            ("", "TRUE", false),
        ] {
            let mut instance = crate::described::instance(&scene, Engine::Oracle, "META".into());
            instance.version = Observed::Known(version.to_owned());
            let setting = Setting { name: "pre_page_sga".into(), value: value.into(), place: None };
            instance.settings.insert("pre_page_sga".into(), setting);
            assert_eq!(touches_all(&instance).is_some(), touches, "{version} {value}");
        }
    }

    #[test]
    fn a_release_that_is_not_named_whole_is_judged_by_what_it_names() {
        for (version, parameter, pieces, refuses) in [
            ("9.2.0.8", false, false, false),
            ("10.2.0.4", false, false, false),
            ("10g", false, false, false),
            ("11.1.0.7", false, false, false),
            ("11.2.0.1", false, false, false),
            ("11.2.0.2", true, false, false),
            ("11.2.0.2.0", true, false, false),
            ("11.2.0.3", true, true, false),
            ("11.2.0.4", true, true, false),
            // Which patch set it is the path does not say.
            ("11.2.0", true, true, false),
            ("12.1.0.2", true, true, false),
            ("18c", true, true, true),
            ("19.3.0", true, true, true),
            ("23ai", true, true, true),
            ("", true, true, false),
        ] {
            let release = Release::parse(version);
            assert_eq!(release.has_parameter(), parameter, "{version}");
            assert_eq!(release.takes() != Takes::All, pieces, "{version}");
            assert_eq!(release.refuses_amm_with_only(), refuses, "{version}");
        }
    }
}
