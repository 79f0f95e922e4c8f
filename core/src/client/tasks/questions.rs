//! Input requests of a task in 2026-07-28: each is asked once, and each answer is sent until the server has it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::FollowedTasks;
use super::followed::Question;
use super::table::TaskOutcome;
use crate::built::Conversing;
use crate::calls::outbound::CallKey;
use crate::client::common::CommonState;
use crate::client::event::Event;
use crate::client::input::{Input, InputId, InputSource};
use crate::error::CallError;
use crate::model::{InputRequest, InputRequests};
use crate::slab::Key;
use crate::tasks::pace::is_transient;

/// Number of times that an answer is sent before the server's refusal of it ends the call.
const MAX_ATTEMPTS: u32 = 3;

impl FollowedTasks {
    /// Reports the input requests that were not seen before, by this call or another one that follows the task (TASK-112,
    /// TASK-121). When the other call ends with some of them open, the next state is asked here.
    ///
    /// If `is_current`, the list is known not to be older than those before, and input requests that it lacks are
    /// withdrawn.
    ///
    /// # Errors
    ///
    /// The outcome of the call: the requests are not valid, not declared or too many.
    pub(super) fn ask(
        &mut self,
        common: &mut CommonState,
        call: Key,
        requests: InputRequests<'static>,
        is_current: bool,
    ) -> Result<(), CallError> {
        let limits = crate::sync::Arc::clone(&common.endpoint.limits);
        let invalid = |reason: String| CallError::InvalidInputRequest { reason };
        if requests.len() > limits.max_inputs {
            return Err(invalid(alloc::format!("it has more than {} input requests", limits.max_inputs)));
        }
        let Some(version) = common.peer.as_ref().map(|peer| peer.version) else { return Ok(()) };
        let requests: Vec<(String, InputRequest<'static>)> = requests.into_iter().collect();
        if is_current {
            let names: Vec<&str> = requests.iter().map(|(name, _)| &**name).collect();
            self.withdraw(common, call, &names);
        }
        let Some(id) = self.tasks.get(&call).map(|followed| followed.id.clone()) else { return Ok(()) };
        let is_known = |name: &str| {
            let mut followed = self.calls_of(&id).filter_map(|call| self.tasks.get(&call));
            followed.any(|followed| followed.questions.contains_key(name))
        };
        let mut new: Vec<(String, InputRequest<'static>)> =
            requests.into_iter().filter(|(name, _)| !is_known(name)).collect();
        for (_, request) in &mut new {
            common.config.check_input_request(request, version)?;
        }
        if new.is_empty() {
            // An answer that the server has not got is sent again.
            self.send_answers(common, call);
            return Ok(());
        }
        let Some(followed) = self.tasks.get_mut(&call) else { return Ok(()) };
        // Without it no capability is declared, so no request passes the check.
        let Some(marker) = Conversing::get() else { return Ok(()) };
        followed.rounds += 1;
        if followed.rounds > limits.max_input_rounds {
            return Err(CallError::TooManyRounds { limit: limits.max_input_rounds });
        }
        let added: usize = new.iter().map(|(name, _)| name.len()).sum();
        if common.retained_bytes + added > limits.max_retained_bytes {
            return Err(invalid("it exceeds the limit `max_retained_bytes`".into()));
        }
        common.retained_bytes += added;
        followed.charged_bytes += added;
        followed.input_deadline = Some(common.endpoint.now + limits.input_timeout);
        for (name, request) in new {
            let serial = common.next_serial();
            let (name, method): (Box<str>, _) = (name.into(), request.method().unwrap_or_default());
            followed.questions.insert(name.clone(), Question::Open { serial, method });
            self.open_inputs.insert(serial, (call, name.clone()));
            let id = InputId(InputSource::Task(serial));
            let (call, request) = (Some(CallKey(call)), Box::new(request));
            let input = Input { id, call, key: Some(name), request, _marker: marker };
            common.events.push_back(Event::Input(input));
        }
        self.send_answers(common, call);
        Ok(())
    }

    /// Withdraws the open input requests that are not in `listed`. Answers to the others are not needed any more.
    pub(super) fn withdraw(&mut self, common: &mut CommonState, call: Key, listed: &[&str]) {
        let Some(followed) = self.tasks.get_mut(&call) else { return };
        for (name, question) in &mut followed.questions {
            if listed.contains(&&**name) {
                continue;
            }
            match question {
                Question::Open { serial, .. } => {
                    self.open_inputs.remove(serial);
                    withdraw_input(common, *serial);
                }
                // It waits for its confirmation.
                Question::Answered { in_flight: true, .. } => continue,
                _ => {}
            }
            *question = Question::Closed;
        }
        if !followed.has_open_questions() {
            followed.input_deadline = None;
        }
    }

    /// Handles the answer to `tasks/update` (TASK-118).
    pub(super) fn receive_update(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: Result<(), CallError>,
    ) -> TaskOutcome {
        let max_failures = common.config.polling().max_failures;
        let followed = self.tasks.get_mut(&call)?;
        let Err(error) = outcome else {
            followed.confirm_answers();
            self.send_answers(common, call);
            return None;
        };
        let attempts = followed.lose_answers();
        let max = if is_transient(&error) { max_failures.max(1) } else { MAX_ATTEMPTS };
        if attempts >= max {
            return Some(Err(error));
        }
        // The next state tells whether the answers arrived, or the task is gone.
        if !is_transient(&error) {
            self.poll(common, call);
        }
        None
    }
}

/// Reports that an input request has ended.
pub(super) fn withdraw_input(common: &mut CommonState, serial: u64) {
    common.events.withdraw_input(InputId(InputSource::Task(serial)));
}
