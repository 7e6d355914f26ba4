//! Expectations of a JSON answer, and the verdict on a case.

use serde_json::Value;

use super::case::CaseStep;

/// How a case ended, from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// All is said that has to be.
    #[default]
    Right,
    /// What the case is about is said, but not all.
    Partly,
    /// What the case is about is not said.
    Wrong,
    /// Something is said that would do harm.
    Harmful,
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Partly => "partly",
            Self::Wrong => "wrong",
            Self::Harmful => "HARMFUL",
        }
    }
}

/// What a command answered.
pub(crate) struct Answer {
    exit: Option<i32>,
    json: Value,
}

impl Answer {
    pub(crate) fn new(exit: Option<i32>, output: &[u8]) -> Self {
        Self { exit, json: serde_json::from_slice(output).unwrap_or(Value::Null) }
    }

    /// The values at a path, as text; a missing one and null are none.
    fn values_at(&self, path: &[PathStep]) -> Vec<String> {
        if path == [PathStep::Field("exit".to_owned())] {
            return self.exit.iter().map(ToString::to_string).collect();
        }
        let mut found = vec![&self.json];
        for step in path {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found.into_iter().filter_map(value_as_text).collect()
    }
}

/// A case's verdict, and what differed.
#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) differences: Vec<String>,
}

impl Judged {
    /// Takes one command's answer into account.
    pub(crate) fn judge_step(&mut self, step: &CaseStep, answer: &Answer, error: &str) {
        for (expectations, wanted, verdict) in [
            (&step.must, true, Verdict::Wrong),
            (&step.also, true, Verdict::Partly),
            (&step.never, false, Verdict::Harmful),
        ] {
            for expectation in expectations {
                let values = answer.values_at(&expectation.path);
                if expectation.is_met(&values) == wanted {
                    continue;
                }
                self.verdict = self.verdict.max(verdict);
                let word = if wanted { "not" } else { "said" };
                let said = values.join(", ");
                self.differences.push(format!("{word}: {}  ({said})", expectation.text));
            }
        }
        if answer.json.is_null() && self.verdict != Verdict::Right {
            let first = error.lines().find(|line| !line.trim().is_empty());
            self.differences.push(format!("stderr: {}", first.unwrap_or_default()));
        }
    }
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
enum PathStep {
    /// A field of an object.
    Field(String),
    /// All items of a list.
    Items,
    /// The items of a list whose fields have these values.
    Where(Vec<(String, String)>),
}

impl PathStep {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let items = || value.as_array().into_iter().flatten();
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Items => items().collect(),
            Self::Where(fields) => items()
                .filter(|item| {
                    fields.iter().all(|(name, wanted)| {
                        item.get(name).and_then(value_as_text).as_ref() == Some(wanted)
                    })
                })
                .collect(),
        }
    }
}

fn value_as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// One line of what has to be said: `PATH OPERATOR VALUE`, with alternatives between `|`.
pub(crate) struct Expectation {
    text: String,
    path: Vec<PathStep>,
    operator: Operator,
    wanted: Vec<String>,
}

#[derive(Clone, Copy)]
enum Operator {
    /// There is a value, and all are one of those.
    Is,
    /// One of the values is one of those.
    Has,
    /// None is.
    Lacks,
    /// One of the values contains one of those texts.
    Contains,
    /// There is a value, and all are at least this number.
    AtLeast,
    /// There is a value, and all are at most this number.
    AtMost,
}

impl Expectation {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const OPERATORS: [(&str, Operator); 6] = [
            (" = ", Operator::Is),
            (" has ", Operator::Has),
            (" lacks ", Operator::Lacks),
            (" contains ", Operator::Contains),
            (" >= ", Operator::AtLeast),
            (" <= ", Operator::AtMost),
        ];
        let (path, operator, value) = OPERATORS
            .iter()
            .filter_map(|(word, operator)| Some((text.find(word)?, *word, *operator)))
            .min_by_key(|(at, ..)| *at)
            .and_then(|(_, word, operator)| {
                text.split_once(word).map(|(path, value)| (path, operator, value))
            })
            .ok_or_else(|| format!("no operator in `{text}`"))?;
        Ok(Self {
            text: text.to_owned(),
            path: parse_path(path.trim())?,
            operator,
            wanted: value.split('|').map(|word| word.trim().to_owned()).collect(),
        })
    }

    fn is_met(&self, values: &[String]) -> bool {
        let is_wanted = |value: &String| self.wanted.contains(value);
        let all_compare = |compare: fn(f64, f64) -> bool| {
            let number = |text: &String| text.parse::<f64>().ok();
            let bound = self.wanted.first().and_then(number);
            !values.is_empty()
                && values.iter().all(|value| {
                    number(value).zip(bound).is_some_and(|(value, bound)| compare(value, bound))
                })
        };
        match self.operator {
            Operator::Is => !values.is_empty() && values.iter().all(is_wanted),
            Operator::Has => values.iter().any(is_wanted),
            Operator::Lacks => !values.iter().any(is_wanted),
            Operator::Contains => values
                .iter()
                .any(|value| self.wanted.iter().any(|wanted| value.contains(wanted.as_str()))),
            Operator::AtLeast => all_compare(|value, bound| value >= bound),
            Operator::AtMost => all_compare(|value, bound| value <= bound),
        }
    }
}

/// `instances[engine=oracle,name=PROD].moments.now.state`, `findings[*].code`.
fn parse_path(text: &str) -> Result<Vec<PathStep>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (selector, after) =
                inside.split_once(']').ok_or_else(|| format!("no ] in {text}"))?;
            rest = after.strip_prefix('.').unwrap_or(after);
            if selector == "*" {
                steps.push(PathStep::Items);
                continue;
            }
            let fields: Option<Vec<(String, String)>> = selector
                .split(',')
                .map(|field| field.split_once('='))
                .map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned())))
                .collect();
            steps.push(PathStep::Where(fields.ok_or_else(|| format!("no = in [{selector}]"))?));
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        steps.push(PathStep::Field(name.to_owned()));
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    if steps.is_empty() { Err("no path".to_owned()) } else { Ok(steps) }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Expectation};

    fn is_met(text: &str) -> bool {
        let json = br#"{"a":[{"n":"x/1","k":3},{"n":"y","k":4,"z":null}],"b":true}"#;
        let answer = Answer::new(Some(1), json);
        let expectation = Expectation::parse(text).expect("an expectation");
        expectation.is_met(&answer.values_at(&expectation.path))
    }

    #[test]
    fn an_expectation_finds_values_by_their_path() {
        for met in [
            "exit = 1",
            "exit = 0|1",
            "a[n=x/1].k = 3",
            "a[n=x/1,k=3].n = x/1",
            "a[*].k has 4",
            "a[*].k lacks 5",
            "a[*].k >= 3",
            "a[*].k <= 4",
            "a[*].n contains /",
            "b = true",
        ] {
            assert!(is_met(met), "{met}");
        }
        for missed in ["exit = 0", "a[n=z].k = 3", "a[*].k = 3", "a[*].z = 1", "a[*].k >= 4"] {
            assert!(!is_met(missed), "{missed}");
        }
    }
}
