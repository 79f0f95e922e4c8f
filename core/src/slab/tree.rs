//! Tree: an ordered index over values of a slab, whose links are in the values.
//!
//! It is a splay tree: a search moves what it finds to the root. A search costs O(log n) amortised in any order of the
//! values, also in one that a peer chooses, and O(1) for the ends of a sequence that grows or shrinks at its ends.
//! Invariant: the nodes are those values that were inserted and not removed; no link names another slot.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{Key, NO_SLOT, Slab};

/// Links of a value in a [`Tree`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeLinks {
    less: u32,
    greater: u32,
}

impl Default for TreeLinks {
    fn default() -> Self {
        Self { less: NO_SLOT, greater: NO_SLOT }
    }
}

impl TreeLinks {
    /// Returns the link to the nodes on the side where the search goes on from a node that is in this order to it.
    fn toward(&mut self, order: Ordering) -> &mut u32 {
        if order == Ordering::Less { &mut self.greater } else { &mut self.less }
    }
}

/// A value that has links for the tree number `TREE`.
pub(crate) trait TreeNode<const TREE: u8 = 0> {
    fn tree_links(&mut self) -> &mut TreeLinks;
}

/// An ordered index over values of a slab; see the [module](self).
///
/// Functions for comparison return the order of a value relative to what is searched for, as those of
/// [`slice::binary_search_by`] do. They get the slot too, so that equal values can be told apart.
#[derive(Debug)]
pub(crate) struct Tree<const TREE: u8 = 0> {
    root: u32,
}

/// The place of a value that is not in a tree yet; valid until the tree changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(Ordering);

impl<const TREE: u8> Tree<TREE> {
    pub(crate) const fn new() -> Self {
        Self { root: NO_SLOT }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.root == NO_SLOT
    }

    /// Returns the value that compares as equal.
    #[inline]
    pub(crate) fn find<T: TreeNode<TREE>>(
        &mut self,
        slab: &mut Slab<T>,
        compare: impl FnMut(u32, &T) -> Ordering,
    ) -> Option<Key> {
        self.place(slab, compare).err()
    }

    /// Returns the place for a value.
    ///
    /// # Errors
    ///
    /// The value that compares as equal.
    #[inline]
    pub(crate) fn place<T: TreeNode<TREE>>(
        &mut self,
        slab: &mut Slab<T>,
        mut compare: impl FnMut(u32, &T) -> Ordering,
    ) -> Result<Place, Key> {
        let root = self.root;
        let Some(node) = slab.at_mut(root) else { return Ok(Place(Ordering::Equal)) };
        let mut order = compare(root, node);
        // Most peers count upwards, so a new id belongs behind the root.
        if order != Ordering::Equal && *node.tree_links().toward(order) != NO_SLOT {
            (self.root, order) = splay(&mut Search::<T, _, TREE> { slab, compare }, root);
        }
        match slab.key_at(self.root) {
            Some(key) if order == Ordering::Equal => Err(key),
            _ => Ok(Place(order)),
        }
    }

    /// Adds a value at its place.
    #[inline]
    pub(crate) fn insert<T: TreeNode<TREE>>(&mut self, slab: &mut Slab<T>, place: Place, key: Key) {
        let mut links = TreeLinks::default();
        if let Some(root) = slab.at_mut(self.root) {
            // After `place` the root is next to the new value, so what is beyond it goes below the new root.
            let far = core::mem::replace(root.tree_links().toward(place.0), NO_SLOT);
            (links.less, links.greater) =
                if place.0 == Ordering::Less { (self.root, far) } else { (far, self.root) };
        }
        if let Some(node) = slab.at_mut(key.slot) {
            *node.tree_links() = links;
            self.root = key.slot;
        }
    }

    /// Removes a value, which must be in the tree; `compare` is asked for the others only, none of which is equal.
    #[inline]
    pub(crate) fn remove<T: TreeNode<TREE>>(
        &mut self,
        slab: &mut Slab<T>,
        key: Key,
        mut compare: impl FnMut(u32, &T) -> Ordering,
    ) {
        let mut compare = |slot, node: &T| match slot == key.slot {
            true => Ordering::Equal,
            false => compare(slot, node),
        };
        if self.root != key.slot && self.find(slab, &mut compare) != Some(key) {
            return;
        }
        let Some(node) = slab.at_mut(key.slot) else { return };
        let TreeLinks { less, greater } = core::mem::take(node.tree_links());
        self.root = match (less, greater) {
            (NO_SLOT, other) | (other, NO_SLOT) => other,
            _ => join(&mut Search::<T, _, TREE> { slab, compare }, less, greater),
        };
    }

