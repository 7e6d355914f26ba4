//! Whether a systemd service vouches for a server: a chain of proofs, each of which somebody who
//! has taken over the service's account could not have arranged.
//!
//! The process lies in the service's control group, and that is easily had: whatever a service runs
//! stays in it. So the unit's own files have to name the server, or what is known to start it.

use hugewise_host::Source;
use hugewise_model::configuration::ServiceUnit;
use hugewise_model::{Engine, Host, Instance, Observed, Process};

use super::{Proof, control_groups, is_program_of_root, start_script, unit_of};
use crate::EngineKind;
use crate::shared::discovery::find_uid;
use crate::shared::options;

/// The largest start script that is searched for the server's name.
const MAX_SCRIPT: u64 = 256 << 10;

/// The proofs, in the order in which they are tried, up to the first that fails.
pub(super) fn prove(
    host: &Host,
    source: &dyn Source,
    instance: &Instance,
    main: &Process,
) -> Result<Vec<String>, String> {
    let name = instance.unit.as_deref().ok_or("no system service runs it")?;
    if !instance.unit_is_its_own {
        return Err(format!("{name} runs more than this server"));
    }
    let unit = unit_of(host, instance)
        .filter(|unit| !unit.files.is_empty())
        .ok_or_else(|| format!("{name} has no unit file"))?;
    Ok(vec![
        files_of_root(host, source, unit)?,
        user_of_unit(host, unit, main)?,
        start_command(host, source, unit, instance, main)?,
        control_groups::prove_service(host, source, name, main)?,
        is_program_of_root(host, source, main)?,
    ])
}

fn files_of_root(host: &Host, source: &dyn Source, unit: &ServiceUnit) -> Proof {
    for file in &unit.files {
        prove_root_alone(host, source, file)?;
    }
    let files = unit.files.join(", ");
    Ok(match host.live {
        true => format!("only root owns {files}"),
        false => format!("{files} describes it (a capture does not say who owns that)"),
    })
}

/// Root alone can have put there what a proof goes by, and can replace it.
fn prove_root_alone(host: &Host, source: &dyn Source, path: &str) -> Result<(), String> {
    match source.check_root_alone(path) {
        Observed::Known(()) => Ok(()),
        Observed::Absent if !host.live => Ok(()),
        Observed::Malformed(why) if why.starts_with(path) => Err(why),
        Observed::Malformed(why) => Err(format!("{path} is not root's alone: {why}")),
        other => {
            let why = other.reason_text().unwrap_or_else(|| "it is missing".to_owned());
            Err(format!("whose {path} is cannot be determined: {why}"))
        }
    }
}

/// Where systemd looks for a program that is named without a folder (systemd.service(5)).
const SEARCHED: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

/// A program or script as a path; `None` where it is named without a folder and in none of those
/// searched, or relative to a folder.
fn locate_program(host: &Host, source: &dyn Source, program: &str) -> Option<String> {
    if program.starts_with('/') || !host.live {
        return Some(program.to_owned());
    }
    let paths = SEARCHED.iter().map(|folder| format!("{folder}/{program}"));
    let mut paths = paths.filter(|_| !program.contains('/'));
    paths.find(|path| source.owner_of(path).is_known())
}

/// Whether the words of a start command stand in files of root's alone. A file of variables that
/// somebody else can write, or put there, may say anything for any variable at the next start.
fn are_variables_of_root(host: &Host, source: &dyn Source, unit: &ServiceUnit) -> bool {
    unit.start.variable_places.iter().all(|place| match source.check_root_alone(place) {
        Observed::Known(()) | Observed::Absent => true,
        Observed::Denied | Observed::Malformed(_) => !host.live,
    })
}

/// Without `User=` that is root.
fn user_of_unit(host: &Host, unit: &ServiceUnit, main: &Process) -> Proof {
    let name = &unit.name;
    if main.caller.is_some() {
        return Err("it is a set-user-ID program".to_owned());
    }
    let (user, uid) = match &unit.user {
        Observed::Known(user) => {
            let user = without_specifiers(name, user);
            let uid = find_uid(host, &user);
            (user, uid)
        }
        Observed::Absent => ("root".to_owned(), Some(0)),
        Observed::Denied | Observed::Malformed(_) => {
            return Err(format!("the user of {name} is not known"));
        }
    };
    if uid != Some(main.uid) {
        return Err(format!("{name} runs it as another user than its own"));
    }
    Ok(format!("it runs as {user}, the user of {name}"))
}

