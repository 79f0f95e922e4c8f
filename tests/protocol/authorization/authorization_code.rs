//! The authorization code: PKCE, `state`, the table of RFC 9207, and the redemption.

use mcp_oauth::{Error, ErrorKind, RedirectOutcome, Step, redirect_query};
use mcp_tests::harness::authorization::{Outcome, Reply, World, encoded, form};
use serde_json::{Value, json};

use super::{config, refused, run};

// covers: AUTH-040, AUTH-041, AUTH-043, AUTH-045, AUTH-046, AUTH-012, AUTH-002
#[test]
fn a_user_who_agrees_brings_a_token() {
    let (world, outcome) = run(&config(), |_| {});
    let token = outcome.token();
    assert!(token.dpop.is_none() && token.renew_at.is_some_and(|at| at > world.unix_secs()));
    let redeemed = world.grants("authorization_code")[0];
    assert_eq!(redeemed.url, "https://as.test/token");
    assert_eq!(redeemed.param("redirect_uri"), world.query()["redirect_uri"]);
    assert_eq!(redeemed.param("resource"), "https://mcp.test/mcp");
    assert!(redeemed.param("code_verifier").len() >= 43, "RFC 7636, 4.1");
    let record = world.record().expect("tokens");
    assert_eq!((record.issuer(), record.resource()), ("https://as.test", "https://mcp.test/mcp"));
    assert!(record.is_refreshable() && !record.is_dpop());
}

// covers: AUTH-041
#[test]
fn a_server_that_does_not_advertise_s256_is_refused() {
    for methods in [Value::Null, json!([]), json!(["plain"]), json!(["s256"])] {
        let (world, outcome) = run(&config(), |world| {
            world.issuer().metadata["code_challenge_methods_supported"] = methods.clone();
        });
        assert_eq!(outcome.error().rule(), "AUTH-041", "{methods}");
        assert!(world.opened.is_empty() && world.requests.iter().all(|request| request.method == "GET"));
    }
}

// covers: AUTH-045
#[test]
fn state_and_verifier_are_new_in_each_flow() {
    let mut world = World::new();
    world.unauthorized(&config()).token();
    let first = world.query();
    super::log_in(&mut world, &config()).token();
    assert_ne!(first["state"], world.query()["state"]);
    assert_ne!(first["code_challenge"], world.query()["code_challenge"]);
}

/// Runs a flow whose browser comes back with these queries.
fn redirected(
    change: impl FnOnce(&mut World),
    queries: impl Fn(&str) -> Vec<String> + 'static,
) -> (World, Outcome) {
    run(&config(), |world| {
        change(world);
        world.browser = Box::new(move |_, right| queries(&right));
    })
}

/// Returns a query without one parameter.
fn without(query: &str, name: &str) -> String {
    let pairs = form(query).into_iter().filter(|(other, _)| other != name);
    pairs.map(|(name, value)| format!("{name}={}", encoded(&value))).collect::<Vec<_>>().join("&")
}

// covers: AUTH-045
#[test]
fn redirects_without_the_state_of_the_flow_change_nothing() {
    let (world, outcome) = redirected(
        |_| {},
        |right| {
            vec![
                without(right, "state"),
                format!("{}&state=foreign", without(right, "state")),
                format!("{}&state=", without(right, "state")),
                "error=access_denied&state=foreign".into(),
                "error=access_denied".into(),
                String::new(),
                "state=%zz".into(),
                format!("{right}&x={}", "y".repeat(17 << 10)),
                right.into(),
            ]
        },
    );
    outcome.token();
    let (last, foreign) = world.redirects.split_last().expect("redirects");
    assert!(foreign.iter().all(|outcome| *outcome == RedirectOutcome::Foreign), "{foreign:?}");
    assert_eq!(*last, RedirectOutcome::Accepted);
}

// covers: AUTH-045
#[test]
fn the_second_redirect_of_a_flow_changes_nothing() {
    let (world, outcome) =
        redirected(|_| {}, |right| vec![right.into(), right.into(), right.replace("code=", "code=x")]);
    outcome.token();
    assert_eq!(
        world.redirects,
        [RedirectOutcome::Accepted, RedirectOutcome::Foreign, RedirectOutcome::Foreign]
    );
    assert_eq!(world.grants("authorization_code").len(), 1);
}

