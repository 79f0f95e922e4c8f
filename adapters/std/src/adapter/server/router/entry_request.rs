//! Requests as layers see them.

use alloc::format;
use alloc::sync::Arc;

use mcp_proto::model::Map;
use mcp_proto::router::{CallTarget, HandlerError, HookContext, Subject};
use mcp_proto::server::Call;
use mcp_proto::{RawJson, RpcError};

use super::entry_result::misrouted_error;

/// A call of an entry, as layers see it.
///
/// Its arguments match the schema of the tool, and required arguments of a prompt are there: calls without are answered
/// before layers run. A layer that runs its inside several times clones it.
#[derive(Clone, Debug)]
pub struct EntryRequest<'a> {
    context: HookContext<'a>,
    target: &'a CallTarget<'a>,
    /// Shared by clones: each layer has one.
    rewritten: Option<Arc<RewrittenArguments>>,
}

#[derive(Debug)]
enum RewrittenArguments {
    Tool(RawJson),
    Prompt(Map<String>),
}

impl<'a> EntryRequest<'a> {
    pub(super) const fn new(context: HookContext<'a>, target: &'a CallTarget<'a>) -> Self {
        Self { context, target, rewritten: None }
    }

    /// Returns the call.
    #[must_use]
    pub const fn call(&self) -> &'a Call {
        self.context.call()
    }

    /// Returns the kind of the entry and its name.
    #[must_use]
    pub const fn subject(&self) -> Subject<'a> {
        self.context.subject()
    }

    /// Returns the entry that the call addresses, with the arguments that the client sent.
    #[must_use]
    pub const fn target(&self) -> &'a CallTarget<'a> {
        self.target
    }

    /// Returns the arguments of a tool or a prompt: those of the client, or those that were [set](Self::set_arguments).
    /// `None` for resources and completions.
    #[must_use]
    pub fn arguments(&self) -> Option<RawJson> {
        match (self.rewritten.as_deref(), self.target) {
            (Some(RewrittenArguments::Tool(arguments)), _) => Some(arguments.clone()),
            (Some(RewrittenArguments::Prompt(arguments)), _) => RawJson::encode(arguments).ok(),
            (None, CallTarget::Tool(tool)) => Some(tool.raw_arguments()),
            (None, CallTarget::Prompt(prompt)) => RawJson::encode(&prompt.arguments).ok(),
            _ => None,
        }
    }

    /// Replaces the arguments of a tool or a prompt for the layers inside and for the handler.
    ///
    /// # Errors
    ///
    /// The request is unchanged, and the error suits as the answer of the call:
    /// - `arguments` is not an object, or violates the schema of the tool;
    /// - it does not hold texts, or a required argument of the prompt is missing;
    /// - the entry is a resource or a completion, which have no arguments.
    pub fn set_arguments(&mut self, arguments: RawJson) -> Result<(), HandlerError> {
        let rewritten = match self.target {
            CallTarget::Tool(tool) => {
                tool.with_arguments(&arguments)?;
                RewrittenArguments::Tool(arguments)
            }
            CallTarget::Prompt(prompt) => {
                let read = arguments.parse::<Map<String>>();
                let read = read.map_err(|e| RpcError::invalid_params(format!("`params.arguments`: {e}")))?;
                RewrittenArguments::Prompt(prompt.with_arguments(read)?.arguments)
            }
            _ => return Err(RpcError::internal("only tools and prompts have arguments").into()),
        };
        self.rewritten = Some(Arc::new(rewritten));
        Ok(())
    }

    /// Returns whether its arguments were set.
    pub(super) const fn is_rewritten(&self) -> bool {
        self.rewritten.is_some()
    }

    /// Calls `run` with the target of the handler.
    pub(super) fn with_target<T>(&self, run: impl FnOnce(&CallTarget<'_>) -> T) -> Result<T, HandlerError> {
        match &self.rewritten {
            None => Ok(run(self.target)),
            Some(_) => self.rewritten_target().map(|target| run(&target)),
        }
    }

    /// Returns the target with the arguments that were set.
    pub(super) fn rewritten_target(&self) -> Result<CallTarget<'_>, HandlerError> {
        match (self.target, self.rewritten.as_deref()) {
            (CallTarget::Tool(tool), Some(RewrittenArguments::Tool(arguments))) => {
                let mut tool = *tool;
                tool.arguments = arguments.as_bytes();
                Ok(CallTarget::Tool(tool))
            }
            (CallTarget::Prompt(prompt), Some(RewrittenArguments::Prompt(arguments))) => {
                Ok(CallTarget::Prompt(prompt.with_arguments(arguments.clone())?))
            }
            _ => Err(misrouted_error().into()),
        }
    }
}
