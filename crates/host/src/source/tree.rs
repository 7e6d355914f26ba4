//! A small file tree in memory: what a tar holds, and what a test makes up.

use std::collections::BTreeMap;

use hugewise_model::Observed;

use super::names;

/// Links followed in one look-up before it counts as a loop, as in the kernel.
const MAX_LINKS: u32 = 40;

/// A tree of folders, files and links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    root: Node,
    /// Files, folders and links that were put.
    size: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    what: What,
    inside: BTreeMap<String, Node>,
}

#[derive(Clone, Debug, Default)]
enum What {
    #[default]
    Folder,
    File(Observed<Vec<u8>>),
    Link(String),
    Denied,
}

/// What stands at the end of a path.
enum Found<'a> {
    Folder(&'a Node),
    File(&'a Observed<Vec<u8>>),
    Link(&'a str),
    Denied,
    Loop,
}

impl Tree {
    /// Puts a file there; folders on the way come by themselves.
    pub(crate) fn put_file(&mut self, path: &str, content: Observed<Vec<u8>>) {
        self.put(path, What::File(content));
    }

    /// Puts a symbolic link there.
    pub(crate) fn put_link(&mut self, path: &str, target: &str) {
        self.put(path, What::Link(target.to_owned()));
    }

    /// Makes a folder; one that is there stays as it is.
    pub(crate) fn put_folder(&mut self, path: &str) {
        self.node(path).what = What::Folder;
    }

    /// Files, folders and links in it, and those that others replaced.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Whatever is there may not be seen.
    pub(crate) fn put_denied(&mut self, path: &str) {
        self.put(path, What::Denied);
    }

    fn put(&mut self, path: &str, what: What) {
        *self.node(path) = Node { what, inside: BTreeMap::new() };
    }

    /// The node there; it and the folders on the way come by themselves.
    fn node(&mut self, path: &str) -> &mut Node {
        let Self { root, size } = self;
        names(path).filter(|name| *name != ".").fold(root, |folder, name| {
            folder.what = What::Folder;
            folder.inside.entry(name.to_owned()).or_insert_with(|| {
                *size += 1;
                Node::default()
            })
        })
    }

    /// A whole file.
    pub(crate) fn read(&self, path: &str) -> Observed<Vec<u8>> {
        match self.find(path, true) {
            Some(Found::File(content)) => content.clone(),
            Some(Found::Folder(_)) => Observed::Malformed("is a folder".into()),
            Some(Found::Denied) => Observed::Denied,
            Some(Found::Loop) => Observed::Malformed("too many links".into()),
            Some(Found::Link(_)) | None => Observed::Absent,
        }
    }

    /// Names in a folder.
    pub(crate) fn list(&self, path: &str) -> Observed<Vec<String>> {
        match self.find(path, true) {
            Some(Found::Folder(folder)) => Observed::Known(folder.inside.keys().cloned().collect()),
            Some(Found::Denied) => Observed::Denied,
            Some(Found::Loop) => Observed::Malformed("too many links".into()),
            _ => Observed::Absent,
        }
    }

    /// Where a link points.
    pub(crate) fn link(&self, path: &str) -> Observed<String> {
        match self.find(path, false) {
            Some(Found::Link(target)) => Observed::Known(target.to_owned()),
            Some(Found::Denied) => Observed::Denied,
            Some(Found::Loop) => Observed::Malformed("too many links".into()),
            Some(_) => Observed::Malformed("no link".into()),
            None => Observed::Absent,
        }
    }

    /// Looks a path up as `chroot` would; below `/proc/PID/root` that folder is the root.
    fn find(&self, path: &str, follow_last: bool) -> Option<Found<'_>> {
        if let Some((root, rest)) = super::split_process_root(path)
            && let Some(Found::Folder(folder)) = walk(&self.root, root, true)
        {
            return walk(folder, rest, follow_last);
        }
        walk(&self.root, path, follow_last)
    }
}

fn walk<'a>(root: &'a Node, path: &str, follow_last: bool) -> Option<Found<'a>> {
    let mut pending: Vec<&'a str> = Vec::new();
    let mut first = names(path).peekable();
    let mut trail = vec![root];
    let mut links = 0;
    loop {
        // Names of a link's target come before what is left of the path itself.
        let Some(name) = pending.pop().or_else(|| first.next()) else {
            return trail.last().map(|folder| Found::Folder(folder));
        };
        match name {
            "." => continue,
            ".." => {
                if trail.len() > 1 {
                    trail.pop();
                }
                continue;
            }
            _ => {}
        }
        let last = pending.is_empty() && first.peek().is_none();
        let node = trail.last()?.inside.get(name)?;
        match &node.what {
            What::Folder => trail.push(node),
            What::Denied => return Some(Found::Denied),
            What::File(content) => return last.then_some(Found::File(content)),
            What::Link(target) if last && !follow_last => return Some(Found::Link(target)),
            What::Link(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Some(Found::Loop);
                }
                if target.starts_with('/') {
                    trail.truncate(1);
                }
                pending.extend(target.rsplit('/').filter(|name| !name.is_empty()));
            }
        }
    }
}
