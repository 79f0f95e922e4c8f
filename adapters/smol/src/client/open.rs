//! How a client comes to its server

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::future::{Future, ready};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use futures_lite::io::{AsyncRead, AsyncWrite};
use mcp_std::Error;
use mcp_std::client::{Hub, Link, Opens, OpensStream, Setup, Stream, Way, Wire};

use super::Client;
use super::drive::Core;
use super::turns::Turns;
use super::watch::{Flow, Watch};

/// A client that is connecting; dropping it gives that up, and ends a server that was started for it
#[must_use = "nothing happens unless it is awaited"]
pub struct Connecting<'a>(Pin<Box<dyn Future<Output = Result<Client, Error>> + Send + 'a>>);

impl Future for Connecting<'_> {
    type Output = Result<Client, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Connecting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

impl Opens for Client {
    type Opening<'a> = Connecting<'a>;

    fn open(setup: Setup, way: Way<'_>) -> Self::Opening<'_> {
        Connecting(Box::pin(open(setup, way)))
    }

    fn refuse(error: Error) -> Self::Opening<'static> {
        Connecting(Box::pin(ready(Err(error))))
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> OpensStream<S> for Client {
    fn open_stream(mut setup: Setup, stream: S) -> Self::Opening<'static> {
        Connecting(Box::pin(async move {
            let turns = Arc::<Turns>::default();
            let (flow, watch) = Flow::new(stream, Waker::from(turns.clone()));
            let wire = Stream::new(setup.config.clone(), Link::Stream(Box::new(flow)));
            let core = core(&mut setup, Box::new(wire), watch, &turns);
            opened(setup, core, turns).await.map_err(|(error, _)| error)
        }))
    }
}

async fn open(mut setup: Setup, way: Way<'_>) -> Result<Client, Error> {
    let turns = Arc::<Turns>::default();
    match way {
        Way::Program(program) => {
            let core = start(&mut setup, &*program, &turns)?;
            let (error, again) = match opened(setup, core, turns).await {
                Ok(client) => return Ok(client),
                Err(failed) => failed,
            };
            let Some(mut setup) = again else { return Err(error) };
            let turns = Arc::<Turns>::default();
            let core = start(&mut setup, &*program, &turns)?;
            opened(setup, core, turns).await.map_err(|(error, _)| error)
        }
        #[cfg(feature = "http")]
        Way::Http(http) => {
            let wire = setup.exchanges(http)?;
            let core = core(&mut setup, Box::new(wire), descriptors()?, &turns);
            opened(setup, core, turns).await.map_err(|(error, _)| error)
        }
        // Features of this crate decide what it can, whatever others have turned on in `mcp-std`.
        _ => Err(Error::Io(std::io::ErrorKind::Unsupported.into())),
    }
}

/// Starts a program
fn start(
    setup: &mut Setup,
    program: &(dyn Borrow<mcp_std::child::Program> + Send + '_),
    turns: &Arc<Turns>,
) -> Result<Core, Error> {
    let watch = descriptors()?;
    let wire = Stream::new(setup.config.clone(), Link::spawn(program.borrow())?);
    Ok(core(setup, Box::new(wire), watch, turns))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there are none")]
fn descriptors() -> Result<Watch, Error> {
    Ok(Watch::Descriptors(super::watch::Descriptors::default()))
}

#[cfg(not(unix))]
fn descriptors() -> Result<Watch, Error> {
    Err(Error::Io(std::io::ErrorKind::Unsupported.into()))
}

fn core(setup: &mut Setup, wire: Box<dyn Wire + Send>, watch: Watch, turns: &Arc<Turns>) -> Core {
    Core::new(setup.connection(wire), watch, Waker::from(turns.clone()))
}

/// Waits until it is ready; if it does not become so, whether it is to be tried once more in another way
async fn opened(
    mut setup: Setup,
    mut core: Core,
    turns: Arc<Turns>,
) -> Result<Client, (Error, Option<Setup>)> {
    let outcome = core.open(&turns).await;
    let over = || Error::closed(mcp_proto::Fault::Closed);
    let Some(inner) = core.inner() else { return Err((over(), None)) };
    match outcome {
        Ok(peer) => {
            setup.introduce(&mut inner.connection, &peer);
            let (hub, caller) = Hub::new(&mut inner.connection, peer, &Waker::from(turns.clone()));
            inner.serve(hub);
            Ok(Client::new(core, turns, caller))
        }
        Err(error) => {
            let again = setup.again(&mut inner.connection, &error);
            Err((error, again.then_some(setup)))
        }
    }
}
