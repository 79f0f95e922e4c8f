//! Our client on `mcp-threads`

use core::time::Duration;
use std::thread;

use mcp_proto::CallOptions;
use mcp_proto::client::{Config, Kind, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_std::child::How;
use mcp_threads::{Client as Handle, ClientHandler, Error};
use serde_json::Value;

use super::{Client, Where, read};

pub(super) fn connect(
    config: Config,
    handler: impl ClientHandler + Send + 'static,
    server: &Where,
) -> Result<Box<dyn Client>, Error> {
    let options = Handle::options(config).handler(handler).no_cache();
    let client = match server {
        Where::Url(url) => options.connect_url(url),
        Where::Process(command) => options.spawn(Where::program(command)),
    };
    Ok(Box::new(Threads(client?)))
}

struct Threads(Handle);

impl Client for Threads {
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
        let result =
            self.0.request_with(method, params, &options, &mut |report| on_progress(report.progress));
        Ok(read(&result?))
    }

    fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<(), Error> {
        self.0.call_tool(name, arguments).map(drop)
    }

    fn list(&mut self, kind: Kind) -> Result<Vec<Value>, Error> {
        Ok(self.0.list(kind)?.iter().map(read).collect())
    }

    fn give_up(
        &mut self,
        tool: &str,
        arguments: &Value,
        is_time: &dyn Fn() -> bool,
    ) -> Result<Option<Value>, Error> {
        let options = CallOptions::new().with_progress();
        let mut call = self.0.start_tool(tool, arguments, &options)?;
        while !is_time() {
            if let Some(result) = self.0.wait_timeout(&mut call, Duration::from_millis(10))? {
                return Ok(Some(read(&result)));
            }
        }
        self.0.cancel(call, Some("no longer needed"))?;
        Ok(None)
    }

    fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), Error> {
        self.0.set_log_level(Some(level))
    }

    fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        self.0.subscribe(filter)
    }

    fn unsubscribe(&mut self, subscription: SubscriptionKey) -> Result<(), Error> {
        self.0.unsubscribe(subscription)
    }

    fn ping(&mut self) -> Result<(), Error> {
        self.0.ping().map(drop)
    }

    fn pause(&mut self, time: Duration) -> Result<(), Error> {
        // What comes is handled on another thread.
        thread::sleep(time);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<bool, Error> {
        let ended = self.0.close()?;
        Ok(ended.is_none_or(|ended| {
            ended.how == How::Exited && ended.status.is_some_and(|status| status.success())
        }))
    }
}
