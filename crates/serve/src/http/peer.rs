//! Whom a connection counts for: the local user at its other end, otherwise its network.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h, which is the type of the answer too.
const BY_FAMILY: u16 = 20;
/// NLM_F_REQUEST of linux/netlink.h.
const REQUEST: u16 = 1;
/// IPPROTO_TCP.
const TCP: u8 = 6;
/// Lengths of `struct nlmsghdr` and `struct inet_diag_req_v2`.
const HEADER: usize = 16;
const QUESTION: usize = 56;
/// Where `struct inet_diag_msg` has the state, the user and the inode, behind the header.
const STATE: usize = HEADER + 1;
const USER: usize = HEADER + 64;
const INODE: usize = HEADER + 68;
/// TCP_ESTABLISHED and TCP_CLOSE_WAIT: in other states the kernel may say 0 for the owner.
const OWNED: [u8; 2] = [1, 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// A user of this host.
    User(u32),
    /// An IPv4 address, or the upper half of an IPv6 one, which one customer has.
    Network(u128),
}

impl Peer {
    /// Subordinate ids (subuid(5)) come in blocks of this many: their user has all, and counts
    /// once.
    const BLOCK: u32 = 1 << 16;

    const fn from_uid(uid: u32) -> Self {
        Self::User(if uid < Self::BLOCK { uid } else { uid - uid % Self::BLOCK })
    }

    fn from_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::Network(u128::from(address.to_bits())),
            IpAddr::V6(address) => Self::Network(address.to_bits() >> 64 << 64),
        }
    }
}

/// Asks the kernel for the owners of sockets (sock_diag(7)), in a few microseconds.
pub(super) struct SocketOwners(Option<OwnedFd>);

impl SocketOwners {
    pub(super) fn open() -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without it, all users of this host count as one.
        Self(
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))
                .ok(),
        )
    }

    pub(super) fn find_peer(&self, from: SocketAddr, to: SocketAddr) -> Peer {
        let (from, to) = (canonical_address(from), canonical_address(to));
        match self.query_socket_owner(from, to) {
            Ok(Some(uid)) => Peer::from_uid(uid),
            _ => Peer::from_address(from.ip()),
        }
    }

    fn query_socket_owner(&self, from: SocketAddr, to: SocketAddr) -> io::Result<Option<u32>> {
        let (Some(socket), Some(question)) = (&self.0, build_diag_request(from, to)) else {
            return Ok(None);
        };
        send(socket, &question, SendFlags::empty())?;
        let mut answer = [0; 512];
        let (length, _) = recv(socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        Ok(parse_socket_owner(answer.get(..length).unwrap_or_default()))
    }
}

/// A socket that listens for both versions of IP has IPv4 addresses mapped to IPv6.
fn canonical_address(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn build_diag_request(from: SocketAddr, to: SocketAddr) -> Option<Vec<u8>> {
    let family = match (from, to) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => AddressFamily::INET,
        (SocketAddr::V6(_), SocketAddr::V6(_)) => AddressFamily::INET6,
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(HEADER + QUESTION);
    bytes.extend(u32::try_from(HEADER + QUESTION).ok()?.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([u8::try_from(family.as_raw()).ok()?, TCP, 0, 0]);
    // Of any state.
    bytes.extend(u32::MAX.to_ne_bytes());
    // The socket at the other end: its source is where the connection comes from.
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    for address in [from.ip(), to.ip()] {
        match address {
            IpAddr::V4(address) => {
                bytes.extend(address.octets());
                bytes.extend([0; 12]);
            }
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    // On any interface, with any cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    Some(bytes)
}

fn parse_socket_owner(answer: &[u8]) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let owned = kind == BY_FAMILY && OWNED.contains(answer.get(STATE)?) && word(INODE)? != 0;
    if owned { word(USER) } else { None }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_knows_whose_the_other_end_is() {
        let sockets = SocketOwners::open();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let mut to = listener.local_addr().unwrap();
            if to.ip().is_unspecified() {
                to.set_ip([127, 0, 0, 1].into());
            }
            let stream = TcpStream::connect(to).unwrap();
            let (accepted, from) = listener.accept().unwrap();
            let here = accepted.local_addr().unwrap();
            let own = rustix::process::getuid().as_raw();
            assert_eq!(sockets.find_peer(from, here), Peer::from_uid(own), "{address}");
            // One that is closed has no owner, and is not taken for root's.
            drop(stream);
            assert_eq!(
                sockets.find_peer(from, here),
                Peer::from_address(canonical_address(from).ip()),
                "{address}"
            );
        }
        let (from, to) =
            (SocketAddr::from(([192, 0, 2, 1], 1)), SocketAddr::from(([192, 0, 2, 2], 2)));
        assert_eq!(sockets.find_peer(from, to), Peer::from_address(from.ip()));
        assert_eq!(SocketOwners(None).find_peer(from, to), Peer::from_address(from.ip()));
    }

    #[test]
    fn who_has_many_addresses_or_ids_counts_once() {
        let network = |text: &str| Peer::from_address(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(Peer::from_uid(165_536), Peer::from_uid(180_000));
        assert_ne!(Peer::from_uid(1000), Peer::from_uid(1001));
    }

    #[test]
    fn an_answer_that_is_none_is_nobody() {
        for length in 0..120 {
            assert_eq!(parse_socket_owner(&vec![0; length]), None);
        }
    }
}
