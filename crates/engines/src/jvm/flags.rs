//! A Java virtual machine's command line: the flags that decide on huge pages, and the program's name.

use hugewise_host::capture::shape;
use hugewise_model::Bytes;

use crate::options;

/// Switches that are recorded.
const SWITCHES: &[&str] = &[
    "UseLargePages",
    "UseTransparentHugePages",
    "UseSHM",
    "UseHugeTLBFS",
    "AlwaysPreTouch",
    "SegmentedCodeCache",
    "TieredCompilation",
    "UseG1GC",
    "UseParallelGC",
    "UseSerialGC",
    "UseShenandoahGC",
    "UseZGC",
    "UseEpsilonGC",
    "UseContainerSupport",
];

/// Sizes that are recorded.
pub(super) const SIZES: &[&str] = &[
    "LargePageSizeInBytes",
    "MaxHeapSize",
    "InitialHeapSize",
    "ReservedCodeCacheSize",
    "MaxMetaspaceSize",
    "MaxDirectMemorySize",
    "G1HeapRegionSize",
    "ShenandoahRegionSize",
    "NewSize",
    "MaxNewSize",
    "NewRatio",
    "MaxRAM",
    "MaxRAMFraction",
    "MinRAMFraction",
    "TieredStopAtLevel",
    "ObjectAlignmentInBytes",
];

/// Parts of memory in percent that are recorded.
pub(super) const PERCENTAGES: &[&str] = &["MaxRAMPercentage", "MinRAMPercentage"];

/// The flag whose value is a word, and its words (OpenJDK 17, compilerDefinitions.cpp).
pub(super) const MODE: (&str, [&str; 4]) =
    ("CompilationMode", ["default", "quick-only", "high-only", "high-only-quick-internal"]);

/// Flags by name, as `-XX:+PrintFlagsFinal` writes them, with their values; the last one of a name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub Vec<(&'static str, String)>);

impl Flags {
    /// Reads words of a command line; what is no flag that is kept is passed over.
    pub fn read<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut flags = Self::default();
        for word in words {
            if let Some((name, value)) = flag(word) {
                flags.0.retain(|(other, _)| *other != name);
                flags.0.push((name, value));
            }
        }
        flags
    }

    /// A flag's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on; all of these are off by default but the collector that the machine itself chooses.
    pub fn on(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// A flag whose value is none that is understood here, as a capture leaves it; the machine took it.
    pub fn unclear(&self) -> Option<(&'static str, &str)> {
        let is_clear = |name: &str, value: &str| match () {
            () if SIZES.contains(&name) => size(value).is_some(),
            () if PERCENTAGES.contains(&name) => percentage(value).is_some(),
            () => true,
        };
        self.0.iter().find(|(name, value)| !is_clear(name, value)).map(|(name, value)| (*name, value.as_str()))
    }

    /// A size, where it is given and more than nothing.
    pub fn size(&self, name: &str) -> Option<Bytes> {
        self.get(name).and_then(size).filter(|size| *size > Bytes::ZERO)
    }
}

/// `25`, `12.5`: in millionths of a percent, where it is a part of the whole.
pub(super) fn percentage(text: &str) -> Option<u64> {
    const MILLION: u64 = 1_000_000;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    let part: u64 = format!("{part:0<6}").get(..6)?.parse().ok()?;
    let all = whole.parse::<u64>().ok()?.checked_mul(MILLION)?.checked_add(part)?;
    (all <= 100 * MILLION).then_some(all)
}

/// A flag that is read, by the name that the machine has for it, and its value.
pub(super) fn flag(word: &str) -> Option<(&'static str, String)> {
    // The launcher makes -Xmx of -mx, and -Xms of -ms (java.c, AddOption).
    let sized = |long: &str, short: &str| {
        let is_size = |value: &&str| value.starts_with(|sign: char| sign.is_ascii_digit());
        word.strip_prefix(long).or_else(|| word.strip_prefix(short).filter(is_size)).map(str::to_owned)
    };
    if let Some(value) = sized("-Xmx", "-mx") {
        return Some(("MaxHeapSize", value));
    }
    if let Some(value) = sized("-Xms", "-ms") {
        return Some(("InitialHeapSize", value));
    }
    if let Some(value) = word.strip_prefix("-Xmn") {
        return Some(("MaxNewSize", value.to_owned()));
    }
    // OpenJ9's way; its code cache alone is not what is meant here.
    if word == "-Xlp" || word.starts_with("-Xlp:objectheap") {
        return Some(("UseLargePages", "true".into()));
    }
    if word == "-Xint" {
        return Some((INTERPRETED, "true".into()));
    }
    let option = word.strip_prefix("-XX:")?;
    let switch = |name: &str| SWITCHES.iter().find(|known| **known == name);
    if let Some(name) = option.strip_prefix('+') {
        return switch(name).map(|name| (*name, "true".into()));
    }
    if let Some(name) = option.strip_prefix('-') {
        return switch(name).map(|name| (*name, "false".into()));
    }
    let (name, value) = option.split_once('=')?;
    let known = SIZES.iter().chain(PERCENTAGES).chain([&MODE.0]).find(|known| **known == name);
    known.map(|name| (*name, value.to_owned()))
}

