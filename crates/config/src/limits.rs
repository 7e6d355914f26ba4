//! limits.conf(5) of pam_limits: what a login may lock. Services of systemd are not asked.

use hugewise_model::configuration::{FileLocation, LimitRule};
use hugewise_model::process::SoftHard;
use hugewise_model::{Bytes, Limit, Observed};

use super::files::{file_location, numbered_lines, overlay_files, parse_all_files, split_while};
use hugewise_source::FactReader;

/// Rules about memlock, limits.conf first, then limits.d by name in the C locale. The files below
/// /usr/etc are SUSE's, and count where /etc has none of that name (Linux-PAM 1.5.3).
pub fn read(door: &mut FactReader<'_>) -> Observed<Vec<LimitRule>> {
    let main = ["/etc/security/limits.conf", "/usr/etc/security/limits.conf"]
        .iter()
        .find(|path| !door.source.read(path).is_absent());
    let folders = ["/etc/security/limits.d", "/usr/etc/security/limits.d"];
    let mut paths: Vec<String> = main.map(|path| (*path).to_owned()).into_iter().collect();
    match overlay_files(door, &folders, ".conf") {
        Observed::Known(more) => paths.extend(more),
        Observed::Absent if paths.is_empty() => return Observed::Absent,
        Observed::Absent => {}
        unknown => return unknown.map(|_| Vec::new()),
    }
    parse_all_files(door, &paths, parse)
}

/// Rules about memlock in one file; lines that pam_limits skips are skipped here too.
pub fn parse(file: &str, bytes: &[u8]) -> Vec<LimitRule> {
    let rule = |domain: &str, (soft, hard), value, line| LimitRule {
        domain: domain.to_owned(),
        soft,
        hard,
        value,
        place: file_location(file, line),
    };
    let parsed = |(line, text): (u64, std::borrow::Cow<'_, str>)| {
        let text = text.split('#').next().unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let (domain, kind) = (words.next()?, words.next()?);
        let Some(item) = words.next() else {
            // `*` is not looked for there.
            let exempts = kind == "-" && domain != "*";
            return exempts.then(|| rule(domain, (false, false), Limit::Unlimited, line));
        };
        let value = words.next()?;
        if !item.eq_ignore_ascii_case("memlock") {
            return None;
        }
        let sets = match kind.to_ascii_lowercase().as_str() {
            "soft" => (true, false),
            "hard" => (false, true),
            "-" => (true, true),
            _ => return None,
        };
        Some(rule(domain, sets, parse_value(value)?, line))
    };
    numbered_lines(bytes).filter_map(parsed).collect()
}

/// KiB as strtoull reads them, up to the first other character, or no limit.
fn parse_value(text: &str) -> Option<Limit> {
    if ["-1", "unlimited", "infinity"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(Limit::Unlimited);
    }
    let digits = text.strip_prefix('+').unwrap_or(text);
    let (digits, _) = split_while(digits, |sign| sign.is_ascii_digit());
    if digits.is_empty() {
        return None;
    }
    // Past 2^64 bytes pam_limits takes it for no limit.
    Some(match digits.parse::<u64>().ok().and_then(|kib| kib.checked_mul(1024)) {
        Some(bytes) if bytes < u64::MAX - 1023 => Limit::At(Bytes(bytes)),
        _ => Limit::Unlimited,
    })
}

/// What a login of one user gets from the rules: `None` where no rule sets it and the limit of
/// whatever opens the session stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserLimits<'a> {
    /// The soft limit, never above a hard one that the rules set.
    pub soft: Option<(Limit, &'a FileLocation)>,
    /// The hard limit.
    pub hard: Option<(Limit, &'a FileLocation)>,
    /// The line that has pam_limits leave him alone, whatever others say.
    pub exempt: Option<&'a FileLocation>,
}

/// What is in force in a session, and what of its rules decides on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce<'a> {
    /// The soft limit.
    pub soft: Limit,
    /// The rule that it comes from; none where it is what the session was opened with.
    pub rule: Option<&'a FileLocation>,
    /// That rule asks for more than the hard limit that the session was opened with, which no rule
    /// sets.
    pub is_capped: bool,
}

