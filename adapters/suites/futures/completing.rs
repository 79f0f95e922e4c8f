//! Suite: an asynchronous client completes a text while it is typed.
//!
//! `crate::adapter` names the adapter under test, and `crate::suites::completing` is that of all adapters.

use core::future::pending;
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use futures_lite::future::zip;
use mcp_proto::client::{Completer, Config};
use mcp_proto::model::{Prompt, PromptArgument, PromptReference};
use mcp_proto::router::CompletionTarget;
use mcp_runtime::SharedCompleter;

use crate::adapter::{Cx, Router, async_stream, block_on, package, sleep};
use crate::suites::completing::typed;
use crate::support::{DEADLINE, with_timeout};

/// Sends a text when it is dropped.
struct OnDrop(mpsc::Sender<String>, String);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(core::mem::take(&mut self.1));
    }
}

// covers: COMP-010, CANC-005
#[test]
fn later_keystroke_replaces_earlier_one_that_waits_or_was_sent() {
    with_timeout(|| {
        let ((asked, asks), (ended, ends)) = (mpsc::channel(), mpsc::channel());
        let make = move || {
            let mut router = Router::new("harbour", "1.0");
            let arguments = [PromptArgument::new("to")];
            router
                .prompt(Prompt::new("trip").arguments(arguments), async |_: &mut Cx, (): ()| "Plan a trip.");
            let answer = async move |_: &mut Cx, text: &CompletionTarget<'_>| {
                asked.send(text.value().to_owned()).unwrap();
                let _ended = OnDrop(ended.clone(), text.value().to_owned());
                if text.value() == "hangs" {
                    pending::<()>().await;
                }
                vec![text.value().to_uppercase()]
            };
            router.completion(PromptReference::new("trip"), "to", answer);
            router
        };
        let (near, far) = UnixStream::pair().unwrap();
        let serving = thread::spawn(move || block_on(make().serve(async_stream(near))));
        block_on(async {
            let options = package::Client::options(Config::new("me", "1.0"));
            let client = options.connect(async_stream(far)).await.unwrap();
            let completer = SharedCompleter::new(Completer::new().delay(Duration::from_millis(30)));
            let press = async |text: &str| {
                let completed = client.complete_typed(&completer, &typed(text)).await.unwrap();
                completed.map(|result| result.completion.values.concat())
            };
            // Nothing is sent for the first text.
            let (first, second) = zip(press("a"), press("ab")).await;
            assert_eq!((first, second.as_deref()), (None, Some("AB")));
            assert_eq!(asks.try_iter().collect::<Vec<_>>(), ["ab"]);
            ends.recv_timeout(DEADLINE).unwrap();

            // The second text is typed when the request of the first is under way.
            let later = async {
                let sent = loop {
                    match asks.try_recv() {
                        Ok(text) => break text,
                        Err(_) => sleep(Duration::from_millis(1)).await,
                    }
                };
                (sent, press("abc").await)
            };
            let (first, (sent, second)) = zip(press("hangs"), later).await;
            assert_eq!((first, sent.as_str(), second.as_deref()), (None, "hangs", Some("ABC")));
            // The request that hangs was cancelled while the next one waited.
            let mut ended: Vec<_> = (0..2).map(|_| ends.recv_timeout(DEADLINE).unwrap()).collect();
            ended.sort();
            assert_eq!(ended, ["abc", "hangs"]);
            client.close().await.unwrap();
        });
        serving.join().unwrap().unwrap();
    });
}
