//! The stories that DBAs have told of huge pages, each played from its start to its end on a made
//! estate: what its protagonist saw, what hugewise says, what it changes, and what it says then.
//!
//! Figures are the stories' own, or follow from them. docs/stories.md lists every claim in them,
//! with the test that shows what hugewise makes of it.

mod clusters;
mod configuring_huge_pages;
mod estates;
mod huge_pages_speed_start_of_web_servers;
mod memory_target_or_huge_pages;
mod performance_tuning_huge_pages;
mod played;
mod pre_page_sga;
mod realfree_heap_pagesize_hint;
mod servers;
mod table;
