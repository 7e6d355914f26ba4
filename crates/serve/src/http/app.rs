//! What is answered to whom.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, Version};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use hugewise_report::Report;
use hugewise_report::json::api;
use hugewise_report::json::history::HistoryDocument;
use hugewise_report::openmetrics::{self, ExpositionFormat};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::answer_cache::{AnswerKind, Answers};
use super::connection_limiter::{Answering, Guest, STREAMS};
use super::credentials::CredentialVerdict;
use super::events::{Events, ReadingEvent};
use super::gate::Gates;
use super::{negotiate, page, size_query};
use crate::collector::LEAST_AGE;
use crate::{HostCollector, HostReading};

/// A reading takes a small part of a second; one this long hangs in the kernel.
const READING: Duration = Duration::from_secs(30);
/// The greatest age of an answer.
const FRESH: Duration = LEAST_AGE;

/// What every connection shares.
pub(super) struct App {
    collector: Arc<HostCollector>,
    gates: Arc<Gates>,
    /// Whether only this host can ask.
    loopback: bool,
    /// One request at a time asks for a reading; the others find it made.
    turn: tokio::sync::Mutex<()>,
    told: watch::Receiver<Option<Arc<ReadingEvent>>>,
    answers: Answers,
    /// Sizes are calculated one at a time, so that other requests get their turn in between.
    sizing: Semaphore,
    ended: watch::Receiver<bool>,
}

struct HttpRefusal(StatusCode, String);

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let _ = api::write_error(&self.1, &mut text);
        (self.0, [(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}

type HttpAnswer = Result<Response, HttpRefusal>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoReading {
    #[error("hugewise could not read the host")]
    Wrong,
    #[error("reading the host takes too long")]
    Late,
}

impl App {
    pub(super) fn new(
        collector: HostCollector,
        gates: Arc<Gates>,
        loopback: bool,
        ended: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let (tell, told) = watch::channel(None);
        let collector = collector.with_listener(move |reading, point| {
            tell.send_replace(Some(Arc::new(ReadingEvent::new(reading, point))));
        });
        Arc::new(Self {
            collector: Arc::new(collector),
            gates,
            loopback,
            turn: tokio::sync::Mutex::new(()),
            told,
            answers: Answers::default(),
            sizing: Semaphore::new(1),
            ended,
        })
    }

    pub(super) fn build_router(self: &Arc<Self>) -> Router {
        let files = page::FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
            router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }))
        });
        files
            .route("/metrics", get(serve_metrics))
            .route("/api/v1/check", get(serve_check))
            .route("/api/v1/size", get(serve_size))
            .route("/api/v1/history", get(serve_history))
            .route("/api/v1/events", get(serve_events))
            .route("/api/v1/openapi.json", get(|| async { json_response(openapi_description()) }))
            .fallback(|| async {
                HttpRefusal(StatusCode::NOT_FOUND, "no such page; / lists them all".into())
            })
            .layer(middleware::from_fn_with_state(Arc::clone(self), guard_request))
            .with_state(Arc::clone(self))
    }

    pub(super) async fn reading_within(
        &self,
        age: Duration,
    ) -> Result<Arc<HostReading>, NoReading> {
        let asked = Instant::now();
        let fresh = || self.collector.fresh_reading(asked, age);
        let read = async {
            if let Some(reading) = fresh() {
                return Ok(reading);
            }
            let _turn = self.turn.lock().await;
            if let Some(reading) = fresh() {
                return Ok(reading);
            }
            let collector = Arc::clone(&self.collector);
            let reading =
                tokio::task::spawn_blocking(move || collector.reading_since(asked, age)).await;
            reading.map_err(|_| NoReading::Wrong)
        };
        timeout(READING, read).await.unwrap_or(Err(NoReading::Late))
    }

    async fn fresh_reading(&self) -> Result<Arc<HostReading>, HttpRefusal> {
        self.reading_within(FRESH)
            .await
            .map_err(|why| HttpRefusal(StatusCode::SERVICE_UNAVAILABLE, why.to_string()))
    }
}

