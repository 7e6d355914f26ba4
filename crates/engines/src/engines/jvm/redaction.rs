//! What a capture keeps of a Java machine's command line and files of such words: flags that are
//! read, and the name of what runs.

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::{GONE, NO_VALUE, ValueShape, is_version};

use super::flags::{JAVA_PAIRS, STRICT, has_sane_value, is_program_name, parse_flag};
use super::hsperf;

/// hsperfdata holds the machine's whole command line and its properties.
pub(super) const FORMS: Forms = Forms {
    arguments: Some(|program, words| (program == "java").then(|| redact_arguments(words))),
    line: Some(|line| {
        if line.starts_with('-') {
            Some(redact_argument_line(line))
        } else {
            redact_flag_line(line)
        }
    }),
    rewrite: Some(|path, bytes| {
        if path.ends_with("/release") {
            return Some(redact_release_file(bytes));
        }
        let ours = path.contains("/hsperfdata_");
        ours.then(|| hsperf::without_secrets(bytes).ok()).flatten()
    }),
    ..Forms::NONE
};

fn redact_release_file(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let kept = text.lines().filter(|line| {
        let Some((name, value)) = line.split_once('=') else { return false };
        let value = value.trim().trim_matches('"');
        match name {
            "JAVA_VERSION" => is_version(value),
            "JVM_VARIANT" => ["hotspot", "openj9"].contains(&value.to_ascii_lowercase().as_str()),
            _ => false,
        }
    });
    kept.map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

fn redact_arguments(arguments: &[&str]) -> Vec<String> {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        let is_last = match word {
            _ if JAVA_PAIRS.contains(&word) => {
                kept.push(GONE.to_owned());
                kept.extend(words.next().map(|_| GONE.to_owned()));
                false
            }
            "-jar" | "-m" | "--module" => {
                kept.push(word.to_owned());
                kept.extend(words.next().map(redact_program));
                true
            }
            _ if word.starts_with("@/") => {
                let fits =
                    word.strip_prefix('@').is_some_and(|path| ValueShape::Path.matches_value(path));
                kept.push(if fits { word.to_owned() } else { GONE.to_owned() });
                false
            }
            _ => {
                let module = word.strip_prefix("--module=");
                kept.push(match module {
                    Some(module) => format!("--module={}", redact_program(module)),
                    None if word.starts_with('-') => redact_flag(word),
                    None => redact_program(word),
                });
                module.is_some() || !word.starts_with('-')
            }
        };
        if is_last {
            kept.extend(words.by_ref().map(|_| GONE.to_owned()));
        }
    }
    kept
}

fn redact_argument_line(line: &str) -> String {
    redact_arguments(&line.split_ascii_whitespace().collect::<Vec<_>>()).join(" ")
}

fn redact_flag(word: &str) -> String {
    let name = || match word.split_once('=') {
        Some((name, _)) => format!("{name}="),
        None => word.chars().take(4).collect(),
    };
    let is_file =
        ["-XX:VMOptionsFile=", "-XX:Flags="].into_iter().find_map(|start| word.strip_prefix(start));
    match (is_file.map(|path| ValueShape::Path.matches_value(path)), has_sane_value(word)) {
        (Some(true), _) => word.to_owned(),
        (Some(false), _) | (None, Some(false)) => format!("{}{NO_VALUE}", name()),
        (None, Some(true)) if word.starts_with("-Xlp:") => redact_large_pages(word).to_owned(),
        (None, Some(true)) => word.to_owned(),
        (None, None) => GONE.to_owned(),
    }
}

fn redact_large_pages(word: &str) -> &'static str {
    match parse_flag(word) {
        Some((_, value)) if value == STRICT => "-Xlp:objectheap:strict",
        _ => "-Xlp:objectheap",
    }
}

/// A line of a file of flags (`-XX:Flags=`): `+UseLargePages`, `MaxHeapSize=1g`.
fn redact_flag_line(line: &str) -> Option<String> {
    let words = line.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
    let kept = words.filter_map(|word| {
        let kept = redact_flag(&format!("-XX:{word}"));
        kept.strip_prefix("-XX:").map(str::to_owned)
    });
    Some(kept.collect::<Vec<_>>().join(" ")).filter(|line| !line.is_empty())
}

