//! Calls under way, each with its two ends: a call of the client's, which is delivered anew after every question, and the
//! call at the server that it led to

use alloc::collections::BTreeMap;
use core::time::Duration;

use mcp_proto::client::InputId;
use mcp_proto::model::InputRequest;
use mcp_proto::server::Call;
use mcp_proto::{CallId, CallKey, ChannelId, Era, Instant, RawJson, RpcError};

/// What came of a call at the server, as the client is to be told
pub(super) type Outcome = Result<RawJson, RpcError>;

/// A call under way
#[derive(Debug)]
pub(super) struct Passage {
    /// The call at the server; none once it has its outcome
    pub(super) up: Option<CallKey>,
    pub(super) at: At,
    /// What came of it while the client was being asked
    pub(super) outcome: Option<Outcome>,
    /// What the server needs and was not given
    pub(super) asked: Vec<Asked>,
    /// How often the client was asked
    pub(super) round: u32,
    /// Names that were made up for questions
    pub(super) names: u32,
}

/// Where the call of the client is
#[derive(Debug)]
pub(super) enum At {
    /// Delivered: it can be answered
    Here(Box<Call>),
    /// The client is being asked; the call comes again with the answers, or it does not
    Away { channel: ChannelId, era: Era, until: Instant },
}

/// Something that the server needs
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) input: InputId,
    /// What the client is asked for it by
    pub(super) name: String,
    pub(super) request: InputRequest<'static>,
    /// The client is being asked
    pub(super) out: bool,
}

impl Passage {
    /// The call of the client's, if it can be answered now
    pub(super) fn here(&self) -> Option<&Call> {
        match &self.at {
            At::Here(call) => Some(call),
            At::Away { .. } => None,
        }
    }

    fn era(&self) -> Era {
        match &self.at {
            At::Here(call) => call.version().era(),
            At::Away { era, .. } => *era,
        }
    }
}

/// What the client keeps for the time between two deliveries: which passage is meant, and in which round
///
/// Sealed by the engine, so nobody makes one up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) number: u64,
    pub(super) round: u32,
}

impl Token {
    pub(super) fn write(self) -> Vec<u8> {
        [&self.number.to_be_bytes()[..], &self.round.to_be_bytes()].concat()
    }

    pub(super) fn read(state: &[u8]) -> Option<Self> {
        let (number, round) = state.split_first_chunk()?;
        Some(Self { number: u64::from_be_bytes(*number), round: u32::from_be_bytes(round.try_into().ok()?) })
    }
}

/// All of them, by numbers that are never used again
#[derive(Debug, Default)]
pub(super) struct Passages {
    all: BTreeMap<u64, Passage>,
    down: BTreeMap<CallId, u64>,
    up: BTreeMap<CallKey, u64>,
    inputs: BTreeMap<InputId, u64>,
    /// Those that have something to ask
    due: Vec<u64>,
    last: u64,
    /// Bytes of outcomes that wait for their clients
    held: usize,
}

impl Passages {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn add(&mut self, up: CallKey, call: Call) {
        self.last += 1;
        self.down.insert(call.id(), self.last);
        self.up.insert(up, self.last);
        let at = At::Here(Box::new(call));
        let passage = Passage { up: Some(up), at, outcome: None, asked: Vec::new(), round: 0, names: 0 };
        self.all.insert(self.last, passage);
    }

    pub(super) fn get(&self, number: u64) -> Option<&Passage> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Passage> {
        self.all.get_mut(&number)
    }

    pub(super) fn by_up(&self, up: CallKey) -> Option<&Passage> {
        self.all.get(self.up.get(&up)?)
    }

