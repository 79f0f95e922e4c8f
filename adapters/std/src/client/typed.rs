//! The calls of all clients, written once: who calls, and whether calls are awaited, is the adapter's

use alloc::format;
use alloc::string::String;

use mcp_proto::model::{GetPromptParams, Map, Request};
use mcp_proto::{EncodeError, RawJson, UseError};
use serde::Serialize;

use crate::error::Error;

/// Reads a result as the type that its request says
///
/// # Errors
///
/// [`Error::Answer`].
pub fn read<R: Request>(result: &RawJson) -> Result<R::Result, Error> {
    R::read(result)
        .map_err(|why| Error::Answer(format!("the result of `{}` cannot be read: {why}", R::METHOD)))
}

/// The parameters of a prompt, with arguments that serialise to a JSON object of strings or to `null`
///
/// # Errors
///
/// [`Error::Use`] names an argument that is no string.
pub fn prompt<'a, T: Serialize + ?Sized>(name: &'a str, arguments: &T) -> Result<GetPromptParams<'a>, Error> {
    let written = RawJson::encode(arguments).map_err(|e| Error::Use(e.into()))?;
    let arguments: Option<Map<String>> = written.parse().map_err(|e| {
        Error::Use(UseError::Encode(EncodeError::Custom(format!("arguments of a prompt: {e}"))))
    })?;
    let mut params = GetPromptParams::new(name);
    params.arguments = arguments;
    Ok(params)
}

