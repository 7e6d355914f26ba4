//! Wording that several rules share: kernel file names, parts of a whole, commands safe to paste.

use hugewise_model::escape::{plain, shell};
use hugewise_model::{Bytes, Host, PageSize, group_thousands};

/// The setting that is the only pool of kernels that know one size of huge pages.
pub const ONLY_POOL: &str = "/proc/sys/vm/nr_hugepages";

/// The file that sets how many pages a pool has on this host.
pub fn pool_switch(host: &Host, page: PageSize) -> String {
    pool_fact(host, page, "nr_hugepages")
}

/// Where this host says such a number of a pool: old kernels have no folder of pools.
pub fn pool_fact(host: &Host, page: PageSize, file: &str) -> String {
    match file {
        _ if !host.one_huge_page_size => pool_file(page, file),
        "nr_hugepages" => ONLY_POOL.to_owned(),
        "free_hugepages" => "/proc/meminfo HugePages_Free".to_owned(),
        "resv_hugepages" => "/proc/meminfo HugePages_Rsvd".to_owned(),
        "surplus_hugepages" => "/proc/meminfo HugePages_Surp".to_owned(),
        _ => format!("/proc/sys/vm/{file}"),
    }
}

/// A file of a pool: `/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`.
pub fn pool_file(page: PageSize, file: &str) -> String {
    format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{file}", page.bytes().get() / 1024)
}

pub(crate) fn node_pool_file(node: u32, page: PageSize) -> String {
    let kib = page.bytes().get() / 1024;
    format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages")
}

/// Two sizes that are not the same, so that a reader sees it: in bytes where their units hide it.
pub(crate) fn distinguish_sizes(one: Bytes, other: Bytes) -> (String, String) {
    let (short, long) = (one.to_string(), other.to_string());
    if one == other || short != long {
        return (short, long);
    }
    let bytes = |size: Bytes| format!("{} bytes", group_thousands(size.get()));
    (bytes(one), bytes(other))
}

/// A size that somebody is to copy: no less than it is, whatever a unit would round away.
pub fn at_least(size: Bytes) -> String {
    let short = size.to_string();
    let whole = size.get().is_multiple_of(1 << 30)
        || (size.get() < 1 << 30 && size.get().is_multiple_of(1 << 20));
    if whole { short } else { format!("{} MiB", group_thousands(size.get().div_ceil(1 << 20))) }
}

/// `1 process`, `66 processes`.
pub(crate) fn render_count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `9.4 %`.
pub fn render_percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A page size as boot parameters name it: `2M`, `1G`, `64K`.
pub fn boot_name(page: PageSize) -> String {
    page.boot_name()
}

/// A boot parameter's page size: `1G`, `2M`, `2048k`; the kernel's memparse takes either case.
pub fn parse_size(text: &str) -> Option<PageSize> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    PageSize::new(digits.parse::<u64>().ok()?.checked_mul(1_u64 << shift)?)
}

/// A word that a shell takes as it stands: names off the host go into commands only through here.
pub fn shell_word(text: &str) -> String {
    shell::quote_word(text)
}

/// Text on one line: a line break in a name must not turn a comment into a command.
pub fn one_line(text: &str) -> String {
    plain::escape_line(text).into_owned()
}

/// `oracle A and oracle B`, `A, B and 3 more`.
pub fn join_names(names: &[String]) -> String {
    const SHOWN: usize = 4;
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= SHOWN => format!("{} and {last}", first.join(", ")),
        _ => {
            let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
            format!("{} and {} more", shown.join(", "), names.len() - SHOWN)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_reads_them() {
        assert_eq!(parse_size("1G"), Some(PageSize::GIB_1));
        assert_eq!(parse_size("2048k"), Some(PageSize::MIB_2));
        assert_eq!(parse_size("3M"), None);
        assert_eq!(parse_size("99999999999G"), None);
        assert_eq!(parse_size("é"), None);
        assert_eq!(boot_name(PageSize::GIB_1), "1G");
    }

    /// 537 pages of 2 MiB are 1,126,170,624 bytes: 1 GiB is 25 pages less.
    #[test]
    fn a_limit_to_copy_is_never_too_low() {
        assert_eq!(at_least(Bytes(1_126_170_624)), "1,074 MiB");
        assert_eq!(at_least(Bytes::from_gib(6)), "6.0 GiB");
        assert_eq!(at_least(Bytes::from_mib(200)), "200.0 MiB");
        assert_eq!(at_least(Bytes((6 << 30) + 1)), "6,145 MiB");
    }

    #[test]
    fn nothing_off_the_host_leaves_its_quotes() {
        assert_eq!(shell_word("postgresql@15-main.service"), "postgresql@15-main.service");
        assert_eq!(shell_word("a; rm -rf /"), "'a; rm -rf /'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("-rf"), "'-rf'");
        assert_eq!(one_line("a\nrm\u{2028}"), "a\\x0arm\\u{2028}");
    }
}
