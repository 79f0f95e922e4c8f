//! Budget for stored bytes, charged by allocation.

/// A number of bytes that may still be stored.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: usize,
}

impl Budget {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, used: 0 }
    }

    /// Charges `bytes` to the budget; returns false and charges nothing if they do not fit.
    pub(crate) const fn charge(&mut self, bytes: usize) -> bool {
        match self.used.checked_add(bytes) {
            Some(total) if total <= self.limit => {
                self.used = total;
                true
            }
            _ => false,
        }
    }

    /// Charges `bytes` to the budget even if they do not fit.
    pub(crate) const fn overdraw(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
    }

    pub(crate) const fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    pub(crate) const fn is_spent(&self) -> bool {
        self.used >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_refuses_excess_and_releases() {
        let mut b = Budget::new(10);
        assert!(b.charge(8) && !b.charge(3) && !b.charge(usize::MAX) && b.charge(2));
        b.release(4);
        assert!(b.charge(4) && b.is_spent());
    }
}
