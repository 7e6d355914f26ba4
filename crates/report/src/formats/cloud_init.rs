//! `hugewise plan --format cloud-init`: a cloud-config for new hosts.

use hugewise_change::plan::{Change, FileChange, Plan};
use hugewise_model::escape::yaml;

use super::{
    Unwritable, by_hand, check_writable, command_words, content_to_write, plain_text, quote_word,
    render_fits_check, render_header, render_step_comment, render_tools, state_folder, value_tool,
};

/// Writes user data. Values and files are set before any server starts, commands run last; later
/// boots read the files. No host is checked, as none exists yet, but its memory is, before each
/// change.
///
/// # Errors
/// Where the plan is refused, or has text that no script should have.
pub fn cloud_init(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    check_writable(plan, force)?;
    let mut text = String::from("#cloud-config\n");
    let how = "User data for similar hosts: it runs once, at an instance's first boot.\n\
               A host with too little memory for these pools is left as it is.\n";
    text += &render_header(plan, how);
    for step in &plan.steps {
        text += &render_step_comment("", step);
    }
    // Joins these lists with those of other user data.
    text += "merge_how:\n  - {name: list, settings: [append]}\n  - \
         {name: dict, settings: [no_replace, recurse_list]}\n";
    let mut commands = CloudInitCommands { plan, force, anchored: false, next: 1 };
    for (section, entries) in
        [("bootcmd", commands.render_bootcmd()?), ("runcmd", commands.render_runcmd()?)]
    {
        if !entries.is_empty() {
            text += &format!("{section}:\n{entries}");
        }
    }
    text += &by_hand(plan);
    Ok(text)
}

struct CloudInitCommands<'a> {
    plan: &'a Plan,
    force: bool,
    /// Whether the tools stand in the text already.
    anchored: bool,
    next: usize,
}

impl CloudInitCommands<'_> {
    /// Every boot runs bootcmd: once per instance, so as not to overwrite later changes.
    fn render_bootcmd(&mut self) -> Result<String, Unwritable> {
        let mut text = String::new();
        for (at, (_, change)) in self.plan.changes().enumerate() {
            let name = format!("hugewise-{}", at + 1);
            let once = ["cloud-init-per", "instance", &name];
            match change {
                Change::Value(change) => {
                    let words = [value_tool(change), &change.path, &change.after];
                    text += &self.render_entry(&once, &words, None)?;
                }
                Change::File(change) => text += &self.render_file_entry(&once, change)?,
                Change::Command(_) => {}
            }
        }
        Ok(text)
    }

    fn render_file_entry(
        &mut self,
        once: &[&str],
        change: &FileChange,
    ) -> Result<String, Unwritable> {
        let path = change.path.as_str();
        let Some(after) = &change.after else {
            return self.render_entry(once, &["drop_file", path], None);
        };
        let content =
            content_to_write(change, after, &format!("in {}/files", state_folder(self.plan)));
        let (mode, uid, gid) =
            (after.mode.to_string(), after.uid.to_string(), after.gid.to_string());
        match plain_text(&content) {
            Some(body) => {
                self.render_entry(once, &["put_text", path, &mode, &uid, &gid], Some(body))
            }
            None => {
                let bytes = super::encode_base64(content.bytes());
                self.render_entry(once, &["put_base64", path, &mode, &uid, &gid, &bytes], None)
            }
        }
    }

    fn render_runcmd(&mut self) -> Result<String, Unwritable> {
        let mut text = String::new();
        for (_, change) in self.plan.changes() {
            if let Change::Command(change) = change {
                let mut words = match &change.unless {
                    Some(holds) => vec!["run_unless", &holds.path, &holds.line],
                    None => vec!["run_once"],
                };
                words.extend(command_words(change));
                text += &self.render_entry(&[], &words, None)?;
                self.next += usize::from(change.unless.is_none());
            }
        }
        Ok(text)
    }

    /// One tool with its arguments, behind `before`; a text of several lines comes last.
    fn render_entry(
        &mut self,
        before: &[&str],
        arguments: &[&str],
        body: Option<&str>,
    ) -> Result<String, Unwritable> {
        for argument in arguments {
            quote_word(argument)?;
        }
        let mut text = String::from("  - - ");
        for word in before.iter().chain(&["/bin/sh", "-euc"]) {
            text += &format!("{}\n    - ", yaml::quote_scalar(word));
        }
        if self.anchored {
            text += "*tools\n";
        } else {
            let tools = format!(
                "{}{}next=$1\nshift\n\"$@\"\n",
                render_tools(self.plan, self.force),
                render_fits_check(self.plan)
            );
            text += &format!("&tools {}\n", yaml::format_text(&tools, 6));
            self.anchored = true;
        }
        text += &format!("    - hugewise\n    - {}\n", yaml::quote_scalar(&self.next.to_string()));
        for argument in arguments {
            text += &format!("    - {}\n", yaml::quote_scalar(argument));
        }
        if let Some(body) = body {
            text += &format!("    - {}\n", yaml::format_text(body, 6));
        }
        Ok(text)
    }
}
