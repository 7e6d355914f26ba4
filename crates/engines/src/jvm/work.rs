//! Memory of a Java virtual machine beside its heap, as far as its flags bound it.

use hugewise_model::{Bytes, Host, Instance};

use super::flags;
use crate::work::{Grant, WorkMemory};

/// Flags that bound native memory where they are given. The code cache is in the demand where it is on huge pages.
const PARTS: [&str; 2] = ["MaxMetaspaceSize", "MaxDirectMemorySize"];

/// What the flags that were given let it take beside the heap; stacks of threads and the collector's own tables are beside that.
pub(super) fn memory(_: &Host, instance: &Instance) -> WorkMemory {
    let size = |name: &str| instance.setting_value(&name.to_ascii_lowercase()).and_then(flags::size);
    let parts: Vec<(&str, Bytes)> = PARTS.into_iter().filter_map(|name| Some((name, size(name)?))).collect();
    WorkMemory { once: Grant::sum(&parts), ..WorkMemory::default() }
}
