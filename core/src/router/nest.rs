//! Nesting of one router in another.

use alloc::format;
use alloc::string::String;

use super::hooks::Hook;
use super::registration::{ChangedLists, RegisterError, check_prompt_name, check_tool_name};
use super::registry::{Router, refuse_duplicate};
use super::visibility::Listing;
use crate::methods::EntryKind;

impl<H, M: Hook> Router<H, M> {
    /// Moves all entries of another router behind the entries of this one.
    ///
    /// Tools and prompts get a prefix: `add` becomes `math.add` (TOOL-029). Resources, templates and skills keep their URIs,
    /// which are globally unique already, and which handlers write and users store.
    ///
    /// The hooks of `inner` keep observing its calls, and its visibility functions keep deciding about its entries. Its validator keeps checking its tools; without one, the
    /// validator of this router checks them. The capabilities and extensions that `inner` declared are declared here; of
    /// two equal extensions, the settings of this router hold. The identity of `inner`, its instructions, page sizes and
    /// cache hints for lists are dropped.
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Name`]: a name with its prefix is not valid.
    /// - [`RegisterError::Duplicate`]: a name, URI or template is registered here already.
    /// - [`RegisterError::Schema`]: the validator of this router cannot use a schema of `inner`.
    ///
    /// This router is unchanged then.
    pub fn nest(&mut self, prefix: &str, mut inner: Self) -> Result<ChangedLists, RegisterError> {
        let prefixed = |name: &str| format!("{prefix}.{name}");
        for name in inner.tools.names().map(prefixed) {
            check_tool_name(&name).map_err(|reason| RegisterError::Name {
                kind: EntryKind::Tool,
                name: name.clone(),
                reason,
            })?;
            refuse_duplicate(EntryKind::Tool, &name, self.tools.contains(&name))?;
        }
        for name in inner.prompts.names().map(prefixed) {
            check_prompt_name(&name).map_err(|reason| RegisterError::Name {
                kind: EntryKind::Prompt,
                name: name.clone(),
                reason,
            })?;
            refuse_duplicate(EntryKind::Prompt, &name, self.prompts.contains(&name))?;
        }
        for uri in inner.resources.names() {
            refuse_duplicate(EntryKind::Resource, uri, self.resources.contains(uri))?;
        }
        let inner_skills = inner.skills.iter().flat_map(|skills| skills.uris());
        for uri in inner_skills {
            let taken = self.skills.as_ref().is_some_and(|skills| skills.contains(uri));
            refuse_duplicate(EntryKind::Skill, uri, taken)?;
        }
        for template in inner.templates.names() {
            refuse_duplicate(EntryKind::ResourceTemplate, template, self.templates.contains(template))?;
        }

        self.prepare(&mut inner)?;

        let mut changed = ChangedLists::NONE;
        let bases = (self.scopes.nest(inner.scopes), self.visibility.nest(prefix, inner.visibility));
        let moved = |hook_scope: &mut usize, listing: &mut Listing| {
            *hook_scope += bases.0;
            listing.scope += bases.1;
        };
        self.declared.adopt_extensions(&inner.declared);
        // Extensions were adopted above: one that is declared here already keeps its settings.
        for capability in inner.declared.iter().filter(|capability| !capability.is_extension()) {
            self.declare(capability);
        }
        for (name, mut tool, mut listing, mut registration) in inner.tools.into_ordered() {
            tool.name = prefixed(&name);
            moved(&mut registration.hook_scope, &mut listing);
            self.tools.append(tool.name.as_str().into(), tool, listing, registration);
            changed |= ChangedLists::from_kind(EntryKind::Tool);
        }
        for (uri, resource, mut listing, mut registration) in inner.resources.into_ordered() {
            moved(&mut registration.hook_scope, &mut listing);
            self.resources.append(uri, resource, listing, registration);
            changed |= ChangedLists::from_kind(EntryKind::Resource);
        }
        for (name, family, mut listing, mut registration) in inner.templates.into_ordered() {
            moved(&mut registration.hook_scope, &mut listing);
            let literal_prefix = String::from(registration.extra.template.literal_prefix());
            let number = self.templates.append(name, family, listing, registration);
            self.prefixes.insert(&literal_prefix, number);
            changed |= ChangedLists::from_kind(EntryKind::ResourceTemplate);
        }
        for (name, mut prompt, mut listing, mut registration) in inner.prompts.into_ordered() {
            prompt.name = prefixed(&name);
            moved(&mut registration.hook_scope, &mut listing);
            self.prompts.append(prompt.name.as_str().into(), prompt, listing, registration);
            changed |= ChangedLists::from_kind(EntryKind::Prompt);
        }
        if let Some(skills) = inner.skills {
            self.adopt_skills(*skills, bases.1);
            changed |= ChangedLists::from_kind(EntryKind::Skill);
        }
        Ok(changed)
    }
}
