#![no_main]

//! Any bytes in the files that only captures and sosreports have: the host read whole, its servers looked for.

use std::fs;

use hugewise_host::source;

hugewise_fuzz::target!(read);

/// The first byte of an input says which of them it is.
const FILES: [&str; 8] = [
    "sos_commands/process/ps_auxwwwm",
    "sos_commands/process/ps_axo_pid_ppid_user_group_lwp_nlwp_start_time_comm_cgroup",
    "sos_commands/kernel/sysctl_-a",
    "sos_commands/kernel/uname_-a",
    "date",
    "hugewise/capture.json",
    "hugewise/page_sizes",
    "proc/1/smaps",
];

fn read(bytes: &[u8]) {
    let Some((which, content)) = bytes.split_first() else { return };
    let folder = std::env::temp_dir().join(format!("hugewise-fuzz-folder-{}", std::process::id()));
    let file = folder.join(FILES[usize::from(*which) % FILES.len()]);
    fs::create_dir_all(folder.join("proc/1")).expect("a temporary folder");
    fs::create_dir_all(file.parent().expect("a folder")).expect("a temporary folder");
    fs::write(folder.join("proc/1/status"), "Name:\tinit\nPid:\t1\nPPid:\t0\nVmPTE:\t40 kB\n")
        .expect("a file");
    fs::write(&file, content).expect("a file");
    if let Ok(source) = source::open_source(Some(&folder)) {
        let host = hugewise_host::read(source.as_ref());
        std::hint::black_box(hugewise_engines::find_instances(&host, source.as_ref()));
    }
    fs::remove_file(file).expect("the file is there");
}
