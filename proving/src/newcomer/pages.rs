//! The commands that a document tells its reader to type, in their order.

use std::fs;

use hugewise_testkit::tools::{Failure, shell};

/// What begins a line of a code block.
const INDENT: &str = "    ";

/// The commands under that heading of a document, up to the next heading; the document's title
/// stands for what comes before all others.
pub(super) fn commands(page: &str, heading: &str) -> Result<Vec<String>, Failure> {
    let path = shell::root().join(page);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found =
        under(&text, heading).ok_or_else(|| format!("{page} has no heading `{heading}`"))?;
    if found.is_empty() {
        Err(format!("{page}, `{heading}`: no commands").into())
    } else {
        Ok(found)
    }
}

fn under(text: &str, heading: &str) -> Option<Vec<String>> {
    let is_heading = |line: &&str| line.starts_with('#');
    let mut lines = text
        .lines()
        .skip_while(|line| !(is_heading(line) && line.trim_start_matches('#').trim() == heading));
    lines.next()?;
    let mut found = Vec::new();
    // A block whose first line begins with a prompt shows what is printed, up to the next line of
    // text.
    let (mut within, mut sample) = (false, false);
    for line in lines.take_while(|line| !is_heading(line)) {
        let Some(code) = line.strip_prefix(INDENT) else {
            within &= line.trim().is_empty();
            continue;
        };
        sample = if within { sample } else { code.starts_with("$ ") };
        within = true;
        if !sample {
            found.push(code.split("  #").next().unwrap_or(code).trim().to_owned());
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_the_blocks_of_a_heading_without_samples_and_remarks() {
        let text = "# Title\n\n    one  # said of it\n    two --three\n\nText.\n\n    $ \
             four\n    output\n\n    more\n\n## Next\n\n    five\n\n## Last\n";
        assert_eq!(under(text, "Title").unwrap(), ["one", "two --three"]);
        assert_eq!(under(text, "Next").unwrap(), ["five"]);
        assert_eq!(under(text, "Last").unwrap(), [] as [&str; 0]);
        assert_eq!(under(text, "Other"), None);
    }
}
