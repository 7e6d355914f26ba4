//! The dashboard's files, all of them in the program: path, content type, text.

pub(super) const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/script.js", "text/javascript; charset=utf-8", include_str!("page/script.js")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];
