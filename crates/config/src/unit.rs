//! The syntax of unit files (`systemd.syntax(7)`), which system.conf shares.

use std::collections::BTreeSet;
use std::sync::Arc;

use hugewise_model::Process;
use hugewise_model::process::CgroupMembership;

use super::files::numbered_lines;

/// `key=value` in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitAssignment {
    /// `Service`.
    pub section: String,
    /// `LimitMEMLOCK`.
    pub key: String,
    /// Trimmed; specifiers such as `%i` as they are written.
    pub value: String,
    /// Line on which it starts.
    pub line: u64,
}

/// Assignments in order. A backslash at the end of a line joins the next one with a space, comments
/// between them left out. Anything else is skipped, as systemd does after a warning.
pub fn parse(bytes: &[u8]) -> Vec<UnitAssignment> {
    let mut found = Vec::new();
    let mut section = String::new();
    let mut joined: Option<(u64, String)> = None;
    for (number, line) in numbered_lines(bytes) {
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let (start, mut text) = joined.take().unwrap_or((number, String::new()));
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            text.push_str(line.get(..line.len() - 1).unwrap_or_default());
            text.push(' ');
            joined = Some((start, text));
            continue;
        }
        text.push_str(line);
        parse_unit_line(&text, start, &mut section, &mut found);
    }
    if let Some((start, text)) = joined {
        parse_unit_line(&text, start, &mut section, &mut found);
    }
    found
}

fn parse_unit_line(text: &str, line: u64, section: &mut String, found: &mut Vec<UnitAssignment>) {
    let text = text.trim();
    if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        name.clone_into(section);
    } else if let Some((key, value)) = text.split_once('=') {
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        found.push(UnitAssignment { section: section.clone(), key, value, line });
    }
}

/// `postgresql@15-main.service` taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitName {
    /// Before `@` or the suffix.
    pub prefix: String,
    /// After `@`, where there is one.
    pub instance: Option<String>,
    /// `service`.
    pub kind: String,
}

/// UNIT_NAME_MAX of systemd.
const LONGEST_NAME: usize = 255;

impl UnitName {
    /// Takes a name apart; `None` where it has no prefix or no suffix, or is longer than a unit's.
    pub fn parse(name: &str) -> Option<Self> {
        if name.len() > LONGEST_NAME {
            return None;
        }
        let (stem, kind) = name.rsplit_once('.')?;
        let (prefix, instance) = match stem.split_once('@') {
            Some((prefix, instance)) => (prefix, Some(instance.to_owned())),
            None => (stem, None),
        };
        let whole = !prefix.is_empty() && !kind.is_empty() && !name.contains('/');
        whole.then(|| Self { prefix: prefix.to_owned(), instance, kind: kind.to_owned() })
    }

    fn format_name(&self, prefix: &str, instance: Option<&str>) -> String {
        match instance {
            Some(instance) => format!("{prefix}@{instance}.{}", self.kind),
            None => format!("{prefix}.{}", self.kind),
        }
    }

    /// The template of an instance: `postgresql@.service`.
    pub(crate) fn template_name(&self) -> Option<String> {
        let instance = self.instance.as_ref().filter(|instance| !instance.is_empty());
        instance.map(|_| self.format_name(&self.prefix, Some("")))
    }

    /// The cgroup that a service starts in: below its `Slice=`, or below system.slice, those of one
    /// template in a slice of theirs (systemd.resource-control(5), systemd.special(7)). `None`
    /// where the slice is none, or has specifiers that are not known here.
    pub fn cgroup_path(&self, name: &str, slice: Option<&str>) -> Option<String> {
        let own = || match &self.instance {
            Some(_) => format!("system-{}.slice", self.prefix.replace('-', "\\x2d")),
            None => "system.slice".to_owned(),
        };
        let instance = self.instance.as_deref().unwrap_or_default();
        let filled = |slice: &str| slice.replace("%p", &self.prefix).replace("%i", instance);
        let slice = slice.map_or_else(own, filled);
        let parts = slice.strip_suffix(".slice").filter(|stem| !stem.is_empty())?;
        if slice.contains(['%', '/']) || slice.len() > LONGEST_NAME {
            return None;
        }
        if parts == "-" {
            return Some(format!("/{name}"));
        }
        let mut path = String::new();
        let ends = parts.match_indices('-').map(|(at, _)| at).chain([parts.len()]);
        for above in ends.filter_map(|end| parts.get(..end)) {
            path.push_str(&format!("/{above}.slice"));
        }
        Some(format!("{path}/{name}"))
    }

