//! Subscriptions at a server: opened, closed and served beside others.

use mcp_proto::{Change, ChannelId};

use super::super::{Scenario, TIME_STEP, advance};
use super::engine::{FIRST_NUMBER, MessageServer, NumberedMessage};
use super::{Scattered, limits, warmed_up};
use crate::wire::modern;

/// Returns `subscriptions/listen` to the tools and to one resource, with the number in its id.
fn listen(uri: &str) -> NumberedMessage {
    let meta = modern();
    NumberedMessage::new(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":\
         {{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"{uri}\"]}},{meta}}}}}"
    ))
}

/// The end of one of `n` modern subscriptions, and the begin of another in its place.
pub(super) struct Listen {
    server: MessageServer,
    subscriptions: Vec<(ChannelId, u64)>,
    listen: NumberedMessage,
    cancellation: NumberedMessage,
    order: Scattered,
    next: u64,
}

impl Listen {
    /// The subscriptions have one channel each, or one channel.
    pub(super) fn new(n: usize, apart: bool) -> Self {
        let mut server = MessageServer::new(limits(n));
        let shared = server.engine.open_channel(server.now);
        let cancellation = NumberedMessage::new(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":#,{}}}}}",
            modern()
        ));
        let mut listen = listen("file:///harbour/tide");
        let subscriptions = (FIRST_NUMBER..).take(n).map(|id| {
            let channel = if apart { server.engine.open_channel(server.now) } else { shared };
            server.deliver(channel, listen.with(id));
            assert!(server.drain(channel) > 0, "acknowledged");
            (channel, id)
        });
        let subscriptions = subscriptions.collect();
        assert!(server.next_call().is_none(), "no call");
        let (order, next) = (Scattered::new(n), FIRST_NUMBER + n as u64);
        warmed_up(Self { server, subscriptions, listen, cancellation, order, next })
    }
}

impl Scenario for Listen {
    fn run_once(&mut self) {
        let (channel, id) = &mut self.subscriptions[self.order.advance()];
        self.server.deliver(*channel, self.cancellation.with(*id));
        *id = self.next;
        self.next += 1;
        self.server.deliver(*channel, self.listen.with(*id));
        assert!(self.server.drain(*channel) > 0, "acknowledged");
        assert!(self.server.next_call().is_none(), "no call");
        self.server.turn();
    }
}

/// The end of one of `n` legacy subscriptions to resources, and its begin.
pub(super) struct SubscribeResource {
    server: MessageServer,
    channels: Vec<ChannelId>,
    requests: [NumberedMessage; 2],
    order: Scattered,
}

/// Returns a request of a legacy client about one of many resources; its number is that of the resource.
fn resource_request(method: &str) -> NumberedMessage {
    NumberedMessage::new(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{\"uri\":\"file:///harbour/#\"}}}}"
    ))
}

impl SubscribeResource {
    /// The subscriptions are of one session each and to one resource, or of one session and to a resource each.
    pub(super) fn new(n: usize, apart: bool) -> Self {
        let mut server = MessageServer::new(limits(n));
        let mut requests = ["resources/unsubscribe", "resources/subscribe"].map(resource_request);
        let channels: Vec<ChannelId> =
            (0..if apart { n } else { 1 }).map(|_| server.open_session()).collect();
        for index in 0..n {
            let channel = channels[index % channels.len()];
            server.deliver(channel, requests[1].with(Self::resource(&channels, index)));
            assert!(server.drain(channel) > 0, "an answer");
        }
        assert!(server.next_call().is_none(), "no call");
        warmed_up(Self { server, channels, requests, order: Scattered::new(n) })
    }

    fn resource(channels: &[ChannelId], index: usize) -> u64 {
        FIRST_NUMBER + (index / channels.len()) as u64
    }
}

impl Scenario for SubscribeResource {
    fn run_once(&mut self) {
        let index = self.order.advance();
        let channel = self.channels[index % self.channels.len()];
        for request in &mut self.requests {
            self.server.deliver(channel, request.with(Self::resource(&self.channels, index)));
            assert!(self.server.drain(channel) > 0, "an answer");
        }
        assert!(self.server.next_call().is_none(), "no call");
        self.server.turn();
    }
}

/// A change of one of `n` resources, each with one subscriber.
pub(super) struct PublishOne {
    server: MessageServer,
    subscribers: Vec<(ChannelId, Change)>,
    order: Scattered,
}

impl PublishOne {
    pub(super) fn new(n: usize) -> Self {
        let mut server = MessageServer::new(limits(n));
        let subscribers = (0..n).map(|index| {
            let channel = server.engine.open_channel(server.now);
            let uri = format!("file:///harbour/{index:06}");
            server.deliver(channel, listen(&uri).with(FIRST_NUMBER));
            assert!(server.drain(channel) > 0, "acknowledged");
            (channel, Change::Resource(uri))
        });
        let subscribers = subscribers.collect();
        assert!(server.next_call().is_none(), "no call");
        let mut publish = Self { server, subscribers, order: Scattered::new(n) };
        // The first notification of a channel allocates.
        (0..n).for_each(|_| publish.run_once());
        warmed_up(publish)
    }
}

impl Scenario for PublishOne {
    fn run_once(&mut self) {
        advance(&mut self.server.now, TIME_STEP);
        let (channel, change) = &self.subscribers[self.order.advance()];
        assert_eq!(self.server.engine.publish(self.server.now, change), 1, "one subscriber");
        assert!(self.server.drain(*channel) > 0, "a notification");
        self.server.turn();
    }
}
