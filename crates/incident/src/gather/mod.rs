//! What is given or found, up to one history a host.
