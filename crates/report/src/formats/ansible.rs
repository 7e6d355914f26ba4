//! `hugewise plan --format ansible`: a playbook of built-in modules alone.
//!
//! Two languages evaluate here. Ansible takes names and values for templates: a text of the host stands in a name with its
//! braces written out, behind words of ours, and in a value behind `!unsafe`. And its modules replace `$NAME` and `~` in
//! paths and in the arguments of commands: commands are given to a shell at its standard input instead, as words that
//! are quoted for it, and so is every file whose path has more than the usual signs.

use hugewise_change::plan::{Change, CommandChange, FileChange, NewFile, Plan, Step};
use hugewise_model::escape::jinja::{inert, is_module_path, unsafe_value};
use hugewise_model::escape::{comment, yaml};

use super::{
    Unwritable, about, by_hand, command_words, fits, for_host, header, kept, plain_text, shell, tools, word, words,
    writable, written,
};

/// The play, up to its tools.
const PLAY: &str = "  hosts: \"{{ hugewise_host | mandatory('say on which host: -e hugewise_host=NAME') }}\"\n  \
                    become: true\n  gather_facts: false\n";

/// The plan as a playbook for the host that it is run on. `force` writes one that says itself that it should not be
/// applied.
///
/// # Errors
/// Where it should not be applied, or has text that no script should have.
pub fn ansible(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    writable(plan, force)?;
    let how = "Running it again changes nothing: ansible-playbook -i INVENTORY -e hugewise_host=NAME THIS_FILE\n\
               On another host it does nothing, unless -e hugewise_any_host=true is given.\n";
    let mut text = header(plan, how);
    text += &comment::line("", &format!("The previous values are kept in {} on the host.", kept(plan)));
    text += "---\n";
    text += &format!("- name: {}\n{PLAY}", name("huge pages of", &plan.host.name));
    text += "  vars:\n";
    text += &format!("    hugewise_tools: !unsafe {}\n", yaml::text(&tools(plan, force), 6));
    text += "  tasks:\n";
    text += &looked_at(plan)?;
    text += &folders(plan)?;
    let mut playbook = Playbook { plan, text, files: 0, next: 1 };
    for step in &plan.steps {
        playbook.step(step)?;
    }
    let mut text = playbook.text;
    text += &by_hand(plan);
    Ok(text)
}

/// A name of a play or task: words of ours, then a text.
fn name(ours: &str, text: &str) -> String {
    yaml::quoted(format!("{ours} {}", inert(text)).trim_end())
}

/// A task that runs lines of the tools. It is all read before any of it runs: what it starts has nothing at its standard
/// input.
fn tool(name: &str, lines: &str) -> String {
    let mut text = format!("    - name: {name}\n      ansible.builtin.command:\n");
    text += "        argv: [/bin/sh, -euc, 'eval \"$(cat)\"']\n";
    text += "        stdin: \"{{ hugewise_tools ~ hugewise_lines }}\"\n";
    text += &format!("      vars:\n        hugewise_lines: !unsafe {}\n", yaml::text(lines, 10));
    text
}

/// One that may change something.
fn change(name: &str, next: usize, line: &str) -> String {
    let mut text = tool(name, &format!("next={next}\n{line}"));
    text += "      register: hugewise_said\n";
    text += "      changed_when: \"hugewise_said.stdout | default('') is search('(?m)^changed: ')\"\n";
    text
}

/// That this is the host of the plan, that it has the memory, and that nothing that is written is a link.
fn looked_at(plan: &Plan) -> Result<String, Unwritable> {
    let mut lines = for_host(plan)?;
    lines += &fits(plan);
    let paths = files(plan).map(|(change, _)| change.path.as_str());
    let paths = words(paths)?;
    if !paths.is_empty() {
        lines += &format!("no_links {paths}\n");
    }
    let mut text = tool(
        &yaml::quoted("check that this is the plan's host, that it has the memory, and that no link is in the way"),
        &lines,
    );
    text += "      environment:\n        HUGEWISE_ANY_HOST: ";
    text += "\"{{ 'yes' if hugewise_any_host | default(false) | bool else 'no' }}\"\n";
    text += "      changed_when: false\n      check_mode: false\n";
    Ok(text)
}