fn json_response(text: impl Into<Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

fn openapi_description() -> Bytes {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    TEXT.get_or_init(|| crate::openapi::openapi_document().into()).clone()
}

fn write_failure(error: std::io::Error) -> HttpRefusal {
    HttpRefusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

fn write_to_memory(
    write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    write(&mut text).map(|()| text)
}

async fn serve_metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> HttpAnswer {
    let format = negotiate::negotiate_format(&headers);
    let kind = match format {
        ExpositionFormat::Prometheus => AnswerKind::Prometheus,
        ExpositionFormat::OpenMetrics => AnswerKind::OpenMetrics,
    };
    let reading = app.fresh_reading().await?;
    let write = || Ok(openmetrics::write(&reading.as_metered(), format).into_bytes());
    let text =
        app.answers.answer_for_reading(reading.number, kind, write).map_err(write_failure)?;
    Ok(([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "Accept")], text)
        .into_response())
}

async fn serve_check(State(app): State<Arc<App>>) -> HttpAnswer {
    let reading = app.fresh_reading().await?;
    let write = || write_to_memory(|into| reading.as_checked().write_json(into));
    app.answers
        .answer_for_reading(reading.number, AnswerKind::Check, write)
        .map(json_response)
        .map_err(write_failure)
}

async fn serve_size(
    State(app): State<Arc<App>>,
    asked: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> HttpAnswer {
    let bad = |what: String| HttpRefusal(StatusCode::BAD_REQUEST, what);
    let Query(asked) = asked.map_err(|error| bad(error.body_text()))?;
    let request = size_query::parse_size_query(&asked).map_err(|why| bad(why.to_string()))?;
    let reading = app.fresh_reading().await?;
    // It is never closed.
    let _turn = app.sizing.acquire().await;
    let written =
        reading.size_instances(&request, |report| write_to_memory(|into| report.write_json(into)));
    let written = written.map_err(|error| {
        HttpRefusal(size_query::size_error_status(&error), size_query::explain_size_error(&error))
    })?;
    written.map(json_response).map_err(write_failure)
}

async fn serve_history(State(app): State<Arc<App>>) -> HttpAnswer {
    let number = app.collector.latest_reading().map_or(0, |reading| reading.number);
    let write = || {
        let (span, points) = (app.collector.history_span(), app.collector.history_points());
        let points = points.iter().map(AsRef::as_ref).collect();
        write_to_memory(|into| {
            HistoryDocument::new(span.gap.as_secs(), span.points, points).write_json(into)
        })
    };
    app.answers
        .answer_for_reading(number, AnswerKind::History, write)
        .map(json_response)
        .map_err(write_failure)
}

async fn serve_events(
    State(app): State<Arc<App>>,
    Extension(guest): Extension<Arc<Guest>>,
) -> HttpAnswer {
    if !guest.begin_listening() {
        return Err(HttpRefusal(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{STREAMS} dashboards are open already"),
        ));
    }
    let events = Events::start(app.told.clone(), app.ended.clone());
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response())
}

/// The page loads nothing from elsewhere, and no other page can frame it.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src \
             'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for \
             'script'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

async fn guard_request(
    State(app): State<Arc<App>>,
    Extension(guest): Extension<Arc<Guest>>,
    request: Request,
    next: Next,
) -> Response {
    let gate = app.gates.current_gate();
    let verdict = match &gate.credentials {
        Some(credentials) => credentials.judge_request(request.headers(), guest.peer).await,
        None => CredentialVerdict::Welcome,
    };
    let mut response = match verdict {
        CredentialVerdict::Refused => {
            let mut response =
                HttpRefusal(StatusCode::UNAUTHORIZED, "who asks?".into()).into_response();
            let challenge = HeaderValue::from_static("Basic realm=\"hugewise\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
        CredentialVerdict::Busy => {
            let what = "too many passwords are being checked; try again".to_owned();
            let mut response = HttpRefusal(StatusCode::SERVICE_UNAVAILABLE, what).into_response();
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            response
        }
        CredentialVerdict::Welcome if !has_one_host(&request) => {
            let what = "a request must have one Host header".to_owned();
            HttpRefusal(StatusCode::BAD_REQUEST, what).into_response()
        }
        CredentialVerdict::Welcome if has_body(request.headers()) => {
            let what = "requests must not have a body".to_owned();
            let mut response = HttpRefusal(StatusCode::PAYLOAD_TOO_LARGE, what).into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
        CredentialVerdict::Welcome
            if app.loopback && gate.credentials.is_none() && !names_this_host(&request) =>
        {
            let what =
                "the Host header names another host; use 127.0.0.1, [::1] or localhost".to_owned();
            HttpRefusal(StatusCode::MISDIRECTED_REQUEST, what).into_response()
        }
        CredentialVerdict::Welcome => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in &gate.headers {
        headers.insert(name, value.clone());
    }
    response
}

/// Everybody's routes, with the guest who asks.
pub(super) struct ConnectionService {
    routes: TowerToHyperService<Router>,
    guest: Arc<Guest>,
}

impl ConnectionService {
    pub(super) fn new(routes: Router, guest: Arc<Guest>) -> Self {
        Self { routes: TowerToHyperService::new(routes), guest }
    }
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = axum::http::Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let answering = self.guest.begin_answer();
        request.extensions_mut().insert(Arc::clone(&self.guest));
        let answer = self.routes.call(request);
        Box::pin(
            async move { Ok(answer.await?.map(|body| AnswerBody { body, _answering: answering })) },
        )
    }
}

/// Dropped when all of the answer has been handed on.
pub(super) struct AnswerBody {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// RFC 9112 6.3: a request has a body if it says so.
fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get_all(header::CONTENT_LENGTH).iter().any(|length| length != "0");
    length || headers.contains_key(header::TRANSFER_ENCODING)
}

/// RFC 9112 3.2: two of them are two opinions on whom a request is for, and whoever stands between
/// may have gone by the other. HTTP/1.0 may do without.
fn has_one_host(request: &Request) -> bool {
    match request.headers().get_all(header::HOST).iter().count() {
        0 => request.version() < Version::HTTP_11 || request.uri().authority().is_some(),
        count => count == 1,
    }
}

/// Against DNS rebinding: a page from elsewhere can have its own name resolve to 127.0.0.1 and read
/// this server as its own origin. Its browser still sends that name.
fn names_this_host(request: &Request) -> bool {
    let said = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    let Some(host) = request
        .uri()
        .authority()
        .map(|authority| authority.as_str())
        .or(said)
        .filter(|host| !host.is_empty())
    else {
        // Every browser sends it.
        return true;
    };
    let Ok(uri) = host.parse::<Uri>() else { return false };
    let name = uri.host().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || name.ends_with(".localhost")
        || address.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str) -> bool {
        names_this_host(
            &Request::builder().uri("/").header(header::HOST, host).body(Body::empty()).unwrap(),
        )
    }

    #[test]
    fn a_request_has_one_host() {
        let request = |version, hosts: &[&str]| {
            let builder = Request::builder().uri("/").version(version);
            let builder = hosts.iter().fold(builder, |builder, host| builder.header("host", *host));
            builder.body(Body::empty()).unwrap()
        };
        for (version, hosts, is_taken) in [
            (Version::HTTP_11, &["localhost"][..], true),
            (Version::HTTP_11, &["localhost", "localhost"], false),
            (Version::HTTP_11, &["localhost", "evil.example"], false),
            (Version::HTTP_11, &[], false),
            (Version::HTTP_10, &[], true),
            (Version::HTTP_10, &["localhost", "evil.example"], false),
        ] {
            assert_eq!(has_one_host(&request(version, hosts)), is_taken, "{version:?} {hosts:?}");
        }
    }

    #[test]
    fn only_names_that_nobody_can_claim_are_this_hosts() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9752",
            "[::1]:9752",
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "10.1.2.3",
        ] {
            assert!(asked(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9752",
            "a b",
            "@",
            "evil@x",
        ] {
            assert!(!asked(host), "{host}");
        }
        assert!(names_this_host(&Request::builder().uri("/").body(Body::empty()).unwrap()));
        assert!(!names_this_host(
            &Request::builder().uri("http://evil.example/").body(Body::empty()).unwrap()
        ));
    }
}
