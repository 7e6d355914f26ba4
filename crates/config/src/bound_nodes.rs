//! The NUMA nodes that a service keeps its memory to: systemd.resource-control(5),
//! `AllowedMemoryNodes=`; systemd.exec(5), `NUMAPolicy=`; numactl(8), `--membind`. A reservation of
//! huge pages is refused where these nodes have too few free ones, whatever the others have
//! (mm/hugetlb.c, `allowed_mems_nr`, which goes by a task's own bind policy since Linux 5.9).

use hugewise_model::configuration::FileLocation;

use super::exec_start::split_command_words;
use super::files::file_location;
use super::unit::UnitAssignment;

/// As many nodes as a kernel has at most (NODES_SHIFT of 10).
const MOST_NODES: u32 = 1024;

pub(super) fn find_bound_nodes(
    assignments: &[(String, UnitAssignment)],
) -> Option<(Vec<u32>, FileLocation)> {
    let (mut allowed, mut mask, mut binds, mut command) = (None, None, None, None);
    for (file, one) in assignments.iter().filter(|(_, one)| one.section == "Service") {
        let place = || file_location(file, one.line);
        match one.key.as_str() {
            "AllowedMemoryNodes" => {
                allowed = parse_node_list(&one.value).map(|nodes| (nodes, place()))
            }
            "NUMAMask" => mask = parse_node_list(&one.value),
            "NUMAPolicy" => binds = (one.value == "bind").then(place),
            "ExecStart" => command = parse_numactl_nodes(&one.value).map(|nodes| (nodes, place())),
            _ => {}
        }
    }
    let bound = mask.zip(binds);
    let all: Vec<(Vec<u32>, FileLocation)> =
        [allowed, bound, command].into_iter().flatten().collect();
    let last = all.last().map(|(_, place)| place.clone())?;
    let nodes =
        (0..MOST_NODES).filter(|node| all.iter().all(|(nodes, _)| nodes.contains(node))).collect();
    Some((nodes, last))
}

/// `0-1 3` or `0-1,3`; none where it names none, or says so in another way (`all`, `!1`).
fn parse_node_list(text: &str) -> Option<Vec<u32>> {
    let mut nodes = Vec::new();
    for part in text.split([' ', '\t', ',']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        nodes.extend(first..=last.min(MOST_NODES));
    }
    (!nodes.is_empty()).then_some(nodes)
}

fn parse_numactl_nodes(line: &str) -> Option<Vec<u32>> {
    let words = split_command_words(line);
    let at = words.iter().position(|word| word.rsplit('/').next() == Some("numactl"))?;
    let mut options =
        words.iter().skip(at + 1).map(String::as_str).take_while(|word| !word.starts_with('/'));
    while let Some(word) = options.next() {
        let value = match word {
            "--membind" | "-m" => options.next(),
            _ => word.strip_prefix("--membind=").or_else(|| word.strip_prefix("-m")),
        };
        if let Some(nodes) = value.and_then(parse_node_list) {
            return Some(nodes);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit;

    fn nodes(text: &str) -> Option<(Vec<u32>, u64)> {
        let all = unit::parse(format!("[Service]\n{text}").as_bytes());
        let all: Vec<(String, UnitAssignment)> =
            all.into_iter().map(|one| ("/f".to_owned(), one)).collect();
        find_bound_nodes(&all).map(|(nodes, place)| (nodes, place.line))
    }

    #[test]
    fn a_services_nodes_are_those_that_all_of_its_words_leave() {
        for (text, expected) in [
            ("User=postgres\n", None),
            ("AllowedMemoryNodes=0\n", Some((vec![0], 2))),
            ("AllowedMemoryNodes=0\nAllowedMemoryNodes=\n", None),
            ("AllowedMemoryNodes=0-2 4\n", Some((vec![0, 1, 2, 4], 2))),
            // A mask alone, or one of a policy that takes other nodes where these are full, binds
            // nothing.
            ("NUMAMask=1\n", None),
            ("NUMAPolicy=preferred\nNUMAMask=1\n", None),
            ("NUMAPolicy=bind\nNUMAMask=1,3\n", Some((vec![1, 3], 2))),
            ("NUMAPolicy=bind\nNUMAMask=all\n", None),
            (
                "ExecStart=/usr/bin/numactl --cpunodebind=0 --membind=0 /usr/bin/postgres -D /d\n",
                Some((vec![0], 2)),
            ),
            ("ExecStart=/usr/bin/numactl -m 0-1 /usr/bin/postgres\n", Some((vec![0, 1], 2))),
            ("ExecStart=/usr/bin/numactl -m1 -- /usr/bin/postgres\n", Some((vec![1], 2))),
            ("ExecStart=/usr/bin/numactl --interleave=all /usr/bin/postgres -m 1\n", None),
            ("ExecStart=/usr/bin/postgres -m 1\n", None),
            (
                "AllowedMemoryNodes=0-1\nExecStart=/usr/bin/numactl --membind=1-2 \
                     /usr/bin/postgres\n",
                Some((vec![1], 3)),
            ),
            ("AllowedMemoryNodes=0-4294967295\n", Some(((0..MOST_NODES).collect(), 2))),
        ] {
            assert_eq!(nodes(text), expected, "{text}");
        }
    }
}
