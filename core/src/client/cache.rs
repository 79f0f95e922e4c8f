//! Answers that may be given again: pages of lists and contents of resources, for as long as their server says.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use serde::Serialize;

use super::config::Config;
use super::event::Peer;
use crate::change::Change;
use crate::json::object_members;
use crate::raw::RawJson;
use crate::time::Instant;
use crate::vocab::{self, Kind};

/// Results that need not be asked for again yet (CACHE-005, CACHE-006)
///
/// Apart from the engine, which knows nothing of it: whoever makes calls looks into it [first](Self::get), asks for a
/// [`ticket`](Self::ticket) if there is nothing, makes the call, [puts](Self::put) the result in, and passes every
/// notification of the server [on](Self::notice). One cache may serve several connections, to several servers and for
/// several principals, if all of them count time from one epoch.
///
/// What is kept is what the server allows: a modern result for its `ttlMs`, for its principal alone unless `cacheScope`
/// says `public` (CACHE-012, CACHE-013); a legacy one, which says nothing of the kind, only if
/// [asked for](Asker::keep_legacy). News from the server end it at once (CACHE-014), even while a result is on its way.
/// Nothing is given out beyond its time, whatever happens. Of a call in which the server asked for input first, no result
/// is to be put in (CACHE-011).
///
/// Bounded in entries and bytes: what has expired goes first, then what was not used for longest.
#[derive(Debug)]
pub struct Cache {
    entries: BTreeMap<Key, Entry>,
    max_entries: usize,
    max_bytes: usize,
    /// Cost of all entries
    bytes: usize,
    /// Counts looks and entries
    clock: u64,
    /// How often something was declared outdated
    told: u64,
    /// The latest of those, the last one being number `told`
    news: VecDeque<(Arc<str>, News)>,
}

/// An entry: the server comes first, so that those of one server stand together
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    server: Arc<str>,
    question: Question,
    manner: Arc<str>,
    /// None for anybody
    principal: Option<Arc<str>>,
}

#[derive(Debug)]
struct Entry {
    result: RawJson,
    until: Instant,
    used: u64,
    cost: usize,
}

/// What is outdated
#[derive(Clone, PartialEq, Eq, Debug)]
enum News {
    List(Kind),
    /// A resource, or what it is a part of (RES-013)
    Resource(String),
    Resources,
    All,
}

impl News {
    fn concern(&self, question: &Question) -> bool {
        match (self, question) {
            (Self::All, _) | (Self::Resources, Question::Read(_)) => true,
            (Self::List(kind), Question::List(other, _)) => kind == other,
            (Self::Resource(changed), Question::Read(uri)) => changed.starts_with(&**uri),
            _ => false,
        }
    }
}

/// A request whose result may be kept: all of it that the result depends on (CACHE-010)
///
/// Equal requests are equal questions, however their parameters are spelt.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Question {
    /// A page of a list, by its cursor
    List(Kind, Option<String>),
    /// The contents of a resource, by its URI
    Read(String),
}

impl Question {
    /// What a request asks; none if its result is never kept
    ///
    /// Results of other methods are not, nor those of requests with parameters that are not known here; answers to what
    /// the server asked for and its state, for instance (CACHE-004, CACHE-011). `_meta` does not matter (CACHE-020).
    #[must_use]
    pub fn of<T: Serialize + ?Sized>(method: &str, params: &T) -> Option<Self> {
        let list = Kind::ALL.into_iter().find(|kind| kind.list() == method);
        let name: &[u8] = match list {
            Some(_) => b"cursor",
            None if method == vocab::RESOURCES_READ => b"uri",
            None => return None,
        };
        let params = RawJson::encode(params).ok().filter(RawJson::is_object)?;
        let (mut value, mut known) = (None, true);
        object_members(params.as_bytes(), |member, text| match member {
            member if member == name => value = Some(serde_json::from_slice::<String>(text)),
            b"_meta" => {}
            _ => known = false,
        });
        let value = value.transpose().ok().filter(|_| known)?;
        match list {
            Some(kind) => Some(Self::List(kind, value)),
            None => value.map(Self::Read),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::List(_, cursor) => cursor.as_ref().map_or(0, String::len),
            Self::Read(uri) => uri.len(),
        }
    }
}

