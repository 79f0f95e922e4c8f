//! Relayed calls. Each joins a call of the client to the call that the bridge makes at the server because of it.
//!
//! *Downstream* is the side of the bridge that faces the client. *Upstream* is the side that faces the server. Each
//! relayed call has a *number*, which is never reused.
//!
//! After every round of input requests, the downstream engine delivers the client's call again, with the input
//! responses. This is the client's *retry*. Between the two deliveries the call is *suspended*.

use alloc::collections::BTreeMap;
use core::time::Duration;

use mcp_proto::client::InputId;
use mcp_proto::model::InputRequest;
use mcp_proto::server::Call;
use mcp_proto::{CallId, CallKey, ChannelId, Era, Instant, RawJson, RpcError};

use super::relay::ClientCount;

/// Outcome of a call at the server, in the form for the client.
pub(super) type RelayOutcome = Result<RawJson, RpcError>;

/// A relayed call.
#[derive(Debug)]
pub(super) struct RelayedCall {
    /// The call at the server; `None` once it has its outcome.
    pub(super) upstream: Option<CallKey>,
    /// The client's call.
    pub(super) downstream: DownstreamCall,
    /// Outcome that arrived while the client was being asked.
    pub(super) outcome: Option<RelayOutcome>,
    /// Input requests of the server that are not answered yet.
    pub(super) inputs: Vec<RelayedInput>,
    /// Number of rounds in which the client was asked.
    pub(super) round: u32,
    /// Number of generated names of input requests.
    pub(super) generated_names: u32,
    /// Other upstreams to ask if this one does not know the resource; `None` if it is the owner.
    pub(super) others: Option<Others>,
    /// Parameters in place of those of the call, while there is another form.
    params: Option<RawJson>,
    /// Whether the tool is called as a task if the server refuses the form it was called in; `None` if there is no other form.
    other_form: Option<bool>,
    /// Channel of the client of a task. Runs of all tasks have one channel.
    pub(super) origin: Option<ChannelId>,
}

/// Upstreams that may know a resource that none has listed.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Those that are still to be asked.
    pub(super) upstreams: Vec<usize>,
    /// First error that said something else than that the resource is not known: the answer if no upstream knows it.
    pub(super) error: Option<RpcError>,
}

/// A call of the client that is to be sent to the server, with what the gateway has decided about it.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) call: Call,
    /// Parameters in place of those of the call.
    pub(super) params: Option<RawJson>,
    /// As [`RelayedCall::others`].
    pub(super) others: Option<Others>,
}

impl From<Call> for Delivery {
    fn from(call: Call) -> Self {
        Self { call, params: None, others: None }
    }
}

/// State of the client's call.
#[derive(Debug)]
pub(super) enum DownstreamCall {
    /// The call was delivered and can be answered.
    Delivered(Box<Call>),
    /// The client is being asked. Its retry brings the answers, but may never arrive; the call expires at `until`.
    Suspended { channel: ChannelId, era: Era, until: Instant },
}

/// An input request of the server.
#[derive(Debug)]
pub(super) struct RelayedInput {
    pub(super) input: InputId,
    /// Key under which the client is asked.
    pub(super) name: String,
    pub(super) request: InputRequest<'static>,
    /// Whether the client is being asked for it.
    pub(super) is_sent: bool,
}

impl RelayedCall {
    /// Returns the channel of the client, or of its exchange.
    pub(super) const fn channel(&self) -> ChannelId {
        match (self.origin, &self.downstream) {
            (Some(origin), _) => origin,
            (None, DownstreamCall::Delivered(call)) => call.channel(),
            (None, DownstreamCall::Suspended { channel, .. }) => *channel,
        }
    }

    /// Returns whether the server may ask or say something for this call. It goes on while the client is being asked.
    pub(super) fn may_run(&self, clients: ClientCount) -> bool {
        self.upstream.is_some() && (self.delivered_call().is_some() || self.is_of_known_client(clients))
    }

