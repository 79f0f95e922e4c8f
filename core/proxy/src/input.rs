//! Input requests: the server's requests are attached to a call of the client, and the answers go back.

use core::time::Duration;

use mcp_proto::client::Input;
use mcp_proto::model::{
    ClientCapabilities, ElicitParams, InputRequest, InputRequests, InputResponse, encode_for,
};
use mcp_proto::server::Call;
use mcp_proto::{CallError, Capabilities, Capability, Instant, RpcError, UseError, Version};

use super::relay::{Engines, Relay, fail, refuse_input};
use super::relayed_call::{
    DownstreamCall, MAX_SUSPENDED, RETRY_GRACE_PERIOD, RelayedCall, RelayedInput, RetryToken,
};

impl Relay {
    /// Handles an input request of the server.
    pub(super) fn handle_input(&mut self, engines: &mut Engines<'_>, input: Input) {
        let owner = match input.call {
            Some(call) => self.calls.number_of(call),
            None => self.input_owner(engines.now),
        };
        let name = input.key.map(String::from).unwrap_or_default();
        let pending = RelayedInput { input: input.id, name, request: *input.request, is_sent: false };
        self.assign_input(engines, owner, pending);
    }

    /// Attaches an input request to a call.
    pub(super) fn assign_input(
        &mut self,
        engines: &mut Engines<'_>,
        owner: Option<u64>,
        mut pending: RelayedInput,
    ) {
        let found = owner.and_then(|number| Some((number, self.calls.get_mut(number)?)));
        let Some((number, relayed)) = found else {
            if self.has_single_client() && self.unassigned_inputs.len() < MAX_UNASSIGNED_INPUTS {
                // It is sent with the next call that can carry it.
                return self.unassigned_inputs.push(pending);
            }
            let why = "the bridge cannot tell which of its clients this is for";
            return refuse_input(engines, pending.input, &RpcError::internal(why));
        };
        let is_taken = relayed.inputs.iter().any(|other| other.name == pending.name);
        if is_taken || !InputRequest::is_valid_key(&pending.name) {
            relayed.generated_names += 1;
            pending.name = format!("bridge-{}", relayed.generated_names);
        }
        pending.is_sent = false;
        self.calls.add_input(number, pending);
        if !self.has_single_client() && self.is_legacy() {
            // Sending suspends the call. Afterwards it would be unknown which call the next request belongs to.
            self.gather_deadline.get_or_insert(engines.now + INPUT_GATHER_DELAY);
        }
    }

    /// Finds the call that an input request without a call belongs to. Legacy servers send such requests.
    ///
    /// A single client may be asked through any of its calls. With several clients, the owner is known only if all calls that the
    /// server may be running are of one, which their channel tells. Lists that a gateway asks for are such calls. A call whose
    /// client is being asked is one, too, because its server may ask again; it is that until its client has answered, or the time
    /// for the answer is over. With a policy several clients have no owner among them.
    pub(super) fn input_owner(&self, now: Instant) -> Option<u64> {
        let may_ask = |relayed: &RelayedCall| match relayed.delivered_call() {
            Some(call) => matches!(call.method(), "tools/call" | "prompts/get" | "resources/read"),
            None => true,
        };
        let all = || self.calls.iter().filter(|(_, relayed)| relayed.upstream.is_some() && may_ask(relayed));
        let mut delivered = all().filter(|(_, relayed)| relayed.delivered_call().is_some());
        if self.has_single_client() {
            let free = delivered.find(|(_, relayed)| relayed.inputs.is_empty());
            return free.or_else(|| all().next()).map(|(number, _)| number);
        }
        if self.keeps_back_unowned() {
            return None;
        }
        let mut suspended = all();
        let (number, relayed) = match delivered.next() {
            Some(running) => running,
            None => suspended
                .next()
                .filter(|(_, first)| suspended.all(|(_, other)| other.channel() == first.channel()))?,
        };
        self.calls.is_only_owner(self.clients, relayed.channel(), now).then_some(number)
    }

    /// Sends all collected input requests to the clients, unless more are still being gathered.
    pub(super) fn send_due_inputs(&mut self, engines: &mut Engines<'_>) {
        if self.gather_deadline.is_some_and(|at| at > engines.now) {
            return;
        }
        self.gather_deadline = None;
        if !self.unassigned_inputs.is_empty() {
            if let Some(owner) = self.input_owner(engines.now) {
                for pending in core::mem::take(&mut self.unassigned_inputs) {
                    self.assign_input(engines, Some(owner), pending);
                }
            }
        }
        for number in self.calls.take_due() {
            self.send_inputs(engines, number);
        }
    }

    fn send_inputs(&mut self, engines: &mut Engines<'_>, number: u64) {
        let instance = self.calls.instance;
        let has_room = self.calls.suspended_count() < MAX_SUSPENDED;
        let Some(relayed) = self.calls.get_mut(number) else { return };
        let DownstreamCall::Delivered(call) = &relayed.downstream else { return };
        if relayed.inputs.is_empty() {
            return;
        }
        let declared = Capabilities::from_json(&engines.downstream.peer(call).capabilities);
        let (mut requests, mut refused) = (InputRequests::new(), Vec::new());
        for pending in &mut relayed.inputs {
            let adapted = if has_room {
                adapt_input(pending, &declared, call.version(), number)
            } else {
                Err(RpcError::internal("too many calls wait for their clients"))
            };
            match adapted {
                Ok(()) => _ = requests.insert(pending.name.clone(), pending.request.clone()),
                Err(why) => refused.push((pending.input, why)),
            }
        }
        if !requests.is_empty() {
            let state = RetryToken { instance, number, round: relayed.round + 1 }.encode();
            let (input_timeout, outcome) = (
                engines.downstream.config().effective_limits().input_timeout,
                engines.downstream.need_input(engines.now, call, &requests, &state),
            );
            match outcome {
                Ok(()) => {
                    relayed.round += 1;
                    relayed.inputs.retain(|pending| requests.get(&pending.name).is_some());
                    relayed.inputs.iter_mut().for_each(|pending| pending.is_sent = true);
                    self.calls.suspend(number, engines.now + input_timeout + RETRY_GRACE_PERIOD);
                }
                // The call has ended; an event reports that.
                Err(UseError::Stale) => return,
                Err(why) => {
                    let error = input_error(&why);
                    refused.extend(relayed.inputs.iter().map(|pending| (pending.input, error.clone())));
                }
            }
        }
        for (input, error) in refused {
            self.calls.remove_input(input);
            refuse_input(engines, input, &error);
        }
    }

