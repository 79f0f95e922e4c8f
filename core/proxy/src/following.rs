//! Resources that clients follow: the upstreams that are told, and the clients that learn of changes.

use mcp_proto::model::Map;
use mcp_proto::server::{Announcement, Audience};
use mcp_proto::{Capability, Change, EntryKind, RawJson};

use super::gateway::{Gateway, GatewayEngines};
use super::policy::{Access, Decision};
use super::subscriptions::Notice;

impl Gateway {
    /// Notes that the first client follows a resource, or that none does any more.
    pub(crate) fn handle_interest(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        uri: String,
        is_followed: bool,
    ) {
        if is_followed {
            self.followed.entry(uri.clone()).or_default();
            let only = self.only_follower(engines);
            return self.route(engines, uri, only);
        }
        for upstream in self.followed.remove(&uri).unwrap_or_default() {
            self.with(engines, upstream, |relay, _| relay.subscriptions.set_followed(uri.clone(), false));
        }
    }

    /// Routes all followed resources anew, if owners or upstreams may have changed.
    pub(crate) fn route_if_due(&mut self, engines: &mut GatewayEngines<'_>) {
        if core::mem::take(&mut self.needs_routing) | self.owners.take_changed() {
            let only = self.only_follower(engines);
            for uri in self.followed.keys().cloned().collect::<Vec<_>>() {
                self.route(engines, uri, only);
            }
        }
    }

    /// Returns the only upstream that may have subscriptions. One that does not run may have them.
    fn only_follower(&self, engines: &mut GatewayEngines<'_>) -> Option<usize> {
        let may_be_able = |index: &usize| {
            let engine = engines.upstreams.engine(*index).filter(|_| self.is_running(*index));
            let peer = engine.as_ref().and_then(|upstream| upstream.engine.peer());
            peer.is_none_or(|peer| peer.has(Capability::ResourceSubscriptions))
        };
        let mut all = self.indices().filter(may_be_able);
        all.next().filter(|_| all.next().is_none())
    }

    /// Tells upstreams of a followed resource that belongs to them, also of one that has got another owner.
    ///
    /// With a policy all owners are told: which one a client sees depends on its principal. A resource that none has listed is
    /// followed at the only upstream that may have subscriptions, or nowhere until one lists it.
    fn route(&mut self, engines: &mut GatewayEngines<'_>, uri: String, only: Option<usize>) {
        #[cfg(test)]
        {
            self.routed += 1;
        }
        let Some(current) = self.followed.get(&uri) else { return };
        let wanted = match self.owners.of_resource(&uri) {
            [] if current.is_empty() => only.into_iter().collect(),
            [] => return,
            // Each of them may be the one that some client sees.
            owners if self.has_policy() => owners.to_vec(),
            [first, ..] => vec![*first],
        };
        if wanted == *current {
            return;
        }
        let differing = |from: &[usize], others: &[usize]| {
            from.iter().copied().filter(|upstream| !others.contains(upstream)).collect::<Vec<_>>()
        };
        let changed = [(differing(current, &wanted), false), (differing(&wanted, current), true)];
        for (upstreams, is_followed) in changed {
            for upstream in upstreams {
                self.with(engines, upstream, |relay, _| {
                    relay.subscriptions.set_followed(uri.clone(), is_followed);
                });
            }
        }
        self.followed.insert(uri, wanted);
    }

    /// Publishes the changes of an upstream that a policy decides about, each to those who may use the resource.
    pub(crate) fn publish_notices(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        let relay = self.upstreams.get_mut(upstream).and_then(Option::as_mut);
        for notice in relay.map(|relay| core::mem::take(&mut relay.notices)).unwrap_or_default() {
            let audience = self.audience(upstream, &notice);
            engines.downstream.publish(engines.now, Announcement::new(notice.change).to(audience));
        }
    }

    fn audience(&self, upstream: usize, notice: &Notice) -> Audience {
        let (Some(policy), Change::Resource(uri)) = (self.policy.clone(), &notice.change) else {
            return Audience::EVERYONE;
        };
        let name = |index: usize| self.relay(index).map(|relay| relay.name().to_owned());
        let Some(own) = name(upstream) else { return Audience::NOBODY };
        let before = self.owners.of_resource(uri).iter().take_while(|owner| **owner != upstream);
        let before: Vec<String> = before.filter_map(|owner| name(*owner)).collect();
        let use_of = |uri: &String| {
            let params = RawJson::encode(&Map::from([("uri", uri)])).ok()?;
            Some((uri.clone(), params))
        };
        let Some(followed) = use_of(uri) else { return Audience::NOBODY };
        let Some(part) = use_of(notice.part.as_ref().unwrap_or(uri)) else { return Audience::NOBODY };
        Audience::matching(move |caller| {
            let decide = |upstream: &str, (uri, params): &(String, RawJson)| {
                let (kind, name, payload) = (EntryKind::Resource, uri, params);
                (policy.0)(&Access { caller, upstream, kind, name, payload, is_use: true })
            };
            // To this caller the resource is that of the first upstream which it sees.
            before.iter().all(|upstream| matches!(decide(upstream, &followed), Decision::Hide))
                && [&followed, &part].into_iter().all(|resource| decide(&own, resource).is_shown())
        })
    }
}
