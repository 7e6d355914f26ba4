//! Modules that use each other in a circle: what both need belongs to one of them, or below both. A module and those within it
//! may use each other; those beside each other may not, at any depth.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{Failure, shell};

/// Circles that are there on purpose.
const ALLOWED: &[(&str, &[&str])] = &[
    // What was captured answers as the kernel does, out of the files of processes, and sources are told which processes matter:
    // they read these files with the parsers that readers use, which are given a source. What configuration was remembered
    // lies beside the sources whose stamps tell that it still holds.
    ("host", &["config", "door", "kernel", "process", "source"]),
];

/// A module by its names from the crate's root.
type Module = Vec<String>;

/// One sentence for each circle among the modules of the workspace.
pub(crate) fn circles() -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    let crates = fs::read_dir(shell::root().join("crates"))?.collect::<Result<Vec<_>, _>>()?;
    let mut folders: Vec<_> = crates.into_iter().map(|entry| entry.path()).collect();
    folders.push(shell::root().join("xtask"));
    folders.sort();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut files = BTreeMap::new();
        read(&folder.join("src"), &mut Vec::new(), &mut files)?;
        for circle in of_crate(&files) {
            if !ALLOWED.iter().any(|(of, modules)| *of == name && circle == *modules) {
                found.push(format!("{name}: {} use each other in a circle (xtask/src/circles.rs)", circle.join(", ")));
            }
        }
    }
    Ok(found)
}

/// The files of a crate by their modules; programs beside it are crates of their own.
fn read(folder: &Path, at: &mut Module, files: &mut BTreeMap<Module, String>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "bin" {
                at.push(name);
                read(&path, at, files)?;
                at.pop();
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let own = matches!(name.as_str(), "mod" | "lib" | "main");
            let module: Module = at.iter().cloned().chain((!own).then_some(name)).collect();
            files.entry(module).or_default().push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The circles among modules that lie beside each other.
fn of_crate(files: &BTreeMap<Module, String>) -> Vec<Vec<String>> {
    let files: BTreeMap<&Module, Vec<String>> = files.iter().map(|(module, text)| (module, words(text))).collect();
    let is_test = |module: &[String]| {
        (1..=module.len()).any(|end| files.iter().any(|(of, text)| is_for_tests(text, of, module.get(..end))))
    };
    let modules: BTreeMap<&Module, Vec<String>> = files
        .iter()
        .filter(|(module, _)| !is_test(module))
        .map(|(module, text)| (*module, without_tests(text)))
        .collect();
    let crate_ =
        Crate { passed_on: modules.iter().map(|(module, text)| (*module, passed_on(text))).collect(), modules };
    let mut beside: BTreeMap<&[String], BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for (from, text) in &crate_.modules {
        for path in paths(text, &["crate", "super", "self"]) {
            let Some((to, _)) = crate_.modules.get_key_value(&crate_.lead(from, path)) else { continue };
            let shared = from.iter().zip(to.iter()).take_while(|(one, other)| one == other).count();
            if let (Some(one), Some(other), Some(above)) = (from.get(shared), to.get(shared), from.get(..shared)) {
                beside.entry(above).or_default().entry(one).or_default().insert(other);
            }
        }
    }
    beside.values().flat_map(among).collect()
}

/// The circles of a graph, each with all the modules that can reach each other.
fn among(uses: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses.keys().map(|from| (*from, reached(uses, from))).collect();
    let both = |one: &str, other: &str| reached.get(one).is_some_and(|all| all.contains(other));
    let circle = |from: &&str| {
        let all = reached.keys().filter(|other| both(from, other) && both(other, from));
        all.map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    let circles: BTreeSet<Vec<String>> = reached.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    circles.into_iter().collect()
}

/// All that can be reached from a module.
fn reached<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(one) = next.pop() {
        next.extend(uses.get(one).into_iter().flatten().filter(|other| seen.insert(**other)));
    }
    seen
}

/// A crate's modules, without those for tests.
struct Crate<'a> {
    modules: BTreeMap<&'a Module, Vec<String>>,
    /// What each passes on under its own name, and where that leads.
    passed_on: BTreeMap<&'a Module, BTreeMap<String, Vec<String>>>,
}

impl Crate<'_> {
    /// The module in which a path ends that stands in `from`.
    fn lead(&self, from: &Module, mut path: Vec<String>) -> Module {
        let mut at = from.clone();
        // Names that are passed on in a circle end somewhere.
        for _ in 0..64 {
            if path.is_empty() {
                break;
            }
            let name = path.remove(0);
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ => {
                    let inside: Module = at.iter().cloned().chain([name.clone()]).collect();
                    if self.modules.contains_key(&inside) {
                        at = inside;
                        continue;
                    }
                    let Some(on) = self.passed_on.get(&at).and_then(|names| names.get(&name)) else { break };
                    path = on.iter().cloned().chain(path).collect();
                    let first = path.first().cloned().unwrap_or_default();
                    let leads = ["crate", "super", "self"].contains(&first.as_str());
                    if !leads && !self.modules.contains_key(&at.iter().cloned().chain([first]).collect::<Module>()) {
                        break;
                    }
                }
            }
        }
        at
    }
}

/// A file as words and signs, without comments and what stands in quotes.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '/' if signs.peek() == Some(&'/') => while signs.next_if(|sign| *sign != '\n').is_some() {},
            '"' => {
                while let Some(inside) = signs.next() {
                    match inside {
                        '\\' => {
                            signs.next();
                        }
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '\'' => {
                // A character, and no lifetime.
                let mut ahead = signs.clone();
                let first = ahead.next();
                if first == Some('\\') {
                    signs.nth(1);
                    while signs.next().is_some_and(|sign| sign != '\'') {}
                } else if ahead.next() == Some('\'') {
                    signs.nth(1);
                }
            }
            _ if sign.is_alphanumeric() || sign == '_' => {
                let mut word = sign.to_string();
                while let Some(more) = signs.next_if(|sign| sign.is_alphanumeric() || *sign == '_') {
                    word.push(more);
                }
                words.push(word);
            }
            ':' if signs.next_if_eq(&':').is_some() => words.push("::".into()),
            _ if sign.is_whitespace() => {}
            _ => words.push(sign.into()),
        }
    }
    words
}

