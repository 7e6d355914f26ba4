//! Clients of the sessions: connections over TCP, of which each session holds one end, as dedicated
//! servers do.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// The ends of the clients, and where the server listens.
#[derive(Debug)]
pub(crate) struct TcpClients {
    listener: TcpListener,
    addresses: u8,
    ends: Vec<TcpStream>,
}

impl TcpClients {
    /// So many of them, each with an address of its own on this host: 127.0.0.2 and what follows.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new(addresses: u8) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            addresses,
            ends: Vec::new(),
        })
    }

    /// One more connection, of the client whose turn it is. What is given back is the server's end:
    /// whoever is started while it is held has it.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn connect_next_client(&mut self) -> io::Result<Option<TcpStream>> {
        let number = u32::try_from(self.ends.len())
            .ok()
            .and_then(|count| count.checked_rem(u32::from(self.addresses)));
        let Some(number) = number else { return Ok(None) };
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 0, 0, 2)) + number);
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrV4::new(address, 0))?;
        connect(&socket, &self.listener.local_addr()?)?;
        let (server, _) = self.listener.accept()?;
        rustix::io::fcntl_setfd(server.as_fd(), FdFlags::empty())?;
        self.ends.push(socket.into());
        Ok(Some(server))
    }
}
