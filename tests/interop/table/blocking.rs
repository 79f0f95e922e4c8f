//! Our client on `mcp-blocking`

use core::time::Duration;

use mcp_blocking::{Client as Handle, Error, Options, Program, Stderr};
use mcp_proto::CallOptions;
use mcp_proto::client::{Config, Kind, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_std::child::How;
use serde_json::Value;

use super::ours::{Client, Person, Where};

pub(super) fn connect(config: Config, person: &Person, server: &Where) -> Result<Box<dyn Client>, String> {
    let options = Options::new(config).handler(person.clone()).no_cache();
    let connected = match server {
        Where::Url(url) => options.connect_url(url),
        Where::Process(command) => options.spawn(program(command)),
    };
    Ok(Box::new(Blocking { client: said(connected)?, person: person.clone() }))
}

/// The program of a command, with the end of its stderr for messages
pub(super) fn program(command: &std::process::Command) -> Program {
    Program::new(command.get_program()).args(command.get_args()).stderr(Stderr::Capture)
}

fn said<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

struct Blocking {
    client: Handle,
    person: Person,
}

impl Client for Blocking {
    fn peer(&self) -> &Peer {
        self.client.peer()
    }

    fn request(
        &mut self,
        method: &str,
        params: &Value,
        on_progress: &mut dyn FnMut(f64),
    ) -> Result<Value, String> {
        let result = self
            .client
            .request_with(method, params, &CallOptions::new(), &mut |report| on_progress(report.progress));
        serde_json::from_str(said(result)?.as_str()).map_err(|error| error.to_string())
    }

    fn list(&mut self, kind: Kind) -> Result<Vec<Value>, String> {
        let entries = said(self.client.list(kind))?;
        Ok(entries.iter().map(|entry| serde_json::from_str(entry.as_str()).expect("JSON")).collect())
    }

    fn give_up(&mut self, tool: &str, arguments: &Value) -> Result<(), String> {
        let before = self.person.reports();
        let options = CallOptions::new().with_progress();
        let call = said(self.client.start_tool(tool, arguments, &options))?;
        while self.person.reports() == before {
            if let Some(result) = said(self.client.wait_timeout(call, Duration::from_millis(10)))? {
                return Err(format!("done without progress: {result:?}"));
            }
        }
        said(self.client.cancel(call, Some("no longer needed")))
    }

    fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), String> {
        said(self.client.set_log_level(Some(level)))
    }

    fn subscribe(&mut self, filter: &SubscriptionFilter) -> Result<SubscriptionKey, String> {
        let (key, honoured) = said(self.client.subscribe(filter))?;
        if honoured == *filter { Ok(key) } else { Err(format!("only {honoured:?} is honoured")) }
    }

    fn unsubscribe(&mut self, subscription: SubscriptionKey) -> Result<(), String> {
        said(self.client.unsubscribe(subscription))
    }

    fn ping(&mut self) -> Result<(), String> {
        said(self.client.ping().map(drop))
    }

    fn pause(&mut self, time: Duration) -> Result<(), String> {
        let until = std::time::Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            said(self.client.poll(left))?;
        }
    }

    fn close(self: Box<Self>) -> Result<bool, String> {
        let ended = said(self.client.close())?;
        Ok(ended.is_none_or(|ended| {
            ended.how == How::Exited && ended.status.is_some_and(|status| status.success())
        }))
    }
}