const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// Whether a file declares a module for tests alone.
fn is_for_tests(text: &[String], of: &Module, module: Option<&[String]>) -> bool {
    let Some((name, _)) = module.and_then(<[String]>::split_last).filter(|(_, above)| of.as_slice() == *above) else {
        return false;
    };
    (0..text.len()).filter(|at| is_at(text, *at, &FOR_TESTS)).any(|at| {
        let item = text.get(at..end_of_item(text, at)).unwrap_or_default();
        item.windows(3).any(|three| three == ["mod", name, ";"])
    })
}

fn is_at(text: &[String], at: usize, these: &[&str]) -> bool {
    text.get(at..at + these.len()).is_some_and(|words| words == these)
}

/// Where the item behind an attribute ends: with its block, or its semicolon.
fn end_of_item(text: &[String], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, word) in text.iter().enumerate().skip(from) {
        match word.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn without_tests(text: &[String]) -> Vec<String> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while let Some(word) = text.get(at) {
        if is_at(text, at, &FOR_TESTS) {
            at = end_of_item(text, at);
        } else {
            kept.push(word.clone());
            at += 1;
        }
    }
    kept
}

/// Every path that begins with one of these words, each branch of a tree by itself.
fn paths(text: &[String], first: &[&str]) -> Vec<Vec<String>> {
    let begins = |at: &usize| {
        let word = text.get(*at).is_some_and(|word| first.contains(&word.as_str()));
        word && text.get(at + 1).is_some_and(|next| next == "::")
            && (*at == 0 || text.get(at - 1).is_none_or(|it| it != "::"))
    };
    (0..text.len()).filter(begins).flat_map(|at| tree(text, at).0).collect()
}

/// The paths of a tree that begins here, and where it ends.
fn tree(text: &[String], mut at: usize) -> (Vec<Vec<String>>, usize) {
    let mut path = Vec::new();
    loop {
        match text.get(at).map(String::as_str) {
            Some("{") => {
                let mut all = Vec::new();
                at += 1;
                while let Some(word) = text.get(at).filter(|word| *word != "}") {
                    if word == "," {
                        at += 1;
                        continue;
                    }
                    let (branches, end) = tree(text, at);
                    all.extend(branches.into_iter().map(|branch| path.iter().cloned().chain(branch).collect()));
                    // Whatever it is that is no path.
                    at = end.max(at + 1);
                }
                return (all, at + 1);
            }
            Some(word) if word == "*" || word.starts_with(|sign: char| sign.is_alphanumeric() || sign == '_') => {
                path.push(word.to_owned());
                at += 1;
            }
            _ => return (vec![path], at),
        }
        if text.get(at).is_none_or(|word| word != "::") || text.get(at + 1).is_some_and(|word| word == "<") {
            if text.get(at).is_some_and(|word| word == "as") {
                at += 2;
            }
            return (vec![path], at);
        }
        at += 1;
    }
}

/// What a module passes on: the last word of each path that it uses for others.
fn passed_on(text: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut names = BTreeMap::new();
    for (at, word) in text.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| text.get(at)).map(String::as_str);
        if word == "use" && matches!(before, Some("pub" | ")")) {
            for path in tree(text, at + 1).0 {
                if let Some(last) = path.last() {
                    names.insert(last.clone(), path.clone());
                }
            }
        }
    }
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let module = |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        of_crate(&files.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect())
    }

    #[test]
    fn no_modules_of_the_workspace_use_each_other_in_a_circle() {
        let found = circles().unwrap();
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        assert_eq!(
            found(&[("", "mod a; mod b;"), ("a", "use crate::b::X;"), ("b", "fn f() { super::a::g() }")]),
            [["a", "b"]]
        );
        assert_eq!(
            found(&[
                ("", "mod a; mod b; mod c;"),
                ("a", "use crate::{Top, b::{self, Y}};"),
                ("b", "use crate::c::Z;"),
                ("c::d", "use crate::a::W;"),
                ("c", "mod d;"),
            ]),
            [["a", "b", "c"]]
        );
        // By a name that their parent passes on.
        let passed = [
            ("", "mod a; mod b; pub use b::Y; pub(crate) use a::{W as V};"),
            ("a", "use crate::Y;"),
            ("b", "use crate::a::W;"),
        ];
        assert_eq!(found(&passed), [["a", "b"]]);
        // Deeper down.
        let deep =
            [("", "mod a;"), ("a", "mod b; mod c;"), ("a::b", "use super::c::X;"), ("a::c", "use crate::a::b::Y;")];
        assert_eq!(found(&deep), [["b", "c"]]);
    }

    #[test]
    fn parents_tests_comments_and_texts_make_none() {
        let files = [
            ("", "mod a; mod b; #[cfg(test)] mod testing; pub struct Top;"),
            ("a", "use crate::Top; use crate::b::X; mod inside;"),
            ("a::inside", "use super::Y; use crate::Top;"),
            (
                "b",
                "// use crate::a::Z;\nconst T: &str = \"crate::a::Z\"; #[cfg(test)] mod tests { use crate::a::Z; }\nconst Q: char = '\"';",
            ),
            ("testing", "use crate::b::X; use crate::a::Y;"),
        ];
        assert!(found(&files).is_empty(), "{:?}", found(&files));
    }
}
