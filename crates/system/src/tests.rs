use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use hugewise_testkit::Skip;
use rustix::fs::{CWD, Mode, OFlags, XattrFlags, fsetxattr, openat};

use super::*;

fn state(text: &str) -> FileState {
    let mode = FileMode(0o644);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    FileState { content: FileContent::Text(text.into()), mode, uid, gid, labels: Vec::new() }
}

fn names(folder: &Path) -> Vec<String> {
    LiveSystem::beneath_root(folder.parent().unwrap())
        .unwrap()
        .list_folder(&format!("/{}", folder.file_name().unwrap().display()))
        .unwrap()
        .unwrap()
}

#[test]
fn a_file_is_replaced_as_a_whole_and_nothing_stays_beside_it() {
    let root = tempfile::tempdir().unwrap();
    let live = LiveSystem::beneath_root(root.path()).unwrap();
    live.write_file("/x", ".x.new", &state("one\n")).unwrap();
    let first = fs::symlink_metadata(root.path().join("x")).unwrap();
    // As a killed run leaves it.
    fs::write(root.path().join(".x.new"), "half").unwrap();
    let closed = FileState { mode: FileMode(0o600), ..state("two\n") };
    live.write_file("/x", ".x.new", &closed).unwrap();
    assert_eq!(live.read_file("/x"), Ok(Some(closed)));
    assert_eq!(names(root.path()), ["x"]);
    assert_ne!(
        fs::symlink_metadata(root.path().join("x")).unwrap().ino(),
        first.ino(),
        "it is another file"
    );
    assert_eq!((live.read_file("/none"), live.read_file("/none/x")), (Ok(None), Ok(None)));
}

#[test]
fn what_cannot_be_written_leaves_everything_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let live = LiveSystem::beneath_root(root.path()).unwrap();
    fs::create_dir(root.path().join("folder")).unwrap();
    let why = live.write_file("/folder", ".folder.new", &state("")).unwrap_err().to_string();
    assert_eq!(why, "/folder: is a folder; remove it");
    let why = live.write_file("/none/x", ".x.new", &state("")).unwrap_err().to_string();
    assert_eq!(why, "/none/x: its folder does not exist");
    // No file system has such a label: everything before it was done already, on the temporary
    // file.
    let label = ExtendedAttribute { name: "nowhere.x".into(), value: vec![1] };
    let why = live
        .write_file("/x", ".x.new", &FileState { labels: vec![label], ..state("x") })
        .unwrap_err();
    assert!(why.to_string().starts_with("/x: "), "{why}");
    assert_eq!(names(root.path()), ["folder"]);
    assert!(live.write_value("/none", "1").unwrap_err().to_string().contains("no such value"));
    for path in ["x", "/../x", "/a/./b", "/"] {
        assert!(live.read_file(path).is_err(), "{path}");
    }
}

#[test]
fn no_link_is_followed_at_the_end_or_on_the_way() {
    let root = tempfile::tempdir().unwrap();
    let live = LiveSystem::beneath_root(root.path()).unwrap();
    fs::create_dir(root.path().join("real")).unwrap();
    symlink("real", root.path().join("way")).unwrap();
    symlink("/etc/passwd", root.path().join("real/end")).unwrap();
    for result in [
        live.read_file("/way/x").map(drop),
        live.read_file("/real/end").map(drop),
        live.write_file("/way/x", ".x", &state("")),
        live.write_file("/real/end", ".x", &state("")),
        live.write_value("/real/end", "1"),
        live.remove_file("/real/end"),
        live.append_to_file("/real/end", b"x"),
        live.make_folder("/real/end", false),
        live.list_folder("/way/x").map(drop),
    ] {
        let why = result.unwrap_err().to_string();
        assert!(
            why.contains("symbolic link to real") || why.contains("symbolic link to /etc/passwd"),
            "{why}"
        );
    }
    assert_eq!(names(&root.path().join("real")), ["end"]);
    assert_eq!(live.resolve_path("/way"), Ok(Some("/real".into())));
    assert_eq!(live.resolve_path("/none"), Ok(None));
}

