//! The hugetlbfs in which a server keeps its memory in files: which pages, and how much it holds.

use std::collections::BTreeMap;
use std::fmt::Display;

use hugewise_host::kernel::mounts::page_size;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Bytes, Host, Instance, NextStart, PageSize};

use super::default_size;
use super::stages::{Obstacle, StageForecast};
use super::start::{StartFit, coverage_without_pages};
use crate::coverage::Coverage;
use crate::demand::{self, predict_next_start};
use crate::mounts::why_lost;

struct Mounted<'a> {
    path: &'a str,
    page_size: Option<PageSize>,
    options: &'a str,
    how: &'static str,
}

/// What servers that something vouches for ask for in each folder of a hugetlbfs.
pub(super) struct HugetlbfsDemand(BTreeMap<String, Bytes>);

impl HugetlbfsDemand {
    pub(super) fn new(host: &Host, instances: &[Instance]) -> Self {
        let mut by_folder = BTreeMap::<String, Bytes>::new();
        for instance in instances.iter().filter(|instance| instance.is_trusted()) {
            if let Some(folder) = hugetlbfs_folder(host, instance) {
                *by_folder.entry(folder).or_default() +=
                    bytes_asked(&predict_next_start(host, instance));
            }
        }
        Self(by_folder)
    }

    fn of_others(&self, host: &Host, instance: &Instance, mount: &Mounted<'_>) -> Bytes {
        let on_mount = self.0.iter().filter(|(folder, _)| is_below(folder, mount.path));
        let all: Bytes = on_mount.map(|(_, asked)| *asked).sum();
        if instance.is_trusted() {
            all.saturating_sub(bytes_asked(&predict_next_start(host, instance)))
        } else {
            all
        }
    }
}

pub(super) fn fit_current_mounts(
    host: &Host,
    demand: &HugetlbfsDemand,
    instance: &Instance,
    start: &NextStart,
) -> StartFit {
    let Some(folder) = hugetlbfs_folder(host, instance) else { return StartFit::Fits };
    let Some(mounts) = host.hugetlbfs_mounts.as_known() else {
        let why = host.hugetlbfs_mounts.reason_text().unwrap_or_default();
        return StartFit::Ends(StageForecast::unknown(format_args!("hugetlbfs mounts: {why}")));
    };
    let mounts = mounts.iter().map(|mount| Mounted {
        path: &mount.path,
        page_size: mount.page_size.get(),
        options: &mount.options,
        how: "mounted",
    });
    match find_covering_mount(mounts, &folder) {
        Some(mount) => fit_to_mount(host, demand, instance, start, &mount),
        None => StartFit::Ends(forecast_without_mount(format_args!(
            "no hugetlbfs is mounted on {folder}"
        ))),
    }
}

pub(super) fn fit_booted_mounts(
    booted: &Host,
    demand: &HugetlbfsDemand,
    instance: &Instance,
    start: &NextStart,
) -> StartFit {
    let Some(folder) = hugetlbfs_folder(booted, instance) else {
        return default_size::at_boot(booted, instance, start);
    };
    if demand::makes_own_pages(instance) {
        return StartFit::Fits;
    }
    let Some(mounts) = booted.configuration.hugetlbfs.as_known() else {
        let why = booted.configuration.hugetlbfs.reason_text().unwrap_or_default();
        return StartFit::Ends(StageForecast::unknown(format_args!("/etc/fstab: {why}")));
    };
    let default = crate::boot::default_size(booted).or_else(|| booted.default_huge_page.get());
    let made = mounts.iter().filter(|mount| mount.is_made()).map(|mount| {
        let size = mount.options.split(',').find_map(|option| option.strip_prefix("pagesize="));
        Mounted {
            path: &mount.path,
            page_size: size.map_or(default, page_size),
            options: &mount.options,
            how: "mounted by /etc/fstab",
        }
    });
    match find_covering_mount(made, &folder) {
        Some(mount) => fit_to_mount(booted, demand, instance, start, &mount),
        None => StartFit::Ends(forecast_without_mount(why_lost(booted, &folder))),
    }
}

/// Its files are ordinary ones where no hugetlbfs is mounted.
pub(super) fn forecast_without_mount(why: impl Display) -> StageForecast {
    StageForecast::blocked(Coverage::None, Obstacle::Mount, why)
}