/// What `-Xint` is recorded as.
pub(super) const INTERPRETED: &str = "Xint";

/// A flag that is read, as it is read; what is none of its kind has `?` for a value.
pub(super) fn harmless(word: &str) -> Option<String> {
    let (name, value) = flag(word)?;
    if word.starts_with("-Xlp") {
        return Some("-Xlp".to_owned());
    }
    if name == INTERPRETED {
        return Some("-Xint".to_owned());
    }
    let shown = if is_sane(name, &value) { value.as_str() } else { "?" };
    Some(match (SWITCHES.contains(&name), shown) {
        (true, "true") => format!("-XX:+{name}"),
        (true, _) => format!("-XX:-{name}"),
        (false, value) => format!("-XX:{name}={value}"),
    })
}

/// Whether a flag that is read has a value of its kind; `None` of any other word.
pub(super) fn has_sane_value(word: &str) -> Option<bool> {
    flag(word).map(|(name, value)| is_sane(name, &value))
}

fn is_sane(name: &str, value: &str) -> bool {
    let switch = SWITCHES.contains(&name) || name == INTERPRETED;
    switch
        || size(value).is_some()
        || (PERCENTAGES.contains(&name) && percentage(value).is_some())
        || (name == MODE.0 && MODE.1.contains(&value))
}

/// `512m`, `4G`, `1073741824`, `0x40000000`, with one letter at most (`Arguments::atojulong`).
pub(super) fn size(text: &str) -> Option<Bytes> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let end = digits.find(|sign: char| !sign.is_digit(radix)).unwrap_or(digits.len());
    let (digits, letter) = digits.split_at(end);
    let unit = match letter {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1_u64 << 40,
        _ => return None,
    };
    u64::from_str_radix(digits, radix).ok()?.checked_mul(unit).map(Bytes)
}

/// Whether a word can be the name of what a Java machine runs, and nothing else: `kafka.Kafka`, `shop/shop.Main`,
/// `app-1.2.jar`. What is none is not told as a name, so that a server is called the same on its host and in a capture.
pub(super) fn is_program_name(word: &str) -> bool {
    let sign = |sign: u8| sign.is_ascii_alphanumeric() || b"._$-/".contains(&sign);
    (1..=128).contains(&word.len()) && !word.starts_with(['-', '/']) && word.bytes().all(sign) && shape::harmless(word)
}

/// Options of `java` whose value is the next word (`java --help` of 8 to 25): it would pass for the main class.
pub(super) const JAVA_PAIRS: &[&str] = &[
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--limit-modules",
    "--add-exports",
    "--add-opens",
    "--add-reads",
    "--patch-module",
    "--enable-native-access",
    "--source",
    "-d",
    "--describe-module",
];

/// What runs: the main class, the jar's file name, or the module, where it has a name that a capture keeps. Nothing of its
/// own arguments is looked at.
pub fn program(arguments: &[String]) -> Option<&str> {
    // Whatever else embeds a machine has options of its own.
    arguments.first().filter(|first| options::file_name(first) == "java")?;
    let mut words = arguments.iter().skip(1).map(String::as_str);
    let mut named = None;
    while let Some(word) = words.next() {
        named = match word {
            "-jar" => words.next().map(options::file_name),
            "-m" | "--module" => words.next(),
            _ if JAVA_PAIRS.contains(&word) => {
                words.next();
                continue;
            }
            _ if word.starts_with("--module=") => word.strip_prefix("--module="),
            // A capture has `-` for a word that it left out.
            _ if word.starts_with(['-', '@']) || word.is_empty() => continue,
            _ => Some(options::file_name(word)),
        };
        break;
    }
    named.filter(|name| is_program_name(name))
}

