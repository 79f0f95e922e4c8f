//! Entries of one kind, found by name and listed in the order of their registration (TOOL-004).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::hooks::ROOT_SCOPE;

/// The items of a list in the order of their registration.
///
/// Each item gets a number when it is registered and keeps it when it is replaced. No number is used twice. The order
/// therefore survives insertions and removals, and so does a position in it (PAGE-010).
#[derive(Clone)]
pub(super) struct Catalog<T> {
    items: NumberedMap<CatalogItem<T>>,
    last_number: u64,
    /// Number of changes to the visible items.
    generation: u64,
}

#[derive(Clone)]
struct CatalogItem<T> {
    item: T,
    is_enabled: bool,
}

impl<T> Catalog<T> {
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number that was assigned last.
    pub(super) const fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Returns up to `size` visible items with numbers above `after`, and the number of the last one if more follow.
    pub(super) fn page(&self, after: u64, size: usize) -> (Vec<&T>, Option<u64>) {
        let mut shown = self.items.entries_after(after).iter().filter(|(_, item)| item.is_enabled);
        let (mut items, mut last) = (Vec::new(), None);
        for (number, item) in shown.by_ref().take(size) {
            items.push(&item.item);
            last = Some(*number);
        }
        (items, last.filter(|_| shown.next().is_some()))
    }
}

/// Values sorted by number.
///
/// A sorted vector suffices, because numbers only grow and new values go to the end. A tree per stored type would be
/// the largest part of a small program. The values are boxed, so that a removal moves few bytes.
#[derive(Clone)]
struct NumberedMap<V>(Vec<(u64, Box<V>)>);

impl<V> NumberedMap<V> {
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
            Ok(at) => drop(self.0.get_mut(at).map(|entry| entry.1 = value)),
            Err(at) => self.0.insert(at, (number, value)),
        }
    }

    fn remove(&mut self, number: u64) -> Option<V> {
        let at = self.find(number).ok()?;
        Some(*self.0.remove(at).1)
    }

    /// Returns all entries with numbers above `number`.
    fn entries_after(&self, number: u64) -> &[(u64, Box<V>)] {
        let at = self.0.partition_point(|(n, _)| *n <= number);
        self.0.get(at..).unwrap_or_default()
    }
}

/// Parts of an entry that do not appear in the list.
#[derive(Clone)]
pub(super) struct Registration<H, X> {
    pub(super) handler: H,
    /// Data specific to the kind of the entry.
    pub(super) extra: X,
    /// Scope of the hooks that observe its calls.
    pub(super) scope: usize,
}

/// A visible entry, borrowed.
pub(super) struct EntryRef<'a, T, H, X> {
    pub(super) item: &'a T,
    pub(super) handler: &'a H,
    pub(super) extra: &'a X,
    pub(super) scope: usize,
}

/// All entries of one kind.
#[derive(Clone)]
pub(super) struct Entries<T, H, X> {
    pub(super) catalog: Catalog<T>,
    registrations: NumberedMap<Registration<H, X>>,
    numbers: BTreeMap<Box<str>, u64>,
}

impl<T, H, X> Default for Entries<T, H, X> {
    fn default() -> Self {
        let catalog = Catalog { items: NumberedMap(Vec::new()), last_number: 0, generation: 0 };
        Self { catalog, registrations: NumberedMap(Vec::new()), numbers: BTreeMap::new() }
    }
}

impl<T, H, X> Entries<T, H, X> {
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// Adds an entry, or replaces the one with this name; returns its number, and whether it is new.
    ///
    /// `extra` receives the data of the replaced entry.
    pub(super) fn put(
        &mut self,
        name: &str,
        item: T,
        handler: H,
        extra: impl FnOnce(Option<X>) -> X,
    ) -> (u64, bool) {
        let number = self.assign_number(name);
        let old = self.registrations.remove(number);
        let new = old.is_none();
        let (old, scope) = old.map_or((None, ROOT_SCOPE), |old| (Some(old.extra), old.scope));
        self.set(number, item, true, Registration { handler, extra: extra(old), scope });
        (number, new)
    }

    /// Adds an entry of a nested router and returns its number.
    pub(super) fn append(
        &mut self,
        name: &str,
        item: T,
        enabled: bool,
        registration: Registration<H, X>,
    ) -> u64 {
        let number = self.assign_number(name);
        self.set(number, item, enabled, registration);
        number
    }

    fn assign_number(&mut self, name: &str) -> u64 {
        self.numbers.get(name).copied().unwrap_or_else(|| {
            self.catalog.last_number += 1;
            self.numbers.insert(name.into(), self.catalog.last_number);
            self.catalog.last_number
        })
    }

    fn set(&mut self, number: u64, item: T, enabled: bool, registration: Registration<H, X>) {
        self.catalog.items.set(number, CatalogItem { item, is_enabled: enabled });
        self.catalog.generation += 1;
        self.registrations.set(number, registration);
    }

