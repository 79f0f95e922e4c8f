//! All short histories of slabs and of what is linked through them, each against a plain collection.

use super::list::{List, ListLinks, ListNode};
use super::tree::{Tree, TreeLinks, TreeNode};
use super::{Key, NO_SLOT, SecondaryMap, Slab};
use crate::testing::{exhaustive, for_each_sequence};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// A slab, every key that it has issued, and the values that the keys should find.
#[derive(Default)]
struct History {
    slab: Slab<usize>,
    issued: Vec<(Key, Option<usize>)>,
}

impl History {
    fn insert(&mut self) {
        let value = self.issued.len();
        let key = self.slab.insert(value);
        self.issued.push((key, Some(value)));
    }

    /// Removes the first or the last of the values that are there.
    fn remove(&mut self, is_last: bool) {
        let mut stored = self.issued.iter_mut().filter(|(_, value)| value.is_some());
        let Some((key, value)) = (if is_last { stored.next_back() } else { stored.next() }) else { return };
        assert_eq!(self.slab.remove(*key), value.take());
    }

    fn check(&mut self) {
        let stored = self.issued.iter().filter(|(_, value)| value.is_some()).count();
        assert_eq!((self.slab.len(), self.slab.is_empty()), (stored, stored == 0));
        assert_eq!(self.slab.iter().count(), stored);
        assert_eq!(self.slab.iter_mut().count(), stored);
        for (key, value) in &self.issued {
            assert_eq!(self.slab.get(*key), value.as_ref());
            assert_eq!(self.slab.is_stale(*key), value.is_none());
            if value.is_none() {
                assert_eq!((self.slab.remove(*key), self.slab.get_mut(*key)), (None, None));
            }
        }
        let mut keys: Vec<Key> = self.issued.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), self.issued.len(), "a key was issued twice");
    }
}

#[test]
fn exhaustive_slab_finds_each_value_by_its_own_key_alone() {
    let property = "A key of a slab finds its own value until that is removed, and nothing ever after.";
    exhaustive(
        property,
        "insertions, removals at both ends and releases of memory, up to",
        [7, 9, 11],
        |most| {
            for_each_sequence(4, most, |steps| {
                let mut history = History::default();
                for step in steps {
                    match step {
                        0 => history.insert(),
                        1 => history.remove(false),
                        2 => history.remove(true),
                        _ => history.slab.trim(),
                    }
                }
                history.check();
            })
        },
    );
}

#[test]
fn exhaustive_slab_whose_generations_end_issues_no_key_twice() {
    let property = "A slab whose generations are used up retires slots rather than to issue a key twice.";
    exhaustive(property, "steps from each of the last three generations, up to", [6, 7, 9], |most| {
        (0..3)
            .map(|left| {
                for_each_sequence(3, most, |steps| {
                    let mut history = History::default();
                    history.slab.base_generation = u32::MAX - left;
                    for step in steps {
                        match step {
                            0 => history.insert(),
                            1 => history.remove(false),
                            _ => history.slab.trim(),
                        }
                    }
                    let mut keys: Vec<Key> = history.issued.iter().map(|(key, _)| *key).collect();
                    keys.sort_unstable();
                    keys.dedup();
                    assert_eq!(keys.len(), history.issued.len(), "{steps:?}");
                    for (key, value) in &history.issued {
                        assert_eq!(history.slab.get(*key), value.as_ref(), "{steps:?}");
                    }
                })
            })
            .sum()
    });
}

#[test]
fn exhaustive_slab_that_begins_later_issues_no_earlier_generation() {
    let property =
        "After `begin_at` a slab issues no generation before that one, and keeps all that it holds.";
    exhaustive(property, "steps of two kinds of beginnings, up to", [6, 7, 9], |most| {
        for_each_sequence(5, most, |steps| {
            let (mut history, mut first) = (History::default(), 0);
            for step in steps {
                match step {
                    0 => {
                        history.insert();
                        let (key, _) = history.issued[history.issued.len() - 1];
                        assert!(key.generation >= first, "{steps:?}");
                    }
                    1 => history.remove(false),
                    2 => history.slab.trim(),
                    _ => {
                        let generation = if *step == 3 { 2 } else { 5 };
                        first = first.max(generation);
                        history.slab.begin_at(generation);
                    }
                }
            }
            for (key, value) in &history.issued {
                assert_eq!(history.slab.get(*key), value.as_ref(), "{steps:?}");
            }
        })
    });
}

#[test]
fn exhaustive_key_is_the_number_that_was_made_from_it() {
    let property = "Different keys are different numbers above 2^32, save those of the last generation, and are read back.";
    exhaustive(
        property,
        "slots and generations around 0, 2^16, 2^31 and 2^32, distance",
        [1, 4, 40],
        |distance| {
            let distance = u32::try_from(distance).unwrap_or(1);
            let around = [0, 1 << 16, 1 << 31, u32::MAX];
            let near = around.into_iter().flat_map(|at| {
                (0..distance).flat_map(move |by| [at.saturating_add(by), at.saturating_sub(by)])
            });
            let mut numbers: Vec<u32> = near.collect();
            numbers.sort_unstable();
            numbers.dedup();
            let mut seen = BTreeMap::new();
            for slot in &numbers {
                for generation in &numbers {
                    let key = Key { slot: *slot, generation: *generation };
                    let token = u64::from(key);
                    assert_eq!(Key::from(token), key);
                    assert_eq!(token > u64::from(u32::MAX), *generation != u32::MAX);
                    assert_eq!(seen.insert(token, key), None);
                }
            }
            seen.len() as u64
        },
    );
}