    /// Returns the keys of all values, in their order.
    pub(crate) fn keys<T: TreeNode<TREE>>(&self, slab: &mut Slab<T>) -> Vec<Key> {
        let (mut keys, mut open, mut at) = (Vec::new(), Vec::new(), self.root);
        loop {
            while let Some(node) = slab.at_mut(at) {
                open.push(at);
                at = node.tree_links().less;
            }
            let Some(slot) = open.pop() else { return keys };
            keys.extend(slab.key_at(slot));
            at = slab.at_mut(slot).map_or(NO_SLOT, |node| node.tree_links().greater);
        }
    }
}

/// The nodes of a tree, as a search sees them. A trait object, so that [`splay`] is compiled once.
trait Nodes {
    /// Returns the order and the links of a node.
    fn visit(&mut self, slot: u32) -> (Ordering, TreeLinks);
    fn links(&mut self, slot: u32) -> Option<&mut TreeLinks>;
}

struct Search<'s, T, C, const TREE: u8> {
    slab: &'s mut Slab<T>,
    compare: C,
}

impl<T: TreeNode<TREE>, C: FnMut(u32, &T) -> Ordering, const TREE: u8> Nodes for Search<'_, T, C, TREE> {
    fn visit(&mut self, slot: u32) -> (Ordering, TreeLinks) {
        let visit = |node: &mut T| ((self.compare)(slot, node), *node.tree_links());
        self.slab.at_mut(slot).map_or_else(|| (Ordering::Equal, TreeLinks::default()), visit)
    }

    fn links(&mut self, slot: u32) -> Option<&mut TreeLinks> {
        self.slab.at_mut(slot).map(TreeNode::tree_links)
    }
}

fn replace_link(nodes: &mut dyn Nodes, slot: u32, order: Ordering, to: u32) -> u32 {
    nodes.links(slot).map_or(NO_SLOT, |links| core::mem::replace(links.toward(order), to))
}

/// Moves the node that is searched for, or one next to its place, to the root. Returns it and its order.
///
/// This is the splay of Sleator and Tarjan from the root downwards: two trees take the nodes that are less and greater,
/// each at its inner end, and become the subtrees in the end.
fn splay(nodes: &mut dyn Nodes, root: u32) -> (u32, Ordering) {
    // The roots of both trees, and their inner ends.
    let (mut sides, mut less_end, mut greater_end) = (TreeLinks::default(), NO_SLOT, NO_SLOT);
    let mut at = root;
    let (mut order, mut links) = nodes.visit(at);
    while order != Ordering::Equal {
        let next = *links.toward(order);
        if next == NO_SLOT {
            break;
        }
        let (mut below, mut next_links) = nodes.visit(next);
        let mut to = next;
        if below == order {
            // Two steps in one direction: a rotation, which halves the depth of long paths.
            let inner = core::mem::replace(next_links.toward(order.reverse()), at);
            replace_link(nodes, next, order.reverse(), at);
            replace_link(nodes, at, order, inner);
            at = next;
            to = *next_links.toward(order);
            if to == NO_SLOT {
                break;
            }
            (below, next_links) = nodes.visit(to);
        }
        let end = if order == Ordering::Less { &mut less_end } else { &mut greater_end };
        match core::mem::replace(end, at) {
            NO_SLOT => *sides.toward(order) = at,
            end => _ = replace_link(nodes, end, order, at),
        }
        (at, order, links) = (to, below, next_links);
    }
    let Some(links) = nodes.links(at) else { return (root, order) };
    let TreeLinks { less, greater } = *links;
    // The search cut off lesser nodes on its way to the greater side, so `sides.greater` is the root of the lesser
    // tree.
    *links = TreeLinks {
        less: if less_end == NO_SLOT { less } else { sides.greater },
        greater: if greater_end == NO_SLOT { greater } else { sides.less },
    };
    replace_link(nodes, less_end, Ordering::Less, less);
    replace_link(nodes, greater_end, Ordering::Greater, greater);
    (at, order)
}

