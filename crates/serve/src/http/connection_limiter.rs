//! Who is connected, and who has to go when it gets full.
//!
//! A newcomer always gets in. When all places are taken, the user or network that has the most of
//! them gives one up: the connection that has waited longest without anything to answer. So whoever
//! squats takes places from himself alone, and a scraper is answered while a thousand others idle.
//! Nobody goes before he has had time to send a request: newcomers wait that long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::peer::Peer;

/// Connections at once, as far as there are descriptors for them.
const PLACES: usize = 1024;
/// Handshakes at once, which take more memory than anything else.
const HANDSHAKES: usize = 384;
/// Dashboards at once.
pub(super) const STREAMS: usize = 100;
/// Descriptors for what is no connection: the host's files, and connections that are closing.
const OTHERS: u64 = 256;
/// Nobody goes sooner than this after he came or was answered.
const LEAST_STAY: Duration = Duration::from_millis(500);

/// Connections that do less go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not sent a request, or has its answer.
    Waiting,
    /// As [`Waiting`](Self::Waiting), in the middle of a handshake.
    ShakingHands,
    /// It gets events.
    Listening,
    /// It is being answered.
    Answered,
}

impl Stage {
    /// A handshake is no more than waiting.
    const fn rank(self) -> u8 {
        match self {
            Self::Waiting | Self::ShakingHands => 0,
            Self::Listening => 1,
            Self::Answered => 2,
        }
    }
}

pub(super) struct ConnectionLimiter {
    places: usize,
    guests: Mutex<Guests>,
}

#[derive(Default)]
struct Guests {
    /// Counts events: a smaller number was earlier.
    clock: u64,
    /// By number. So few that a linear search finds who has to go.
    entries: BTreeMap<u64, GuestEntry>,
}

struct GuestEntry {
    peer: Peer,
    stage: Stage,
    /// When it came to that stage, by the clock and by time.
    tick: u64,
    since: Instant,
    task: Option<AbortHandle>,
}

impl Guests {
    const fn next_tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn count_at(&self, stage: Stage) -> usize {
        self.entries.values().filter(|entry| entry.stage == stage).count()
    }

    /// Who goes for one more connection of `newcomer`, of those at one stage or of all: of the peer
    /// that would have the most (the newcomer itself, if tied), the connection that does least, for
    /// longest. Also how many that peer has.
    fn find_leaver(&self, newcomer: Option<Peer>, stage: Option<Stage>) -> Option<(u64, usize)> {
        let at_stage =
            || self.entries.iter().filter(|(_, entry)| stage.is_none_or(|at| entry.stage == at));
        let mut counts: BTreeMap<Peer, usize> = BTreeMap::new();
        at_stage().for_each(|(_, entry)| *counts.entry(entry.peer).or_default() += 1);
        let (most, count) = counts.into_iter().max_by_key(|(peer, count)| {
            let is_newcomer = newcomer == Some(*peer);
            (count + usize::from(is_newcomer), is_newcomer)
        })?;
        let leaver = at_stage()
            .filter(|(_, entry)| entry.peer == most)
            .min_by_key(|(_, entry)| (entry.stage.rank(), entry.tick))?;
        Some((*leaver.0, count))
    }

    fn send_away(&mut self, id: u64) {
        if let Some(task) = self.entries.remove(&id).and_then(|entry| entry.task) {
            task.abort();
        }
    }

    /// The error is how long it takes until one has stayed long enough to be sent away.
    fn make_place(&mut self, newcomer: Peer, stage: Option<Stage>) -> Result<(), Duration> {
        let Some((id, _)) = self.find_leaver(Some(newcomer), stage) else { return Ok(()) };
        let stayed = self.entries.get(&id).map_or(LEAST_STAY, |entry| entry.since.elapsed());
        if stayed < LEAST_STAY {
            return Err(LEAST_STAY - stayed);
        }
        self.send_away(id);
        Ok(())
    }

    fn change_stage(&mut self, id: u64, stage: Stage) {
        let tick = self.next_tick();
        if let Some(entry) = self.entries.get_mut(&id) {
            (entry.stage, entry.tick, entry.since) = (stage, tick, Instant::now());
        }
    }
}

