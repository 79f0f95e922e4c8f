//! Text forms of events, for the comparison of runs and for failed tests.

use mcp_proto::{DeprecatedFeature, Diagnostic, client, server};

/// Returns the text of a server event, in one line.
#[must_use]
pub fn server_event(event: &server::Event) -> String {
    use server::Event;
    match event {
        Event::Call(call) => {
            let params = call.params().map_or_else(String::new, |p| p.as_str().to_owned());
            format!("call {:?} {} in {}: {params}", call.id(), call.method(), call.version())
        }
        Event::Notification(n) => {
            format!("notification {}: {}", n.method, n.params.as_ref().map_or("", |p| p.as_str()))
        }
        Event::Cancelled { call, reason } => format!("cancelled {call:?}: {reason:?}"),
        Event::SessionOpened { version, .. } => format!("session in {version}"),
        Event::Done { call, outcome } => format!("done {call:?}: {outcome:?}"),
        Event::Diagnostic { diagnostic, .. } => format!("diagnostic {diagnostic:?}"),
        Event::Closed { fault, .. } => format!("closed: {fault:?}"),
        other => format!("{other:?}"),
    }
}

/// Returns the text of a client event, in one line.
#[must_use]
pub fn client_event(event: &client::Event) -> String {
    use client::Event;
    match event {
        Event::Ready(peer) => format!("ready in {}, {:?}, {}", peer.version, peer.info, peer.capabilities),
        Event::Done { call, outcome, .. } => format!("done {call:?}: {outcome:?}"),
        Event::Progress { call, progress } => format!("progress {call:?}: {progress:?}"),
        Event::Request(r) => {
            let params = r.params.as_ref().map_or("", |p| p.as_str());
            format!("request {:?} {}: {params}", r.id, r.method)
        }
        Event::Input(i) => format!("needs {:?} for {:?} as {:?}: {:?}", i.id, i.call, i.key, i.request),
        Event::RequestCancelled(request) => format!("request cancelled {request:?}"),
        Event::Notification(n) => {
            format!("notification {}: {}", n.method, n.params.as_ref().map_or("", |p| p.as_str()))
        }
        Event::Diagnostic(diagnostic) => format!("diagnostic {diagnostic:?}"),
        Event::Closed(fault) => format!("closed: {fault:?}"),
        other => format!("{other:?}"),
    }
}

/// Returns the deprecated feature that a server event reports.
pub(super) fn deprecated_by_client(event: &server::Event) -> Option<DeprecatedFeature> {
    match event {
        server::Event::Diagnostic { diagnostic: Diagnostic::DeprecatedFeature { feature }, .. } => {
            Some(*feature)
        }
        _ => None,
    }
}

/// Returns the deprecated feature that a client event reports.
pub(super) fn deprecated_by_server(event: &client::Event) -> Option<DeprecatedFeature> {
    match event {
        client::Event::Diagnostic(Diagnostic::DeprecatedFeature { feature }) => Some(*feature),
        _ => None,
    }
}
