//! Who has the last word on what a file would set at the next boot.

use hugewise_host::Source;
use hugewise_host::config::pattern::is_pattern;
use hugewise_host::config::{sysctl, tmpfiles};
use hugewise_host::source::Overlay;
use hugewise_model::configuration::Place;
use hugewise_model::{Host, PageSize};

use super::{Step, default_size, overcommit, pool_at_boot, setting, thp, thp_switch, with_files};
use crate::Missing;

/// One line of a file, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWord {
    /// What it sets: `vm.nr_hugepages`, or a path below /sys or /proc.
    pub what: String,
    /// What it sets it to, as it is written.
    pub value: String,
    /// Where it stands.
    pub place: Place,
    /// Whether the next boot ends with it.
    pub outcome: Outcome,
}

/// What becomes of a line at the next boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has the last word.
    Wins,
    /// Another line comes later and says the same.
    Agrees {
        /// Where that one stands.
        place: String,
    },
    /// Another line comes later and says something else.
    Loses {
        /// Where that one stands.
        place: String,
        /// What it sets.
        value: String,
    },
    /// It is not carried out: its file is hidden by another of its name, its line is refused by the program that reads it
    /// or its value by the kernel.
    Unheard,
    /// Whether it wins cannot be told.
    Unknown(Missing),
}

/// What becomes of each line of a sysctl.d or tmpfiles.d file at the next boot, if the file were there with this text
/// beside what a source has. Lines about patterns are left out; of another kind of file there are none.
pub fn last_words(host: &Host, source: &dyn Source, path: &str, text: &str) -> Vec<LastWord> {
    let mut files = Overlay::new(source);
    files.set(path, Some(text.as_bytes().to_vec()));
    let after = with_files(host, &files);
    let word = |what: &str, file: &str, value: String, place: Place| LastWord {
        outcome: outcome(&after, file, &value, &place),
        what: what.to_owned(),
        value,
        place,
    };
    if path.contains("/tmpfiles.d/") {
        let writes = tmpfiles::parse(path, text.as_bytes()).into_iter();
        let plain = writes.filter(|it| !is_pattern(&it.path));
        plain.map(|it| word(&it.path, &it.path, it.value, it.place)).collect()
    } else if path.contains("/sysctl.d/") || path == "/etc/sysctl.conf" {
        let settings = sysctl::parse(path, text.as_bytes()).into_iter();
        let plain = settings.filter(|it| !is_pattern(&it.key));
        plain.map(|it| word(&it.key, &sysctl::file_of(&it.key), it.value, it.place)).collect()
    } else {
        Vec::new()
    }
}

fn outcome(after: &Host, file: &str, value: &str, place: &Place) -> Outcome {
    let steps = match steps(after, file) {
        Ok(steps) => steps,
        Err(missing) => return Outcome::Unknown(missing),
    };
    let own = place.to_string();
    let Some(ours) = steps.iter().rposition(|step| step.place == own) else { return Outcome::Unheard };
    match steps.last() {
        Some(last) if last.place != own => {
            let same = steps.get(ours).is_some_and(|step| step.value == last.value) || last.value == value;
            let place = last.place.clone();
            if same { Outcome::Agrees { place } } else { Outcome::Loses { place, value: last.value.clone() } }
        }
        _ => Outcome::Wins,
    }
}

/// The steps that set what a file of the kernel is about.
fn steps(host: &Host, file: &str) -> Result<Vec<Step<String>>, Missing> {
    if let Some((page, node)) = pool_of(host, file) {
        // Pages of other nodes are not this node's business.
        let of_node = |other: Option<u32>| node.is_none() || other.is_none() || other == node;
        let steps = pool_at_boot(host, page)?.steps.into_iter().filter(|step| of_node(step.node));
        return Ok(steps.map(|step| Step { value: step.pages.get().to_string(), place: step.place }).collect());
    }
    if let Some(page) = overcommit_of(host, file) {
        let steps = overcommit(host, page)?.into_iter();
        return Ok(steps.map(|step| Step { value: step.value.to_string(), place: step.place }).collect());
    }
    if let Some(switch) = file.strip_prefix(host.thp.folder()).and_then(|rest| rest.strip_prefix('/')) {
        return if switch == "enabled" { thp(host) } else { thp_switch(host, switch) };
    }
    match file.strip_prefix("/proc/sys/") {
        Some(key) => setting(host, &key.replace('/', ".")),
        None => {
            let writes = super::present(&host.configuration.tmpfiles, "tmpfiles.d")?.into_iter().flatten();
            let about = writes.filter(|it| hugewise_host::config::pattern::covers(&it.path, file));
            Ok(about.map(|it| Step { value: it.value.clone(), place: it.place.to_string() }).collect())
        }
    }
}

/// The pool that a file sets, and the node where it sets that one's pages.
fn pool_of(host: &Host, file: &str) -> Option<(PageSize, Option<u32>)> {
    if matches!(file, "/proc/sys/vm/nr_hugepages" | "/proc/sys/vm/nr_hugepages_mempolicy") {
        return Some((default_size(host)?, None));
    }
    if let Some(rest) = file.strip_prefix("/sys/kernel/mm/hugepages/") {
        let (folder, name) = rest.split_once('/')?;
        return matches!(name, "nr_hugepages" | "nr_hugepages_mempolicy").then(|| Some((size(folder)?, None)))?;
    }
    let (node, rest) = file.strip_prefix("/sys/devices/system/node/node")?.split_once('/')?;
    let folder = rest.strip_prefix("hugepages/")?.strip_suffix("/nr_hugepages")?;
    Some((size(folder)?, Some(node.parse().ok()?)))
}

fn overcommit_of(host: &Host, file: &str) -> Option<PageSize> {
    if file == "/proc/sys/vm/nr_overcommit_hugepages" {
        return default_size(host);
    }
    size(file.strip_prefix("/sys/kernel/mm/hugepages/")?.strip_suffix("/nr_overcommit_hugepages")?)
}

/// `hugepages-2048kB`.
fn size(folder: &str) -> Option<PageSize> {
    PageSize::from_kib(folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?)
}