impl ConnectionLimiter {
    /// As many places as there are descriptors for.
    pub(super) fn new(descriptors: Option<u64>) -> Arc<Self> {
        let room = descriptors.unwrap_or(u64::MAX);
        let room = room.saturating_sub(OTHERS.min(room / 2)).max(1);
        let places = usize::try_from(room).unwrap_or(PLACES).min(PLACES);
        Arc::new(Self { places, guests: Mutex::default() })
    }

    fn lock_guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends another connection away if need be; the error is how long to wait for that.
    pub(super) fn admit_guest(self: &Arc<Self>, peer: Peer) -> Result<Arc<Guest>, Duration> {
        let mut guests = self.lock_guests();
        if guests.entries.len() >= self.places {
            guests.make_place(peer, None)?;
        }
        let id = guests.next_tick();
        let (stage, since) = (Stage::Waiting, Instant::now());
        guests.entries.insert(id, GuestEntry { peer, stage, tick: id, since, task: None });
        Ok(Arc::new(Guest { limiter: Arc::clone(self), id, peer }))
    }

    /// Sends any connection away: there are no descriptors left.
    pub(super) fn thin_out(&self) {
        let mut guests = self.lock_guests();
        if let Some((id, _)) = guests.find_leaver(None, None) {
            guests.send_away(id);
        }
    }

    /// The task to abort when a guest has to go.
    pub(super) fn served_by(&self, id: u64, task: AbortHandle) {
        if let Some(entry) = self.lock_guests().entries.get_mut(&id) {
            entry.task = Some(task);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock_guests().entries.is_empty()
    }
}

/// A connection; dropped, it leaves.
pub(super) struct Guest {
    limiter: Arc<ConnectionLimiter>,
    pub(super) id: u64,
    pub(super) peer: Peer,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.limiter.lock_guests().entries.remove(&self.id);
    }
}

impl Guest {
    /// Begins a handshake, and ends another if need be; the error is how long to wait for that.
    pub(super) fn shakes_hands(&self) -> Result<(), Duration> {
        let mut guests = self.limiter.lock_guests();
        if guests.count_at(Stage::ShakingHands) >= HANDSHAKES {
            guests.make_place(self.peer, Some(Stage::ShakingHands))?;
        }
        guests.change_stage(self.id, Stage::ShakingHands);
        Ok(())
    }

    pub(super) fn has_shaken_hands(&self) {
        self.limiter.lock_guests().change_stage(self.id, Stage::Waiting);
    }

    pub(super) fn begin_answer(self: &Arc<Self>) -> Answering {
        self.limiter.lock_guests().change_stage(self.id, Stage::Answered);
        Answering(Arc::clone(self))
    }

    /// `false` if all streams are taken, and nobody has many more than this peer.
    pub(super) fn begin_listening(&self) -> bool {
        let mut guests = self.limiter.lock_guests();
        if guests.count_at(Stage::Listening) >= STREAMS {
            let is_own =
                |entry: &&GuestEntry| entry.peer == self.peer && entry.stage == Stage::Listening;
            let own = guests.entries.values().filter(is_own).count();
            match guests.find_leaver(Some(self.peer), Some(Stage::Listening)) {
                Some((id, most)) if most > own + 1 => guests.send_away(id),
                _ => return false,
            }
        }
        guests.change_stage(self.id, Stage::Listening);
        guests.entries.contains_key(&self.id)
    }
}

