//! Hooks that observe calls before and after their handlers.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::methods::EntryKind;
use crate::rpc::RpcError;
use crate::server::Call;

/// Code that runs before and after each call: to log, to measure, or to refuse it.
///
/// Before a call, hooks run in the order in which they were added; after it, in the reverse order. The hooks of a
/// [nested](super::Router::nest) router observe the calls of its entries, inside the hooks of the outer router.
///
/// Every hook whose `before_call` ran gets one `after_call`, unless the call is dropped in between.
pub trait Hook {
    /// Runs before the handler.
    ///
    /// # Errors
    ///
    /// An error refuses the call and is its answer.
    fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
        let _ = context;
        Ok(())
    }

    /// Runs after the call has ended with `outcome`.
    fn after_call(&self, context: &HookContext<'_>, outcome: HookOutcome<'_>) {
        let _ = (context, outcome);
    }
}

macro_rules! forward_hook {
    ($($pointer:ident),*) => {$(
        impl<K: Hook + ?Sized> Hook for $pointer<K> {
            fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
                (**self).before_call(context)
            }

            fn after_call(&self, context: &HookContext<'_>, outcome: HookOutcome<'_>) {
                (**self).after_call(context, outcome);
            }
        }
    )*};
}

forward_hook!(Box, Rc, Arc);

/// A call as hooks see it.
#[derive(Clone, Copy, Debug)]
pub struct HookContext<'a> {
    pub(super) call: &'a Call,
    pub(super) subject: Subject<'a>,
    pub(super) scope: usize,
}

impl<'a> HookContext<'a> {
    /// Returns the call.
    #[must_use]
    pub const fn call(&self) -> &'a Call {
        self.call
    }

    /// Returns the entry that the call addresses.
    #[must_use]
    pub const fn subject(&self) -> Subject<'a> {
        self.subject
    }
}

/// The entry that a call addresses.
///
/// Names are registered names. An entry that is not registered, or is hidden, is [`Subject::Unknown`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Subject<'a> {
    /// A page of a list.
    List(EntryKind),
    /// A tool, by name.
    Tool(&'a str),
    /// A resource, by URI.
    Resource(&'a str),
    /// A resource of a template, by the template.
    ResourceTemplate(&'a str),
    /// A prompt, by name.
    Prompt(&'a str),
    /// A completion, by the name of the prompt or by the template.
    Completion(&'a str),
    /// A skill, by the URI of its `SKILL.md`.
    Skill(&'a str),
    /// The content of a directory (`resources/directory/read`); the parameters of the call have its URI.
    Directory,
    /// An entry that does not exist.
    Unknown,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum HookOutcome<'a> {
    /// A result was sent.
    Completed,
    /// A result was sent that reports a tool failure (TOOL-023).
    ToolFailed,
    /// An error was sent.
    Failed(&'a RpcError),
    /// The call was cancelled; nothing was sent.
    Cancelled,
    /// Input requests were sent; the call is delivered again when their responses arrive.
    InputRequired,
    /// A task was created; it is delivered as another call when it runs.
    TaskBegun,
}

/// The hooks of a router and of its nested routers.
#[derive(Clone)]
pub(super) struct HookScopes<M> {
    /// Hooks of each scope, and its path: the enclosing scopes from the outermost to itself. The first scope is
    /// [`ROOT_SCOPE`].
    scopes: Vec<(Vec<usize>, Vec<M>)>,
}

/// Scope of the router itself.
pub(super) const ROOT_SCOPE: usize = 0;

impl<M> Default for HookScopes<M> {
    fn default() -> Self {
        Self { scopes: vec![(vec![ROOT_SCOPE], Vec::new())] }
    }
}

impl<M: Hook> HookScopes<M> {
    pub(super) fn add(&mut self, hook: M) {
        if let Some((_, hooks)) = self.scopes.get_mut(ROOT_SCOPE) {
            hooks.push(hook);
        }
    }

    fn enclosing_hooks(&self, scope: usize) -> impl DoubleEndedIterator<Item = &M> {
        let path = self.scopes.get(scope).map_or(&[][..], |(path, _)| path);
        path.iter().filter_map(|scope| self.scopes.get(*scope)).flat_map(|(_, hooks)| hooks)
    }

    /// Runs `before_call` of the hooks; if one refuses, those that ran before it get `after_call`.
    pub(super) fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
        for (i, hook) in self.enclosing_hooks(context.scope).enumerate() {
            if let Err(error) = hook.before_call(context) {
                let notified: Vec<_> = self.enclosing_hooks(context.scope).take(i).collect();
                notified.iter().rev().for_each(|hook| hook.after_call(context, HookOutcome::Failed(&error)));
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn after_call(&self, context: &HookContext<'_>, outcome: HookOutcome<'_>) {
        self.enclosing_hooks(context.scope).rev().for_each(|hook| hook.after_call(context, outcome));
    }

    /// Adds the scopes of a nested router; returns the offset for its scope numbers.
    pub(super) fn nest(&mut self, inner: Self) -> usize {
        let base = self.scopes.len();
        for (path, hooks) in inner.scopes {
            let path = [ROOT_SCOPE].into_iter().chain(path.into_iter().map(|scope| scope + base)).collect();
            self.scopes.push((path, hooks));
        }
        base
    }
}
