//! Hooks that observe calls before and after their handlers.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::{fmt, slice};

use super::registration::RegisterError;
use super::registry::{Router, entry_key, unknown_item};
use crate::methods::EntryKind;
use crate::rpc::RpcError;
use crate::server::Call;
use crate::sync::Arc;

/// Code that runs before and after each call: to log, to measure, or to refuse it.
///
/// Before a call, hooks run in the order in which they were added; after it, in the reverse order. The hooks of a
/// [nested](super::Router::nest) router observe the calls of its entries, inside the hooks of the outer router.
///
/// The hooks of an [entry](super::Router::hook_entry) are inside those of its router.
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

/// The hooks of a router, of its nested routers, and of entries.
#[derive(Clone)]
pub(super) struct HookScopes<M> {
    scopes: Vec<HookScope<M>>,
    /// Numbers of scopes whose entry was removed.
    unused: Vec<usize>,
}

#[derive(Clone)]
struct HookScope<M> {
    /// The enclosing scopes from the outermost to this one.
    path: Vec<usize>,
    hooks: Vec<M>,
    /// Whether the scope belongs to one entry.
    is_of_entry: bool,
}

/// Scope of the router itself.
pub(super) const ROOT_SCOPE: usize = 0;

impl<M> Default for HookScopes<M> {
    fn default() -> Self {
        let root = HookScope { path: vec![ROOT_SCOPE], hooks: Vec::new(), is_of_entry: false };
        Self { scopes: vec![root], unused: Vec::new() }
    }
}

/// The hooks around the calls of an entry, from the outermost to the innermost.
///
/// [`Router::enclosing_hooks`](super::Router::enclosing_hooks) returns it.
pub struct EnclosingHooks<'a, M> {
    scopes: &'a [HookScope<M>],
    path: slice::Iter<'a, usize>,
    hooks: slice::Iter<'a, M>,
}

impl<M> Clone for EnclosingHooks<'_, M> {
    fn clone(&self) -> Self {
        Self { scopes: self.scopes, path: self.path.clone(), hooks: self.hooks.clone() }
    }
}

impl<M> fmt::Debug for EnclosingHooks<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnclosingHooks").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a, M> Iterator for EnclosingHooks<'a, M> {
    type Item = &'a M;

    fn next(&mut self) -> Option<&'a M> {
        loop {
            if let Some(hook) = self.hooks.next() {
                return Some(hook);
            }
            let scope = *self.path.next()?;
            self.hooks = self.scopes.get(scope).map_or(&[][..], |scope| &scope.hooks).iter();
        }
    }
}

impl<M> HookScopes<M> {
    pub(super) fn add(&mut self, hook: M) {
        if let Some(root) = self.scopes.get_mut(ROOT_SCOPE) {
            root.hooks.push(hook);
        }
    }

    /// Adds a hook to an entry in `scope`; returns the scope of the entry from now on.
    pub(super) fn add_to_entry(&mut self, scope: usize, hook: M) -> usize {
        if let Some(own) = self.scopes.get_mut(scope).filter(|scope| scope.is_of_entry) {
            own.hooks.push(hook);
            return scope;
        }
        let next = self.unused.pop().unwrap_or(self.scopes.len());
        let path = self.path(scope).iter().copied().chain([next]).collect();
        let own = HookScope { path, hooks: vec![hook], is_of_entry: true };
        match self.scopes.get_mut(next) {
            Some(slot) => *slot = own,
            None => self.scopes.push(own),
        }
        next
    }

    /// Drops the hooks of an entry that is removed; `scope` is the scope of the entry.
    pub(super) fn release(&mut self, scope: usize) {
        if let Some(own) = self.scopes.get_mut(scope).filter(|scope| scope.is_of_entry) {
            // The place stays, because scopes are known by their positions.
            *own = HookScope { path: Vec::new(), hooks: Vec::new(), is_of_entry: false };
            self.unused.push(scope);
        }
    }

    fn path(&self, scope: usize) -> &[usize] {
        self.scopes.get(scope).map_or(&[][..], |scope| &scope.path)
    }

    pub(super) fn enclosing(&self, scope: usize) -> EnclosingHooks<'_, M> {
        EnclosingHooks { scopes: &self.scopes, path: self.path(scope).iter(), hooks: [].iter() }
    }

    fn enclosing_reversed(&self, scope: usize) -> impl Iterator<Item = &M> {
        let scopes = self.path(scope).iter().rev().filter_map(|scope| self.scopes.get(*scope));
        scopes.flat_map(|scope| scope.hooks.iter().rev())
    }

    /// Adds the scopes of a nested router; returns the offset for its scope numbers.
    pub(super) fn nest(&mut self, inner: Self) -> usize {
        let base = self.scopes.len();
        for scope in inner.scopes {
            let path = [ROOT_SCOPE].into_iter().chain(scope.path.into_iter().map(|outer| outer + base));
            self.scopes.push(HookScope { path: path.collect(), ..scope });
        }
        self.unused.extend(inner.unused.into_iter().map(|scope| scope + base));
        base
    }
}

