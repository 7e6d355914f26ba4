//! The files that hugewise makes: where they lie, how they begin, and how a later plan adds to them.

use hugewise_engines::settable::Settable;
use hugewise_host::Source;
use hugewise_model::Observed;
use hugewise_model::escape::plain;
use hugewise_model::observed::Reason;

/// How each of these files begins that apply writes.
pub const HEADER: &str = "# Made by hugewise. To undo: hugewise undo\n";
/// How each begins, whoever wrote it: behind it stands how it is taken back.
const MADE: &str = "# Made by hugewise. To undo: ";

pub use hugewise_advice::boot::ours::{SYSCTL_POOL, TMPFILES_POOLS};
/// sysctl.d: vm.hugetlb_shm_group.
pub const SYSCTL_SHM_GROUP: &str = "/etc/sysctl.d/zz-hugewise-shm-group.conf";
/// sysctl.d: kernel.shmmax, kernel.shmall.
pub const SYSCTL_SHM_LIMITS: &str = "/etc/sysctl.d/zz-hugewise-shm-limits.conf";
/// sysctl.d: vm.nr_overcommit_hugepages.
pub const SYSCTL_OVERCOMMIT: &str = "/etc/sysctl.d/zz-hugewise-overcommit.conf";
/// tmpfiles.d: transparent huge pages.
pub const TMPFILES_THP: &str = "/etc/tmpfiles.d/00-hugewise-thp.conf";
/// tmpfiles.d: pages beyond the pools of other page sizes.
pub const TMPFILES_OVERCOMMIT: &str = "/etc/tmpfiles.d/00-hugewise-overcommit.conf";
/// limits.d: memlock of logins.
pub const LIMITS: &str = "/etc/security/limits.d/zz-hugewise.conf";
/// GRUB's defaults, on distributions whose grub-mkconfig reads this folder.
pub const GRUB: &str = "/etc/default/grub.d/zz-hugewise.cfg";
/// The TuneD profile that includes the one that was active.
pub const TUNED_PROFILE: &str = "hugewise";
/// Bare name of drop-ins, without their ending.
const DROP_IN: &str = "zz-hugewise";

/// The drop-in of a systemd unit.
pub fn unit_drop_in(unit: &str) -> String {
    format!("/etc/systemd/system/{unit}.d/{DROP_IN}.conf")
}

/// Bare name of drop-ins for servers of a kind.
pub(crate) fn of_server(settable: &Settable) -> String {
    format!("{DROP_IN}.{}", settable.ending)
}

/// One of these files as others than apply write it: there is nothing then for `hugewise undo` to undo, and `how` says
/// what to do instead, on one line. Nothing for a text that is none of these files.
pub fn taken_back_by(text: &str, how: &str) -> Option<String> {
    text.strip_prefix(HEADER).map(|rest| format!("{MADE}{}\n{rest}", plain::clean(how)))
}

/// Whether a file that is there is one of these with the same settings, whoever wrote it.
pub(super) fn is_same(there: &[u8], text: &str) -> bool {
    there == text.as_bytes() || settings(there).is_some_and(|there| settings(text.as_bytes()) == Some(there))
}

/// What stands below the heading of one of these files.
fn settings(file: &[u8]) -> Option<&[u8]> {
    let rest = file.strip_prefix(MADE.as_bytes())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    rest.get(end..)
}

/// Why a file of ours cannot be written where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Taken {
    #[error("{0} is a symbolic link")]
    Link(String),
    #[error("{0} already exists, and hugewise did not make it")]
    Foreign(String),
    #[error("{path}: {why}")]
    Unread { path: String, why: Reason },
}

/// A file that a plan writes: it is not there, or hugewise made it.
///
/// # Errors
/// Somebody else's file has that name, or it cannot be read: it is left alone.
pub(super) fn present(source: &dyn Source, path: &str) -> Result<Option<Vec<u8>>, Taken> {
    if source.link(path).is_known() {
        return Err(Taken::Link(path.to_owned()));
    }
    match source.read(path) {
        Observed::Known(bytes) if bytes.starts_with(MADE.as_bytes()) => Ok(Some(bytes)),
        Observed::Known(_) => Err(Taken::Foreign(path.to_owned())),
        Observed::Absent => Ok(None),
        Observed::Denied => Err(Taken::Unread { path: path.to_owned(), why: Reason::Denied }),
        Observed::Malformed(why) => Err(Taken::Unread { path: path.to_owned(), why: Reason::Malformed(why) }),
    }
}

/// The lines of one of our files that stay when others are set: all but comments and those that `replaced` names.
pub(super) fn kept_lines(bytes: Option<&[u8]>, replaced: impl Fn(&str) -> bool) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    lines.filter(|line| !replaced(line)).map(str::to_owned).collect()
}

/// A file of ours of these lines.
pub(super) fn file(lines: &[String]) -> String {
    lines.iter().fold(HEADER.to_owned(), |text, line| text + line + "\n")
}

/// sysctl.d with these keys set and the other keys of the file kept.
pub(super) fn sysctl(source: &dyn Source, path: &str, settings: &[(String, String)]) -> Result<String, Taken> {
    let key_of = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_owned());
    let lines = settings.iter().map(|(name, value)| (name.as_str(), format!("{name} = {value}")));
    with_lines(source, path, key_of, lines.collect())
}

/// A sysctl.d file of ours without this key; none where it is not ours or does not have it.
pub(super) fn sysctl_without(source: &dyn Source, path: &str, key: &str) -> Option<String> {
    let there = present(source, path).ok()??;
    let sets_it = |line: &str| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
    let (all, kept) = (kept_lines(Some(&there), |_| false), kept_lines(Some(&there), sets_it));
    (kept.len() < all.len()).then(|| file(&kept))
}

/// tmpfiles.d with these values written and the other lines of the file kept.
pub(super) fn tmpfiles(source: &dyn Source, path: &str, writes: &[(String, String)]) -> Result<String, Taken> {
    let path_of = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let lines = writes.iter().map(|(target, value)| (target.as_str(), format!("w {target} - - - - {value}")));
    with_lines(source, path, path_of, lines.collect())
}

/// One of our files with these lines, each under what it sets: in the place of one that sets the same, so that a
/// second plan finds the file as the first one left it, or at the end.
fn with_lines(
    source: &dyn Source,
    path: &str,
    sets: impl Fn(&str) -> Option<String>,
    mut new: Vec<(&str, String)>,
) -> Result<String, Taken> {
    let mut lines = kept_lines(present(source, path)?.as_deref(), |_| false);
    for line in &mut lines {
        let same = sets(line).and_then(|what| new.iter().position(|(of, _)| *of == what));
        if let Some(at) = same {
            *line = new.remove(at).1;
        }
    }
    lines.extend(new.into_iter().map(|(_, line)| line));
    Ok(file(&lines))
}
