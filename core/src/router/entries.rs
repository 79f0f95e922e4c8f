//! Registered things of one kind: by name, and in the order in which they came (TOOL-004).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::hooks::ROOT;

/// What the lists say, in order
///
/// Every item gets a number when it is registered, keeps it when it is replaced, and no number is used twice. So an order
/// that holds while items come and go is had for nothing, and a place in it, too (PAGE-010).
#[derive(Clone)]
pub(super) struct Catalog<T> {
    items: Numbered<Item<T>>,
    last: u64,
    /// Counts changes of what is shown
    generation: u64,
}

#[derive(Clone)]
struct Item<T> {
    item: T,
    enabled: bool,
}

impl<T> Catalog<T> {
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// The last number that was given away
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Up to `size` of those behind a number, and the number of the last one when there are more
    pub(super) fn page(&self, after: u64, size: usize) -> (Vec<&T>, Option<u64>) {
        let mut shown = self.items.behind(after).iter().filter(|(_, item)| item.enabled);
        let (mut items, mut last) = (Vec::new(), None);
        for (number, item) in shown.by_ref().take(size) {
            items.push(&item.item);
            last = Some(*number);
        }
        (items, last.filter(|_| shown.next().is_some()))
    }
}

/// Values by number, in order
///
/// A list and not a tree: numbers only grow, so that what is new comes last, and a tree for every type that is kept would
/// be the largest part of a small program. Boxed, so that taking one out moves little.
#[derive(Clone)]
struct Numbered<V>(Vec<(u64, Box<V>)>);

impl<V> Numbered<V> {
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(n, _)| *n)
    }

    fn get(&self, number: u64) -> Option<&V> {
        self.0.get(self.find(number).ok()?).map(|(_, value)| &**value)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut V> {
        let at = self.find(number).ok()?;
        self.0.get_mut(at).map(|(_, value)| &mut **value)
    }

    fn set(&mut self, number: u64, value: V) {
        let value = Box::new(value);
        match self.find(number) {
            Ok(at) => drop(self.0.get_mut(at).map(|place| place.1 = value)),
            Err(at) => self.0.insert(at, (number, value)),
        }
    }

    fn remove(&mut self, number: u64) -> Option<V> {
        let at = self.find(number).ok()?;
        Some(*self.0.remove(at).1)
    }

    /// All with larger numbers
    fn behind(&self, number: u64) -> &[(u64, Box<V>)] {
        let at = self.0.partition_point(|(n, _)| *n <= number);
        self.0.get(at..).unwrap_or_default()
    }
}

/// What belongs to an item besides
#[derive(Clone)]
pub(super) struct Rest<H, X> {
    pub(super) handler: H,
    /// What its kind needs
    pub(super) extra: X,
    /// Whose hooks see its calls
    pub(super) scope: usize,
}

/// An item and what belongs to it
pub(super) struct Entry<'a, T, H, X> {
    pub(super) item: &'a T,
    pub(super) handler: &'a H,
    pub(super) extra: &'a X,
    pub(super) scope: usize,
}

/// All of one kind
#[derive(Clone)]
pub(super) struct Entries<T, H, X> {
    pub(super) catalog: Catalog<T>,
    rests: Numbered<Rest<H, X>>,
    numbers: BTreeMap<Box<str>, u64>,
}

impl<T, H, X> Default for Entries<T, H, X> {
    fn default() -> Self {
        let catalog = Catalog { items: Numbered(Vec::new()), last: 0, generation: 0 };
        Self { catalog, rests: Numbered(Vec::new()), numbers: BTreeMap::new() }
    }
}

impl<T, H, X> Entries<T, H, X> {
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// Adds something, or puts it in the place of what has this name; its number, and whether it is new
    ///
    /// `extra` is made out of what was there.
    pub(super) fn put(
        &mut self,
        name: &str,
        item: T,
        handler: H,
        extra: impl FnOnce(Option<X>) -> X,
    ) -> (u64, bool) {
        let number = self.number(name);
        let old = self.rests.remove(number);
        let new = old.is_none();
        let (old, scope) = old.map_or((None, ROOT), |old| (Some(old.extra), old.scope));
        self.set(number, item, true, Rest { handler, extra: extra(old), scope });
        (number, new)
    }

    /// Adds what comes from another router
    pub(super) fn adopt(&mut self, name: &str, item: T, enabled: bool, rest: Rest<H, X>) -> u64 {
        let number = self.number(name);
        self.set(number, item, enabled, rest);
        number
    }

    fn number(&mut self, name: &str) -> u64 {
        self.numbers.get(name).copied().unwrap_or_else(|| {
            self.catalog.last += 1;
            self.numbers.insert(name.into(), self.catalog.last);
            self.catalog.last
        })
    }