fn start_command(
    host: &Host,
    source: &dyn Source,
    unit: &ServiceUnit,
    instance: &Instance,
    main: &Process,
) -> Proof {
    let name = &unit.name;
    let server = main
        .executable
        .as_known()
        .map_or(options::program_name(main), |path| options::file_name(path))
        .trim_end_matches(" (deleted)");
    let mut failed = format!("{name} has no ExecStart=");
    let all_words = are_variables_of_root(host, source, unit);
    for command in &unit.start.commands {
        let words = if all_words { &command.words } else { &command.bare_words };
        match find_server_in_words(host, source, instance, server, words) {
            Ok(what) => return Ok(format!("{name} starts {what} ({})", command.place)),
            Err(NotServer::Other(what)) => failed = format!("{name} starts {what}, not {server}"),
            Err(NotServer::NotRoots { program, why }) => {
                failed = format!("{name} starts {program}, but {why}");
            }
        }
    }
    Err(failed)
}

/// Why a start command tells nothing of a server.
enum NotServer {
    /// It starts something else.
    Other(String),
    /// Somebody else than root can replace what it starts.
    NotRoots { program: String, why: String },
}

/// What of a start command is the server, or known to start it. Its name alone says nothing: all
/// that it takes to run it are files that root alone can replace.
fn find_server_in_words(
    host: &Host,
    source: &dyn Source,
    instance: &Instance,
    server: &str,
    words: &[String],
) -> Result<String, NotServer> {
    let kind = EngineKind::for_engine(instance.engine);
    let other = |what: &str| NotServer::Other(what.to_owned());
    let Some(first) = words.first() else { return Err(other("nothing")) };
    // What a process calls itself may have made it a server of its kind: its program is another.
    let is_of_kind = instance.engine == Engine::Other
        || kind.may_be_started_by(server)
        || kind.recognition.main_program == Some(server);
    let starts = |path: &str| {
        let program = options::file_name(path);
        (is_of_kind && program == server)
            || kind.is_server_program(program)
            || kind.is_wrapper(program)
    };
    let prove = |program: &str| {
        let path = locate_program(host, source, program)
            .ok_or_else(|| format!("{program} is not in {}", SEARCHED.join(", ")));
        let proven = path.and_then(|path| prove_root_alone(host, source, &path).map(|()| path));
        proven.map_err(|why| NotServer::NotRoots { program: program.to_owned(), why })
    };
    if starts(first) {
        return prove(first).map(|_| first.clone());
    }
    // What an interpreter runs, and a script that is named without one.
    let interprets = is_interpreter(options::file_name(first));
    let script = if interprets { script_of(words) } else { Some(first.as_str()) };
    let Some(script) = script else { return Err(other(first)) };
    if !starts(script) && !may_name_server(host, script) {
        return Err(other(script));
    }
    // An interpreter looks for scripts by rules of its own.
    if interprets && host.live && !script.starts_with('/') {
        return Err(other(script));
    }
    if interprets {
        prove(first)?;
    }
    let path = prove(script)?;
    let starts_it = || !host.live || (is_of_kind && starts_server(source, &path, server));
    if starts(script) || starts_it() { Ok(script.to_owned()) } else { Err(other(script)) }
}

/// Shells, and what the programs that keep servers up are written in.
pub(super) fn is_interpreter(program: &str) -> bool {
    super::is_shell(program)
        || ["python", "perl", "ruby"].iter().any(|name| {
            program.strip_prefix(name).is_some_and(|version| {
                version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            })
        })
}

/// The script that an interpreter is given: the first word behind its options.
pub(super) fn script_of(words: &[String]) -> Option<&str> {
    words.iter().skip(1).map(String::as_str).find(|word| !word.starts_with('-'))
}

/// Whether a script may speak of the server. A capture does not hold scripts: there its own name
/// has to tell what it is.
fn may_name_server(host: &Host, script: &str) -> bool {
    host.live || script.ends_with(".sh")
}

/// Whether a script starts the server.
fn starts_server(source: &dyn Source, script: &str, server: &str) -> bool {
    let text = source.read_limited(script, MAX_SCRIPT).into_known();
    text.is_some_and(|text| {
        let is_script = text.starts_with(b"#!");
        is_script && start_script::starts_program(&String::from_utf8_lossy(&text), server)
    })
}

/// A unit's value with what stands for its own name filled in: `%i` and `%I` are the instance of a
/// template, `%p` and `%P` its name (systemd.unit(5)).
fn without_specifiers(unit: &str, value: &str) -> String {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let (prefix, instance) = name.split_once('@').unwrap_or((name, ""));
    [("%i", instance), ("%I", instance), ("%p", prefix), ("%P", prefix)]
        .iter()
        .fold(value.to_owned(), |value, (specifier, text)| value.replace(specifier, text))
}
