//! Entries of one kind, found by name and listed in the order of their registration (TOOL-004).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, btree_map};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use super::hooks::ROOT_SCOPE;
use super::pending::{Listed, PendingChanges};
use super::registry::NumberIndex;
use super::visibility::{Listing, OwnedSubject, Rule};
use crate::server::Audience;
use crate::slab::{Key, Slab};

/// The items of a list in the order of their registration.
///
/// Each item gets a number when it is registered and keeps it when it is replaced. No number is used twice. The order
/// therefore survives insertions and removals, and so does a position in it (PAGE-010).
///
/// Invariant: `order` holds exactly the numbers and keys of `items`.
#[derive(Clone)]
pub(super) struct Catalog<T> {
    items: Slab<Box<CatalogItem<T>>>,
    order: NumberIndex,
    last_number: u64,
    /// Number of changes to the visible items.
    generation: u64,
    /// The changes that were not announced yet.
    pending: PendingChanges,
    /// Whether an entry had a visibility function of its own.
    has_entry_rules: bool,
}

#[derive(Clone)]
struct CatalogItem<T> {
    number: u64,
    item: T,
    listing: Listing,
}

impl<T: Listed> CatalogItem<T> {
    /// Returns who sees the item, and its name; `None` if it is hidden from all.
    fn listed(&self) -> Option<(Listing, OwnedSubject)> {
        let subject = self.listing.is_enabled.then(|| OwnedSubject::new(self.item.subject()))??;
        Some((self.listing.clone(), subject))
    }
}

impl<T> Catalog<T> {
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number that was assigned last.
    pub(super) const fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Returns whether an entry had a visibility function of its own.
    pub(super) const fn has_entry_rules(&self) -> bool {
        self.has_entry_rules
    }

    /// Returns whether the list has changed, for any client, since the changes were announced.
    pub(super) fn has_changed(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Counts a change of what the list shows to some clients.
    pub(super) fn mark_changed(&mut self) {
        self.generation += 1;
        self.pending.add_all();
    }

    /// Adds an item at the end.
    fn push(&mut self, item: T, listing: Listing) -> Key {
        self.generation += 1;
        self.last_number += 1;
        let number = self.last_number;
        self.pending.add(number, || None);
        self.has_entry_rules |= !listing.visible_to.is_empty();
        let key = self.items.insert(Box::new(CatalogItem { number, item, listing }));
        self.order.push(number, key);
        key
    }

    /// Returns all items with numbers above `after`, in order.
    fn items_after(&self, after: u64) -> impl Iterator<Item = &CatalogItem<T>> {
        self.order.keys_after(after).filter_map(|key| self.items.get(key).map(|item| &**item))
    }

    /// Returns the enabled items with numbers above `after`, in order, with their numbers.
    pub(super) fn enabled_after(&self, after: u64) -> impl Iterator<Item = (u64, &T)> {
        self.items_after(after).filter(|item| item.listing.is_enabled).map(|item| (item.number, &item.item))
    }

    /// Returns up to `size` visible items with numbers above `after`, and the number of the last one if more follow.
    ///
    /// `is_visible` is asked at most once about each enabled item.
    pub(super) fn page(
        &self,
        after: u64,
        size: usize,
        mut is_visible: impl FnMut(&Listing, &T) -> bool,
    ) -> (Vec<&T>, Option<u64>) {
        let enabled = self.items_after(after).filter(|item| item.listing.is_enabled);
        let mut shown = enabled.filter(|item| is_visible(&item.listing, &item.item));
        let (mut items, mut last) = (Vec::new(), None);
        for item in shown.by_ref().take(size) {
            items.push(&item.item);
            last = Some(item.number);
        }
        // A cursor only if this caller sees one more entry.
        (items, last.filter(|_| shown.next().is_some()))
    }
}

impl<T: Listed> Catalog<T> {
    /// Returns who gets to know of the changes since the last call; `audience` tells who sees an entry.
    ///
    /// These are the callers who saw a changed entry before, or see it now.
    pub(super) fn take_audience(
        &mut self,
        audience: impl Fn(&Listing, &OwnedSubject) -> Audience,
    ) -> Audience {
        let pending = core::mem::take(&mut self.pending);
        let Some(changes) = pending.into_entries() else { return Audience::EVERYONE };
        let mut all = Audience::NOBODY;
        for (number, before) in changes {
            let item = self.order.find(number).and_then(|key| self.items.get(key));
            // Those who saw the entry before the change, and those who see it now (DESIGN-54).
            for (listing, subject) in before.into_iter().chain(item.and_then(|item| item.listed())) {
                all.merge(&audience(&listing, &subject));
            }
        }
        all
    }
}

/// Parts of an entry that do not appear in the list.
#[derive(Clone)]
pub(super) struct Registration<H, X> {
    pub(super) handler: H,
    /// Data specific to the kind of the entry.
    pub(super) extra: X,
    /// Scope of the hooks that observe its calls. An entry that is registered again under its name keeps it, and the rules.
    pub(super) hook_scope: usize,
    /// Conditions of its calls.
    pub(super) rules: CallRules,
}

/// Conditions of the calls of an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct CallRules {
    /// Scopes that the token of a call needs.
    pub(super) required_scopes: Vec<Box<str>>,
    /// Whether the handler of a tool decides when a call becomes a task.
    pub(super) defers_task: bool,
    /// Whether a call of a tool may run again.
    pub(super) is_repeatable: bool,
}

