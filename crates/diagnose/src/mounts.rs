//! Mounts of a hugetlbfs that servers have their memory in, and that a boot may not make again.

use hugewise_model::configuration::{BootMount, FileLocation};
use hugewise_model::host::HugetlbfsMount;
use hugewise_model::{Host, Instance, Remedy};

use crate::wording::{boot_name, shell_word};
use crate::{Missing, demand, require_known};

/// The mount that a server has files in, and that no file has the boot make.
pub(crate) fn find_unpersisted_mount<'a>(
    host: &'a Host,
    instance: &Instance,
) -> Result<Option<&'a HugetlbfsMount>, Missing> {
    if demand::makes_own_pages(instance) {
        return Ok(None);
    }
    let kept = require_known(&host.configuration.hugetlbfs, "/etc/fstab");
    let mounts = host.hugetlbfs_mounts.as_known().into_iter().flatten();
    let mut at_stake = mounts
        .filter(|mount| {
            !kept.as_ref().is_ok_and(|kept| {
                kept.iter().any(|boot_mount| boot_mount.is_made() && boot_mount.path == mount.path)
            })
        })
        .peekable();
    if at_stake.peek().is_none() {
        return Ok(None);
    }
    let Some(mappings) =
        host.find_process(instance.pid).and_then(|process| process.mappings.as_known())
    else {
        return Ok(None);
    };
    let has_files = |mount: &&HugetlbfsMount| {
        mappings.iter().any(|mapping| is_below(&mapping.name, &mount.path))
    };
    match at_stake.find(has_files) {
        Some(mount) => kept.map(|_| Some(mount)),
        None => Ok(None),
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

/// The line that leaves a mount to a person, of a folder or of one that it lies in.
fn held_back<'a>(host: &'a Host, path: &str) -> Option<&'a FileLocation> {
    let lines = host.configuration.hugetlbfs.as_known().into_iter().flatten();
    let covers = |line: &&BootMount| line.path == path || is_below(path, &line.path);
    lines.filter(covers).max_by_key(|line| line.path.len()).and_then(|line| line.noauto.as_ref())
}

pub(crate) fn why_lost(host: &Host, path: &str) -> String {
    match held_back(host, path) {
        Some(place) => {
            format!("{place} has noauto: the boot does not mount the hugetlbfs on {path}")
        }
        None => format!("no file has the boot mount the hugetlbfs on {path}"),
    }
}

/// What has the boot make the mount again that a server has files in, or that its settings name.
pub(crate) fn remedy_unpersisted_mount(host: &Host, instance: &Instance) -> Remedy {
    let mount = find_unpersisted_mount(host, instance).ok().flatten();
    let named = instance.setting.as_ref().map(|setting| setting.value.as_str());
    let named = named.filter(|path| path.starts_with('/'));
    let path = mount.map(|mount| mount.path.as_str()).or(named);
    match (path.and_then(|path| held_back(host, path)), mount) {
        // Of two lines for one folder the first one counts.
        (Some(place), _) => Remedy::by_hand(format!(
            "have the boot mount its hugetlbfs: remove noauto from {place}"
        )),
        (None, Some(mount)) => Remedy::by_commands(NO_LINE, persist_mount_commands(mount)),
        (None, None) => Remedy::by_hand(NO_LINE),
    }
}

const NO_LINE: &str = "give its hugetlbfs a line in /etc/fstab";

fn persist_mount_commands(mount: &HugetlbfsMount) -> Vec<String> {
    vec![
        "# the boot then mounts it as it is mounted now:".into(),
        format!("printf '\\n%s\\n' {} >> /etc/fstab", shell_word(&render_fstab_line(mount))),
    ]
}

/// With the options that it has now (Documentation/admin-guide/mm/hugetlbpage.rst).
fn render_fstab_line(mount: &HugetlbfsMount) -> String {
    const KEPT: [&str; 6] = ["uid", "gid", "mode", "size", "min_size", "nr_inodes"];
    let page = mount.page_size.get().map(|page| format!("pagesize={}", boot_name(page)));
    let mut options: Vec<String> = page.into_iter().collect();
    for option in mount.options.split(',') {
        let name = option.split_once('=').map_or(option, |(name, _)| name);
        let counts = KEPT.contains(&name) || matches!(option, "ro" | "nosuid" | "nodev" | "noexec");
        if counts && !options.iter().any(|text| text == option) {
            options.push(option.to_owned());
        }
    }
    let options = if options.is_empty() { "defaults".to_owned() } else { options.join(",") };
    format!("none {} hugetlbfs {options} 0 0", escape_fstab_path(&mount.path))
}

/// As fstab(5) has it.
fn escape_fstab_path(path: &str) -> String {
    let one = |character: char| match character {
        ' ' | '\t' | '\n' | '\\' | '#' => format!("\\{:03o}", u32::from(character)),
        other => other.to_string(),
    };
    path.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_model::{Observed, PageSize};

    use super::*;

    fn mount(path: &str, page_size: Observed<PageSize>, options: &str) -> HugetlbfsMount {
        HugetlbfsMount { path: path.into(), page_size, options: options.into() }
    }

    /// Proxmox VE mounts the hugetlbfs of a guest and makes its pages before each start: no file has
    /// to keep either, and a pool for good is taken from others.
    #[test]
    fn whose_pages_are_made_at_its_start_needs_none_from_the_boot() {
        use hugewise_model::instance::Mechanism;
        use hugewise_model::{HugePageMode, PageCount};
        let told = |asked| {
            let mut case = crate::testing::quiet();
            let server =
                crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(4)));
            (server.asked, server.mechanism) = (asked, Mechanism::Hugetlbfs);
            case.pool(2048, 0);
            case.host.configuration.sysctl = Observed::Known(Vec::new());
            let assessment = case.assess();
            let goal = assessment.target.pool(PageSize::MIB_2).unwrap();
            let codes: Vec<&str> =
                assessment.findings.iter().map(|finding| finding.code.as_str()).collect();
            let at_boot = goal.pages_at_boot(&case.host, &case.instances);
            (at_boot, codes.contains(&"HW601") || codes.contains(&"HW603"))
        };
        assert_eq!(told(HugePageMode::Must), (PageCount(2048), true));
        assert_eq!(told(HugePageMode::Raises), (PageCount::ZERO, false));
    }

    #[test]
    fn a_mounts_line_has_what_mount_was_told() {
        let page = Observed::Known(PageSize::GIB_1);
        let options =
            "rw,nosuid,relatime,rw,seclabel,gid=54321,mode=770,pagesize=1024M,size=4194304K";
        assert_eq!(
            render_fstab_line(&mount("/mnt/huge pages", page, options)),
            "none /mnt/huge\\040pages hugetlbfs \
             pagesize=1G,nosuid,gid=54321,mode=770,size=4194304K 0 0"
        );
        assert_eq!(
            render_fstab_line(&mount("/huge", Observed::Absent, "rw")),
            "none /huge hugetlbfs defaults 0 0"
        );
        let typed =
            persist_mount_commands(&mount("/h'; reboot #", Observed::Known(PageSize::MIB_2), "rw"));
        assert_eq!(
            typed[1],
            "printf '\\n%s\\n' 'none /h'\\'';\\040reboot\\040\\043 hugetlbfs pagesize=2M 0 0' >> \
             /etc/fstab"
        );
    }
}
