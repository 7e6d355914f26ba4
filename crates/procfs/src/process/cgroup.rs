//! /proc/PID/cgroup (cgroups(7)): `hierarchy:controllers:path`.

use hugewise_model::process::CgroupMembership;

use hugewise_source::ParseError;

/// PATH_MAX, in which the kernel shows a path, and NAME_MAX, what a folder may be called.
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

/// Parses the memberships of a process. Fails on a line without its three fields, and on a path that
/// no kernel has: each of its ancestors, and each prefix of a unit's name, is a path of its own.
pub fn parse(bytes: &[u8]) -> Result<Vec<CgroupMembership>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut memberships = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty()) {
        let mut fields = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Err(ParseError::at_line(number, "not three fields"));
        };
        if path.len() > LONGEST_PATH || path.split('/').any(|name| name.len() > LONGEST_NAME) {
            return Err(ParseError::at_line(number, "longer than any path of the kernel's"));
        }
        let hierarchy = hierarchy
            .parse()
            .map_err(|_| ParseError::at_line(number, "no number of a hierarchy"))?;
        let controllers =
            controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        memberships.push(CgroupMembership { hierarchy, controllers, path: path.to_owned() });
    }
    Ok(memberships)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: &str = "4:cpu,cpuacct:/\n3:name=systemd:/x\n0::/system.slice/docker-1:2.scope\n";

    #[test]
    fn both_versions_stand_side_by_side() {
        let memberships = parse(BOTH.as_bytes()).unwrap();
        assert_eq!(memberships[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(memberships[1].controllers, ["name=systemd"]);
        assert_eq!(memberships[2].path, "/system.slice/docker-1:2.scope");
        assert!(memberships[2].controllers.is_empty());
        assert_eq!(parse(b"0::/\nx\n").unwrap_err().line, 2);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(hierarchy: u32, controllers in proptest::collection::vec("[a-z_=]{1,8}", 0..3), path in "/[ -~]{0,30}") {
            let text = format!("{hierarchy}:{}:{path}\n", controllers.join(","));
            prop_assert_eq!(parse(text.as_bytes()), Ok(vec![CgroupMembership { hierarchy, controllers, path }]));
        }

        #[test]
        fn whole_lines_of_a_torn_file_are_kept(at in 0..BOTH.len()) {
            crate::testing::rows_before_a_cut(BOTH, at, 0, parse);
        }
    }

    /// A capture of 44 KB took 8 GB: each ancestor is a path of its own.
    #[test]
    fn paths_that_no_kernel_shows_are_malformed() {
        let deep = format!("0::{}\n", "/a.service".repeat(90_000));
        let long = format!("0::/system.slice/{}a.service\n", "a-".repeat(128));
        for text in [deep, long] {
            assert!(parse(text.as_bytes()).is_err());
        }
        let fits = format!("0::{}\n", "/a.service".repeat(400));
        assert_eq!(parse(fits.as_bytes()).unwrap().len(), 1);
    }
}