impl<'a> UserLimits<'a> {
    /// As pam_limits has it: the soft limit is never above the hard one, whichever a rule sets.
    pub fn in_force(&self, opened_with: SoftHard) -> InForce<'a> {
        if self.exempt.is_some() {
            return InForce { soft: opened_with.soft, rule: self.exempt, is_capped: false };
        }
        let (hard, of_hard) = self.hard.unzip();
        let (soft, rule) = self.soft.unzip();
        let (hard, soft) = (hard.unwrap_or(opened_with.hard), soft.unwrap_or(opened_with.soft));
        match (hard < soft, of_hard) {
            (false, _) => InForce { soft, rule, is_capped: false },
            (true, Some(place)) => InForce { soft: hard, rule: Some(place), is_capped: false },
            (true, None) => InForce { soft: hard, rule, is_capped: rule.is_some() },
        }
    }
}

/// How strongly a rule speaks of a user; the smaller, the stronger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LimitRuleStrength {
    User,
    Group,
    Default,
}

/// Applies the rules as pam_limits does: a rule about the user or his uid beats one about a group,
/// which beats `*`; among equals the later line wins. `oracle -`, without an item, ends it all: no
/// limit is set for him by any line. `groups` are the user's, the primary one first: a range of
/// gids is compared with that one only. `%group` is about numbers of logins and sets no memlock.
///
/// `*` and groups don't reach root, as Debian has it. Elsewhere they do, which makes no difference
/// to memory: root holds CAP_IPC_LOCK, and the limit is not asked.
pub fn for_user<'a>(
    rules: &'a [LimitRule],
    user: &str,
    uid: u32,
    groups: &[(u32, String)],
) -> UserLimits<'a> {
    type StrongestRule<'a> = Option<(LimitRuleStrength, Limit, &'a FileLocation)>;
    let (mut soft, mut hard): (StrongestRule<'_>, StrongestRule<'_>) = (None, None);
    for rule in rules {
        let Some(strength) = strength_for(&rule.domain, user, uid, groups) else { continue };
        if rule.is_exemption() {
            return UserLimits { exempt: Some(&rule.place), ..UserLimits::default() };
        }
        let is_weaker =
            |set: StrongestRule<'_>| set.is_some_and(|(stronger, ..)| stronger < strength);
        if rule.soft {
            // pam_limits drops a whole `-` line whose soft half comes too late.
            if is_weaker(soft) {
                continue;
            }
            soft = Some((strength, rule.value, &rule.place));
        }
        if rule.hard && !is_weaker(hard) {
            hard = Some((strength, rule.value, &rule.place));
        }
    }
    let hard = hard.map(|(_, limit, place)| (limit, place));
    let soft = soft.map(|(_, limit, place)| match hard {
        Some((highest, of_hard)) if highest < limit => (highest, of_hard),
        _ => (limit, place),
    });
    UserLimits { soft, hard, exempt: None }
}

fn strength_for(
    domain: &str,
    user: &str,
    uid: u32,
    groups: &[(u32, String)],
) -> Option<LimitRuleStrength> {
    if domain == user {
        return Some(LimitRuleStrength::User);
    }
    if let Some(group) = domain.strip_prefix('@') {
        let matches = uid != 0
            && match IdRange::parse(group) {
                Some(IdRange::One(gid)) => groups.iter().any(|(id, _)| *id == gid),
                Some(range) => groups.first().is_some_and(|(id, _)| range.contains_id(*id)),
                None => groups.iter().any(|(_, name)| name == group),
            };
        return matches.then_some(LimitRuleStrength::Group);
    }
    if domain == "*" {
        return (uid != 0).then_some(LimitRuleStrength::Default);
    }
    IdRange::parse(domain)?.contains_id(uid).then_some(LimitRuleStrength::User)
}

/// `min:max`, `min:`, and `:one`, which is exact.
enum IdRange {
    One(u32),
    From(u32),
    Between(u32, u32),
}

impl IdRange {
    fn parse(text: &str) -> Option<Self> {
        let (low, high) = text.split_once(':')?;
        match (low.is_empty(), high.is_empty()) {
            (true, true) => None,
            (true, false) => high.parse().ok().map(Self::One),
            (false, true) => low.parse().ok().map(Self::From),
            (false, false) => Some(Self::Between(low.parse().ok()?, high.parse().ok()?)),
        }
    }

