//! Making steps without knowing the machine.

use hugewise_diagnose::wording::ONLY_POOL;
use hugewise_engines::all_restarters;
use hugewise_model::{InstanceId, PageSize, RuleId};

use super::{
    Change, CommandChange, EffectTime, ExpectedResolution, FileChange, FileContent, FileHolds,
    FileMode, NewFile, PoolRef, Risk, Step, ValueChange,
};

impl Step {
    /// A step of the host, without changes.
    pub fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        risk: Risk,
        why: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            risk,
            why: why.into(),
            instance: None,
            relies_on: Vec::new(),
            expects: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// For this instance.
    #[must_use]
    pub fn for_instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Done only where that step was done whole.
    #[must_use]
    pub fn relies_on(mut self, step: impl Into<String>) -> Self {
        self.relies_on.push(step.into());
        self
    }

    /// Expects this finding to end, about the step's own instance.
    #[must_use]
    pub fn expect_resolution(mut self, code: &str, name: &str, when: EffectTime) -> Self {
        self.expects.push(ExpectedResolution {
            code: code.into(),
            name: name.into(),
            instance: self.instance.clone(),
            when,
        });
        self
    }

    /// Whether it restarts a server.
    pub fn is_restart(&self) -> bool {
        let restarts =
            |change: &Change| matches!(change, Change::Command(command) if command.is_restart());
        self.changes.iter().any(restarts)
    }

    /// Changes this too.
    #[must_use]
    pub fn with_change(mut self, change: impl Into<Change>) -> Self {
        self.changes.push(change.into());
        self
    }
}

impl ExpectedResolution {
    /// Whether this is about what a rule says of an instance, or of the host.
    pub fn is_about(&self, code: RuleId, instance: Option<&InstanceId>) -> bool {
        let same = match (&self.instance, instance) {
            (Some(title), Some(id)) => id.is_titled(title),
            (None, None) => true,
            _ => false,
        };
        same && self.code == code.as_str()
    }
}

impl ValueChange {
    /// A kernel value is set.
    pub fn new(path: impl Into<String>, after: impl Into<String>) -> Self {
        Self { path: path.into(), before: None, after: after.into(), pool: None }
    }

    /// Whether it is the pool of a kernel without pools by size.
    pub(crate) fn is_only_pool(&self) -> bool {
        self.path == ONLY_POOL && self.pool.is_some_and(|pool| pool.node.is_none())
    }

    /// A pool is given this many pages.
    pub fn for_pool(pool: PoolRef, pages: u64) -> Self {
        let path = format!("{}/nr_hugepages", pool.sysfs_folder());
        Self { path, before: None, after: pages.to_string(), pool: Some(pool) }
    }

    /// The same on a kernel with huge pages of one size alone: its pool is vm.nr_hugepages.
    pub(crate) fn only_pool(page_size: PageSize, pages: u64) -> Self {
        let pool = Some(PoolRef { page_size, node: None });
        Self { path: ONLY_POOL.to_owned(), before: None, after: pages.to_string(), pool }
    }
}

impl FileChange {
    /// A file of root's, mode 0644; [`crate::prepare_plan`] keeps those of one that is there.
    pub fn write(path: impl Into<String>, text: impl Into<String>) -> Self {
        let content = FileContent::Text(text.into());
        let after = NewFile { content, mode: FileMode(0o644), uid: 0, gid: 0 };
        Self { path: path.into(), before: None, after: Some(after) }
    }

    /// With this owner and these permissions, where the file is not there yet.
    #[must_use]
    pub fn owned_by(mut self, uid: u32, gid: u32, mode: u32) -> Self {
        if let Some(after) = &mut self.after {
            (after.uid, after.gid, after.mode) = (uid, gid, FileMode(mode & 0o7777));
        }
        self
    }

    /// A file goes.
    pub fn remove(path: impl Into<String>) -> Self {
        Self { path: path.into(), before: None, after: None }
    }
}

impl CommandChange {
    /// A command without undo.
    pub fn new<A: Into<String>>(
        command: impl IntoIterator<Item = A>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            undo: None,
            undo_last: false,
            user: None,
            why: why.into(),
            files: Vec::new(),
            unless: None,
        }
    }

    pub(crate) fn is_restart(&self) -> bool {
        let words: Vec<&str> = self.command.iter().map(String::as_str).collect();
        match words.as_slice() {
            [_, "restart", _] => true,
            [_, arguments @ ..] => all_restarters().any(|restarter| (restarter.allows)(arguments)),
            [] => false,
        }
    }

    /// Taken back by this, while the files and values of its step still stand.
    #[must_use]
    pub fn undone_by<A: Into<String>>(mut self, undo: impl IntoIterator<Item = A>) -> Self {
        self.undo = Some(undo.into_iter().map(Into::into).collect());
        self
    }

    /// Taken back by itself after its step's files and values: it regenerates its files.
    #[must_use]
    pub fn undone_by_itself(mut self) -> Self {
        self.undo = Some(self.command.clone());
        self.undo_last = true;
        self
    }

    /// Runs as this account.
    #[must_use]
    pub fn as_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// It rewrites this file.
    #[must_use]
    pub fn with_rewritten_file(mut self, path: impl Into<String>) -> Self {
        self.files.push(path.into());
        self
    }

    /// It need not run where that file has that line.
    #[must_use]
    pub fn unless_file_holds(mut self, path: impl Into<String>, line: impl Into<String>) -> Self {
        self.unless = Some(FileHolds { path: path.into(), line: line.into() });
        self
    }
}

impl From<ValueChange> for Change {
    fn from(change: ValueChange) -> Self {
        Self::Value(change)
    }
}

impl From<FileChange> for Change {
    fn from(change: FileChange) -> Self {
        Self::File(change)
    }
}

impl From<CommandChange> for Change {
    fn from(change: CommandChange) -> Self {
        Self::Command(change)
    }
}