/// An enabled entry, borrowed.
pub(super) struct EntryRef<'a, T, H, X> {
    pub(super) item: &'a T,
    pub(super) handler: &'a H,
    pub(super) extra: &'a X,
    pub(super) listing: &'a Listing,
    pub(super) hook_scope: usize,
    pub(super) rules: &'a CallRules,
}

/// An entry, hidden or not, and who may use it.
pub(super) struct EntryAccess<'a, T> {
    pub(super) number: u64,
    pub(super) item: &'a T,
    pub(super) listing: &'a Listing,
    pub(super) required_scopes: &'a [Box<str>],
}

/// The parts of an entry that can be changed after its registration.
pub(super) struct EntryMut<'a, T> {
    pub(super) item: &'a mut T,
    pub(super) rules: &'a mut CallRules,
    listing: &'a mut Listing,
    has_entry_rules: &'a mut bool,
}

impl<T> EntryMut<'_, T> {
    /// Adds a visibility function.
    pub(super) fn add_rule(&mut self, rule: Rule) {
        self.listing.visible_to.push(rule);
        *self.has_entry_rules = true;
    }
}

/// The parts of an entry that was removed.
pub(super) struct RemovedEntry<T, H, X> {
    pub(super) number: u64,
    pub(super) item: T,
    pub(super) listing: Listing,
    pub(super) registration: Registration<H, X>,
}

impl<T, H, X> RemovedEntry<T, H, X> {
    /// Returns who saw the entry, and the scope of its hooks.
    pub(super) fn into_scopes(self) -> (Listing, usize) {
        (self.listing, self.registration.hook_scope)
    }
}

/// All entries of one kind.
///
/// Invariant: `keys` holds the names of exactly the items of `catalog`, and `registrations` their other parts, by slot.
#[derive(Clone)]
pub(super) struct Entries<T, H, X> {
    pub(super) catalog: Catalog<T>,
    registrations: Vec<Option<Registration<H, X>>>,
    keys: BTreeMap<Box<str>, Key>,
}

impl<T, H, X> Default for Entries<T, H, X> {
    fn default() -> Self {
        let catalog = Catalog {
            items: Slab::new(),
            order: NumberIndex::default(),
            last_number: 0,
            generation: 0,
            pending: PendingChanges::default(),
            has_entry_rules: false,
        };
        Self { catalog, registrations: Vec::new(), keys: BTreeMap::new() }
    }
}

