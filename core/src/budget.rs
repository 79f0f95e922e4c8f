//! A bound on bytes that are kept: what is charged is what was allocated.

/// Bytes that may still be kept
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: usize,
}

impl Budget {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, used: 0 }
    }

    /// Takes `bytes` out of the budget; false, and nothing taken, when they are not there
    pub(crate) const fn charge(&mut self, bytes: usize) -> bool {
        match self.used.checked_add(bytes) {
            Some(total) if total <= self.limit => {
                self.used = total;
                true
            }
            _ => false,
        }
    }

    /// Takes `bytes` out of the budget even if they are not there
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
    fn refuses_what_does_not_fit_and_takes_back() {
        let mut b = Budget::new(10);
        assert!(b.charge(8) && !b.charge(3) && !b.charge(usize::MAX) && b.charge(2));
        b.release(4);
        assert!(b.charge(4) && b.is_spent());
    }
}
