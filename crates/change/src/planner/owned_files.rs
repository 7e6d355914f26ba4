//! The files that hugewise makes: where they lie, how they begin, how a later plan adds to them.

use hugewise_engines::settable::Settable;
use hugewise_host::Source;
use hugewise_model::escape::plain;
use hugewise_model::observed::Reason;

/// How each of these files begins that apply writes.
pub(crate) const HEADER: &str = "# Made by hugewise. To undo: hugewise undo\n";
/// How each begins, whoever wrote it: behind it stands how it is taken back.
const MADE: &str = "# Made by hugewise. To undo: ";

pub(crate) use hugewise_diagnose::boot::overruling::{SYSCTL_POOL, TMPFILES_POOLS};
pub(crate) const SYSCTL_SHM_GROUP: &str = "/etc/sysctl.d/zz-hugewise-shm-group.conf";
pub(crate) const SYSCTL_SHM_LIMITS: &str = "/etc/sysctl.d/zz-hugewise-shm-limits.conf";
pub(crate) const SYSCTL_OVERCOMMIT: &str = "/etc/sysctl.d/zz-hugewise-overcommit.conf";
pub(crate) const TMPFILES_THP: &str = "/etc/tmpfiles.d/00-hugewise-thp.conf";
pub(crate) const TMPFILES_OVERCOMMIT: &str = "/etc/tmpfiles.d/00-hugewise-overcommit.conf";
pub(crate) const LIMITS: &str = "/etc/security/limits.d/zz-hugewise.conf";
/// GRUB's defaults, on distributions whose grub-mkconfig reads this folder.
pub(crate) const GRUB: &str = "/etc/default/grub.d/zz-hugewise.cfg";
/// The TuneD profile that includes the one that was active.
pub(crate) const TUNED_PROFILE: &str = "hugewise";
const DROP_IN: &str = "zz-hugewise";

pub(crate) fn unit_drop_in(unit: &str) -> String {
    format!("/etc/systemd/system/{unit}.d/{DROP_IN}.conf")
}

pub(crate) fn of_server(settable: &Settable) -> String {
    format!("{DROP_IN}.{}", settable.ending)
}

/// One of these files as others than apply write it: `how`, on one line, takes the place of
/// `hugewise undo`. `None` for a text that is none of these files.
pub fn taken_back_by(text: &str, how: &str) -> Option<String> {
    text.strip_prefix(HEADER).map(|rest| format!("{MADE}{}\n{rest}", plain::escape_line(how)))
}

/// Whether a file that is there is one of these with the same settings, whoever wrote it.
pub(super) fn is_same(there: &[u8], text: &str) -> bool {
    there == text.as_bytes()
        || settings_below_header(there)
            .is_some_and(|there| settings_below_header(text.as_bytes()) == Some(there))
}

fn settings_below_header(file: &[u8]) -> Option<&[u8]> {
    let rest = file.strip_prefix(MADE.as_bytes())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    rest.get(end..)
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OwnedFileError {
    #[error("{0} is a symbolic link")]
    Link(String),
    #[error("{0} already exists, and hugewise did not make it")]
    Foreign(String),
    #[error("{path}: {why}")]
    Unread { path: String, why: Reason },
}

/// `None` where it is not there. Somebody else's file, or an unreadable one, is an error.
pub(super) fn read_owned_file(
    source: &dyn Source,
    path: &str,
) -> Result<Option<Vec<u8>>, OwnedFileError> {
    if source.read_link(path).is_known() {
        return Err(OwnedFileError::Link(path.to_owned()));
    }
    let unread = |why| OwnedFileError::Unread { path: path.to_owned(), why };
    match source.read(path).into_present().map_err(unread)? {
        Some(bytes) if !bytes.starts_with(MADE.as_bytes()) => {
            Err(OwnedFileError::Foreign(path.to_owned()))
        }
        there => Ok(there),
    }
}

/// All but comments and those that `replaced` names.
pub(super) fn kept_lines(bytes: Option<&[u8]>, replaced: impl Fn(&str) -> bool) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let lines =
        text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    lines.filter(|line| !replaced(line)).map(str::to_owned).collect()
}

pub(super) fn render_owned_file(lines: &[String]) -> String {
    lines.iter().fold(HEADER.to_owned(), |text, line| text + line + "\n")
}

pub(super) fn merge_sysctl_settings(
    source: &dyn Source,
    path: &str,
    settings: &[(String, String)],
) -> Result<String, OwnedFileError> {
    let key_of = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_owned());
    let lines = settings.iter().map(|(name, value)| (name.as_str(), format!("{name} = {value}")));
    with_lines(source, path, key_of, lines.collect())
}

/// `None` where the file is not ours or does not have the key.
pub(super) fn sysctl_without(source: &dyn Source, path: &str, key: &str) -> Option<String> {
    let there = read_owned_file(source, path).ok()??;
    let sets_it = |line: &str| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
    let (all, kept) = (kept_lines(Some(&there), |_| false), kept_lines(Some(&there), sets_it));
    (kept.len() < all.len()).then(|| render_owned_file(&kept))
}

pub(super) fn merge_tmpfiles_writes(
    source: &dyn Source,
    path: &str,
    writes: &[(String, String)],
) -> Result<String, OwnedFileError> {
    let path_of = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let lines = writes
        .iter()
        .map(|(target, value)| (target.as_str(), format!("w {target} - - - - {value}")));
    with_lines(source, path, path_of, lines.collect())
}

/// Each takes the place of a line that sets the same, so that a second plan finds the file as the
/// first one left it; others go to the end.
fn with_lines(
    source: &dyn Source,
    path: &str,
    sets: impl Fn(&str) -> Option<String>,
    mut new: Vec<(&str, String)>,
) -> Result<String, OwnedFileError> {
    let mut lines = kept_lines(read_owned_file(source, path)?.as_deref(), |_| false);
    for line in &mut lines {
        let same = sets(line).and_then(|what| new.iter().position(|(text, _)| *text == what));
        if let Some(at) = same {
            *line = new.remove(at).1;
        }
    }
    lines.extend(new.into_iter().map(|(_, line)| line));
    Ok(render_owned_file(&lines))
}
