//! Connecting a client to its server.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::future::{Future, poll_fn, ready};
use core::pin::Pin;
#[cfg(feature = "http")]
use core::sync::atomic::AtomicBool;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;

use crate::Error;
use crate::adapter::client::{
    ClientSetup, ClientTransport, CommandQueue, ConnectionTarget, Connector, ServerIo, StreamConnector,
    StreamTransport,
};
#[cfg(feature = "http")]
use crate::adapter::client::{ExchangeConnector, ExchangeTransport, StartExchange};
use mcp_proto::client::Config;
#[cfg(feature = "http")]
use mcp_proto::http::client::Config as HttpConfig;

use super::Client;
use super::driver::ConnectionDriver;
use super::leader::LeaderQueue;
use super::watch::{AsyncDuplex, ConnectionWatch};
use crate::adapter::runtime::{PollStream, Runtime};
use crate::adapter::sync::{Inbox, Sender};
use crate::io::StreamAddress;

/// A client that is connecting. Dropping it shuts down a server process that was started for it.
#[must_use = "nothing happens unless it is awaited"]
pub struct Connecting<'a, R: Runtime>(Pin<Box<dyn Future<Output = Result<Client<R>, Error>> + Send + 'a>>);

impl<R: Runtime> Future for Connecting<'_, R> {
    type Output = Result<Client<R>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R: Runtime> fmt::Debug for Connecting<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

impl<R: Runtime> Connector for Client<R> {
    type Connecting<'a> = Connecting<'a, R>;

    fn default_config() -> Config {
        let (name, version) = R::name_and_version();
        Config::new(name, version)
    }

    fn open(setup: ClientSetup, target: ConnectionTarget<'_>) -> Self::Connecting<'_> {
        Connecting(Box::pin(open(setup, target)))
    }

    fn refuse(error: Error) -> Self::Connecting<'static> {
        Connecting(Box::pin(ready(Err(error))))
    }
}

impl<R: PollStream<S>, S: Send + 'static> StreamConnector<S> for Client<R> {
    fn open_stream(mut setup: ClientSetup, stream: S) -> Self::Connecting<'static> {
        Connecting(Box::pin(async move {
            let queue = Arc::<LeaderQueue>::default();
            let (duplex, watch) = AsyncDuplex::<R, S>::new(stream, Waker::from(queue.clone()));
            let transport = StreamTransport::new(setup.engine_config()?, ServerIo::Stream(Box::new(duplex)));
            let driver = new_driver(&mut setup, Box::new(transport), watch, &queue);
            finish_open(setup, driver, queue).await.map_err(|(error, _)| error)
        }))
    }
}

#[cfg(feature = "http")]
impl<R: Runtime> ExchangeConnector for Client<R> {
    fn open_exchanges(
        mut setup: ClientSetup,
        http: HttpConfig,
        start: StartExchange,
    ) -> Self::Connecting<'static> {
        Connecting(Box::pin(async move {
            let queue = Arc::<LeaderQueue>::default();
            let is_abandoned = Arc::<AtomicBool>::default();
            let watch = ConnectionWatch::Exchanges(is_abandoned.clone());
            let (config, waker) = (setup.engine_config()?, Waker::from(queue.clone()));
            let transport = ExchangeTransport::new(config, http, start, waker, is_abandoned);
            let driver = new_driver(&mut setup, Box::new(transport), watch, &queue);
            finish_open(setup, driver, queue).await.map_err(|(error, _)| error)
        }))
    }
}