    /// Continues a call whose client has sent it again with answers.
    pub(super) fn resume_call(&mut self, engines: &mut Engines<'_>, call: Call) {
        let number = match self.calls.resume(call) {
            Ok(number) => number,
            Err(call) => return fail(engines, call.id(), &no_waiter_error()),
        };
        let Some(relayed) = self.calls.get_mut(number) else { return };
        let DownstreamCall::Delivered(call) = &relayed.downstream else { return };
        let mut answered = Vec::new();
        for pending in &mut relayed.inputs {
            if !core::mem::take(&mut pending.is_sent) {
                continue;
            }
            let given = match call.answer(&pending.name) {
                // The input request is sent again, with another call if this one has ended.
                None | Some(Err(CallError::Cancelled)) => continue,
                Some(Ok(answer)) => {
                    let read = pending.request.method().map(|method| InputResponse::parse(method, answer));
                    match read {
                        Some(Ok(response)) => engines
                            .upstream
                            .answer(engines.upstream_now, pending.input, &response)
                            .map_err(|e| e.to_string()),
                        Some(Err(mismatch)) => Err(mismatch.to_string()),
                        None => Err("the method of the input request is unknown".to_owned()),
                    }
                    .map_err(|why| {
                        RpcError::invalid_params(format!("the client's answer cannot be passed on: {why}"))
                    })
                }
                Some(Err(error)) => Err(super::convert::failed_call_error(error)),
            };
            if let Err(error) = given {
                refuse_input(engines, pending.input, &error);
            }
            answered.push(pending.input);
        }
        for input in answered {
            self.calls.remove_input(input);
        }
        match self.calls.take_outcome(number) {
            Some(outcome) => self.finish(engines, number, outcome),
            None => self.calls.mark_due(number),
        }
    }
}

/// Adapts an input request to the revision and capabilities of the client.
///
/// # Errors
///
/// Returns the error for the server if the client cannot be asked.
#[expect(deprecated, reason = "supported until its removal")]
fn adapt_input(
    pending: &mut RelayedInput,
    declared: &Capabilities,
    version: Version,
    number: u64,
) -> Result<(), RpcError> {
    // The names of the protocol in it are those of the other side, such as that of its task.
    let meta = match &mut pending.request {
        InputRequest::Elicit(ElicitParams::Form(form)) => Some(&mut form.meta),
        InputRequest::Elicit(ElicitParams::Url(page)) => Some(&mut page.meta),
        InputRequest::CreateMessage(params) => Some(&mut params.meta),
        InputRequest::ListRoots(params) => params.as_mut().map(|params| &mut params.meta),
        _ => None,
    };
    if let Some(meta) = meta {
        *meta = meta.as_ref().and_then(super::convert::application_meta);
    }
    match &mut pending.request {
        // Only 2025-11-25 requires this id. The client gets no completion notification for it.
        InputRequest::Elicit(ElicitParams::Url(page)) if version == Version::V2025_11_25 => {
            page.elicitation_id.get_or_insert_with(|| format!("bridge-{number}-{}", pending.name));
        }
        // A client may supply less context than requested.
        InputRequest::CreateMessage(params) if !declared.has(Capability::SamplingContext) => {
            params.include_context = None;
        }
        _ => {}
    }
    if let Some(lacks) = declared.missing(&pending.request.required_capabilities(version)).iter().last() {
        return Err(input_error(&UseError::MissingPeerCapability(lacks)));
    }
    encode_for(version, &pending.request).map(drop).map_err(|error| input_error(&error.into()))
}

/// Returns the error for the server when the client cannot be asked.
fn input_error(reason: &UseError) -> RpcError {
    match reason {
        UseError::MissingPeerCapability(capability) => {
            let required = ClientCapabilities::from(&Capabilities::new().with(*capability));
            let lacks = format!("the client does not have the capability `{capability}`");
            let error = RpcError::missing_client_capability(required);
            let mut error = error.unwrap_or_else(|_| RpcError::invalid_request(""));
            error.message = lacks.into();
            error
        }
        UseError::NotInVersion { feature: what, version } => {
            RpcError::invalid_request(format!("the client speaks {version}, which does not have `{what}`"))
        }
        UseError::InvalidInputRequest { reason, .. } => {
            RpcError::invalid_params(format!("the input request is invalid: {reason}"))
        }
        other => RpcError::internal(format!("the client cannot be asked: {other}")),
    }
}

/// Returns the error for a retry of a call that does not wait.
pub(super) fn no_waiter_error() -> RpcError {
    RpcError::invalid_params("nothing waits for these answers any more: call again without them")
}

/// Delay before sending requests of a legacy server, which may send several at the same time.
const INPUT_GATHER_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of input requests that wait for a call to be attached to.
const MAX_UNASSIGNED_INPUTS: usize = 16;
