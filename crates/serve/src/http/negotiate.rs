//! Which format a scraper wants (RFC 9110 12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use hugewise_report::openmetrics::ExpositionFormat;

/// OpenMetrics for clients that ask for it and do not prefer plain text; otherwise Prometheus.
pub(super) fn negotiate_format(headers: &HeaderMap) -> ExpositionFormat {
    let (mut open, mut plain) = (0.0_f64, 0.0_f64);
    for value in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
        for one in value.split(',') {
            let mut parts = one.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut known) = (1.0, true);
            for part in parts {
                match part.split_once('=') {
                    Some(("q", text)) => weight = text.parse().unwrap_or(0.0),
                    Some(("version", version)) => {
                        known = matches!(version.trim_matches('"'), "1.0.0" | "0.0.1" | "0.0.4")
                    }
                    _ => {}
                }
            }
            match kind.as_str() {
                "application/openmetrics-text" if known => open = open.max(weight),
                "text/plain" if known => plain = plain.max(weight),
                _ => {}
            }
        }
    }
    if open > 0.0 && open >= plain {
        ExpositionFormat::OpenMetrics
    } else {
        ExpositionFormat::Prometheus
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn of(accept: &str) -> ExpositionFormat {
        negotiate_format(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]))
    }

    #[test]
    fn each_scraper_gets_its_own() {
        // Prometheus 2.42 and 3.5, a browser, curl.
        let open = [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text",
        ];
        for accept in open {
            assert_eq!(of(accept), ExpositionFormat::OpenMetrics, "{accept}");
        }
        for accept in [
            "text/html,*/*;q=0.8",
            "*/*",
            "",
            "text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=9.0.0",
            "text/plain;q=0.9,application/openmetrics-text;q=0.2",
            "application/vnd.google.protobuf",
            "application/openmetrics-text;q=NaN",
        ] {
            assert_eq!(of(accept), ExpositionFormat::Prometheus, "{accept}");
        }
        assert_eq!(negotiate_format(&HeaderMap::new()), ExpositionFormat::Prometheus);
    }

    proptest! {
        #[test]
        fn who_does_not_name_openmetrics_does_not_get_it(accept in "([ -~]{0,20}|text/plain|application/|;q=|,){0,8}") {
            prop_assert_eq!(of(&accept), ExpositionFormat::Prometheus);
        }
    }
}