    /// Removes an entry; returns its number, whether it was visible, and its registration.
    pub(super) fn remove(&mut self, name: &str) -> Option<(u64, bool, Registration<H, X>)> {
        let number = self.numbers.remove(name)?;
        self.catalog.generation += 1;
        let item = self.catalog.items.remove(number)?;
        self.registrations.remove(number).map(|registration| (number, item.is_enabled, registration))
    }

    /// Shows or hides an entry; returns whether this changed it, or `None` if there is no such entry.
    pub(super) fn enable(&mut self, name: &str, enabled: bool) -> Option<bool> {
        let item = self.catalog.items.get_mut(*self.numbers.get(name)?)?;
        let changed = item.is_enabled != enabled;
        item.is_enabled = enabled;
        self.catalog.generation += u64::from(changed);
        Some(changed)
    }

    /// Returns the item with this name, hidden or not, and the data of its kind.
    pub(super) fn extra_mut(&mut self, name: &str) -> Option<(&T, &mut X)> {
        let number = *self.numbers.get(name)?;
        let registration = self.registrations.get_mut(number)?;
        Some((&self.catalog.items.get(number)?.item, &mut registration.extra))
    }

    /// Returns the item with this name, hidden or not, to be changed.
    pub(super) fn item_mut(&mut self, name: &str) -> Option<&mut T> {
        let item = self.catalog.items.get_mut(*self.numbers.get(name)?)?;
        self.catalog.generation += 1;
        Some(&mut item.item)
    }

    /// Returns the visible entry with this name.
    pub(super) fn find(&self, name: &str) -> Option<EntryRef<'_, T, H, X>> {
        self.find_by_number(*self.numbers.get(name)?)
    }

    /// Returns the visible entry with this number.
    pub(super) fn find_by_number(&self, number: u64) -> Option<EntryRef<'_, T, H, X>> {
        let item = self.catalog.items.get(number).filter(|item| item.is_enabled)?;
        let registration = self.registrations.get(number)?;
        Some(EntryRef {
            item: &item.item,
            handler: &registration.handler,
            extra: &registration.extra,
            scope: registration.scope,
        })
    }

    /// Returns all names, in no particular order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(|name| &**name)
    }

    /// Returns all items, hidden or not, in order.
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.catalog.items.0.iter().map(|(_, item)| &item.item)
    }

    /// Returns the data of all entries, in order.
    pub(super) fn extras(&self) -> impl Iterator<Item = &X> {
        self.registrations.0.iter().map(|(_, registration)| &registration.extra)
    }

    pub(super) fn extras_mut(&mut self) -> impl Iterator<Item = &mut X> {
        self.registrations.0.iter_mut().map(|(_, registration)| &mut registration.extra)
    }

    /// Returns all entries in order: name, item, whether it is visible, and registration.
    pub(super) fn into_ordered(self) -> impl Iterator<Item = (Box<str>, T, bool, Registration<H, X>)> {
        let mut names: Vec<(u64, Box<str>)> = self.numbers.into_iter().map(|(n, i)| (i, n)).collect();
        names.sort_unstable_by_key(|(number, _)| *number);
        // All three hold the same numbers in the same order, so zipping them is safe.
        let both = self.catalog.items.0.into_iter().zip(self.registrations.0);
        let all = names.into_iter().zip(both);
        all.map(|((_, name), ((_, item), (_, registration)))| {
            (name, item.item, item.is_enabled, *registration)
        })
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
    fn catalog_position_survives_changes() {
        let mut e = Entries::<&str, (), ()>::default();
        for name in ["d", "b", "c", "a", "e"] {
            assert!(e.put(name, name, (), |_| ()).1);
        }
        assert_eq!(e.catalog.page(0, 2), (vec![&"d", &"b"], Some(2)));
        // The entry at the cursor is removed, one behind it is hidden, one is replaced, one is added.
        e.remove("b");
        e.enable("c", false);
        assert_eq!(e.put("a", "a2", (), |_| ()), (4, false));
        e.put("f", "f", (), |_| ());
        assert_eq!(e.catalog.page(2, 2), (vec![&"a2", &"e"], Some(5)));
        assert_eq!(e.catalog.page(5, 2), (vec![&"f"], None));
        assert_eq!(e.catalog.page(u64::MAX, 2), (Vec::new(), None));
        assert!(e.find("c").is_none() && e.contains("c"));
        assert_eq!(e.catalog.last_number(), 6);
        assert_eq!(e.catalog.generation(), 9);
        let ordered: Vec<_> = e.into_ordered().map(|(name, _, shown, _)| (name, shown)).collect();
        let names = [("d", true), ("c", false), ("a", true), ("e", true), ("f", true)];
        assert_eq!(ordered, names.map(|(name, shown)| (name.into(), shown)));
    }
}
