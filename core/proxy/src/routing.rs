//! Which upstream a call of a client belongs to.

use mcp_proto::server::Call;
use mcp_proto::{EntryKind, RawJson, RpcError};

use super::convert;
use super::gateway::{Gateway, GatewayEngines};
use super::input::no_waiter_error;
use super::names;
use super::policy::{Access, Decision};
use super::relayed_call::{Delivery, Others, RetryToken};
use super::tasks::is_continued;

impl Gateway {
    pub(crate) fn handle_call(&mut self, engines: &mut GatewayEngines<'_>, call: Call) {
        if is_continued(&call) {
            let upstream = call.state().and_then(RetryToken::decode).map(RetryToken::upstream);
            let Some(upstream) = upstream.filter(|upstream| self.relay(*upstream).is_some()) else {
                return refuse(engines, &call, &no_waiter_error());
            };
            self.with(engines, upstream, |relay, engines| relay.resume_call(engines, call));
            return;
        }
        self.handle_search(engines, call);
    }

    /// Sends a call where it belongs; `params` are in place of its own.
    pub(crate) fn route_call(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        call: Call,
        params: Option<RawJson>,
    ) {
        let kinds = [EntryKind::Tool, EntryKind::Prompt, EntryKind::Resource, EntryKind::ResourceTemplate];
        if let Some(kind) = kinds.into_iter().find(|kind| kind.list_method() == call.method()) {
            return self.start_list(engines, call, kind);
        }
        let (kind, name, params) = match subject(&call, params.as_ref()) {
            Ok(Some((kind, name))) => match self.full_name(kind, &name) {
                Some(full) => {
                    let params = with_name(&call, params.as_ref(), &full);
                    (kind, full, params)
                }
                None => (kind, name, params),
            },
            Ok(None) => return self.relay_custom(engines, call),
            Err(error) => return refuse(engines, &call, &error),
        };
        match kind {
            EntryKind::Tool | EntryKind::Prompt => match self.owner_of(&name) {
                Some(upstream) => {
                    let delivery = Delivery { call, params, others: None };
                    self.deliver(engines, delivery, (kind, &name), upstream);
                }
                None => refuse(engines, &call, &unknown_error(kind, &name)),
            },
            _ => {
                let owners = match kind {
                    EntryKind::ResourceTemplate => self.owners.of_template(&name),
                    _ => self.owners.of_resource(&name),
                };
                // Hidden owners are passed by, as if they had not listed it.
                let owner = owners.iter().find(|owner| self.is_visible(&call, (kind, &name), **owner));
                match owner.copied() {
                    Some(upstream) => self.deliver(engines, call.into(), (kind, &name), upstream),
                    None => {
                        let upstreams = self.indices().collect();
                        self.ask_next(engines, call, Others { upstreams, error: None });
                    }
                }
            }
        }
    }

    /// Returns the upstream of a tool or prompt.
    pub(crate) fn owner_of(&self, name: &str) -> Option<usize> {
        names::split(name).and_then(|(upstream, _)| self.by_name(upstream))
    }

    /// Sends a call about a resource that no upstream has listed to the first of the others, which may not know it.
    pub(crate) fn ask_next(&mut self, engines: &mut GatewayEngines<'_>, call: Call, mut others: Others) {
        let Ok(Some((kind, name))) = subject(&call, None) else { return };
        let now = engines.now;
        while !others.upstreams.is_empty() {
            let upstream = others.upstreams.remove(0);
            let is_there = self.relay(upstream).is_some_and(|relay| relay.life.absence(now).is_none());
            if is_there && self.is_visible(&call, (kind, &name), upstream) {
                let delivery = Delivery { call, params: None, others: Some(others) };
                return self.deliver(engines, delivery, (kind, &name), upstream);
            }
        }
        let is_visible = |index: &usize| self.is_visible(&call, (kind, &name), *index);
        let absent = self.indices().filter(is_visible).filter_map(|index| self.relay(index));
        let absent = absent.filter(|relay| relay.life.absence(now).is_some());
        let absent: Vec<String> = absent.map(|relay| format!("`{}`", relay.name())).collect();
        let error = if let Some(error) = others.error {
            error
        } else if absent.is_empty() {
            unknown_error(kind, &name)
        } else {
            RpcError::internal(format!("no server that runs knows this; not running: {}", absent.join(", ")))
        };
        refuse(engines, &call, &error);
    }

    fn is_visible(&self, call: &Call, (kind, name): (EntryKind, &str), upstream: usize) -> bool {
        !matches!(self.decide_use(call, (kind, name), None, upstream), Decision::Hide)
    }

    /// Decides about a use of an entry; `params` are in place of those of the call.
    pub(crate) fn decide_use(
        &self,
        call: &Call,
        (kind, name): (EntryKind, &str),
        params: Option<&RawJson>,
        upstream: usize,
    ) -> Decision {
        let Some(relay) = self.relay(upstream) else { return Decision::Hide };
        if !self.has_policy() {
            return Decision::Allow;
        }
        let name = match kind {
            EntryKind::Tool | EntryKind::Prompt => names::split(name).map_or(name, |(_, name)| name),
            _ => name,
        };
        let Some(payload) = given(call, params) else { return Decision::Allow };
        let (caller, upstream) = (call.caller(), relay.name());
        self.decide(&Access { caller, upstream, kind, name, payload: &payload, is_use: true })
    }

