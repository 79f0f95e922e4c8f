//! Completion of a text while it is typed: a pause before each request, and a cache.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use crate::change::Change;
use crate::json::EncodeError;
use crate::model::{CompleteParams, CompleteResult};
use crate::raw::RawJson;
use crate::time::Instant;

/// Decides when the text of an input field is completed, and remembers results.
///
/// A server should not get a request for each keystroke (COMP-010). So a request is due when nothing was typed for
/// [`delay`](Self::delay), and a later keystroke replaces an earlier one, whether it waits or was sent. Results are kept by
/// prompt or template, argument, text and context.
///
/// It is a state machine without I/O: pass each keystroke and each result to it, and send what
/// [`poll_request`](Self::poll_request) returns. Use one for each user whose results differ.
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::Instant;
/// use mcp_proto::client::{Completer, Keystroke};
/// use mcp_proto::model::{CompleteParams, CompleteResult, Completion, CompletionArgument, PromptReference};
///
/// let mut completer = Completer::new();
/// let typed = |text| CompleteParams::new(PromptReference::new("trip"), CompletionArgument::new("to", text));
/// let now = Instant::ZERO;
/// completer.handle_keystroke(now, &typed("C"))?;
/// completer.handle_keystroke(now + Duration::from_millis(50), &typed("Co"))?;
///
/// let now = completer.poll_timeout().expect("a request will be due");
/// let (key, request) = completer.poll_request(now).expect("it is due");
/// assert!(request.as_str().contains(r#""value":"Co""#)); // nothing is sent for "C"
/// let result = CompleteResult::new(Completion::new(vec!["Cobh".into(), "Cork".into()]));
/// assert!(completer.handle_result(now, key, &result)); // it is still wanted
///
/// // The same text again is answered at once.
/// assert!(matches!(completer.handle_keystroke(now, &typed("Co"))?, Keystroke::Known(_)));
/// # Ok::<(), mcp_proto::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Completer {
    delay: Duration,
    time_to_live: Duration,
    max_entries: usize,
    /// Results by encoded parameters; at most `max_entries`.
    entries: BTreeMap<String, CachedCompletion>,
    /// Number of the last keystroke.
    last: u64,
    /// The last keystroke, until its result is known.
    pending: Option<PendingCompletion>,
}

/// A keystroke of a [`Completer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeystrokeKey(u64);

/// Outcome of a keystroke: a known result, or the request for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Keystroke {
    /// The result, from the cache.
    Known(CompleteResult),
    /// A request will be due, unless another key is pressed first.
    Pending(KeystrokeKey),
}

#[derive(Clone, Debug)]
struct CachedCompletion {
    result: CompleteResult,
    expires_at: Instant,
    /// Number of the keystroke that used it last.
    used: u64,
}

#[derive(Clone, Debug)]
struct PendingCompletion {
    params: RawJson,
    /// When the request is due; `None` after it was sent.
    due_at: Option<Instant>,
    /// Whether its result may be kept: no list has changed since it was sent.
    keeps: bool,
}

impl Default for Completer {
    fn default() -> Self {
        Self::new()
    }
}