    /// Names whose `.d` folders hold its drop-ins, the most special first: its own, its prefixes
    /// that end in a dash, and those of its template.
    pub fn drop_in_names(&self) -> Vec<String> {
        let mut prefixes = vec![self.prefix.clone()];
        let mut rest = self.prefix.as_str();
        // `a-b-c` has `a-b-` and `a-`; a dash at the end cuts one part more.
        while let Some(at) = rest.strip_suffix('-').unwrap_or(rest).rfind('-') {
            let Some(shorter) = rest.get(..=at) else { break };
            if shorter.starts_with('-') && shorter.len() == 1 {
                break;
            }
            prefixes.push(shorter.to_owned());
            rest = shorter;
        }
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for prefix in &prefixes {
            for name in [
                Some(self.format_name(prefix, self.instance.as_deref())),
                self.instance.as_ref().map(|_| self.format_name(prefix, Some(""))),
            ] {
                names.extend(name.filter(|name| seen.insert(name.clone())));
            }
        }
        names
    }
}

/// The service that systemd started a process in, by its path in systemd's own hierarchy of version
/// 1 or in the unified one. Services of a user's or a container's manager are left out.
pub fn service_of(process: &Process) -> Option<&str> {
    let memberships = process.cgroups.as_known()?;
    let named = memberships
        .iter()
        .filter(|m| m.controllers.iter().any(|controller| controller == "name=systemd"));
    let unified = memberships.iter().filter(|m| m.hierarchy == 0 && m.controllers.is_empty());
    named.chain(unified).find_map(|membership| service_of_path(&membership.path))
}

/// Each process with its service. Processes beside each other have their memberships from one
/// place, most of a server's hundreds from the same: those are looked at once.
pub fn with_services<'a>(
    processes: impl IntoIterator<Item = &'a Process>,
) -> impl Iterator<Item = (&'a Process, Option<&'a str>)> {
    let mut last: Option<(&Arc<[CgroupMembership]>, Option<&str>)> = None;
    processes.into_iter().map(move |process| {
        let memberships = process.cgroups.as_known();
        let service = match (memberships, last) {
            (Some(these), Some((those, service))) if Arc::ptr_eq(these, those) => service,
            _ => service_of(process),
        };
        last = memberships.map(|these| (these, service));
        (process, service)
    })
}

pub(super) fn service_of_path(path: &str) -> Option<&str> {
    let mut parts =
        path.split('/').filter(|part| !part.is_empty()).skip_while(|part| part.ends_with(".slice"));
    let name = parts.next()?;
    let nested =
        parts.any(|part| [".slice", ".scope", ".service"].iter().any(|kind| part.ends_with(kind)));
    let counts =
        name.len() > ".service".len() && name.ends_with(".service") && !name.starts_with("user@");
    (counts && !nested).then_some(name)
}

#[cfg(test)]
mod tests {
    /// systemd's UNIT_NAME_MAX: each dash of a slice is one more of its parents.
    #[test]
    fn names_longer_than_a_units_are_none() {
        let name = |length: usize| "a-".repeat(length / 2);
        assert_eq!(super::UnitName::parse(&format!("{}.service", name(248))), None);
        let unit = super::UnitName::parse("db.service").unwrap();
        assert_eq!(unit.cgroup_path("db.service", Some(&format!("{}a.slice", name(250)))), None);
        assert!(unit.cgroup_path("db.service", Some("a-b.slice")).is_some());
    }

    use super::*;
    use proptest::prelude::*;

