//! Command lines without their secrets: what is not known to be harmless becomes `-`.

use super::Keeps;
use super::shape::{JAVA_PAIRS, NO_VALUE, Shape, is_program_name};

/// Stands for a word that was taken out.
const GONE: &str = "-";

/// /proc/PID/cmdline with placeholders.
pub(super) fn command_line(bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let end = text.trim_end_matches('\0');
    let tail = text.get(end.len()..).unwrap_or_default();
    let words: Vec<&str> = end.split('\0').collect();
    let kept = match words.as_slice() {
        [] | [""] => Vec::new(),
        [only] => vec![title(only, keeps)],
        [program, arguments @ ..] => {
            let mut kept = vec![title(program, keeps)];
            kept.extend(filter_arguments(program, arguments, keeps));
            kept
        }
    };
    let mut kept = kept.join("\0");
    kept.push_str(tail);
    kept.into_bytes()
}

/// Arguments of a program; of programs that are no server here none is kept.
pub(super) fn filter_arguments(program: &str, arguments: &[&str], keeps: &Keeps) -> Vec<String> {
    let name = program.rsplit('/').next().unwrap_or_default();
    if !keeps.has_program(name) {
        return arguments.iter().map(|_| GONE.to_owned()).collect();
    }
    if PASSING_ON.contains(&name) {
        return passed_on(arguments, keeps);
    }
    let backends = referenced(arguments);
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().copied().peekable();
    while let Some(word) = words.next() {
        if let Some(title_word) = endpoint(word).filter(|_| !name.starts_with("java")) {
            kept.push(title_word);
            continue;
        }
        if name == "java" && JAVA_PAIRS.contains(&word) {
            kept.push(GONE.to_owned());
            kept.extend(words.next().map(|_| GONE.to_owned()));
            continue;
        }
        if name == "java" && ["-jar", "-m", "--module"].contains(&word) {
            kept.push(word.to_owned());
            kept.extend(words.next().map(java_program));
            kept.extend(words.by_ref().map(|_| GONE.to_owned()));
            continue;
        }
        if let Some(module) = word.strip_prefix("--module=").filter(|_| name == "java") {
            kept.push(format!("--module={}", java_program(module)));
            kept.extend(words.by_ref().map(|_| GONE.to_owned()));
            continue;
        }
        if name == "java" && word.starts_with("@/") {
            let fits = word.strip_prefix('@').is_some_and(|path| Shape::Path.fits(path));
            kept.push(if fits { word.to_owned() } else { GONE.to_owned() });
            continue;
        }
        if !word.starts_with('-') {
            let main_class = name == "java";
            kept.push(if main_class { java_program(word) } else { config_file(word) });
            if main_class {
                // What follows the main class belongs to the application.
                kept.extend(words.by_ref().map(|_| GONE.to_owned()));
            }
            continue;
        }
        // postgres -cNAME=VALUE
        if let Some(setting) = word.strip_prefix("-c").filter(|rest| name == "postgres" && rest.contains('=')) {
            kept.push(format!("-c{}", option_value("-c", setting, keeps, &backends)));
            continue;
        }
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        match value {
            _ if name == "java" && keeps.has_prefix(option) => kept.push(java_flag(word, keeps)),
            Some(value) if keeps.has_option(option) || keeps.has_setting(option) => {
                let fits = keeps.shape_of(option).fits(value);
                kept.push(if fits { word.to_owned() } else { format!("{option}={NO_VALUE}") });
            }
            None if keeps.has_exactly(option) => {
                kept.push(option.to_owned());
                if let Some(value) = words.next_if(|next| !next.starts_with('-')) {
                    kept.push(option_value(option, value, keeps, &backends));
                }
            }
            None if keeps.has_setting(option) => kept.push(option.to_owned()),
            // postgres -D/data
            None => match option.get(..2).filter(|short| name == "postgres" && keeps.has_exactly(short)) {
                Some(short) => {
                    let value = option_value(short, option.get(2..).unwrap_or_default(), keeps, &backends);
                    kept.push(format!("{short}{value}"));
                }
                None => kept.push(GONE.to_owned()),
            },
            Some(_) => kept.push(GONE.to_owned()),
        }
    }
    kept
}

/// Tools that start PostgreSQL with the words that an option of theirs holds.
pub(super) const PASSING_ON: [&str; 2] = ["pg_ctl", "pg_ctlcluster"];

