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
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use hugewise_report::json::api;
use hugewise_report::json::history::History;
use hugewise_report::openmetrics::{self, Format};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::answers::{Answers, Kind};
use super::credentials::Verdict;
use super::crowd::{Answering, Guest, STREAMS};
use super::events::{Event, Events};
use super::gate::Gates;
use super::{negotiate, page, query};
use crate::collect::LEAST_AGE;
use crate::{Collector, Reading};

/// A reading takes a small part of a second; where it takes this long, the kernel has lost its way.
const READING: Duration = Duration::from_secs(30);
/// The answer to a scrape or a question is no older than this.
const FRESH: Duration = LEAST_AGE;

/// What every connection shares.
pub(super) struct App {
    collector: Arc<Collector>,
    gates: Arc<Gates>,
    /// Whether only this host can ask.
    loopback: bool,
    /// One at a time asks for a reading; the others find it made.
    turn: tokio::sync::Mutex<()>,
    told: watch::Receiver<Option<Arc<Event>>>,
    answers: Answers,
    /// Sizes are worked out one at a time: between two of them the others have their turn.
    sizing: Semaphore,
    ended: watch::Receiver<bool>,
}

/// There is no answer: the status, and why.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let _ = api::write_error(&self.1, &mut text);
        (self.0, [(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}

type Answer = Result<Response, Refusal>;

/// Why there is no reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoReading {
    #[error("hugewise could not read the host")]
    Wrong,
    #[error("reading the host takes too long")]
    Late,
}

impl App {
    pub(super) fn new(
        collector: Collector,
        gates: Arc<Gates>,
        loopback: bool,
        ended: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let (tell, told) = watch::channel(None);
        let collector = collector.telling(move |reading, point| {
            tell.send_replace(Some(Arc::new(Event::new(reading, point))));
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

    pub(super) fn routes(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/", get(|| async { page::page() }))
            .route("/script.js", get(|| async { page::script() }))
            .route("/style.css", get(|| async { page::style() }))
            .route("/icon.svg", get(|| async { page::icon() }))
            .route("/metrics", get(metrics))
            .route("/api/v1/check", get(check))
            .route("/api/v1/size", get(size))
            .route("/api/v1/history", get(history))
            .route("/api/v1/events", get(events))
            .route("/api/v1/openapi.json", get(|| async { json(description()) }))
            .fallback(|| async { Refusal(StatusCode::NOT_FOUND, "no such page; / lists them all".into()) })
            .layer(middleware::from_fn_with_state(Arc::clone(self), guard))
            .with_state(Arc::clone(self))
    }

    /// A reading no older than that. However many ask, one thread reads.
    pub(super) async fn reading(&self, age: Duration) -> Result<Arc<Reading>, NoReading> {
        let asked = Instant::now();
        let fresh = || self.collector.fresh(asked, age);
        let read = async {
            if let Some(reading) = fresh() {
                return Ok(reading);
            }
            let _turn = self.turn.lock().await;
            if let Some(reading) = fresh() {
                return Ok(reading);
            }
            let collector = Arc::clone(&self.collector);
            let reading = tokio::task::spawn_blocking(move || collector.since(asked, age)).await;
            reading.map_err(|_| NoReading::Wrong)
        };
        timeout(READING, read).await.unwrap_or(Err(NoReading::Late))
    }

    async fn fresh(&self) -> Result<Arc<Reading>, Refusal> {
        self.reading(FRESH).await.map_err(|why| Refusal(StatusCode::SERVICE_UNAVAILABLE, why.to_string()))
    }
}

fn json(text: impl Into<Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// The same for everybody, always.
fn description() -> Bytes {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    TEXT.get_or_init(|| crate::openapi::openapi().into()).clone()
}

fn unwritten(error: std::io::Error) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// What is written into memory by that.
fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    write(&mut text).map(|()| text)
}

async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer {
    let format = negotiate::format(&headers);
    let kind = match format {
        Format::Prometheus => Kind::Prometheus,
        Format::OpenMetrics => Kind::OpenMetrics,
    };
    let reading = app.fresh().await?;
    let write = || Ok(openmetrics::write(&reading.metered(), format).into_bytes());
    let text = app.answers.of(reading.number, kind, write).map_err(unwritten)?;
    Ok(([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "Accept")], text).into_response())
}

async fn check(State(app): State<Arc<App>>) -> Answer {
    let reading = app.fresh().await?;
    let write = || text(|into| reading.checked().write_json(into));
    app.answers.of(reading.number, Kind::Check, write).map(json).map_err(unwritten)
}

async fn size(State(app): State<Arc<App>>, asked: Result<Query<Vec<(String, String)>>, QueryRejection>) -> Answer {
    let bad = |what: String| Refusal(StatusCode::BAD_REQUEST, what);
    let Query(asked) = asked.map_err(|error| bad(error.body_text()))?;
    let request = query::size(&asked).map_err(|why| bad(why.to_string()))?;
    let reading = app.fresh().await?;
    // It is never closed.
    let _turn = app.sizing.acquire().await;
    let written = reading.size(&request, |report| text(|into| report.write_json(into)));
    let written = written.map_err(|error| Refusal(query::status(&error), query::explain(&error)))?;
    written.map(json).map_err(unwritten)
}

async fn history(State(app): State<Arc<App>>) -> Answer {
    let number = app.collector.latest().map_or(0, |reading| reading.number);
    let write = || {
        let (span, points) = (app.collector.span(), app.collector.history());
        let points = points.iter().map(AsRef::as_ref).collect();
        text(|into| History::new(span.gap.as_secs(), span.points, points).write_json(into))
    };
    app.answers.of(number, Kind::History, write).map(json).map_err(unwritten)
}

async fn events(State(app): State<Arc<App>>, Extension(guest): Extension<Arc<Guest>>) -> Answer {
    if !guest.listens() {
        return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, format!("{STREAMS} dashboards are open already")));
    }
    let events = Events::start(app.told.clone(), app.ended.clone());
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response())
}

