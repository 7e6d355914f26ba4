//! Memory of a Java virtual machine beside its heap, as far as its flags bound it.

use hugewise_model::{Bytes, Host, Instance};

use super::flags;
use crate::shared::work_memory::{MemoryGrant, WorkMemory};

/// Flags that bound native memory. The code cache is in the demand where it is on huge pages.
const PARTS: [&str; 2] = ["MaxMetaspaceSize", "MaxDirectMemorySize"];

/// What flags bound beside the heap; threads' stacks and the collector's tables come on top.
pub(super) fn estimate_work_memory(_: &Host, instance: &Instance) -> WorkMemory {
    let size =
        |name: &str| instance.setting_value(&name.to_ascii_lowercase()).and_then(flags::parse_size);
    let parts: Vec<(&str, Bytes)> =
        PARTS.into_iter().filter_map(|name| Some((name, size(name)?))).collect();
    WorkMemory { once: MemoryGrant::sum(&parts), ..WorkMemory::default() }
}
