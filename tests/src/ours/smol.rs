//! Our client on `mcp-smol`

use core::pin::pin;
use core::time::Duration;
use std::time::Instant;

use async_io::{Timer, block_on};
use futures_lite::future;
use mcp_proto::CallOptions;
use mcp_proto::client::{Config, Kind, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_smol::{Client as Handle, ClientHandler, Error};
use mcp_std::child::How;
use serde_json::Value;

use super::{Client, Where, read};

pub(super) fn connect(
    config: Config,
    handler: impl ClientHandler + Send + 'static,
    server: &Where,
) -> Result<Box<dyn Client>, Error> {
    let options = Handle::options(config).handler(handler).no_cache();
    let client = block_on(async {
        match server {
            Where::Url(url) => options.connect_url(url).await,
            Where::Process(command) => options.spawn(Where::program(command)).await,
        }
    });
    Ok(Box::new(Smol(client?)))
}

struct Smol(Handle);

impl Client for Smol {
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
        Ok(read(&block_on(result)?))
    }

    fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<(), Error> {
        block_on(self.0.call_tool(name, arguments)).map(drop)
    }

    fn list(&mut self, kind: Kind) -> Result<Vec<Value>, Error> {
        Ok(block_on(self.0.list(kind))?.iter().map(read).collect())
    }

    fn give_up(
        &mut self,
        tool: &str,
        arguments: &Value,
        is_time: &dyn Fn() -> bool,
    ) -> Result<Option<Value>, Error> {
        let client = &self.0;
        let options = CallOptions::new().with_progress();
        let given_up = block_on(async {
            // Dropped at the end, which is how a call is given up.
            let call = pin!(client.start_tool(tool, arguments, &options)?);
            let called = async { call.await.map(|result| Some(read(&result))) };
            let time = async {
                while !is_time() {
                    Timer::after(Duration::from_millis(10)).await;
                }
                Ok(None)
            };
            future::or(called, time).await
        });
        // Nothing is said while nobody awaits anything.
        self.pause(Duration::ZERO)?;
        given_up
    }

    fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), Error> {
        block_on(self.0.set_log_level(Some(level)))
    }

    fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        block_on(self.0.subscribe(filter))
    }

    fn unsubscribe(&mut self, subscription: SubscriptionKey) -> Result<(), Error> {
        block_on(self.0.unsubscribe(subscription))
    }

    fn ping(&mut self) -> Result<(), Error> {
        block_on(self.0.ping()).map(drop)
    }

    fn pause(&mut self, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            block_on(self.0.poll(left))?;
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    fn close(self: Box<Self>) -> Result<bool, Error> {
        let ended = block_on(self.0.close())?;
        Ok(ended.is_none_or(|ended| {
            ended.how == How::Exited && ended.status.is_some_and(|status| status.success())
        }))
    }
}