impl<T: Listed, H, X> Entries<T, H, X> {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.keys.contains_key(name)
    }

    /// Adds an entry, or replaces the one with this name; returns its number, and whether it is new.
    ///
    /// `extra` receives the data of the replaced entry.
    pub(super) fn put(
        &mut self,
        name: Box<str>,
        item: T,
        handler: H,
        extra: impl FnOnce(Option<X>) -> X,
    ) -> (u64, bool) {
        let (key, is_new) = match self.keys.entry(name) {
            btree_map::Entry::Vacant(place) => {
                (*place.insert(self.catalog.push(item, Listing::default())), true)
            }
            btree_map::Entry::Occupied(place) => {
                let key = *place.get();
                if let Some(old) = self.catalog.items.get_mut(key) {
                    // Before the item is replaced: those who saw the old one are told, too.
                    self.catalog.pending.add(old.number, || old.listed());
                    (old.item, old.listing.is_enabled) = (item, true);
                    self.catalog.generation += 1;
                }
                (key, false)
            }
        };
        let old = self.take_registration(key);
        let (old, hook_scope, rules) = match old {
            Some(old) => (Some(old.extra), old.hook_scope, old.rules),
            None => (None, ROOT_SCOPE, CallRules::default()),
        };
        self.set_registration(key, Registration { handler, extra: extra(old), hook_scope, rules });
        (self.catalog.items.get(key).map_or(0, |item| item.number), is_new)
    }

    /// Adds an entry under a new name.
    fn append(&mut self, name: Box<str>, item: T, listing: Listing, registration: Registration<H, X>) {
        let key = self.catalog.push(item, listing);
        self.keys.insert(name, key);
        self.set_registration(key, registration);
    }

    /// Moves the entries of a nested router behind these; `bases` are the offsets of its scopes of hooks and of visibility.
    ///
    /// `rename` returns the name that an entry has here, with this number. Returns whether there were any.
    pub(super) fn adopt(
        &mut self,
        inner: Self,
        bases: (usize, usize),
        mut rename: impl FnMut(Box<str>, &mut T, &X, u64) -> Box<str>,
    ) -> bool {
        let has_entries = !inner.is_empty();
        for (name, mut item, mut listing, mut registration) in inner.into_ordered() {
            registration.hook_scope += bases.0;
            listing.scope += bases.1;
            let name = rename(name, &mut item, &registration.extra, self.catalog.last_number + 1);
            self.append(name, item, listing, registration);
        }
        has_entries
    }

    fn set_registration(&mut self, key: Key, registration: Registration<H, X>) {
        match self.registrations.get_mut(key.slot as usize) {
            Some(slot) => *slot = Some(registration),
            None => self.registrations.push(Some(registration)),
        }
    }

    fn take_registration(&mut self, key: Key) -> Option<Registration<H, X>> {
        self.registrations.get_mut(key.slot as usize)?.take()
    }

    /// Removes an entry and returns its parts.
    pub(super) fn remove(&mut self, name: &str) -> Option<RemovedEntry<T, H, X>> {
        let key = self.keys.remove(name)?;
        self.catalog.generation += 1;
        let item = self.catalog.items.remove(key)?;
        self.catalog.pending.add_removed(item.number, || item.listed());
        self.catalog.order.remove(item.number);
        let registration = self.take_registration(key)?;
        let CatalogItem { number, item, listing } = *item;
        Some(RemovedEntry { number, item, listing, registration })
    }

    /// Shows or hides an entry; returns whether this changed it, or `None` if there is no such entry.
    pub(super) fn enable(&mut self, name: &str, enabled: bool) -> Option<bool> {
        let item = self.catalog.items.get_mut(*self.keys.get(name)?)?;
        let changed = item.listing.is_enabled != enabled;
        if changed {
            self.catalog.pending.add(item.number, || item.listed());
            item.listing.is_enabled = enabled;
            self.catalog.generation += 1;
        }
        Some(changed)
    }

    /// Returns the item with this name, hidden or not.
    pub(super) fn item(&self, name: &str) -> Option<&T> {
        self.catalog.items.get(*self.keys.get(name)?).map(|item| &item.item)
    }

    /// Returns the item with this name, hidden or not, and the data of its kind.
    pub(super) fn extra_mut(&mut self, name: &str) -> Option<(&T, &mut X)> {
        let key = *self.keys.get(name)?;
        let registration = self.registrations.get_mut(key.slot as usize)?.as_mut()?;
        Some((&self.catalog.items.get(key)?.item, &mut registration.extra))
    }

    /// Returns the entry with this name, hidden or not, to be changed.
    pub(super) fn entry_mut(&mut self, name: &str) -> Option<EntryMut<'_, T>> {
        let key = *self.keys.get(name)?;
        let item = self.catalog.items.get_mut(key)?;
        let registration = self.registrations.get_mut(key.slot as usize)?.as_mut()?;
        // Counted in advance, because the caller changes the entry by the reference.
        self.catalog.generation += 1;
        self.catalog.pending.add(item.number, || item.listed());
        Some(EntryMut {
            item: &mut item.item,
            rules: &mut registration.rules,
            listing: &mut item.listing,
            has_entry_rules: &mut self.catalog.has_entry_rules,
        })
    }

    /// Returns the scope of the hooks of the entry with this name, hidden or not.
    pub(super) fn hook_scope_mut(&mut self, name: &str) -> Option<&mut usize> {
        let key = *self.keys.get(name)?;
        Some(&mut self.registrations.get_mut(key.slot as usize)?.as_mut()?.hook_scope)
    }

    /// Returns the enabled entry with this name.
    pub(super) fn find(&self, name: &str) -> Option<EntryRef<'_, T, H, X>> {
        self.find_by_key(*self.keys.get(name)?)
    }

    /// Returns the enabled entries in the order of their names, from the name `from`.
    pub(super) fn enabled_from<'e>(
        &'e self,
        from: &str,
    ) -> impl Iterator<Item = (&'e str, EntryRef<'e, T, H, X>)> + use<'e, T, H, X> {
        let range = (Bound::Included(from), Bound::Unbounded);
        self.keys.range::<str, _>(range).filter_map(|(name, key)| Some((&**name, self.find_by_key(*key)?)))
    }

    /// Returns the enabled entry with this number.
    pub(super) fn find_by_number(&self, number: u64) -> Option<EntryRef<'_, T, H, X>> {
        self.find_by_key(self.catalog.order.find(number)?)
    }

    fn find_by_key(&self, key: Key) -> Option<EntryRef<'_, T, H, X>> {
        let item = self.catalog.items.get(key).filter(|item| item.listing.is_enabled)?;
        let registration = self.registrations.get(key.slot as usize)?.as_ref()?;
        Some(EntryRef {
            item: &item.item,
            handler: &registration.handler,
            extra: &registration.extra,
            listing: &item.listing,
            hook_scope: registration.hook_scope,
            rules: &registration.rules,
        })
    }

    /// Returns every entry with its name, in no particular order.
    pub(super) fn access(&self) -> impl Iterator<Item = (&str, EntryAccess<'_, T>)> {
        self.keys.iter().filter_map(|(name, key)| {
            let registration = self.registrations.get(key.slot as usize)?.as_ref()?;
            let CatalogItem { number, item, listing } = &**self.catalog.items.get(*key)?;
            let required_scopes = &*registration.rules.required_scopes;
            Some((&**name, EntryAccess { number: *number, item, listing, required_scopes }))
        })
    }

    /// Returns the data of the entry with this name, hidden or not.
    pub(super) fn extra(&self, name: &str) -> Option<&X> {
        let key = self.keys.get(name)?;
        Some(&self.registrations.get(key.slot as usize)?.as_ref()?.extra)
    }

    /// Returns all names, in no particular order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(|name| &**name)
    }

    /// Returns all items, hidden or not, in order.
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.catalog.items_after(0).map(|item| &item.item)
    }

    /// Returns the names of the entries whose calls may run again, hidden or not.
    pub(super) fn repeatable(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter_map(|(name, key)| {
            let registration = self.registrations.get(key.slot as usize)?.as_ref()?;
            registration.rules.is_repeatable.then_some(&**name)
        })
    }

    /// Returns the data of all entries, in no particular order.
    pub(super) fn extras(&self) -> impl Iterator<Item = &X> {
        self.registrations.iter().flatten().map(|registration| &registration.extra)
    }

    /// Returns the data of all entries, in no particular order.
    pub(super) fn extras_mut(&mut self) -> impl Iterator<Item = &mut X> {
        self.registrations.iter_mut().flatten().map(|registration| &mut registration.extra)
    }

    /// Replaces the data of all entries, or of none if `extra` returns an error for an item, hidden or not.
    pub(super) fn try_replace_extras<E>(&mut self, extra: impl Fn(&T) -> Result<X, E>) -> Result<(), E> {
        let keys: Vec<Key> = self.catalog.order.keys_after(0).collect();
        // All are made before the first one is replaced: an error changes nothing.
        let extras: Vec<X> = self.items().map(extra).collect::<Result<_, _>>()?;
        for (key, extra) in keys.into_iter().zip(extras) {
            if let Some(Some(registration)) = self.registrations.get_mut(key.slot as usize) {
                registration.extra = extra;
            }
        }
        Ok(())
    }

    /// Returns all entries in order: name, item, listing, and registration.
    fn into_ordered(mut self) -> impl Iterator<Item = (Box<str>, T, Listing, Registration<H, X>)> {
        let number = |key: Key| self.catalog.items.get(key).map_or(0, |item| item.number);
        let keys = core::mem::take(&mut self.keys).into_iter();
        let mut names: Vec<(u64, Key, Box<str>)> = keys.map(|(name, key)| (number(key), key, name)).collect();
        names.sort_unstable_by_key(|(number, ..)| *number);
        names.into_iter().filter_map(move |(_, key, name)| {
            let item = *self.catalog.items.remove(key)?;
            Some((name, item.item, item.listing, self.take_registration(key)?))
        })
    }
}

