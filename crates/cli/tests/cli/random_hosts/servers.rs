//! Servers as their own programs behave at a start: what they ask the kernel for, and what they do
//! where they don't get it.
//!
//! The numbers are those of real servers: PostgreSQL 15.20's `shared_memory_size`, what OpenJDK
//! 17.0.15 and MariaDB 10.11.19 had mapped. Oracle is as its documentation says of 11.2.0.3 and
//! later.

use crate::random_hosts::kernel::{GIB_1, Held, Kernel, MIB_2};

/// What a server is set to do about huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Off,
    Try,
    Must,
    /// Oracle's AUTO: raises the pool itself.
    Raises,
    /// Oracle's MEMORY_TARGET: its memory is in files of /dev/shm, which cannot be on huge pages.
    Automatic,
}

/// Kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PostgreSql,
    Oracle,
    MariaDb,
    Jvm,
    Qemu,
    /// Takes transparent huge pages at most.
    Redis,
    /// A program of some user that maps huge pages.
    Stranger,
}

/// Settings, as a running server has them or as its files do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    /// Which of the sizes of its kind.
    pub(crate) size: usize,
    /// Page size, where the settings name one.
    pub(crate) page: Option<u64>,
}

/// `shared_buffers` in MB, and `shared_memory_size` of PostgreSQL 15.20 with it, all else as it
/// comes.
pub(crate) const POSTGRESQL: [(u64, u64); 9] = [
    (128, 143),
    (256, 279),
    (512, 551),
    (1024, 1074),
    (1200, 1253),
    (2048, 2120),
    (4096, 4213),
    (6144, 6302),
    (8192, 8399),
];

/// Flags, and pages of 2 MiB of the heap and of all else that OpenJDK 17.0.15 had committed.
pub(crate) const JVM: [(&str, u64, u64); 6] = [
    ("-XX:+UseG1GC -Xmx512m", 256, 128),
    ("-XX:+UseParallelGC -Xmx1g", 512, 136),
    ("-XX:+UseSerialGC -Xmx1g", 512, 120),
    ("-XX:+UseG1GC -Xms1g -Xmx1g", 512, 139),
    ("-XX:+UseParallelGC -Xmx3g", 1536, 170),
    ("-XX:+UseZGC -Xms256m -Xmx1g", 512, 120),
];

/// ZGC begins with `-Xms` and takes the rest as it needs it.
pub(crate) const ZGC: usize = 5;
/// What it begins with, in pages of 2 MiB.
const ZGC_FIRST: u64 = 128;

/// `sga_target` in MiB.
pub(crate) const ORACLE: [u64; 4] = [768, 1024, 3072, 6144];
/// `innodb_buffer_pool_size` in MiB.
pub(crate) const MARIADB: [u64; 4] = [256, 512, 1024, 3072];
/// `-m` in MiB.
pub(crate) const QEMU: [u64; 3] = [512, 1024, 4096];
/// Redis's memory in MiB.
pub(crate) const REDIS: [u64; 2] = [300, 2048];
/// What a user's program maps, in pages.
pub(crate) const STRANGER: [u64; 3] = [10, 200, 700];

impl Kind {
    pub(crate) fn sizes(self) -> usize {
        match self {
            Self::PostgreSql => POSTGRESQL.len(),
            Self::Oracle => ORACLE.len(),
            Self::MariaDb => MARIADB.len(),
            Self::Jvm => JVM.len(),
            Self::Qemu => QEMU.len(),
            Self::Redis => REDIS.len(),
            Self::Stranger => STRANGER.len(),
        }
    }
}

/// A stretch of memory that a server has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: u64,
    /// Page size and what is held of the pool; none on base pages.
    pub(crate) huge: Option<(u64, Held)>,
}

/// How a server stands, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    DoesNotStart,
    None,
    Partly,
    All,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::DoesNotStart => "does_not_start",
            Self::None => "none",
            Self::Partly => "partly",
            Self::All => "all",
        }
    }
}