/// The name of what a Java machine runs; of a path that may be more than a path only the last part.
fn redact_program(word: &str) -> String {
    let name = word.trim_end_matches('/').rsplit('/').next().unwrap_or(word);
    if word.starts_with('/') && ValueShape::Path.matches_value(word) && is_program_name(name) {
        word.to_owned()
    } else {
        let kept = [word, name].into_iter().find(|name| is_program_name(name));
        kept.unwrap_or(GONE).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Debian's and Temurin's are written.
    #[test]
    fn of_a_release_its_number_and_its_maker_stay() {
        let file = "IMPLEMENTOR=\"Eclipse \
             Adoptium\"\nJAVA_VERSION=\"17.0.15\"\nJVM_VARIANT=\"Hotspot\"\nSOURCE=\"S3\"\nS3\n";
        let left = redact_release_file(file.as_bytes());
        assert_eq!(
            String::from_utf8_lossy(&left),
            "JAVA_VERSION=\"17.0.15\"\nJVM_VARIANT=\"Hotspot\"\n"
        );
        assert_eq!(redact_release_file(&left), left);
        assert!(redact_release_file(b"JAVA_VERSION=\"S3\"\nJVM_VARIANT=S3\n").is_empty());
        let rewrite = FORMS.rewrite.unwrap();
        assert_eq!(
            rewrite("/usr/lib/jvm/java-17-openjdk-amd64/release", file.as_bytes()),
            Some(left)
        );
    }

    #[test]
    fn flags_that_are_read_stay_and_secrets_go() {
        for (written, left) in [
            (
                "-Xmx8g -Dpw=S3 -XX:+UseLargePages -XX:OnError=S3 a.b.Main -p S3",
                "-Xmx8g - -XX:+UseLargePages - a.b.Main - -",
            ),
            ("-cp /a:/S3 @/etc/args -Xmx8g a.B S3", "- - @/etc/args -Xmx8g a.B -"),
            ("-jar app.jar -p S3", "-jar app.jar - -"),
            ("-jar /srv/token=S3 S3", "-jar - -"),
            ("-Xmx1g --source 17 /tmp/Hog.java S3", "-Xmx1g - - /tmp/Hog.java -"),
            ("Hog S3", "Hog -"),
            ("-m shop/shop.Main S3", "-m shop/shop.Main -"),
            ("--module=shop/shop.Main S3", "--module=shop/shop.Main -"),
            ("-XmxS3 -XX:MaxHeapSize=S3 -XX:+UseLargePagesS3 a.B", "-Xmx? -XX:MaxHeapSize=? - a.B"),
            ("-Xlp:objectheap:pagesize=2M,strict A", "-Xlp:objectheap:strict A"),
            (
                "-Xlp:codecache -Xlp:objectheap:pagesize=S3 -Xint -XX:CompilationMode=quick-only",
                "- -Xlp:objectheap -Xint -XX:CompilationMode=quick-only",
            ),
        ] {
            assert_eq!(redact_argument_line(written), left);
        }
        assert_eq!(
            redact_arguments(&["-jar", "/srv/my app/app.jar", "S3"]),
            ["-jar", "app.jar", "-"]
        );
    }

    #[test]
    fn files_of_flags_keep_those_that_are_read() {
        let line = FORMS.line.unwrap();
        assert_eq!(
            line("+UseLargePages MaxHeapSize=1g S3=x # S3").as_deref(),
            Some("+UseLargePages MaxHeapSize=1g")
        );
        assert_eq!(line("-Xmx1g -Dpw=S3").as_deref(), Some("-Xmx1g -"));
        assert_eq!(line("password = S3"), None);
    }

    proptest! {
        #[test]
        fn what_was_kept_is_kept_as_it_is(line in "[ -~]{0,60}") {
            let once = redact_argument_line(&line);
            prop_assert_eq!(redact_argument_line(&once), once);
        }
    }
}