#[test]
fn labels_are_those_of_the_file_that_is_put_back() {
    let root = tempfile::tempdir().unwrap();
    let live = LiveSystem::beneath_root(root.path()).unwrap();
    live.write_file("/x", ".x.new", &state("one\n")).unwrap();
    let set = |path: &str, name: &str, value: &[u8]| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(CWD, root.path().join(path), flags, Mode::empty()).unwrap();
        fsetxattr(&file, name, value, XattrFlags::empty())
    };
    if set("x", "user.mine", b"\x00\xff").is_err() {
        return Skip("this file system has no extended attributes".into()).report();
    }
    let before = live.read_file("/x").unwrap().unwrap();
    assert_eq!(before.labels.len(), 1);
    let other = FileState { content: FileContent::Text("two\n".into()), ..before.clone() };
    live.write_file("/x", ".x.new", &other).unwrap();
    assert_eq!(live.read_file("/x").unwrap().unwrap().labels, before.labels);
    live.write_file("/x", ".x.new", &before).unwrap();
    assert_eq!(live.read_file("/x"), Ok(Some(before)));
}

#[test]
fn what_a_folder_gives_to_new_files_is_not_given_to_one_that_is_put_back() {
    let root = tempfile::tempdir().unwrap();
    let live = LiveSystem::beneath_root(root.path()).unwrap();
    live.write_file("/old", ".old.new", &state("one\n")).unwrap();
    let before = live.read_file("/old").unwrap().unwrap();
    // Version 2 of acl(5): rwx for the owner, r-x for a user 1000 and the group, mask, none for
    // others.
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (2, 5, 1000), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 0, u32::MAX)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        acl.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = openat(CWD, root.path(), flags, Mode::empty()).unwrap();
    match fsetxattr(&folder, "system.posix_acl_default", &acl, XattrFlags::empty()) {
        Ok(()) => {}
        Err(rustix::io::Errno::NOTSUP) => {
            return Skip("this file system has no access control lists".into()).report();
        }
        Err(error) => panic!("{error}"),
    }
    live.write_file("/new", ".new.new", &state("one\n")).unwrap();
    let names = |path| -> Vec<String> {
        let labels = live.read_file(path).unwrap().unwrap().labels;
        labels.into_iter().map(|label| label.name).collect()
    };
    assert_eq!(names("/new"), ["system.posix_acl_access"], "a new file is as its folder has it");
    live.write_file("/old", ".old.new", &before).unwrap();
    assert_eq!(live.read_file("/old"), Ok(Some(before)));
}

#[test]
fn commands_have_no_shell_no_terminal_and_an_end() {
    if !rustix::process::geteuid().is_root() {
        return Skip("root alone runs commands".into()).report();
    }
    let live = LiveSystem::new().unwrap();
    let run = |words: &[&str], user: Option<&str>| {
        live.run(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), user)
    };
    let said = run(&["/bin/echo", "$HOME; id"], None).unwrap();
    assert_eq!((said.success, said.output.as_str()), (true, "$HOME; id\n"));
    assert!(!run(&["/bin/sh", "-c", "echo no >&2; exit 3"], None).unwrap().success);
    assert_eq!(run(&["/usr/bin/id", "-u"], Some("nobody")).unwrap().output, "65534\n");
    let why = run(&["/usr/bin/id"], Some("nobody of that name")).unwrap_err().to_string();
    assert!(why.contains("no such account"), "{why}");
    let why = run(&["/usr/sbin/no-such-program"], None).unwrap_err().to_string();
    assert!(why.contains("the program is not installed") && why.contains("install"), "{why}");
    assert!(
        LiveSystem::beneath_root(Path::new("/")).unwrap().run(&["/bin/true".into()], None).is_err()
    );
}

