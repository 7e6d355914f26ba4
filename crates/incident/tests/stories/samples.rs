//! Each kind of trouble by itself, and what must not be taken for it.