/// Arguments of such a tool: what it is to do, the data directory, and of what it hands on what the server's own arguments keep.
fn passed_on(arguments: &[&str], keeps: &Keeps) -> Vec<String> {
    let held = |text: &str| {
        let words = crate::config::exec_start::words(text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        filter_arguments("postgres", &words, keeps).join(" ")
    };
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        let glued = word.strip_prefix("--options=").or_else(|| word.strip_prefix("-o")).filter(|text| !text.is_empty());
        match word {
            "--" | "start" | "restart" | "--skip-systemctl-redirect" => kept.push(word.to_owned()),
            "-o" | "--options" => {
                kept.push("-o".to_owned());
                kept.extend(words.next().map(held));
            }
            "-D" | "--pgdata" => {
                kept.push("-D".to_owned());
                kept.extend(words.next().map(|path| Shape::Path.shown(path).to_owned()));
            }
            _ if glued.is_some() => kept.extend(["-o".to_owned(), glued.map(held).unwrap_or_default()]),
            // Its version and cluster, and files of logs: one that is no option stays one.
            _ if !word.starts_with('-') && is_cluster(word) => kept.push(word.to_owned()),
            "-l" | "-t" | "-m" | "-p" | "--log" | "--timeout" | "--mode" => drop(words.next()),
            _ => {}
        }
    }
    kept
}

/// `15`, `15-main`: what names a cluster of Debian's.
fn is_cluster(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit()) && Shape::Names.fits(word) && !word.contains([' ', ','])
}

/// The word after an option, as far as it is one: `postgres -c NAME=VALUE` names a setting of its own.
fn option_value(option: &str, value: &str, keeps: &Keeps, backends: &[String]) -> String {
    match option {
        "-object" => memory_backend(value, backends).unwrap_or_else(|| GONE.to_owned()),
        _ if REFERENCES.iter().any(|(known, _)| *known == option) => {
            let named = reference(option, value).and_then(|(property, id)| Some((property, numbered(&id, backends)?)));
            named.map_or_else(|| GONE.to_owned(), |(property, number)| format!("{property}=m{number}"))
        }
        "-m" => pairs(value, |name| matches!(name, "size" | "slots" | "maxmem")),
        "-name" => guest(value),
        "-c" => {
            let Some((name, value)) = value.split_once('=') else { return GONE.to_owned() };
            let fits = keeps.has_setting(name.trim()) && keeps.shape_of(name.trim()).fits(value);
            match keeps.has_setting(name.trim()) {
                true if fits => format!("{name}={value}"),
                true => format!("{name}={NO_VALUE}"),
                false => GONE.to_owned(),
            }
        }
        _ if keeps.shape_of(option).fits(value) => value.to_owned(),
        _ => NO_VALUE.to_owned(),
    }
}

/// Words that flags of a Java machine may have for values.
const COMPILATION_MODES: [&str; 4] = ["default", "quick-only", "high-only", "high-only-quick-internal"];

/// A flag of a Java machine: a switch, or one with a size.
fn java_flag(word: &str, keeps: &Keeps) -> String {
    let size =
        |text: &str| !text.is_empty() && Shape::Plain.fits(text) && text.starts_with(|c: char| c.is_ascii_digit());
    if let Some(known) = ["-Xmx", "-Xms", "-Xmn"].into_iter().find(|known| word.starts_with(known)) {
        let fits = word.strip_prefix(known).is_some_and(size);
        return if fits { word.to_owned() } else { format!("{known}{NO_VALUE}") };
    }
    if word == "-Xint" {
        return word.to_owned();
    }
    if word.starts_with("-Xlp") {
        return if word.starts_with("-Xlp:") { "-Xlp:objectheap" } else { "-Xlp" }.to_owned();
    }
    let read = |name: &str| keeps.options.iter().any(|kept| kept.strip_suffix('*') == Some(&format!("-XX:{name}")));
    match word.strip_prefix("-XX:").map(|flag| (flag, flag.split_once('='))) {
        // Files with more flags.
        Some((_, Some((name @ ("VMOptionsFile" | "Flags"), path)))) if read(name) => match Shape::Path.fits(path) {
            true => word.to_owned(),
            false => format!("-XX:{name}={NO_VALUE}"),
        },
        Some((_, None)) if keeps.options.iter().any(|kept| kept.strip_suffix('*') == Some(word)) => word.to_owned(),
        Some((_, Some((name, value)))) if read(name) => match size(value) || COMPILATION_MODES.contains(&value) {
            true => word.to_owned(),
            false => format!("-XX:{name}={NO_VALUE}"),
        },
        _ => GONE.to_owned(),
    }
}