#[test]
fn exhaustive_secondary_map_is_a_map_of_the_newest_key_of_each_slot() {
    let property = "A secondary map holds for each slot the value of the key that was set last, and finds it by that key only.";
    exhaustive(property, "insertions and removals by 4 keys in 2 slots, up to", [5, 6, 7], |most| {
        let keys = [(0, 0), (0, 1), (3, 0), (3, 9)].map(|(slot, generation)| Key { slot, generation });
        for_each_sequence(2 * keys.len(), most, |steps| {
            let (mut map, mut model) = (SecondaryMap::default(), BTreeMap::new());
            for (at, step) in steps.iter().enumerate() {
                let key = keys[step / 2];
                let is_own = model.get(&key.slot).is_some_and(|(own, _)| *own == key);
                if step % 2 == 0 {
                    map.insert(key, at);
                    model.insert(key.slot, (key, at));
                } else {
                    let removed = if is_own { model.remove(&key.slot) } else { None };
                    assert_eq!(map.remove(key), removed.map(|(_, at)| at), "{steps:?}");
                }
            }
            assert_eq!(map.is_empty(), model.is_empty(), "{steps:?}");
            for key in keys {
                let mut own = model.get(&key.slot).filter(|(own, _)| *own == key).map(|(_, at)| *at);
                assert_eq!(map.get(key), own.as_ref(), "{steps:?}");
                assert_eq!(map.get_mut(key), own.as_mut(), "{steps:?}");
            }
        })
    });
}

struct Node(ListLinks);

impl ListNode for Node {
    fn list_links(&self) -> ListLinks {
        self.0
    }

    fn set_list_links(&mut self, links: ListLinks) {
        self.0 = links;
    }
}

#[test]
fn exhaustive_list_is_a_double_ended_queue_with_removals_in_between() {
    let property = "A list of a slab has the order of a double-ended queue after any pushes and removals.";
    exhaustive(property, "pushes at both ends and removals at 3 places, up to", [6, 8, 10], |most| {
        for_each_sequence(5, most, |steps| {
            let (mut slab, mut list, mut model) = (Slab::new(), List::new(), VecDeque::new());
            for step in steps {
                if *step < 2 {
                    let key = slab.insert(Node(ListLinks::NONE));
                    if *step == 0 {
                        list.push(&mut slab, key);
                        model.push_back(key);
                    } else {
                        list.push_front(&mut slab, key);
                        model.push_front(key);
                    }
                    continue;
                }
                let at = [0, model.len() / 2, model.len().saturating_sub(1)][step - 2];
                let Some(key) = model.remove(at) else { continue };
                if at % 2 == 0 {
                    list.remove(&mut slab, key);
                    slab.remove(key);
                } else if let Some(node) = slab.remove(key) {
                    list.unlink(&mut slab, node.0);
                }
            }
            assert_eq!((list.is_empty(), list.first(&slab)), (model.is_empty(), model.front().copied()));
            assert!(list.iter(&slab).map(|(key, _)| key).eq(model.iter().copied()), "{steps:?}");
            for (at, key) in model.iter().enumerate() {
                assert_eq!(List::next(&slab, *key), model.get(at + 1).copied(), "{steps:?}");
                assert_eq!(slab.get(*key).map(|node| node.0.is_alone()), Some(model.len() == 1));
            }
            // From the end back, by the other links.
            let mut backwards = VecDeque::new();
            let mut at = model.back().map_or(NO_SLOT, |key| key.slot);
            while at != NO_SLOT {
                backwards.extend(slab.key_at(at));
                at = slab.at(at).map_or(NO_SLOT, |node| node.0.previous);
            }
            assert!(backwards.into_iter().rev().eq(model), "{steps:?}");
        })
    });
}

struct Number(usize, TreeLinks);

impl TreeNode for Number {
    fn tree_links(&mut self) -> &mut TreeLinks {
        &mut self.1
    }
}

#[test]
fn exhaustive_tree_is_an_ordered_map_whatever_the_order_of_the_steps() {
    let property = "A tree of a slab is an ordered map after any insertions, removals and searches.";
    exhaustive(
        property,
        "insertions or removals of 5 numbers, and searches of 2, up to",
        [6, 7, 8],
        |most| {
            for_each_sequence(7, most, |steps| {
                let (mut slab, mut tree, mut model) = (Slab::new(), Tree::<0>::new(), BTreeMap::new());
                for step in steps {
                    // The searches are of the second and the last number.
                    let number = if *step < 5 { *step } else { [1, 4][step - 5] };
                    let compare = |_: u32, other: &Number| other.0.cmp(&number);
                    if *step >= 5 {
                        assert_eq!(tree.find(&mut slab, compare), model.get(&number).copied(), "{steps:?}");
                        continue;
                    }
                    match tree.place(&mut slab, compare) {
                        Ok(place) => {
                            let key = slab.insert(Number(number, TreeLinks::default()));
                            tree.insert(&mut slab, place, key);
                            assert_eq!(model.insert(number, key), None, "{steps:?}");
                        }
                        Err(key) => {
                            assert_eq!(model.remove(&number), Some(key), "{steps:?}");
                            tree.remove(&mut slab, key, compare);
                            slab.remove(key);
                        }
                    }
                }
                assert_eq!(tree.is_empty(), model.is_empty());
                assert!(tree.keys(&mut slab).into_iter().eq(model.into_values()), "{steps:?}");
            })
        },
    );
}
