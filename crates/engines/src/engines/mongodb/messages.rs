//! MongoDB's messages about huge pages and memory.

use crate::shared::kind::Message;

pub(super) static MESSAGES: &[Message] = &[Message {
    name: "Huge pages are enabled",
    says: "ERROR: Huge pages are enabled, please disable them to continue; TokuDB: Huge \
               pages are enabled, disable them before continuing",
    means: "TokuMX and the storage engine TokuDB do not start while transparent huge pages \
                are on: their allocator would keep memory that it frees. Pools of huge pages \
                have nothing to do with it.",
    look: "/sys/kernel/mm/transparent_hugepage/enabled, on RHEL 6 \
               redhat_transparent_hugepage: `never` before the server starts, at each boot.",
    rules: &["HW501"],
    sources: &["github.com/Tokutek/mongo#271", "Percona Server: TokuDB installation"],
}];
