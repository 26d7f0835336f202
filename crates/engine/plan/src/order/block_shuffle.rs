//! The block shuffle: groups in random order, dealt from many at once, each used within a short time.
//!
//! ```text
//! slots    the groups, shuffled and laid end to end: one line of all samples
//! windows  each w slots that are shuffled together
//! turn     the line joined to a ring and turned by a random number of samples
//! lanes    the ring cut into equal pieces; position p takes from lane p % L
//!
//!          lane 0    lane 1    lane 2    lane 3
//!          ───────►  ◄───────  ───────►  ◄───────
//! ```
//!
//! Lanes are equal in samples, not in groups: were they not, the longer ones would have to be dealt out to
//! whichever rank is free at the end, and every rank would decode their groups. A group that lies across
//! the border of two lanes belongs to both. Odd lanes run backwards, so that both come to it at the same
//! time, first of all or last of all, and one process still decodes it once.
//!
//! A group is only used while a lane is in its window, so at most L * w groups are open at once.
//!
//! Every sample is as likely at every position. Where all groups are full, the shuffled slots alone see to that. A short
//! group could only begin where full ones end, and so would never come at some positions: there the line is turned. With
//! an even number of lanes the first and the last begin together where its ends meet. With an odd number the window
//! that lies there would be used both first and last, so the line is not turned and a small set is less even.

use std::{ops::Range, sync::Arc};

use crate::{
    groups::Groups,
    permutation::Permutation,
    seed::{Purpose, SeedKey},
};

#[derive(Clone, Debug)]
pub(super) struct BlockShuffle {
    groups: Arc<Groups>,
    slots: Slots,
    /// By how many samples the line is turned before it is cut.
    turn: u64,
    lanes: Lanes,
    window: u64,
    window_key: SeedKey,
}

impl BlockShuffle {
    pub(super) fn new(
        lanes: u32,
        window: u32,
        key: impl Fn(Purpose) -> SeedKey,
        groups: Arc<Groups>,
    ) -> Self {
        let slots = Slots::new(&groups, key(Purpose::Groups));
        let is_turned = !slots.short.is_empty() && lanes.is_multiple_of(2);
        Self {
            turn: if is_turned { key(Purpose::Turn).below(groups.len()) } else { 0 },
            slots,
            lanes: Lanes::new(groups.len(), lanes),
            window: u64::from(window),
            window_key: key(Purpose::Window),
            groups,
        }
    }

    /// The sample at a position below the number of samples.
    pub(super) fn sample(&self, position: u64) -> u64 {
        let turned = self.lanes.deal(position);
        let place =
            if turned < self.turn { turned + (self.groups.len() - self.turn) } else { turned - self.turn };
        let (window, order) = self.window(place);
        let (group, within) = self.slots.group(window.start + order.at(place - window.start));
        self.groups.range(group).start + within
    }

    pub(super) fn position(&self, sample: u64) -> Option<u64> {
        let group = self.groups.group(sample)?;
        let place = self.slots.place(group, sample - self.groups.range(group).start);
        let (window, order) = self.window(place);
        let place = window.start + order.position(place - window.start);
        let left = self.groups.len() - self.turn;
        Some(self.lanes.position(if place < left { place + self.turn } else { place - left }))
    }

    /// The places that are shuffled together with `place`, and how.
    fn window(&self, place: u64) -> (Range<u64>, Permutation) {
        let number = self.slots.slot(place) / self.window;
        let window = self.slots.start(number * self.window)
            ..self.slots.start((number + 1).saturating_mul(self.window));
        let order = Permutation::new(window.end - window.start, self.window_key.with(number).pair());
        (window, order)
    }
}

/// The groups in their shuffled order, laid end to end; a place is a sample's on this line.
#[derive(Clone, Debug)]
struct Slots {
    order: Permutation,
    group_len: u64,
    /// The slots of groups that are not full, in order of slots.
    short: Vec<ShortSlot>,
}

#[derive(Clone, Copy, Debug)]
struct ShortSlot {
    slot: u64,
    /// The place after its last.
    end: u64,
    /// What this and all earlier slots lack.
    lack: u64,
}

impl Slots {
    fn new(groups: &Groups, key: SeedKey) -> Self {
        let order = Permutation::new(groups.group_count(), key.pair());
        let group_len = groups.group_len();
        let short =
            groups.short().map(|(group, lack)| ShortSlot { slot: order.position(group), end: 0, lack });
        let mut short: Vec<ShortSlot> = short.collect();
        short.sort_unstable_by_key(|short| short.slot);
        let mut lack = 0;
        for short in &mut short {
            lack += short.lack;
            short.lack = lack;
            short.end = (short.slot + 1) * group_len - lack;
        }
        Self { order, group_len, short }
    }

    /// The first place of `slot`; past the last slot, the number of places.
    fn start(&self, slot: u64) -> u64 {
        let slot = slot.min(self.order.len());
        slot * self.group_len - self.lack(|short| short.slot < slot)
    }

    fn slot(&self, place: u64) -> u64 {
        (place + self.lack(|short| short.end <= place)) / self.group_len
    }

    /// The group at `place`, and which of its samples.
    fn group(&self, place: u64) -> (u64, u64) {
        // Filled up with what the slots before lack, slots are equally long.
        let filled = place + self.lack(|short| short.end <= place);
        (self.order.at(filled / self.group_len), filled % self.group_len)
    }

    /// The place of the sample `within` a group.
    fn place(&self, group: u64, within: u64) -> u64 {
        self.start(self.order.position(group)) + within
    }

    /// What the short slots lack that are `before` something.
    fn lack(&self, before: impl Fn(&ShortSlot) -> bool) -> u64 {
        match self.short.partition_point(before) {
            0 => 0,
            count => self.short[count - 1].lack,
        }
    }
}

/// Places cut into lanes of equal length: the first few are one longer when it does not come out even.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    count: u64,
    /// Length of the shorter lanes, at least 1: there are as many groups as lanes, or more.
    len: u64,
    longer_count: u64,
}

impl Lanes {
    fn new(place_count: u64, lanes: u32) -> Self {
        let count = u64::from(lanes);
        Self { count, len: place_count / count, longer_count: place_count % count }
    }

    fn places(&self, lane: u64) -> Range<u64> {
        let start = |lane: u64| lane * self.len + lane.min(self.longer_count);
        start(lane)..start(lane + 1)
    }

    fn lane(&self, place: u64) -> u64 {
        let longer_end = self.longer_count * (self.len + 1);
        match place.checked_sub(longer_end) {
            None => place / (self.len + 1),
            Some(past) => self.longer_count + past / self.len,
        }
    }

    /// The place of `position`.
    fn deal(&self, position: u64) -> u64 {
        let (turn, lane) = (position / self.count, position % self.count);
        let places = self.places(lane);
        if lane.is_multiple_of(2) { places.start + turn } else { places.end - 1 - turn }
    }

    /// The position of `place`.
    fn position(&self, place: u64) -> u64 {
        let lane = self.lane(place);
        let places = self.places(lane);
        let turn = if lane.is_multiple_of(2) { place - places.start } else { places.end - 1 - place };
        turn * self.count + lane
    }
}
