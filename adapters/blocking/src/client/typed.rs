//! Calls whose results are read as the types of the model

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::client::{Kind, Misfit, Pages, Question, Ticket};
use mcp_proto::model::{
    CallToolParams, CallToolResult, CompleteParams, CompleteResult, CompletionArgument, CompletionReference,
    GetPromptParams, GetPromptResult, Listed, Map, Prompt, ReadResourceParams, ReadResourceResult, Request,
    Resource, ResourceTemplate, Tool,
};
use mcp_proto::{CallOptions, EncodeError, Progress, RawJson, UseError};
use mcp_std::catch;
use serde::Serialize;

use super::Client;
use mcp_std::{BadResult, Error};

impl Client {
    // ---- typed calls -------------------------------------------------------------------------------------------

    /// Calls a tool and waits for its result; `arguments` must serialise to a JSON object
    ///
    /// A tool that failed says so in its result ([`failed`](CallToolResult::failed)). [`CallToolResult::parse_structured`]
    /// reads a structured one.
    ///
    /// ```no_run
    /// #[derive(serde::Deserialize)]
    /// struct Sum {
    ///     sum: f64,
    /// }
    /// # let mut client = mcp_blocking::Client::spawn(mcp_blocking::Program::new("my-server"))?;
    /// let result = client.call_tool("add", &serde_json::json!({"a": 20, "b": 22}))?;
    /// let Sum { sum } = result.parse_structured().expect("a sum");
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Call`] when the server answers with an error, or not in time; [`Error::Answer`] when its result cannot be
    /// read, [`Error::BadResult`] when it is not what the tool promises (with a
    /// [validator](crate::Options::validator)); [`Error::Use`] when the call cannot be made; [`Error::Closed`] when the connection is over.
    pub fn call_tool<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        let call = self.start_tool(name, arguments, &CallOptions::new())?;
        let result = self.wait(call)?;
        self.checked(name, &result)
    }

    /// Calls a tool as [`call_tool`](Self::call_tool) does, with options, and with progress told to `on_progress`
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub fn call_tool_with<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<CallToolResult<'static>, Error> {
        let call = self.start_tool(name, arguments, &options.clone().with_progress())?;
        let result = self.wait_with(call, on_progress)?;
        self.checked(name, &result)
    }

    /// The result of a tool, if it is what the tool promised, as far as that is known
    fn checked(&mut self, name: &str, result: &RawJson) -> Result<CallToolResult<'static>, Error> {
        let read = read::<CallToolParams<'_>>(result)?;
        match self.connection.memory.check(name, result) {
            Ok(()) => {}
            Err(Misfit::Schema(why)) => {
                let handler = &mut self.connection.handler;
                let _ = catch(|| handler.unusable_schema(name, &why));
            }
            Err(Misfit::Result(violations)) => {
                return Err(Error::BadResult(Box::new(BadResult::new(name, read, violations))));
            }
        }
        Ok(read)
    }

    /// Reads a resource
    ///
    /// As [`send`](Self::send) does, it gives a result that was kept, if the server allows that.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub fn read_resource(&mut self, uri: &str) -> Result<ReadResourceResult<'static>, Error> {
        self.send(&ReadResourceParams::new(uri))
    }

    /// Fills in a prompt; `arguments` must serialise to a JSON object of strings, or to `null` for none
    ///
    /// ```no_run
    /// # let mut client = mcp_blocking::Client::spawn(mcp_blocking::Program::new("my-server"))?;
    /// let today = client.get_prompt("today", &())?;
    /// let plan = client.get_prompt("plan", &serde_json::json!({"from": "Brest", "to": "Cork"}))?;
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool); `Use(Encode)` names an argument that is no string.
    pub fn get_prompt<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        arguments: &T,
    ) -> Result<GetPromptResult<'static>, Error> {
        let written = RawJson::encode(arguments).map_err(|e| Error::Use(e.into()))?;
        let arguments: Option<Map<String>> = written.parse().map_err(|e| {
            Error::Use(UseError::Encode(EncodeError::Custom(format!("arguments of a prompt: {e}"))))
        })?;
        let mut params = GetPromptParams::new(name);
        params.arguments = arguments;
        self.send(&params)
    }

    /// Asks how an argument of a prompt, or a variable of a template, could go on that begins with `value`
    ///
    /// `reference` is a [`PromptReference`](mcp_proto::model::PromptReference) or a
    /// [`ResourceTemplateReference`](mcp_proto::model::ResourceTemplateReference). With arguments that are filled in
    /// already (since 2025-06-18; COMP-006):
    ///
    /// ```no_run
    /// use mcp_proto::model::{CompleteParams, CompletionArgument, CompletionContext, PromptReference};
    ///
    /// # let mut client = mcp_blocking::Client::spawn(mcp_blocking::Program::new("my-server"))?;
    /// let result = client.send(
    ///     &CompleteParams::new(PromptReference::new("plan"), CompletionArgument::new("to", "C"))
    ///         .context(CompletionContext::new().arguments([("from", "Brest".into())])),
    /// )?;
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub fn complete<'a>(
        &mut self,
        reference: impl Into<CompletionReference<'a>>,
        argument: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Result<CompleteResult, Error> {
        self.send(&CompleteParams::new(reference, CompletionArgument::new(argument, value)))
    }

    /// Makes a request that knows its method and its result, and waits for the latter
    ///
    /// A result that the server said may be kept, and which is still fresh, is not asked for again
    /// ([`Options::cache`](crate::Options::cache)).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), but for [`Error::BadResult`]: only those methods know what tools promise.
    pub fn send<R: Request>(&mut self, params: &R) -> Result<R::Result, Error> {
        let ticket = match Question::of(R::METHOD, params).map(|question| self.kept(question)).transpose()? {
            Some(Ok(kept)) => return read::<R>(&kept),
            Some(Err(ticket)) => ticket,
            None => None,
        };
        let call = self.start(R::METHOD, params, &CallOptions::new())?;
        let (result, again) = self.result(call, &mut |_| {})?;
        let read = read::<R>(&result)?;
        // What depends on answers of this user is for nobody else, and not for another time (CACHE-011).
        self.connection.memory.keep(ticket.filter(|_| !again), &result);
        Ok(read)
    }

    /// Makes a request as [`send`](Self::send) does, with options, and with progress told to `on_progress`
    ///
    /// It is always the server that answers, and the answer is not kept: it may depend on the options.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_with<R: Request>(
        &mut self,
        params: &R,
        options: &CallOptions,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<R::Result, Error> {
        let result = self.request_with(R::METHOD, params, options, on_progress)?;
        read::<R>(&result)
    }

    // ---- lists -------------------------------------------------------------------------------------------------

    /// All tools of the server, from all pages of the list
    ///
    /// A tool that cannot be read as one is left out, and told to the handler
    /// ([`ClientHandler::unreadable`](crate::ClientHandler::unreadable)): one bad tool does not lose the others.
    /// [`list`](Self::list) says when it ends at a list without end, and when it asks the server at all.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_tools(&mut self) -> Result<Vec<Tool>, Error> {
        self.entries()
    }

    /// All resources of the server; otherwise as [`list_tools`](Self::list_tools)
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_resources(&mut self) -> Result<Vec<Resource>, Error> {
        self.entries()
    }

    /// All templates of resources of the server; otherwise as [`list_tools`](Self::list_tools)
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_resource_templates(&mut self) -> Result<Vec<ResourceTemplate>, Error> {
        self.entries()
    }

    /// All prompts of the server; otherwise as [`list_tools`](Self::list_tools)
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_prompts(&mut self) -> Result<Vec<Prompt>, Error> {
        self.entries()
    }

    fn entries<T: Listed>(&mut self) -> Result<Vec<T>, Error> {
        let all = self.list(T::KIND)?;
        let handler = &mut self.connection.handler;
        let read = all.iter().filter_map(|entry| match entry.parse() {
            Ok(entry) => Some(entry),
            Err(why) => {
                let _ = catch(|| handler.unreadable(T::KIND, entry, &format!("{why}")));
                None
            }
        });
        Ok(read.collect())
    }

    /// All entries of one of the server's lists as they came, from all of its pages
    ///
    /// Ends at what looks endless: a cursor that comes again, [`Pages::MAX`] pages, or more bytes than
    /// [`Limits::max_frame`](mcp_proto::Limits) four times over; what came before is returned (PAGE-012).
    ///
    /// Pages that the server said may be kept, and which are still fresh, are not asked for again
    /// ([`Options::cache`](crate::Options::cache)); when it refuses the cursor that such a page ended with, all are
    /// (CACHE-018).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), and [`Error::Answer`] when an answer holds no such list.
    pub fn list(&mut self, kind: Kind) -> Result<Vec<RawJson>, Error> {
        let bytes = self.connection.wire.engine().config().get_limits().max_frame.saturating_mul(4);
        let mut pages = Pages::new(kind, bytes);
        loop {
            let taken = match self.kept(Question::List(kind, pages.cursor().map(String::from)))? {
                Ok(kept) => pages.take_kept(&kept),
                Err(ticket) => match self.page(kind, pages.cursor()) {
                    Ok(result) => {
                        let taken = pages.take(&result);
                        self.connection.memory.keep(ticket.filter(|_| taken.is_ok()), &result);
                        taken
                    }
                    Err(Error::Call(error)) if pages.start_over(&error) => {
                        self.connection.memory.forget_list(kind);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            if !taken.map_err(|error| Error::Answer(format!("{error}")))? {
                let entries = pages.into_entries();
                self.connection.memory.learn(kind, &entries);
                return Ok(entries);
            }
        }
    }

    fn page(&mut self, kind: Kind, cursor: Option<&str>) -> Result<RawJson, Error> {
        let options = CallOptions::new();
        let call = self.connection.start(|engine, now| engine.list(now, kind, cursor, &options))?;
        self.wait(call)
    }

    /// A result that need not be asked for, or leave to keep the one that is
    fn kept(&mut self, question: Question) -> Result<Result<RawJson, Option<Ticket>>, Error> {
        let found = self.connection.memory.look(question.clone());
        if found.is_err() {
            return Ok(found);
        }
        // News that say otherwise may have come and not been read yet.
        for _ in 0..CATCH_UP {
            if !self.poll(Duration::ZERO)? {
                break;
            }
        }
        Ok(self.connection.memory.look(question))
    }
}

/// How often it is looked for news at most, before a result is given that was kept
const CATCH_UP: u32 = 64;

fn read<R: Request>(result: &RawJson) -> Result<R::Result, Error> {
    R::read(result)
        .map_err(|why| Error::Answer(format!("the result of `{}` cannot be read: {why}", R::METHOD)))
}
