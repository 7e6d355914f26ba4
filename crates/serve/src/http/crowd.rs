//! Who is connected, and who has to go when it gets full.
//!
//! A newcomer always gets in. When all places are taken, whoever has the most of them gives one up: of that user's or
//! network's connections the one that has waited longest without anything to answer. So one who squats, however he does
//! it, takes places from himself alone, and a scraper is answered while a thousand others stand around. Nobody goes before
//! he has had the time to say something: newcomers wait that long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::peer::Peer;

/// Connections at once, where there are descriptors for them.
const PLACES: usize = 1024;
/// Of these so many may be in the middle of a handshake, which takes more memory than anything else.
const HANDSHAKES: usize = 384;
/// Dashboards at once.
pub(super) const STREAMS: usize = 100;
/// Descriptors for what is no connection: the host's files, and those who were sent away and are not gone yet.
const OTHERS: u64 = 256;

/// Nobody goes sooner than this after he came or was answered.
const LEAST_STAY: Duration = Duration::from_millis(500);

/// What a connection is doing; those who do less go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It has said nothing, or not enough, or has its answer.
    Waiting,
    /// It listens to what is told of each reading.
    Listening,
    /// It is being answered.
    Answered,
}

/// Everybody who is connected.
pub(super) struct Crowd {
    places: usize,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    /// Counts what happens: what has the smaller number was earlier.
    clock: u64,
    guests: BTreeMap<u64, Entry>,
    here: Line,
    shaking: Line,
    listening: Line,
}

struct Entry {
    peer: Peer,
    place: Place,
    /// When it got that place.
    since: Instant,
    task: Option<AbortHandle>,
}

/// Since when a connection is at what.
type Place = (Stage, u64);

/// Connections by whom they count for, each one's in the order in which they have to go.
#[derive(Default)]
struct Line {
    of: BTreeMap<Peer, BTreeSet<(Place, u64)>>,
    length: usize,
}

impl Line {
    fn insert(&mut self, peer: Peer, place: Place, id: u64) {
        self.length += usize::from(self.of.entry(peer).or_default().insert((place, id)));
    }

    fn remove(&mut self, peer: Peer, place: Place, id: u64) {
        let Some(all) = self.of.get_mut(&peer) else { return };
        self.length -= usize::from(all.remove(&(place, id)));
        if all.is_empty() {
            self.of.remove(&peer);
        }
    }

    fn count(&self, peer: Peer) -> usize {
        self.of.get(&peer).map_or(0, BTreeSet::len)
    }

    /// Who goes for one more of that peer's.
    fn goes_for(&self, newcomer: Peer) -> Option<u64> {
        let with = |peer: Peer, count: usize| (count + usize::from(peer == newcomer), peer == newcomer);
        let most = self.of.iter().max_by_key(|(peer, all)| with(**peer, all.len()));
        most.and_then(|(_, all)| all.first()).map(|(_, id)| *id)
    }
}

impl Lists {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn remove(&mut self, id: u64) -> Option<AbortHandle> {
        let Entry { peer, place, task, .. } = self.guests.remove(&id)?;
        for line in [&mut self.here, &mut self.shaking, &mut self.listening] {
            line.remove(peer, place, id);
        }
        task
    }

    fn send_away(&mut self, id: u64) {
        if let Some(task) = self.remove(id) {
            task.abort();
        }
    }

    /// The same, if it has been there long enough; how long it will be until then, if not.
    fn send_away_in_time(&mut self, id: u64) -> Result<(), Duration> {
        let stayed = self.guests.get(&id).map_or(LEAST_STAY, |entry| entry.since.elapsed());
        if stayed < LEAST_STAY {
            return Err(LEAST_STAY - stayed);
        }
        self.send_away(id);
        Ok(())
    }

    fn change(&mut self, id: u64, stage: Stage) {
        let now = (stage, self.tick());
        let Some(entry) = self.guests.get_mut(&id) else { return };
        let (peer, before) = (entry.peer, std::mem::replace(&mut entry.place, now));
        entry.since = Instant::now();
        self.here.remove(peer, before, id);
        self.here.insert(peer, now, id);
        for line in [&mut self.shaking, &mut self.listening] {
            line.remove(peer, before, id);
        }
    }
}