/// A limit of a server's cgroup, in bytes of 2 MiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    /// `hugetlb.2MB.max`: whoever touches more as it starts is killed.
    Touched(u64),
    /// `hugetlb.2MB.rsvd.max`: whoever maps more is refused.
    Mapped(u64),
}

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// As it was started.
    pub(crate) running: Settings,
    pub(crate) limit: Limit,
    /// May have System V huge pages whatever the group.
    pub(crate) ipc_lock: bool,
    /// Whether no memlock limit is in its way, as an old kernel looks at it.
    pub(crate) unlimited: bool,
    /// Whether it is known to run here, and starts at each boot.
    pub(crate) known: bool,
    /// Whether its program's path tells its version.
    pub(crate) tells_version: bool,
    /// Whether it touches what its cgroup's limit kills it for only after others have started.
    pub(crate) is_killed_late: bool,
    /// Whether a heap that may grow has done so as soon as it runs.
    pub(crate) grows_at_once: bool,
    /// Whether it uses all of its memory at once, or has yet to touch it.
    pub(crate) touches: bool,
    /// Pages by which it asks for other than its settings come to: nobody has reckoned it better.
    pub(crate) off_by: i64,
    /// What it has mapped; empty where it is down.
    pub(crate) pieces: Vec<Piece>,
}

