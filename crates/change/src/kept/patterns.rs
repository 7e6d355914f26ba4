//! Patterns of the shell in paths, as systemd-tmpfiles takes them (glob(3)).

/// Whether a path, or a pattern of paths, is about this one.
pub(super) fn covers(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern.iter().zip(&path).all(|(pattern, name)| {
            let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
            matches(&pattern, &name)
        })
}

fn matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) if matches(rest, name) => true,
        (Some(('*', _)), Some((_, name))) => matches(pattern, name),
        (Some(('?', rest)), Some((_, name))) => matches(rest, name),
        // Of a set it is enough that one character is there: better named in vain than missed.
        (Some(('[', rest)), Some((_, name))) => {
            let end = rest.iter().position(|character| *character == ']');
            end.and_then(|end| rest.get(end + 1..)).is_some_and(|rest| matches(rest, name))
        }
        (Some((one, rest)), Some((other, name))) => one == other && matches(rest, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn patterns_are_the_shells() {
        let pool = "/proc/sys/vm/nr_hugepages";
        for pattern in [pool, "/proc/sys/vm/nr_huge*", "/proc/*/vm/nr_hugepage?", "/proc/sys/vm/nr_hugepage[s]"] {
            assert!(covers(pattern, pool), "{pattern}");
        }
        for pattern in ["/proc/sys/vm/*x", "/proc/*", "/proc/sys/vm/nr_hugepage", "/proc/sys/vm/nr_hugepages/"] {
            assert!(!covers(pattern, pool), "{pattern}");
        }
    }
}
