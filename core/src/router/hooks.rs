//! Hooks around calls.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::rpc::RpcError;
use crate::server::Call;
use crate::vocab::Kind;

/// Something that sees calls before and after they are handled: to log, to measure, to refuse
///
/// Hooks run in the order in which they were added before a call, and in the reverse order after it. Those of a router
/// that was [nested](super::Router::nest) see the calls of what came with it, within those of the outer router. Every
/// hook that was asked before is told after, once, unless the call is forgotten in between.
pub trait Hook {
    /// Sees a call; an error refuses it, and is the answer
    fn before(&self, asked: &Asked<'_>) -> Result<(), RpcError> {
        let _ = asked;
        Ok(())
    }

    /// Sees how a call ended
    fn after(&self, asked: &Asked<'_>, outcome: Outcome<'_>) {
        let _ = (asked, outcome);
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        impl<K: Hook + ?Sized> Hook for $pointer<K> {
            fn before(&self, asked: &Asked<'_>) -> Result<(), RpcError> {
                (**self).before(asked)
            }

            fn after(&self, asked: &Asked<'_>, outcome: Outcome<'_>) {
                (**self).after(asked, outcome);
            }
        }
    )*};
}

forward!(Box, Rc, Arc);

/// A call as hooks see it
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub(super) call: &'a Call,
    pub(super) subject: Subject<'a>,
    pub(super) scope: usize,
}

impl<'a> Asked<'a> {
    /// The call itself
    #[must_use]
    pub const fn call(&self) -> &'a Call {
        self.call
    }

    /// What it is about
    #[must_use]
    pub const fn subject(&self) -> Subject<'a> {
        self.subject
    }
}

/// What a call is about
///
/// Names are those that are registered. What is not, or is hidden, is [`Subject::Unknown`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Subject<'a> {
    /// A page of a list
    List(Kind),
    /// A tool, by name
    Tool(&'a str),
    /// A resource, by its URI
    Resource(&'a str),
    /// A resource of a family, by the template
    ResourceTemplate(&'a str),
    /// A prompt, by name
    Prompt(&'a str),
    /// A completion for a prompt or template, which is named
    Completion(&'a str),
    /// Something that is not there
    Unknown,
}

/// How a call ended
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// With a result
    Completed,
    /// With a result that says that the tool failed (TOOL-023)
    ToolFailed,
    /// With an error
    Failed(&'a RpcError),
    /// It was cancelled: nothing was answered
    Cancelled,
    /// With something to be asked first: the call is handled anew when the answers have come, if they do
    Asking,
}

/// The hooks of a router and of those that were nested in it
#[derive(Clone)]
pub(super) struct Scopes<M> {
    /// Each scope with those around it, the outermost first, itself last; the first one is the router's own
    scopes: Vec<(Vec<usize>, Vec<M>)>,
}

/// The scope of a router itself
pub(super) const ROOT: usize = 0;

impl<M> Default for Scopes<M> {
    fn default() -> Self {
        Self { scopes: vec![(vec![ROOT], Vec::new())] }
    }
}

impl<M: Hook> Scopes<M> {
    pub(super) fn add(&mut self, hook: M) {
        if let Some((_, hooks)) = self.scopes.get_mut(ROOT) {
            hooks.push(hook);
        }
    }

    fn around(&self, scope: usize) -> impl DoubleEndedIterator<Item = &M> {
        let path = self.scopes.get(scope).map_or(&[][..], |(path, _)| path);
        path.iter().filter_map(|scope| self.scopes.get(*scope)).flat_map(|(_, hooks)| hooks)
    }

    /// Asks the hooks; when one refuses, those that were asked before it are told
    pub(super) fn before(&self, asked: &Asked<'_>) -> Result<(), RpcError> {
        for (i, hook) in self.around(asked.scope).enumerate() {
            if let Err(error) = hook.before(asked) {
                let told: Vec<_> = self.around(asked.scope).take(i).collect();
                told.iter().rev().for_each(|hook| hook.after(asked, Outcome::Failed(&error)));
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn after(&self, asked: &Asked<'_>, outcome: Outcome<'_>) {
        self.around(asked.scope).rev().for_each(|hook| hook.after(asked, outcome));
    }

    /// Takes the scopes of a nested router in; what is to be added to their numbers
    pub(super) fn nest(&mut self, inner: Self) -> usize {
        let base = self.scopes.len();
        for (path, hooks) in inner.scopes {
            let path = [ROOT].into_iter().chain(path.into_iter().map(|scope| scope + base)).collect();
            self.scopes.push((path, hooks));
        }
        base
    }
}
