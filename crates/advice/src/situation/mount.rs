//! The hugetlbfs in which a server keeps its memory in files: whether one is mounted there, of which pages, and how much it
//! may hold.

use hugewise_host::kernel::mounts::page_size;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Bytes, Host, Instance, NextStart, Observed, PageSize};

use super::moments::{Obstacle, Outlook};
use super::{Fit, default_size};
use crate::demand::starting;
use crate::standing::Standing;
use crate::words::one_line;

/// A mount as it is, or as it will be.
struct Mounted<'a> {
    path: &'a str,
    page_size: Option<PageSize>,
    options: &'a str,
}

/// At a restart: the mounts as they are.
pub(super) fn now(host: &Host, instances: &[Instance], instance: &Instance, start: &NextStart) -> Fit {
    let Some(folder) = folder(host, instance) else { return Fit::Fits };
    let mounts = match &host.hugetlbfs_mounts {
        Observed::Known(mounts) => mounts,
        other => return unknown(format!("hugetlbfs mounts: {}", other.reason().unwrap_or_default())),
    };
    let mounts =
        mounts.iter().map(|it| Mounted { path: &it.path, page_size: it.page_size.get(), options: &it.options });
    match covering(mounts, &folder) {
        Some(mount) => fit(host, instances, instance, start, &mount, "mounted"),
        None => missing(format!("no hugetlbfs is mounted on {folder}")),
    }
}

/// After a boot: the mounts that its files bring.
pub(super) fn at_boot(booted: &Host, instances: &[Instance], instance: &Instance, start: &NextStart) -> Fit {
    let Some(folder) = folder(booted, instance) else { return default_size::at_boot(booted, instance, start) };
    let mounts = match &booted.configuration.hugetlbfs {
        Observed::Known(mounts) => mounts,
        other => return unknown(format!("/etc/fstab: {}", other.reason().unwrap_or_default())),
    };
    let default = crate::boot::default_size(booted).or_else(|| booted.default_huge_page.get());
    let made = mounts.iter().filter(|it| it.is_made()).map(|it| Mounted {
        path: &it.path,
        page_size: it.options.split(',').find_map(|it| it.strip_prefix("pagesize=")).map_or(default, page_size),
        options: &it.options,
    });
    match covering(made, &folder) {
        Some(mount) => fit(booted, instances, instance, start, &mount, "mounted by /etc/fstab"),
        None => missing(crate::mounts::why_lost(booted, &folder)),
    }
}

fn fit(
    host: &Host,
    instances: &[Instance],
    instance: &Instance,
    start: &NextStart,
    mount: &Mounted<'_>,
    how: &str,
) -> Fit {
    if !start.asks() {
        return Fit::Fits;
    }
    let own = asked_for(start);
    if let Some(most) = most(host, mount) {
        let beside = |other: &&Instance| {
            other.id() != instance.id()
                && folder(host, other).is_some_and(|folder| is_below(&folder, mount.path))
                && other.is_vouched()
        };
        let others: Bytes = instances.iter().filter(beside).map(|other| asked_for(&starting(host, other))).sum();
        if own + others > most {
            let beside = if others > Bytes::ZERO { format!(" on top of {others} of others") } else { String::new() };
            let why = format!("the hugetlbfs on {} may hold {most} (size=), and it needs {own}{beside}", mount.path);
            let standing = if start.asked == Asked::Must { Standing::DoesNotStart } else { Standing::None };
            return Fit::Ends(Outlook { standing, why: Some(one_line(&why)), obstacle: Some(Obstacle::MountOptions) });
        }
    }
    let (Some(page), Some(asked)) = (mount.page_size, instance.asked_page_size.get()) else { return Fit::Fits };
    if page == asked || start.demands.iter().all(|demand| demand.page_size != asked) {
        return Fit::Fits;
    }
    let mut moved = start.clone();
    for demand in moved.demands.iter_mut().filter(|demand| demand.page_size == asked) {
        demand.pages = page.pages_for(demand.pages.of(asked));
        demand.page_size = page;
    }
    let what = one_line(&format!("{} is {how} with pages of {page}", mount.path));
    Fit::Moves(moved, what, Obstacle::MountOptions)
}

/// What a start asks for on huge pages.
fn asked_for(start: &NextStart) -> Bytes {
    start.demands.iter().map(|demand| demand.pages.of(demand.page_size)).sum()
}

/// The folder of a hugetlbfs that a server names, or keeps its files in. A container's mounts are not the host's.
fn folder(host: &Host, instance: &Instance) -> Option<String> {
    if instance.mechanism != Mechanism::Hugetlbfs || instance.containered {
        return None;
    }
    let named = instance.setting.as_ref().map(|setting| setting.value.as_str());
    if let Some(path) = named.filter(|path| path.starts_with('/')) {
        return Some(path.to_owned());
    }
    let mounts = host.hugetlbfs_mounts.known()?;
    let mappings = host.process(instance.pid)?.mappings.known()?;
    let used = mounts.iter().find(|mount| mappings.iter().any(|mapping| is_below(&mapping.name, &mount.path)));
    used.map(|mount| mount.path.clone())
}

fn is_below(path: &str, mount: &str) -> bool {
    let rest = path.strip_prefix(mount.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn covering<'a>(mounts: impl Iterator<Item = Mounted<'a>>, folder: &str) -> Option<Mounted<'a>> {
    mounts.filter(|mount| is_below(folder, mount.path)).max_by_key(|mount| mount.path.len())
}