impl Completer {
    /// Creates a completer without results.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            delay: Duration::from_millis(150),
            time_to_live: Duration::from_secs(60),
            max_entries: 256,
            entries: BTreeMap::new(),
            last: 0,
            pending: None,
        }
    }

    /// Sets the time without a keystroke after which a request is due (default 150 ms).
    #[must_use]
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets for how long a result is used again (default one minute); zero disables the cache.
    #[must_use]
    pub const fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// Sets how many results are kept (default 256); zero disables the cache.
    ///
    /// Reached: the one that was not used for longest is forgotten. A result that takes more than 16 KiB of
    /// memory with its parameters is not kept.
    #[must_use]
    pub const fn max_entries(mut self, max_entries: usize) -> Self {
        self.max_entries = max_entries;
        self
    }

    /// Handles a keystroke, after which the text to complete is that of `params`. It replaces the one before: what was sent for
    /// that is not wanted any more ([`is_current`](Self::is_current)).
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the parameters cannot be encoded. Nothing changes then.
    pub fn handle_keystroke(
        &mut self,
        now: Instant,
        params: &CompleteParams<'_>,
    ) -> Result<Keystroke, EncodeError> {
        let params = RawJson::encode(params)?;
        self.last = self.last.saturating_add(1);
        // An earlier request is not wanted any more, even if the new text is in the cache.
        self.pending = None;
        if let Some(entry) = self.entries.get_mut(params.as_str()) {
            if now < entry.expires_at {
                entry.used = self.last;
                return Ok(Keystroke::Known(entry.result.clone()));
            }
            self.entries.remove(params.as_str());
        }
        let due_at = Some(now + self.delay);
        self.pending = Some(PendingCompletion { params, due_at, keeps: true });
        Ok(Keystroke::Pending(KeystrokeKey(self.last)))
    }

    /// Returns when the next request is due; `None` if none waits.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.pending.as_ref().and_then(|pending| pending.due_at)
    }

    /// Returns the parameters of the request to send now, if one is due. It is returned once.
    pub fn poll_request(&mut self, now: Instant) -> Option<(KeystrokeKey, RawJson)> {
        let pending = self.pending.as_mut()?;
        if pending.due_at.is_none_or(|at| now < at) {
            return None;
        }
        pending.due_at = None;
        // A change before this moment is in the result already.
        pending.keeps = true;
        Some((KeystrokeKey(self.last), pending.params.clone()))
    }

    /// Returns whether no key was pressed since, and the result is not known. Otherwise cancel the request.
    #[must_use]
    pub fn is_current(&self, key: KeystrokeKey) -> bool {
        key.0 == self.last && self.pending.is_some()
    }

    /// Handles a result and keeps it. Returns whether it is wanted: no key was pressed since its request was due.
    pub fn handle_result(&mut self, now: Instant, key: KeystrokeKey, result: &CompleteResult) -> bool {
        if !self.is_current(key) {
            return false;
        }
        let Some(pending) = self.pending.take() else { return false };
        // Many short values, metadata and a long text count, too: the peer chooses them.
        let values = &result.completion.values;
        let meta = result.meta.as_ref().map_or(0, |meta| meta.as_str().len());
        let bytes = values.iter().map(|value| value.len() + size_of::<String>()).sum::<usize>();
        let bytes = bytes + meta + pending.params.as_str().len();
        let keeps = pending.keeps && bytes <= MAX_RESULT_BYTES;
        if keeps && self.max_entries > 0 && !self.time_to_live.is_zero() {
            if self.entries.len() >= self.max_entries {
                self.make_room(now);
            }
            let expires_at = now + self.time_to_live;
            let entry = CachedCompletion { result: result.clone(), expires_at, used: self.last };
            self.entries.insert(pending.params.as_str().into(), entry);
        }
        true
    }

    /// Handles the failure of a request: the same text causes another one.
    pub fn handle_failure(&mut self, key: KeystrokeKey) {
        if self.is_current(key) {
            self.pending = None;
        }
    }

    /// Forgets results after a change of the server's prompts or resources. The result of a request that is under way is not
    /// kept either.
    pub fn handle_change(&mut self, change: &Change) {
        if *change != Change::Tools {
            self.clear();
        }
    }

    /// Forgets all results. The result of a request that is under way is not kept either.
    pub fn clear(&mut self) {
        self.entries.clear();
        if let Some(pending) = &mut self.pending {
            pending.keeps = false;
        }
    }

    /// Removes what has expired, or otherwise what was not used for longest.
    fn make_room(&mut self, now: Instant) {
        self.entries.retain(|_, entry| now < entry.expires_at);
        if self.entries.len() >= self.max_entries {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            if let Some(key) = oldest {
                self.entries.remove(&key);
            }
        }
    }
}