    /// The newest first
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Passage)> {
        self.all.iter().rev().map(|(number, passage)| (*number, passage))
    }

    pub(super) fn number_of(&self, up: CallKey) -> Option<u64> {
        self.up.get(&up).copied()
    }

    pub(super) fn any_modern(&self) -> bool {
        self.all.values().any(|passage| passage.era() == Era::Modern)
    }

    // ---- ends ------------------------------------------------------------------------------------------------

    /// Takes one out
    pub(super) fn take(&mut self, number: u64) -> Option<Passage> {
        let passage = self.all.remove(&number)?;
        if let Some(up) = passage.up {
            self.up.remove(&up);
        }
        if let At::Here(call) = &passage.at {
            self.down.remove(&call.id());
        }
        for asked in &passage.asked {
            self.inputs.remove(&asked.input);
        }
        self.held = self.held.saturating_sub(size(passage.outcome.as_ref()));
        Some(passage)
    }

    pub(super) fn take_down(&mut self, call: CallId) -> Option<(u64, Passage)> {
        let number = *self.down.get(&call)?;
        Some((number, self.take(number)?))
    }

    /// Takes out those whose client was being asked on this channel
    pub(super) fn take_channel(&mut self, gone: ChannelId) -> Vec<Passage> {
        self.take_all(|at| matches!(at, At::Away { channel, .. } if *channel == gone))
    }

    /// Takes out those whose clients have not come back in time
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Passage> {
        self.take_all(|at| matches!(at, At::Away { until, .. } if *until <= now))
    }

    fn take_all(&mut self, mut which: impl FnMut(&At) -> bool) -> Vec<Passage> {
        let found = self.all.iter().filter(|(_, passage)| which(&passage.at)).map(|(number, _)| *number);
        let found: Vec<u64> = found.collect();
        found.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// When the next client is given up
    pub(super) fn expires(&self) -> Option<Instant> {
        let until = |passage: &Passage| match passage.at {
            At::Here(_) => None,
            At::Away { until, .. } => Some(until),
        };
        self.all.values().filter_map(until).min()
    }

    /// Notes that the call at the server has its outcome
    pub(super) fn done(&mut self, up: CallKey) -> Option<u64> {
        let number = self.up.remove(&up)?;
        self.all.get_mut(&number)?.up = None;
        Some(number)
    }

    /// Keeps an outcome until the client comes back for it
    pub(super) fn hold(&mut self, number: u64, outcome: Outcome) {
        let Some(passage) = self.all.get_mut(&number) else { return };
        let outcome = outcome.map(|result| result.compact());
        let outcome = match self.held.saturating_add(size(Some(&outcome))) > MAX_HELD {
            true => Err(RpcError::internal("the answer came too early, and was too long to be kept")),
            false => outcome,
        };
        self.held += size(Some(&outcome));
        passage.outcome = Some(outcome);
    }

    /// What came of a call while its client was being asked
    pub(super) fn take_outcome(&mut self, number: u64) -> Option<Outcome> {
        let outcome = self.all.get_mut(&number)?.outcome.take()?;
        self.held = self.held.saturating_sub(size(Some(&outcome)));
        Some(outcome)
    }

    // ---- questions -------------------------------------------------------------------------------------------

    /// Adds something that the server needs for a call; the client is asked when all of it is known
    pub(super) fn ask(&mut self, number: u64, asked: Asked) {
        let Some(passage) = self.all.get_mut(&number) else { return };
        self.inputs.insert(asked.input, number);
        passage.asked.push(asked);
        self.due(number);
    }

    /// Has a call looked at that may have something to ask
    pub(super) fn due(&mut self, number: u64) {
        if !self.due.contains(&number) {
            self.due.push(number);
        }
    }

    pub(super) fn take_due(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.due)
    }

    /// The server needs something no longer, or has it; the passage that it was for
    pub(super) fn input_gone(&mut self, input: InputId) -> Option<u64> {
        let number = self.inputs.remove(&input)?;
        self.all.get_mut(&number)?.asked.retain(|asked| asked.input != input);
        Some(number)
    }

    /// What the client of a call keeps that is being asked; none when it is not
    pub(super) fn away_with(&self, number: u64) -> Option<Token> {
        let passage = self.all.get(&number).filter(|passage| passage.here().is_none())?;
        Some(Token { number, round: passage.round })
    }

    /// The same where nothing of what it is asked is needed any more
    pub(super) fn in_vain(&self, number: u64) -> Option<Token> {
        self.all.get(&number).filter(|passage| passage.asked.is_empty())?;
        self.away_with(number)
    }

    /// Takes a call out of the client's reach until it comes again; none when too many wait already
    pub(super) fn leave(&mut self, number: u64, until: Instant) {
        let Some(passage) = self.all.get_mut(&number) else { return };
        let At::Here(call) = &passage.at else { return };
        self.down.remove(&call.id());
        passage.at = At::Away { channel: call.channel(), era: call.version().era(), until };
        for asked in &mut passage.asked {
            asked.out = true;
        }
    }

    /// How many wait for their clients
    pub(super) fn away(&self) -> usize {
        self.all.values().filter(|passage| passage.here().is_none()).count()
    }

    /// The passage that a call belongs to which has come again; the call itself when there is none
    pub(super) fn come(&mut self, call: Call) -> Result<u64, Box<Call>> {
        let call = Box::new(call);
        let Some(token) = call.state().and_then(Token::read) else { return Err(call) };
        let found = self.all.get_mut(&token.number).filter(|passage| passage.round == token.round);
        let Some(passage) = found.filter(|passage| passage.here().is_none()) else { return Err(call) };
        self.down.insert(call.id(), token.number);
        passage.at = At::Here(call);
        Ok(token.number)
    }
}

fn size(outcome: Option<&Outcome>) -> usize {
    outcome.and_then(|outcome| outcome.as_ref().ok()).map_or(0, |result| result.as_bytes().len())
}

/// Calls that wait for their clients at a time
pub(super) const MAX_AWAY: usize = 1_024;
/// Bytes of their outcomes that are kept
const MAX_HELD: usize = 16 << 20;
/// How long a client may take to come back, beyond what the engines allow it for its answer
pub(super) const LATE: Duration = Duration::from_secs(1);
