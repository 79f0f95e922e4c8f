//! Requests that a server does not answer at once: it asks its client first, or makes them tasks.

use alloc::sync::Arc;

use mcp_proto::client::{Input, InputId};
use mcp_proto::model::{ElicitFormParams, ElicitParams, ElicitSchema, InputRequest, InputRequests};
use mcp_proto::server::{Call, TaskOffer, TaskOptions, TaskTable};
use mcp_proto::{Anchor, Capabilities, Capability, Entropy, Instant, RawJson, client, seal, server};
use serde_json::{Value, json};

use super::{Application, Connection, Lane, Plan, Request, What, World, principal};

/// Number of questions about one request.
const MAX_QUESTIONS: u32 = 2;

/// The time of day at the start of a world.
pub(super) const ANCHOR: Anchor = Anchor::new(Instant::ZERO, 1_785_578_400);

/// Lets both sides use what the plan has.
pub(super) fn configure(
    plan: &Plan,
    mut client: client::Config,
    mut server: server::Config,
) -> (client::Config, server::Config) {
    if plan.questions > 0 {
        client = client.capabilities(Capabilities::new().with(Capability::Elicitation));
        server = server.seal(seal::Keys::new([5; 32]), ANCHOR);
    }
    if plan.tasks > 0 {
        client = client.tasks();
    }
    (client, server)
}

/// Returns the empty table of tasks of a server.
pub(super) fn task_table(number: u64) -> TaskTable {
    TaskTable::new(Entropy::new([9; 32], number), ANCHOR)
}

/// Returns the key of a question about a request that was delivered so often before.
fn key(attempt: u32) -> String {
    format!("question-{attempt}")
}

impl<A: Application> World<A> {
    /// Chooses a request of the server of `n`.
    fn choose_request(&mut self, n: usize) -> Option<(usize, Request)> {
        let at = self.draws.below(64) as usize;
        let requests = &self.connections[n].requests;
        let at = at.checked_rem(requests.len())?;
        Some((at, requests[at].clone()))
    }

    /// Ends a request that its server will see again, under another key.
    fn postpone(&mut self, n: usize, at: usize, what: What) {
        let postponed = self.connections[n].requests.remove(at);
        let lane = postponed.lane;
        self.connections[n].ended_requests.push(postponed);
        self.record(lane, what);
    }

    /// Asks the client about a request, which is delivered again with the answer.
    pub(super) fn ask(&mut self, n: usize) {
        let Some((at, Request { call, lane, name, .. })) = self.choose_request(n) else { return };
        let Lane::Server(owner) = lane else { return };
        if call.attempt() >= MAX_QUESTIONS {
            return;
        }
        let message = format!("{}: {name}?", principal(owner));
        let schema =
            RawJson::new(r#"{"type":"object","properties":{"text":{"type":"string"}}}"#).expect("JSON");
        let form = ElicitFormParams::new(message.clone(), schema.parse::<ElicitSchema>().expect("a form"));
        let key = key(call.attempt());
        let questions: InputRequests<'_> = [(&*key, InputRequest::Elicit(form.into()))].into_iter().collect();
        let now = self.now;
        let Some(engine) = self.server_engine(n) else { return };
        // Refused if the client, or its revision, has no questions.
        if engine.need_input(now, &call, &questions, message.as_bytes()).is_ok() {
            self.postpone(n, at, What::Postponed { request: name });
        }
    }

    /// Makes a request a task, which is delivered again as the run of the task.
    pub(super) fn begin_task(&mut self, n: usize) {
        let Some((at, Request { call, name, .. })) = self.choose_request(n) else { return };
        let now = self.now;
        let Some(engine) = self.server_engine(n) else { return };
        if call.task_offer() != TaskOffer::None && engine.tasks(now).begin(&call, TaskOptions::new()).is_ok()
        {
            self.postpone(n, at, What::Postponed { request: name });
        }
    }

    /// Returns why the answer to the last question about a call is that to another question.
    pub(super) fn find_mistake(call: &Arc<Call>) -> Option<String> {
        let asked = String::from_utf8_lossy(call.state()?).into_owned();
        let Some(Ok(answer)) = call.answer(&key(call.attempt().checked_sub(1)?)) else { return None };
        let answer: Value = answer.parse().ok()?;
        let text = answer.pointer("/content/text")?.as_str()?;
        (text != asked).then(|| format!("{asked:?} was answered by {text:?}"))
    }

    /// Keeps a question until the client answers it.
    pub(super) fn receive_question(&mut self, n: usize, input: &Input) {
        if let InputRequest::Elicit(ElicitParams::Form(form)) = &*input.request {
            self.connections[n].questions.push((input.id, form.message.to_string()));
        }
    }

    pub(super) fn withdraw_question(&mut self, n: usize, withdrawn: InputId) {
        self.connections[n].questions.retain(|(id, _)| *id != withdrawn);
    }

    /// Answers a question as a client; returns whether there was one.
    pub(super) fn reply(&mut self, n: usize, at: usize) -> bool {
        let now = self.now;
        let Connection { client: Some(client), questions, .. } = &mut self.connections[n] else {
            return false;
        };
        let Some(at) = at.checked_rem(questions.len()) else { return false };
        let (id, text) = questions.remove(at);
        // Refused if its withdrawal is an event that was not polled yet.
        let _ = client.engine().answer(now, id, &json!({"action": "accept", "content": {"text": text}}));
        true
    }
}
