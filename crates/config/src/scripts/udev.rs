//! Rules of udev that write (udev(7)): attributes of a device, settings of the kernel, and programs
//! that are started.

/// What a rule does, as commands of a shell; what it only compares is left out.
pub(super) fn rule_commands(rule: &str) -> String {
    let mut found = Vec::new();
    let rule = if rule.trim_start().starts_with('#') { "" } else { rule };
    let mut rest = rule;
    while let Some((before, after)) = rest.split_once('"') {
        // Escaped strings (`e"..."`) and raw ones end at the same sign.
        let Some((value, behind)) = after.split_once('"') else { break };
        rest = behind;
        let key =
            before.rsplit(',').next().unwrap_or_default().trim().trim_end_matches('e').trim_end();
        let assigns = key.strip_suffix('=').filter(|key| !key.ends_with(['=', '!']));
        let Some(key) = assigns.map(|key| key.trim_end_matches(['+', ':']).trim()) else {
            // What is started to compare its result runs all the same.
            let key = key.trim_end_matches(['=', '!']).trim();
            if key == "PROGRAM" {
                found.push(value.to_owned());
            }
            continue;
        };
        let (name, attribute) = key.split_once('{').unwrap_or((key, ""));
        let attribute = attribute.trim_end_matches('}');
        match name {
            "ATTR" | "SYSFS" if !attribute.is_empty() => {
                // `[subsystem/kernel]attribute` is that of another device.
                let path = attribute.rsplit(']').next().unwrap_or(attribute);
                found.push(format!("echo {value} > {path}"));
            }
            "SYSCTL" if !attribute.is_empty() => {
                found.push(format!("sysctl -w {attribute}={value}"))
            }
            "RUN" | "PROGRAM" => found.push(value.to_owned()),
            "IMPORT" if attribute == "program" => found.push(value.to_owned()),
            _ => {}
        }
    }
    found.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assigned_and_started_and_not_what_is_compared() {
        for (rule, command) in [
            (
                "SUBSYSTEM==\"node\", ACTION==\"add\", \
                     ATTR{hugepages/hugepages-2048kB/nr_hugepages}=\"100\"",
                "echo 100 > hugepages/hugepages-2048kB/nr_hugepages",
            ),
            ("ATTR{hugepages/hugepages-2048kB/nr_hugepages}==\"100\"", ""),
            ("ATTR{a}!=\"1\"", ""),
            ("SYSCTL{vm/nr_hugepages}=\"5\"", "sysctl -w vm/nr_hugepages=5"),
            ("ACTION==\"add\", RUN+=\"/bin/sh -c 'echo 5 > /x'\"", "/bin/sh -c 'echo 5 > /x'"),
            ("RUN{program}+=\"/opt/a.sh\", RUN+=\"/opt/b.sh\"", "/opt/a.sh; /opt/b.sh"),
            ("PROGRAM==\"/opt/a.sh\", RESULT==\"x\"", "/opt/a.sh"),
            ("# RUN+=\"/opt/a.sh\"", ""),
            ("RUN+=\"/opt/a.sh", ""),
        ] {
            assert_eq!(rule_commands(rule), command, "{rule}");
        }
    }
}