/// Dropped when the answer is done.
pub(super) struct Answering(Arc<Guest>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.limiter.lock_guests().change_stage(self.0.id, Stage::Waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(guest: &Guest) -> bool {
        guest.limiter.lock_guests().entries.contains_key(&guest.id)
    }

    fn limiter(places: usize) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter { places, guests: Mutex::default() })
    }

    /// Lets one in when it may be.
    fn admit(limiter: &Arc<ConnectionLimiter>, peer: Peer) -> Arc<Guest> {
        loop {
            match limiter.admit_guest(peer) {
                Ok(guest) => return guest,
                Err(wait) => std::thread::sleep(wait),
            }
        }
    }

    fn shake(guest: &Guest) {
        while let Err(wait) = guest.shakes_hands() {
            std::thread::sleep(wait);
        }
    }

    const MANY: Peer = Peer::User(4242);
    const FEW: Peer = Peer::User(0);

    #[test]
    fn who_has_the_most_gives_one_up_and_the_oldest_that_waits() {
        let limiter = limiter(4);
        let few = admit(&limiter, FEW);
        let many: Vec<_> = (0..3).map(|_| admit(&limiter, MANY)).collect();
        let answering = many[0].begin_answer();
        let newcomer = admit(&limiter, FEW);
        assert!(
            here(&few) && here(&newcomer) && here(&many[0]) && !here(&many[1]) && here(&many[2])
        );
        // At two each, one more of either goes for one of its own.
        let another = admit(&limiter, MANY);
        assert!(
            here(&few) && here(&newcomer) && here(&many[0]) && !here(&many[2]) && here(&another)
        );
        // What has been answered is as any other, and as new as its answer.
        drop(answering);
        let last = admit(&limiter, MANY);
        assert!(here(&many[0]) && !here(&another) && here(&last));
        drop((few, newcomer, many, another, last));
        assert!(limiter.is_empty());
    }

    #[test]
    fn one_alone_keeps_the_newest_and_those_who_are_answered() {
        let limiter = limiter(3);
        let all: Vec<_> = (0..3).map(|_| admit(&limiter, MANY)).collect();
        let _answers: Vec<_> = all.iter().map(Guest::begin_answer).collect();
        let newcomer = admit(&limiter, MANY);
        assert_eq!(all.iter().map(|guest| here(guest)).collect::<Vec<_>>(), [false, true, true]);
        let next = admit(&limiter, MANY);
        assert!(
            !here(&newcomer) && here(&next),
            "who only stands there goes before who is answered"
        );
    }

    #[test]
    fn nobody_goes_before_he_has_had_time_to_speak() {
        let limiter = limiter(1);
        let first = admit(&limiter, MANY);
        assert!(limiter.admit_guest(FEW).is_err_and(|wait| wait <= LEAST_STAY) && here(&first));
        std::thread::sleep(LEAST_STAY);
        assert!(limiter.admit_guest(FEW).is_ok() && !here(&first));
    }

    #[test]
    fn handshakes_have_a_bound_of_their_own() {
        let limiter = limiter(PLACES);
        let own = admit(&limiter, FEW);
        shake(&own);
        let many: Vec<_> = (0..HANDSHAKES).map(|_| admit(&limiter, MANY)).collect();
        many.iter().for_each(|guest| shake(guest));
        assert!(here(&own) && !here(&many[0]) && here(&many[1]));
        many[1].has_shaken_hands();
        assert_eq!(limiter.lock_guests().count_at(Stage::ShakingHands), HANDSHAKES - 1);
        drop(own);
        assert_eq!(limiter.lock_guests().count_at(Stage::ShakingHands), HANDSHAKES - 2);
    }

    #[test]
    fn one_who_listens_to_everything_leaves_room_for_others() {
        let limiter = limiter(PLACES);
        let many: Vec<_> = (0..STREAMS).map(|_| admit(&limiter, MANY)).collect();
        assert!(many.iter().all(|guest| guest.begin_listening()));
        assert!(!admit(&limiter, MANY).begin_listening());
        let own = admit(&limiter, FEW);
        assert!(own.begin_listening() && !here(&many[0]) && here(&many[1]));
        drop(many);
        assert_eq!(limiter.lock_guests().count_at(Stage::Listening), 1);
    }

    #[test]
    fn places_are_bound_by_descriptors() {
        for (descriptors, places) in
            [(None, 1024), (Some(20_000), 1024), (Some(1024), 768), (Some(64), 32), (Some(0), 1)]
        {
            assert_eq!(ConnectionLimiter::new(descriptors).places, places, "{descriptors:?}");
        }
    }
}