impl Crowd {
    /// As many places as there are descriptors for.
    pub(super) fn new(descriptors: Option<u64>) -> Arc<Self> {
        let room = descriptors.unwrap_or(u64::MAX);
        let room = room.saturating_sub(OTHERS.min(room / 2)).max(1);
        let places = usize::try_from(room).unwrap_or(PLACES).min(PLACES);
        Arc::new(Self { places, lists: Mutex::default() })
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets somebody in; if need be, somebody else goes.
    ///
    /// # Errors
    /// How long to wait for that.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer) -> Result<Arc<Guest>, Duration> {
        let mut lists = self.lists();
        while lists.here.length >= self.places {
            let Some(id) = lists.here.goes_for(peer) else { break };
            lists.send_away_in_time(id)?;
        }
        let id = lists.tick();
        let place = (Stage::Waiting, id);
        lists.here.insert(peer, place, id);
        lists.guests.insert(id, Entry { peer, place, since: Instant::now(), task: None });
        drop(lists);
        Ok(Arc::new(Guest { crowd: Arc::clone(self), id, peer }))
    }

    /// One goes, whoever it is: there are no descriptors left.
    pub(super) fn thin_out(&self) {
        let mut lists = self.lists();
        let most = lists.here.of.values().max_by_key(|all| all.len());
        if let Some(id) = most.and_then(|all| all.first()).map(|(_, id)| *id) {
            lists.send_away(id);
        }
    }

    /// The task that ends when a guest has to go.
    pub(super) fn served_by(&self, id: u64, task: AbortHandle) {
        if let Some(entry) = self.lists().guests.get_mut(&id) {
            entry.task = Some(task);
        }
    }

    /// Whether nobody is there any more.
    pub(super) fn is_empty(&self) -> bool {
        self.lists().guests.is_empty()
    }
}

/// One connection; it leaves when this is dropped.
pub(super) struct Guest {
    crowd: Arc<Crowd>,
    id: u64,
    peer: Peer,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.crowd.lists().remove(self.id);
    }
}

impl Guest {
    /// Whom it counts for.
    pub(super) const fn peer(&self) -> Peer {
        self.peer
    }

    /// Its number.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// It begins a handshake; if need be, another one who is at it goes.
    ///
    /// # Errors
    /// How long to wait for that.
    pub(super) fn shakes_hands(&self) -> Result<(), Duration> {
        let mut lists = self.crowd.lists();
        while lists.shaking.length >= HANDSHAKES {
            let Some(id) = lists.shaking.goes_for(self.peer) else { break };
            lists.send_away_in_time(id)?;
        }
        lists.change(self.id, Stage::Waiting);
        if let Some(place) = lists.guests.get(&self.id).map(|entry| entry.place) {
            lists.shaking.insert(self.peer, place, self.id);
        }
        Ok(())
    }

    /// It has shaken hands, and has said nothing else yet.
    pub(super) fn has_shaken_hands(&self) {
        self.crowd.lists().change(self.id, Stage::Waiting);
    }

    /// It has asked, and is being answered until what comes back is dropped.
    pub(super) fn asks(self: &Arc<Self>) -> Answering {
        self.crowd.lists().change(self.id, Stage::Answered);
        Answering(Arc::clone(self))
    }

    /// It listens from now on; `false` where all places for that are taken, and not by somebody who has many more.
    pub(super) fn listens(&self) -> bool {
        let mut lists = self.crowd.lists();
        if lists.listening.length >= STREAMS {
            let own = lists.listening.count(self.peer);
            let most = lists.listening.of.values().map(BTreeSet::len).max().unwrap_or(0);
            let goes = lists.listening.goes_for(self.peer).filter(|_| most > own + 1);
            let Some(id) = goes else { return false };
            lists.send_away(id);
        }
        lists.change(self.id, Stage::Listening);
        let Some(place) = lists.guests.get(&self.id).map(|entry| entry.place) else { return false };
        lists.listening.insert(self.peer, place, self.id);
        true
    }
}

