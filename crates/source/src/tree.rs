//! A small file tree in memory: what a tar holds, or a test makes up.

use std::collections::BTreeMap;

use hugewise_model::Observed;

use super::openat2::MAX_LINKS;
use super::path_components;

/// A tree of folders, files and links.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    root: TreeNode,
    size: u64,
}

#[derive(Clone, Debug, Default)]
struct TreeNode {
    what: NodeContent,
    inside: BTreeMap<String, TreeNode>,
}

#[derive(Clone, Debug, Default)]
enum NodeContent {
    #[default]
    Folder,
    File(Observed<Vec<u8>>),
    Link(String),
    Denied,
}

enum TreeLookup<'a> {
    Folder(&'a TreeNode),
    File(&'a Observed<Vec<u8>>),
    Link(&'a str),
    Denied,
    Loop,
}

impl Tree {
    /// Adds a file, with the folders on its path.
    pub fn put_file(&mut self, path: &str, content: Observed<Vec<u8>>) {
        self.put_content(path, NodeContent::File(content));
    }

    /// Adds a symbolic link.
    pub fn put_link(&mut self, path: &str, target: &str) {
        self.put_content(path, NodeContent::Link(target.to_owned()));
    }

    /// Adds a folder, unless it exists.
    pub fn put_folder(&mut self, path: &str) {
        self.ensure_node(path).what = NodeContent::Folder;
    }

    /// Files, folders and links in it, replaced ones included.
    pub const fn node_count(&self) -> u64 {
        self.size
    }

    /// Adds something that may not be seen.
    pub fn put_denied(&mut self, path: &str) {
        self.put_content(path, NodeContent::Denied);
    }

    fn put_content(&mut self, path: &str, what: NodeContent) {
        *self.ensure_node(path) = TreeNode { what, inside: BTreeMap::new() };
    }

    fn ensure_node(&mut self, path: &str) -> &mut TreeNode {
        let Self { root, size } = self;
        path_components(path).filter(|name| *name != ".").fold(root, |folder, name| {
            folder.what = NodeContent::Folder;
            folder.inside.entry(name.to_owned()).or_insert_with(|| {
                *size += 1;
                TreeNode::default()
            })
        })
    }

    /// A whole file.
    pub fn read(&self, path: &str) -> Observed<Vec<u8>> {
        match self.find_path(path, true) {
            Some(TreeLookup::File(content)) => content.clone(),
            Some(TreeLookup::Folder(_)) => Observed::Malformed("is a folder".into()),
            Some(TreeLookup::Denied) => Observed::Denied,
            Some(TreeLookup::Loop) => Observed::Malformed("too many links".into()),
            Some(TreeLookup::Link(_)) | None => Observed::Absent,
        }
    }

    /// Names in a folder.
    pub fn list_folder(&self, path: &str) -> Observed<Vec<String>> {
        match self.find_path(path, true) {
            Some(TreeLookup::Folder(folder)) => {
                Observed::Known(folder.inside.keys().cloned().collect())
            }
            Some(TreeLookup::Denied) => Observed::Denied,
            Some(TreeLookup::Loop) => Observed::Malformed("too many links".into()),
            _ => Observed::Absent,
        }
    }

    /// Where a link points.
    pub fn read_link(&self, path: &str) -> Observed<String> {
        match self.find_path(path, false) {
            Some(TreeLookup::Link(target)) => Observed::Known(target.to_owned()),
            Some(TreeLookup::Denied) => Observed::Denied,
            Some(TreeLookup::Loop) => Observed::Malformed("too many links".into()),
            Some(_) => Observed::Malformed("no link".into()),
            None => Observed::Absent,
        }
    }

    /// Looks up a path as `chroot` would; below `/proc/PID/root` that folder is the root.
    fn find_path(&self, path: &str, follow_last: bool) -> Option<TreeLookup<'_>> {
        if let Some((root, rest)) = super::split_process_root(path)
            && let Some(TreeLookup::Folder(folder)) = walk_tree(&self.root, root, true)
        {
            return walk_tree(folder, rest, follow_last);
        }
        walk_tree(&self.root, path, follow_last)
    }
}

fn walk_tree<'a>(root: &'a TreeNode, path: &str, follow_last: bool) -> Option<TreeLookup<'a>> {
    let mut pending: Vec<&'a str> = Vec::new();
    let mut first = path_components(path).peekable();
    let mut trail = vec![root];
    let mut links = 0;
    loop {
        // A link target's names come before the rest of the path.
        let Some(name) = pending.pop().or_else(|| first.next()) else {
            return trail.last().map(|folder| TreeLookup::Folder(folder));
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
            NodeContent::Folder => trail.push(node),
            NodeContent::Denied => return Some(TreeLookup::Denied),
            NodeContent::File(content) => return last.then_some(TreeLookup::File(content)),
            NodeContent::Link(target) if last && !follow_last => {
                return Some(TreeLookup::Link(target));
            }
            NodeContent::Link(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Some(TreeLookup::Loop);
                }
                if target.starts_with('/') {
                    trail.truncate(1);
                }
                pending.extend(target.rsplit('/').filter(|name| !name.is_empty()));
            }
        }
    }
}