/// The `size=` of a hugetlbfs: bytes, with K, M, G, T, or a part of the pool (fs/hugetlbfs/inode.c); none where it has none.
fn most(host: &Host, mount: &Mounted<'_>) -> Option<Bytes> {
    let text = mount.options.split(',').filter_map(|option| option.strip_prefix("size=")).next_back()?;
    if let Some(percent) = text.strip_suffix('%') {
        let page = mount.page_size?;
        let pool = host.pool(page)?.total.get()?.of(page);
        return Some(pool.shared_by(100)?.times(percent.parse().ok()?));
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

/// Its files are ordinary ones then.
fn missing(why: String) -> Fit {
    Fit::Ends(Outlook { standing: Standing::None, why: Some(one_line(&why)), obstacle: Some(Obstacle::Mount) })
}

fn unknown(why: String) -> Fit {
    Fit::Ends(Outlook { standing: Standing::Unknown, why: Some(one_line(&why)), obstacle: None })
}

#[cfg(test)]
mod tests {
    use hugewise_model::configuration::BootMount;
    use hugewise_model::host::HugetlbfsMount;
    use hugewise_model::instance::Setting;
    use hugewise_model::{Engine, PageCount};

    use super::*;
    use crate::situation::{Moment, situation};
    use crate::testing::{Case, all_huge, gib, quiet};

    /// A guest of 1 GiB in files of /dev/hugepages, which is mounted with these options, and by the boot with those.
    fn guest(now: Option<&str>, boot: &str) -> Case {
        let mut case = quiet();
        let instance = case.instance(Engine::Qemu, "vm1", gib(1), 0, |_| {});
        all_huge(instance).asked = Asked::Must;
        instance.mechanism = Mechanism::Hugetlbfs;
        instance.setting = Some(Setting { name: "mem-path".into(), value: "/dev/hugepages".into(), place: None });
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

    fn words(case: &Case) -> [&'static str; 3] {
        let situation = situation(&case.host, &case.instances);
        let moments = situation.of(&case.instances[0]).unwrap();
        Moment::ALL.map(|moment| moments.at(moment).standing.as_str())
    }

    /// A second line for one folder makes no mount (systemd-fstab-generator 252): nobody is told to write one.
    #[test]
    fn a_line_that_has_noauto_is_to_be_corrected() {
        let mut case = guest(Some("rw,pagesize=2M"), "noauto,pagesize=2M");
        let place = crate::testing::place("/etc/fstab");
        let noauto = Some(place.clone());
        if let Observed::Known(mounts) = &mut case.host.configuration.hugetlbfs {
            mounts.iter_mut().for_each(|mount| mount.noauto.clone_from(&noauto));
        }
        assert_eq!(words(&case), ["all", "all", "none"]);
        let findings = case.assess().findings;
        let finding = findings.iter().find(|it| it.code.as_str() == "HW603").unwrap();
        assert!(finding.summary.contains(&format!("{place} has noauto")), "{}", finding.summary);
        let remedy =
            hugewise_model::Remedy::by_hand(format!("have the boot mount its hugetlbfs: remove noauto from {place}"));
        assert_eq!(finding.remedies, [remedy]);
    }

    #[test]
    fn a_mount_that_is_gone_is_missed_at_the_restart() {
        assert_eq!(words(&guest(Some("rw,pagesize=2M"), "")), ["all", "all", "all"]);
        let case = guest(None, "");
        assert_eq!(words(&case), ["all", "none", "all"]);
        let codes = case.codes();
        assert!(codes.contains(&"HW210"), "{codes:?}");
    }

    /// fs/hugetlbfs: `size=` is the most that all its files may hold, and a larger file cannot be mapped (ENOMEM).
    #[test]
    fn a_mount_that_is_too_small_keeps_a_guest_down() {
        assert_eq!(words(&guest(Some("rw,pagesize=2M,size=512M"), "size=1024M")), ["all", "does_not_start", "all"]);
        assert_eq!(words(&guest(Some("rw,size=1073741824"), "size=50%")), ["all", "all", "does_not_start"]);
        let mut two = guest(Some("rw,size=1536M"), "");
        let mut other = two.instances[0].clone();
        other.name = "vm2".into();
        other.pid = 2000;
        two.instances.push(other);
        two.pool(1024, 0);
        assert_eq!(words(&two)[1], "does_not_start", "512 MiB are left beside the other guest");
    }

    #[test]
    fn a_mount_with_other_pages_after_the_boot_takes_from_another_pool() {
        let mut case = guest(Some("rw,pagesize=2M"), "pagesize=1G");
        assert_eq!(words(&case), ["all", "all", "does_not_start"]);
        let boot = situation(&case.host, &case.instances).of(&case.instances[0]).unwrap().boot.clone();
        assert_eq!(boot.obstacle, Some(Obstacle::MountOptions), "{boot:?}");
        case.host.command_line = Observed::Known(vec!["hugepagesz=1G".into(), "hugepages=1".into()]);
        if let Observed::Known(entry) = &mut case.host.configuration.boot {
            entry.command_line = vec!["hugepagesz=1G".into(), "hugepages=1".into()];
        }
        case.pools()[1].total = Observed::Known(PageCount(1));
        assert_eq!(words(&case), ["all", "all", "all"]);
    }
}
