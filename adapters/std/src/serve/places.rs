//! Values by keys that go stale instead of meaning another value

use alloc::vec::Vec;

/// A key is the place of a value, and which of those that stood there it is; never below 2³²
#[derive(Debug)]
pub(super) struct Places<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Places<T> {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> u64 {
        if let Some(place) = self.free.pop() {
            if let Some((turn, free)) = self.places.get_mut(place as usize) {
                *free = Some(value);
                return key(place, *turn);
            }
        }
        let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push((1, Some(value)));
        key(place, 1)
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (place, turn) = split(key);
        self.places.get_mut(place as usize).filter(|(now, _)| *now == turn)?.1.as_mut()
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
        let (place, turn) = split(key);
        let (now, value) = self.places.get_mut(place as usize).filter(|(now, _)| *now == turn)?;
        let value = value.take()?;
        *now = now.wrapping_add(1).max(1);
        self.free.push(place);
        Some(value)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let places = self.places.iter_mut().zip(0..);
        places.filter_map(|((turn, value), place)| Some((key(place, *turn), value.as_mut()?)))
    }
}

fn key(place: u32, turn: u32) -> u64 {
    u64::from(turn) << 32 | u64::from(place)
}

#[expect(clippy::cast_possible_truncation, reason = "it is taken apart")]
const fn split(key: u64) -> (u32, u32) {
    (key as u32, (key >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_stale() {
        let mut places = Places::new();
        let keys: Vec<u64> = (0..3).map(|n| places.insert(n)).collect();
        assert_eq!(places.remove(keys[1]), Some(1));
        assert!(places.remove(keys[1]).is_none() && places.get_mut(keys[1]).is_none());
        assert_eq!(places.len(), 2);
        let next = places.insert(4);
        assert!(next != keys[1] && next as u32 == keys[1] as u32, "the same place");
        assert_eq!(places.get_mut(keys[1]), None);
        assert_eq!(places.get_mut(next), Some(&mut 4));
        assert!(places.get_mut(0).is_none() && places.remove(u64::MAX).is_none());
        assert_eq!(
            places.iter_mut().map(|(key, value)| (key, *value)).collect::<Vec<_>>(),
            [(keys[0], 0), (next, 4), (keys[2], 2)]
        );
    }
}