    /// Returns whether the channel tells the client. Those of modern clients over HTTP are of one request: one that is asked may be
    /// the next that calls, and may never answer.
    fn is_of_known_client(&self, clients: ClientCount) -> bool {
        let era = match &self.downstream {
            DownstreamCall::Delivered(call) => call.version().era(),
            DownstreamCall::Suspended { era, .. } => *era,
        };
        era == Era::Legacy || !matches!(clients, ClientCount::Many)
    }

    /// Returns the client's call if it can be answered now.
    pub(super) fn delivered_call(&self) -> Option<&Call> {
        match &self.downstream {
            DownstreamCall::Delivered(call) => Some(call),
            DownstreamCall::Suspended { .. } => None,
        }
    }
}

/// The sealed state that the client keeps between two deliveries: the relayed call and its round.
///
/// The engine seals it, so a client cannot forge it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RetryToken {
    /// Number of the relay or gateway that wrote it.
    pub(super) instance: u64,
    /// Number of the relayed call.
    pub(super) number: u64,
    /// Round in which the client was asked.
    pub(super) round: u32,
}

impl RetryToken {
    /// Returns the upstream of a gateway that the call was relayed to.
    pub(super) const fn upstream(self) -> usize {
        (self.number >> UPSTREAM_SHIFT) as usize
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let (instance, number) = (self.instance.to_be_bytes(), self.number.to_be_bytes());
        [&instance[..], &number, &self.round.to_be_bytes()].concat()
    }

    pub(super) fn decode(state: &[u8]) -> Option<Self> {
        let (instance, rest) = state.split_first_chunk()?;
        let (number, round) = rest.split_first_chunk()?;
        Some(Self {
            instance: u64::from_be_bytes(*instance),
            number: u64::from_be_bytes(*number),
            round: u32::from_be_bytes(round.try_into().ok()?),
        })
    }
}

/// All relayed calls by number, and the numbers by the ids of each side.
#[derive(Debug, Default)]
pub(super) struct RelayedCalls {
    calls: BTreeMap<u64, RelayedCall>,
    by_downstream: BTreeMap<CallId, u64>,
    by_upstream: BTreeMap<CallKey, u64>,
    by_input: BTreeMap<InputId, u64>,
    /// Numbers of the calls to check for input requests that can be sent to the client now.
    due: Vec<u64>,
    last_number: u64,
    /// Number that tells this relay or gateway from others with the same seal keys.
    pub(super) instance: u64,
    /// Lists that the gateway asks the server for, with the channels of their clients.
    lists: BTreeMap<CallKey, ChannelId>,
    /// Until when a cancelled call may still run at the server, and its channel; `None` if such calls are of several.
    cancelled: Option<(Instant, Option<ChannelId>)>,
    /// Total bytes of outcomes that wait for their clients. Bounded by [`MAX_HELD_BYTES`].
    held_bytes: usize,
}

