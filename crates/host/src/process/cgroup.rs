//! /proc/PID/cgroup (cgroups(7)): `hierarchy:controllers:path`.

use hugewise_model::process::CgroupMembership;

use crate::ParseError;

/// Parses the memberships of a process.
///
/// # Errors
/// A line without its three fields.
pub fn parse(bytes: &[u8]) -> Result<Vec<CgroupMembership>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut memberships = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty()) {
        let mut fields = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(ParseError::at(number, "not three fields"));
        };
        let hierarchy = hierarchy.parse().map_err(|_| ParseError::at(number, "no number of a hierarchy"))?;
        let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        memberships.push(CgroupMembership { hierarchy, controllers, path: path.to_owned() });
    }
    Ok(memberships)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_versions_stand_side_by_side() {
        let text = "4:cpu,cpuacct:/\n3:name=systemd:/x\n0::/system.slice/docker-1:2.scope\n";
        let memberships = parse(text.as_bytes()).unwrap();
        assert_eq!(memberships[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(memberships[1].controllers, ["name=systemd"]);
        assert_eq!(memberships[2].path, "/system.slice/docker-1:2.scope");
        assert!(memberships[2].controllers.is_empty());
        assert_eq!(parse(b"0::/\nx\n").unwrap_err().line, 2);
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn never_panics_on_a_torn_file(at in 0_usize..30) {
            let _ = parse(&b"4:cpu,cpuacct:/\n0::/system.sl"[..at]);
        }
    }
}