    /// Sends a call to an upstream if the policy allows it.
    fn deliver(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        Delivery { call, params, others }: Delivery,
        subject: (EntryKind, &str),
        upstream: usize,
    ) {
        let params = match self.decide_use(&call, subject, params.as_ref(), upstream) {
            Decision::Allow => params,
            Decision::Hide => return refuse(engines, &call, &unknown_error(subject.0, subject.1)),
            Decision::Refuse(error) => return refuse(engines, &call, &error),
            Decision::Rewrite(rewritten) => match with_subject_of(&call, params.as_ref(), &rewritten) {
                Ok(params) => Some(params),
                Err(error) => return refuse(engines, &call, &error),
            },
        };
        self.with(engines, upstream, |relay, engines| match relay.max_calls {
            Some(max) if relay.calls.delivered_count() + relay.held_calls.len() >= max => {
                let why = format!("{max} calls are in flight, which is the limit of this server");
                relay.fail_delivery(engines, call, others, relay.named(RpcError::internal(why)));
            }
            _ => relay.handle_call(engines, Delivery { call, params, others }),
        });
    }

    /// Relays a call of a method that names no entry, if there is only one upstream that can be meant.
    fn relay_custom(&mut self, engines: &mut GatewayEngines<'_>, call: Call) {
        let mut all = self.indices();
        match (all.next(), all.next()) {
            (Some(only), None) if !self.has_policy() => {
                self.with(engines, only, |relay, engines| relay.handle_call(engines, call.into()));
            }
            _ => refuse(engines, &call, &RpcError::method_not_found(call.method())),
        }
    }
}

/// Returns what a call uses, by the name or URI that the client knows; `None` if its method names no entry. `params` are in place of
/// those of the call.
///
/// # Errors
///
/// Returns the error to answer the call with if the name is missing.
fn subject(call: &Call, params: Option<&RawJson>) -> Result<Option<(EntryKind, String)>, RpcError> {
    let member = |name: &'static str| {
        let value = given(call, params).and_then(|params| params.member(name)?.string());
        value.ok_or_else(|| RpcError::invalid_params(format!("`params.{name}` is missing or no string")))
    };
    Ok(Some(match call.method() {
        "tools/call" if params.is_some() => (EntryKind::Tool, member("name")?),
        "tools/call" => (EntryKind::Tool, call.tool_call()?.name.into_owned()),
        "prompts/get" => (EntryKind::Prompt, member("name")?),
        "resources/read" => (EntryKind::Resource, member("uri")?),
        "completion/complete" => {
            let reference = call.params().and_then(|params| params.member("ref"));
            let text = |name: &str| reference.as_ref().and_then(|object| object.member(name)?.string());
            match (text("type").as_deref(), text("name"), text("uri")) {
                (Some("ref/prompt"), Some(name), _) => (EntryKind::Prompt, name),
                (Some("ref/resource"), _, Some(uri)) => (EntryKind::ResourceTemplate, uri),
                _ => return Err(RpcError::invalid_params("`params.ref` names no prompt and no resource")),
            }
        }
        _ => return Ok(None),
    }))
}

/// Returns the parameters of a call with the whole name of what it uses.
pub(crate) fn with_name(call: &Call, params: Option<&RawJson>, full: &str) -> Option<RawJson> {
    let (given, full) = (given(call, params)?, RawJson::encode(full).ok());
    match given.member("ref").filter(|_| call.method() == "completion/complete") {
        Some(reference) => {
            convert::with_member(&given, "ref", convert::with_member(&reference, "name", full))
        }
        None => convert::with_member(&given, "name", full),
    }
}

/// Returns the parameters of a call, or those in place of them.
fn given(call: &Call, params: Option<&RawJson>) -> Option<RawJson> {
    params.cloned().or_else(|| call.params())
}

/// Gives rewritten parameters the name, URI or reference of the call, so that it goes where it was routed to.
fn with_subject_of(call: &Call, params: Option<&RawJson>, rewritten: &RawJson) -> Result<RawJson, RpcError> {
    let member = match call.method() {
        "resources/read" => "uri",
        "completion/complete" => "ref",
        _ => "name",
    };
    convert::with_member(rewritten, member, given(call, params).and_then(|params| params.member(member)))
        .ok_or_else(|| {
            RpcError::internal("the policy of the gateway rewrote the parameters to something else")
        })
}

/// Returns the error for something that is not there, or hidden.
fn unknown_error(kind: EntryKind, name: &str) -> RpcError {
    match kind {
        EntryKind::Resource => RpcError::resource_not_found(name),
        kind => {
            let name: String = name.chars().take(64).collect();
            RpcError::invalid_params(format!("unknown {kind}: {name}"))
        }
    }
}

pub(crate) fn refuse(engines: &mut GatewayEngines<'_>, call: &Call, error: &RpcError) {
    // A call that has ended meanwhile is ignored.
    let _ = engines.downstream.fail(engines.now, call.id(), error);
}