fn fit_to_mount(
    host: &Host,
    demand: &HugetlbfsDemand,
    instance: &Instance,
    start: &NextStart,
    mount: &Mounted<'_>,
) -> StartFit {
    if !start.asks_for_huge_pages() {
        return StartFit::Fits;
    }
    if let Some(most) = parse_mount_size(host, mount) {
        let (own, others) = (bytes_asked(start), demand.of_others(host, instance, mount));
        if own + others > most {
            let beside = match others {
                Bytes::ZERO => String::new(),
                others => format!(" on top of {others} of others"),
            };
            let why = format!(
                "the hugetlbfs on {} may hold {most} (size=), and it needs {own}{beside}",
                mount.path
            );
            let coverage = coverage_without_pages(start.asked);
            return StartFit::Ends(StageForecast::blocked(coverage, Obstacle::MountOptions, why));
        }
    }
    let (Some(page), Some(asked)) = (mount.page_size, instance.asked_page_size.get()) else {
        return StartFit::Fits;
    };
    if page == asked || start.demands.iter().all(|demand| demand.page_size != asked) {
        return StartFit::Fits;
    }
    let mut request = start.clone();
    for demand in request.demands.iter_mut().filter(|demand| demand.page_size == asked) {
        demand.pages = page.pages_for(demand.pages.to_bytes(asked));
        demand.page_size = page;
    }
    let reason = format!("{} is {} with pages of {page}", mount.path, mount.how);
    StartFit::Moves { request, reason, obstacle: Obstacle::MountOptions }
}

fn bytes_asked(start: &NextStart) -> Bytes {
    start.demands.iter().map(|demand| demand.pages.to_bytes(demand.page_size)).sum()
}

/// The folder that a server names, or keeps files in. A container's mounts are not the host's.
fn hugetlbfs_folder(host: &Host, instance: &Instance) -> Option<String> {
    if instance.mechanism != Mechanism::Hugetlbfs || instance.containered {
        return None;
    }
    let named = instance.setting.as_ref().map(|setting| setting.value.as_str());
    if let Some(path) = named.filter(|path| path.starts_with('/')) {
        return Some(path.to_owned());
    }
    let mounts = host.hugetlbfs_mounts.as_known()?;
    let mappings = host.find_process(instance.pid)?.mappings.as_known()?;
    let used = mounts
        .iter()
        .find(|mount| mappings.iter().any(|mapping| is_below(&mapping.name, &mount.path)));
    used.map(|mount| mount.path.clone())
}

fn is_below(path: &str, mount: &str) -> bool {
    let rest = path.strip_prefix(mount.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn find_covering_mount<'a>(
    mounts: impl Iterator<Item = Mounted<'a>>,
    folder: &str,
) -> Option<Mounted<'a>> {
    mounts.filter(|mount| is_below(folder, mount.path)).max_by_key(|mount| mount.path.len())
}

/// Bytes, with K, M, G, T, or a part of the pool (fs/hugetlbfs/inode.c).
fn parse_mount_size(host: &Host, mount: &Mounted<'_>) -> Option<Bytes> {
    let text =
        mount.options.split(',').filter_map(|option| option.strip_prefix("size=")).next_back()?;
    if let Some(percent) = text.strip_suffix('%') {
        let page = mount.page_size?;
        let pool = host.find_pool(page)?.total.get()?.to_bytes(page);
        return Some(pool.shared_by(100)?.saturating_mul(percent.parse().ok()?));
    }
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    Some(Bytes(number.parse::<u64>().ok()?.checked_mul(1 << shift)?))
}

#[cfg(test)]
mod tests {
    use hugewise_model::configuration::BootMount;
    use hugewise_model::host::HugetlbfsMount;
    use hugewise_model::instance::ServerSetting;
    use hugewise_model::{Engine, HugePageMode, Observed, PageCount};

    use super::*;
    use crate::prediction::predict_host;
    use crate::testing::{Case, all_huge, gib, quiet};

