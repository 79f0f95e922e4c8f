//! What the server needs of the client: asked of it along with the call that it is for, answered to the server

use core::time::Duration;

use mcp_proto::client::Input;
use mcp_proto::model::{
    ClientCapabilities, ElicitParams, InputRequest, InputRequests, InputResponse, encode_for,
};
use mcp_proto::server::Call;
use mcp_proto::{CallError, Capabilities, Capability, RpcError, UseError, Version};

use super::passage::{Asked, At, LATE, MAX_AWAY, Passage, Token};
use super::relay::{Ends, Relay, fail, refuse};

impl Relay {
    /// The server needs something
    pub(super) fn input(&mut self, ends: &mut Ends<'_>, input: Input) {
        let owner = match input.call {
            Some(call) => self.passages.number_of(call),
            None => self.owner(),
        };
        let name = input.key.map(String::from).unwrap_or_default();
        self.place(ends, owner, Asked { input: input.id, name, request: *input.request, out: false });
    }

    /// Puts a question where it is asked
    pub(super) fn place(&mut self, ends: &mut Ends<'_>, owner: Option<u64>, mut asked: Asked) {
        let found = owner.and_then(|number| Some((number, self.passages.get_mut(number)?)));
        let Some((number, passage)) = found else {
            if self.is_alone() && self.strays.len() < MAX_STRAYS {
                // It is asked along with the next call that can ask.
                return self.strays.push(asked);
            }
            let why = "the bridge cannot tell which of its clients this is for";
            return refuse(ends, asked.input, &RpcError::internal(why));
        };
        let taken = passage.asked.iter().any(|other| other.name == asked.name);
        if taken || !InputRequest::is_key(&asked.name) {
            passage.names += 1;
            asked.name = format!("bridge-{}", passage.names);
        }
        asked.out = false;
        self.passages.ask(number, asked);
        if !self.is_alone() && self.is_legacy() {
            // While it is not asked it is known whose call the server works on.
            self.gathers_until.get_or_insert(ends.now + GATHER);
        }
    }

    /// The call that something is for which does not say so: legacy servers do not
    ///
    /// A client that is alone may be asked along with any of its calls. Of several clients only who is the only one with
    /// a call is known to be meant; calls whose clients are being asked do not count, as their servers wait for that, and
    /// perhaps for one that does not come again.
    pub(super) fn owner(&self) -> Option<u64> {
        let may_ask = |passage: &Passage| match passage.here() {
            Some(call) => matches!(call.method(), "tools/call" | "prompts/get" | "resources/read"),
            None => true,
        };
        let all = || self.passages.iter().filter(|(_, passage)| passage.up.is_some() && may_ask(passage));
        let mut here = all().filter(|(_, passage)| passage.here().is_some());
        if self.is_alone() {
            let free = here.find(|(_, passage)| passage.asked.is_empty());
            return free.or_else(|| all().next()).map(|(number, _)| number);
        }
        let mut meant = here.next();
        if meant.is_none() {
            let mut away = all();
            meant = away.next().filter(|_| away.next().is_none());
        }
        meant.filter(|_| here.next().is_none()).map(|(number, _)| number)
    }

    /// Asks the clients all that is known by now
    pub(super) fn ask_all(&mut self, ends: &mut Ends<'_>) {
        if self.gathers_until.is_some_and(|at| at > ends.now) {
            return;
        }
        self.gathers_until = None;
        if !self.strays.is_empty() {
            if let Some(owner) = self.owner() {
                for asked in core::mem::take(&mut self.strays) {
                    self.place(ends, Some(owner), asked);
                }
            }
        }
        for number in self.passages.take_due() {
            self.ask(ends, number);
        }
    }

    fn ask(&mut self, ends: &mut Ends<'_>, number: u64) {
        let room = self.passages.away() < MAX_AWAY;
        let Some(passage) = self.passages.get_mut(number) else { return };
        let At::Here(call) = &passage.at else { return };
        if passage.asked.is_empty() {
            return;
        }
        let declared = Capabilities::declared(&ends.down.peer(call).capabilities);
        let (mut requests, mut refused) = (InputRequests::new(), Vec::new());
        for asked in &mut passage.asked {
            let fits = if room { fit(asked, &declared, call.version(), number) } else { Err(crowded()) };
            match fits {
                Ok(()) => _ = requests.insert(asked.name.clone(), asked.request.clone()),
                Err(why) => refused.push((asked.input, why)),
            }
        }
        if !requests.is_empty() {
            let state = Token { number, round: passage.round + 1 }.write();
            let (patience, outcome) = (
                ends.down.config().get_limits().input_timeout,
                ends.down.need_input(ends.now, call, &requests, &state),
            );
            match outcome {
                Ok(()) => {
                    passage.round += 1;
                    passage.asked.retain(|asked| requests.get(&asked.name).is_some());
                    self.passages.leave(number, ends.now + patience + LATE);
                }
                // It has ended; that is told by itself.
                Err(UseError::Stale) => return,
                Err(why) => {
                    let error = told(&why);
                    refused.extend(passage.asked.iter().map(|asked| (asked.input, error.clone())));
                }
            }
        }
        for (input, error) in refused {
            self.passages.input_gone(input);
            refuse(ends, input, &error);
        }
    }

