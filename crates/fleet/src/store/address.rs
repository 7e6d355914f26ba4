//! Addresses that captures may travel to.

use url::{Host, Url};

/// An address to which captures may be sent; says what is wrong with another.
pub(super) fn parse_address(text: &str) -> Result<Url, String> {
    let address = Url::parse(text).map_err(|why| format!("is none: {why}"))?;
    let is_near = match address.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if !address.username().is_empty() || address.password().is_some() {
        return Err("has a user or a password in it, which hugewise does not send".to_owned());
    }
    match address.scheme() {
        "https" if address.host().is_some() => Ok(address),
        "http" if is_near => Ok(address),
        "http" => Err("is http://, which would send a capture unencrypted".to_owned()),
        _ => Err("is neither https:// nor s3://".to_owned()),
    }
}
