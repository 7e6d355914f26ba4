//! `hugewise plan --format ansible`: a playbook of built-in modules alone.
//!
//! Ansible evaluates twice. Names and values are templates: host text in a name has its braces
//! escaped, behind words of ours, and a value is `!unsafe`. And modules replace `$NAME` and `~` in
//! paths and in command arguments: so a shell gets commands at its standard input, quoted, and so
//! it does every file whose path has more than the usual characters.

use hugewise_change::plan::{Change, CommandChange, FileChange, NewFile, Plan, Step};
use hugewise_model::escape::jinja::{escape_jinja, is_module_path, unsafe_value};
use hugewise_model::escape::{comment, yaml};

use super::{
    Unwritable, by_hand, check_writable, command_words, content_to_write, for_host, plain_text,
    quote_word, quote_words, render_fits_check, render_header, render_step_comment, render_tools,
    render_value_command, shell, state_folder,
};

const PLAY: &str = "  hosts: \"{{ hugewise_host | mandatory('say on which host: -e \
     hugewise_host=NAME') }}\"\n  \
                    become: true\n  gather_facts: false\n";

/// Writes a playbook. `force` writes a plan that is refused, too.
///
/// # Errors
/// Where the plan is refused, or has text that no script should have.
pub fn render_ansible(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    check_writable(plan, force)?;
    let how = "Running it again changes nothing: ansible-playbook -i INVENTORY -e \
         hugewise_host=NAME THIS_FILE\n\
               On another host it does nothing, unless -e hugewise_any_host=true is given.\n";
    let mut text = render_header(plan, how);
    text += &comment::comment_line(
        "",
        &format!("The previous values are kept in {} on the host.", state_folder(plan)),
    );
    text += "---\n";
    text += &format!("- name: {}\n{PLAY}", render_task_name("huge pages of", &plan.host.name));
    text += "  vars:\n";
    text += &format!(
        "    hugewise_tools: !unsafe {}\n",
        yaml::format_text(&render_tools(plan, force), 6)
    );
    text += "  tasks:\n";
    text += &looked_at(plan)?;
    text += &render_folder_tasks(plan)?;
    let mut playbook = Playbook { plan, text, files: 0, next: 1 };
    for step in &plan.steps {
        playbook.add_step(step)?;
    }
    let mut text = playbook.text;
    text += &by_hand(plan);
    Ok(text)
}

fn render_task_name(ours: &str, text: &str) -> String {
    yaml::quote_scalar(format!("{ours} {}", escape_jinja(text)).trim_end())
}

/// `eval` reads all lines before it runs any: what it starts must not read them from stdin.
fn render_tool_task(name: &str, lines: &str) -> String {
    let mut text = format!("    - name: {name}\n      ansible.builtin.command:\n");
    text += "        argv: [/bin/sh, -euc, 'eval \"$(cat)\"']\n";
    text += "        stdin: \"{{ hugewise_tools ~ hugewise_lines }}\"\n";
    text +=
        &format!("      vars:\n        hugewise_lines: !unsafe {}\n", yaml::format_text(lines, 10));
    text
}

fn render_change_task(name: &str, next: usize, line: &str) -> String {
    let mut text = render_tool_task(name, &format!("next={next}\n{line}"));
    text += "      register: hugewise_said\n";
    text +=
        "      changed_when: \"hugewise_said.stdout | default('') is search('(?m)^changed: ')\"\n";
    text
}

/// Checks that this is the plan's host, that it has the memory, and that no path is a link.
fn looked_at(plan: &Plan) -> Result<String, Unwritable> {
    let mut lines = for_host(plan)?;
    lines += &render_fits_check(plan);
    let paths = written_files(plan).map(|(change, _)| change.path.as_str());
    let paths = quote_words(paths)?;
    if !paths.is_empty() {
        lines += &format!("no_links {paths}\n");
    }
    let mut text = render_tool_task(
        &yaml::quote_scalar(
            "check that this is the plan's host, that it has the memory, and that no link is in \
                 the way",
        ),
        &lines,
    );
    text += "      environment:\n        HUGEWISE_ANY_HOST: ";
    text += "\"{{ 'yes' if hugewise_any_host | default(false) | bool else 'no' }}\"\n";
    text += "      changed_when: false\n      check_mode: false\n";
    Ok(text)
}