    /// A call that the client was asked for has come again
    pub(super) fn again(&mut self, ends: &mut Ends<'_>, call: Call) {
        let number = match self.passages.come(call) {
            Ok(number) => number,
            Err(call) => {
                let why = "nothing waits for these answers any more: call again without them";
                return fail(ends, call.id(), &RpcError::invalid_params(why));
            }
        };
        let Some(passage) = self.passages.get_mut(number) else { return };
        let At::Here(call) = &passage.at else { return };
        let mut over = Vec::new();
        for asked in &mut passage.asked {
            if !core::mem::take(&mut asked.out) {
                continue;
            }
            let given = match call.answer(&asked.name) {
                // It is asked once more, or along with another call if this one is over.
                None | Some(Err(CallError::Cancelled)) => continue,
                Some(Ok(answer)) => {
                    let read = asked.request.method().map(|method| InputResponse::read(method, answer));
                    match read {
                        Some(Ok(response)) => {
                            ends.up.answer(ends.up_now, asked.input, &response).map_err(|e| e.to_string())
                        }
                        Some(Err(misfit)) => Err(misfit.to_string()),
                        None => Err("it was no question".to_owned()),
                    }
                    .map_err(|why| {
                        RpcError::invalid_params(format!("the client's answer cannot be passed on: {why}"))
                    })
                }
                Some(Err(error)) => Err(super::shape::failed(error)),
            };
            if let Err(error) = given {
                refuse(ends, asked.input, &error);
            }
            over.push(asked.input);
        }
        for input in over {
            self.passages.input_gone(input);
        }
        match self.passages.take_outcome(number) {
            Some(outcome) => self.finish(ends, number, outcome),
            None => self.passages.due(number),
        }
    }
}

/// Makes a question one that the client can be asked, or says why there is none
fn fit(asked: &mut Asked, declared: &Capabilities, version: Version, number: u64) -> Result<(), RpcError> {
    match &mut asked.request {
        // That revision alone needs a name for the matter; it is told of no end then.
        InputRequest::Elicit(ElicitParams::Url(page)) if version == Version::V2025_11_25 => {
            page.elicitation_id.get_or_insert_with(|| format!("bridge-{number}-{}", asked.name));
        }
        // A client may give less context than it is asked for.
        InputRequest::CreateMessage(params) if !declared.has(Capability::SamplingContext) => {
            params.include_context = None;
        }
        _ => {}
    }
    if let Some(lacks) = declared.missing(&asked.request.needs(version)).iter().last() {
        return Err(told(&UseError::PeerLacks(lacks)));
    }
    encode_for(version, &asked.request).map(drop).map_err(|error| told(&error.into()))
}

/// What the server is told when the client cannot be asked
fn told(why: &UseError) -> RpcError {
    match why {
        UseError::PeerLacks(capability) => {
            let required = ClientCapabilities::from(&Capabilities::new().with(*capability));
            let lacks = format!("the client does not have the capability `{capability}`");
            let error = RpcError::missing_client_capability(required);
            error.map_or_else(
                |_| RpcError::invalid_request(lacks.clone()),
                |mut error| {
                    error.message = lacks.clone().into();
                    error
                },
            )
        }
        UseError::NotInVersion { what, version } => {
            RpcError::invalid_request(format!("the client speaks {version}, which does not have `{what}`"))
        }
        UseError::BadQuestion { why, .. } => {
            RpcError::invalid_params(format!("the question is not right: {why}"))
        }
        other => RpcError::internal(format!("the client cannot be asked: {other}")),
    }
}

fn crowded() -> RpcError {
    RpcError::internal("too many calls wait for their clients")
}

/// How long what a legacy server asks is kept back, as it may ask several things at once
const GATHER: Duration = Duration::from_millis(50);
/// Questions that wait for a call of the client's to go along with
const MAX_STRAYS: usize = 16;
