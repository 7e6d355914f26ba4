//! `hugewise plan --format cloud-init`: a cloud-config for hosts that are about to be made.

use hugewise_change::plan::{Change, FileChange, NewFile, Plan};

use super::{
    Unwritable, about, by_hand, command_words, comment, header, plain_text, tools, word, writable, written, yaml,
};

/// The plan as user data. `force` writes one that says itself that it should not be applied.
///
/// Values are set before any server starts, files are written next, commands run last. At later boots the files
/// speak.
///
/// # Errors
/// Where it should not be applied, or has text that no script should have.
pub fn cloud_init(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    writable(plan, force)?;
    let mut text = String::from("#cloud-config\n");
    text += &header(plan, "User data for hosts like it: done once, at an instance's first boot.");
    for step in &plan.steps {
        text += &comment("", &about(step));
    }
    // Beside user data that has these lists too, they are joined.
    text +=
        "merge_how:\n  - {name: list, settings: [append]}\n  - {name: dict, settings: [no_replace, recurse_list]}\n";
    let mut commands = Commands { plan, force, anchored: false, next: 1 };
    let boot = commands.values()?;
    let files = files(plan)?;
    let run = commands.rest()?;
    for (section, entries) in [("bootcmd", boot), ("write_files", files), ("runcmd", run)] {
        if !entries.is_empty() {
            text += &format!("{section}:\n{entries}");
        }
    }
    text += &by_hand(plan);
    Ok(text)
}

/// cloud-init knows owners by name alone: another's files are given to them by number afterwards.
fn files(plan: &Plan) -> Result<String, Unwritable> {
    let mut text = String::new();
    for (FileChange { path, .. }, NewFile { content, mode, .. }) in written(plan) {
        word(path)?;
        text += &format!("  - path: {}\n", yaml::quoted(path));
        text += &format!("    owner: root:root\n    permissions: \"{mode}\"\n");
        text += &match plain_text(content) {
            Some(body) => format!("    content: {}\n", yaml::text(body, 6)),
            None => {
                format!("    encoding: b64\n    content: {}\n", yaml::quoted(&super::base64(content.bytes())))
            }
        };
    }
    Ok(text)
}

struct Commands<'a> {
    plan: &'a Plan,
    force: bool,
    /// Whether the tools stand in the text already.
    anchored: bool,
    next: usize,
}

impl Commands<'_> {
    /// Every boot runs bootcmd; what is set there once is not set again over what somebody set meanwhile.
    fn values(&mut self) -> Result<String, Unwritable> {
        let mut text = String::new();
        for (at, (_, change)) in self.plan.changes().enumerate() {
            if let Change::Value(change) = change {
                let tool = if change.pool.is_some() { "set_pool" } else { "set_value" };
                let name = format!("hugewise-{}", at + 1);
                let once = ["cloud-init-per", "instance", &name];
                text += &self.entry(&once, &[tool, &change.path, &change.after])?;
            }
        }
        Ok(text)
    }

    fn rest(&mut self) -> Result<String, Unwritable> {
        let mut text = String::new();
        for (_, change) in self.plan.changes() {
            match change {
                Change::Value(_) => {}
                Change::File(FileChange { path, after: None, .. }) => text += &self.entry(&[], &["drop_file", path])?,
                Change::File(FileChange { path, after: Some(NewFile { uid, gid, mode, .. }), .. }) => {
                    if (*uid, *gid) != (0, 0) {
                        // The bits of set-id go with the owner.
                        let (owner, mode) = (format!("{uid}:{gid}"), mode.to_string());
                        text += &format!("  - {}\n", yaml::list(["chown", &owner, path]));
                        text += &format!("  - {}\n", yaml::list(["chmod", &mode, path]));
                    }
                }
                Change::Command(change) => {
                    let mut words = match &change.unless {
                        Some(holds) => vec!["run_unless", &holds.path, &holds.line],
                        None => vec!["run_once"],
                    };
                    words.extend(command_words(change));
                    text += &self.entry(&[], &words)?;
                    self.next += usize::from(change.unless.is_none());
                }
            }
        }
        Ok(text)
    }

    /// One of the tools with its arguments, behind further words.
    fn entry(&mut self, before: &[&str], arguments: &[&str]) -> Result<String, Unwritable> {
        for argument in arguments {
            word(argument)?;
        }
        let mut text = String::from("  - - ");
        for word in before.iter().chain(&["/bin/sh", "-euc"]) {
            text += &format!("{}\n    - ", yaml::quoted(word));
        }
        if self.anchored {
            text += "*tools\n";
        } else {
            let tools = format!("{}next=$1\nshift\n\"$@\"\n", tools(self.plan, self.force));
            text += &format!("&tools {}\n", yaml::text(&tools, 6));
            self.anchored = true;
        }
        text += &format!("    - hugewise\n    - {}\n", yaml::quoted(&self.next.to_string()));
        for argument in arguments {
            text += &format!("    - {}\n", yaml::quoted(argument));
        }
        Ok(text)
    }
}