/// Headers of every answer. The page uses nothing but what this server gives it, and is in no other page's frame.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

async fn guard(
    State(app): State<Arc<App>>,
    Extension(guest): Extension<Arc<Guest>>,
    request: Request,
    next: Next,
) -> Response {
    let gate = app.gates.now();
    let verdict = match &gate.credentials {
        Some(credentials) => credentials.judge(request.headers(), guest.peer()).await,
        None => Verdict::Welcome,
    };
    let mut response = match verdict {
        Verdict::Refused => {
            let mut response = Refusal(StatusCode::UNAUTHORIZED, "who asks?".into()).into_response();
            let challenge = HeaderValue::from_static("Basic realm=\"hugewise\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
        Verdict::Busy => {
            let what = "too many passwords are being checked; try again".to_owned();
            let mut response = Refusal(StatusCode::SERVICE_UNAVAILABLE, what).into_response();
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            response
        }
        Verdict::Welcome if has_body(request.headers()) => {
            let what = "requests must not have a body".to_owned();
            let mut response = Refusal(StatusCode::PAYLOAD_TOO_LARGE, what).into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
        Verdict::Welcome if app.loopback && gate.credentials.is_none() && !names_this_host(&request) => {
            let what = "the Host header names another host; use 127.0.0.1, [::1] or localhost".to_owned();
            Refusal(StatusCode::MISDIRECTED_REQUEST, what).into_response()
        }
        Verdict::Welcome => next.run(request).await,
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

/// What one connection is answered by: everybody's routes, and it is known who asks.
pub(super) struct Asked {
    routes: TowerToHyperService<Router>,
    guest: Arc<Guest>,
}

impl Asked {
    pub(super) fn new(routes: Router, guest: Arc<Guest>) -> Self {
        Self { routes: TowerToHyperService::new(routes), guest }
    }
}

impl Service<Request<Incoming>> for Asked {
    type Response = axum::http::Response<Held>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let answering = self.guest.asks();
        request.extensions_mut().insert(Arc::clone(&self.guest));
        let answer = self.routes.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Held { body, _answering: answering })) })
    }
}

/// The body of an answer; when it is gone, all of it has been handed on.
pub(super) struct Held {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Held {
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

/// A page from elsewhere can have its own name lead to 127.0.0.1 and then ask this server as if it were its own.
/// Its browser still sends that name.
fn names_this_host(request: &Request) -> bool {
    let said = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    let Some(host) = request.uri().authority().map(|it| it.as_str()).or(said).filter(|host| !host.is_empty()) else {
        // No browser leaves it out.
        return true;
    };
    let Ok(uri) = host.parse::<Uri>() else { return false };
    let name = uri.host().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.ends_with(".localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str) -> bool {
        names_this_host(&Request::builder().uri("/").header(header::HOST, host).body(Body::empty()).unwrap())
    }

    #[test]
    fn only_names_that_nobody_can_claim_are_this_hosts() {
        for host in ["127.0.0.1", "127.0.0.1:9752", "[::1]:9752", "localhost", "LOCALHOST:1", "localhost.", "10.1.2.3"]
        {
            assert!(asked(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9752", "a b", "@", "evil@x"] {
            assert!(!asked(host), "{host}");
        }
        assert!(names_this_host(&Request::builder().uri("/").body(Body::empty()).unwrap()));
        assert!(!names_this_host(&Request::builder().uri("http://evil.example/").body(Body::empty()).unwrap()));
    }
}
