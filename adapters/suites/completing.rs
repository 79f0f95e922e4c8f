//! Suite: completion of a text while it is typed.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::time::Instant;

use mcp_proto::Change;
use mcp_proto::client::{Completer, Config};
use mcp_proto::model::{CompleteParams, CompletionArgument, Prompt, PromptArgument, PromptReference};
use mcp_proto::router::suggest;
use mcp_runtime::SharedCompleter;

use crate::adapter::{Client, Router, handler, serve};
use crate::support::with_timeout;

pub(crate) fn typed(text: &str) -> CompleteParams<'_> {
    CompleteParams::new(PromptReference::new("trip"), CompletionArgument::new("to", text))
}

// covers: COMP-010
#[test]
fn typed_text_is_completed_after_a_pause_and_from_the_cache() {
    with_timeout(|| {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let router = move || {
            let mut router = Router::new("harbour", "1.0");
            let arguments = [PromptArgument::new("to")];
            router.prompt(Prompt::new("trip").arguments(arguments), handler!(|_, (): ()| "Plan a trip."));
            router.completion(
                PromptReference::new("trip"),
                "to",
                handler!(move |_, text| {
                    counter.fetch_add(1, Ordering::SeqCst);
                    suggest(["Cobh", "Cork", "Kinsale"], text.value())
                }),
            );
            router
        };
        let (client, serving) = serve(router, Client::options(Config::new("me", "1.0")));
        let delay = Duration::from_millis(30);
        let completer = SharedCompleter::new(Completer::new().delay(delay));
        let values =
            |text| client.complete_typed(&completer, &typed(text)).unwrap().unwrap().completion.values;
        let begun = Instant::now();
        assert_eq!(values("C"), ["Cobh", "Cork"]);
        assert!(begun.elapsed() >= delay);
        assert_eq!(values("Co"), ["Cobh", "Cork"]);
        assert_eq!((values("C"), values("Co")), (values("Co"), values("C")));
        assert_eq!(requests.load(Ordering::SeqCst), 2);
        completer.handle_change(&Change::Tools);
        assert_eq!((values("K"), values("C").len()), (vec!["Kinsale".to_owned(), "Cork".to_owned()], 2));
        assert_eq!(requests.load(Ordering::SeqCst), 3);
        completer.handle_change(&Change::Prompts);
        assert_eq!(values("C"), ["Cobh", "Cork"]);
        assert_eq!(requests.load(Ordering::SeqCst), 4);
        // A failure is not kept.
        let unknown = CompleteParams::new(PromptReference::new("x"), CompletionArgument::new("to", "C"));
        client.complete_typed(&completer, &unknown).unwrap_err();
        client.complete_typed(&completer, &unknown).unwrap_err();
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}