    fn set(&mut self, number: u64, item: T, enabled: bool, rest: Rest<H, X>) {
        self.catalog.items.set(number, Item { item, enabled });
        self.catalog.generation += 1;
        self.rests.set(number, rest);
    }

    /// Takes something out: its number, whether it was shown, and what belonged to it
    pub(super) fn remove(&mut self, name: &str) -> Option<(u64, bool, Rest<H, X>)> {
        let number = self.numbers.remove(name)?;
        self.catalog.generation += 1;
        let item = self.catalog.items.remove(number)?;
        self.rests.remove(number).map(|rest| (number, item.enabled, rest))
    }

    /// Shows or hides something; none when there is none, false when nothing has changed
    pub(super) fn enable(&mut self, name: &str, enabled: bool) -> Option<bool> {
        let item = self.catalog.items.get_mut(*self.numbers.get(name)?)?;
        let changed = item.enabled != enabled;
        item.enabled = enabled;
        self.catalog.generation += u64::from(changed);
        Some(changed)
    }

    /// The item of a name, hidden or not, and what its kind needs
    pub(super) fn extra_mut(&mut self, name: &str) -> Option<(&T, &mut X)> {
        let number = *self.numbers.get(name)?;
        let rest = self.rests.get_mut(number)?;
        Some((&self.catalog.items.get(number)?.item, &mut rest.extra))
    }

    /// What is shown under a name
    pub(super) fn find(&self, name: &str) -> Option<Entry<'_, T, H, X>> {
        self.numbered(*self.numbers.get(name)?)
    }

    /// What is shown under a number
    pub(super) fn numbered(&self, number: u64) -> Option<Entry<'_, T, H, X>> {
        let item = self.catalog.items.get(number).filter(|item| item.enabled)?;
        let rest = self.rests.get(number)?;
        Some(Entry { item: &item.item, handler: &rest.handler, extra: &rest.extra, scope: rest.scope })
    }

    /// All names, in no order that means anything
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(|name| &**name)
    }

    /// All items, hidden or not, in order
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.catalog.items.0.iter().map(|(_, item)| &item.item)
    }

    /// What the kind needs of all, in order
    pub(super) fn extras(&self) -> impl Iterator<Item = &X> {
        self.rests.0.iter().map(|(_, rest)| &rest.extra)
    }

    pub(super) fn extras_mut(&mut self) -> impl Iterator<Item = &mut X> {
        self.rests.0.iter_mut().map(|(_, rest)| &mut rest.extra)
    }

    /// All with their names, in order: the item, whether it is shown, what belongs to it
    pub(super) fn into_ordered(self) -> impl Iterator<Item = (Box<str>, T, bool, Rest<H, X>)> {
        let mut names: Vec<(u64, Box<str>)> = self.numbers.into_iter().map(|(n, i)| (i, n)).collect();
        names.sort_unstable_by_key(|(number, _)| *number);
        // The same numbers stand in all three.
        let both = self.catalog.items.0.into_iter().zip(self.rests.0);
        let all = names.into_iter().zip(both);
        all.map(|((_, name), ((_, item), (_, rest)))| (name, item.item, item.enabled, *rest))
    }
}

impl<T, H, X> fmt::Debug for Entries<T, H, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    // covers: TOOL-004, PAGE-010
    #[test]
    fn a_place_in_the_order_outlives_changes() {
        let mut e = Entries::<&str, (), ()>::default();
        for name in ["d", "b", "c", "a", "e"] {
            assert!(e.put(name, name, (), |_| ()).1);
        }
        assert_eq!(e.catalog.page(0, 2), (vec![&"d", &"b"], Some(2)));
        // The one that the place is named after goes, one behind it is hidden, one is replaced, one is added.
        e.remove("b");
        e.enable("c", false);
        assert_eq!(e.put("a", "a2", (), |_| ()), (4, false));
        e.put("f", "f", (), |_| ());
        assert_eq!(e.catalog.page(2, 2), (vec![&"a2", &"e"], Some(5)));
        assert_eq!(e.catalog.page(5, 2), (vec![&"f"], None));
        assert_eq!(e.catalog.page(u64::MAX, 2), (Vec::new(), None));
        assert!(e.find("c").is_none() && e.has("c"));
        assert_eq!(e.catalog.last(), 6);
        assert_eq!(e.catalog.generation(), 9);
        let ordered: Vec<_> = e.into_ordered().map(|(name, _, shown, _)| (name, shown)).collect();
        let names = [("d", true), ("c", false), ("a", true), ("e", true), ("f", true)];
        assert_eq!(ordered, names.map(|(name, shown)| (name.into(), shown)));
    }
}