/// The methods of a client that begin with a request, in an `impl` of the adapter's `Client`
///
/// `client_calls!(self, [&mut self], [async], [.await], Call, dyn FnMut(&Progress), "open", "close")`: the name of the receiver
/// and its type, the tokens that make methods asynchronous (none in those that block), what stands for a call under way,
/// the callback for progress, and the lines that begin and end examples.
///
/// The adapter brings, private or not: `begin_here(progress, command) -> Option<Result<Call, Error>>`, which begins a call at
/// once where the engine is at hand, so that its parameters are written straight to where they go, `begin(progress, command) -> Result<Call, Error>` (which says whether progress is going to be waited for too), `command(command) -> Result<(), Error>`,
/// `result(call, on_progress) -> Result<(RawJson, bool), Error>`, `wait(call)`, `wait_with(call, on_progress)`,
/// `catch_up()`, `written(&value)`, `name(&str)`, `memory()`, `hear(Heard)`, `most_of_a_list()`; all but the last five and
/// `begin` are asynchronous where the methods are.
#[doc(hidden)]
#[macro_export]
macro_rules! client_calls {
    ($self:ident, [$($receiver:tt)+], [$($async:tt)?], [$($await:tt)*], $call:ty, $watch:ty, $open:literal, $close:literal) => {
        // ---- one call at a time --------------------------------------------------------------------------------

        /// Makes any request, and waits for its result object, as it came; `params` must serialise to a JSON object
        ///
        /// [`send`](Self::send) is for requests that know their method and result.
        ///
        /// # Errors
        ///
        /// [`Error::Call`] when the server answers with an error, or not in time; [`Error::Use`] when the call cannot be
        /// made; [`Error::Closed`] when the connection is over.
        pub $($async)? fn request<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            method: &str,
            params: &T,
            options: &::mcp_proto::CallOptions,
        ) -> Result<::mcp_proto::RawJson, $crate::Error> {
            let call = $self.start(method, params, options)?;
            $self.wait(call)$($await)*
        }

        /// Makes any request as [`request`](Self::request) does, with progress told to `on_progress`
        ///
        /// # Errors
        ///
        /// As [`request`](Self::request).
        pub $($async)? fn request_with<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            method: &str,
            params: &T,
            options: &::mcp_proto::CallOptions,
            on_progress: &mut $watch,
        ) -> Result<::mcp_proto::RawJson, $crate::Error> {
            let call = $self.begin_request(true, method, params, options.clone().with_progress())?;
            $self.wait_with(call, on_progress)$($await)*
        }

        /// Asks whether the server is alive; how long it took to answer
        ///
        /// # Errors
        ///
        /// As [`request`](Self::request).
        pub $($async)? fn ping($($receiver)+) -> Result<::core::time::Duration, $crate::Error> {
            let begun = ::std::time::Instant::now();
            let call = $self.begin(false, |engine, now| engine.ping(now, &::mcp_proto::CallOptions::new()))?;
            $self.wait(call)$($await)*?;
            Ok(begun.elapsed())
        }

        // ---- several at once -----------------------------------------------------------------------------------

        /// Begins a request and does not wait for its answer
        ///
        /// The answer has to be fetched with one of the `wait` methods, or the call [cancelled](Self::cancel):
        /// [`Limits::max_pending_calls`](mcp_proto::Limits) counts what is not. While the server has not taken most of
        /// what was written before ([`Limits::outbox_mark`](mcp_proto::Limits)) the call waits, for
        /// [`call_timeout`](mcp_proto::Limits) at most.
        ///
        /// # Errors
        ///
        /// [`Error::Use`] when the call cannot be made; [`Error::Closed`] when the connection is over.
        pub fn start<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            method: &str,
            params: &T,
            options: &::mcp_proto::CallOptions,
        ) -> Result<$call, $crate::Error> {
            $self.begin_request(false, method, params, options.clone())
        }

        fn begin_request<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            progress: bool,
            method: &str,
            params: &T,
            options: ::mcp_proto::CallOptions,
        ) -> Result<$call, $crate::Error> {
            let here = |engine: &mut ::mcp_proto::client::Engine, now| engine.call(now, method, params, &options);
            if let Some(begun) = $self.begin_here(progress, here) {
                return begun;
            }
            let (method, params) = (Self::name(method), $self.written(params)?);
            $self.begin(progress, move |engine, now| engine.call(now, &method, &params, &options))
        }

        /// Begins the call of a tool and does not wait for its result; otherwise as [`start`](Self::start)
        ///
        /// # Errors
        ///
        /// As [`start`](Self::start).
        pub fn start_tool<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            name: &str,
            arguments: &T,
            options: &::mcp_proto::CallOptions,
        ) -> Result<$call, $crate::Error> {
            $self.begin_tool(false, name, arguments, options.clone())
        }

        fn begin_tool<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            progress: bool,
            name: &str,
            arguments: &T,
            options: ::mcp_proto::CallOptions,
        ) -> Result<$call, $crate::Error> {
            let here =
                |engine: &mut ::mcp_proto::client::Engine, now| engine.call_tool(now, name, arguments, &options);
            if let Some(begun) = $self.begin_here(progress, here) {
                return begun;
            }
            let (name, arguments) = (Self::name(name), $self.written(arguments)?);
            $self.begin(progress, move |engine, now| engine.call_tool(now, &name, &arguments, &options))
        }

        // ---- in between ----------------------------------------------------------------------------------------

        /// Gives the server what [`ClientHandler::input`](crate::ClientHandler::input) has left open
        ///
        /// # Errors
        ///
        /// [`Error::Use`] when it is gone or was answered before, or the answer is not right in itself (it stays open
        /// then); otherwise as [`start`](Self::start). Whether it fits a form,
        /// [`InputRequest::check`](mcp_proto::model::InputRequest) says.
        pub $($async)? fn answer(
            $($receiver)+,
            input: ::mcp_proto::client::InputId,
            response: &::mcp_proto::model::InputResponse<'_>,
        ) -> Result<(), $crate::Error> {
            let response = $self.written(response)?;
            $self.command(move |engine, now| engine.answer(now, input, &response))$($await)*
        }

        /// Refuses what [`ClientHandler::input`](crate::ClientHandler::input) has left open: see
        /// [`Engine::refuse`](mcp_proto::client::Engine::refuse)
        ///
        /// # Errors
        ///
        /// As [`answer`](Self::answer).
        pub $($async)? fn refuse(
            $($receiver)+,
            input: ::mcp_proto::client::InputId,
            error: &::mcp_proto::RpcError,
        ) -> Result<(), $crate::Error> {
            let error = error.clone();
            $self.command(move |engine, now| engine.refuse(now, input, &error))$($await)*
        }

        /// Gives a subscription up: nothing more is told of it
        ///
        /// # Errors
        ///
        /// [`Error::Use`] when it has ended already; otherwise as [`start`](Self::start).
        pub $($async)? fn unsubscribe(
            $($receiver)+,
            subscription: ::mcp_proto::client::SubscriptionKey,
        ) -> Result<(), $crate::Error> {
            $self.command(move |engine, now| engine.unsubscribe(now, subscription))$($await)*
        }

        /// Tells the server that [`ClientHandler::roots`](crate::ClientHandler::roots) says something else by now
        ///
        /// Does nothing where that was not promised ([`Capability::RootsListChanged`](mcp_proto::Capability)), and in
        /// the modern era, in which servers ask whenever they need the roots (ROOT-004).
        ///
        /// # Errors
        ///
        /// As [`start`](Self::start).
        pub $($async)? fn roots_changed($($receiver)+) -> Result<(), $crate::Error> {
            $self.command(|engine, now| engine.roots_changed(now))$($await)*
        }

        /// Says from which level on the server is to log; none for nothing at all
        ///
        /// In the modern era each later call says so; a legacy server is told now, and logs what it likes before.
        ///
        /// # Errors
        ///
        /// [`Error::Use`] when the server does not log.
        pub $($async)? fn set_log_level(
            $($receiver)+,
            level: Option<::mcp_proto::model::LoggingLevel>,
        ) -> Result<(), $crate::Error> {
            $self.command(move |engine, now| engine.set_log_level(now, level))$($await)*
        }

        /// Sends a notification of the application's own
        ///
        /// # Errors
        ///
        /// As [`start`](Self::start).
        pub $($async)? fn notify<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            method: &str,
            params: Option<&T>,
        ) -> Result<(), $crate::Error> {
            let method = Self::name(method);
            let params = match params {
                Some(params) => Some($self.written(params)?),
                None => None,
            };
            $self.command(move |engine, now| engine.notify(now, &method, params.as_ref()))$($await)*
        }

        // ---- typed calls ---------------------------------------------------------------------------------------

        /// Calls a tool and waits for its result; `arguments` must serialise to a JSON object
        ///
        /// A tool that failed says so in its result ([`failed`](mcp_proto::model::CallToolResult::failed)).
        /// [`parse_structured`](mcp_proto::model::CallToolResult::parse_structured) reads a structured one.
        ///
        /// ```no_run
        /// #[derive(serde::Deserialize)]
        /// struct Sum {
        ///     sum: f64,
        /// }
        #[doc = $open]
        #[doc = concat!("let result = client.call_tool(\"add\", &serde_json::json!({\"a\": 20, \"b\": 22}))", stringify!($($await)*), "?;")]
        /// let Sum { sum } = result.parse_structured().expect("a sum");
        #[doc = $close]
        /// ```
        ///
        /// # Errors
        ///
        /// [`Error::Call`] when the server answers with an error, or not in time; [`Error::Answer`] when its result
        /// cannot be read, [`Error::BadResult`] when it is not what the tool promises (with a
        /// [validator](crate::Options::validator)); [`Error::Use`] when the call cannot be made; [`Error::Closed`] when
        /// the connection is over.
        pub $($async)? fn call_tool<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            name: &str,
            arguments: &T,
        ) -> Result<::mcp_proto::model::CallToolResult<'static>, $crate::Error> {
            let call = $self.start_tool(name, arguments, &::mcp_proto::CallOptions::new())?;
            let result = $self.wait(call)$($await)*?;
            $self.checked(name, &result)
        }

        /// Calls a tool as [`call_tool`](Self::call_tool) does, with options, and with progress told to `on_progress`
        ///
        /// # Errors
        ///
        /// As [`call_tool`](Self::call_tool).
        pub $($async)? fn call_tool_with<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            name: &str,
            arguments: &T,
            options: &::mcp_proto::CallOptions,
            on_progress: &mut $watch,
        ) -> Result<::mcp_proto::model::CallToolResult<'static>, $crate::Error> {
            let call = $self.begin_tool(true, name, arguments, options.clone().with_progress())?;
            let result = $self.wait_with(call, on_progress)$($await)*?;
            $self.checked(name, &result)
        }

        /// The result of a tool, if it is what the tool promised, as far as that is known
        fn checked(
            $($receiver)+,
            name: &str,
            result: &::mcp_proto::RawJson,
        ) -> Result<::mcp_proto::model::CallToolResult<'static>, $crate::Error> {
            use ::mcp_proto::client::Misfit;
            let read = $crate::client::read::<::mcp_proto::model::CallToolParams<'_>>(result)?;
            match $self.memory().check(name, result) {
                Ok(()) => {}
                Err(Misfit::Schema(why)) => {
                    $self.hear($crate::client::Heard::UnusableSchema(name.into(), why));
                }
                Err(Misfit::Result(violations)) => {
                    let bad = $crate::BadResult::new(name, read, violations);
                    return Err($crate::Error::BadResult(bad.into()));
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
        pub $($async)? fn read_resource(
            $($receiver)+,
            uri: &str,
        ) -> Result<::mcp_proto::model::ReadResourceResult<'static>, $crate::Error> {
            $self.send(&::mcp_proto::model::ReadResourceParams::new(uri))$($await)*
        }

        /// Fills in a prompt; `arguments` must serialise to a JSON object of strings, or to `null` for none
        ///
        /// ```no_run
        #[doc = $open]
        #[doc = concat!("let today = client.get_prompt(\"today\", &())", stringify!($($await)*), "?;")]
        #[doc = "let arguments = serde_json::json!({\"from\": \"Brest\", \"to\": \"Cork\"});"]
        #[doc = concat!("let plan = client.get_prompt(\"plan\", &arguments)", stringify!($($await)*), "?;")]
        #[doc = $close]
        /// ```
        ///
        /// # Errors
        ///
        /// As [`call_tool`](Self::call_tool); `Use(Encode)` names an argument that is no string.
        pub $($async)? fn get_prompt<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            name: &str,
            arguments: &T,
        ) -> Result<::mcp_proto::model::GetPromptResult<'static>, $crate::Error> {
            let params = $crate::client::prompt(name, arguments)?;
            $self.send(&params)$($await)*
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
        #[doc = $open]
        #[doc = "let params = CompleteParams::new(PromptReference::new(\"plan\"), CompletionArgument::new(\"to\", \"C\"))"]
        #[doc = "    .context(CompletionContext::new().arguments([(\"from\", \"Brest\".into())]));"]
        #[doc = concat!("let result = client.send(&params)", stringify!($($await)*), "?;")]
        #[doc = $close]
        /// ```
        ///
        /// # Errors
        ///
        /// As [`call_tool`](Self::call_tool).
        pub $($async)? fn complete<'a>(
            $($receiver)+,
            reference: impl Into<::mcp_proto::model::CompletionReference<'a>>,
            argument: impl Into<::std::borrow::Cow<'a, str>>,
            value: impl Into<::std::borrow::Cow<'a, str>>,
        ) -> Result<::mcp_proto::model::CompleteResult, $crate::Error> {
            use ::mcp_proto::model::{CompleteParams, CompletionArgument};
            let params = CompleteParams::new(reference, CompletionArgument::new(argument, value));
            $self.send(&params)$($await)*
        }

        /// Makes a request that knows its method and its result, and waits for the latter
        ///
        /// A result that the server said may be kept, and which is still fresh, is not asked for again
        /// ([`Options::cache`](crate::Options::cache)).
        ///
        /// # Errors
        ///
        /// As [`call_tool`](Self::call_tool), but for [`Error::BadResult`]: only those methods know what tools promise.
        pub $($async)? fn send<R: ::mcp_proto::model::Request>(
            $($receiver)+,
            params: &R,
        ) -> Result<R::Result, $crate::Error> {
            let mut ticket = None;
            if let Some(question) = ::mcp_proto::client::Question::of(R::METHOD, params) {
                match $self.kept(question)$($await)*? {
                    Ok(kept) => return $crate::client::read::<R>(&kept),
                    Err(leave) => ticket = leave,
                }
            }
            let call = $self.start(R::METHOD, params, &::mcp_proto::CallOptions::new())?;
            let (result, again) = $self.result(call, None)$($await)*?;
            let read = $crate::client::read::<R>(&result)?;
            // What depends on answers of this user is for nobody else, and not for another time (CACHE-011).
            $self.memory().keep(ticket.filter(|_| !again), &result);
            Ok(read)
        }

        /// Makes a request as [`send`](Self::send) does, with options, and with progress told to `on_progress`
        ///
        /// It is always the server that answers, and the answer is not kept: it may depend on the options.
        ///
        /// # Errors
        ///
        /// As [`send`](Self::send).
        pub $($async)? fn send_with<R: ::mcp_proto::model::Request>(
            $($receiver)+,
            params: &R,
            options: &::mcp_proto::CallOptions,
            on_progress: &mut $watch,
        ) -> Result<R::Result, $crate::Error> {
            let result = $self.request_with(R::METHOD, params, options, on_progress)$($await)*?;
            $crate::client::read::<R>(&result)
        }

        // ---- lists ---------------------------------------------------------------------------------------------

        /// All tools of the server, from all pages of the list
        ///
        /// A tool that cannot be read as one is left out, and told to the handler
        /// ([`ClientHandler::unreadable`](crate::ClientHandler::unreadable)): one bad tool does not lose the others.
        /// [`list`](Self::list) says when it ends at a list without end, and when it asks the server at all.
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_tools($($receiver)+) -> Result<Vec<::mcp_proto::model::Tool>, $crate::Error> {
            $self.entries()$($await)*
        }

        /// All resources of the server; otherwise as [`list_tools`](Self::list_tools)
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_resources($($receiver)+) -> Result<Vec<::mcp_proto::model::Resource>, $crate::Error> {
            $self.entries()$($await)*
        }

        /// All templates of resources of the server; otherwise as [`list_tools`](Self::list_tools)
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_resource_templates(
            $($receiver)+
        ) -> Result<Vec<::mcp_proto::model::ResourceTemplate>, $crate::Error> {
            $self.entries()$($await)*
        }

        /// All prompts of the server; otherwise as [`list_tools`](Self::list_tools)
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_prompts($($receiver)+) -> Result<Vec<::mcp_proto::model::Prompt>, $crate::Error> {
            $self.entries()$($await)*
        }

        $($async)? fn entries<T: ::mcp_proto::model::Listed>($($receiver)+) -> Result<Vec<T>, $crate::Error> {
            let mut read = Vec::new();
            for entry in $self.list(T::KIND)$($await)*? {
                match entry.parse() {
                    Ok(entry) => read.push(entry),
                    Err(why) => {
                        let why = why.to_string();
                        $self.hear($crate::client::Heard::Unreadable(T::KIND, entry, why));
                    }
                }
            }
            Ok(read)
        }

        /// All entries of one of the server's lists as they came, from all of its pages
        ///
        /// Ends at what looks endless: a cursor that comes again, [`Pages::MAX`](mcp_proto::client::Pages::MAX) pages, or
        /// more bytes than [`Limits::max_frame`](mcp_proto::Limits) four times over; what came before is returned
        /// (PAGE-012).
        ///
        /// Pages that the server said may be kept, and which are still fresh, are not asked for again
        /// ([`Options::cache`](crate::Options::cache)); when it refuses the cursor that such a page ended with, all are
        /// (CACHE-018).
        ///
        /// # Errors
        ///
        /// As [`call_tool`](Self::call_tool), and [`Error::Answer`] when an answer holds no such list.
        pub $($async)? fn list(
            $($receiver)+,
            kind: ::mcp_proto::client::Kind,
        ) -> Result<Vec<::mcp_proto::RawJson>, $crate::Error> {
            use ::mcp_proto::client::{Pages, Question};
            let mut pages = Pages::new(kind, $self.most_of_a_list());
            loop {
                let cursor = pages.cursor().map(String::from);
                let taken = match $self.kept(Question::List(kind, cursor.clone()))$($await)*? {
                    Ok(kept) => pages.take_kept(&kept),
                    Err(ticket) => {
                        let call = $self.begin(false, move |engine, now| {
                            engine.list(now, kind, cursor.as_deref(), &::mcp_proto::CallOptions::new())
                        })?;
                        match $self.wait(call)$($await)* {
                            Ok(result) => {
                                let taken = pages.take(&result);
                                $self.memory().keep(ticket.filter(|_| taken.is_ok()), &result);
                                taken
                            }
                            Err($crate::Error::Call(error)) if pages.start_over(&error) => {
                                $self.memory().forget_list(kind);
                                continue;
                            }
                            Err(error) => return Err(error),
                        }
                    }
                };
                if !taken.map_err(|error| $crate::Error::Answer(error.to_string()))? {
                    let entries = pages.into_entries();
                    $self.memory().learn(kind, &entries);
                    return Ok(entries);
                }
            }
        }

        /// A result that need not be asked for, or leave to keep the one that is
        $($async)? fn kept(
            $($receiver)+,
            question: ::mcp_proto::client::Question,
        ) -> Result<Result<::mcp_proto::RawJson, Option<::mcp_proto::client::Ticket>>, $crate::Error> {
            let found = $self.memory().look(question.clone());
            if found.is_err() {
                return Ok(found);
            }
            // News that say otherwise may have come and not been read yet.
            $self.catch_up()$($await)*?;
            Ok($self.memory().look(question))
        }
    };
}
