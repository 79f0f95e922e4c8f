//! Members of the outermost object that the protocol owns.

use super::scan::object_members;

/// Protocol members found in the outermost object while writing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopLevelMembers {
    /// One bit per member that the protocol owns.
    bits: u8,
    /// Offset in the buffer just behind the opening brace of `_meta`.
    pub(crate) meta: Option<usize>,
}

impl TopLevelMembers {
    /// No member.
    pub(crate) const NONE: Self = Self { bits: 0, meta: None };

    pub(crate) const META: u8 = 1;
    pub(crate) const RESULT_TYPE: u8 = 2;
    pub(crate) const TTL: u8 = 4;
    pub(crate) const SCOPE: u8 = 8;
    pub(crate) const INPUT_RESPONSES: u8 = 16;
    pub(crate) const REQUEST_STATE: u8 = 32;
    pub(crate) const INPUT_REQUESTS: u8 = 64;

    pub(crate) const fn contains(self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// Returns the members except one, which the protocol allows here.
    pub(crate) const fn without(mut self, bit: u8) -> Self {
        self.bits &= !bit;
        self
    }

    pub(super) fn record(&mut self, name: &[u8]) {
        self.bits |= match name {
            b"_meta" => Self::META,
            b"resultType" => Self::RESULT_TYPE,
            b"ttlMs" => Self::TTL,
            b"cacheScope" => Self::SCOPE,
            b"inputResponses" => Self::INPUT_RESPONSES,
            b"requestState" => Self::REQUEST_STATE,
            b"inputRequests" => Self::INPUT_REQUESTS,
            _ => 0,
        };
    }

    /// Returns the same for an object that is `by` bytes further behind.
    pub(crate) const fn shifted(self, by: usize) -> Self {
        let meta = match self.meta {
            Some(at) => Some(at + by),
            None => None,
        };
        Self { meta, ..self }
    }

    /// Scans an object that was written before; `at` is its offset in the buffer.
    pub(crate) fn scan(text: &[u8], at: usize) -> Self {
        let mut found = Self::NONE;
        object_members(text, |name, value| {
            found.record(name);
            if name == b"_meta" && value.first() == Some(&b'{') {
                // Both slices are parts of `text`, so the difference of their addresses is an offset.
                found.meta = Some(at + (value.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize) + 1);
            }
        });
        found
    }
}
