//! Who may have huge pages, asked of Debian's kernels by real system calls of an ordinary user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_diagnose::permission;
use hugewise_model::KernelRelease;
use hugewise_testkit::Skip;
use hugewise_testkit::virtual_machine::{GuestKernel, InitramfsArchive, VirtualMachine};

use crate::vm::{Scenario, Stage, debian_kernels, ensure};
use hugewise_testkit::tools::{Failure, shell};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "kernels",
    shows: "who may have huge pages, by memlock, group and capability, on each kernel that Debian \
         has, as a table",
    run,
};

/// Debian 11 to 13, and what comes after.
const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];

/// For each of them. It takes seconds where nothing else wants the processors.
const LIMIT: Duration = Duration::from_secs(900);

/// A question to the kernel.
struct Question {
    /// What is tried: 4 MiB of huge pages each time, by an ordinary user.
    asks: &'static str,
    /// In the machine's shell; its answer is what it prints.
    script: &'static str,
    /// What Linux up to 5.15 says by its source.
    old: &'static str,
    /// And since 5.16.
    new: &'static str,
}

const fn question(
    asks: &'static str,
    script: &'static str,
    old: &'static str,
    new: &'static str,
) -> Question {
    Question { asks, script, old, new }
}

/// `as LIMIT USER GROUP ATTEMPTS`: the limit in KiB. `held` starts one that stays until `release`.
const QUESTIONS: [Question; 23] = [
    question("shmget, memlock 4 KiB below its size", "as 4092 1000 1000 shm", "EPERM", "EPERM"),
    question("shmget, memlock of its size", "as 4096 1000 1000 shm", "ok", "EPERM"),
    question("shmget, memlock unlimited", "as unlimited 1000 1000 shm", "ok", "EPERM"),
    question(
        "two of one process, memlock for one",
        "as 4096 1000 1000 shm shm",
        "ok, EPERM",
        "EPERM, EPERM",
    ),
    question(
        "two of one process, memlock for both",
        "as 8192 1000 1000 shm shm",
        "ok, ok",
        "EPERM, EPERM",
    ),
    question(
        "beside another process of this user that holds one, memlock for one",
        "held 4096 1000 1000 shm; as 4096 1000 1000 shm; release",
        "EPERM",
        "EPERM",
    ),
    question(
        "the same, memlock for both",
        "held 4096 1000 1000 shm; as 8192 1000 1000 shm; release",
        "ok",
        "EPERM",
    ),
    question(
        "beside one whose process has ended, memlock for one",
        "as 4096 1000 1000 --leave shm >/dev/null; as 4096 1000 1000 shm; tidy",
        "EPERM",
        "EPERM",
    ),
    question(
        "the same once that segment is removed",
        "as 4096 1000 1000 --leave shm >/dev/null; tidy; as 4096 1000 1000 shm",
        "ok",
        "EPERM",
    ),
    question(
        "beside one of this user's that was made without a limit, memlock for one",
        "held unlimited 1000 1000 shm; as 4096 1000 1000 shm; release",
        "EPERM",
        "EPERM",
    ),
    question(
        "beside one of another user's, memlock for one",
        "held 4096 1001 1001 shm; as 4096 1000 1000 shm; release",
        "ok",
        "EPERM",
    ),
    question(
        "in vm.hugetlb_shm_group, memlock 0",
        "sysctl -qw vm.hugetlb_shm_group=1002; as 0 1000 1002 shm; sysctl -qw \
             vm.hugetlb_shm_group=0",
        "ok",
        "ok",
    ),
    question(
        "beside one that the group gave this user, memlock for one",
        "sysctl -qw vm.hugetlb_shm_group=1002; held 0 1000 1002 shm; as 4096 1000 1000 shm; \
             release; \
         sysctl -qw vm.hugetlb_shm_group=0",
        "ok",
        "EPERM",
    ),
    question("with CAP_IPC_LOCK, memlock 0", "capable shm", "ok", "ok"),
    question(
        "with CAP_IPC_LOCK in a user namespace of its own, memlock 0",
        "contained shm",
        "EPERM",
        "EPERM",
    ),
    question("mmap(MAP_HUGETLB), memlock 0", "as 0 1000 1000 mmap", "ok", "ok"),
    question(
        "mmap(MAP_HUGETLB, MAP_LOCKED), memlock 64 KiB",
        "as 64 1000 1000 mmap-locked",
        "EAGAIN",
        "EAGAIN",
    ),
    question("the same, memlock of its size", "as 4096 1000 1000 mmap-locked", "ok", "ok"),
    question(
        "mlock of such a mapping, memlock 64 KiB",
        "as 64 1000 1000 mlock",
        "ENOMEM",
        "ENOMEM",
    ),
    question("the same, memlock of its size", "as 4096 1000 1000 mlock", "ok", "ok"),
    question(
        "SHM_LOCK of base pages, memlock of its size",
        "as 4096 1000 1000 shm-lock",
        "ok",
        "ok",
    ),
    question(
        "SHM_LOCK of two segments, memlock for one",
        "as 4096 1000 1000 shm-lock shm-lock",
        "ok, ENOMEM",
        "ok, ENOMEM",
    ),
    question(
        "SHM_LOCK of huge pages that the group gave, memlock 64 KiB",
        "sysctl -qw vm.hugetlb_shm_group=1002; as 64 1000 1002 shm-huge-lock; sysctl -qw \
             vm.hugetlb_shm_group=0",
        "ok",
        "ok",
    ),
];