    /// A guest of 1 GiB in files of /dev/hugepages, which is mounted with these options, and by the
    /// boot with those.
    fn guest(now: Option<&str>, boot: &str) -> Case {
        let mut case = quiet();
        let instance = case.instance(Engine::Qemu, "vm1", gib(1), 0, |_| {});
        all_huge(instance).asked = HugePageMode::Must;
        instance.mechanism = Mechanism::Hugetlbfs;
        instance.setting = Some(ServerSetting {
            name: "mem-path".into(),
            value: "/dev/hugepages".into(),
            place: None,
        });
        case.pool(512, 0);
        let mount = |options: &str| HugetlbfsMount {
            path: "/dev/hugepages".into(),
            page_size: Observed::Known(PageSize::MIB_2),
            options: options.into(),
        };
        case.host.hugetlbfs_mounts = Observed::Known(now.map(mount).into_iter().collect());
        let mount = BootMount { path: "/dev/hugepages".into(), options: boot.into(), noauto: None };
        case.host.configuration.hugetlbfs = Observed::Known(vec![mount]);
        case
    }

    /// A second line for one folder makes no mount (systemd-fstab-generator 252): nobody is told to
    /// write one.
    #[test]
    fn a_line_that_has_noauto_is_to_be_corrected() {
        let mut case = guest(Some("rw,pagesize=2M"), "noauto,pagesize=2M");
        let place = crate::testing::place("/etc/fstab");
        let noauto = Some(place.clone());
        if let Observed::Known(mounts) = &mut case.host.configuration.hugetlbfs {
            mounts.iter_mut().for_each(|mount| mount.noauto.clone_from(&noauto));
        }
        assert_eq!(case.standings(), ["all", "all", "none"]);
        let findings = case.assess().findings;
        let finding =
            findings.iter().find(|other_finding| other_finding.code.as_str() == "HW603").unwrap();
        assert!(finding.summary.contains(&format!("{place} has noauto")), "{}", finding.summary);
        let remedy = hugewise_model::Remedy::by_hand(format!(
            "have the boot mount its hugetlbfs: remove noauto from {place}"
        ));
        assert_eq!(finding.remedies, [remedy]);
    }

    #[test]
    fn a_mount_that_is_gone_is_missed_at_the_restart() {
        assert_eq!(guest(Some("rw,pagesize=2M"), "").standings(), ["all", "all", "all"]);
        let case = guest(None, "");
        assert_eq!(case.standings(), ["all", "none", "all"]);
        let codes = case.codes();
        assert!(codes.contains(&"HW210"), "{codes:?}");
    }

    /// fs/hugetlbfs: `size=` is the most that all its files may hold, and a larger file cannot be
    /// mapped (ENOMEM).
    #[test]
    fn a_mount_that_is_too_small_keeps_a_guest_down() {
        assert_eq!(
            guest(Some("rw,pagesize=2M,size=512M"), "size=1024M").standings(),
            ["all", "does_not_start", "all"]
        );
        assert_eq!(
            guest(Some("rw,size=1073741824"), "size=50%").standings(),
            ["all", "all", "does_not_start"]
        );
        let mut two = guest(Some("rw,size=1536M"), "");
        let mut other = two.instances[0].clone();
        other.name = "vm2".into();
        other.pid = 2000;
        two.instances.push(other);
        two.pool(1024, 0);
        assert_eq!(two.standings()[1], "does_not_start", "512 MiB are left beside the other guest");
    }

    #[test]
    fn a_mount_with_other_pages_after_the_boot_takes_from_another_pool() {
        let mut case = guest(Some("rw,pagesize=2M"), "pagesize=1G");
        assert_eq!(case.standings(), ["all", "all", "does_not_start"]);
        let boot = predict_host(&case.host, &case.instances)
            .forecasts_for(&case.instances[0])
            .unwrap()
            .boot
            .clone();
        assert_eq!(boot.obstacle, Some(Obstacle::MountOptions), "{boot:?}");
        case.host.command_line =
            Observed::Known(vec!["hugepagesz=1G".into(), "hugepages=1".into()]);
        if let Observed::Known(entry) = &mut case.host.configuration.boot {
            entry.command_line = vec!["hugepagesz=1G".into(), "hugepages=1".into()];
        }
        case.pools()[1].total = Observed::Known(PageCount(1));
        assert_eq!(case.standings(), ["all", "all", "all"]);
    }
}