impl RelayedCalls {
    /// Creates the table of one upstream of a gateway. No two upstreams have calls of the same number.
    pub(super) fn of_upstream(upstream: u16) -> Self {
        Self { last_number: u64::from(upstream) << UPSTREAM_SHIFT, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call of the client that was sent to the server as `upstream`. Returns its number.
    pub(super) fn add(
        &mut self,
        upstream: CallKey,
        Delivery { call, params, others }: Delivery,
        other_form: Option<bool>,
        origin: Option<ChannelId>,
    ) -> u64 {
        self.last_number += 1;
        self.by_downstream.insert(call.id(), self.last_number);
        self.by_upstream.insert(upstream, self.last_number);
        let relayed = RelayedCall {
            upstream: Some(upstream),
            downstream: DownstreamCall::Delivered(Box::new(call)),
            outcome: None,
            inputs: Vec::new(),
            round: 0,
            generated_names: 0,
            others,
            params: params.filter(|_| other_form.is_some()),
            other_form,
            origin,
        };
        self.calls.insert(self.last_number, relayed);
        self.last_number
    }

    /// Notes that the server has begun to work on a call: it is not made again in another form.
    pub(super) fn note_work(&mut self, number: u64) {
        if let Some(relayed) = self.calls.get_mut(&number) {
            relayed.other_form = None;
        }
    }

    /// Removes a call that can be made in another form, and returns what that takes.
    pub(super) fn take_other_form(&mut self, number: u64) -> Option<(Delivery, bool, Option<ChannelId>)> {
        let form = self.calls.get(&number).filter(|relayed| relayed.delivered_call().is_some())?.other_form?;
        let RelayedCall { downstream, params, others, origin, .. } = self.take(number)?;
        let DownstreamCall::Delivered(call) = downstream else { return None };
        Some((Delivery { call: *call, params, others }, form, origin))
    }

    pub(super) fn get(&self, number: u64) -> Option<&RelayedCall> {
        self.calls.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut RelayedCall> {
        self.calls.get_mut(&number)
    }

    pub(super) fn by_upstream(&self, upstream: CallKey) -> Option<&RelayedCall> {
        self.calls.get(self.by_upstream.get(&upstream)?)
    }

    /// Iterates over the calls, newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &RelayedCall)> {
        self.calls.iter().rev().map(|(number, relayed)| (*number, relayed))
    }

    /// Returns the number of the relayed call that has this call at the server.
    pub(super) fn number_of(&self, upstream: CallKey) -> Option<u64> {
        self.by_upstream.get(&upstream).copied()
    }

    /// Notes that a call of this channel was cancelled at the server, which may not have stopped it yet.
    pub(super) fn note_cancelled(&mut self, clients: ClientCount, relayed: &RelayedCall, now: Instant) {
        if !relayed.is_of_known_client(clients) {
            return;
        }
        self.note_stopping(relayed.channel(), now);
    }

    fn note_stopping(&mut self, channel: ChannelId, now: Instant) {
        let others = self.cancelled.filter(|(until, other)| *until > now && *other != Some(channel));
        let owner = others.is_none().then_some(channel);
        self.cancelled = Some((now + CANCEL_GRACE_PERIOD, owner));
    }

    /// Notes that the server was asked for a list of this channel.
    pub(super) fn add_list(&mut self, list: CallKey, channel: ChannelId) {
        self.lists.insert(list, channel);
    }

    /// Notes the end of a list.
    pub(super) fn end_list(&mut self, list: CallKey) {
        self.lists.remove(&list);
    }

    /// Notes that a list was cancelled at the server, which may not have stopped it yet.
    pub(super) fn note_cancelled_list(&mut self, list: CallKey, now: Instant) {
        if let Some(channel) = self.lists.remove(&list) {
            self.note_stopping(channel, now);
        }
    }

    /// Returns whether all calls and lists that may run at the server are of this channel.
    pub(super) fn is_only_owner(&self, clients: ClientCount, channel: ChannelId, now: Instant) -> bool {
        let cancelled = self.cancelled.filter(|(until, _)| *until > now);
        let mut others = self.calls.values().filter(|relayed| relayed.channel() != channel);
        cancelled.is_none_or(|(_, owner)| owner == Some(channel))
            && !others.any(|other| other.may_run(clients))
            && self.lists.values().all(|other| *other == channel)
    }

    // ---- end of a call ---------------------------------------------------------------------------------------

    /// Removes and returns a call.
    pub(super) fn take(&mut self, number: u64) -> Option<RelayedCall> {
        let relayed = self.calls.remove(&number)?;
        if let Some(upstream) = relayed.upstream {
            self.by_upstream.remove(&upstream);
        }
        if let DownstreamCall::Delivered(call) = &relayed.downstream {
            self.by_downstream.remove(&call.id());
        }
        for pending in &relayed.inputs {
            self.by_input.remove(&pending.input);
        }
        self.held_bytes = self.held_bytes.saturating_sub(outcome_size(relayed.outcome.as_ref()));
        Some(relayed)
    }

    /// Removes and returns the relayed call of a delivered call of the client, with its number.
    pub(super) fn take_downstream(&mut self, call: CallId) -> Option<(u64, RelayedCall)> {
        let number = *self.by_downstream.get(&call)?;
        Some((number, self.take(number)?))
    }

    /// Removes and returns all calls, each with the token that it has if it is suspended.
    pub(super) fn take_rest(&mut self) -> Vec<(RetryToken, RelayedCall)> {
        self.take_all(|_| true)
    }

    /// Removes and returns the suspended calls of a downstream channel that has closed.
    pub(super) fn take_channel(&mut self, closed: ChannelId) -> Vec<(RetryToken, RelayedCall)> {
        self.take_all(|call| matches!(call, DownstreamCall::Suspended { channel, .. } if *channel == closed))
    }

    /// Removes and returns the suspended calls whose clients did not retry in time.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<(RetryToken, RelayedCall)> {
        self.take_all(|call| matches!(call, DownstreamCall::Suspended { until, .. } if *until <= now))
    }

    fn take_all(&mut self, which: impl Fn(&DownstreamCall) -> bool) -> Vec<(RetryToken, RelayedCall)> {
        let instance = self.instance;
        let found = self.calls.iter().filter(|(_, relayed)| which(&relayed.downstream));
        let tokens =
            found.map(|(number, relayed)| RetryToken { instance, number: *number, round: relayed.round });
        let tokens: Vec<_> = tokens.collect();
        tokens.into_iter().filter_map(|token| Some((token, self.take(token.number)?))).collect()
    }

    /// Returns the earliest expiry of a suspended call.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let until = |relayed: &RelayedCall| match relayed.downstream {
            DownstreamCall::Delivered(_) => None,
            DownstreamCall::Suspended { until, .. } => Some(until),
        };
        self.calls.values().filter_map(until).min()
    }

    /// Marks the call at the server as ended. Returns the number of the relayed call.
    pub(super) fn end_upstream(&mut self, upstream: CallKey) -> Option<u64> {
        let number = self.by_upstream.remove(&upstream)?;
        self.calls.get_mut(&number)?.upstream = None;
        Some(number)
    }

    /// Holds an outcome until the client retries its call. Beyond [`MAX_HELD_BYTES`] an error replaces it.
    pub(super) fn hold_outcome(&mut self, number: u64, outcome: RelayOutcome) {
        let Some(relayed) = self.calls.get_mut(&number) else { return };
        let outcome = outcome.map(|result| result.compact());
        let outcome = match self.held_bytes.saturating_add(outcome_size(Some(&outcome))) > MAX_HELD_BYTES {
            true => Err(RpcError::internal(
                "the server answered before the client's retry, and the bridge has no room to keep the answer",
            )),
            false => outcome,
        };
        self.held_bytes += outcome_size(Some(&outcome));
        relayed.outcome = Some(outcome);
    }

    /// Takes the outcome that arrived while the client was being asked.
    pub(super) fn take_outcome(&mut self, number: u64) -> Option<RelayOutcome> {
        let outcome = self.calls.get_mut(&number)?.outcome.take()?;
        self.held_bytes = self.held_bytes.saturating_sub(outcome_size(Some(&outcome)));
        Some(outcome)
    }

    // ---- input requests --------------------------------------------------------------------------------------

    /// Adds an input request to a call. The client is asked once all requests of the round are gathered.
    pub(super) fn add_input(&mut self, number: u64, pending: RelayedInput) {
        self.note_work(number);
        let Some(relayed) = self.calls.get_mut(&number) else { return };
        self.by_input.insert(pending.input, number);
        relayed.inputs.push(pending);
        self.mark_due(number);
    }

    /// Marks a call as due: [`take_due`](Self::take_due) returns it once, to be checked for input requests to send.
    pub(super) fn mark_due(&mut self, number: u64) {
        if !self.due.contains(&number) {
            self.due.push(number);
        }
    }

    /// Takes the numbers of all calls that are due.
    pub(super) fn take_due(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.due)
    }

    /// Removes an input request that was answered or withdrawn. Returns the number of its call.
    pub(super) fn remove_input(&mut self, input: InputId) -> Option<u64> {
        let number = self.by_input.remove(&input)?;
        self.calls.get_mut(&number)?.inputs.retain(|pending| pending.input != input);
        Some(number)
    }

    /// Removes all input requests, because the server that they are of is gone.
    pub(super) fn forget_inputs(&mut self) {
        self.cancelled = None;
        self.by_input.clear();
        for relayed in self.calls.values_mut() {
            relayed.inputs.clear();
        }
    }

    /// Returns the token of a suspended call, or `None` if the call is not suspended.
    pub(super) fn suspended_token(&self, number: u64) -> Option<RetryToken> {
        let relayed = self.calls.get(&number).filter(|relayed| relayed.delivered_call().is_none())?;
        Some(RetryToken { instance: self.instance, number, round: relayed.round })
    }

    /// Returns the token of a suspended call that needs no input any more, so that its token is obsolete.
    pub(super) fn obsolete_token(&self, number: u64) -> Option<RetryToken> {
        self.calls.get(&number).filter(|relayed| relayed.inputs.is_empty())?;
        self.suspended_token(number)
    }

    /// Suspends a delivered call until `until`; its client is being asked, or it becomes a task.
    pub(super) fn suspend(&mut self, number: u64, until: Instant) {
        let Some(relayed) = self.calls.get_mut(&number) else { return };
        let DownstreamCall::Delivered(call) = &relayed.downstream else { return };
        self.by_downstream.remove(&call.id());
        relayed.downstream =
            DownstreamCall::Suspended { channel: call.channel(), era: call.version().era(), until };
    }

    /// Returns the number of calls that their clients wait for, without those that are suspended.
    pub(super) fn delivered_count(&self) -> usize {
        self.by_downstream.len()
    }

    /// Returns the number of calls that are tasks.
    pub(super) fn task_count(&self) -> usize {
        self.calls.values().filter(|relayed| relayed.origin.is_some()).count()
    }

    /// Returns the number of suspended calls.
    pub(super) fn suspended_count(&self) -> usize {
        self.calls.len() - self.delivered_count()
    }

    /// Continues a suspended call with the client's retry. Returns its number.
    ///
    /// # Errors
    ///
    /// Returns the call unchanged if no suspended call matches its token.
    pub(super) fn resume(&mut self, call: Call) -> Result<u64, Box<Call>> {
        let call = Box::new(call);
        let Some(token) = call.state().and_then(RetryToken::decode) else { return Err(call) };
        let is_own = token.instance == self.instance;
        let found = self.calls.get_mut(&token.number).filter(|_| is_own);
        let found = found.filter(|relayed| relayed.round == token.round);
        let Some(relayed) = found.filter(|relayed| relayed.delivered_call().is_none()) else {
            return Err(call);
        };
        self.by_downstream.insert(call.id(), token.number);
        relayed.downstream = DownstreamCall::Delivered(call);
        Ok(token.number)
    }
}

fn outcome_size(outcome: Option<&RelayOutcome>) -> usize {
    outcome.and_then(|outcome| outcome.as_ref().ok()).map_or(0, |result| result.as_bytes().len())
}

/// Bits of a number below those that name its upstream.
const UPSTREAM_SHIFT: u32 = 48;
/// Maximum number of suspended calls.
pub(super) const MAX_SUSPENDED: usize = 1_024;
/// Maximum number of bytes of held outcomes.
const MAX_HELD_BYTES: usize = 16 << 20;
/// Time in which the server may not have stopped a cancelled call yet.
pub(super) const CANCEL_GRACE_PERIOD: Duration = Duration::from_secs(10);
/// Extra time for the client's retry, beyond the timeout that the engine allows for its answer.
pub(super) const RETRY_GRACE_PERIOD: Duration = Duration::from_secs(1);