/// A line of a file of flags (`-XX:Flags=`), where it holds one that is read: `+UseLargePages`, `MaxHeapSize=1g`.
pub(super) fn flags_file(line: &str, keeps: &Keeps) -> Option<String> {
    let words = line.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
    let kept = words.filter_map(|word| {
        let flag = java_flag(&format!("-XX:{word}"), keeps);
        flag.strip_prefix("-XX:").map(str::to_owned)
    });
    Some(kept.collect::<Vec<_>>().join(" ")).filter(|line| !line.is_empty())
}

/// `size=4G,slots=2`: those of these names whose values are numbers.
fn pairs(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    let kept = text.split(',').map(|part| match part.split_once('=') {
        Some((name, value)) if wanted(name) && Shape::Plain.fits(value) => part,
        None if Shape::Plain.fits(part) => part,
        _ => NO_VALUE,
    });
    kept.collect::<Vec<_>>().join(",")
}

/// A guest's name, where it is a plain one.
fn guest(text: &str) -> String {
    let named = text.split(',').find_map(|part| part.strip_prefix("guest="));
    let first = text.split(',').next().filter(|first| !first.contains('='));
    let name = named.or(first).unwrap_or_default();
    format!("guest={}", if Shape::Names.fits(name) { name } else { "" })
}

/// Options of QEMU's that name a memory backend, and the property in which they do.
const REFERENCES: [(&str, &str); 4] =
    [("-machine", "memory-backend"), ("-M", "memory-backend"), ("-numa", "memdev"), ("-device", "memdev")];

/// The backend that the value of an option names.
fn reference(option: &str, text: &str) -> Option<(&'static str, String)> {
    let property = REFERENCES.iter().find(|(known, _)| *known == option).map(|(_, property)| *property)?;
    let id = if text.starts_with('{') {
        let fields: serde_json::Value = serde_json::from_str(text).ok()?;
        fields.get(property)?.as_str()?.to_owned()
    } else {
        let pairs = text.split(',').filter_map(|part| part.split_once('='));
        pairs.filter(|(name, _)| *name == property).map(|(_, id)| id.to_owned()).next_back()?
    };
    Some((property, id))
}

/// The backends that a command line names: of their names, which are somebody's choice, only the number is kept.
fn referenced(arguments: &[&str]) -> Vec<String> {
    let pairs = arguments.iter().zip(arguments.iter().skip(1));
    pairs.filter_map(|(option, value)| reference(option, value)).map(|(_, id)| id).collect()
}

fn numbered(id: &str, backends: &[String]) -> Option<usize> {
    backends.iter().position(|known| known == id)
}

/// A memory backend of QEMU's with what is read of it; its way to write it in JSON becomes the other one.
fn memory_backend(text: &str, backends: &[String]) -> Option<String> {
    const READ: [&str; 6] = ["mem-path", "hugetlb", "hugetlbsize", "size", "prealloc", "share"];
    let (kind, properties): (String, Vec<(String, String)>) = if text.starts_with('{') {
        let serde_json::Value::Object(mut fields) = serde_json::from_str(text).ok()? else { return None };
        let kind = fields.remove("qom-type")?.as_str()?.to_owned();
        let on = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Bool(on) => if *on { "true" } else { "off" }.to_owned(),
            other => other.to_string(),
        };
        (kind, fields.iter().map(|(name, value)| (name.clone(), on(value))).collect())
    } else {
        let (kind, rest) = text.split_once(',').unwrap_or((text, ""));
        let kind = kind.strip_prefix("qom-type=").unwrap_or(kind);
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, "on"));
            (name.to_owned(), value.to_owned())
        };
        (kind.to_owned(), rest.split(',').filter(|part| !part.is_empty()).map(pair).collect())
    };
    if !["memory-backend-ram", "memory-backend-file", "memory-backend-memfd"].contains(&kind.as_str()) {
        return None;
    }
    let mut kept = kind;
    let id = properties.iter().find(|(name, _)| name == "id");
    if let Some(number) = id.and_then(|(_, id)| numbered(id, backends)) {
        kept.push_str(&format!(",id=m{number}"));
    }
    for (name, value) in properties.iter().filter(|(name, _)| READ.contains(&name.as_str())) {
        let shape = if name == "mem-path" { Shape::Path } else { Shape::Plain };
        let value = if value.contains(',') { NO_VALUE } else { shape.shown(value) };
        kept.push_str(&format!(",{name}={value}"));
    }
    Some(kept)
}

