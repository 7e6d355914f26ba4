//! What a capture keeps of a guest's command line: its memory, and of people's names only what
//! tells guests and backends apart.

use hugewise_host::capture::shape::{GONE, NO_VALUE, ValueShape};

pub(super) fn redact_option_value(
    program: &str,
    option: &str,
    value: &str,
    arguments: &[&str],
) -> Option<String> {
    if !super::KIND.is_server_program(program) {
        return None;
    }
    let backends = || referenced_backends(arguments);
    let kept = match option {
        "-object" => memory_backend(value, &backends()).unwrap_or_else(|| GONE.to_owned()),
        _ if REFERENCES.iter().any(|(known, _)| *known == option) => {
            let named = find_backend_reference(option, value);
            let named = named
                .and_then(|(property, id)| Some((property, backend_number(&id, &backends())?)));
            named.map_or_else(
                || GONE.to_owned(),
                |(property, number)| format!("{property}=m{number}"),
            )
        }
        "-m" => redact_pairs(value, |name| matches!(name, "size" | "slots" | "maxmem")),
        "-name" => redact_guest_name(value),
        _ => return None,
    };
    Some(kept)
}

fn redact_pairs(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    let kept = text.split(',').map(|part| match part.split_once('=') {
        Some((name, value)) if wanted(name) && ValueShape::Plain.matches_value(value) => part,
        None if ValueShape::Plain.matches_value(part) => part,
        _ => NO_VALUE,
    });
    kept.collect::<Vec<_>>().join(",")
}

fn redact_guest_name(text: &str) -> String {
    let named = text.split(',').find_map(|part| part.strip_prefix("guest="));
    let first = text.split(',').next().filter(|first| !first.contains('='));
    let name = named.or(first).unwrap_or_default();
    format!("guest={}", if ValueShape::Names.matches_value(name) { name } else { "" })
}

/// Options that name a memory backend, each with the property that does.
const REFERENCES: [(&str, &str); 4] = [
    ("-machine", "memory-backend"),
    ("-M", "memory-backend"),
    ("-numa", "memdev"),
    ("-device", "memdev"),
];

fn find_backend_reference(option: &str, text: &str) -> Option<(&'static str, String)> {
    let property =
        REFERENCES.iter().find(|(known, _)| *known == option).map(|(_, property)| *property)?;
    let id = if text.starts_with('{') {
        let fields: serde_json::Value = serde_json::from_str(text).ok()?;
        fields.get(property)?.as_str()?.to_owned()
    } else {
        let pairs = text.split(',').filter_map(|part| part.split_once('='));
        pairs.filter(|(name, _)| *name == property).map(|(_, id)| id.to_owned()).next_back()?
    };
    Some((property, id))
}

/// The backends that a command line names; only their numbers are kept, as the names are people's.
fn referenced_backends(arguments: &[&str]) -> Vec<String> {
    let pairs = arguments.iter().zip(arguments.iter().skip(1));
    pairs
        .filter_map(|(option, value)| find_backend_reference(option, value))
        .map(|(_, id)| id)
        .collect()
}

fn backend_number(id: &str, backends: &[String]) -> Option<usize> {
    backends.iter().position(|known| known == id)
}

/// A memory backend with what is read of it; JSON becomes the other form.
fn memory_backend(text: &str, backends: &[String]) -> Option<String> {
    const READ: [&str; 6] = ["mem-path", "hugetlb", "hugetlbsize", "size", "prealloc", "share"];
    let (kind, properties): (String, Vec<(String, String)>) = if text.starts_with('{') {
        let serde_json::Value::Object(mut fields) = serde_json::from_str(text).ok()? else {
            return None;
        };
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
    if !["memory-backend-ram", "memory-backend-file", "memory-backend-memfd"]
        .contains(&kind.as_str())
    {
        return None;
    }
    let mut kept = kind;
    let id = properties.iter().find(|(name, _)| name == "id");
    if let Some(number) = id.and_then(|(_, id)| backend_number(id, backends)) {
        kept.push_str(&format!(",id=m{number}"));
    }
    for (name, value) in properties.iter().filter(|(name, _)| READ.contains(&name.as_str())) {
        let shape = if name == "mem-path" { ValueShape::Path } else { ValueShape::Plain };
        let value = if value.contains(',') { NO_VALUE } else { shape.redact_value(value) };
        kept.push_str(&format!(",{name}={value}"));
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words behind the options of a command line, as far as they have a form of their own.
    fn redact_command(words: &[&str]) -> Vec<String> {
        let pairs =
            words.iter().zip(words.iter().skip(1)).filter(|(option, _)| option.starts_with('-'));
        pairs
            .filter_map(|(option, word)| {
                redact_option_value("qemu-system-x86_64", option, word, words)
            })
            .collect()
    }

    #[test]
    fn of_backends_what_is_read_stays() {
        assert_eq!(redact_command(&["-m", "1G", "-object", "secret,id=a,data=S3"]), ["1G", "-"]);
        assert_eq!(
            redact_command(&[
                "-object",
                "memory-backend-file,id=S3,size=1G,mem-path=/m,x=S3",
                "-m",
                "size=1G,S3"
            ]),
            ["memory-backend-file,size=1G,mem-path=/m", "size=1G,?"]
        );
        assert_eq!(
            redact_command(&[
                "-object",
                r#"{"qom-type":"memory-backend-memfd","hugetlb":true,"id":"S3"}"#
            ]),
            ["memory-backend-memfd,hugetlb=true"]
        );
        assert_eq!(redact_option_value("mysqld", "-m", "S3", &[]), None);
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
            let once = redact_command(&["-object", memory, option, value]);
            assert_eq!(once, ["memory-backend-memfd,id=m0,size=1G", named]);
            assert_eq!(redact_command(&["-object", &once[0], option, &once[1]]), once);
        }
        assert_eq!(redact_command(&["-device", "virtio-net,mac=S3"]), ["-"]);
    }
}
