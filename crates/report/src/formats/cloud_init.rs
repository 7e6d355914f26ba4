//! `hugewise plan --format cloud-init`: a cloud-config for hosts that are about to be made.

use hugewise_change::plan::{Change, FileChange, Plan};
use hugewise_model::escape::yaml;

use super::{
    Unwritable, about, by_hand, command_words, fits, header, kept, plain_text, tools, word, writable, written,
};

/// The plan as user data. `force` writes one that says itself that it should not be applied.
///
/// Values and files are set before any server starts, commands run last. At later boots the files speak. Whose host it is
/// is not asked, as it is not there yet; whether it has the memory is, before each of them.
///
/// # Errors
/// Where it should not be applied, or has text that no script should have.
pub fn cloud_init(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    writable(plan, force)?;
    let mut text = String::from("#cloud-config\n");
    let how = "User data for similar hosts: it runs once, at an instance's first boot.\n\
               A host with too little memory for these pools is left as it is.\n";
    text += &header(plan, how);
    for step in &plan.steps {
        text += &about("", step);
    }
    // Beside user data that has these lists too, they are joined.
    text +=
        "merge_how:\n  - {name: list, settings: [append]}\n  - {name: dict, settings: [no_replace, recurse_list]}\n";
    let mut commands = Commands { plan, force, anchored: false, next: 1 };
    for (section, entries) in [("bootcmd", commands.before()?), ("runcmd", commands.last()?)] {
        if !entries.is_empty() {
            text += &format!("{section}:\n{entries}");
        }
    }
    text += &by_hand(plan);
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
    fn before(&mut self) -> Result<String, Unwritable> {
        let mut text = String::new();
        for (at, (_, change)) in self.plan.changes().enumerate() {
            let name = format!("hugewise-{}", at + 1);
            let once = ["cloud-init-per", "instance", &name];
            match change {
                Change::Value(change) => {
                    let tool = if change.pool.is_some() { "set_pool" } else { "set_value" };
                    text += &self.entry(&once, &[tool, &change.path, &change.after], None)?;
                }
                Change::File(change) => text += &self.file(&once, change)?,
                Change::Command(_) => {}
            }
        }
        Ok(text)
    }

    fn file(&mut self, once: &[&str], change: &FileChange) -> Result<String, Unwritable> {
        let path = change.path.as_str();
        let Some(after) = &change.after else { return self.entry(once, &["drop_file", path], None) };
        let content = written(change, after, &format!("in {}/files", kept(self.plan)));
        let (mode, uid, gid) = (after.mode.to_string(), after.uid.to_string(), after.gid.to_string());
        match plain_text(&content) {
            Some(body) => self.entry(once, &["put_text", path, &mode, &uid, &gid], Some(body)),
            None => {
                let bytes = super::base64(content.bytes());
                self.entry(once, &["put_base64", path, &mode, &uid, &gid, &bytes], None)
            }
        }
    }

    fn last(&mut self) -> Result<String, Unwritable> {
        let mut text = String::new();
        for (_, change) in self.plan.changes() {
            if let Change::Command(change) = change {
                let mut words = match &change.unless {
                    Some(holds) => vec!["run_unless", &holds.path, &holds.line],
                    None => vec!["run_once"],
                };
                words.extend(command_words(change));
                text += &self.entry(&[], &words, None)?;
                self.next += usize::from(change.unless.is_none());
            }
        }
        Ok(text)
    }

    /// One of the tools with its arguments, behind further words; a text with lines comes last.
    fn entry(&mut self, before: &[&str], arguments: &[&str], body: Option<&str>) -> Result<String, Unwritable> {
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
            let tools = format!("{}{}next=$1\nshift\n\"$@\"\n", tools(self.plan, self.force), fits(self.plan));
            text += &format!("&tools {}\n", yaml::text(&tools, 6));
            self.anchored = true;
        }
        text += &format!("    - hugewise\n    - {}\n", yaml::quoted(&self.next.to_string()));
        for argument in arguments {
            text += &format!("    - {}\n", yaml::quoted(argument));
        }
        if let Some(body) = body {
            text += &format!("    - {}\n", yaml::text(body, 6));
        }
        Ok(text)
    }
}
