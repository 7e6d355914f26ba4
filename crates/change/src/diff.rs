//! Differences as people read them: unified diffs.

use std::fmt::{self, Write};

use hugewise_model::escape::{diff as escape, plain};
use similar::{ChangeTag, TextDiff};

use crate::plan::{FileContent, FileState, NewFile};

const CONTEXT: usize = 3;

/// One file or value that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDifference {
    /// Its path.
    pub path: String,
    /// A unified diff from what should be there to what is there.
    pub diff: String,
}

impl fmt::Display for StateDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.diff.trim_end_matches('\n'))
    }
}

/// The unified diff of two texts, for people to read; empty where they are the same. `None` is no
/// file. No path or line can make one that reads like another's, and what acts on a terminal is
/// escaped.
pub fn unified_diff(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    let name = |text: Option<&str>, side: &str| match text {
        Some(_) => format!("{side}{}", escape::escape_diff_path(path)),
        None => "/dev/null".to_owned(),
    };
    let (old_lines, new_lines) = (split_diff_lines(old), split_diff_lines(new));
    let diff = TextDiff::from_slices(&old_lines, &new_lines);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let line = change.value();
            let _ = writeln!(
                text,
                "{sign}{}",
                escape::escape_diff_line(sign, line.strip_suffix('\n').unwrap_or(line))
            );
            if !line.ends_with('\n') {
                text.push_str("\\ No newline at end of file\n");
            }
        }
    }
    if text.is_empty() && old.is_some() == new.is_some() {
        return text;
    }
    format!("--- {}\n+++ {}\n{text}", name(old, "a"), name(new, "b"))
}

/// Lines as diff(1) has them: a line feed ends one, and nothing else does.
fn split_diff_lines(text: Option<&str>) -> Vec<&str> {
    text.unwrap_or_default().split_inclusive('\n').collect()
}

/// The unified diff of two values of one line.
pub fn of_values(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    let line = |value: Option<&str>| value.map(|value| format!("{}\n", plain::escape_line(value)));
    unified_diff(path, line(old).as_deref(), line(new).as_deref())
}

/// A file's bytes, owner and permissions, however it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileView<'a> {
    content: &'a FileContent,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl<'a> From<&'a FileState> for FileView<'a> {
    fn from(file: &'a FileState) -> Self {
        Self { content: &file.content, mode: file.mode.0, uid: file.uid, gid: file.gid }
    }
}

impl<'a> From<&'a NewFile> for FileView<'a> {
    fn from(file: &'a NewFile) -> Self {
        Self { content: &file.content, mode: file.mode.0, uid: file.uid, gid: file.gid }
    }
}

impl FileView<'_> {
    fn content_text(&self) -> String {
        match self.content {
            FileContent::Text(text) => text.clone(),
            FileContent::Base64(bytes) => format!("{} bytes that are not text\n", bytes.0.len()),
        }
    }
}

/// The unified diff of two files, with a line where owner or permissions differ.
pub fn of_files(path: &str, old: Option<FileView<'_>>, new: Option<FileView<'_>>) -> String {
    let (from, to) = (old.map(|file| file.content_text()), new.map(|file| file.content_text()));
    let mut text = unified_diff(path, from.as_deref(), to.as_deref());
    if let (Some(old), Some(new)) = (old, new) {
        if text.is_empty() && old.content != new.content {
            let path = escape::escape_diff_path(path);
            text = format!("--- a{path}\n+++ b{path}\nother bytes of the same number\n");
        }
        if (old.mode, old.uid, old.gid) != (new.mode, new.uid, new.gid) {
            let line = |file: FileView<'_>| {
                format!("mode {:04o} owner {}:{}", file.mode, file.uid, file.gid)
            };
            text.push_str(&format!(
                "{}: {} -> {}\n",
                escape::escape_diff_path(path),
                line(old),
                line(new)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Base64, FileMode};

    #[test]
    fn a_diff_is_as_diff_u_has_it() {
        // `diff -u` of the two files says so.
        assert_eq!(
            unified_diff("/etc/x", Some("a\nb\nc\n"), Some("a\nB\nc\n")),
            "--- a/etc/x\n+++ b/etc/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        );
        assert_eq!(
            unified_diff("/etc/x", None, Some("a\n")),
            "--- /dev/null\n+++ b/etc/x\n@@ -0,0 +1 @@\n+a\n"
        );
        assert_eq!(
            unified_diff("/etc/x", Some("a\n"), None),
            "--- a/etc/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
        );
        assert_eq!(unified_diff("/etc/x", Some(""), None), "--- a/etc/x\n+++ /dev/null\n");
        assert_eq!(unified_diff("/etc/x", Some("a\n"), Some("a\n")), "");
        assert!(
            of_values("/proc/sys/vm/x", Some("1"), Some("2")).ends_with("@@ -1 +1 @@\n-1\n+2\n")
        );
    }

    #[test]
    fn neither_a_path_nor_a_line_forges_a_line() {
        let forged = "\n--- a/etc/sudoers\n+++ b/etc/sudoers\r\u{2028}\u{85}\u{202e}\x1b[2J";
        let path = format!("/srv/conf.d{forged}");
        let content = format!(
            "-- a/etc/shadow\n++ b/etc/shadow\n@@ -1 +1 @@{}\n",
            forged.replace('\n', "\r")
        );
        for text in [
            unified_diff(&path, Some(&content), Some("++ b/etc/shadow\n")),
            unified_diff(&path, None, Some(&content)),
            of_values(&path, Some(forged), Some(&path)),
        ] {
            let lines: Vec<&str> = text.split('\n').collect();
            let count_of =
                |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
            assert_eq!((count_of("---"), count_of("+++"), count_of("@@")), (1, 1, 1), "{text}");
            assert!(lines.iter().all(|line| plain::is_clean(line)), "{text:?}");
        }
    }

    #[test]
    fn owners_permissions_and_bytes_that_are_no_text_show() {
        let file = |bytes: &[u8], mode| NewFile {
            content: FileContent::new(bytes.to_vec()),
            mode: FileMode(mode),
            uid: 0,
            gid: 0,
        };
        let (open, closed) = (file(b"a\n", 0o644), file(b"a\n", 0o600));
        let text = of_files("/etc/x", Some((&open).into()), Some((&closed).into()));
        assert_eq!(text, "/etc/x: mode 0644 owner 0:0 -> mode 0600 owner 0:0\n");
        let (one, other) = (file(&[0xff], 0o644), file(&[0xfe], 0o644));
        assert!(matches!(one.content, FileContent::Base64(Base64(_))));
        assert!(
            of_files("/etc/x", Some((&one).into()), Some((&other).into())).contains("other bytes")
        );
        assert_eq!(of_files("/etc/x", Some((&one).into()), Some((&one).into())), "");
    }
}
