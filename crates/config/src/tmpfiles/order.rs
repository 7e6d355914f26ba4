//! Which lines are carried out, and in which order.

use std::collections::HashMap;

use hugewise_model::configuration::TmpfilesWrite;

use super::{OF_PATTERNS, TmpfilesItem};
use crate::pattern::expand_braces;

/// Types of lines that are not about whose a path is; any number of them may name one path.
const OWNING_NOTHING: &str = "tTaAhHzZm";

/// A node by another name: /sys/bus has links.
const NODES: (&str, &str) = ("/sys/bus/node/devices/", "/sys/devices/system/node/");

#[derive(Default)]
struct Same {
    items: Vec<TmpfilesItem>,
    owner: Option<usize>,
    /// Whether all that own it are `w+`.
    all_append: bool,
    /// Whether one that owns it says something else than the first.
    differ: bool,
}

impl Same {
    /// systemd-tmpfiles takes a second line that says the same, and a `w+` beside others.
    fn add_item(&mut self, item: TmpfilesItem) {
        let owns = !OWNING_NOTHING.contains(item.kind);
        let appends = item.kind == 'w' && item.plus;
        let owner = self.owner.and_then(|at| self.items.get(at));
        let says_the_same = owner.is_none_or(|owner| {
            owner.argument == item.argument && owner.attributes == item.attributes && !self.differ
        });
        if owns && !says_the_same && !(appends && self.all_append) {
            return;
        }
        if owns {
            self.all_append = appends && (owner.is_none() || self.all_append);
            self.differ |= !says_the_same;
            self.owner = self.owner.or(Some(self.items.len()));
        }
        self.items.push(item);
    }
}

#[derive(Default)]
struct Paths {
    places: HashMap<String, usize>,
    all: Vec<Same>,
}

impl Paths {
    fn add_item(&mut self, item: TmpfilesItem) {
        let at = *self.places.entry(item.path.clone()).or_insert(self.all.len());
        if at == self.all.len() {
            self.all.push(Same::default());
        }
        if let Some(same) = self.all.get_mut(at) {
            same.add_item(item);
        }
    }
}

pub(super) fn resolve_writes(items: Vec<TmpfilesItem>) -> Vec<TmpfilesWrite> {
    let (mut files, mut patterns) = (Paths::default(), Paths::default());
    for item in items {
        if OF_PATTERNS.contains(item.kind) { patterns.add_item(item) } else { files.add_item(item) }
    }
    let mut writes = Vec::new();
    for item in files.all.into_iter().flat_map(|same| same.items) {
        // A file that is there keeps what it has, unless it is to be emptied first.
        // No file of the kernel has such characters in its name, and here they make no pattern.
        let is_plain = !item.path.contains(['*', '?', '[', '\\', '{']);
        if is_plain && (item.kind == 'F' || (item.kind == 'f' && item.plus)) {
            writes.extend(write(&item.path, &item));
        }
    }
    for item in patterns.all.into_iter().flat_map(|same| same.items).filter(|item| item.kind == 'w')
    {
        if item.path.contains('{') {
            writes.extend(expand_braces(&item.path).iter().filter_map(|path| write(path, &item)));
        } else {
            writes.extend(write(&item.path, &item));
        }
    }
    writes
}

fn write(path: &str, item: &TmpfilesItem) -> Option<TmpfilesWrite> {
    let value = item.argument.as_ref().filter(|value| !value.is_empty())?;
    // systemd-tmpfiles opens no path that goes up.
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let path = match path.strip_prefix(NODES.0) {
        Some(rest) => format!("{}{rest}", NODES.1),
        None => path.to_owned(),
    };
    Some(TmpfilesWrite { path, value: value.clone(), place: item.place.clone() })
}
