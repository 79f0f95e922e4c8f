//! The clients of `mcp-smol` and `mcp-tokio`.

use core::future::poll_fn;
use core::pin::pin;
use core::time::Duration;
use std::time::Instant;

use futures_lite::future;
use mcp_extensions::skills::{Skill, SkillContent};
use mcp_proto::CallOptions;
use mcp_proto::EntryKind;
use mcp_proto::client::{Config, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_runtime::Error;
use mcp_runtime::client::ClientHandler;
use mcp_runtime::runtime::AsyncTimer;
use mcp_runtime::runtime::client::Client;
use mcp_std::process::ShutdownStage;
use serde_json::Value;

use crate::executor::Executor;

use super::{AdapterClient, ServerLocation, to_value};

pub(super) fn connect<R: Executor>(
    config: Config,
    handler: impl ClientHandler + Send + 'static,
    server: &ServerLocation,
) -> Result<Box<dyn AdapterClient>, Error> {
    let options = Client::<R>::options(config).handler(handler).no_cache();
    let client = R::run(async {
        match server {
            ServerLocation::Url(url) => options.connect_url(url).await,
            ServerLocation::Protected(url, authorizer) => {
                options.authorize(authorizer.clone()).connect_url(url).await
            }
            ServerLocation::Process(command) => options.spawn(ServerLocation::program(command)).await,
        }
    });
    Ok(Box::new(AsyncClient::<R>(client?)))
}

struct AsyncClient<R: Executor>(Client<R>);

impl<R: Executor> AdapterClient for AsyncClient<R> {
    fn peer(&self) -> &Peer {
        self.0.peer()
    }

    fn request(
        &mut self,
        method: &str,
        params: &Value,
        on_progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Value, Error> {
        let options = CallOptions::new();
        let mut on_progress = |report: &mcp_proto::Progress| on_progress(report.progress);
        let result = self.0.request_with(method, params, &options, &mut on_progress);
        Ok(to_value(&R::run(result)?))
    }

    fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<(), Error> {
        R::run(self.0.call_tool(name, arguments)).map(drop)
    }

    fn list(&mut self, kind: EntryKind) -> Result<Vec<Value>, Error> {
        Ok(R::run(self.0.list(kind))?.iter().map(to_value).collect())
    }

    fn read_skill_file(&mut self, skill: &Skill, file: &str) -> Result<SkillContent, Error> {
        R::run(self.0.read_skill_file(skill, file))
    }

    fn cancel_call(
        &mut self,
        tool: &str,
        arguments: &Value,
        is_due: &dyn Fn() -> bool,
    ) -> Result<Option<Value>, Error> {
        let client = &self.0;
        let options = CallOptions::new().with_progress();
        let abandoned = R::run(async {
            // The call is dropped at the end of the scope, which abandons it.
            let call = pin!(client.start_tool(tool, arguments, &options)?);
            let called = async { call.await.map(|result| Some(to_value(&result))) };
            let time = async {
                while !is_due() {
                    sleep::<R>(Duration::from_millis(10)).await;
                }
                Ok(None)
            };
            future::or(called, time).await
        });
        // The cancellation is sent only while some future is polled.
        self.pause(Duration::ZERO)?;
        abandoned
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), Error> {
        R::run(self.0.set_log_level(Some(level)))
    }

    fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        R::run(self.0.subscribe(filter))
    }

    fn unsubscribe(&mut self, subscription: SubscriptionKey) -> Result<(), Error> {
        R::run(self.0.unsubscribe(subscription))
    }

    fn ping(&mut self) -> Result<(), Error> {
        R::run(self.0.ping()).map(drop)
    }

    fn pause(&mut self, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            R::run(self.0.poll(left))?;
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    fn close(self: Box<Self>) -> Result<bool, Error> {
        let ended = R::run(self.0.close())?;
        Ok(ended.is_none_or(|ended| {
            ended.stage == ShutdownStage::Exited && ended.status.is_some_and(|status| status.success())
        }))
    }
}

async fn sleep<R: Executor>(duration: Duration) {
    let mut timer = R::Timer::never();
    timer.reset(Instant::now() + duration);
    poll_fn(|cx| timer.poll(cx)).await;
}
