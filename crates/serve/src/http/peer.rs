//! Whom a connection counts for: the user at its other end where that is on this host, the network that it comes from
//! otherwise.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

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
/// TCP_ESTABLISHED and TCP_CLOSE_WAIT: in other states a socket may have no owner any more, and the kernel says 0 then.
const OWNED: [u8; 2] = [1, 8];

/// Whom a connection counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// A user of this host.
    User(u32),
    /// An address, or what one line of the IPv6 internet has: the upper half.
    Network(u128),
}

impl Peer {
    /// Subordinate ids (subuid(5)) come in blocks of this many: one user has them all, and counts once.
    const BLOCK: u32 = 1 << 16;

    const fn user(uid: u32) -> Self {
        Self::User(if uid < Self::BLOCK { uid } else { uid - uid % Self::BLOCK })
    }

    fn network(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::Network(u128::from(address.to_bits())),
            IpAddr::V6(address) => Self::Network(address.to_bits() >> 64 << 64),
        }
    }
}

/// Asks the kernel whose sockets are whose (sock_diag(7)); it takes a few microseconds, whatever is open here.
pub(super) struct Sockets(Option<OwnedFd>);

impl Sockets {
    pub(super) fn open() -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Where it cannot be had, all of this host count as one.
        Self(socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG)).ok())
    }

    /// Whom a connection from there to here counts for.
    pub(super) fn peer(&self, from: SocketAddr, to: SocketAddr) -> Peer {
        let (from, to) = (plain(from), plain(to));
        match self.owner(from, to) {
            Ok(Some(uid)) => Peer::user(uid),
            _ => Peer::network(from.ip()),
        }
    }

    fn owner(&self, from: SocketAddr, to: SocketAddr) -> io::Result<Option<u32>> {
        let (Some(socket), Some(question)) = (&self.0, question(from, to)) else { return Ok(None) };
        send(socket, &question, SendFlags::empty())?;
        let mut answer = [0; 512];
        let (length, _) = recv(socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        Ok(owner(answer.get(..length).unwrap_or_default()))
    }
}

/// A socket that listens for both versions of IP says of the older one's addresses that they are the newer's.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn question(from: SocketAddr, to: SocketAddr) -> Option<Vec<u8>> {
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
    // The socket that is asked for is the one at the other end: its source is where the connection comes from.
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
    // On any interface, with whatever cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    Some(bytes)
}

fn owner(answer: &[u8]) -> Option<u32> {
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
        let sockets = Sockets::open();
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
            assert_eq!(sockets.peer(from, here), Peer::user(own), "{address}");
            // One that is closed has no owner, and is not taken for root's.
            drop(stream);
            assert_eq!(sockets.peer(from, here), Peer::network(plain(from).ip()), "{address}");
        }
        let (from, to) = (SocketAddr::from(([192, 0, 2, 1], 1)), SocketAddr::from(([192, 0, 2, 2], 2)));
        assert_eq!(sockets.peer(from, to), Peer::network(from.ip()));
        assert_eq!(Sockets(None).peer(from, to), Peer::network(from.ip()));
    }

    #[test]
    fn who_has_many_addresses_or_ids_counts_once() {
        let network = |text: &str| Peer::network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(Peer::user(165_536), Peer::user(180_000));
        assert_ne!(Peer::user(1000), Peer::user(1001));
    }

    #[test]
    fn an_answer_that_is_none_is_nobody() {
        for length in 0..120 {
            assert_eq!(owner(&vec![0; length]), None);
        }
    }
}
