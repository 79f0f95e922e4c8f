//! Deliveries to webhooks on their way, and strangers who forge some or ask for events of others.

use mcp_events::delivery::{Delivery, Outcome};
use mcp_events::follow::GapReason;
use mcp_events::receiver::{self, Answer, Message, RegistrationKey};
use mcp_events::webhook::{self, SUBSCRIPTION_ID, Secret, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use mcp_events::wire;
use mcp_proto::RawJson;

use super::super::http::STRANGER;
use super::super::inputs::ANCHOR;
use super::super::stranger::MODERN;
use super::super::{Application, Lane, What, World};
use super::{Events, Following, MAX_SEEN, Machine, Way, callback};

/// The fate of a delivery on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    /// The receiver cannot store it.
    IsNotKept,
    /// It arrives, and its answer is lost.
    LosesItsAnswer,
    IsLost,
    /// It arrives now, and once more later.
    IsRepeated,
}

/// A delivery on its way to the receiver.
#[derive(Clone, Debug)]
pub(super) struct Post {
    /// Index of the server, and its process.
    pub(super) index: usize,
    pub(super) life: u64,
    pub(super) delivery: Delivery,
    /// Whether the server has its outcome.
    pub(super) is_over: bool,
}

/// Returns the fields of a delivery, as they are sent.
fn fields(delivery: &Delivery) -> Vec<(&'static str, String)> {
    delivery.headers.iter().map(|(name, value)| (*name, value.clone())).collect()
}