/// Who asks whom, and how: results of different ones are kept apart (CACHE-012, CACHE-020)
#[derive(Clone, Debug)]
pub struct Asker {
    server: Arc<str>,
    /// Revision, identity and capabilities of the client, as they stand in its requests
    manner: Arc<str>,
    principal: Arc<str>,
    /// How long lists are kept that do not say it themselves
    unsaid: Option<Duration>,
    says: bool,
}

impl Asker {
    /// A connection to `server`, on behalf of `principal`
    ///
    /// `server` is the name by which the application knows it: an address or a command line. What servers say of
    /// themselves is part of the key as well, but by itself would let one server answer for another. `principal` is
    /// whose authorization the requests carry, in a spelling of the application's; empty where there is none. Where one
    /// connection has a cache for itself, both may be empty.
    #[must_use]
    pub fn new(config: &Config, peer: &Peer, server: &str, principal: &str) -> Self {
        let version = peer.version;
        let info = peer.info.as_ref().map_or("", RawJson::as_str);
        let stamp = String::from_utf8_lossy(&config.stamp);
        Self {
            // Lengths keep the parts apart.
            server: format!("{} {server}{info}", server.len()).into(),
            manner: format!("{version} {stamp}").into(),
            principal: principal.into(),
            unsaid: None,
            says: peer.hints_at_caching(),
        }
    }

    /// Keeps lists of legacy servers too, until news of them come or `time` has passed
    ///
    /// Legacy revisions have no word on caching, and a server that does not declare `listChanged` sends no news either:
    /// what is kept is then as old as `time` at most. Contents of resources are not kept.
    #[must_use]
    pub const fn keep_legacy(mut self, time: Duration) -> Self {
        self.unsaid = Some(time);
        self
    }

    /// How long a result may be kept, and whether for anybody
    fn terms(&self, question: &Question, result: &RawJson) -> (Duration, bool) {
        if !self.says {
            let list = matches!(question, Question::List(..));
            return (self.unsaid.filter(|_| list).unwrap_or(Duration::ZERO), false);
        }
        let is_complete = result.member("resultType").is_none_or(|kind| kind.as_bytes() == b"\"complete\"");
        let ttl = result.member("ttlMs").filter(|_| is_complete).map_or(0, |ttl| millis(&ttl));
        let public = result.member("cacheScope").is_some_and(|scope| scope.as_bytes() == b"\"public\"");
        (Duration::from_millis(ttl), public)
    }
}

/// A number of milliseconds; what is none, or negative, counts as 0 (CACHE-002, CACHE-006)
fn millis(number: &RawJson) -> u64 {
    if let Ok(millis) = number.parse::<u64>() {
        return millis;
    }
    // Some peers write integers as floats (DEC-013); beyond the range, for ever is as good.
    let float = number.parse::<f64>().unwrap_or(0.0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating is what is wanted"
    )]
    let whole = float as u64;
    if whole == u64::MAX || whole as f64 == float { whole } else { 0 }
}

/// Leave to put the result of one request, made now, into the cache
#[derive(Clone, Debug)]
pub struct Ticket {
    asker: Asker,
    question: Question,
    /// What was known to be outdated when the request was made
    told: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Entries that [`new`](Self::new) allows
    pub const ENTRIES: usize = 256;
    /// Bytes that [`new`](Self::new) allows
    pub const BYTES: usize = 4 << 20;
    /// News that are remembered for results on their way
    const NEWS: usize = 64;
    /// Bytes of a URI in them; news of a longer one count for all resources
    const URI: usize = 2 << 10;
    /// What an entry costs besides its texts
    const OVERHEAD: usize = 256;

    /// An empty one of the default size
    #[must_use]
    pub const fn new() -> Self {
        Self::with_limits(Self::ENTRIES, Self::BYTES)
    }

