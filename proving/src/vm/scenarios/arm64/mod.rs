//! A real PostgreSQL on arm64, on base pages of 4 KiB and of 16 KiB, and on huge pages of each size
//! that those kernels have.

mod judge;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hugewise_testkit::Skip;
use hugewise_testkit::virtual_machine::{GuestKernel, InitramfsArchive, VirtualMachine};

use crate::vm::{Scenario, Stage, arm64};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "arm64",
    shows: "check, size and verify of PostgreSQL on arm64, on base pages of 4 and 16 KiB, with \
         huge pages of every size, as a table",
    run,
};

/// For each kernel. It took twelve minutes on a machine with a load of 25.
const LIMIT: Duration = Duration::from_secs(3600);

/// A page of 1 GiB is to be found in one piece once the machine runs, and the machine's files are
/// in its memory too.
const MEMORY_MIB: u64 = 4 << 10;

const INIT: &str = include_str!("init.sh");

/// What the machine said: where, then what about it.
type ConsoleReport = BTreeMap<String, BTreeMap<String, String>>;

fn run(stage: &Stage) -> Result<(), Failure> {
    let parts = arm64::parts()?;
    let program = arm64::program(stage.given.as_deref())?;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for kernel in [&parts.kernel_4k, &parts.kernel_16k] {
        let name = kernel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let told = stage.timed(&name, || run_machine(stage, &parts.root, kernel, &program))?;
        judge::host(&told, &mut rows, &mut wrong)?;
    }
    for row in &rows {
        println!("{row}");
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Lets the machine say all that it has to say.
fn run_machine(
    stage: &Stage,
    root: &Path,
    kernel: &Path,
    program: &Path,
) -> Result<ConsoleReport, Failure> {
    let mut files = InitramfsArchive::default();
    files.copy_root_folder(root)?;
    files.copy_as(program, "usr/local/bin/hugewise")?;
    let verbose = if stage.verbose { "1" } else { "" };
    files.add_file("init", 0o755, INIT.replace("$VERBOSE", verbose).as_bytes());
    let machine = VirtualMachine {
        files,
        memory_mib: MEMORY_MIB,
        options: Vec::new(),
        kernel_arguments: String::new(),
    };
    let (mut told, mut console) = (ConsoleReport::new(), Vec::new());
    let mut listen = |line: &str| {
        if let Some((place, rest)) = line.strip_prefix("@@ ").and_then(|rest| rest.split_once(' '))
        {
            let (what, text) = rest.split_once(' ').unwrap_or((rest, ""));
            told.entry(place.to_owned())
                .or_default()
                .insert(what.to_owned(), text.trim().to_owned());
        } else if !line.is_empty() {
            if stage.verbose {
                println!("   | {line}");
            }
            console.push(line.to_owned());
        }
    };
    let done = machine.run_on(GuestKernel::Arm64(kernel), LIMIT, &mut listen);
    let end = || console.get(console.len().saturating_sub(20)..).unwrap_or_default().join("\n");
    done.map_err(|Skip(why)| format!("{why}:\n{}", end()))?;
    match told.get("host") {
        Some(host) if host.contains_key("done") => Ok(told),
        _ => Err(format!("the machine did not come to its end:\n{}", end()).into()),
    }
}
