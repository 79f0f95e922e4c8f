//! One router in another.

use alloc::format;
use alloc::string::String;

use super::hooks::Hook;
use super::kinds::{Changed, RegisterError, check_prompt_name, check_tool_name};
use super::registry::{Router, refuse_second};
use crate::vocab::Kind;

impl<H, M: Hook> Router<H, M> {
    /// Takes in all that is registered in another router, behind what is registered here
    ///
    /// Tools and prompts get a prefix: `add` becomes `math.add` (TOOL-029). Resources and templates keep their URIs:
    /// these are names for the whole world already, and stand in what handlers write and in what users have noted. All
    /// names must be new here; if one is not, nothing has changed, and the error names it.
    ///
    /// The hooks of the inner router go on seeing its calls, and its validator goes on checking its tools; if it has
    /// none, that of the outer one does. Its identity, instructions, page size and list hints go. What it declared is
    /// declared here.
    pub fn nest(&mut self, prefix: &str, mut inner: Self) -> Result<Changed, RegisterError> {
        let outer = |name: &str| format!("{prefix}.{name}");
        for name in inner.tools.names().map(outer) {
            check_tool_name(&name).map_err(|why| RegisterError::Name {
                kind: Kind::Tool,
                name: name.clone(),
                why,
            })?;
            refuse_second(Kind::Tool, &name, self.tools.has(&name))?;
        }
        for name in inner.prompts.names().map(outer) {
            check_prompt_name(&name).map_err(|why| RegisterError::Name {
                kind: Kind::Prompt,
                name: name.clone(),
                why,
            })?;
            refuse_second(Kind::Prompt, &name, self.prompts.has(&name))?;
        }
        for uri in inner.resources.names() {
            refuse_second(Kind::Resource, uri, self.resources.has(uri))?;
        }
        for template in inner.templates.names() {
            refuse_second(Kind::ResourceTemplate, template, self.templates.has(template))?;
        }

        self.prepare(&mut inner)?;

        let mut changed = Changed::NONE;
        let base = self.scopes.nest(inner.scopes);
        for capability in inner.declared.iter() {
            self.declare(capability);
        }
        for (name, mut tool, shown, mut rest) in inner.tools.into_ordered() {
            tool.name = outer(&name);
            rest.scope += base;
            self.tools.adopt(&outer(&name), tool, shown, rest);
            changed |= Changed::of(Kind::Tool);
        }
        for (uri, resource, shown, mut rest) in inner.resources.into_ordered() {
            rest.scope += base;
            self.resources.adopt(&uri, resource, shown, rest);
            changed |= Changed::of(Kind::Resource);
        }
        for (name, family, shown, mut rest) in inner.templates.into_ordered() {
            rest.scope += base;
            let beginning = String::from(rest.extra.template.beginning());
            let number = self.templates.adopt(&name, family, shown, rest);
            self.beginnings.insert(&beginning, number);
            changed |= Changed::of(Kind::ResourceTemplate);
        }
        for (name, mut prompt, shown, mut rest) in inner.prompts.into_ordered() {
            prompt.name = outer(&name);
            rest.scope += base;
            self.prompts.adopt(&outer(&name), prompt, shown, rest);
            changed |= Changed::of(Kind::Prompt);
        }
        Ok(changed)
    }
}