/// The words before the program's own: those that the virtual machine takes.
pub fn own_words(arguments: &[String]) -> &[String] {
    let mut skip = false;
    let end = arguments.iter().skip(1).position(|word| {
        let value = std::mem::replace(&mut skip, JAVA_PAIRS.contains(&word.as_str()));
        !value && (matches!(word.as_str(), "-jar" | "-m" | "--module") || !word.starts_with(['-', '@']))
    });
    arguments.get(..end.map_or(arguments.len(), |end| end + 1)).unwrap_or_default()
}

/// The words of an argument file (`java @FILE`): between blanks, in quotes, after `#` none.
pub fn argument_file(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut words = Vec::new();
    for line in text.lines() {
        let mut word = String::new();
        let mut quote = None;
        for c in line.chars() {
            match (quote, c) {
                (None, '#') if word.is_empty() => break,
                (None, '"' | '\'') => quote = Some(c),
                (None, _) if c.is_whitespace() => {
                    if !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                }
                (Some(open), _) if open == c => quote = None,
                _ => word.push(c),
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_name_is_the_class_the_jar_or_the_module() {
        for (command, name) in [
            ("java -Xmx1g -cp /opt/a.jar:/opt/b.jar kafka.Kafka /etc/kafka.properties", Some("kafka.Kafka")),
            ("/usr/bin/java -Dpassword=x -jar /srv/app/app-1.2.jar --token=y", Some("app-1.2.jar")),
            ("java --add-opens java.base/java.lang=ALL-UNNAMED -p mods -m shop/shop.Main", Some("shop/shop.Main")),
            ("java --module=shop/shop.Main", Some("shop/shop.Main")),
            ("java @/etc/jvm.options org.elasticsearch.Main", Some("org.elasticsearch.Main")),
            ("java --source 17 /tmp/Hog.java x", Some("Hog.java")),
            ("java Hog", Some("Hog")),
            // What a capture could not keep is no name on its host either.
            ("java -jar /srv/a=b.jar", None),
            ("java -Xmx1g - -", None),
            ("/usr/bin/jsvc -user x com.example.Main", None),
            ("java -version", None),
            ("java", None),
        ] {
            assert_eq!(program(&words(command)), name, "{command}");
        }
    }

    #[test]
    fn the_last_flag_counts_and_the_programs_own_arguments_do_not() {
        let command =
            words("java -Xmx1g -XX:+UseLargePages -cp x -XX:-UseLargePages -Xmx2G Main -XX:+UseLargePages -Xmx9g");
        let flags = Flags::read(own_words(&command).iter().map(String::as_str));
        assert_eq!(flags.get("UseLargePages"), Some("false"));
        assert_eq!(flags.size("MaxHeapSize"), Some(Bytes::from_gib(2)));
        assert!(!flags.on("UseZGC"));
        let secret = Flags::read(["-XX:OnError=mail x", "-Dp=1", "-XX:LargePageSizeInBytes=1g"].into_iter());
        assert_eq!(secret.0, [("LargePageSizeInBytes", "1g".to_owned())]);
    }

    #[test]
    fn sizes_have_units_or_none() {
        for (text, bytes) in [
            ("512m", Some(512 << 20)),
            ("1T", Some(1 << 40)),
            ("4096", Some(4096)),
            ("", None),
            ("g", None),
            ("99999999999999999999g", None),
            ("18446744073709551615k", None),
            ("1\u{e9}", None),
            ("0x40000000", Some(1 << 30)),
            ("0X400m", Some(1 << 30)),
            ("010g", Some(10 << 30)),
            ("0x", None),
            ("1gb", None),
            ("+1g", None),
            ("-1g", None),
            ("1.5g", None),
            ("1e9", None),
        ] {
            assert_eq!(size(text), bytes.map(Bytes), "{text}");
        }
    }

    /// java -mx1g -XX:+PrintFlagsFinal of 17: MaxHeapSize is 1073741824.
    #[test]
    fn the_launchers_short_forms_are_read() {
        assert_eq!(flag("-mx1g"), Some(("MaxHeapSize", "1g".to_owned())));
        assert_eq!(flag("-ms512m"), Some(("InitialHeapSize", "512m".to_owned())));
        assert_eq!(flag("-mxbean"), None);
    }

    #[test]
    fn an_argument_file_is_words_with_quotes_and_comments() {
        let file = b"# heap\n-Xmx1g -Xms1g # both\n-cp \"/a b/c\"\n\n'-Dx=y z'\n";
        assert_eq!(argument_file(file), ["-Xmx1g", "-Xms1g", "-cp", "/a b/c", "-Dx=y z"]);
    }
}
