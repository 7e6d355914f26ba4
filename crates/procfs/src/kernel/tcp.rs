//! /proc/PID/net/tcp and tcp6: the connections of a network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::text::text_lines;
use hugewise_source::ParseError;

/// The files of a process's network namespace.
pub fn tcp_paths(pid: u32) -> [String; 2] {
    [format!("/proc/{pid}/net/tcp"), format!("/proc/{pid}/net/tcp6")]
}

/// One established connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConnection {
    /// The port on this side.
    pub local_port: u16,
    /// The other side; IPv4 in IPv6 is IPv4.
    pub peer: IpAddr,
    /// Inode of the socket, as /proc/PID/fd names it; zero where no process has it any more.
    pub inode: u64,
}

/// TCP_ESTABLISHED (include/net/tcp_states.h).
const ESTABLISHED: &str = "01";

/// The established connections. Fails without the heading, and on a line that is no connection.
pub fn parse(bytes: &[u8]) -> Result<Vec<TcpConnection>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    if !text.trim_start().starts_with("sl ") {
        return Err(ParseError::at_line(1, "no heading"));
    }
    let mut connections = Vec::new();
    for (line, content) in text_lines(&text).skip(1) {
        let mut words = content.split_ascii_whitespace().skip(1);
        let (local, peer, state) = (words.next(), words.next(), words.next());
        if state != Some(ESTABLISHED) {
            continue;
        }
        let inode = words.nth(5).and_then(|word| word.parse().ok());
        let local = local.and_then(parse_hex_endpoint);
        match (local, peer.and_then(parse_hex_endpoint), inode) {
            (Some((_, local_port)), Some((peer, _)), Some(inode)) => {
                connections.push(TcpConnection { local_port, peer, inode });
            }
            _ => return Err(ParseError::at_line(line, "no connection")),
        }
    }
    Ok(connections)
}

/// `0100007F:1538`: 32-bit words in the machine's byte order, and a port.
fn parse_hex_endpoint(word: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = word.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let part = |at: usize| {
        Some(u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(part(0)?)),
        32 => {
            let mut all = [0_u8; 16];
            for (at, four) in all.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&part(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(all)).to_canonical()
        }
        _ => return None,
    };
    Some((address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::LiveSource;
    use hugewise_source::Source;

    // Of a little-endian machine, as nearly all are.
    #[cfg(target_endian = "little")]
    #[test]
    fn established_connections_by_who_is_on_the_other_side() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
             retrnsmt   uid  timeout inode\n\
            \x20  0: 00000000:05F1 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
             54321        0 20101 1 0 100 0 0 10 0\n\
            \x20  1: 0A00A8C0:05F1 1500A8C0:D1A4 01 00000000:00000000 02:000A9C3D 00000000 \
             54321        0 20777 2 0 20 4 30 10 -1\n";
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!(
            found,
            [TcpConnection { local_port: 1521, peer: [192, 168, 0, 21].into(), inode: 20777 }]
        );
        let six = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0000000000000000FFFF00000A00A8C0:1538 0000000000000000FFFF00001500A8C0:D1A4 \
             01 00000000:00000000 00:00000000 00000000 26 0 99 1\n\
            \x20  1: B80D0120000000000000000001000000:1538 B80D0120000000000000000002000000:0001 \
             01 00000000:00000000 00:00000000 00000000 26 0 100 1\n";
        let found = parse(six.as_bytes()).unwrap();
        assert_eq!(found[0].peer, IpAddr::from([192, 168, 0, 21]));
        assert_eq!(found[1].peer.to_string(), "2001:db8::2");
        assert_eq!(found[1].local_port, 5432);
    }

    #[test]
    fn what_is_no_such_file_is_said() {
        assert!(parse(b"").is_err());
        assert!(parse(b"  sl  local\n 0: x:y z:w 01 0 0 0 0 0 1\n").is_err());
        assert_eq!(parse(b"  sl  local\n"), Ok(Vec::new()));
    }

    /// The kernel's own file of a connection that this test makes.
    #[test]
    fn a_real_connection_is_found() {
        let read = || match LiveSource::new().read(&tcp_paths(std::process::id())[0]) {
            hugewise_model::Observed::Known(text) => text,
            other => panic!("{other:?}"),
        };
        let text = read();
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(
            parse(&text).unwrap().iter().all(|tcp_connection| tcp_connection.local_port != port)
        );
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_server, _) = listener.accept().unwrap();
        let found = parse(&read()).unwrap();
        let own = found.iter().find(|tcp_connection| tcp_connection.local_port == port).unwrap();
        assert!(own.peer.is_loopback() && own.inode > 0);
        drop(client);
    }
}
