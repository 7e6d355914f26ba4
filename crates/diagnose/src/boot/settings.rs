//! Kernel settings of the next boot, and pages on demand.

use hugewise_host::config::kernel_value::{sysctl_count, sysctl_int, sysfs_count};
use hugewise_host::config::sysctl::{self, SETTINGS, SysctlValueKind};
use hugewise_model::{Host, PageSize};

use super::kernel_file_writes::{KernelFileWrite, Targets, collect_writes};
use super::{BootStep, command_line, default_size};
use crate::Missing;
use crate::wording::pool_file;

/// The steps that set a setting of /proc/sys, by its name with dots. Known numbers stand as the
/// kernel will show them, other values as they are written; what the kernel refuses is no step.
///
/// # Errors
/// A file that counts could not be read.
pub fn predict_setting(host: &Host, key: &str) -> Result<Vec<BootStep<String>>, Missing> {
    let targets = Targets::new(vec![(sysctl::file_of(key), ())]);
    let mut steps: Vec<BootStep<String>> = Vec::new();
    for hit in collect_writes(host, &targets)? {
        let before = steps.last().map(|step| step.value.as_str());
        if let Some(value) = parse_kernel_value(key, &hit, before) {
            steps.push(BootStep { value, place: hit.place });
        }
    }
    if steps.is_empty() {
        command_line(host)?;
    }
    Ok(steps)
}

fn parse_kernel_value<T>(
    key: &str,
    hit: &KernelFileWrite<'_, T>,
    before: Option<&str>,
) -> Option<String> {
    let kind = SETTINGS.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind);
    let text = hit.value.as_ref();
    let number = |text: &str| match kind {
        Some(SysctlValueKind::Count) => sysctl_count(text).map(|count| count.to_string()),
        Some(SysctlValueKind::Int) => sysctl_int(text).map(|number| number.to_string()),
        None => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
    };
    let (sign, bound) = text.split_at_checked(1).filter(|_| hit.of_profile).unwrap_or_default();
    if !matches!(sign, ">" | "<") {
        return number(text);
    }
    let bound = number(bound)?;
    // TuneD goes by the value that is there; what the kernel begins with is in no file.
    let is_past = before.and_then(|now| {
        let (now, bound) = (now.parse::<i128>().ok()?, bound.parse::<i128>().ok()?);
        Some(if sign == ">" { now >= bound } else { now <= bound })
    });
    (is_past != Some(true)).then_some(bound)
}

/// The steps that set how many pages of one size may be had on demand, beyond the pool.
///
/// # Errors
/// A file that counts could not be read.
pub fn predict_overcommit(host: &Host, page: PageSize) -> Result<Vec<BootStep<u64>>, Missing> {
    // Before Linux 6.19 the kernel refuses any number for gigantic pages ("mm/hugetlb: allow
    // overcommitting gigantic hugepages").
    let refuses = host.kernel.as_known().is_none_or(|kernel| !kernel.at_least(6, 19));
    if refuses && host.is_gigantic(page) {
        return Ok(Vec::new());
    }
    let mut all = vec![(pool_file(page, "nr_overcommit_hugepages"), false)];
    if default_size(host) == Some(page) {
        all.push(("/proc/sys/vm/nr_overcommit_hugepages".to_owned(), true));
    }
    let targets = Targets::new(all);
    let mut steps: Vec<BootStep<u64>> = Vec::new();
    for hit in collect_writes(host, &targets)? {
        let before = steps.last().map(|step| step.value.to_string());
        let value = match hit.target {
            true => parse_kernel_value("vm.nr_overcommit_hugepages", &hit, before.as_deref())
                .and_then(|text| text.parse().ok()),
            false => sysfs_count(&hit.value),
        };
        steps.extend(value.map(|value| BootStep { value, place: hit.place }));
    }
    if steps.is_empty() {
        command_line(host)?;
    }
    Ok(steps)
}