    /// Processes of three services, of none, and of one whose memberships could not be read, in any
    /// order: each has its own.
    #[test]
    fn processes_beside_each_other_keep_their_own_services() {
        use hugewise_model::Observed;

        let values_of = |path: &str| {
            let membership =
                CgroupMembership { hierarchy: 0, controllers: Vec::new(), path: path.to_owned() };
            Observed::Known(Arc::<[_]>::from(vec![membership]))
        };
        let (a, b, none) = (
            values_of("/system.slice/a.service"),
            values_of("/system.slice/b.service"),
            values_of("/init.scope"),
        );
        let same = values_of("/system.slice/a.service");
        let all = [
            &a,
            &a,
            &b,
            &a,
            &none,
            &none,
            &Observed::Denied,
            &none,
            &b,
            &Observed::Denied,
            &same,
            &a,
        ];
        let processes =
            all.map(|cgroups| Process { cgroups: cgroups.clone(), ..Process::default() });
        let services: Vec<_> = with_services(&processes).map(|(_, service)| service).collect();
        let (a, b) = (Some("a.service"), Some("b.service"));
        assert_eq!(services, [a, a, b, a, None, None, None, None, b, None, a, a]);
    }

    /// As `systemctl show -p ControlGroup` of systemd 252 has them.
    #[test]
    fn a_service_lies_below_its_slice() {
        let text_of = |name: &str, slice: Option<&str>| {
            UnitName::parse(name).and_then(|parts| parts.cgroup_path(name, slice))
        };
        let is = |path: &str| Some(path.to_owned());
        assert_eq!(text_of("db.service", None), is("/system.slice/db.service"));
        let own = "/system.slice/system-postgresql.slice/postgresql@15-b.service";
        assert_eq!(text_of("postgresql@15-b.service", None), is(own));
        assert_eq!(text_of("postgresql@15-b.service", Some("system-%p.slice")), is(own));
        let dashed = r"/system.slice/system-my\x2ddb.slice/my-db@1.service";
        assert_eq!(text_of("my-db@1.service", None), is(dashed));
        assert_eq!(
            text_of("db.service", Some("a-b-c.slice")),
            is("/a.slice/a-b.slice/a-b-c.slice/db.service")
        );
        assert_eq!(text_of("db.service", Some("-.slice")), is("/db.service"));
        assert_eq!(text_of("db.service", Some("x%j.slice")), None);
        assert_eq!(text_of("db.service", Some("odd")), None);
    }

    #[test]
    fn continued_lines_and_comments() {
        let text = b"[Unit]\nUser=no\n[Service]\nExecStart=/bin/x \\\n# a comment \
             between\n  --flag \\\n  two\n; c\nLimitMEMLOCK = \
             64M \nnothing\nPath=a\\\\\nUser=last\\";
        let found = parse(text);
        let seen: Vec<_> = found
            .iter()
            .map(|a| (a.section.as_str(), a.key.as_str(), a.value.as_str(), a.line))
            .collect();
        assert_eq!(
            seen,
            [
                ("Unit", "User", "no", 2),
                ("Service", "ExecStart", "/bin/x    --flag    two", 4),
                ("Service", "LimitMEMLOCK", "64M", 9),
                ("Service", "Path", "a\\\\", 11),
                ("Service", "User", "last", 12)
            ]
        );
    }

    #[test]
    fn names_have_templates_and_prefixes() {
        let name = UnitName::parse("foo-bar-baz@15-main.service").unwrap();
        assert_eq!(name.template_name().as_deref(), Some("foo-bar-baz@.service"));
        assert_eq!(
            name.drop_in_names(),
            [
                "foo-bar-baz@15-main.service",
                "foo-bar-baz@.service",
                "foo-bar-@15-main.service",
                "foo-bar-@.service",
                "foo-@15-main.service",
                "foo-@.service"
            ]
        );
        let plain = UnitName::parse("foo-bar.service").unwrap();
        assert_eq!(plain.template_name(), None);
        assert_eq!(plain.drop_in_names(), ["foo-bar.service", "foo-.service"]);
        assert_eq!(UnitName::parse("service"), None);
    }

    proptest! {
        #[test]
        fn any_name_is_survived(name in "[a@.-]{0,12}") {
            if let Some(name) = UnitName::parse(&name) {
                prop_assert!(!name.drop_in_names().is_empty());
            }
        }

        #[test]
        fn an_assignment_reads_back(key in "[A-Za-z]{1,12}", value in "[a-z0-9%:=]{0,12}") {
            let found = parse(format!("[S]\n{key} = {value}\n").as_bytes());
            prop_assert_eq!(found, vec![UnitAssignment { section: "S".into(), key, value, line: 2 }]);
        }
    }
}
