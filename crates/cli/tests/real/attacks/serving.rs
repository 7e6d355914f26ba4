//! Users of a host against its exporter.
