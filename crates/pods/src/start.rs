//! What a container starts: the program and its words, as the image and the manifest have them.

use hugewise_engines::{EngineKind, all_kinds, jvm};
use hugewise_model::Engine;

use crate::images::{ImageKind, ImageName, JAVA_VARIABLES, USUAL_JAVA_VARIABLES};
use crate::shell_words;
use crate::workload::ContainerSpec;

/// How a container's server starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerStart {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    pub(crate) engine: Engine,
    pub(crate) kind: Option<&'static ImageKind>,
    pub(crate) version: Option<String>,
    /// What was taken for granted, in words.
    pub(crate) notes: Vec<String>,
    /// What only somebody else can tell.
    pub(crate) questions: Vec<String>,
    /// The same, where it matters only if the server may have huge pages.
    pub(crate) questions_if_asking: Vec<String>,
}

/// What a container starts, as far as the manifest tells.
pub(crate) enum ContainerStart {
    Server(Box<ServerStart>),
    /// No server that hugewise knows.
    Unrecognized,
    /// Nobody can say what it starts.
    Open(Vec<String>),
}

pub(crate) fn find_start(container: &ContainerSpec) -> ContainerStart {
    if let Some(made) = &container.made_by {
        let start = ServerStart {
            version: made.version.clone(),
            notes: made.notes.clone(),
            questions_if_asking: made.questions.clone(),
            ..ServerStart::default()
        };
        return with_words(container, start, made.words.clone());
    }
    let image = ImageName::parse(container.image.as_deref().unwrap_or_default());
    let start =
        ServerStart { kind: image.find_kind(), version: image.version(), ..ServerStart::default() };
    match command_words(container, start.kind) {
        Ok(words) => with_words(container, start, words),
        Err(question) => match start.kind {
            // Only what a known image is for makes a question of an unreadable script.
            Some(_) => ContainerStart::Open(vec![question]),
            None => ContainerStart::Unrecognized,
        },
    }
}

fn with_words(
    container: &ContainerSpec,
    mut start: ServerStart,
    words: Vec<String>,
) -> ContainerStart {
    let open = || container.open.clone();
    let program = words.first().map_or("", |word| file_name(word));
    let kind = all_kinds().iter().find(|kind| kind.is_server_program(program));
    let is_java = program == "java" || start.kind.is_some_and(|kind| kind.program == "java");
    if is_java || (kind.is_none() && takes_java_options(container)) {
        start.engine = Engine::Jvm;
        let image = ImageName::parse(container.image.as_deref().unwrap_or_default());
        start.version = image.java_release();
        start.words = if program == "java" { words } else { vec!["java".to_owned()] };
        add_java_variables(container, &mut start);
    } else if let Some(kind) = kind {
        start.engine = kind.engine;
        start.words = words;
        add_option_variables(container, &mut start);
    } else if container.open.is_empty() {
        return ContainerStart::Unrecognized;
    } else if start.kind.is_some() || container.image.is_none() {
        return ContainerStart::Open(open());
    } else {
        return ContainerStart::Unrecognized;
    }
    start.questions.extend(open());
    ContainerStart::Server(Box::new(start))
}

/// The program and its arguments behind wrappers. An `Err` says what keeps from knowing them.
fn command_words(
    container: &ContainerSpec,
    kind: Option<&ImageKind>,
) -> Result<Vec<String>, String> {
    let expand = |words: &[String]| -> Vec<String> {
        words.iter().map(|word| container.expand_references(word)).collect()
    };
    let (command, args) = (expand(&container.command), expand(&container.args));
    let program = kind.map_or("", |kind| kind.program);
    let words = match (command.is_empty(), args.first()) {
        (false, _) => [command, args].concat(),
        (true, Some(first)) if !first.starts_with('-') => args,
        (true, _) => [vec![program.to_owned()], args].concat(),
    };
    behind_wrappers(container, &words, program)
}

/// Wrappers that run the rest of their words, with how many words of their own follow the name.
const WRAPPERS: [(&str, usize); 11] = [
    ("docker-entrypoint.sh", 0),
    ("docker-ensure-initdb.sh", 0),
    ("entrypoint.sh", 0),
    ("tini", 0),
    ("dumb-init", 0),
    ("exec", 0),
    ("env", 0),
    ("gosu", 1),
    ("su-exec", 1),
    ("nice", 0),
    ("numactl", 0),
];

