//! A case and its pool: what a start with so many pages comes to.

use std::time::{Duration, Instant};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::Skip;

use super::server::{Server, Start};
use super::{Case, Trouble, committed};
use hugewise_testkit::tools::Failure;

/// A case and its pool.
pub(super) struct Bench<'a> {
    pub(super) guard: &'a PoolGuard,
    pub(super) case: &'a dyn Case,
    pub(super) page: PageSize,
    pub(super) others: u64,
    /// The fewest pages that it maps with room to spare, for servers that take what they get.
    pub(super) whole: Option<u64>,
}

/// What a start with a pool came to.
pub(super) struct Trial {
    pub(super) wholly: bool,
    pub(super) mapped: u64,
    pub(super) committed: u64,
    pub(super) said: String,
}

impl Bench<'_> {
    /// Starts it with `pages` pages for itself.
    pub(super) fn with(&self, pages: u64) -> Result<Trial, Trouble> {
        self.guard.set_pool(self.page, PageCount(self.others + pages))?;
        let trial = match self.case.start(true)? {
            Start::Refused(said) => Trial { wholly: false, mapped: 0, committed: 0, said },
            Start::Up(server) => {
                let mappings = self.settled(&server)?;
                let mapped: u64 = mappings.iter().sum();
                let committed = committed(self.page)?.saturating_sub(self.others);
                // What may be refused is larger than what starts differ by.
                let wholly = mapped > 0
                    && self.whole.is_none_or(|whole| {
                        (whole..=whole + self.case.by_chance()).contains(&mapped)
                    });
                let said = format!(
                    "it maps {mappings:?} huge pages, {committed} of the pool; with room to spare \
                         {:?}",
                    self.whole
                );
                drop(server);
                Trial { wholly, mapped, committed, said }
            }
        };
        self.settle()?;
        Ok(trial)
    }

    /// Its mappings once they stay: some servers give memory back shortly after they are ready.
    fn settled(&self, server: &Server) -> Result<Vec<u64>, Failure> {
        let mut before = server.mapped_pages(self.page)?;
        if self.case.all_or_nothing() {
            return Ok(before);
        }
        let mut same = 0;
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(150));
            let now = server.mapped_pages(self.page)?;
            same = if now == before { same + 1 } else { 0 };
            if same == 12 {
                break;
            }
            before = now;
        }
        Ok(before)
    }

    /// The smallest pool that works, from what the kernel had set aside with room to spare.
    pub(super) fn search(&self, near: u64) -> Result<u64, Trouble> {
        let roomy = self.with(near + near / 4 + 256)?;
        if !roomy.wholly {
            return Err(Failure::from(format!(
                "it does not start with room to spare: {}",
                roomy.said
            ))
            .into());
        }
        let mut pages = roomy.committed;
        for _ in 0..16 {
            if self.with(pages)?.wholly {
                while pages > 0 && self.with(pages - 1)?.wholly {
                    pages -= 1;
                }
                return Ok(pages);
            }
            pages += 1;
        }
        Err(Failure::from(format!("more than the {} pages that it holds once up", roomy.committed))
            .into())
    }

    /// A process that is gone may still be giving its pages back.
    fn settle(&self) -> Result<(), Trouble> {
        let until = Instant::now() + Duration::from_secs(20);
        while committed(self.page)? != self.others {
            if Instant::now() > until {
                return Err(Skip("others take or give pages of the pool meanwhile".into()).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