fn written_files(plan: &Plan) -> impl Iterator<Item = (&FileChange, &NewFile)> {
    plan.changes().filter_map(|(_, change)| match change {
        Change::File(change) => change.after.as_ref().map(|after| (change, after)),
        Change::Value(_) | Change::Command(_) => None,
    })
}

fn parent_folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((folder, _)) => folder,
    }
}

fn render_folder_tasks(plan: &Plan) -> Result<String, Unwritable> {
    let mut folders: Vec<&str> =
        written_files(plan).map(|(change, _)| parent_folder(&change.path)).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut text = String::new();
    for folder in folders.into_iter().filter(|folder| is_module_path(folder)) {
        quote_word(folder)?;
        text += &format!("    - name: {}\n", render_task_name("a folder is there:", folder));
        text += "      ansible.builtin.file:\n";
        text += &format!("        path: {}\n        state: directory\n", unsafe_value(folder));
    }
    Ok(text)
}

struct Playbook<'a> {
    plan: &'a Plan,
    text: String,
    /// Files that an Ansible module writes.
    files: usize,
    /// Number of the next command.
    next: usize,
}

impl Playbook<'_> {
    fn add_step(&mut self, step: &Step) -> Result<(), Unwritable> {
        self.text += "\n";
        self.text += &render_step_comment("    ", step);
        for one in &step.changes {
            let text = match one {
                Change::Value(value) => {
                    let line = render_value_command(value)?;
                    render_change_task(
                        &render_task_name("set", &format!("{} to {}", value.path, value.after)),
                        self.next,
                        &line,
                    )
                }
                Change::File(file) => self.render_file_task(file)?,
                Change::Command(command) => self.render_command_task(command)?,
            };
            self.text += &text;
        }
        Ok(())
    }

    fn render_file_task(&mut self, file: &FileChange) -> Result<String, Unwritable> {
        let path = &file.path;
        let Some(after) = &file.after else {
            return Ok(render_change_task(
                &render_task_name("remove", path),
                self.next,
                &shell::render_file_command(self.plan, file)?,
            ));
        };
        let content = content_to_write(file, after, "beside it, with a name that ends in ~");
        match plain_text(&content) {
            Some(body) if is_module_path(path) => self.render_copy_task(path, after, body),
            _ => Ok(render_change_task(
                &render_task_name("write", path),
                self.next,
                &shell::render_file_command(self.plan, file)?,
            )),
        }
    }

    fn render_copy_task(
        &mut self,
        path: &str,
        NewFile { mode, uid, gid, .. }: &NewFile,
        body: &str,
    ) -> Result<String, Unwritable> {
        quote_word(path)?;
        self.files += 1;
        let mut text = format!("    - name: {}\n", render_task_name("write", path));
        text += "      ansible.builtin.copy:\n";
        text += &format!("        dest: {}\n", unsafe_value(path));
        text += &format!("        content: !unsafe {}\n", yaml::format_text(body, 10));
        text += &format!(
            "        owner: \"{uid}\"\n        group: \"{gid}\"\n        mode: \"{mode}\"\n"
        );
        text += "        backup: true\n";
        text += &format!("      register: hugewise_file_{}\n", self.files);
        Ok(text)
    }

    fn render_command_task(&mut self, command: &CommandChange) -> Result<String, Unwritable> {
        let name = render_task_name("run:", &command.why);
        let run = quote_words(command_words(command))?;
        if let Some(holds) = &command.unless {
            let holds = quote_words([holds.path.as_str(), holds.line.as_str()])?;
            return Ok(render_change_task(
                &name,
                self.next,
                &format!("run_unless {holds} {run}\n"),
            ));
        }
        let mut text = render_change_task(
            &name,
            self.next,
            &format!("\"${{HUGEWISE_RUN:-run_once}}\" {run}\n"),
        );
        let files: Vec<String> =
            (1..=self.files).map(|file| format!("hugewise_file_{file} is changed")).collect();
        if !files.is_empty() {
            text += "      environment:\n        HUGEWISE_RUN: ";
            text +=
                &format!("\"{{{{ 'run_again' if {} else 'run_once' }}}}\"\n", files.join(" or "));
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
        assert_eq!(
            [parent_folder("/a/b/c"), parent_folder("/a"), parent_folder("a")],
            ["/a/b", "/", "/"]
        );
    }
}