    const fn contains_id(&self, id: u32) -> bool {
        match *self {
            Self::One(one) => id == one,
            Self::From(low) => id >= low,
            Self::Between(low, high) => id >= low && id <= high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;
    use proptest::prelude::*;

    const KIB: fn(u64) -> Limit = |kib| Limit::At(Bytes::from_kib(kib));

    fn limits_of(text: &str, user: &str, uid: u32) -> (Option<Limit>, Option<Limit>) {
        let rules = parse("/f", text.as_bytes());
        let groups = [(500, "oinstall".to_owned()), (501, "dba".to_owned())];
        let found = for_user(&rules, user, uid, &groups);
        (found.soft.map(|(limit, _)| limit), found.hard.map(|(limit, _)| limit))
    }

    #[test]
    fn values_are_kib() {
        let rules = parse(
            "/f",
            b"# c\noracle soft memlock 134217728 # note\noracle hard MEMLOCK \
             Unlimited\n* - memlock -1\nx soft nofile 1\nx weird memlock 1\nx soft memlock \
             lots\nx soft memlock\ny soft memlock 64k\n",
        );
        let seen: Vec<_> = rules
            .iter()
            .map(|r| (r.domain.as_str(), r.soft, r.hard, r.value, r.place.line))
            .collect();
        assert_eq!(
            seen,
            [
                ("oracle", true, false, Limit::At(Bytes::from_gib(128)), 2),
                ("oracle", false, true, Limit::Unlimited, 3),
                ("*", true, true, Limit::Unlimited, 4),
                ("y", true, false, KIB(64), 9)
            ]
        );
        assert_eq!(parse_value("18446744073709551615"), Some(Limit::Unlimited));
        assert_eq!(parse_value("99999999999999999999999"), Some(Limit::Unlimited));
    }

    /// As `su` of Debian 12 (Linux-PAM 1.5.2) has it: with any of the lines of the first list it
    /// keeps what it was started with.
    #[test]
    fn a_line_without_an_item_exempts_from_all_others() {
        let others = "* - memlock 128\n";
        for line in [
            "oracle -",
            "@oinstall -",
            ":54321 -",
            "54321:54321 -",
            "oracle - # all",
            "oracle -\noracle - memlock 256",
        ] {
            for text in [format!("{line}\n{others}"), format!("{others}{line}\n")] {
                assert_eq!(limits_of(&text, "oracle", 54321), (None, None), "{text}");
                let rules = parse("/f", text.as_bytes());
                let found = for_user(&rules, "oracle", 54321, &[(500, "oinstall".to_owned())]);
                let opened_with = SoftHard { soft: KIB(8192), hard: KIB(8192) };
                let in_force = found.in_force(opened_with);
                assert_eq!(in_force.soft, KIB(8192), "{text}");
                assert!(in_force.rule.is_some_and(|place| place.file == "/f"), "{text}");
            }
        }
        for line in ["* -", "oracle - memlock", "oracle soft", "postgres -"] {
            let limit = Some(KIB(128));
            assert_eq!(
                limits_of(&format!("{line}\n{others}"), "oracle", 54321),
                (limit, limit),
                "{line}"
            );
        }
    }

    #[test]
    fn user_beats_group_beats_default() {
        let text = "oracle - memlock 100\n@dba - memlock 200\n* - memlock 300\n";
        assert_eq!(limits_of(text, "oracle", 1000), (Some(KIB(100)), Some(KIB(100))));
        assert_eq!(limits_of(text, "other", 1000), (Some(KIB(200)), Some(KIB(200))));
        assert_eq!(
            limits_of("* - memlock 300\n@none - memlock 2\n%dba - memlock 3\n", "other", 1000).0,
            Some(KIB(300))
        );
        assert_eq!(
            limits_of("oracle - memlock 1\noracle - memlock 2\n", "oracle", 1000).0,
            Some(KIB(2))
        );
        assert_eq!(
            limits_of("oracle - memlock 1\n999: - memlock 2\n", "oracle", 1000).0,
            Some(KIB(2))
        );
    }

    #[test]
    fn root_hears_only_its_own_name() {
        assert_eq!(limits_of("* - memlock 1\n@dba - memlock 2\n", "root", 0), (None, None));
        assert_eq!(limits_of("root - memlock 3\n", "root", 0).0, Some(KIB(3)));
    }

    #[test]
    fn ranges_of_ids() {
        for (domain, applies) in [
            ("1000:", true),
            ("1001:", false),
            (":1000", true),
            (":1001", false),
            ("1000:1000", true),
            ("900:999", false),
            ("@:501", true),
            ("@:502", false),
            ("@500:500", true),
            ("@501:501", false),
            ("@400:", true),
            (":", false),
            ("x:y", false),
        ] {
            let found = limits_of(&format!("{domain} - memlock 5\n"), "u", 1000).0;
            assert_eq!(found.is_some(), applies, "{domain}");
        }
    }

    #[test]
    fn soft_never_passes_hard() {
        assert_eq!(
            limits_of("u soft memlock unlimited\nu hard memlock 64\n", "u", 1),
            (Some(KIB(64)), Some(KIB(64)))
        );
        assert_eq!(limits_of("u soft memlock 64\n", "u", 1), (Some(KIB(64)), None));
        // The soft half of the second line is too weak, and takes the hard half with it.
        assert_eq!(
            limits_of("u soft memlock 64\n* - memlock 128\n", "u", 1),
            (Some(KIB(64)), None)
        );
    }

    /// As setup_limits() of pam_limits has it, in KiB; a test of the command line asks su itself.
    #[test]
    fn a_session_has_no_soft_limit_above_its_hard_one() {
        for (rules, opened_with, soft, line, is_capped) in [
            ("u soft memlock unlimited\n", (8192, 8192), 8192, Some(1), true),
            ("u soft memlock 16\n", (8192, 8192), 16, Some(1), false),
            ("u hard memlock 64\n", (8192, 8192), 64, Some(1), false),
            ("u hard memlock unlimited\n", (64, 8192), 64, None, false),
            ("u hard memlock 64\nu soft memlock unlimited\n", (8192, 8192), 64, Some(1), false),
            ("u - memlock 9000\n", (64, 64), 9000, Some(1), false),
            ("", (64, 8192), 64, None, false),
        ] {
            let parsed = parse("/f", rules.as_bytes());
            let found = for_user(&parsed, "u", 1, &[]);
            let found =
                found.in_force(SoftHard { soft: KIB(opened_with.0), hard: KIB(opened_with.1) });
            let told = (found.soft, found.rule.map(|place| place.line), found.is_capped);
            assert_eq!(told, (KIB(soft), line, is_capped), "{rules}");
        }
    }

    #[test]
    fn files_are_read_in_order() {
        let source = MapSource::new()
            .with_file("/etc/security/limits.conf", "u - memlock 1\n")
            .with_file("/etc/security/limits.d/b.conf", "u - memlock 3\n")
            .with_file("/etc/security/limits.d/B.conf", "u - memlock 2\n")
            .with_file("/etc/security/limits.d/z.txt", "u - memlock 4\n");
        let rules = read(&mut FactReader::new(&source)).into_known().unwrap();
        let places: Vec<_> = rules.iter().map(|rule| rule.place.to_string()).collect();
        assert_eq!(
            places,
            [
                "/etc/security/limits.conf:1",
                "/etc/security/limits.d/B.conf:1",
                "/etc/security/limits.d/b.conf:1"
            ]
        );
        assert_eq!(read(&mut FactReader::new(&MapSource::new())), Observed::Absent);
        let denied = source.with_denied("/etc/security/limits.d/c.conf");
        assert_eq!(read(&mut FactReader::new(&denied)), Observed::Denied);
    }

    proptest! {
        #[test]
        fn no_rules_make_the_soft_limit_more_than_the_hard_one(text in "(([@%*a-z:0-9]{1,8}) \
             (soft|hard|-) memlock [-a-z0-9]{1,22}\n){0,8}", uid: u32) {
            let rules = parse("/f", text.as_bytes());
            let found = for_user(&rules, "u", uid, &[(uid, "g".to_owned())]);
            if let (Some(soft), Some(hard)) = (found.soft, found.hard) {
                prop_assert!(soft.0 <= hard.0);
            }
        }
    }
}
