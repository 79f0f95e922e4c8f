//! The device flow: a user authorizes on another device (RFC 8628).

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

use super::super::document::{Defect, Document};
use super::super::request::FetchResponse;
use super::facts::Facts;
use super::{Event, Flow, Purpose, State, UserCode};
use crate::error::{Error, ErrorKind, Step};
use crate::token::Secret;
use mcp_proto::Instant;

/// Seconds between two polls, if the server names none (RFC 8628, 3.2).
const INTERVAL: u64 = 5;
/// Bounds of the interval, in seconds.
const INTERVALS: core::ops::RangeInclusive<u64> = 1..=120;
/// Largest number of errors of the connection or of the server in a row.
const MAX_FAILURES: u8 = 5;

/// The state of polling.
pub(super) struct DevicePoll {
    device_code: Secret,
    /// Seconds between two polls.
    interval: u64,
    until: Instant,
    failures: u8,
}

impl Flow {
    pub(super) fn request_device_code(&mut self) {
        let endpoint =
            self.facts.issuer.as_ref().and_then(|issuer| issuer.device_authorization_endpoint.clone());
        let (Some(endpoint), Some(client), Some(issuer)) = (endpoint, &self.facts.client, &self.facts.issuer)
        else {
            let why = "`device_authorization_endpoint` is missing";
            return self.unsupported(Step::DeviceAuthorization, why, "RFC 8628, 4");
        };
        let mut request = super::ClientRequest::new(endpoint, client.client.clone(), issuer.issuer.clone());
        request.optional("scope", self.facts.scope_param());
        request.optional("resource", self.facts.resource_param().as_deref());
        self.request(Box::new(request), Purpose::Device);
    }

    pub(super) fn device_authorized(&mut self, response: &FetchResponse) {
        match self.facts.read_user_code(response) {
            Ok((user_code, device_code, interval)) => {
                // The server may name any lifetime, but the user has no more time than for another login.
                let valid = Duration::from_secs(user_code.expires_in).min(self.facts.config.login_timeout);
                let poll = DevicePoll {
                    device_code: device_code.into(),
                    interval,
                    until: self.now + valid,
                    failures: 0,
                };
                self.emit(Event::ShowUserCode(user_code));
                self.wait_to_poll(poll);
            }
            Err(why) => self.invalid(Step::DeviceAuthorization, why, "RFC 8628, 3.2"),
        }
    }

    fn wait_to_poll(&mut self, poll: DevicePoll) {
        let at = self.now + Duration::from_secs(poll.interval);
        if at > poll.until {
            return self.fail_at(Step::DeviceAuthorization, ErrorKind::TimedOut, "RFC 8628, 3.5");
        }
        self.deadline = Some(at);
        self.state = State::WaitingToPoll(poll);
    }

    pub(super) fn poll_device(&mut self, poll: DevicePoll) {
        let grant = "urn:ietf:params:oauth:grant-type:device_code";
        let Some(mut request) = self.token_request(Step::Token, grant) else { return };
        request.param("device_code", poll.device_code.clone());
        self.request(request, Purpose::DevicePoll(poll));
    }

    /// Handles a poll that brought no token (RFC 8628, 3.5).
    pub(super) fn device_refused(&mut self, mut poll: DevicePoll, server: String, kind: ErrorKind) {
        match &kind {
            ErrorKind::Refused { code, .. } if &**code == "authorization_pending" => {
                // The server has answered, so the errors are no longer in a row.
                poll.failures = 0;
                self.wait_to_poll(poll);
            }
            ErrorKind::Refused { code, .. } if &**code == "slow_down" => {
                // RFC 8628, 3.5: five seconds more for this poll and all later ones.
                poll.interval = (poll.interval + 5).min(*INTERVALS.end());
                self.wait_to_poll(poll);
            }
            ErrorKind::Fetch(_) | ErrorKind::Status(408 | 429 | 500..=599)
                if poll.failures < MAX_FAILURES =>
            {
                poll.failures += 1;
                // RFC 8628, 3.5: after an error of the connection the interval grows exponentially. Some servers say
                // `slow_down` with 429.
                poll.interval = (poll.interval * 2).min(*INTERVALS.end());
                self.wait_to_poll(poll);
            }
            _ => self.end_with(Error::new(Step::Token, server, kind, "RFC 8628, 3.5")),
        }
    }
}

impl Facts {
    pub(super) fn read_user_code(&self, response: &FetchResponse) -> Result<(UserCode, String, u64), Defect> {
        Document::read(
            &response.body,
            |why| why,
            |document| {
                let url = |name: &str| {
                    document.string(name).map(|text| self.policy().parse(name, &text)).transpose()
                };
                let user_code = UserCode {
                    user_code: document.required_string("user_code"),
                    verification_uri: url("verification_uri")?.ok_or("`verification_uri` is missing")?,
                    verification_uri_complete: url("verification_uri_complete")?,
                    expires_in: document.seconds("expires_in").ok_or("`expires_in` is missing")?,
                };
                let interval = document.seconds("interval").unwrap_or(INTERVAL);
                let interval = interval.clamp(*INTERVALS.start(), *INTERVALS.end());
                Ok((user_code, document.required_string("device_code"), interval))
            },
        )
    }
}
