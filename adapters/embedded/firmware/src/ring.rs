//! A ring of bytes between an interrupt and the loop.

/// A queue of at most `N` bytes, oldest first.
pub struct Ring<const N: usize> {
    bytes: [u8; N],
    first: usize,
    len: usize,
}

impl<const N: usize> Ring<N> {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        Self { bytes: [0; N], first: 0, len: 0 }
    }

    /// Returns whether there is no byte.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether there is no room.
    pub const fn is_full(&self) -> bool {
        self.len == N
    }

    /// Appends a byte. Returns whether there was room.
    pub fn push(&mut self, byte: u8) -> bool {
        let has_room = !self.is_full();
        if let Some(place) = self.bytes.get_mut((self.first + self.len) % N).filter(|_| has_room) {
            *place = byte;
            self.len += 1;
        }
        has_room
    }

    /// Puts back the byte that was just removed.
    pub fn restore(&mut self, byte: u8) {
        self.first = (self.first + N - 1) % N;
        if let Some(place) = self.bytes.get_mut(self.first) {
            *place = byte;
            self.len += 1;
        }
    }

    /// Removes the oldest byte.
    pub fn pop(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.first).copied().filter(|_| !self.is_empty())?;
        self.first = (self.first + 1) % N;
        self.len -= 1;
        Some(byte)
    }
}
