//! Ids of tasks of this side, in Base64.

use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::entropy::Entropy;
use crate::model::TaskId;

/// The bits of a task id. `Debug` omits them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskBits(pub(crate) [u8; 16]);

/// Number of characters of a task id.
pub(crate) const ID_LEN: usize = 22;

impl core::fmt::Debug for TaskBits {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TaskBits(…)")
    }
}

impl TaskBits {
    /// Returns the id as text: 22 characters of URL-safe Base64.
    pub(crate) fn text(self) -> [u8; ID_LEN] {
        let mut text = [0; ID_LEN];
        // 16 bytes are 22 characters.
        let _ = URL_SAFE_NO_PAD.encode_slice(self.0, &mut text);
        text
    }

    /// Returns the id.
    pub(crate) fn id(self) -> TaskId {
        TaskId::new(ascii(&self.text()))
    }

    /// Parses an id; `None` if it is not one of this side.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut bits = [0; 16];
        // The text is that of a peer: one of another length is not decoded at all.
        let written = match text.len() {
            // The decoder refuses bits beyond the 16 bytes, so each id has one spelling.
            ID_LEN => URL_SAFE_NO_PAD.decode_slice(text, &mut bits).ok()?,
            _ => return None,
        };
        (written == bits.len()).then_some(Self(bits))
    }
}

/// Draws ids of tasks, 128 bits each (TASK-035, TASK-131). One draw gives two.
#[derive(Clone, Debug)]
pub(crate) struct TaskIds {
    entropy: Entropy,
    spare: Option<TaskBits>,
}

impl TaskIds {
    pub(crate) const fn new(entropy: Entropy) -> Self {
        Self { entropy, spare: None }
    }

    pub(crate) fn draw(&mut self) -> TaskBits {
        if let Some(id) = self.spare.take() {
            return id;
        }
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes);
        let (mut first, mut second) = ([0; 16], [0; 16]);
        let (low, high) = bytes.split_at(16);
        first.copy_from_slice(low);
        second.copy_from_slice(high);
        self.spare = Some(TaskBits(second));
        TaskBits(first)
    }
}

/// Returns a text of ASCII characters as `str`.
pub(crate) fn ascii(text: &[u8]) -> &str {
    core::str::from_utf8(text).unwrap_or_default()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-012, TASK-131
    #[test]
    fn ids_are_22_characters_and_other_spellings_are_none() {
        let bits = TaskBits([0xfb; 16]);
        let text = bits.text();
        assert_eq!(&text, b"-_v7-_v7-_v7-_v7-_v7-w");
        assert_eq!(TaskBits::parse(&text), Some(bits));
        assert_eq!(alloc::format!("{bits:?}"), "TaskBits(…)", "an id is a secret");
        for wrong in
            [&b""[..], b"-_v7-_v7-_v7-_v7-_v7-x", b"-_v7-_v7-_v7-_v7-_v7-w=", b"+/v7-_v7-_v7-_v7-_v7-w"]
        {
            assert_eq!(TaskBits::parse(wrong), None);
        }
    }
}
