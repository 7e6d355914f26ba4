//! Asking a store over HTTP: what is tried again, and what is said of a refusal.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ureq::http::{Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};
use url::Url;

/// How often it is tried, and how long is waited before each time but the first.
const WAITS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15)];
/// A store that does not answer for so long is not there.
const CONNECT: Duration = Duration::from_secs(10);
/// Nor one of which nothing more comes, or that takes nothing more.
const STILL: Duration = Duration::from_secs(60);
/// Of one try, all in all.
const WHOLE: Duration = Duration::from_secs(3600);
/// How much of an answer is looked at for what went wrong.
const ANSWER: u64 = 16 << 10;

/// Why it was not done.
#[derive(Debug)]
pub(crate) struct StoreError {
    pub(super) what: String,
    /// Whether it may be otherwise in a moment.
    pub(super) passes: bool,
    /// Whether the store refused it.
    pub(super) denied: bool,
}

impl StoreError {
    /// It will be no other in a moment.
    pub(super) fn lasting(what: impl Into<String>) -> Self {
        Self { what: what.into(), passes: false, denied: false }
    }

    /// It may be otherwise in a moment.
    pub(super) fn passing(what: impl Into<String>) -> Self {
        Self { what: what.into(), passes: true, denied: false }
    }
}

/// Tries it until it is done, or fails for good.
pub(super) fn retry_request<T>(
    mut once: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut waits = WAITS.iter();
    loop {
        let why = match once() {
            Ok(done) => return Ok(done),
            Err(why) => why,
        };
        match waits.next().filter(|_| why.passes) {
            Some(wait) => thread::sleep(*wait),
            None => return Err(why),
        }
    }
}

/// The answer, where it is that it was done.
pub(super) fn check_response(
    sent: Result<Response<Body>, ureq::Error>,
) -> Result<Response<Body>, StoreError> {
    let mut answer = match sent {
        Ok(answer) => answer,
        Err(error) => return Err(request_error(&error)),
    };
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let passes = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    let body = answer
        .body_mut()
        .with_config()
        .limit(ANSWER)
        .lossy_utf8(true)
        .read_to_string()
        .unwrap_or_default();
    let code = parse_error_code(&body);
    let hint = refusal_hint(status, code);
    let code = code.map(|code| format!(", {code}")).unwrap_or_default();
    let denied = matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED);
    Err(StoreError {
        what: format!("the store answered {}{code}{hint}", status.as_u16()),
        passes,
        denied,
    })
}

/// What to do about a refusal, by the words of "Error responses" in Amazon's reference, which
/// others use too, and of "Common REST API error codes" in Azure's.
fn refusal_hint(status: StatusCode, code: Option<&str>) -> &'static str {
    match code.unwrap_or_default() {
        "SignatureDoesNotMatch" => {
            ": aws_secret_access_key does not belong to aws_access_key_id, or the address was \
                 signed for another name or is cut short"
        }
        "InvalidAccessKeyId" => {
            ": it does not know aws_access_key_id; are the keys of this store, and is \
                 endpoint_url this store's?"
        }
        "AuthorizationHeaderMalformed" | "AuthorizationQueryParametersError" => {
            ": the keys are signed for another region; set `region` beside them"
        }
        "RequestTimeTooSkewed" => ": this host's clock is not the store's; set it",
        "ExpiredToken" | "RequestExpired" | "TokenRefreshRequired" => {
            ": the keys or the address have expired; get new ones"
        }
        "AccessDenied" => {
            ": the keys are not allowed to do it, or the address has expired; sending needs \
                 s3:PutObject, reading s3:ListBucket and \
             s3:GetObject"
        }
        "AuthenticationFailed" => {
            ": the key is not this account's, the token is cut short or has expired, or this \
                 host's clock is not the store's"
        }
        "AuthorizationFailure" => {
            ": the key is not this account's, or the token, or the account's network rules, do \
                 not allow it; reading needs the permissions \
             read and list"
        }
        "AuthorizationPermissionMismatch" | "AuthorizationResourceTypeMismatch" => {
            ": the token is not allowed to do it; reading needs the permissions read and list"
        }
        "ContainerNotFound" => ": there is no container of that name in this account",
        "NoSuchBucket" => ": there is no bucket of that name at this store",
        _ => match status {
            StatusCode::FORBIDDEN => {
                ": the signature is wrong or has expired, or the keys are not allowed to do it"
            }
            StatusCode::UNAUTHORIZED => ": it wants a credential",
            StatusCode::NOT_FOUND => ": there is no such bucket or folder",
            _ if status.is_redirection() => {
                ": it is somewhere else; give the address that it redirects to"
            }
            _ => "",
        },
    }
}

/// Words of an error hold no address: only its kind is taken.
fn request_error(error: &ureq::Error) -> StoreError {
    let (what, passes) = match error {
        ureq::Error::HostNotFound => ("there is no host of that name".to_owned(), true),
        ureq::Error::Timeout(_) => ("no answer in time".to_owned(), true),
        ureq::Error::Io(error) => {
            match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(error) => (not_believed(error), false),
                None => (error.to_string(), true),
            }
        }
        ureq::Error::ConnectionFailed => ("no connection".to_owned(), true),
        ureq::Error::Rustls(error) => (not_believed(error), false),
        ureq::Error::Tls(why) => (format!("TLS: {why}"), false),
        ureq::Error::Protocol(error) => (format!("it does not speak HTTP: {error}"), true),
        _ => ("it cannot be reached".to_owned(), true),
    };
    StoreError { what, passes, denied: false }
}

fn not_believed(error: &rustls::Error) -> String {
    format!("its certificate or its TLS is not accepted: {error}")
}

/// The word of an S3 error, such as `AccessDenied`; the rest of it may repeat what was sent.
fn parse_error_code(body: &str) -> Option<&str> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    (code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(code)
}

/// Without what may be a key.
pub(super) fn redact_address(address: &Url) -> String {
    let mut shown = address.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    shown.into()
}

pub(super) fn new_agent() -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    // A redirect would take the capture to a place that nobody named.
    let config = Agent::config_builder()
        .tls_config(tls)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(STILL))
        .timeout_per_write(Some(STILL))
        .timeout_global(Some(WHOLE))
        .user_agent(concat!("hugewise/", env!("CARGO_PKG_VERSION")));
    config.build().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_holds_no_key() {
        let address = Url::parse("https://store/in/x?X-Amz-Signature=abc#frag").unwrap();
        assert_eq!(redact_address(&address), "https://store/in/x");
        let said = "<Error><Code>SignatureDoesNotMatch</Code><SignatureProvided>abc</SignatureProvided></Error>";
        assert_eq!(parse_error_code(said), Some("SignatureDoesNotMatch"));
        assert_eq!(parse_error_code("<Code>\u{1b}[31m</Code>"), None);
    }
}