impl<T: Listed, H, X> fmt::Debug for Entries<T, H, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Subject;
    use alloc::vec;

    impl Listed for &str {
        fn subject(&self) -> Subject<'_> {
            Subject::Tool(self)
        }
    }

    // covers: TOOL-004, PAGE-010
    #[test]
    fn catalog_position_survives_changes() {
        let mut e = Entries::<&str, (), ()>::default();
        for name in ["d", "b", "c", "a", "e"] {
            assert!(e.put(name.into(), name, (), |_| ()).1);
        }
        assert_eq!(e.catalog.page(0, 2, |_, _| true), (vec![&"d", &"b"], Some(2)));
        // The entry at the cursor is removed, one behind it is hidden, one is replaced, one is added.
        e.remove("b");
        e.enable("c", false);
        assert_eq!(e.put("a".into(), "a2", (), |_| ()), (4, false));
        e.put("f".into(), "f", (), |_| ());
        assert_eq!(e.catalog.page(2, 2, |_, _| true), (vec![&"a2", &"e"], Some(5)));
        assert_eq!(e.catalog.page(5, 2, |_, _| true), (vec![&"f"], None));
        assert_eq!(e.catalog.page(u64::MAX, 2, |_, _| true), (Vec::new(), None));
        assert!(e.find("c").is_none() && e.contains("c"));
        assert_eq!(e.catalog.last_number(), 6);
        assert_eq!(e.catalog.generation(), 9);
        let ordered: Vec<_> =
            e.into_ordered().map(|(name, _, listing, _)| (name, listing.is_enabled)).collect();
        let names = [("d", true), ("c", false), ("a", true), ("e", true), ("f", true)];
        assert_eq!(ordered, names.map(|(name, shown)| (name.into(), shown)));
    }
}