/// Maximum size of a result that is kept, with its parameters, in bytes.
const MAX_RESULT_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use super::*;
    use crate::model::{
        Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference,
    };

    const DELAY: Duration = Duration::from_millis(150);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn typed(text: &str) -> CompleteParams<'_> {
        CompleteParams::new(PromptReference::new("trip"), CompletionArgument::new("to", text))
    }

    fn result(value: &str) -> CompleteResult {
        CompleteResult::new(Completion::new(vec![value.into()]))
    }

    fn press(completer: &mut Completer, now: Instant, params: &CompleteParams<'_>) -> KeystrokeKey {
        match completer.handle_keystroke(now, params).unwrap() {
            Keystroke::Pending(key) => key,
            Keystroke::Known(known) => panic!("known: {known:?}"),
        }
    }

    /// Completes `params` by a request, and returns when it was answered.
    fn complete(completer: &mut Completer, now: Instant, params: &CompleteParams<'_>) -> Instant {
        let key = press(completer, now, params);
        let now = completer.poll_timeout().unwrap();
        assert_eq!(completer.poll_request(now).unwrap().0, key);
        assert!(completer.handle_result(now, key, &result("x")));
        now
    }

    fn is_known(completer: &mut Completer, now: Instant, params: &CompleteParams<'_>) -> bool {
        matches!(completer.handle_keystroke(now, params).unwrap(), Keystroke::Known(_))
    }

    // covers: COMP-010
    #[test]
    fn only_last_of_quick_keystrokes_is_sent() {
        let mut completer = Completer::new();
        for (millis, text) in [(0, "C"), (100, "Co"), (200, "Cor")] {
            press(&mut completer, at(millis), &typed(text));
            assert_eq!(completer.poll_timeout(), Some(at(millis) + DELAY));
            assert!(completer.poll_request(at(millis) + DELAY - Duration::from_micros(1)).is_none());
        }
        let (key, params) = completer.poll_request(at(350)).unwrap();
        assert!(params.as_str().contains(r#""value":"Cor""#), "{params:?}");
        assert_eq!((completer.poll_request(at(999)), completer.poll_timeout()), (None, None));
        assert!(completer.is_current(key));
    }

    #[test]
    fn keystroke_makes_sent_request_unwanted() {
        let mut completer = Completer::new();
        let first = press(&mut completer, at(0), &typed("C"));
        completer.poll_request(at(150)).unwrap();
        let second = press(&mut completer, at(200), &typed("Co"));
        assert!(!completer.is_current(first) && completer.is_current(second));
        // A late result is ignored, and neither it nor a late failure disturbs the request that waits.
        assert!(!completer.handle_result(at(210), first, &result("late")));
        completer.handle_failure(first);
        assert_eq!(completer.poll_timeout(), Some(at(350)));
        // Back to the first text: its result was not taken.
        assert!(!is_known(&mut completer, at(400), &typed("C")));
    }

    #[test]
    fn results_are_kept_by_reference_argument_text_and_context() {
        let mut completer = Completer::new();
        let now = complete(&mut completer, at(0), &typed("C"));
        assert!(is_known(&mut completer, now, &typed("C")));
        assert_eq!(completer.poll_timeout(), None, "nothing is sent for it");
        let argument = |name| CompletionArgument::new(name, "C");
        for other in [
            CompleteParams::new(PromptReference::new("plan"), argument("to")),
            CompleteParams::new(ResourceTemplateReference::new("trip"), argument("to")),
            CompleteParams::new(PromptReference::new("trip"), argument("from")),
            typed("c"),
            typed("C").context(CompletionContext::new().arguments([("from", "Brest".into())])),
        ] {
            assert!(!is_known(&mut completer, now, &other), "{other:?}");
        }
    }

    #[test]
    fn results_expire() {
        let mut completer = Completer::new().time_to_live(Duration::from_secs(1));
        let now = complete(&mut completer, at(0), &typed("C"));
        assert!(is_known(&mut completer, now + Duration::from_millis(999), &typed("C")));
        assert!(!is_known(&mut completer, now + Duration::from_secs(1), &typed("C")));
        assert!(completer.entries.is_empty());
    }

    #[test]
    fn full_cache_forgets_what_was_not_used_for_longest() {
        let mut completer = Completer::new().max_entries(2);
        let now = complete(&mut completer, at(0), &typed("a"));
        let now = complete(&mut completer, now, &typed("b"));
        assert!(is_known(&mut completer, now, &typed("a")));
        let now = complete(&mut completer, now, &typed("c"));
        assert_eq!(completer.entries.len(), 2);
        assert!(is_known(&mut completer, now, &typed("a")) && is_known(&mut completer, now, &typed("c")));
        assert!(!is_known(&mut completer, now, &typed("b")));
        // What expires at this moment goes first, however often it was used.
        let mut completer = Completer::new().max_entries(2).time_to_live(Duration::from_secs(1));
        let first = complete(&mut completer, at(0), &typed("a"));
        complete(&mut completer, first, &typed("b"));
        assert!(is_known(&mut completer, at(900), &typed("a")));
        let end = first + Duration::from_secs(1);
        assert_eq!(complete(&mut completer, end - DELAY, &typed("c")), end);
        assert!(is_known(&mut completer, end, &typed("b")));
        for mut without in [Completer::new().max_entries(0), Completer::new().time_to_live(Duration::ZERO)] {
            let now = complete(&mut without, at(0), &typed("a"));
            assert!(!is_known(&mut without, now, &typed("a")));
        }
    }

    #[test]
    fn change_of_prompts_or_resources_empties_the_cache() {
        let resource = Change::Resource("x://y".into());
        for (change, forgets) in
            [(Change::Prompts, true), (Change::Resources, true), (resource, true), (Change::Tools, false)]
        {
            let mut completer = Completer::new();
            let now = complete(&mut completer, at(0), &typed("a"));
            // A request is under way.
            let key = press(&mut completer, now, &typed("b"));
            let now = now + DELAY;
            completer.poll_request(now).unwrap();
            completer.handle_change(&change);
            assert!(completer.handle_result(now, key, &result("x")), "it is shown, but not kept");
            assert_eq!(is_known(&mut completer, now, &typed("b")), !forgets, "{change:?}");
            assert_eq!(is_known(&mut completer, now, &typed("a")), !forgets, "{change:?}");
        }
        // What changed before the request was sent does not matter.
        let mut completer = Completer::new();
        let key = press(&mut completer, at(0), &typed("b"));
        completer.clear();
        completer.poll_request(at(150)).unwrap();
        assert!(completer.handle_result(at(150), key, &result("x")));
        assert!(is_known(&mut completer, at(150), &typed("b")));
    }

    #[test]
    fn large_result_is_not_kept() {
        let mut completer = Completer::new();
        // The text that was typed, and the memory of one value.
        let key = RawJson::encode(&typed("C")).unwrap();
        let other = key.as_str().len() + size_of::<String>();
        let largest = MAX_RESULT_BYTES - other;
        for (bytes, keeps) in [(largest, true), (largest + 1, false)] {
            completer.clear();
            let key = press(&mut completer, at(0), &typed("C"));
            completer.poll_request(at(150)).unwrap();
            assert!(completer.handle_result(at(150), key, &result(&"x".repeat(bytes))));
            assert_eq!(is_known(&mut completer, at(150), &typed("C")), keeps);
        }
    }

    #[test]
    fn failed_request_is_repeated_for_the_same_text() {
        let mut completer = Completer::new();
        let key = press(&mut completer, at(0), &typed("C"));
        completer.poll_request(at(150)).unwrap();
        completer.handle_failure(key);
        assert!(!completer.is_current(key) && completer.poll_timeout().is_none());
        assert!(!is_known(&mut completer, at(200), &typed("C")));
        assert!(completer.poll_request(at(350)).is_some());
    }

    #[test]
    fn delay_is_that_of_the_application() {
        let mut completer = Completer::new().delay(Duration::from_millis(7));
        press(&mut completer, at(1), &typed("C"));
        assert_eq!(completer.poll_timeout(), Some(at(8)));
    }

    #[test]
    fn large_results_are_not_kept() {
        let params = typed("C");
        let known = RawJson::encode(&params).unwrap();
        let kept = |values: usize, meta: usize| {
            let mut completer = Completer::new();
            let key = press(&mut completer, at(0), &params);
            completer.poll_request(at(150)).unwrap();
            let mut result = result(&"x".repeat(values));
            result.meta = Some(RawJson::new(format!(r#"{{"a":"{}"}}"#, "y".repeat(meta))).unwrap());
            assert!(completer.handle_result(at(150), key, &result));
            is_known(&mut completer, at(150), &params)
        };
        let fixed = known.as_str().len() + size_of::<String>() + r#"{"a":""}"#.len();
        let room = MAX_RESULT_BYTES - fixed;
        assert!(kept(room, 0) && kept(9, room - 9) && !kept(room, 1) && !kept(1, room));
    }
}