// covers: AUTH-045
#[test]
fn the_redirect_of_an_earlier_flow_changes_nothing() {
    use alloc::rc::Rc;
    use core::cell::RefCell;
    let earlier = Rc::new(RefCell::new(Vec::<String>::new()));
    let mut world = World::new();
    let seen = Rc::clone(&earlier);
    world.browser = Box::new(move |_, right| {
        let mut seen = seen.borrow_mut();
        let mut queries = seen.clone();
        seen.push(right.clone());
        queries.push(right);
        queries
    });
    world.unauthorized(&config()).token();
    super::log_in(&mut world, &config()).token();
    assert_eq!(world.redirects, [RedirectOutcome::Foreign, RedirectOutcome::Accepted]);
}

// covers: AUTH-047, AUTH-048, AUTH-049
#[test]
fn iss_of_the_redirect_is_held_against_the_issuer() {
    let other = Some("AUTH-047");
    for (is_supported, iss, expected) in [
        (true, Some("https://as.test"), None),
        (true, None, other),
        (true, Some("https://evil.test"), other),
        (true, Some(""), other),
        (false, None, None),
        (false, Some("https://as.test"), None),
        (false, Some("https://evil.test"), other),
        // No normalization.
        (true, Some("https://as.test/"), other),
        (true, Some("https://AS.test"), other),
        (true, Some("https://as.test:443"), other),
        (true, Some("https%3A//as.test"), other),
        (false, Some("https://as.test/"), other),
    ] {
        for is_error in [false, true] {
            let prepare = |world: &mut World| {
                world.issuer().metadata["authorization_response_iss_parameter_supported"] =
                    json!(is_supported);
            };
            let (world, outcome) = redirected(prepare, move |right| {
                let mut query = without(right, "iss");
                if is_error {
                    query =
                        format!("{}&error=evil_text&error_description=evil+words", without(&query, "code"));
                }
                if let Some(iss) = iss {
                    query.push_str(&format!("&iss={}", encoded(iss)));
                }
                vec![query]
            });
            let case = format!("{is_supported} {iss:?} {is_error}");
            match (expected, is_error) {
                (None, false) => drop(outcome.token()),
                (None, true) => {
                    let kind = outcome.error().kind().clone();
                    assert!(
                        matches!(kind, ErrorKind::Refused { code, .. } if &*code == "evil_text"),
                        "{case}"
                    );
                }
                (Some(rule), _) => {
                    let error = outcome.error();
                    assert_eq!(error.rule(), rule, "{case}");
                    assert!(!error.to_string().contains("evil"), "{error}");
                    assert!(world.grants("authorization_code").is_empty(), "{case}");
                    assert!(matches!(world.redirects[0], RedirectOutcome::Failed(_)));
                }
            }
        }
    }
}

#[test]
fn ambiguous_and_empty_redirects_end_the_flow() {
    for change in ["&code=other", "&iss=https%3A%2F%2Fas.test", "&error=x&error=y"] {
        let (world, outcome) = redirected(|_| {}, move |right| vec![format!("{right}{change}")]);
        assert_eq!(outcome.error().step(), Step::Authorization, "{change}");
        assert!(world.grants("authorization_code").is_empty());
    }
    for code in ["", "&code="] {
        let (_, outcome) = redirected(|_| {}, move |right| vec![format!("{}{code}", without(right, "code"))]);
        assert_eq!(outcome.error().rule(), "RFC 6749, 4.1.2");
    }
}

#[test]
fn a_user_who_refuses_ends_the_flow_with_the_reason() {
    let (_, outcome) = redirected(
        |_| {},
        |right| {
            vec![format!("{}&error=access_denied&error_description=%0a%1b%5b31mno", without(right, "code"))]
        },
    );
    let error: Error = outcome.error();
    assert!(error.to_string().contains("access_denied"), "{error}");
    assert!(!error.to_string().contains(['\n', '\u{1b}']), "control characters are not shown");
}

#[test]
fn an_authorization_endpoint_may_have_a_query_of_its_own() {
    let with_query = |query: &'static str| {
        run(&config(), move |world| {
            world.issuer().metadata["authorization_endpoint"] =
                json!(format!("https://as.test/authorize{query}"));
        })
    };
    let (world, outcome) = with_query("?tenant=7");
    outcome.token();
    assert_eq!(world.query()["tenant"], "7");
    with_query("?").1.token();
    for query in ["?state=fixed", "?client_id=x&y", "?redirect%5furi=https://evil.test"] {
        let (world, outcome) = with_query(query);
        assert_eq!(outcome.error().step(), Step::Authorization, "{query}");
        assert!(world.opened.is_empty());
    }
}

