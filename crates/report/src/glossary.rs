//! The ten words that explain almost everything here; docs/glossary.md has more on them.

pub(crate) const WORDS: [(&str, &str); 10] = [
    (
        "page table",
        "The kernel's index from a process's addresses to memory: 8 bytes for each page, in every \
             process.",
    ),
    (
        "base page",
        "The smallest page the kernel hands out: 4 KiB on x86-64; 4, 16 or 64 KiB on arm64.",
    ),
    (
        "huge page",
        "A page of 2 MiB, 1 GiB or another large size. It needs one page-table entry instead of \
             hundreds.",
    ),
    (
        "pool",
        "Huge pages of one size that the kernel sets aside (hugetlb pages). Only programs that \
             ask can use them.",
    ),
    (
        "THP",
        "Transparent huge pages: the kernel uses huge pages for ordinary memory on its own, \
             without a pool.",
    ),
    (
        "memlock",
        "The limit on memory a process may lock (ulimit -l). Too low, and some servers get no \
             huge pages.",
    ),
    (
        "segment",
        "A stretch of memory a server maps, such as Oracle's SGA or PostgreSQL's shared_buffers.",
    ),
    ("instance", "One running database server: its processes, its segments and its settings."),
    (
        "session",
        "One client's connection. In Oracle and PostgreSQL it is a process with page tables of \
             its own.",
    ),
    (
        "reclaim",
        "The kernel's search for memory to free. When it finds nothing it takes over the CPUs: a \
             reclaim storm.",
    ),
];

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_explains_the_same_words() {
        let document = include_str!("../../../docs/glossary.md");
        let headings: Vec<String> = document
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .map(str::to_lowercase)
            .collect();
        let words: Vec<String> = super::WORDS.iter().map(|(word, _)| word.to_lowercase()).collect();
        assert_eq!(headings, words);
    }
}