fn behind_wrappers(
    container: &ContainerSpec,
    words: &[String],
    program: &str,
) -> Result<Vec<String>, String> {
    let mut rest = words;
    loop {
        let Some(first) = rest.first() else { return Ok(vec![program.to_owned()]) };
        let name = file_name(first);
        if let Some((_, own)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
            rest = rest.get(1 + own..).unwrap_or_default();
            // Options of the wrapper itself, and assignments of env.
            let own = rest.iter().take_while(|word| word.starts_with('-') || word.contains('='));
            if name != "docker-entrypoint.sh" {
                rest = rest.get(own.count()..).unwrap_or_default();
            } else if rest.first().is_none_or(|word| word.starts_with('-')) {
                return Ok([vec![program.to_owned()], rest.to_vec()].concat());
            }
            continue;
        }
        let is_shell = matches!(name, "sh" | "bash" | "ash" | "dash");
        if !is_shell {
            return Ok(rest.to_vec());
        }
        let script = rest.get(1..).unwrap_or_default();
        let at = script.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
        let Some(script) = at.and_then(|at| script.get(at + 1)) else {
            return Err(format!("what the script of container {} starts", container.name));
        };
        let variable = |name: &str| container.env_value(name).and_then(Result::ok);
        let last = shell_words::last_command(script, &variable).ok_or_else(|| {
            format!("what the shell script in container {} starts", container.name)
        })?;
        return behind_wrappers_of_script(container, &last, program);
    }
}

/// A script within a script is nobody's way to start a server.
fn behind_wrappers_of_script(
    container: &ContainerSpec,
    words: &[String],
    program: &str,
) -> Result<Vec<String>, String> {
    match words.first().map(|word| file_name(word)) {
        Some("sh" | "bash" | "ash" | "dash") => {
            Err(format!("what the scripts of container {} start", container.name))
        }
        _ => behind_wrappers(container, words, program),
    }
}

fn takes_java_options(container: &ContainerSpec) -> bool {
    let mut names = JAVA_VARIABLES.iter().chain(&USUAL_JAVA_VARIABLES);
    names.any(|name| container.env.contains_key(*name))
}

/// Puts the words of the environment where the machine finds them.
fn add_java_variables(container: &ContainerSpec, start: &mut ServerStart) {
    let by_image = start.kind.map_or(&[][..], |kind| kind.option_variables);
    let usual: &[&str] = if by_image.is_empty() { &USUAL_JAVA_VARIABLES } else { by_image };
    let own: Vec<String> = start.words.drain(1..).collect();
    for name in usual {
        let Some(text) = known_value(container, name, &mut start.questions) else { continue };
        if by_image.is_empty() {
            start.notes.push(format!("its start script hands {name} to java"));
        }
        start.words.extend(jvm::flags::argument_file(text.as_bytes()));
    }
    start.words.extend(own);
    let mut environment = std::collections::BTreeMap::new();
    for name in JAVA_VARIABLES {
        if let Some(text) = known_value(container, name, &mut start.questions) {
            environment.insert(name.to_owned(), text);
        }
    }
    start.questions_if_asking.extend(container.missing_env.iter().cloned());
    start.words = jvm::with_variables(&start.words, &environment).unwrap_or_default();
    let has_heap = |words: &[String]| {
        words.iter().any(|word| word.starts_with("-Xmx") || word.contains("RAMPercentage"))
    };
    if start.kind.is_some_and(|kind| kind.chooses_heap) && !has_heap(&start.words) {
        start.questions.push("the heap (-Xmx): this image chooses it when it starts".to_owned());
    }
}

fn add_option_variables(container: &ContainerSpec, start: &mut ServerStart) {
    for name in start.kind.map_or(&[][..], |kind| kind.option_variables) {
        if let Some(text) = known_value(container, name, &mut start.questions) {
            start.words.extend(text.split_whitespace().map(str::to_owned));
        }
    }
}

fn known_value(
    container: &ContainerSpec,
    name: &str,
    questions: &mut Vec<String>,
) -> Option<String> {
    match container.env_value(name)? {
        Ok(text) => Some(text),
        Err(missing) => {
            questions.push(missing);
            None
        }
    }
}

/// What people call an engine.
pub(crate) fn engine_name(engine: Engine) -> &'static str {
    EngineKind::for_engine(engine).name_of(engine)
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