#[test]
fn a_command_holds_the_lock_while_it_runs_but_a_server_that_it_starts_does_not() {
    if !rustix::process::geteuid().is_root() {
        return Skip("root alone runs commands".into()).report();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock").to_str().unwrap().to_owned();
    let live = LiveSystem::new().unwrap();
    let held = live.take_lock(&path).unwrap().unwrap();
    assert!(LiveSystem::new().unwrap().take_lock(&path).unwrap().is_none());
    let descriptors = |last: &str, user: Option<&str>| {
        let words = ["/bin/sh", "-c", "readlink /proc/self/fd/*; :", last].map(str::to_owned);
        live.run(&words, user).unwrap().output
    };
    assert!(descriptors("reload", None).contains(&path));
    assert!(!descriptors("restart", None).contains(&path));
    // A server's account could keep it for ever, or let it go while something is applied.
    assert!(!descriptors("reload", Some("nobody")).contains(&path));
    drop(held);
    // A process that another test has forked has it too, until it becomes its program.
    let begun = std::time::Instant::now();
    while LiveSystem::new().unwrap().take_lock(&path).unwrap().is_none() {
        assert!(begun.elapsed().as_secs() < 60, "the lock is still held");
    }
}

#[test]
fn who_holds_the_lock_is_named_and_nobody_who_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock").to_str().unwrap().to_owned();
    let live = LiveSystem::beneath_root(Path::new("/")).unwrap();
    live.hold_lock(&path).unwrap().unwrap().let_go();
    assert_eq!(live.lock_holders(&path), []);
    let script = "sleep 600 & echo held; wait";
    let mut holder = std::process::Command::new("flock")
        .args([path.as_str(), "sh", "-c", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(holder.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert!(live.hold_lock(&path).unwrap().is_none());
    // Its shell and the program of that have the lock from it.
    let flock = Holder { pid: holder.id(), command: Some(format!("flock {path} sh -c {script}")) };
    assert_eq!(live.lock_holders(&path), [flock]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    // What it has started holds the lock now.
    let [shell] = live.lock_holders(&path).try_into().unwrap();
    assert_eq!(shell.command.as_deref(), Some(format!("sh -c {script}").as_str()));
    let kill = |pid: u32| {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    kill(shell.pid);
    let begun = std::time::Instant::now();
    let held = loop {
        if let Some(held) = live.hold_lock(&path).unwrap() {
            break held;
        }
        for sleeper in live
            .lock_holders(&path)
            .iter()
            .filter(|holder| holder.command.as_deref() == Some("sleep 600"))
        {
            kill(sleeper.pid);
        }
        assert!(begun.elapsed().as_secs() < 60, "{:?}", live.lock_holders(&path));
    };
    held.let_go();
    assert_eq!(live.lock_holders(&path), []);
}

#[test]
fn whoever_is_refused_hears_what_to_do() {
    let busy = |holders: &[(u32, &str)]| {
        let holder = |(pid, command): &(u32, &str)| Holder {
            pid: *pid,
            command: Some((*command).to_owned()),
        };
        Busy { lock: LOCK.into(), holders: holders.iter().map(holder).collect() }.to_string()
    };
    let lab = busy(&[(7, "/usr/bin/hugewise lab logins")]);
    assert!(
        lab.contains("process 7 (/usr/bin/hugewise lab logins) holds /var/lib/hugewise/lock"),
        "{lab}"
    );
    assert!(lab.contains("stop it early (kill 7;"), "{lab}");
    // Nobody is told to end an apply in the middle of it, nor a program that has `lab` among its
    // words.
    for command in ["hugewise apply lab", "/usr/sbin/update-grub", "laboratory lab"] {
        let said = busy(&[(7, command), (8, "sh")]);
        assert!(
            said.contains("and process 8 (sh) hold") && said.contains("wait for it to end"),
            "{said}"
        );
        assert!(!said.contains("kill"), "{said}");
    }
    assert!(busy(&[]).contains("not visible from here"));
}