impl Server {
    pub(crate) fn is_up(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Stops it.
    pub(crate) fn stop(&mut self, kernel: &mut Kernel) {
        for piece in self.pieces.drain(..) {
            match piece.huge {
                Some((page, held)) => kernel.unmap(page, held),
                None => kernel.used -= piece.bytes,
            }
        }
    }

    pub(crate) fn state(&self) -> State {
        let huge = |piece: &&Piece| piece.huge.is_some();
        match (self.pieces.len(), self.pieces.iter().filter(huge).count()) {
            (0, _) => State::DoesNotStart,
            (_, 0) => State::None,
            (all, some) if all == some => State::All,
            _ => State::Partly,
        }
    }

    /// Pages of a size that it holds.
    pub(crate) fn held(&self, page: u64) -> u64 {
        let count_of = |piece: &Piece| match piece.huge {
            Some((size, held)) if size == page => held.touched + held.promised,
            _ => 0,
        };
        self.pieces.iter().map(count_of).sum()
    }

    /// Starts it with these settings, and says how it then stands.
    pub(crate) fn start(&mut self, kernel: &mut Kernel, settings: &Settings) -> State {
        debug_assert!(!self.is_up());
        let Some(pieces) = self.pieces_of(kernel, settings) else {
            return State::DoesNotStart;
        };
        self.pieces = pieces;
        // Whoever touches more than the limit of its cgroup as it starts is killed then.
        if self.is_beyond_its_limit(settings) && !self.is_killed_late {
            self.stop(kernel);
            return State::DoesNotStart;
        }
        self.running = settings.clone();
        if self.grows_at_once {
            self.grow(kernel);
        }
        self.state()
    }

    /// Whether its heap is one that grows.
    pub(crate) fn is_zgc(&self, settings: &Settings) -> bool {
        self.kind == Kind::Jvm && settings.size == ZGC
    }

    /// A heap that grows takes what it may become, as far as the pool and its cgroup have it: each
    /// page as it is committed.
    pub(crate) fn grow(&mut self, kernel: &mut Kernel) {
        if !self.is_zgc(&self.running) || !self.is_up() {
            return;
        }
        let page = MIB_2;
        while let Some(heap) = self.pieces.last()
            && heap.huge.is_some()
            && heap.bytes < JVM[ZGC].1 * page
            && let Some(Piece { huge: Some((_, more)), .. }) =
                self.huge(kernel, page, page, &self.pieces, 1)
        {
            let heap = self.pieces.last_mut().unwrap();
            heap.bytes += page;
            if let Some((_, held)) = &mut heap.huge {
                held.touched += more.touched;
                held.promised += more.promised;
            }
        }
    }

    /// Whether the limit of its cgroup kills it as it starts. Of PostgreSQL 15 a start was seen to
    /// touch all but its buffers; what it uses later is told of by a finding.
    pub(crate) fn is_beyond_its_limit(&self, settings: &Settings) -> bool {
        let Limit::Touched(limit) = self.limit else { return false };
        let touched = match self.kind {
            Kind::PostgreSql => {
                self.held(MIB_2).saturating_sub(POSTGRESQL[settings.size].0 / 2) * MIB_2
            }
            _ => self.held(MIB_2) * MIB_2,
        };
        touched > limit
    }

    fn pieces_of(&mut self, kernel: &mut Kernel, settings: &Settings) -> Option<Vec<Piece>> {
        let page = settings.page.unwrap_or(kernel.default);
        let off = settings.policy == Policy::Off;
        match self.kind {
            Kind::PostgreSql => {
                let bytes = POSTGRESQL[settings.size].1 << 20;
                let bytes = bytes.saturating_add_signed(self.off_by << 21);
                let huge = if off { None } else { self.huge(kernel, page, bytes, &[], 3) };
                match huge {
                    Some(piece) => Some(vec![piece]),
                    None if settings.policy == Policy::Must => None,
                    None => Some(vec![base(kernel, bytes)]),
                }
            }
            Kind::Oracle => self.oracle(kernel, settings),
            Kind::MariaDb => {
                let pool = MARIADB[settings.size] << 20;
                // As the kernel may place it: the buffer pool is asked for anew where it does not
                // begin at a multiple of 8 MiB.
                let pool = if off { pool } else { pool + 5 * MIB_2 };
                let stretches = [109_734_912, 128_180_224, pool, 16 << 20, 16 << 20];
                let mut pieces: Vec<Piece> = Vec::new();
                for bytes in stretches {
                    // The log buffers are asked for on huge pages only where the buffer pool has
                    // got them.
                    let refused = pieces.get(2).is_some_and(|pool| pool.huge.is_none());
                    let huge = if off || refused {
                        None
                    } else {
                        self.huge(kernel, page, bytes, &pieces, 3)
                    };
                    pieces.push(huge.unwrap_or_else(|| base(kernel, bytes)));
                }
                Some(pieces)
            }
            // The code cache comes first, with or without; the heap is a memfd of huge pages or
            // none.
            Kind::Jvm if self.is_zgc(settings) => {
                let (first, rest) = (ZGC_FIRST * MIB_2, JVM[ZGC].2 * MIB_2);
                if off {
                    return Some(vec![base(kernel, rest), base(kernel, first)]);
                }
                // Without one page it goes without.
                let pool = &kernel.pools[&page];
                if pool.available() + pool.overcommit.saturating_sub(pool.surplus()) == 0 {
                    return Some(vec![base(kernel, rest), base(kernel, first)]);
                }
                let rest =
                    self.huge(kernel, page, rest, &[], 3).unwrap_or_else(|| base(kernel, rest));
                let mut pieces = vec![rest];
                let Some(heap) = self.huge(kernel, page, first, &pieces, 1) else {
                    match pieces[0].huge {
                        Some((page, held)) => kernel.unmap(page, held),
                        None => kernel.used -= pieces[0].bytes,
                    }
                    return None;
                };
                pieces.push(heap);
                Some(pieces)
            }
            Kind::Jvm => {
                let (_, heap, rest) = JVM[settings.size];
                let rest = rest.saturating_add_signed(self.off_by);
                let mut pieces: Vec<Piece> = Vec::new();
                for pages in [heap, rest] {
                    let huge =
                        if off { None } else { self.huge(kernel, page, pages * MIB_2, &pieces, 3) };
                    pieces.push(huge.unwrap_or_else(|| base(kernel, pages * MIB_2)));
                }
                Some(pieces)
            }
            Kind::Qemu => {
                let bytes = QEMU[settings.size] << 20;
                if off {
                    return Some(vec![base(kernel, bytes)]);
                }
                self.huge(kernel, page, bytes, &[], 3).map(|piece| vec![piece])
            }
            Kind::Redis => Some(vec![base(kernel, REDIS[settings.size] << 20)]),
            Kind::Stranger => {
                let bytes = STRANGER[settings.size] * MIB_2;
                let huge = self.huge(kernel, MIB_2, bytes, &[], 3);
                Some(vec![huge.unwrap_or_else(|| base(kernel, bytes))])
            }
        }
    }

    /// A stretch on huge pages, where the pool and the cgroup have it; the part of it that one
    /// touches who does not touch all.
    fn huge(
        &self,
        kernel: &mut Kernel,
        page: u64,
        bytes: u64,
        before: &[Piece],
        part: u64,
    ) -> Option<Piece> {
        let pages = bytes.div_ceil(page);
        if let (Limit::Mapped(limit), MIB_2) = (self.limit, page) {
            let charged: u64 =
                before.iter().filter(|piece| piece.huge.is_some()).map(|piece| piece.bytes).sum();
            if charged + pages * page > limit {
                return None;
            }
        }
        let touched = if self.touches { pages } else { pages / part };
        // What it uses later, it has not used yet.
        let touched = match self.limit {
            Limit::Touched(limit) => touched.min(limit / page),
            _ => touched,
        };
        let held = kernel.map(page, pages, touched)?;
        Some(Piece { bytes: pages * page, huge: Some((page, held)) })
    }

    /// TRUE takes the free huge pages and base pages for the rest, ONLY starts with all or not at
    /// all, AUTO has the pool raised.
    fn oracle(&self, kernel: &mut Kernel, settings: &Settings) -> Option<Vec<Piece>> {
        let bytes = (ORACLE[settings.size] << 20).saturating_add_signed(self.off_by << 21);
        let wanted = bytes / MIB_2;
        let permitted =
            self.ipc_lock || self.gid == kernel.shm_group || (kernel.old && self.unlimited);
        let limit = if let Limit::Mapped(limit) = self.limit { limit / MIB_2 } else { u64::MAX };
        let on_base = |kernel: &mut Kernel| Some(vec![base(kernel, bytes)]);
        // It makes nothing of pages of 1 GiB that are the default.
        let permitted = permitted && kernel.default == MIB_2;
        match settings.policy {
            Policy::Off | Policy::Automatic => return on_base(kernel),
            Policy::Must if !permitted => return None,
            _ if !permitted => return on_base(kernel),
            Policy::Raises => {
                let pool = &kernel.pools[&MIB_2];
                let lacking = wanted.saturating_sub(pool.available());
                if lacking > 0 {
                    // What /proc/meminfo shows, surplus pages among it, and what it lacks.
                    let more = pool.total() + lacking;
                    kernel.write_pool(MIB_2, None, more);
                }
            }
            Policy::Try | Policy::Must => {}
        }
        let pool = &kernel.pools[&MIB_2];
        let room = pool.available() + pool.overcommit.saturating_sub(pool.surplus());
        let found = room.min(wanted).min(limit);
        if settings.policy == Policy::Must && found < wanted {
            return None;
        }
        let mut pieces: Vec<Piece> = Vec::new();
        // A small first segment, and the rest.
        let mut left = found;
        for pages in [8_u64.min(found), found.saturating_sub(8)] {
            let piece = self.huge(kernel, MIB_2, pages * MIB_2, &pieces, 3).filter(|_| pages > 0);
            left -= if piece.is_some() { pages } else { 0 };
            pieces.extend(piece);
        }
        let on_huge = found - left;
        if on_huge < wanted {
            pieces.push(base(kernel, (wanted - on_huge) * MIB_2));
        }
        Some(pieces)
    }
}

fn base(kernel: &mut Kernel, bytes: u64) -> Piece {
    kernel.used += bytes;
    Piece { bytes, huge: None }
}

/// The name of a page size in QEMU's and PostgreSQL's settings.
pub(crate) fn page_name(page: u64) -> &'static str {
    match page {
        GIB_1 => "1GB",
        _ => "2MB",
    }
}
