//! Turns of the threads that share a loader: a FIFO queue of tickets.
//!
//! A mutex alone would give the next batch to whichever thread the system wakes first, the one that has just had a batch among
//! them; and a thread that waits with it held would keep those from giving up whose time is over.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Which thread is next.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: Mutex<TurnQueue>,
    /// Another ticket is the first, or the last interruption is over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TurnQueue {
    /// The ticket of the thread that comes next.
    next: u64,
    /// Tickets in the order the threads came; the first has its turn.
    tickets: VecDeque<u64>,
    /// Threads that go before all of them.
    interruptions: usize,
}

/// The place of a thread in the queue, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    turns: &'a Turns,
    number: u64,
}

/// While it is there, the thread that has its turn waits where it would [let others pass](Ticket::let_pass).
#[derive(Debug)]
pub(crate) struct Interruption<'a>(&'a Turns);

impl Turns {
    /// Waits until all threads that came before have had their turn; nothing where that takes longer than `until`.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Option<Ticket<'_>> {
        let turn = self.enter();
        let mut queue = self.lock();
        while queue.tickets.front() != Some(&turn.number) {
            let Some(until) = until else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(turn)
    }

    /// The last place of the queue, which is left when it is dropped.
    fn enter(&self) -> Ticket<'_> {
        let mut queue = self.lock();
        let ticket = queue.next;
        queue.next += 1;
        queue.tickets.push_back(ticket);
        Ticket { turns: self, number: ticket }
    }

    /// Goes before all that wait, and before the thread that has its turn as soon as that lets others pass.
    pub(crate) fn interrupt(&self) -> Interruption<'_> {
        self.lock().interruptions += 1;
        Interruption(self)
    }

    /// How many threads have their turn or wait for it.
    #[cfg(test)]
    pub(crate) fn waiting_count(&self) -> usize {
        self.lock().tickets.len()
    }

    fn lock(&self) -> MutexGuard<'_, TurnQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket<'_> {
    /// Waits while threads interrupt.
    pub(crate) fn let_pass(&self) {
        let mut queue = self.turns.lock();
        while queue.interruptions > 0 {
            queue = self.turns.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.turns.lock().tickets.retain(|ticket| *ticket != self.number);
        self.turns.changed.notify_all();
    }
}

impl Drop for Interruption<'_> {
    fn drop(&mut self) {
        self.0.lock().interruptions -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    fn until_waiting(turns: &Turns, count: usize) {
        while turns.waiting_count() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn threads_have_their_turn_in_the_order_they_came() {
        let (turns, order) = (Turns::default(), Mutex::new(Vec::new()));
        let first = turns.wait(None).unwrap();
        thread::scope(|scope| {
            for number in 0..8 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.wait(None).unwrap();
                    order.lock().unwrap().push(number);
                });
                until_waiting(turns, number + 2);
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn a_thread_that_gives_up_leaves_its_place_to_the_next() {
        let turns = Turns::default();
        let first = turns.wait(None).unwrap();
        assert!(turns.wait(Some(Instant::now())).is_none());
        thread::scope(|scope| {
            let gives_up =
                scope.spawn(|| turns.wait(Some(Instant::now() + Duration::from_millis(20))).is_none());
            until_waiting(&turns, 2);
            let stays = scope.spawn(|| turns.wait(None).is_some());
            until_waiting(&turns, 3);
            assert!(gives_up.join().unwrap());
            drop(first);
            assert!(stays.join().unwrap());
        });
        assert_eq!(turns.waiting_count(), 0);
    }

    #[test]
    fn a_thread_that_interrupts_waits_for_no_turn() {
        let turns = Turns::default();
        let turn = turns.wait(None).unwrap();
        turn.let_pass();
        let interruption = turns.interrupt();
        thread::scope(|scope| {
            let passes = scope.spawn(|| turn.let_pass());
            thread::sleep(Duration::from_millis(20));
            assert!(!passes.is_finished());
            drop(interruption);
            passes.join().unwrap();
        });
    }
}
