//! Hooks of single entries.

use super::hooks::{EnclosingHooks, Hook, HookContext};
use super::registration::RegisterError;
use super::registry::{Router, unknown_item};
use super::template::{MAX_URI, comparison_key};
use crate::methods::EntryKind;

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
        let scope = match kind {
            EntryKind::Tool => self.tools.hook_scope_mut(name),
            EntryKind::Resource => {
                let uri = comparison_key(name, MAX_URI).unwrap_or_default();
                self.resources.hook_scope_mut(&uri)
            }
            EntryKind::ResourceTemplate => self.templates.hook_scope_mut(name),
            EntryKind::Prompt => self.prompts.hook_scope_mut(name),
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

    use super::*;
    use crate::router::hooks::{HookOutcome, ROOT_SCOPE};
    use crate::router::tests::*;

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