impl<M: Hook> HookScopes<M> {
    /// Runs `before_call` of the hooks; if one refuses, those that ran before it get `after_call`.
    pub(super) fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
        for (i, hook) in self.enclosing(context.scope).enumerate() {
            if let Err(error) = hook.before_call(context) {
                // Only those that have let the call pass. The hook that refused it knows the outcome.
                let notified: Vec<_> = self.enclosing(context.scope).take(i).collect();
                notified.iter().rev().for_each(|hook| hook.after_call(context, HookOutcome::Failed(&error)));
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn after_call(&self, context: &HookContext<'_>, outcome: HookOutcome<'_>) {
        self.enclosing_reversed(context.scope).for_each(|hook| hook.after_call(context, outcome));
    }
}

// Hooks of single entries.

impl<H, M: Hook> Router<H, M> {
    /// Adds a hook that observes the calls of one entry, inside the hooks of its router. Those of a prompt or a template
    /// include its completions.
    ///
    /// An entry that is registered again under its name keeps its hooks. They are dropped when it is removed.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Unknown`] if the entry is not registered. A skill has the hooks of the resource of its `SKILL.md`.
    pub fn hook_entry(&mut self, kind: EntryKind, name: &str, hook: M) -> Result<&mut Self, RegisterError> {
        let key = &*entry_key(kind, name);
        let scope = match kind {
            EntryKind::Tool => self.tools.hook_scope_mut(key),
            EntryKind::Resource => self.resources.hook_scope_mut(key),
            EntryKind::ResourceTemplate => self.templates.hook_scope_mut(key),
            EntryKind::Prompt => self.prompts.hook_scope_mut(key),
            EntryKind::Skill => None,
        };
        let scope = scope.ok_or_else(|| unknown_item(kind, name))?;
        *scope = self.scopes.add_to_entry(*scope, hook);
        Ok(self)
    }

    /// Returns the hooks around a call, from the outermost to the innermost.
    #[must_use]
    pub fn enclosing_hooks(&self, context: &HookContext<'_>) -> EnclosingHooks<'_, M> {
        self.scopes.enclosing(context.scope)
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::rc::Rc;
    use core::cell::RefCell;

    use super::super::tests::*;
    use super::*;
    use super::{HookOutcome, ROOT_SCOPE};

    struct Recorder(&'static str, Rc<RefCell<Vec<String>>>);

    impl Hook for Recorder {
        fn before_call(&self, _: &HookContext<'_>) -> Result<(), RpcError> {
            self.1.borrow_mut().push(format!("+{}", self.0));
            Ok(())
        }

        fn after_call(&self, _: &HookContext<'_>, _: HookOutcome<'_>) {
            self.1.borrow_mut().push(format!("-{}", self.0));
        }
    }

    fn scope(router: &mut TestRouter, name: &str) -> usize {
        *router.tools.hook_scope_mut(name).expect("a tool")
    }

    #[test]
    fn hooks_of_entry_are_inside_those_of_nested_and_outer_router() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let recorder = |name| Box::new(Recorder(name, log.clone())) as Box<dyn Hook>;
        let mut inner = TestRouter::new("i", "1");
        inner.tool(tool("t"), target_text).expect("a tool");
        inner.tool(tool("plain"), target_text).expect("a tool");
        inner.hook_entry(EntryKind::Tool, "t", recorder("first of t")).expect("a tool");
        inner.hook(recorder("inner"));
        inner.hook_entry(EntryKind::Tool, "t", recorder("second of t")).expect("a tool");
        let mut outer = TestRouter::new("o", "1");
        outer.nest("n", inner).expect("new names");
        outer.hook(recorder("outer"));
        let (of_tool, of_plain) = (scope(&mut outer, "n.t"), scope(&mut outer, "n.plain"));
        assert_eq!(outer.scopes.enclosing(of_tool).count(), 4);
        assert_eq!(outer.scopes.enclosing(of_plain).count(), 2);
        assert_eq!(outer.scopes.enclosing(ROOT_SCOPE).count(), 1);

        let mut harness = RouterHarness::new(&outer);
        harness.ask(&outer, "tools/call", json!({"name": "n.t"}));
        let order = ["outer", "inner", "first of t", "second of t"];
        let expected: Vec<String> = order
            .iter()
            .map(|name| format!("+{name}"))
            .chain(order.iter().rev().map(|name| format!("-{name}")))
            .collect();
        assert_eq!(*log.borrow(), expected);
    }

    #[test]
    fn hooks_of_entry_stay_when_it_is_replaced_and_go_when_it_is_removed() {
        let mut router = TestRouter::new("r", "1");
        let log = Rc::new(RefCell::new(Vec::new()));
        let recorder = |name| Box::new(Recorder(name, log.clone())) as Box<dyn Hook>;
        for round in 0..3 {
            router.tool(tool("t"), target_text).expect("a new name");
            router.hook_entry(EntryKind::Tool, "t", recorder("t")).expect("a tool");
            router.replace_tool(tool("t"), target_text).expect("a tool");
            let own = scope(&mut router, "t");
            assert_eq!(
                (own, router.scopes.enclosing(own).count()),
                (1, 1),
                "{round}: the number is used again"
            );
            router.remove(EntryKind::Tool, "t");
            assert_eq!(Rc::strong_count(&log), 1, "the hook was dropped");
        }
        router.resource(Resource::new("A://b/c", "c"), target_text).expect("a resource");
        router
            .hook_entry(EntryKind::Resource, "a://B/c", recorder("c"))
            .expect("another spelling of the URI");
        router.resource_template(ResourceTemplate::new("a://{x}", "x"), target_text).expect("a template");
        router.hook_entry(EntryKind::ResourceTemplate, "a://{x}", recorder("x")).expect("a template");
        for (kind, name) in [(EntryKind::Tool, "t"), (EntryKind::Prompt, "a"), (EntryKind::Skill, "s")] {
            let refused = router.hook_entry(kind, name, recorder("none")).map(drop);
            assert_eq!(refused, Err(unknown_item(kind, name)));
        }
    }
}
