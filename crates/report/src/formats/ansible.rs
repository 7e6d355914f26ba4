//! `hugewise plan --format ansible`: a playbook of built-in modules alone.

use hugewise_change::plan::{Change, CommandChange, FileChange, NewFile, Plan, Step, ValueChange};

use super::{
    Unwritable, about, by_hand, command_words, comment, folder, header, plain_text, tools, word, writable, written,
    yaml,
};
use crate::plain::clean;

/// The plan as a playbook for the hosts that it is run on. `force` writes one that says itself that it should not be
/// applied.
///
/// # Errors
/// Where it should not be applied, or has text that no script should have.
pub fn ansible(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    writable(plan, force)?;
    let mut text = header(plan, "Run again it changes nothing: ansible-playbook -i HOST, -u root THIS_FILE");
    text += &comment("", &format!("Values as they were before are kept in {} there.", super::kept(plan)));
    text += "---\n";
    text += &format!("- name: {}\n", name(&format!("huge pages of {}", plan.host.name)));
    text += "  hosts: all\n  become: true\n  gather_facts: false\n";
    text += "  vars:\n";
    text += &format!(
        "    hugewise_tools: !unsafe {}\n",
        yaml::text(&format!("{}next=$1\nshift\n\"$@\"\n", tools(plan, force)), 6)
    );
    text += "  tasks:\n";
    text += &no_links(plan)?;
    text += &folders(plan)?;
    let mut playbook = Playbook { text, files: 0, next: 1 };
    for step in &plan.steps {
        playbook.step(step)?;
    }
    let mut text = playbook.text;
    text += &by_hand(plan);
    Ok(text)
}

/// A text for a task's name: nothing in it is looked up.
fn name(text: &str) -> String {
    yaml::quoted(&clean(text).replace("{{", "{ {").replace("{%", "{ %").replace("{#", "{ #"))
}

/// A text that is taken as it is.
fn unsafe_text(text: &str) -> Result<String, Unwritable> {
    // The same characters are refused in all formats.
    word(text)?;
    Ok(format!("!unsafe {}", yaml::quoted(text)))
}

/// A task that runs one of the tools.
fn tool(title: &str, next: usize, tool: &str, arguments: &[&str]) -> Result<String, Unwritable> {
    let mut text = format!("    - name: {}\n", name(title));
    text += "      ansible.builtin.command:\n        argv:\n";
    text += "          - /bin/sh\n          - -euc\n          - \"{{ hugewise_tools }}\"\n          - hugewise\n";
    text += &format!("          - \"{next}\"\n          - {tool}\n");
    for argument in arguments {
        text += &format!("          - {}\n", unsafe_text(argument)?);
    }
    text += "      register: hugewise_said\n";
    text += "      changed_when: \"'changed: ' in hugewise_said.stdout\"\n";
    Ok(text)
}

fn no_links(plan: &Plan) -> Result<String, Unwritable> {
    let paths: Vec<&str> = written(plan).map(|(change, _)| change.path.as_str()).collect();
    if paths.is_empty() {
        return Ok(String::new());
    }
    let mut text = format!("    - name: {}\n", name("nothing that is written is a symbolic link"));
    text += "      ansible.builtin.command:\n        argv:\n          - /bin/sh\n          - -euc\n";
    text += "          - for path; do [ ! -L \"$path\" ] || { echo \"$path is a symbolic link\" >&2; exit 1; }; done\n";
    text += "          - hugewise\n";
    for path in paths {
        text += &format!("          - {}\n", unsafe_text(path)?);
    }
    text += "      changed_when: false\n";
    Ok(text)
}

fn folders(plan: &Plan) -> Result<String, Unwritable> {
    let mut folders: Vec<&str> = written(plan).map(|(change, _)| folder(&change.path)).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut text = String::new();
    for folder in folders {
        text += &format!("    - name: {}\n", name(&format!("{folder} is there")));
        text += "      ansible.builtin.file:\n";
        text += &format!("        path: {}\n        state: directory\n", unsafe_text(folder)?);
    }
    Ok(text)
}

struct Playbook {
    text: String,
    /// Files that were written.
    files: usize,
    /// Number of the next command.
    next: usize,
}

impl Playbook {
    fn step(&mut self, step: &Step) -> Result<(), Unwritable> {
        self.text += "\n";
        self.text += &comment("    ", &about(step));
        self.text += &comment("    ", &step.why);
        for change in &step.changes {
            let text = match change {
                Change::Value(change) => self.value(change)?,
                Change::File(FileChange { path, after: Some(after), .. }) => self.write(path, after)?,
                Change::File(FileChange { path, after: None, .. }) => {
                    tool(&format!("no {path}"), self.next, "drop_file", &[path])?
                }
                Change::Command(change) => self.command(change)?,
            };
            self.text += &text;
        }
        Ok(())
    }

    fn value(&self, change: &ValueChange) -> Result<String, Unwritable> {
        let ValueChange { path, after, pool, .. } = change;
        let setter = if pool.is_some() { "set_pool" } else { "set_value" };
        tool(&format!("{path} = {after}"), self.next, setter, &[path, after])
    }

    fn write(&mut self, path: &str, after: &NewFile) -> Result<String, Unwritable> {
        let NewFile { content, mode, uid, gid } = after;
        let Some(body) = plain_text(content) else {
            let (mode, uid, gid) = (mode.to_string(), uid.to_string(), gid.to_string());
            let bytes = super::base64(content.bytes());
            return tool(path, self.next, "put_base64", &[path, &mode, &uid, &gid, &bytes]);
        };
        self.files += 1;
        let mut text = format!("    - name: {}\n", name(path));
        text += "      ansible.builtin.copy:\n";
        text += &format!("        dest: {}\n", unsafe_text(path)?);
        text += &format!("        content: !unsafe {}\n", yaml::text(body, 10));
        text += &format!("        owner: \"{uid}\"\n        group: \"{gid}\"\n        mode: \"{mode}\"\n");
        text += "        backup: true\n";
        text += &format!("      register: hugewise_file_{}\n", self.files);
        Ok(text)
    }

    fn command(&mut self, change: &CommandChange) -> Result<String, Unwritable> {
        let command = command_words(change);
        if let Some(holds) = &change.unless {
            let mut arguments = vec![holds.path.as_str(), holds.line.as_str()];
            arguments.extend(command);
            return tool(&change.why, self.next, "run_unless", &arguments);
        }
        let files: Vec<String> = (1..=self.files).map(|file| format!("hugewise_file_{file} is changed")).collect();
        let runner = match files.as_slice() {
            [] => "run_once".to_owned(),
            _ => format!("\"{{{{ '{}' if {} else '{}' }}}}\"", "run_again", files.join(" or "), "run_once"),
        };
        let text = tool(&change.why, self.next, &runner, &command);
        self.next += 1;
        text
    }
}
