//! The client of `mcp-blocking`.

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::{Client as Handle, ClientHandler, Error};
use mcp_extensions::skills::{Skill, SkillContent};
use mcp_proto::CallOptions;
use mcp_proto::EntryKind;
use mcp_proto::client::{Config, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_std::process::ShutdownStage;
use serde_json::Value;

use super::{AdapterClient, ServerLocation, to_value};

pub(super) fn connect(
    config: Config,
    handler: impl ClientHandler + Send + 'static,
    server: &ServerLocation,
) -> Result<Box<dyn AdapterClient>, Error> {
    let options = Handle::options(config).handler(handler).no_cache();
    let client = match server {
        ServerLocation::Url(url) => options.connect_url(url),
        ServerLocation::Protected(url, authorizer) => options.authorize(authorizer.clone()).connect_url(url),
        ServerLocation::Process(command) => options.spawn(ServerLocation::program(command)),
    };
    Ok(Box::new(BlockingClient(client?)))
}

struct BlockingClient(Handle);

impl AdapterClient for BlockingClient {
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
        Ok(to_value(&result?))
    }

    fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<(), Error> {
        self.0.call_tool(name, arguments).map(drop)
    }

    fn list(&mut self, kind: EntryKind) -> Result<Vec<Value>, Error> {
        Ok(self.0.list(kind)?.iter().map(to_value).collect())
    }

    fn read_skill_file(&mut self, skill: &Skill, file: &str) -> Result<SkillContent, Error> {
        self.0.read_skill_file(skill, file)
    }

    fn cancel_call(
        &mut self,
        tool: &str,
        arguments: &Value,
        is_due: &dyn Fn() -> bool,
    ) -> Result<Option<Value>, Error> {
        let options = CallOptions::new().with_progress();
        let call = self.0.start_tool(tool, arguments, &options)?;
        while !is_due() {
            if let Some(result) = self.0.wait_timeout(call, Duration::from_millis(10))? {
                return Ok(Some(to_value(&result)));
            }
        }
        self.0.cancel(call, Some("no longer needed"))?;
        Ok(None)
    }

    #[expect(deprecated, reason = "tested until its removal")]
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
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.0.poll(left)?;
        }
    }

    fn close(self: Box<Self>) -> Result<bool, Error> {
        let ended = self.0.close()?;
        Ok(ended.is_none_or(|ended| {
            ended.stage == ShutdownStage::Exited && ended.status.is_some_and(|status| status.success())
        }))
    }
}
