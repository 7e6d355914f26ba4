//! Patterns of paths as glob(3) takes them, braces included: systemd-sysctl and systemd-tmpfiles
//! write to what they match.

/// More alternatives than anybody writes by hand; what is beyond them is left out.
const MOST_ALTERNATIVES: usize = 1024;

/// Whether a text is a pattern for systemd-sysctl; braces alone make none.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The alternatives of braces, in order: `a{b,c{d,e}}` is `ab`, `acd` and `ace`. Braces that don't
/// close stand for themselves.
pub(crate) fn expand_braces(pattern: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_owned()];
    while let Some(text) = open.pop() {
        if done.len() + open.len() >= MOST_ALTERNATIVES {
            break;
        }
        match split_braces(&text) {
            Some((before, parts, after)) => {
                open.extend(parts.iter().rev().map(|part| format!("{before}{part}{after}")));
            }
            None => done.push(text),
        }
    }
    done
}

fn split_braces(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let open = find_unescaped(text, '{')?;
    let (mut depth, mut parts, mut from) = (0_usize, Vec::new(), open + 1);
    let mut characters = text.char_indices().skip_while(|(at, _)| *at <= open);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '{' => depth += 1,
            ',' if depth == 0 => {
                parts.push(text.get(from..at)?);
                from = at + 1;
            }
            '}' if depth == 0 => {
                parts.push(text.get(from..at)?);
                return Some((text.get(..open)?, parts, text.get(at + 1..)?));
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn find_unescaped(text: &str, wanted: char) -> Option<usize> {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            found if found == wanted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether a pattern without braces is about this path, part by part.
pub fn covers_path(pattern: &str, path: &str) -> bool {
    if pattern == path {
        return true;
    }
    let (mut patterns, mut parts) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if matches_part(pattern, part) => {}
            _ => return false,
        }
    }
}

/// A mismatch goes back to the last star, so that time is the product of the lengths at most.
fn matches_part(pattern: &str, name: &str) -> bool {
    // A star or a set does not take a dot at the beginning.
    if name.starts_with('.') && !pattern.starts_with(['.', '\\']) {
        return false;
    }
    let (mut pattern, mut name) = (pattern, name);
    let mut star: Option<(&str, &str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            pattern = rest;
            star = Some((rest, name));
            continue;
        }
        if pattern.is_empty() && name.is_empty() {
            return true;
        }
        if let Some((rest_pattern, rest_name)) = match_character(pattern, name) {
            (pattern, name) = (rest_pattern, rest_name);
            continue;
        }
        let Some((after, from)) = star else { return false };
        let mut rest = from.chars();
        if rest.next().is_none() {
            return false;
        }
        (pattern, name) = (after, rest.as_str());
        star = Some((after, name));
    }
}

fn match_character<'p, 'n>(pattern: &'p str, name: &'n str) -> Option<(&'p str, &'n str)> {
    let mut rest = name.chars();
    let character = rest.next()?;
    let mut after = pattern.chars();
    let taken = match after.next()? {
        '?' => Some(after.as_str()),
        '[' => match match_set(after.as_str(), character) {
            Some((true, behind)) => Some(behind),
            Some((false, _)) => None,
            // A bracket that does not close stands for itself.
            None => (character == '[').then_some(after.as_str()),
        },
        '\\' => match after.next() {
            Some(literal) => (literal == character).then_some(after.as_str()),
            None => (character == '\\').then_some(""),
        },
        literal => (literal == character).then_some(after.as_str()),
    };
    taken.map(|behind| (behind, rest.as_str()))
}

/// `text` begins behind the bracket. `None` where the set does not close.
fn match_set(text: &str, character: char) -> Option<(bool, &str)> {
    let negated = text.starts_with(['!', '^']);
    let mut rest = if negated { text.get(1..)? } else { text };
    let (mut found, mut first) = (false, true);
    loop {
        if let Some(behind) = rest.strip_prefix(']').filter(|_| !first) {
            return Some((found != negated, behind));
        }
        first = false;
        if let Some((class, behind)) =
            rest.strip_prefix("[:").and_then(|class| class.split_once(":]"))
        {
            found |= is_of(class, character);
            rest = behind;
            continue;
        }
        let (from, behind) = next_set_member(rest)?;
        rest = behind;
        let range = rest.strip_prefix('-').filter(|behind| !behind.starts_with(']'));
        match range.and_then(next_set_member) {
            Some((to, behind)) => {
                found |= (from..=to).contains(&character);
                rest = behind;
            }
            None => found |= from == character,
        }
    }
}

fn next_set_member(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    let character = match characters.next()? {
        '\\' => characters.next()?,
        other => other,
    };
    Some((character, characters.as_str()))
}

fn is_of(class: &str, character: char) -> bool {
    match class {
        "alpha" => character.is_ascii_alphabetic(),
        "digit" => character.is_ascii_digit(),
        "alnum" => character.is_ascii_alphanumeric(),
        "lower" => character.is_ascii_lowercase(),
        "upper" => character.is_ascii_uppercase(),
        "xdigit" => character.is_ascii_hexdigit(),
        "punct" => character.is_ascii_punctuation(),
        "graph" => character.is_ascii_graphic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_are_the_shells() {
        let pool = "/proc/sys/vm/nr_hugepages";
        for pattern in [
            pool,
            "/proc/sys/vm/nr_huge*",
            "/proc/*/vm/nr_hugepage?",
            "/proc/sys/vm/nr_hugepage[s]",
            "/proc/sys/vm/nr_hugepage[!a-r]",
            "/proc/sys/vm/nr_hugepage[[:alpha:]]",
            "/proc/sys/vm/*_*page*",
            "/proc/sys/vm/nr\\_hugepages",
        ] {
            assert!(covers_path(pattern, pool), "{pattern}");
        }
        for pattern in [
            "/proc/sys/vm/*x",
            "/proc/*",
            "/proc/sys/vm/nr_hugepage",
            "/proc/sys/vm/nr_hugepages/",
            "/proc/sys/vm/nr_hugepage[!s]",
            "/proc/sys/vm/nr_hugepage[^a-z]",
            "/proc/sys/vm/nr_hugepages[",
            "/proc/sys/vm/nr_hugepages?",
        ] {
            assert!(!covers_path(pattern, pool), "{pattern}");
        }
    }

    #[test]
    fn braces_have_alternatives() {
        assert_eq!(expand_braces("a{b,c{d,e}}f"), ["abf", "acdf", "acef"]);
        assert_eq!(expand_braces("{a,b}{c,d}"), ["ac", "ad", "bc", "bd"]);
        for plain in ["a{b", "a}b", "a\\{b,c}", ""] {
            assert_eq!(expand_braces(plain), [plain]);
        }
        assert!(expand_braces(&"{a,b}".repeat(40)).len() <= MOST_ALTERNATIVES);
    }

    proptest! {
        #[test]
        fn alternatives_are_bounded_and_cover_themselves(pattern in "[\\]\\[*?{},\\\\!^a-c:/é\\-]{0,30}") {
            let all = expand_braces(&pattern);
            prop_assert!((1..=MOST_ALTERNATIVES).contains(&all.len()));
            for one in &all {
                prop_assert!(covers_path(one, one));
            }
        }

        #[test]
        fn a_name_covers_itself(name in "/[a-z_/.0-9]{0,20}") {
            prop_assert!(covers_path(&name, &name));
        }
    }
}
