//! One request, one answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hugewise_testkit::tools::Failure;

/// No query takes this long.
const PATIENCE: Duration = Duration::from_secs(900);

/// The answer's body.
///
/// # Errors
/// There is no answer, or another than 200 or 204.
pub(super) fn get(address: SocketAddr, path: &str) -> Result<Vec<u8>, Failure> {
    send_request(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"), &[])
}

/// The same of what is sent.
pub(super) fn post(address: SocketAddr, path: &str, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let length = body.len();
    send_request(
        address,
        &format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n"),
        body,
    )
}

/// As it stands in a query.
pub(super) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn send_request(address: SocketAddr, head: &str, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .ok_or("an answer without an end of its head")?;
    let said = answer.split_off(end + 4);
    let status = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    match status.split(' ').nth(1) {
        Some("200" | "204") => Ok(said),
        _ => Err(format!("{status}: {}", String::from_utf8_lossy(&said)).into()),
    }
}