/// The question by which a kernel is of the old or of the new kind.
const DECIDES: usize = 1;

/// What the machine runs. The kernel says its words about memlock once a boot: they are of the
/// first questions.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
export PATH=/usr/bin:/bin
echo 64 >/proc/sys/vm/nr_hugepages
chmod 1777 /tmp
as() {
    limit=$1 user=$2 group=$3
    shift 3
    (ulimit -l "$limit"; exec /usr/bin/setpriv --reuid="$user" --regid="$group" --clear-groups /app/rights "$@")
}
capable() {
    (ulimit -l 0
    exec /usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=+ipc_lock --ambient-caps=+ipc_lock /app/rights "$@")
}
contained() {
    (ulimit -l 0; exec /usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups /usr/bin/unshare -r /app/rights "$@")
}
held() {
    mkfifo /tmp/life
    as "$1" "$2" "$3" --hold "$4" </tmp/life >/tmp/held &
    exec 3>/tmp/life
    until [ -s /tmp/held ]; do sleep 0.1; done
}
release() {
    exec 3>&-
    wait
    rm /tmp/life /tmp/held
}
tidy() {
    for id in $(awk 'NR > 1 { print $2 }' /proc/sysvipc/shm); do /usr/bin/ipcrm -m "$id"; done
}
echo
echo "@@ release $(uname -r)"
echo "@@ default $(awk '/^Max locked memory/ { print $4 }' /proc/1/limits)"
"#;

/// What one kernel said, by question.
struct Column {
    suite: &'static str,
    release: String,
    /// Its own limit in bytes.
    default: String,
    log: Option<String>,
    answers: BTreeMap<usize, String>,
}

fn run(stage: &Stage) -> Result<(), Failure> {
    shell::run(shell::cargo().args([
        "build",
        "--quiet",
        "--package",
        "hugewise-testkit",
        "--bin",
        "rights",
    ]))?;
    let program = shell::target().join("debug/rights");
    let mut columns = Vec::new();
    for suite in SUITES {
        let kernel = debian_kernels::newest_cloud_kernel(suite)?;
        columns.push(stage.timed(suite, || ask_kernel(suite, &kernel, &program))?);
    }
    for line in table(&columns) {
        println!("{line}");
    }
    columns.iter().try_for_each(judge)
}

fn ask_kernel(suite: &'static str, kernel: &Path, program: &Path) -> Result<Column, Failure> {
    let mut files = InitramfsArchive::with_busybox().map_err(|Skip(why)| why)?;
    files.copy_as(program, "app/rights")?;
    let tools = ["setpriv", "unshare", "ipcrm"].map(|tool| PathBuf::from("/usr/bin").join(tool));
    for tool in &tools {
        files.copy_from_host(tool, &|_| false)?;
    }
    files.libraries_of(&tools.iter().map(PathBuf::as_path).chain([program]).collect::<Vec<_>>())?;
    files.add_file("init", 0o755, script().as_bytes());
    let machine = VirtualMachine {
        files,
        memory_mib: 1024,
        options: Vec::new(),
        kernel_arguments: String::new(),
    };
    let (mut said, mut console) = (BTreeMap::new(), Vec::new());
    let mut listen = |line: &str| {
        if let Some((word, text)) = line.strip_prefix("@@ ").and_then(|rest| rest.split_once(' ')) {
            said.insert(word.to_owned(), text.trim().to_owned());
        }
        console.push(line.to_owned());
    };
    let done = machine.run_on(GuestKernel::X86_64(kernel), LIMIT, &mut listen);
    let end = console.split_off(console.len().saturating_sub(20)).join("\n");
    done.map_err(|Skip(why)| format!("{suite}: {why}:\n{end}"))?;
    let mut take = |word: &str| {
        said.remove(word).ok_or_else(|| format!("{suite} did not say `{word}`:\n{end}"))
    };
    let answers = (0..QUESTIONS.len())
        .map(|at| Ok((at, take(&at.to_string())?)))
        .collect::<Result<_, Failure>>()?;
    let (release, default, log) = (take("release")?, take("default")?, take("log")?);
    Ok(Column { suite, release, default, log: Some(log).filter(|log| !log.is_empty()), answers })
}

