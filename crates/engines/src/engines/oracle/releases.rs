//! What each release of Oracle Database makes of huge pages.
//!
//! The release comes from the path of the home, which often says only `11.2.0` or `19.0.0`: an
//! unnamed patch set counts as the newest.

use hugewise_model::instance::ServerSetting;
use hugewise_model::{Bytes, Host, HugePageMode, Instance, Level};

use super::asks_for_amm;
use crate::shared::kind::ThpAdvice;
use crate::shared::start::Takes;

/// A release in numbers, as far as known: `11.2.0.4`, `19`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release(Vec<u32>);

impl Release {
    pub(super) fn from_instance(instance: &Instance) -> Self {
        Self::parse(instance.version.as_known().map_or("", String::as_str))
    }

    fn parse(version: &str) -> Self {
        let numbers = version.split('.').map_while(|part| {
            let digits =
                part.find(|character: char| !character.is_ascii_digit()).unwrap_or(part.len());
            part.get(..digits)?.parse().ok()
        });
        Self(numbers.collect())
    }

    /// Whether it is known to be older: numbers that it does not name may be any.
    fn is_before(&self, other: &[u32]) -> bool {
        let known = self.0.iter().zip(other);
        known
            .map(|(ours, theirs)| ours.cmp(theirs))
            .find(|order| order.is_ne())
            .is_some_and(std::cmp::Ordering::is_lt)
    }

    fn is_at_least(&self, other: &[u32]) -> bool {
        let mut known = self.0.iter().zip(other).map(|(ours, theirs)| ours.cmp(theirs));
        match known.find(|order| order.is_ne()) {
            Some(order) => order.is_gt(),
            None => self.0.len() >= other.len(),
        }
    }

    /// 11.2.0.2 brought USE_LARGE_PAGES (Oracle Database Reference 11.2); an older one does not
    /// start with a parameter file that names it.
    pub(super) fn has_parameter(&self) -> bool {
        !self.is_before(&[11, 2, 0, 2])
    }

    /// Up to 11.2.0.2 the pool takes the whole SGA or nothing, from 11.2.0.3 on what there is
    /// (Oracle Database Reference 11.2 and 12.2, USE_LARGE_PAGES).
    pub(super) fn partial_allocation(&self) -> Takes {
        if self.is_before(&[11, 2, 0, 3]) { Takes::All } else { Takes::Pieces(Bytes(1)) }
    }

    /// Whether it does not start with MEMORY_TARGET or MEMORY_MAX_TARGET and USE_LARGE_PAGES=ONLY
    /// (Oracle Database Reference 18c and 19c, MEMORY_MAX_TARGET and MEMORY_TARGET). For older
    /// releases nothing is documented.
    fn refuses_amm_with_only(&self) -> bool {
        self.is_at_least(&[18])
    }
}

pub(super) fn refuses_start(instance: &Instance, asked: HugePageMode) -> bool {
    let only = instance
        .setting_value("use_large_pages")
        .is_some_and(|value| value.eq_ignore_ascii_case("only"));
    asked == HugePageMode::Cannot
        && only
        && asks_for_amm(instance)
        && Release::from_instance(instance).refuses_amm_with_only()
}

/// PRE_PAGE_SGA=TRUE up to 11.2, where every starting process touches all of the SGA. From 12.1 on
/// the process that allocates a granule does, and no login waits (Oracle Database Reference 11.2,
/// PRE_PAGE_SGA; MOS 1987975.1).
pub(super) fn touches_all(instance: &Instance) -> Option<&ServerSetting> {
    let setting = instance.settings.get("pre_page_sga")?;
    (setting.value.eq_ignore_ascii_case("true")
        && Release::from_instance(instance).is_before(&[12, 1]))
    .then_some(setting)
}

/// LOCK_SGA=TRUE (Oracle Database Reference, LOCK_SGA): SHM_LOCK of the segments, or ORA-27102.
pub(super) fn locks_all(instance: &Instance) -> Option<&ServerSetting> {
    instance.settings.get("lock_sga").filter(|setting| setting.value.eq_ignore_ascii_case("true"))
}

/// PGA_AGGREGATE_LIMIT exists from 12.1 on (Oracle Database Reference 12.1).
pub(super) fn limits_pga(instance: &Instance) -> bool {
    Release::from_instance(instance).is_at_least(&[12, 1])
}

/// Names an Exadata server's cells (Exadata Database Machine documentation, "cellinit.ora").
pub(super) const CELLS: &str = "/etc/oracle/cell/network-config/cellinit.ora";

/// Whether an Exadata server would not start: from 19.27 and 23.8 on it accepts only AUTO_ONLY and
/// ONLY (MOS 3081878.1). A home whose path names no release update is not judged.
pub(super) fn refused_on_exadata(instance: &Instance) -> bool {
    let release = Release::from_instance(instance);
    let refuses = match release.0.first() {
        Some(19) => release.is_at_least(&[19, 27]),
        Some(23) => release.is_at_least(&[23, 8]),
        _ => false,
    };
    let value = instance.setting_value("use_large_pages").map(str::to_ascii_uppercase);
    refuses && matches!(value.as_deref(), Some("TRUE" | "FALSE" | "AUTO"))
}

/// Oracle's installation guides for Linux: up to 18c disable THP; from 19c on the same on kernels
/// before UEK7, and madvise from UEK7 on. The newer guides say nothing of Red Hat's kernels.
pub(super) fn advise_thp(host: &Host, instance: &Instance) -> ThpAdvice {
    let release = Release::from_instance(instance);
    let old = release.is_before(&[19]) || (release.is_at_least(&[19]) && is_old_uek(host));
    if old { ThpAdvice::Never(Level::Warn) } else { ThpAdvice::Against(Level::Warn) }
}

/// UEK7 is Linux 5.15.
fn is_old_uek(host: &Host) -> bool {
    host.kernel
        .as_known()
        .is_some_and(|kernel| kernel.text.contains("uek") && !kernel.at_least(5, 15))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::{Engine, Observed};

    use super::*;
    use crate::EngineContext;

    #[test]
    fn up_to_11_2_each_process_touches_what_pre_page_sga_names() {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
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
            let mut instance = crate::shared::described::new_described_instance(
                &scene,
                Engine::Oracle,
                "META".into(),
            );
            instance.version = Observed::Known(version.to_owned());
            let setting =
                ServerSetting { name: "pre_page_sga".into(), value: value.into(), place: None };
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
            assert_eq!(release.partial_allocation() != Takes::All, pieces, "{version}");
            assert_eq!(release.refuses_amm_with_only(), refuses, "{version}");
        }
    }
}
