//! The typed calls of all clients, written once as a macro for blocking and asynchronous adapters.

use alloc::format;
use alloc::string::String;

use mcp_proto::model::{GetPromptParams, Map, RequestParams};
use mcp_proto::{EncodeError, RawJson, UseError};
use serde::Serialize;

use crate::error::Error;

/// Reads a result as the type that its request declares.
///
/// # Errors
///
/// [`Error::UnexpectedResult`] if the result does not have that type.
pub fn read<R: RequestParams>(result: &RawJson) -> Result<R::Result, Error> {
    R::read(result).map_err(|why| {
        Error::UnexpectedResult(format!("the result of `{}` cannot be read: {why}", R::METHOD))
    })
}

/// Creates the parameters of `prompts/get`.
///
/// `arguments` must serialize to a JSON object of strings, or to `null` for none.
///
/// # Errors
///
/// [`Error::Use`] if `arguments` cannot be serialized or an argument is not a string.
pub fn prompt_params<'a, T: Serialize + ?Sized>(
    name: &'a str,
    arguments: &T,
) -> Result<GetPromptParams<'a>, Error> {
    let encoded = RawJson::encode(arguments).map_err(|e| Error::Use(e.into()))?;
    let arguments: Option<Map<String>> = encoded.parse().map_err(|e| {
        Error::Use(UseError::Encode(EncodeError::Custom(format!("arguments of a prompt: {e}"))))
    })?;
    let mut params = GetPromptParams::new(name);
    params.arguments = arguments;
    Ok(params)
}

