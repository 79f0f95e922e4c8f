//! Completion of texts while they are typed, by the client of `mcp-threads`.

use core::time::Duration;
use std::thread;

use crate::support::with_timeout;
use mcp_proto::client::{Completer, Config};
use mcp_proto::model::{Prompt, PromptArgument, PromptReference};
use mcp_runtime::SharedCompleter;
use mcp_threads::{Client, Router};

#[test]
fn keystroke_on_another_thread_ends_the_wait() {
    with_timeout(|| {
        let router = || {
            let mut router = Router::new("harbour", "1.0");
            router.prompt(Prompt::new("trip").arguments([PromptArgument::new("to")]), |_, (): ()| "Plan");
            router
                .completion(PromptReference::new("trip"), "to", |_, text| vec![text.value().to_uppercase()]);
            router
        };
        let (client, serving) = crate::adapter::serve(router, Client::options(Config::new("me", "1.0")));
        // The first text waits long enough for the second one to come.
        let completer = SharedCompleter::new(Completer::new().delay(Duration::from_secs(3)));
        thread::scope(|scope| {
            let first = scope
                .spawn(|| client.complete_typed(&completer, &crate::suites::completing::typed("a")).unwrap());
            thread::sleep(Duration::from_millis(500));
            let second = client.complete_typed(&completer, &crate::suites::completing::typed("ab")).unwrap();
            assert_eq!(second.unwrap().completion.values, ["AB"]);
            assert_eq!(first.join().unwrap(), None);
        });
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}
