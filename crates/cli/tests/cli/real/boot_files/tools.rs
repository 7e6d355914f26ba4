//! What the real programs write, and what is foretold of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hugewise_host::config::pattern::covers_path;
use hugewise_host::config::sysctl::file_of;
use hugewise_host::config::{sysctl, tmpfiles};
use hugewise_host::source::LiveSource;
use hugewise_host::{FactReader, Source};
use hugewise_testkit::require;

use super::forms::{self, POOL, THP};
use super::{
    FOLDERS, Form, Programs, RC_SYSINIT, RC_SYSINIT_BEFORE, own_folders, place, rc_sysinit,
    started_by, started_by_script,
};
use crate::real::namespace;

/// Files that stand for the kernel's: whatever is written there stays to be read.
fn stand_ins() -> Vec<String> {
    let mut files: Vec<String> = [
        "nr_hugepages",
        "nr_hugepages_mempolicy",
        "nr_overcommit_hugepages",
        "hugetlb_shm_group",
        "swappiness",
    ]
    .iter()
    .map(|name| format!("/proc/sys/vm/{name}"))
    .collect();
    files.extend(["shmmax", "shmall", "shmmni"].map(|name| format!("/proc/sys/kernel/{name}")));
    for kib in [2048, 1_048_576] {
        for name in ["nr_hugepages", "nr_hugepages_mempolicy", "nr_overcommit_hugepages"] {
            files.push(format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/{name}"));
        }
        for node in 0..2 {
            files.push(format!(
                "/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages"
            ));
        }
        files.push(format!("{THP}/hugepages-{kib}kB/enabled"));
    }
    files.extend(["enabled", "defrag", "shmem_enabled"].map(|name| format!("{THP}/{name}")));
    files
}

/// What is in each of them; nothing stands for what nobody wrote to.
fn written(files: &[String]) -> BTreeMap<String, String> {
    let text = |file: &String| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
    files
        .iter()
        .map(|file| (file.clone(), text(file)))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

fn empty(files: &[String]) {
    for file in files {
        fs::write(file, "").unwrap();
    }
}

/// The first line: a shorter text over a longer one leaves the rest of it.
fn first_lines(written: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let first = written
        .into_iter()
        .map(|(file, text)| (file, text.lines().next().unwrap_or_default().to_owned()));
    first.filter(|(_, line)| !line.is_empty()).collect()
}

/// Which settings, by the files that stand for them, are foretold to get which text last.
fn settings_foretold(files: &[String], init: &str) -> BTreeMap<String, String> {
    let live = LiveSource::new();
    settings_read(files, &started_by(&live, init))
}

fn settings_read(files: &[String], source: &dyn Source) -> BTreeMap<String, String> {
    let assignments = sysctl::read(&mut FactReader::new(source)).into_known().unwrap_or_default();
    let all = assignments
        .into_iter()
        .map(|sysctl_assignment| (file_of(&sysctl_assignment.key), sysctl_assignment.value));
    // What is empty already is not emptied again; the kernel's own files refuse it.
    let last: BTreeMap<String, String> = all.filter(|(file, _)| files.contains(file)).collect();
    last.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// What each file is foretold to get, in order.
fn writes_foretold(files: &[String]) -> BTreeMap<String, Vec<String>> {
    let live = LiveSource::new();
    let writes = tmpfiles::read(&mut FactReader::new(&started_by(&live, "systemd")))
        .into_known()
        .unwrap_or_default();
    let mut foretold: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for write in writes {
        for file in files.iter().filter(|file| covers_path(&write.path, file)) {
            foretold.entry(file.clone()).or_default().push(write.value.clone());
        }
    }
    foretold
}

fn make(files: &[String]) {
    own_folders(&["/proc/sys", "/sys"]);
    own_folders(&FOLDERS);
    for file in files {
        fs::create_dir_all(Path::new(file).parent().unwrap()).unwrap();
    }
    fs::create_dir_all("/sys/bus/node/devices").unwrap();
    for node in 0..2 {
        let link = format!("/sys/bus/node/devices/node{node}");
        std::os::unix::fs::symlink(format!("../../../devices/system/node/node{node}"), link)
            .unwrap();
    }
    assert!(files.iter().any(|file| file.starts_with(POOL)));
    empty(files);
}

/// Says how many forms agreed, and fails with those that did not.
fn verdict(what: &str, tried: usize, wrong: &[String]) {
    eprintln!("{what}: {} of {tried} forms agreed", tried - wrong.len());
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

fn compared(form: &Form, found: &impl std::fmt::Debug, foretold: &impl std::fmt::Debug) -> String {
    let text = |text: &Vec<u8>| String::from_utf8_lossy(text).chars().take(300).collect::<String>();
    let files: Vec<String> =
        form.files.iter().map(|(path, bytes)| format!("{path}: {:?}", text(bytes))).collect();
    format!(
        "{:?}\n  {}\n  found    {found:?}\n  foretold {foretold:?}",
        form.name,
        files.join("\n  ")
    )
}

#[test]
fn settings_are_foretold_as_systemd_sysctl_writes_them() {
    if !require!(namespace::inside(
        "boot_files::tools::settings_are_foretold_as_systemd_sysctl_writes_them"
    )) {
        return;
    }
    let programs = require!(Programs::find());
    let files = stand_ins();
    make(&files);
    let forms = forms::of_sysctl();
    let mut wrong = Vec::new();
    for form in &forms {
        place(form);
        empty(&files);
        programs.systemd_sysctl();
        let (found, foretold) =
            (first_lines(written(&files)), settings_foretold(&files, "systemd"));
        if found != foretold {
            wrong.push(compared(form, &found, &foretold));
        }
    }
    verdict("systemd-sysctl", forms.len(), &wrong);
}

#[test]
fn settings_are_foretold_as_procps_writes_them() {
    if !require!(namespace::inside(
        "boot_files::tools::settings_are_foretold_as_procps_writes_them"
    )) {
        return;
    }
    let programs = require!(Programs::find());
    let files = stand_ins();
    make(&files);
    let forms = forms::of_sysctl();
    let mut wrong = Vec::new();
    for form in &forms {
        place(form);
        empty(&files);
        programs.sysctl_system();
        let (found, foretold) = (first_lines(written(&files)), settings_foretold(&files, "init"));
        if found != foretold {
            wrong.push(compared(form, &found, &foretold));
        }
    }
    verdict("sysctl --system", forms.len(), &wrong);
}

/// A shell carries the lines of initscripts out, with procps' own sysctl. Lines that sysctl of
/// procps 4 takes and that of 3.2 does not are left out.
#[test]
fn settings_are_foretold_as_rc_sysinit_writes_them() {
    if !require!(namespace::inside(
        "boot_files::tools::settings_are_foretold_as_rc_sysinit_writes_them"
    )) {
        return;
    }
    require!(Programs::find());
    let files = stand_ins();
    make(&files);
    let forms = forms::of_rc_sysinit();
    let mut wrong = Vec::new();
    let scripts = [RC_SYSINIT, RC_SYSINIT_BEFORE];
    for (form, script) in forms.iter().flat_map(|form| scripts.map(|script| (form, script))) {
        place(form);
        empty(&files);
        rc_sysinit(script);
        let live = LiveSource::new();
        let foretold = settings_read(&files, &started_by_script(&live, script));
        let found = first_lines(written(&files));
        if found != foretold {
            wrong.push(compared(form, &found, &foretold));
        }
    }
    verdict("rc.sysinit", forms.len() * scripts.len(), &wrong);
}

#[test]
fn writes_are_foretold_as_systemd_tmpfiles_makes_them() {
    if !require!(namespace::inside(
        "boot_files::tools::writes_are_foretold_as_systemd_tmpfiles_makes_them"
    )) {
        return;
    }
    let programs = require!(Programs::find());
    let files = stand_ins();
    make(&files);
    // Specifiers ask for these, and /proc/sys is the test's own.
    let release = rustix::system::uname();
    fs::write("/proc/sys/kernel/osrelease", format!("{}\n", release.release().to_string_lossy()))
        .unwrap();
    fs::write("/proc/sys/kernel/hostname", format!("{}\n", release.nodename().to_string_lossy()))
        .unwrap();
    fs::create_dir_all("/proc/sys/kernel/random").unwrap();
    fs::write("/proc/sys/kernel/random/boot_id", "6f5b1c9e-3f0a-4f0e-9a55-d3f1c1a0b2c4\n").unwrap();
    let forms = forms::of_tmpfiles();
    let mut wrong = Vec::new();
    for form in &forms {
        place(form);
        empty(&files);
        programs.systemd_tmpfiles();
        let (found, foretold) = (written(&files), writes_foretold(&files));
        let agrees =
            |(file, values): (&String, &Vec<String>)| match (found.get(file), values.as_slice()) {
                (Some(text), [value]) => text == value,
                // Values of one length: what is written over another replaces it, what is appended
                // stands last.
                (Some(text), [.., last]) => text.ends_with(last.as_str()),
                _ => false,
            };
        if found.len() != foretold.len() || !foretold.iter().all(agrees) {
            wrong.push(compared(form, &found, &foretold));
        }
    }
    verdict("systemd-tmpfiles", forms.len(), &wrong);
}