    /// An empty one that keeps so many results at most, and so many bytes of results, questions and bookkeeping
    #[must_use]
    pub const fn with_limits(entries: usize, bytes: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            max_entries: entries,
            max_bytes: bytes,
            bytes: 0,
            clock: 0,
            told: 0,
            news: VecDeque::new(),
        }
    }

    /// How many results are kept
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The result for a question, if one is kept and fresh
    pub fn get(&mut self, now: Instant, asker: &Asker, question: &Question) -> Option<RawJson> {
        self.clock += 1;
        for key in keys(asker, question) {
            match self.entries.get_mut(&key) {
                Some(entry) if now < entry.until => {
                    entry.used = self.clock;
                    return Some(entry.result.clone());
                }
                // CACHE-007
                Some(_) => self.remove(&key),
                None => {}
            }
        }
        None
    }

    /// What the result of a request has to come with; take it when the request is made
    #[must_use]
    pub fn ticket(&self, asker: &Asker, question: Question) -> Ticket {
        Ticket { asker: asker.clone(), question, told: self.told }
    }

    /// Keeps a result that was received `now`, if it may be kept; an older one of the same question is forgotten
    pub fn put(&mut self, now: Instant, ticket: Ticket, result: &RawJson) {
        let Ticket { asker, question, told } = ticket;
        if self.is_outdated(&asker, &question, told) {
            return;
        }
        let [private, public] = keys(&asker, &question);
        self.remove(&private);
        self.remove(&public);
        let (time, is_public) = asker.terms(&question, result);
        let until = now + time;
        let cost = Self::OVERHEAD + question.bytes() + result.as_bytes().len();
        if until <= now || cost > self.max_bytes || self.max_entries == 0 {
            return;
        }
        self.clock += 1;
        self.bytes += cost;
        // A copy, as the frame that it came in may be larger.
        let entry = Entry { result: result.compact(), until, used: self.clock, cost };
        self.entries.insert(if is_public { public } else { private }, entry);
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            let order = |entry: &Entry| (now < entry.until, entry.used);
            let Some(worst) = self.entries.iter().min_by_key(|(_, entry)| order(entry)) else { return };
            let worst = worst.0.clone();
            self.remove(&worst);
        }
    }

    /// Forgets what has changed at the server (CACHE-014)
    pub fn notice(&mut self, asker: &Asker, change: &Change) {
        match change {
            Change::Tools => self.outdate(asker, News::List(Kind::Tool)),
            Change::Prompts => self.outdate(asker, News::List(Kind::Prompt)),
            Change::Resources => {
                self.outdate(asker, News::List(Kind::Resource));
                self.outdate(asker, News::List(Kind::ResourceTemplate));
            }
            // A very long one is not worth keeping for results on their way.
            Change::Resource(uri) if uri.len() > Self::URI => self.outdate(asker, News::Resources),
            Change::Resource(uri) => self.outdate(asker, News::Resource(uri.clone())),
        }
    }

    /// Forgets all pages of a list, after one of its cursors was refused for instance (CACHE-018)
    pub fn forget_list(&mut self, asker: &Asker, kind: Kind) {
        self.outdate(asker, News::List(kind));
    }

    /// Forgets all results of a server, whoever has asked
    pub fn forget(&mut self, asker: &Asker) {
        self.outdate(asker, News::All);
    }

    /// Forgets everything
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        // Tickets that were given out before find that they have missed something.
        self.news.clear();
        self.told += 1;
    }

    fn outdate(&mut self, asker: &Asker, news: News) {
        let bytes = &mut self.bytes;
        self.entries.retain(|key, entry| {
            let stays = key.server != asker.server || !news.concern(&key.question);
            if !stays {
                *bytes -= entry.cost;
            }
            stays
        });
        if self.news.len() >= Self::NEWS {
            self.news.pop_front();
        }
        self.news.push_back((Arc::clone(&asker.server), news));
        self.told += 1;
    }

    /// Whether a result may be older than news that came while it was waited for
    fn is_outdated(&self, asker: &Asker, question: &Question, told: u64) -> bool {
        let missed = self.told.checked_sub(told).and_then(|missed| usize::try_from(missed).ok());
        let Some(missed) = missed.filter(|missed| *missed <= self.news.len()) else { return true };
        self.news
            .iter()
            .rev()
            .take(missed)
            .any(|(server, news)| *server == asker.server && news.concern(question))
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.cost;
        }
    }
}

/// Where a result may stand: for who asks alone, and for anybody
fn keys(asker: &Asker, question: &Question) -> [Key; 2] {
    let key = |principal| Key {
        server: Arc::clone(&asker.server),
        question: question.clone(),
        manner: Arc::clone(&asker.manner),
        principal,
    };
    [key(Some(Arc::clone(&asker.principal))), key(None)]
}

#[cfg(test)]
mod tests;
