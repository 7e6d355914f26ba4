//! `cargo xtask field`: cases from public reports, and what hugewise says of each.

mod case;
mod host;
mod judge;
mod process;

use std::fs;
use std::path::{Path, PathBuf};

use hugewise_testkit::tools::{Failure, shell};

use case::FieldCase;
use judge::Verdict;

/// Which cases are played, and with what.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this batch.
    #[arg(long)]
    batch: Option<u32>,
    /// The hugewise that is judged, instead of target/debug/hugewise.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Keep the hosts that are made, in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Only cases whose name contains this.
    filter: Option<String>,
}

/// The folder of the cases.
fn cases_folder() -> PathBuf {
    shell::root().join("fixtures/field")
}

/// How many cases ended in which way.
#[derive(Default)]
struct Totals {
    right: usize,
    partly: usize,
    wrong: usize,
    harmful: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let program = match &arguments.program {
        Some(program) => std::path::absolute(program)?,
        None => shell::target().join("debug/hugewise"),
    };
    if !program.exists() {
        let shown = program.display();
        return Err(format!("{shown} is not there: cargo build -p hugewise, or --program").into());
    }
    let scratch = tempfile::tempdir()?;
    let hosts = arguments.keep.as_deref().unwrap_or_else(|| scratch.path());
    let wanted = |case: &FieldCase| {
        arguments.batch.is_none_or(|batch| case.batch == batch)
            && arguments.filter.as_ref().is_none_or(|filter| case.name.contains(filter.as_str()))
    };
    let mut totals = Totals::default();
    for case in read_cases(&cases_folder())?.iter().filter(|case| wanted(case)) {
        let judged = play_case(case, &program, hosts)?;
        let counted = match judged.verdict {
            Verdict::Right => &mut totals.right,
            Verdict::Partly => &mut totals.partly,
            Verdict::Wrong | Verdict::Harmful => &mut totals.wrong,
        };
        *counted += 1;
        totals.harmful += usize::from(judged.verdict == Verdict::Harmful);
        println!("{:<8} {:>2} {}", judged.verdict.as_str(), case.batch, case.name);
        for difference in judged.differences {
            println!("            {difference}");
        }
    }
    let Totals { right, partly, wrong, harmful } = totals;
    let count = right + partly + wrong;
    println!("{count} cases: {right} right, {partly} partly, {wrong} wrong ({harmful} harmful)");
    if wrong > 0 { Err(format!("{wrong} of {count} cases are wrong").into()) } else { Ok(()) }
}

/// All cases, in the order of their names.
fn read_cases(folder: &Path) -> Result<Vec<FieldCase>, Failure> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|found| found.path()))
        .collect::<Result<_, _>>()?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders.iter().map(|path| FieldCase::read(path)).collect()
}

/// Makes the case's host, runs its commands and compares.
fn play_case(case: &FieldCase, program: &Path, hosts: &Path) -> Result<judge::Judged, Failure> {
    let host = hosts.join(&case.name);
    let described = case.folder.join("host.txt");
    let has_host = described.exists();
    if has_host {
        let text = fs::read_to_string(&described)?;
        let made = host::make_host(&text);
        made.map_err(|error| format!("{}: {error}", described.display()))?.write(&host)?;
    }
    let mut judged = judge::Judged::default();
    for step in &case.steps {
        let mut command = shell::command(program);
        command.current_dir(&case.folder);
        command.args(step.build_arguments(has_host.then_some(host.as_path())));
        let output = command.output()?;
        let said = judge::Answer::new(output.status.code(), &output.stdout);
        judged.judge_step(step, &said, &String::from_utf8_lossy(&output.stderr));
    }
    Ok(judged)
}

#[cfg(test)]
mod tests {
    use super::{case::FieldCase, cases_folder, fs, host, read_cases};

    fn well_formed(case: &FieldCase) -> Result<(), String> {
        for (field, text) in case.described_fields() {
            if text.is_empty() {
                return Err(format!("no {field}"));
            }
        }
        if case.steps.is_empty() || case.steps.iter().any(|step| step.must.is_empty()) {
            return Err("a command without what it must say".to_owned());
        }
        let inputs = fs::read_dir(&case.folder).map_err(|error| error.to_string())?;
        if inputs.count() < 2 {
            return Err("no input".to_owned());
        }
        match fs::read_to_string(case.folder.join("host.txt")) {
            Ok(text) => host::make_host(&text).map(|_| ()),
            Err(_) => Ok(()),
        }
    }

    #[test]
    fn each_case_has_a_source_an_input_and_what_must_be_said() {
        let cases = read_cases(&cases_folder()).expect("the cases can be read");
        assert!(!cases.is_empty());
        for case in cases {
            assert_eq!(well_formed(&case), Ok(()), "{}", case.name);
        }
    }
}