fn field<'f>(fields: &'f [(&'static str, String)], name: &str) -> &'f str {
    fields.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

fn set_field(fields: &mut [(&'static str, String)], name: &str, value: String) {
    if let Some(found) = fields.iter_mut().find(|(known, _)| *known == name) {
        found.1 = value;
    }
}

/// # Deliveries
impl<A: Application> World<A> {
    /// Lets a delivery that is on its way meet its fate; returns whether there was one.
    pub(super) fn deliver(&mut self, at: usize, fate: Fate) -> bool {
        let Some(at) = at.checked_rem(self.events.posts.len()) else { return false };
        let post = self.events.posts.remove(at);
        if fate == Fate::IsLost {
            self.fail_delivery(&post);
            return true;
        }
        let answer = self.arrive(&fields(&post.delivery), &post.delivery.body, fate != Fate::IsNotKept);
        self.events.seen.push_back(post.delivery.clone());
        if self.events.seen.len() > MAX_SEEN {
            self.events.seen.pop_front();
        }
        if fate == Fate::IsRepeated {
            self.events.posts.push(Post { is_over: true, ..post.clone() });
        }
        if fate == Fate::LosesItsAnswer {
            self.fail_delivery(&post);
        } else {
            let body = answer.body.as_bytes();
            self.end_delivery(&post, &Outcome::Answer { status: answer.status, retry_after: None, body });
        }
        true
    }

    /// Notes that there is no attempt after this one.
    pub(super) fn give_up(&mut self, body: &str) {
        let event = RawJson::new(body.to_owned()).ok().and_then(|body| body.member("eventId")?.string());
        let webhooks = self.events.followings.iter_mut().filter(|following| following.way == Way::Webhook);
        for following in webhooks {
            following.missing.retain(|missing| Some(missing) != event.as_ref());
        }
    }

    fn fail_delivery(&mut self, post: &Post) {
        self.end_delivery(post, &Outcome::Failed(mcp_events::delivery::Failure::Connection));
    }

    fn end_delivery(&mut self, post: &Post, outcome: &Outcome<'_>) {
        let (now, Events { servers, .. }) = (self.now, &mut self.events);
        // The answer finds no process but the one that has asked.
        let asked = servers.get_mut(&post.index).filter(|server| server.life == post.life && !post.is_over);
        if let Some(server) = asked {
            server.handle_answer(now, post.delivery.id, outcome);
        }
    }

    /// Passes a request to the receiver; returns its answer.
    fn arrive(&mut self, fields: &[(&'static str, String)], body: &[u8], is_kept: bool) -> Answer {
        let lines: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let request = receiver::Request { method: "POST", fields: &lines, body };
        let unix_secs = ANCHOR.unix_secs(self.now);
        match self.events.receiver.receive(&request, unix_secs).into_message() {
            Ok((registration, message, receipt)) => {
                let answer = self.events.receiver.confirm(receipt, is_kept);
                if is_kept {
                    self.keep_message(registration, message);
                }
                answer
            }
            Err(answer) => answer,
        }
    }

    /// Takes a message that the receiver has handed out.
    fn keep_message(&mut self, registration: RegistrationKey, message: Message) {
        let is_it = |following: &Following| match &following.machine {
            Machine::Webhook(subscription) => subscription.registration() == registration,
            _ => false,
        };
        let at = self.events.followings.iter().position(is_it).expect("a registration has its follower");
        self.with_following(at, |world, following| match message {
            Message::Event(event) => world.hand_out(following, event.event_id),
            Message::Gap { .. } => world.report_missing(following, GapReason::Truncated),
            _ => {}
        });
    }

    /// Sends a request to the receiver that no server has made.
    pub(super) fn forge(&mut self) {
        let at = self.draws.below(MAX_SEEN as u32) as usize;
        let kind = self.draws.below(7);
        if self.network.is_some() && self.draws.below(3) == 2 {
            return self.ask_for_events(kind);
        }
        let Some(at) = at.checked_rem(self.events.seen.len()) else { return };
        let delivery = &self.events.seen[at];
        let (mut fields, mut body) = (fields(delivery), delivery.body.clone());
        let unix_secs = ANCHOR.unix_secs(self.now);
        let sent_at: u64 = field(&fields, WEBHOOK_TIMESTAMP).parse().unwrap_or_default();
        let text = match kind {
            0 => "a delivery is replayed",
            1 => {
                if let Some(last) = body.iter_mut().rfind(|byte| byte.is_ascii_digit()) {
                    *last = if *last == b'0' { b'1' } else { b'0' };
                } else {
                    body.push(b' ');
                }
                "a delivery has another body"
            }
            2 => {
                let id = format!("{}0", field(&fields, WEBHOOK_ID));
                set_field(&mut fields, WEBHOOK_ID, id);
                "a delivery has another id"
            }
            3 => {
                set_field(&mut fields, WEBHOOK_TIMESTAMP, (unix_secs + 1).max(sent_at + 1).to_string());
                "a delivery has another time"
            }
            4 => {
                let other = self
                    .events
                    .seen
                    .iter()
                    .map(|other| field(&self::fields(other), SUBSCRIPTION_ID).to_owned());
                let own = field(&fields, SUBSCRIPTION_ID).to_owned();
                let Some(other) = other.into_iter().find(|other| *other != own) else { return };
                set_field(&mut fields, SUBSCRIPTION_ID, other);
                "a delivery has another subscription"
            }
            _ => {
                if kind == 6 {
                    body = br#"{"type":"verification","challenge":"a stranger's"}"#.to_vec();
                }
                let secret = Secret::from_entropy([0xF0; 32]);
                let signature = webhook::sign([&secret], field(&fields, WEBHOOK_ID), unix_secs, &body);
                set_field(&mut fields, WEBHOOK_TIMESTAMP, unix_secs.to_string());
                set_field(&mut fields, WEBHOOK_SIGNATURE, signature);
                "a stranger signs"
            }
        };
        // What is replayed in time may be new: the delivery itself was lost then.
        let is_forged = kind > 0 || unix_secs > sent_at + webhook::TOLERANCE.as_secs();
        let answer = self.arrive(&fields, &body, true);
        let text = format!("{text}: {}", answer.status);
        let is_taken = is_forged && answer.status < 300;
        self.record(Lane::World, What::Forged { text, is_taken });
    }
}

/// # Strangers
impl<A: Application> World<A> {
    /// Asks the server over HTTP, as a stranger, for what a client follows.
    fn ask_for_events(&mut self, kind: u32) {
        let at = self.draws.below(16) as usize;
        let Some(at) = at.checked_rem(self.events.followings.len()) else { return };
        let Following { n, lane, audience, cursor, .. } = &self.events.followings[at];
        let (n, url, arguments) = (*n, callback(*lane), audience.arguments());
        let what = format!(r#""name":"{}","arguments":{}"#, audience.name, arguments.as_str());
        let (method, more) = match kind {
            0 | 1 => {
                let cursor =
                    cursor.as_deref().map_or_else(|| "null".to_owned(), |cursor| format!("{cursor:?}"));
                (wire::POLL, format!(r#""cursor":{cursor}"#))
            }
            2 => (wire::UNSUBSCRIBE, format!(r#""delivery":{{"url":"{url}"}}"#)),
            _ => {
                let secret = Secret::from_entropy([0xF1; 32]).reveal();
                (
                    wire::SUBSCRIBE,
                    format!(r#""delivery":{{"url":"{url}","secret":"{secret}"}},"cursor":null"#),
                )
            }
        };
        let meta = format!(
            r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
        );
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{what},{more},{meta}}}}}"#);
        let fields = vec![
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
            ("Authorization", format!("Bearer {STRANGER}")),
            ("MCP-Protocol-Version", MODERN.to_owned()),
            ("Mcp-Method", method.to_owned()),
        ];
        // A poll is answered, without the events of others; and he may unsubscribe from what he has asked for before.
        self.send_to_endpoint(n, "POST", fields, body, method == wire::SUBSCRIBE);
    }
}
