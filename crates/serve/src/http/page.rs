//! The dashboard: part of the program, and nothing from elsewhere.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

pub(super) fn page() -> Response {
    file("text/html; charset=utf-8", include_str!("page/index.html"))
}

pub(super) fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("page/script.js"))
}

pub(super) fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("page/style.css"))
}

pub(super) fn icon() -> Response {
    file("image/svg+xml", include_str!("page/icon.svg"))
}