/// Every file that is written.
fn files(plan: &Plan) -> impl Iterator<Item = (&FileChange, &NewFile)> {
    plan.changes().filter_map(|(_, change)| match change {
        Change::File(change) => change.after.as_ref().map(|after| (change, after)),
        Change::Value(_) | Change::Command(_) => None,
    })
}

/// The folder that a file is in.
fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((folder, _)) => folder,
    }
}

fn folders(plan: &Plan) -> Result<String, Unwritable> {
    let mut folders: Vec<&str> = files(plan).map(|(change, _)| folder(&change.path)).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut text = String::new();
    for folder in folders.into_iter().filter(|folder| is_module_path(folder)) {
        word(folder)?;
        text += &format!("    - name: {}\n", name("a folder is there:", folder));
        text += "      ansible.builtin.file:\n";
        text += &format!("        path: {}\n        state: directory\n", unsafe_value(folder));
    }
    Ok(text)
}

struct Playbook<'a> {
    plan: &'a Plan,
    text: String,
    /// Files that a module of Ansible's writes.
    files: usize,
    /// Number of the next command.
    next: usize,
}

impl Playbook<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Unwritable> {
        self.text += "\n";
        self.text += &about("    ", step);
        for one in &step.changes {
            let text = match one {
                Change::Value(value) => {
                    let tool = if value.pool.is_some() { "set_pool" } else { "set_value" };
                    let line = format!("{tool} {}\n", words([value.path.as_str(), value.after.as_str()])?);
                    change(&name("set", &format!("{} to {}", value.path, value.after)), self.next, &line)
                }
                Change::File(file) => self.file(file)?,
                Change::Command(command) => self.command(command)?,
            };
            self.text += &text;
        }
        Ok(())
    }

    fn file(&mut self, file: &FileChange) -> Result<String, Unwritable> {
        let path = &file.path;
        let Some(after) = &file.after else {
            return Ok(change(&name("remove", path), self.next, &shell::file(self.plan, file)?));
        };
        let content = written(file, after, "beside it, with a name that ends in ~");
        match plain_text(&content) {
            Some(body) if is_module_path(path) => self.copy(path, after, body),
            _ => Ok(change(&name("write", path), self.next, &shell::file(self.plan, file)?)),
        }
    }

    fn copy(&mut self, path: &str, NewFile { mode, uid, gid, .. }: &NewFile, body: &str) -> Result<String, Unwritable> {
        word(path)?;
        self.files += 1;
        let mut text = format!("    - name: {}\n", name("write", path));
        text += "      ansible.builtin.copy:\n";
        text += &format!("        dest: {}\n", unsafe_value(path));
        text += &format!("        content: !unsafe {}\n", yaml::text(body, 10));
        text += &format!("        owner: \"{uid}\"\n        group: \"{gid}\"\n        mode: \"{mode}\"\n");
        text += "        backup: true\n";
        text += &format!("      register: hugewise_file_{}\n", self.files);
        Ok(text)
    }

    fn command(&mut self, command: &CommandChange) -> Result<String, Unwritable> {
        let name = name("run:", &command.why);
        let run = words(command_words(command))?;
        if let Some(holds) = &command.unless {
            let holds = words([holds.path.as_str(), holds.line.as_str()])?;
            return Ok(change(&name, self.next, &format!("run_unless {holds} {run}\n")));
        }
        let mut text = change(&name, self.next, &format!("\"${{HUGEWISE_RUN:-run_once}}\" {run}\n"));
        let files: Vec<String> = (1..=self.files).map(|file| format!("hugewise_file_{file} is changed")).collect();
        if !files.is_empty() {
            text += "      environment:\n        HUGEWISE_RUN: ";
            text += &format!("\"{{{{ 'run_again' if {} else 'run_once' }}}}\"\n", files.join(" or "));
        }
        self.next += 1;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_the_part_before_the_last_slash() {
        assert_eq!([folder("/a/b/c"), folder("/a"), folder("a")], ["/a/b", "/", "/"]);
    }
}
