//! The parameters of a request for a size.

use axum::http::StatusCode;
use hugewise_diagnose::sizing::{PageSizeChoice, Request, SizeError};
use hugewise_model::{Bytes, NoSize, PageSize};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misasked {
    #[error("{0} is given twice")]
    Twice(String),
    #[error("{name}: {value:?} is not {expected}")]
    Value { name: String, value: String, expected: &'static str },
    #[error("{name}: {why}")]
    Size { name: String, why: NoSize },
    #[error("unknown parameter {0:?}; use sessions, page_size, headroom or memory")]
    Unknown(String),
}

/// `sessions`, `page_size`, `headroom` and `memory`, as `hugewise size` takes them.
pub(super) fn parse_size_query(asked: &[(String, String)]) -> Result<Request, Misasked> {
    let mut request = Request { proposed: true, ..Request::default() };
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in asked {
        if seen.contains(&name.as_str()) {
            return Err(Misasked::Twice(name.clone()));
        }
        seen.push(name);
        let wrong =
            |expected| Misasked::Value { name: name.clone(), value: value.clone(), expected };
        match name.as_str() {
            "sessions" => {
                let sessions = value.parse().ok().filter(|sessions| *sessions > 0);
                request.sessions = Some(sessions.ok_or_else(|| wrong("a number from 1 up"))?);
            }
            "headroom" => {
                let percent = value.parse().ok().filter(|percent| *percent <= 100);
                request.headroom_percent =
                    percent.ok_or_else(|| wrong("a whole number of percent from 0 to 100"))?;
            }
            "memory" => {
                let size = Bytes::parse(value)
                    .map_err(|why| Misasked::Size { name: name.clone(), why })?;
                request.memory = Some(size);
            }
            "page_size" if value == "auto" => {}
            "page_size" => {
                let page = Bytes::parse(value).ok().and_then(|bytes| PageSize::new(bytes.get()));
                let page = page.ok_or_else(|| wrong("auto or a page size such as 2M or 1G"))?;
                request.page_size = PageSizeChoice::Size(page);
            }
            other => return Err(Misasked::Unknown(other.to_owned())),
        }
    }
    Ok(request)
}

/// Whether the request is wrong, or this host has no answer to it.
pub(super) const fn size_error_status(error: &SizeError) -> StatusCode {
    match error {
        SizeError::NothingToSize | SizeError::NoSuchPageSize { .. } => StatusCode::NOT_FOUND,
        SizeError::Headroom(_) | SizeError::NoMemory | SizeError::Sessions(_) => {
            StatusCode::BAD_REQUEST
        }
    }
}

/// Names no options of the command line.
pub(super) fn explain_size_error(error: &SizeError) -> String {
    match error {
        SizeError::NothingToSize => {
            "nothing to size: no server that could use huge pages runs on this host".into()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_nothing_that_cannot_be_asked_here() {
        let error = SizeError::NothingToSize;
        assert!(
            error.to_string().contains("--engine") && !explain_size_error(&error).contains("--"),
            "{}",
            explain_size_error(&error)
        );
    }

    fn ask(asked: &[(&str, &str)]) -> Result<Request, Misasked> {
        parse_size_query(
            &asked
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn the_question_is_that_of_the_command_line() {
        let plain = Request { proposed: true, ..Request::default() };
        assert_eq!(ask(&[]), Ok(plain.clone()));
        let all =
            [("sessions", "500"), ("page_size", "1G"), ("headroom", "10"), ("memory", "128G")];
        let request = ask(&all).unwrap();
        assert_eq!((request.sessions, request.headroom_percent), (Some(500), 10));
        assert_eq!(request.page_size, PageSizeChoice::Size(PageSize::GIB_1));
        assert_eq!(request.memory, Some(Bytes::from_gib(128)));
        assert_eq!(ask(&[("page_size", "auto")]), Ok(plain));
    }

    #[test]
    fn a_wrong_question_is_named() {
        for (name, value) in [
            ("sessions", "0"),
            ("sessions", "-1"),
            ("sessions", "many"),
            ("sessions", ""),
            ("headroom", "101"),
            ("headroom", "256"),
            ("memory", "much"),
            ("memory", "-1G"),
            ("page_size", "3M"),
            ("page_size", "1K"),
            ("root", "/etc/passwd"),
        ] {
            assert!(
                ask(&[(name, value)]).unwrap_err().to_string().contains(name),
                "{name}={value}"
            );
        }
        assert!(
            ask(&[("sessions", "1"), ("sessions", "1")]).unwrap_err().to_string().contains("twice")
        );
    }
}