async fn open<R: Runtime>(mut setup: ClientSetup, target: ConnectionTarget<'_>) -> Result<Client<R>, Error> {
    let queue = Arc::<LeaderQueue>::default();
    match target {
        ConnectionTarget::Program(program) => {
            let driver = spawn_program(&mut setup, &*program, &queue)?;
            let (error, retry) = match finish_open(setup, driver, queue).await {
                Ok(client) => return Ok(client),
                Err(failed) => failed,
            };
            let Some(mut setup) = retry else { return Err(error) };
            let queue = Arc::<LeaderQueue>::default();
            let driver = spawn_program(&mut setup, &*program, &queue)?;
            finish_open(setup, driver, queue).await.map_err(|(error, _)| error)
        }
        ConnectionTarget::Stream(address) => {
            let watch = descriptors()?;
            let io = connect::<R>(address, setup.open_timeout()).await?;
            let transport = StreamTransport::new(setup.engine_config()?, io);
            let driver = new_driver(&mut setup, Box::new(transport), watch, &queue);
            finish_open(setup, driver, queue).await.map_err(|(error, _)| error)
        }
        #[cfg(feature = "http")]
        ConnectionTarget::Http(http) => {
            let transport = setup.http_transport(http)?.look_up_on::<R>();
            let driver = new_driver(&mut setup, Box::new(transport), descriptors()?, &queue);
            finish_open(setup, driver, queue).await.map_err(|(error, _)| error)
        }
    }
}

/// Opens a byte stream on a thread that may block.
async fn connect<R: Runtime>(address: StreamAddress, timeout: Duration) -> io::Result<ServerIo> {
    let inbox = Inbox::new(1);
    let job = ConnectJob(Some(inbox.sender()));
    R::run_blocking(Box::new(move || job.finish(ServerIo::connect(&address, timeout))));
    let mut received = VecDeque::new();
    poll_fn(|cx| {
        inbox.register(cx.waker());
        inbox.take(&mut received);
        received.pop_front().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Reports the outcome of opening a byte stream, also if a pool that shuts down drops the job.
struct ConnectJob(Option<Sender<io::Result<ServerIo>>>);

impl ConnectJob {
    fn finish(mut self, outcome: io::Result<ServerIo>) {
        if let Some(sender) = self.0.take() {
            // Nobody takes it after the future was dropped; the stream is closed then.
            let _ = sender.send(outcome);
        }
    }
}

impl Drop for ConnectJob {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(Err(io::Error::other("the threads for blocking work have ended")));
        }
    }
}

/// Starts a server process.
fn spawn_program<R: Runtime>(
    setup: &mut ClientSetup,
    program: &(dyn Borrow<crate::process::Program> + Send + '_),
    queue: &Arc<LeaderQueue>,
) -> Result<ConnectionDriver<R>, Error> {
    let watch = descriptors()?;
    let transport = StreamTransport::new(setup.engine_config()?, ServerIo::spawn(program.borrow())?);
    Ok(new_driver(setup, Box::new(transport), watch, queue))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "the variant for other platforms fails")]
fn descriptors<R: Runtime>() -> Result<ConnectionWatch<R>, Error> {
    Ok(ConnectionWatch::Descriptors(super::watch::DescriptorWatches::new()))
}

#[cfg(not(unix))]
fn descriptors<R: Runtime>() -> Result<ConnectionWatch<R>, Error> {
    Err(Error::Io(io::ErrorKind::Unsupported.into()))
}

fn new_driver<R: Runtime>(
    setup: &mut ClientSetup,
    transport: Box<dyn ClientTransport + Send>,
    watch: ConnectionWatch<R>,
    queue: &Arc<LeaderQueue>,
) -> ConnectionDriver<R> {
    ConnectionDriver::new(setup.connection(transport), watch, Waker::from(queue.clone()))
}

/// Waits until the connection is ready. On failure, returns the setup if the connection should be retried.
async fn finish_open<R: Runtime>(
    mut setup: ClientSetup,
    mut driver: ConnectionDriver<R>,
    queue: Arc<LeaderQueue>,
) -> Result<Client<R>, (Error, Option<ClientSetup>)> {
    let outcome = driver.wait_until_ready(&queue).await;
    let over = || Error::closed(mcp_proto::Fault::Closed);
    let Some(inner) = driver.state_mut() else { return Err((over(), None)) };
    match outcome {
        Ok(peer) => {
            setup.configure_results(&mut inner.connection, &peer);
            let (commands, caller) =
                CommandQueue::new(&mut inner.connection, peer, &Waker::from(queue.clone()));
            inner.accept_calls(commands);
            Ok(Client::new(driver, queue, caller))
        }
        Err(error) => {
            let retry = setup.prepare_retry(&mut inner.connection, &error);
            Err((error, retry.then_some(setup)))
        }
    }
}
