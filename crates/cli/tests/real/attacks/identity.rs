//! Who calls himself a server.