/// Expands to the methods of a client that begin with a request, for an `impl` block of the adapter's `Client`.
///
/// `client_calls!(self, [&mut self], [async], [.await], Call, dyn FnMut(&Progress), "open", "close")` takes:
///
/// - the name and the type of the receiver,
/// - the tokens that make methods asynchronous (none in blocking adapters),
/// - the handle of a pending call,
/// - the type of progress callbacks,
/// - the first and the last line of examples.
///
/// The adapter provides these functions, with any visibility:
///
/// - `try_begin(progress, command) -> Option<Result<Call, Error>>` begins a call immediately if the engine is
///   available. The parameters are then serialized directly into the outbox.
/// - `begin(progress, command) -> Result<Call, Error>` begins a call. `progress` tells whether the caller will wait for
///   progress, too.
/// - `command(command) -> Result<(), Error>`, `result(call, on_progress) -> Result<(RawJson, bool), Error>`,
///   `wait(call)`, `wait_with(call, on_progress)` and `catch_up()`.
/// - `encode(&value)` and `name(&str)`, which prepare parameters and method names for a command.
/// - `result_cache()`, which returns the [`ResultCache`](crate::adapter::client::ResultCache) of the connection.
/// - `dispatch(Callback)`, which runs a callback, or queues it where the handler runs elsewhere.
/// - `max_list_bytes()`, the maximum size of a list of all pages.
///
/// `command`, `result`, `wait`, `wait_with` and `catch_up` are asynchronous if the methods are.
#[doc(hidden)]
#[macro_export]
macro_rules! client_calls {
    (
        $self:ident,
        [$($receiver:tt)+],
        [$($async:tt)?],
        [$($await:tt)*],
        $call:ty,
        $watch:ty,
        $open:literal,
        $close:literal
    ) => {
        // ---- one call at a time --------------------------------------------------------------------------------

        /// Sends a request and waits for its result, a JSON object that is returned unchanged.
        ///
        /// `params` must serialize to a JSON object. Use [`send`](Self::send) for typed parameters and results.
        ///
        /// # Errors
        ///
        /// - [`Error::Call`]: the server answered with an error, or the call timed out.
        /// - [`Error::Use`]: the call cannot be made.
        /// - [`Error::Closed`]: the connection has ended.
        pub $($async)? fn request<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            method: &str,
            params: &T,
            options: &::mcp_proto::CallOptions,
        ) -> Result<::mcp_proto::RawJson, $crate::Error> {
            let call = $self.start(method, params, options)?;
            $self.wait(call)$($await)*
        }

        /// Sends a request as [`request`](Self::request) does, with progress reported to `on_progress`.
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

        /// Sends a `ping` and returns the time until its response.
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

        // ---- several calls at once -----------------------------------------------------------------------------

        /// Starts a request without waiting for its result.
        ///
        /// Take the outcome with one of the `wait` methods, or [cancel](Self::cancel) the call. Until then the call
        /// counts against [`Limits::max_pending_calls`](mcp_proto::Limits). While the server is slow to read
        /// ([`Limits::outbox_high_water`](mcp_proto::Limits)), the call is delayed for up to
        /// [`call_timeout`](mcp_proto::Limits).
        ///
        /// # Errors
        ///
        /// - [`Error::Use`]: the call cannot be made.
        /// - [`Error::Closed`]: the connection has ended.
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
            let write_params =
                |engine: &mut ::mcp_proto::client::Engine, now| engine.call(now, method, params, &options);
            if let Some(begun) = $self.try_begin(progress, write_params) {
                return begun;
            }
            let (method, params) = (Self::name(method), $self.encode(params)?);
            $self.begin(progress, move |engine, now| engine.call(now, &method, &params, &options))
        }

        /// Starts the call of a tool without waiting for its result; otherwise as [`start`](Self::start).
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
            let write_params =
                |engine: &mut ::mcp_proto::client::Engine, now| engine.call_tool(now, name, arguments, &options);
            if let Some(begun) = $self.try_begin(progress, write_params) {
                return begun;
            }
            let (name, arguments) = (Self::name(name), $self.encode(arguments)?);
            $self.begin(progress, move |engine, now| engine.call_tool(now, &name, &arguments, &options))
        }

        // ---- commands ------------------------------------------------------------------------------------------

        /// Answers an input request that [`ClientHandler::input`](crate::ClientHandler::input) left open.
        ///
        /// [`InputRequest::check_response`](mcp_proto::model::InputRequest) tells whether a response matches its form.
        ///
        /// # Errors
        ///
        /// - [`Error::Use`]: the input request is gone or was answered before, or the response is invalid in itself. In
        ///   the last case the input request stays open.
        /// - Otherwise as [`start`](Self::start).
        pub $($async)? fn answer(
            $($receiver)+,
            input: ::mcp_proto::client::InputId,
            response: &::mcp_proto::model::InputResponse<'_>,
        ) -> Result<(), $crate::Error> {
            let response = $self.encode(response)?;
            $self.command(move |engine, now| engine.answer(now, input, &response))$($await)*
        }

        /// Refuses an input request that [`ClientHandler::input`](crate::ClientHandler::input) left open.
        ///
        /// See [`Engine::refuse`](mcp_proto::client::Engine::refuse).
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

        /// Ends a subscription. The handler gets no more callbacks for it.
        ///
        /// # Errors
        ///
        /// - [`Error::Use`]: the subscription has ended already.
        /// - Otherwise as [`start`](Self::start).
        pub $($async)? fn unsubscribe(
            $($receiver)+,
            subscription: ::mcp_proto::client::SubscriptionKey,
        ) -> Result<(), $crate::Error> {
            $self.command(move |engine, now| engine.unsubscribe(now, subscription))$($await)*
        }

        /// Notifies the server that the result of [`ClientHandler::roots`](crate::ClientHandler::roots) has changed.
        ///
        /// Does nothing unless the client declared [`Capability::RootsListChanged`](mcp_proto::Capability). Does
        /// nothing in the modern era either, because servers ask for the roots whenever they need them (ROOT-004).
        ///
        /// # Errors
        ///
        /// As [`start`](Self::start).
        pub $($async)? fn roots_changed($($receiver)+) -> Result<(), $crate::Error> {
            $self.command(|engine, now| engine.notify_roots_changed(now))$($await)*
        }

        /// Sets the minimum level of the server's log messages; `None` turns them off.
        ///
        /// In the modern era each later call carries the level. A legacy server is notified immediately. Before that it
        /// chooses the level itself.
        ///
        /// # Errors
        ///
        /// [`Error::Use`] if the server does not log.
        pub $($async)? fn set_log_level(
            $($receiver)+,
            level: Option<::mcp_proto::model::LoggingLevel>,
        ) -> Result<(), $crate::Error> {
            $self.command(move |engine, now| engine.set_log_level(now, level))$($await)*
        }

        /// Sends a notification of the application.
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
                Some(params) => Some($self.encode(params)?),
                None => None,
            };
            $self.command(move |engine, now| engine.notify(now, &method, params.as_ref()))$($await)*
        }

        // ---- typed calls ---------------------------------------------------------------------------------------

        /// Calls a tool and waits for its result.
        ///
        /// `arguments` must serialize to a JSON object. The result of a tool that failed has
        /// [`failed`](mcp_proto::model::CallToolResult::failed) set. Read a structured result with
        /// [`parse_structured`](mcp_proto::model::CallToolResult::parse_structured).
        ///
        /// ```no_run
        /// #[derive(serde::Deserialize)]
        /// struct Sum {
        ///     sum: f64,
        /// }
        #[doc = $open]
        #[doc = "let arguments = serde_json::json!({\"a\": 20, \"b\": 22});"]
        #[doc = concat!("let result = client.call_tool(\"add\", &arguments)", stringify!($($await)*), "?;")]
        /// let Sum { sum } = result.parse_structured().expect("a sum");
        #[doc = $close]
        /// ```
        ///
        /// # Errors
        ///
        /// - [`Error::Call`]: the server answered with an error, or the call timed out.
        /// - [`Error::UnexpectedResult`]: the result cannot be read.
        /// - [`Error::OutputSchemaViolation`]: the result violates the tool's output schema (checked with a
        ///   [validator](crate::Options::validator)).
        /// - [`Error::Use`]: the call cannot be made.
        /// - [`Error::Closed`]: the connection has ended.
        pub $($async)? fn call_tool<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            name: &str,
            arguments: &T,
        ) -> Result<::mcp_proto::model::CallToolResult<'static>, $crate::Error> {
            let call = $self.start_tool(name, arguments, &::mcp_proto::CallOptions::new())?;
            let result = $self.wait(call)$($await)*?;
            $self.check_tool_result(name, &result)
        }

        /// Calls a tool as [`call_tool`](Self::call_tool) does, with options and with progress reported to
        /// `on_progress`.
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
            $self.check_tool_result(name, &result)
        }

        /// Reads the result of a tool and checks it against the output schema, if that is known.
        fn check_tool_result(
            $($receiver)+,
            name: &str,
            result: &::mcp_proto::RawJson,
        ) -> Result<::mcp_proto::model::CallToolResult<'static>, $crate::Error> {
            use ::mcp_proto::client::OutputMismatch;
            let read = $crate::adapter::client::read::<::mcp_proto::model::CallToolParams<'_>>(result)?;
            match $self.result_cache().check_output(name, result) {
                Ok(()) => {}
                Err(OutputMismatch::Schema(why)) => {
                    $self.dispatch($crate::adapter::client::Callback::UnusableSchema(name.into(), why));
                }
                Err(OutputMismatch::Result(violations)) => {
                    let violation = $crate::OutputSchemaViolation::new(name, read, violations);
                    return Err($crate::Error::OutputSchemaViolation(violation.into()));
                }
            }
            Ok(read)
        }

        /// Reads a resource.
        ///
        /// As [`send`](Self::send), it returns a cached result if there is a fresh one.
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

        /// Gets a prompt, filled in with arguments.
        ///
        /// `arguments` must serialize to a JSON object of strings, or to `null` for none.
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
        /// As [`call_tool`](Self::call_tool). `Use(Encode)` names an argument that is not a string.
        pub $($async)? fn get_prompt<T: ::serde::Serialize + ?Sized>(
            $($receiver)+,
            name: &str,
            arguments: &T,
        ) -> Result<::mcp_proto::model::GetPromptResult<'static>, $crate::Error> {
            let params = $crate::adapter::client::prompt_params(name, arguments)?;
            $self.send(&params)$($await)*
        }

        /// Returns completions of `value` for an argument of a prompt or a variable of a resource template.
        ///
        /// `reference` is a [`PromptReference`](mcp_proto::model::PromptReference) or a
        /// [`ResourceTemplateReference`](mcp_proto::model::ResourceTemplateReference). Since 2025-06-18 the request can
        /// contain the arguments that are filled in already (COMP-006):
        ///
        /// ```no_run
        /// use mcp_proto::model::{CompleteParams, CompletionArgument, CompletionContext, PromptReference};
        ///
        #[doc = $open]
        #[doc = "let argument = CompletionArgument::new(\"to\", \"C\");"]
        #[doc = "let params = CompleteParams::new(PromptReference::new(\"plan\"), argument)"]
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

        /// Sends a typed request and waits for its typed result.
        ///
        /// Returns a cached result without a request if the server allowed caching and the result is still fresh
        /// ([`Options::cache`](crate::Options::cache)).
        ///
        /// # Errors
        ///
        /// As [`call_tool`](Self::call_tool), except for [`Error::OutputSchemaViolation`]: output schemas are checked
        /// by the `call_tool` methods only.
        pub $($async)? fn send<R: ::mcp_proto::model::RequestParams>(
            $($receiver)+,
            params: &R,
        ) -> Result<R::Result, $crate::Error> {
            let mut ticket = None;
            if let Some(key) = ::mcp_proto::client::CacheKey::from_request(R::METHOD, params) {
                match $self.lookup_cached(key)$($await)*? {
                    Ok(cached) => return $crate::adapter::client::read::<R>(&cached),
                    Err(permission) => ticket = permission,
                }
            }
            let call = $self.start(R::METHOD, params, &::mcp_proto::CallOptions::new())?;
            let (result, retried) = $self.result(call, None)$($await)*?;
            let read = $crate::adapter::client::read::<R>(&result)?;
            // A retried call depends on input responses of this user at this time, so it is never cached (CACHE-011).
            $self.result_cache().insert(ticket.filter(|_| !retried), &result);
            Ok(read)
        }

        /// Sends a typed request as [`send`](Self::send) does, with options and with progress reported to
        /// `on_progress`.
        ///
        /// The cache is neither read nor written, because the result may depend on the options.
        ///
        /// # Errors
        ///
        /// As [`send`](Self::send).
        pub $($async)? fn send_with<R: ::mcp_proto::model::RequestParams>(
            $($receiver)+,
            params: &R,
            options: &::mcp_proto::CallOptions,
            on_progress: &mut $watch,
        ) -> Result<R::Result, $crate::Error> {
            let result = $self.request_with(R::METHOD, params, options, on_progress)$($await)*?;
            $crate::adapter::client::read::<R>(&result)
        }

        // ---- lists ---------------------------------------------------------------------------------------------

        /// Returns all tools of the server, from all pages of the list.
        ///
        /// A tool that cannot be read is left out and reported to
        /// [`ClientHandler::diagnostic`](crate::ClientHandler::diagnostic), as
        /// [`UnreadableEntry`](mcp_proto::Diagnostic::UnreadableEntry). [`list`](Self::list) describes the bounds of a
        /// list and the use of the cache.
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_tools($($receiver)+) -> Result<Vec<::mcp_proto::model::Tool>, $crate::Error> {
            $self.entries()$($await)*
        }

        /// Returns all resources of the server; otherwise as [`list_tools`](Self::list_tools).
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_resources($($receiver)+) -> Result<Vec<::mcp_proto::model::Resource>, $crate::Error> {
            $self.entries()$($await)*
        }

        /// Returns all resource templates of the server; otherwise as [`list_tools`](Self::list_tools).
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_resource_templates(
            $($receiver)+
        ) -> Result<Vec<::mcp_proto::model::ResourceTemplate>, $crate::Error> {
            $self.entries()$($await)*
        }

        /// Returns all prompts of the server; otherwise as [`list_tools`](Self::list_tools).
        ///
        /// # Errors
        ///
        /// As [`list`](Self::list).
        pub $($async)? fn list_prompts($($receiver)+) -> Result<Vec<::mcp_proto::model::Prompt>, $crate::Error> {
            $self.entries()$($await)*
        }

        $($async)? fn entries<T: ::mcp_proto::model::ListItem>($($receiver)+) -> Result<Vec<T>, $crate::Error> {
            let read = ::mcp_proto::client::TypedEntries::<T>::read(&$self.list(T::KIND)$($await)*?);
            for diagnostic in read.diagnostics {
                $self.dispatch($crate::adapter::client::Callback::Diagnostic(diagnostic));
            }
            Ok(read.entries)
        }

        /// Returns all entries of a list of the server as raw JSON, from all pages.
        ///
        /// Stops at a list that looks endless, and returns the entries so far (PAGE-012). The bounds are a repeated
        /// cursor, [`Paginator::MAX_PAGES`](mcp_proto::client::Paginator::MAX_PAGES) pages, and four times
        /// [`Limits::max_frame`](mcp_proto::Limits) bytes.
        ///
        /// Fresh cached pages are used without a request ([`Options::cache`](crate::Options::cache)). If the server
        /// refuses the cursor of a cached page, all pages are requested again (CACHE-018).
        ///
        /// # Errors
        ///
        /// As [`call_tool`](Self::call_tool), and [`Error::UnexpectedResult`] if a result does not contain the list.
        pub $($async)? fn list(
            $($receiver)+,
            kind: ::mcp_proto::EntryKind,
        ) -> Result<Vec<::mcp_proto::RawJson>, $crate::Error> {
            use ::mcp_proto::client::{CacheKey, Paginator};
            let mut pages = Paginator::new(kind, $self.max_list_bytes());
            loop {
                let cursor = pages.cursor().map(String::from);
                let taken = match $self.lookup_cached(CacheKey::List(kind, cursor.clone()))$($await)*? {
                    Ok(cached) => pages.take_cached(&cached),
                    Err(ticket) => {
                        let call = $self.begin(false, move |engine, now| {
                            engine.list(now, kind, cursor.as_deref(), &::mcp_proto::CallOptions::new())
                        })?;
                        match $self.wait(call)$($await)* {
                            Ok(result) => {
                                let taken = pages.take(&result);
                                $self.result_cache().insert(ticket.filter(|_| taken.is_ok()), &result);
                                taken
                            }
                            Err($crate::Error::Call(error)) if pages.restart(&error) => {
                                $self.result_cache().invalidate_list(kind);
                                continue;
                            }
                            Err(error) => return Err(error),
                        }
                    }
                };
                if !taken.map_err(|error| $crate::Error::UnexpectedResult(error.to_string()))? {
                    let entries = pages.into_entries();
                    $self.result_cache().set_tools(kind, &entries);
                    return Ok(entries);
                }
            }
        }

        /// Returns a fresh cached result, or the ticket for its result.
        $($async)? fn lookup_cached(
            $($receiver)+,
            key: ::mcp_proto::client::CacheKey,
        ) -> Result<Result<::mcp_proto::RawJson, Option<::mcp_proto::client::CacheTicket>>, $crate::Error> {
            let found = $self.result_cache().lookup(key.clone());
            if found.is_err() {
                return Ok(found);
            }
            // A change notification that invalidates the entry may have arrived unread.
            $self.catch_up()$($await)*?;
            Ok($self.result_cache().lookup(key))
        }
    };
}
