//! Subscriptions of a client beside others.

use mcp_proto::client::{Event, KnownEra, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;

use super::super::Scenario;
use super::client::{MessageClient, response};
use super::engine::id_of;
use super::{Scattered, limits, warmed_up};

/// A subscription to a resource of its own.
struct OpenSubscription {
    key: SubscriptionKey,
    /// The id of its request.
    id: u64,
    resource: usize,
}

/// `n` subscriptions of one client.
struct Subscriptions {
    client: MessageClient,
    era: KnownEra,
    open: Vec<OpenSubscription>,
    order: Scattered,
}

impl Subscriptions {
    fn new(era: KnownEra, n: usize) -> Self {
        let client = MessageClient::connected(era, limits(n));
        let mut all = Self { client, era, open: Vec::with_capacity(n), order: Scattered::new(n) };
        for resource in 0..n {
            let subscription = all.open(resource);
            all.open.push(subscription);
        }
        all
    }

    fn open(&mut self, resource: usize) -> OpenSubscription {
        let filter = SubscriptionFilter::new().resource_subscriptions([uri(resource)]);
        let client = &mut self.client;
        let key = client.engine.subscribe(client.now, &filter).expect("a subscription");
        let id = id_of(&client.pop_message().expect("a request"));
        if self.era == KnownEra::Modern {
            client.deliver(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":\
                 {{\"notifications\":{{\"resourceSubscriptions\":[\"{}\"]}},{}}}}}",
                uri(resource),
                subscription_meta(id)
            ));
        } else {
            client.deliver(&response(id, "{}"));
        }
        let event = client.engine.poll_event(client.now);
        assert!(matches!(event, Some(Event::Subscribed { .. })), "acknowledged: {event:?}");
        OpenSubscription { key, id, resource }
    }
}

fn uri(resource: usize) -> String {
    format!("file:///harbour/{resource:06}")
}

/// Returns the member by which a modern notification names its subscription.
fn subscription_meta(id: u64) -> String {
    format!("\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}")
}

/// The end of one of `n` subscriptions, and the begin of another to the same resource.
pub(super) struct Subscribe(Subscriptions);

impl Subscribe {
    pub(super) fn new(era: KnownEra, n: usize) -> Self {
        warmed_up(Self(Subscriptions::new(era, n)))
    }
}

impl Scenario for Subscribe {
    fn run_once(&mut self) {
        let Self(all) = self;
        let index = all.order.advance();
        let ended = &all.open[index];
        let resource = ended.resource;
        all.client.engine.unsubscribe(all.client.now, ended.key).expect("an open subscription");
        let request = all.client.pop_message().expect("a request or a cancellation");
        if all.era == KnownEra::Legacy {
            all.client.deliver(&response(id_of(&request), "{}"));
            while all.client.engine.poll_event(all.client.now).is_some() {}
        }
        all.open[index] = all.open(resource);
        all.client.turn();
    }
}

/// A change that concerns one of `n` subscriptions.
pub(super) struct ReceiveChange(Subscriptions);

impl ReceiveChange {
    pub(super) fn new(era: KnownEra, n: usize) -> Self {
        warmed_up(Self(Subscriptions::new(era, n)))
    }
}

impl Scenario for ReceiveChange {
    fn run_once(&mut self) {
        let Self(all) = self;
        let subscription = &all.open[all.order.advance()];
        let is_modern = all.era == KnownEra::Modern;
        let meta = if is_modern { format!(",{}", subscription_meta(subscription.id)) } else { String::new() };
        let uri = uri(subscription.resource);
        all.client.deliver(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\
             \"params\":{{\"uri\":\"{uri}\"{meta}}}}}"
        ));
        let event = all.client.engine.poll_event(all.client.now);
        assert!(matches!(event, Some(Event::Changed { .. })), "a change: {event:?}");
        all.client.turn();
    }
}