// covers: SEC-011, SEC-019
#[test]
fn a_code_follows_no_redirect_and_is_not_repeated_in_an_error() {
    for status in [301, 302, 303, 307, 308] {
        let (world, outcome) = run(&config(), |world| {
            world.alter = Box::new(move |request, reply| {
                if request.grant() == "authorization_code" {
                    let to = format!("https://evil.test/{}", request.param("code"));
                    *reply = Reply::redirect(&to);
                    if let Reply::Response { status: of_reply, .. } = reply {
                        *of_reply = status;
                    }
                }
            });
        });
        assert!(matches!(outcome.error().kind(), ErrorKind::Redirected(_)));
        assert_eq!(world.grants("authorization_code").len(), 1);
    }
    // A server that repeats what it got does not make the client show it.
    let (_, text) = refused(&config(), |world| {
        world.alter = Box::new(|request, reply| {
            if request.grant() == "authorization_code" {
                let words =
                    format!("unknown code {} of {}", request.param("code"), request.param("code_verifier"));
                *reply = Reply::json(400, &json!({ "error": "invalid_grant", "error_description": words }));
            }
        });
    });
    assert!(text.contains("invalid_grant"), "{text}");
}

#[test]
fn wrong_token_responses_are_errors_and_store_nothing() {
    let good = json!({ "access_token": "t0ken-s3cret", "token_type": "Bearer" });
    let changes: [(&str, Value); 9] = [
        ("access_token", Value::Null),
        ("access_token", json!("")),
        ("access_token", json!("a\r\nX: y")),
        ("access_token", json!(7)),
        ("token_type", Value::Null),
        ("token_type", json!("mac")),
        ("token_type", json!("DPoP")),
        ("scope", json!("a\"b")),
        ("refresh_token", json!("r\n")),
    ];
    for (name, value) in changes {
        let mut body = good.clone();
        body[name] = value.clone();
        let (world, outcome) = run(&config(), move |world| {
            world.alter = Box::new(move |request, reply| {
                if request.grant() == "authorization_code" {
                    *reply = Reply::json(200, &body);
                }
            });
        });
        assert_eq!(outcome.error().step(), Step::Token, "{name}: {value}");
        assert!(world.record().is_none());
    }
}

#[test]
fn what_a_user_pastes_is_a_url_or_a_query() {
    for (pasted, expected) in [
        ("http://127.0.0.1:1/cb?code=c&state=s", "code=c&state=s"),
        (" code=c&state=s \n", "code=c&state=s"),
        ("?code=c&state=s", "code=c&state=s"),
        ("code=a?b&state=s", "code=a?b&state=s"),
        ("https://h/cb?code=a?b&state=s#frag", "code=a?b&state=s"),
        ("", ""),
    ] {
        assert_eq!(redirect_query(pasted), expected, "{pasted}");
    }
}

#[test]
fn queries_of_a_redirect_have_16_kib_at_most() {
    let padded = |length: usize| {
        redirected(
            |_| {},
            move |right| {
                let rest = length - right.len() - "&x=".len();
                vec![format!("{right}&x={}", "y".repeat(rest)), right.into()]
            },
        )
    };
    let (world, outcome) = padded(16 << 10);
    outcome.token();
    assert_eq!(world.redirects, [RedirectOutcome::Accepted, RedirectOutcome::Foreign]);
    let (world, outcome) = padded((16 << 10) + 1);
    outcome.token();
    assert_eq!(world.redirects, [RedirectOutcome::Foreign, RedirectOutcome::Accepted]);
}

#[test]
fn an_empty_query_of_an_authorization_endpoint_is_none() {
    let (world, outcome) = run(&config(), |world| {
        world.issuer().metadata["authorization_endpoint"] = json!("https://as.test/authorize?");
    });
    outcome.token();
    assert!(
        world.opened[0].starts_with("https://as.test/authorize?response_type=code&"),
        "{}",
        world.opened[0]
    );
}

#[test]
fn the_description_of_a_refusal_is_shown() {
    let (_, outcome) = redirected(
        |_| {},
        |right| {
            let query = right.replace("code=", "error=access_denied&error_description=not+today&x=");
            vec![query]
        },
    );
    let error = outcome.error().to_string();
    assert!(error.contains("refused with `access_denied` (not today)"), "{error}");
}
