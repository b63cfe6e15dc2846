//! The tasks that wait, first come, first served: one list for each server, all in one pool.
//!
//! Most servers of a large fleet have none waiting, so a server costs twelve bytes, and a waiting task sixteen, which the
//! next one uses again. As long as none waits anywhere, which is the rule, no list needs to be looked at.

/// A task that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    /// When it arrived.
    pub(super) arrived: f64,
    /// The how-manieth it is, which is where a trace has its service time.
    pub(super) number: u32,
}

/// A task and the place of the next one, without the padding of the one inside the other.
#[derive(Clone, Copy, Debug)]
struct Link {
    arrived: f64,
    number: u32,
    next: u32,
}

/// The ends of a list; both mean nothing if it is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    head: u32,
    tail: u32,
    count: u32,
}

/// The queues of all servers, and one that is no server's.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    ends: Box<[Ends]>,
    pool: Vec<Link>,
    /// The first place of the pool that is free, and from there the next; [`NONE`] at the end.
    free: u32,
    waiting: usize,
}

const NONE: u32 = u32::MAX;

impl Queues {
    /// Empty queues of so many servers. The central queue has the number after the last.
    pub(super) fn new(servers: u32) -> Queues {
        let ends = vec![Ends::default(); servers as usize + 1].into();
        Queues { ends, pool: Vec::new(), free: NONE, waiting: 0 }
    }

    /// How many tasks wait, everywhere.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many tasks wait in that queue.
    #[inline]
    pub(super) fn count(&self, queue: u32) -> u32 {
        if self.waiting == 0 { 0 } else { self.ends[queue as usize].count }
    }

    /// A task begins to wait.
    pub(super) fn push(&mut self, queue: u32, task: Task) {
        let link = Link { arrived: task.arrived, number: task.number, next: NONE };
        let place = if self.free == NONE {
            self.pool.push(link);
            // There is no room for 2³² tasks in memory that a run may use.
            (self.pool.len() - 1) as u32
        } else {
            let place = self.free;
            self.free = self.pool[place as usize].next;
            self.pool[place as usize] = link;
            place
        };
        let ends = &mut self.ends[queue as usize];
        match ends.count {
            0 => ends.head = place,
            _ => self.pool[ends.tail as usize].next = place,
        }
        ends.tail = place;
        ends.count += 1;
        self.waiting += 1;
    }

    /// The task that has waited longest in a queue does not any more.
    #[inline]
    pub(super) fn pop(&mut self, queue: u32) -> Option<Task> {
        if self.waiting == 0 {
            return None;
        }
        let ends = &mut self.ends[queue as usize];
        if ends.count == 0 {
            return None;
        }
        let place = ends.head;
        let link = &mut self.pool[place as usize];
        ends.head = link.next;
        ends.count -= 1;
        link.next = self.free;
        self.free = place;
        self.waiting -= 1;
        Some(Task { arrived: link.arrived, number: link.number })
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.ends) + self.pool.capacity() * size_of::<Link>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_queue_is_first_come_first_served(steps in prop::collection::vec((0..4u32, any::<bool>()), 0..300)) {
            let mut queues = Queues::new(3);
            let mut naive = vec![VecDeque::new(); 4];
            for ((queue, comes), number) in steps.into_iter().zip(0..) {
                if comes {
                    let task = Task { arrived: f64::from(number), number };
                    queues.push(queue, task);
                    naive[queue as usize].push_back(task);
                } else {
                    prop_assert_eq!(queues.pop(queue), naive[queue as usize].pop_front());
                }
                prop_assert_eq!(queues.waiting(), naive.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(queues.count(queue) as usize, naive[queue as usize].len());
            }
            prop_assert!(queues.pool.len() <= 300);
        }
    }

    #[test]
    fn a_waiting_task_costs_sixteen_bytes_and_a_server_twelve() {
        assert_eq!(size_of::<Link>(), 16);
        assert_eq!(size_of::<Ends>(), 12);
    }
}