/// What a Java machine runs, as far as its name can be nothing else; of a path that may be more than a path the last part.
fn java_program(word: &str) -> String {
    let name = word.trim_end_matches('/').rsplit('/').next().unwrap_or(word);
    if word.starts_with('/') && Shape::Path.fits(word) && is_program_name(name) {
        word.to_owned()
    } else {
        let kept = [word, name].into_iter().find(|name| is_program_name(name));
        kept.unwrap_or(GONE).to_owned()
    }
}

/// `redis-server /etc/redis/redis.conf`.
fn config_file(word: &str) -> String {
    let is_file =
        word.starts_with('/') && (word.ends_with(".conf") || word.ends_with(".cnf")) && Shape::Path.fits(word);
    if is_file { word.to_owned() } else { GONE.to_owned() }
}

/// `127.0.0.1:6379`, `*:6379`, `[cluster]` in a server's title.
fn endpoint(word: &str) -> Option<String> {
    let address = word.contains(':') && word.bytes().all(|sign| sign.is_ascii_hexdigit() || b".:*[]".contains(&sign));
    (address || word == "[cluster]" || word == "[sentinel]").then(|| word.to_owned())
}

/// A first argument: a program's path, or the title that a server wrote over it.
fn title(word: &str, keeps: &Keeps) -> String {
    // No server's: a tab or a line's end between words would let all of them pass for one.
    if word.contains(char::is_control) {
        return GONE.to_owned();
    }
    let Some((first, rest)) = word.split_once(' ') else {
        return if Shape::Path.fits(word) && !word.starts_with('-') { word.to_owned() } else { GONE.to_owned() };
    };
    if let Some(known) = keeps.titles.iter().find_map(|title| title(word)) {
        return known;
    }
    let name = if Shape::Path.fits(first) && !first.starts_with('-') { first } else { GONE };
    let rest = rest.split_ascii_whitespace().map(|word| endpoint(word).unwrap_or_else(|| GONE.to_owned()));
    format!("{name} {}", rest.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keeps() -> Keeps {
        Keeps {
            options: [
                &["-D", "-c", "-p", "--datadir", "-Xmx*", "-XX:*", "-XX:MaxHeapSize*", "-XX:+UseLargePages*"][..],
                &["-m", "-object", "-jar", "-machine", "-M", "-numa", "-device"],
            ]
            .concat(),
            settings: vec!["huge_pages", "large_pages"],
            programs: vec![
                "postgres",
                "mysqld",
                "java",
                "redis-server",
                "qemu-kvm",
                "qemu-system-*",
                "mongod",
                "oracle",
            ],
            shape: Some(|name| if ["datadir", "-D", "-mem-path"].contains(&name) { Shape::Path } else { Shape::Plain }),
            titles: vec![|word| word.starts_with("own ").then(|| "own known".to_owned())],
            ..Keeps::default()
        }
    }

    fn kept(words: &[&str]) -> String {
        let mut bytes = words.join("\0").into_bytes();
        bytes.push(0);
        String::from_utf8(command_line(&bytes, &keeps())).unwrap().trim_end_matches('\0').replace('\0', " ")
    }

    #[test]
    fn what_engines_need_stays_and_secrets_go() {
        assert_eq!(
            kept(&[
                "/usr/lib/postgresql/15/bin/postgres",
                "-D",
                "/data",
                "-c",
                "huge_pages=on",
                "-c",
                "primary_conninfo=password=S3"
            ]),
            "/usr/lib/postgresql/15/bin/postgres -D /data -c huge_pages=on -c -"
        );
        assert_eq!(
            kept(&["mysqld", "--datadir=/d", "--large-pages", "-pS3", "--password", "S3", "--password=S3"]),
            "mysqld --datadir=/d --large-pages - - - -"
        );
        assert_eq!(
            kept(&["java", "-Xmx8g", "-Dpw=S3", "-XX:+UseLargePages", "-XX:OnError=curl S3", "a.b.Main", "-p", "S3"]),
            "java -Xmx8g - -XX:+UseLargePages - a.b.Main - -"
        );
        assert_eq!(
            kept(&["java", "-cp", "/a:/S3", "@/etc/args", "-Xmx8g", "a.B", "S3"]),
            "java - - @/etc/args -Xmx8g a.B -"
        );
        assert_eq!(kept(&["java", "-jar", "app.jar", "-p", "S3"]), "java -jar app.jar - -");
        assert_eq!(kept(&["java", "-jar", "/srv/my app/app.jar", "S3"]), "java -jar app.jar -");
        assert_eq!(kept(&["java", "-jar", "/srv/token=S3", "S3"]), "java -jar - -");
        assert_eq!(
            kept(&["java", "-Xmx1g", "--source", "17", "/tmp/Hog.java", "S3"]),
            "java -Xmx1g - - /tmp/Hog.java -"
        );
        assert_eq!(kept(&["java", "Hog", "S3"]), "java Hog -");
        assert_eq!(kept(&["java", "-m", "shop/shop.Main", "S3"]), "java -m shop/shop.Main -");
        assert_eq!(kept(&["java", "--module=shop/shop.Main", "S3"]), "java --module=shop/shop.Main -");
        assert_eq!(
            kept(&["qemu-system-x86_64", "-m", "1G", "-object", "secret,id=a,data=S3"]),
            "qemu-system-x86_64 -m 1G -object -"
        );
        assert_eq!(kept(&["sshpass", "-p", "S3"]), "sshpass - -");
        assert_eq!(kept(&["app", "postgres://user:S3@host/db"]), "app -");
        assert_eq!(kept(&["mysqld", "--datadir=ftp://u:S3@h/"]), "mysqld --datadir=?");
        assert_eq!(kept(&["postgres", "-c", "huge_pages=S3", "-p", "S3"]), "postgres -c huge_pages=? -p ?");
        assert_eq!(
            kept(&["java", "-XmxS3", "-XX:MaxHeapSize=S3", "-XX:+UseLargePagesS3", "a.B"]),
            "java -Xmx? -XX:MaxHeapSize=? - a.B"
        );
        assert_eq!(
            kept(&["qemu-kvm", "-object", "memory-backend-file,id=S3,size=1G,mem-path=/m,x=S3", "-m", "size=1G,S3"]),
            "qemu-kvm -object memory-backend-file,size=1G,mem-path=/m -m size=1G,?"
        );
        assert_eq!(
            kept(&["qemu-kvm", "-object", r#"{"qom-type":"memory-backend-memfd","hugetlb":true,"id":"S3"}"#]),
            "qemu-kvm -object memory-backend-memfd,hugetlb=true"
        );
    }

    #[test]
    fn a_guest_keeps_which_backend_is_its_memory_and_no_name_of_one() {
        let memory = "memory-backend-memfd,id=S3,size=1G";
        for (option, value, named) in [
            ("-machine", "q35,memory-backend=S3,x=S3", "memory-backend=m0"),
            ("-M", "memory-backend=S3", "memory-backend=m0"),
            ("-numa", "node,cpus=0,memdev=S3", "memdev=m0"),
            ("-device", r#"{"driver":"pc-dimm","memdev":"S3"}"#, "memdev=m0"),
        ] {
            let line = format!("qemu-kvm -object memory-backend-memfd,id=m0,size=1G {option} {named}");
            assert_eq!(kept(&["qemu-kvm", "-object", memory, option, value]), line);
        }
        assert_eq!(kept(&["qemu-kvm", "-device", "virtio-net,mac=S3"]), "qemu-kvm -device -");
    }

    #[test]
    fn titles_keep_a_safe_shape() {
        assert_eq!(kept(&["own S3cret"]), "own known");
        assert_eq!(kept(&["postgres: bob S3 10.0.0.1(555) idle"]), "postgres: - - - -");
        assert_eq!(kept(&["/usr/bin/redis-server 127.0.0.1:6379"]), "/usr/bin/redis-server 127.0.0.1:6379");
        assert_eq!(kept(&["ora_pmon_PROD"]), "ora_pmon_PROD");
        assert_eq!(kept(&["sshd: bob@pts/0"]), "sshd: -");
        assert_eq!(kept(&["app\tS3"]), "-");
        assert_eq!(kept(&["a\x1b]0;S3\x07\nname S3"]), "-");
        assert_eq!(kept(&[""]), "");
    }

    proptest! {
        #[test]
        fn what_was_filtered_is_filtered_no_further(words in proptest::collection::vec("[ -~]{0,20}", 1..6)) {
            let once = command_line(words.join("\0").as_bytes(), &keeps());
            prop_assert_eq!(command_line(&once, &keeps()), once);
        }

        #[test]
        fn a_secret_in_an_unknown_option_goes(option in "--?[a-z]{1,8}", secret in "[A-Z]{12}") {
            for words in [vec!["mysqld".to_owned(), format!("{option}={secret}")], vec!["mysqld".into(), format!("{option}{secret}")]] {
                let line = command_line(words.join("\0").as_bytes(), &Keeps::default());
                prop_assert!(!String::from_utf8(line).unwrap().contains(&secret));
            }
        }
    }
}