/// Joins the subtrees of a removed node, neither of which is empty.
#[inline(never)]
fn join(nodes: &mut dyn Nodes, less: u32, greater: u32) -> u32 {
    // A node that has just been inserted has a neighbour at one side.
    if let Some(end) = nodes.links(greater).map(|links| &mut links.less).filter(|end| **end == NO_SLOT) {
        *end = less;
        return greater;
    }
    let (root, _) = splay(nodes, less);
    replace_link(nodes, root, Ordering::Less, greater);
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    struct Number(u32, TreeLinks);

    impl TreeNode for Number {
        fn tree_links(&mut self) -> &mut TreeLinks {
            &mut self.1
        }
    }

    #[derive(Default)]
    struct Numbers {
        tree: Option<Tree>,
        slab: Slab<Number>,
        steps: usize,
    }

    impl Numbers {
        fn tree(&mut self) -> &mut Tree {
            self.tree.get_or_insert(Tree::new())
        }

        fn insert(&mut self, number: u32) -> Option<Key> {
            let steps = &mut self.steps;
            let tree = self.tree.get_or_insert(Tree::new());
            let place = tree.place(&mut self.slab, |_, n| {
                *steps += 1;
                n.0.cmp(&number)
            });
            let place = place.ok()?;
            let key = self.slab.insert(Number(number, TreeLinks::default()));
            tree.insert(&mut self.slab, place, key);
            Some(key)
        }

        fn remove(&mut self, number: u32, key: Key) {
            let steps = &mut self.steps;
            let tree = self.tree.get_or_insert(Tree::new());
            tree.remove(&mut self.slab, key, |_, n| {
                *steps += 1;
                n.0.cmp(&number)
            });
            assert_eq!(self.slab.remove(key).map(|n| n.0), Some(number));
        }

        fn find(&mut self, number: u32) -> Option<Key> {
            let steps = &mut self.steps;
            let tree = self.tree.get_or_insert(Tree::new());
            tree.find(&mut self.slab, |_, n| {
                *steps += 1;
                n.0.cmp(&number)
            })
        }

        fn keys(&mut self) -> Vec<Key> {
            self.tree();
            self.tree.as_ref().map(|tree| tree.keys(&mut self.slab)).unwrap_or_default()
        }
    }

    #[test]
    fn tree_equals_an_ordered_map_after_every_step() {
        for seed in 1..40u32 {
            let (mut numbers, mut model, mut random) = (Numbers::default(), BTreeMap::new(), seed);
            for _ in 0..300 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let number = (random >> 8) % 40;
                match (random >> 4) % 5 {
                    0..=2 => match numbers.insert(number) {
                        Some(key) => assert_eq!(model.insert(number, key), None),
                        None => assert!(model.contains_key(&number)),
                    },
                    3 => {
                        if let Some(key) = model.remove(&number) {
                            numbers.remove(number, key);
                        }
                    }
                    _ => assert_eq!(numbers.find(number), model.get(&number).copied()),
                }
                assert_eq!(numbers.keys(), model.values().copied().collect::<Vec<_>>());
                assert_eq!(numbers.tree().is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn every_order_of_insertion_costs_few_comparisons() {
        const COUNT: u32 = 20_000;
        let spread = |i: u32| i.wrapping_mul(2_654_435_761) % 1_000_003;
        for (name, most) in [("up", 4), ("down", 4), ("spread", 60)] {
            let number = |i| match name {
                "up" => i,
                "down" => COUNT - i,
                _ => spread(i),
            };
            let mut numbers = Numbers::default();
            let keys: Vec<_> = (0..COUNT).map(|i| (number(i), numbers.insert(number(i)))).collect();
            // The oldest one ends for each new one.
            for (number, key) in keys {
                numbers.remove(number, key.expect("distinct"));
            }
            let mean = numbers.steps / (2 * COUNT as usize);
            assert!(mean <= most, "{name}: {mean} comparisons per operation");
        }
    }

    #[test]
    fn misses_at_the_far_end_of_a_path_cost_few_comparisons() {
        let mut numbers = Numbers::default();
        (1..=100_000).for_each(|n| _ = numbers.insert(n));
        numbers.steps = 0;
        (0..1_000).for_each(|_| assert_eq!(numbers.find(0), None));
        // The first one walks the path, and halves it.
        assert!(numbers.steps < 100_000 + 1_000 * 20, "{}", numbers.steps);
    }
}