/// As long as a question is answered.
pub(super) struct Answering(Arc<Guest>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.crowd.lists().change(self.0.id, Stage::Waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(guest: &Guest) -> bool {
        guest.crowd.lists().guests.contains_key(&guest.id)
    }

    fn crowd(places: usize) -> Arc<Crowd> {
        Arc::new(Crowd { places, lists: Mutex::default() })
    }

    /// Lets one in when it may be.
    fn admit(crowd: &Arc<Crowd>, peer: Peer) -> Arc<Guest> {
        loop {
            match crowd.admit(peer) {
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
        let crowd = crowd(4);
        let few = admit(&crowd, FEW);
        let many: Vec<_> = (0..3).map(|_| admit(&crowd, MANY)).collect();
        let answering = many[0].asks();
        let newcomer = admit(&crowd, FEW);
        assert!(here(&few) && here(&newcomer) && here(&many[0]) && !here(&many[1]) && here(&many[2]));
        // At two each, one more of either goes for one of its own.
        let another = admit(&crowd, MANY);
        assert!(here(&few) && here(&newcomer) && here(&many[0]) && !here(&many[2]) && here(&another));
        // What has been answered is as any other, and as new as its answer.
        drop(answering);
        let last = admit(&crowd, MANY);
        assert!(here(&many[0]) && !here(&another) && here(&last));
        drop((few, newcomer, many, another, last));
        assert!(crowd.is_empty() && crowd.lists().here.of.is_empty() && crowd.lists().here.length == 0);
    }

    #[test]
    fn one_alone_keeps_the_newest_and_those_who_are_answered() {
        let crowd = crowd(3);
        let all: Vec<_> = (0..3).map(|_| admit(&crowd, MANY)).collect();
        let _answers: Vec<_> = all.iter().map(Guest::asks).collect();
        let newcomer = admit(&crowd, MANY);
        assert_eq!(all.iter().map(|guest| here(guest)).collect::<Vec<_>>(), [false, true, true]);
        let next = admit(&crowd, MANY);
        assert!(!here(&newcomer) && here(&next), "who only stands there goes before who is answered");
    }

    #[test]
    fn nobody_goes_before_he_has_had_time_to_speak() {
        let crowd = crowd(1);
        let first = admit(&crowd, MANY);
        assert!(crowd.admit(FEW).is_err_and(|wait| wait <= LEAST_STAY) && here(&first));
        std::thread::sleep(LEAST_STAY);
        assert!(crowd.admit(FEW).is_ok() && !here(&first));
    }

    #[test]
    fn handshakes_have_a_bound_of_their_own() {
        let crowd = crowd(PLACES);
        let own = admit(&crowd, FEW);
        shake(&own);
        let many: Vec<_> = (0..HANDSHAKES).map(|_| admit(&crowd, MANY)).collect();
        many.iter().for_each(|guest| shake(guest));
        assert!(here(&own) && !here(&many[0]) && here(&many[1]));
        many[1].has_shaken_hands();
        assert_eq!(crowd.lists().shaking.length, HANDSHAKES - 1);
        drop(own);
        assert_eq!(crowd.lists().shaking.length, HANDSHAKES - 2);
    }

    #[test]
    fn one_who_listens_to_everything_leaves_room_for_others() {
        let crowd = crowd(PLACES);
        let many: Vec<_> = (0..STREAMS).map(|_| admit(&crowd, MANY)).collect();
        assert!(many.iter().all(|guest| guest.listens()));
        assert!(!admit(&crowd, MANY).listens());
        let own = admit(&crowd, FEW);
        assert!(own.listens() && !here(&many[0]) && here(&many[1]));
        drop(many);
        assert_eq!(crowd.lists().listening.length, 1);
    }

    #[test]
    fn places_are_bound_by_descriptors() {
        for (descriptors, places) in
            [(None, 1024), (Some(20_000), 1024), (Some(1024), 768), (Some(64), 32), (Some(0), 1)]
        {
            assert_eq!(Crowd::new(descriptors).places, places, "{descriptors:?}");
        }
    }
}