fn script() -> String {
    let mut script = INIT.to_owned();
    for (at, question) in QUESTIONS.iter().enumerate() {
        script.push_str(&format!(
            "said=$({} 2>&1)\necho \"@@ {at} $(echo $said)\"\n",
            question.script
        ));
    }
    script.push_str(
        "echo \"@@ log $(dmesg | grep -m 1 SHM_HUGETLB | sed 's/.*: \
         Using/Using/')\"\npoweroff -f\n",
    );
    script
}

/// As Markdown.
fn table(columns: &[Column]) -> Vec<String> {
    let row = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
    let string_of = |first, cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = columns.iter().map(cell).collect();
        row([first].into_iter().chain(cells.iter().map(String::as_str)).collect())
    };
    let mut lines = vec![
        string_of("4 MiB on 2 MiB pages, asked for by an ordinary user", &|column| {
            format!("{} ({})", column.release, column.suite)
        }),
        row(vec!["---"; columns.len() + 1]),
        string_of("memlock where nothing sets it", &|column| column.default.clone()),
    ];
    let answers = QUESTIONS.iter().enumerate();
    lines.extend(answers.map(|(at, question)| {
        string_of(question.asks, &|column| column.answers.get(&at).cloned().unwrap_or_default())
    }));
    lines.push(string_of("its log says", &|column| {
        column.log.clone().unwrap_or_else(|| "nothing".to_owned())
    }));
    lines
}

/// The answers are those of one of the two kinds, and advice takes the kernel for that one.
fn judge(column: &Column) -> Result<(), Failure> {
    let accepts = column.answers.get(&DECIDES).is_some_and(|answer| answer == "ok");
    for (at, question) in QUESTIONS.iter().enumerate() {
        let expected = if accepts { question.old } else { question.new };
        let said = column.answers.get(&at).map_or("", String::as_str);
        ensure(said == expected, || {
            format!(
                "{}: {}: `{said}` where `{expected}` was expected",
                column.release, question.asks
            )
        })?;
    }
    let word = if accepts { "deprecated" } else { "obsolete" };
    let log = column.log.as_deref().unwrap_or_default();
    ensure(log.contains(word), || {
        format!("{}: its log does not say `{word}`: {log}", column.release)
    })?;
    let advice = release(&column.release).as_ref().and_then(permission::accepts_memlock);
    ensure(advice == Some(accepts), || format!("{}: advice says {advice:?}", column.release))
}

/// `5.10.0-32-cloud-amd64`
fn release(text: &str) -> Option<KernelRelease> {
    let mut numbers = text.split(|sign: char| !sign.is_ascii_digit()).map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(KernelRelease { text: text.to_owned(), major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/memlock.md shows the answers that the scenario holds the kernels to.
    #[test]
    fn the_document_has_the_table() {
        let text = std::fs::read_to_string(shell::root().join("docs/memlock.md")).unwrap();
        for question in &QUESTIONS {
            let rest = [question.new; 3].join(" | ");
            let row = format!("| {} | {} | {rest} |", question.asks, question.old);
            assert!(text.lines().any(|line| line == row), "{row}");
        }
    }

    #[test]
    fn a_release_is_read_from_what_the_kernel_calls_itself() {
        let numbers =
            |text| release(text).map(|kernel_release| (kernel_release.major, kernel_release.minor));
        assert_eq!(numbers("7.2.13+deb14-cloud-amd64"), Some((7, 2)));
        assert_eq!(numbers("5.10.0-32-cloud-amd64"), Some((5, 10)));
        assert_eq!(numbers("linux"), None);
    }
}
