//! What a boot writes to the kernel, by the files and the boot loader's menu: systemd-sysctl, then
//! systemd-tmpfiles, as their manual pages say. A reader of its own that knows the plain forms
//! alone.

use std::collections::BTreeMap;

use crate::random_hosts::kernel::{GIB_1, Kernel, MIB_2};

/// Files of the host.
pub(crate) type Files = BTreeMap<String, String>;

/// Files of a kind of folder in the order in which they are read: by name, the first folder's wins.
fn in_order<'a>(files: &'a Files, kind: &str) -> Vec<&'a str> {
    let folders = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];
    let mut by_name = BTreeMap::new();
    for folder in folders {
        let start = format!("{folder}/{kind}.d/");
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".conf")) {
            if let Some(name) = path.strip_prefix(&start) {
                by_name.entry(name.to_owned()).or_insert(text.as_str());
            }
        }
    }
    by_name.into_values().collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

/// Paths and values in the order in which they are written.
pub(crate) fn writes(files: &Files) -> Vec<(String, String)> {
    // Of each key the last assignment counts.
    let mut sysctl: Vec<(String, String)> = Vec::new();
    for (key, value) in in_order(files, "sysctl")
        .iter()
        .flat_map(|text| lines(text))
        .filter_map(|line| line.split_once('='))
    {
        let path = format!("/proc/sys/{}", key.trim().trim_start_matches('-').replace('.', "/"));
        sysctl.retain(|(there, _)| *there != path);
        sysctl.push((path, value.trim().to_owned()));
    }
    let mut writes = sysctl;
    // Of lines about one path the first counts.
    let mut seen = std::collections::BTreeSet::new();
    for line in in_order(files, "tmpfiles").iter().flat_map(|text| lines(text)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["w", path, _, _, _, _, value] = words[..]
            && seen.insert(path.to_owned())
        {
            writes.push((path.to_owned(), value.to_owned()));
        }
    }
    writes
}

/// The kernel of the next boot, before any server starts.
pub(crate) fn boot(now: &Kernel, files: &Files) -> Kernel {
    let sizes: Vec<u64> = now.pools.keys().copied().collect();
    let nodes = now.pools.values().next().map_or(1, |pool| pool.nodes.len());
    let mut kernel = Kernel::new(now.memory, nodes, &sizes);
    kernel.old = now.old;
    let menu = files.get("/boot/grub/grub.cfg").map(String::as_str).unwrap_or_default();
    let entry =
        menu.lines().find_map(|line| line.trim().strip_prefix("linux ")).unwrap_or_default();
    // Wherever it stands, it decides for the whole line.
    let default = entry
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("default_hugepagesz="))
        .next_back();
    kernel.default = default.map_or(MIB_2, |size| if size == "1G" { GIB_1 } else { MIB_2 });
    if now.old {
        boot_old_kernel(&mut kernel, entry);
    } else {
        boot_kernel(&mut kernel, entry);
    }
    for (path, value) in writes(files) {
        write(&mut kernel, &path, &value);
    }
    kernel
}

/// mm/hugetlb.c before 5.8: counts before any `hugepagesz=` are the default size's, unless that has
/// one of its own, and are made when it is too late for gigantic pages (hugetlb_init_hstates()).
/// Before 5.16 a count is read as far as it is a number (sscanf's %lu): a node's, as if it were all.
fn boot_old_kernel(kernel: &mut Kernel, entry: &str) {
    let (mut named, mut of_default) = (None, 0);
    for word in entry.split_whitespace() {
        match word.split_once('=') {
            Some(("hugepagesz", "1G" | "1048576K")) => named = Some(GIB_1),
            Some(("hugepagesz", _)) => named = Some(MIB_2),
            Some(("hugepages", count)) => {
                let digits: String = count.chars().take_while(char::is_ascii_digit).collect();
                let count = digits.parse().unwrap();
                match named {
                    Some(size) => kernel.write_pool(size, None, count),
                    None => of_default = count,
                }
            }
            _ => {}
        }
    }
    let is_free = kernel.pools.get(&MIB_2).is_none_or(|pool| pool.total() == 0);
    if kernel.default == MIB_2 && of_default > 0 && is_free {
        kernel.write_pool(MIB_2, None, of_default);
    }
}

fn boot_kernel(kernel: &mut Kernel, entry: &str) {
    let mut size = kernel.default;
    for word in entry.split_whitespace() {
        match word.split_once('=') {
            Some(("default_hugepagesz", _)) => size = kernel.default,
            Some(("hugepagesz", "1G" | "1048576K")) => size = GIB_1,
            Some(("hugepagesz", _)) => size = MIB_2,
            Some(("hugepages", count)) => match count.parse() {
                Ok(count) => kernel.write_pool(size, None, count),
                Err(_) => {
                    // mm/hugetlb.c's hugepages_setup(): a count a node, for nodes that are there.
                    for (node, count) in count.split(',').filter_map(|part| part.split_once(':')) {
                        kernel.write_pool(
                            size,
                            Some(node.parse().unwrap()),
                            count.parse().unwrap(),
                        );
                    }
                }
            },
            _ => {}
        }
    }
}

/// A write to a file of the kernel; whether it is one that is known here.
pub(crate) fn write(kernel: &mut Kernel, path: &str, value: &str) -> bool {
    let Ok(number) = value.trim().parse::<u64>() else { return false };
    let file = |name: &str| path.rsplit('/').next() == Some(name);
    let default = kernel.default;
    let size = || match path {
        _ if path.contains("hugepages-1048576kB") => GIB_1,
        _ if path.contains("hugepages-2048kB") => MIB_2,
        _ => default,
    };
    let node = path
        .strip_prefix("/sys/devices/system/node/node")
        .and_then(|rest| rest.split('/').next()?.parse().ok());
    if file("nr_hugepages") || file("nr_hugepages_mempolicy") {
        kernel.write_pool(size(), node, number);
    } else if file("nr_overcommit_hugepages") {
        // hugetlb_overcommit_handler(): EINVAL for pages that the buddy allocator does not have.
        if size() == MIB_2
            && let Some(pool) = kernel.pools.get_mut(&size())
        {
            pool.overcommit = number;
        }
    } else if file("hugetlb_shm_group") {
        kernel.shm_group = u32::try_from(number).unwrap();
    } else {
        return false;
    }
    true
}
