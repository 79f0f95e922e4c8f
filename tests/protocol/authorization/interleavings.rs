//! Several flows with one store, in every order of what they do there and at the token endpoint.

use alloc::collections::VecDeque;

use mcp_oauth::{Config, ErrorKind, Event, Flow, Trigger};
use mcp_tests::harness::authorization::{Outcome, World};

use super::config;

// covers: AUTH-063
#[test]
fn login_is_not_lost_when_the_store_stays_locked() {
    let mut world = World::new();
    let mut flow = world.flow(&config(), Trigger::LogIn { challenges: Vec::new() });
    let outcome = loop {
        let event = flow.poll_event(world.now).expect("an event");
        let is_lock = matches!(event, Event::Lock { .. });
        if is_lock {
            flow.fail(world.now, ErrorKind::Locked("another process has it".into()));
        } else if let Some(outcome) = world.answer(&mut flow, event) {
            break outcome;
        }
    };
    let token = outcome.token();
    assert_eq!(world.stored_token(), Some(token.token));
}

/// A flow that stops before each step that the other one can notice.
struct Side {
    flow: Flow,
    next: Option<Event>,
    outcome: Option<Outcome>,
    /// Whether it goes on without the lock when another flow has it: its wait has timed out.
    is_impatient: bool,
}

impl Side {
    fn new(world: &mut World, config: &Config, (trigger, is_impatient): (Trigger, bool)) -> Self {
        let mut side = Self { flow: world.flow(config, trigger), next: None, outcome: None, is_impatient };
        side.advance(world);
        side
    }

    /// Takes the step before which the flow has stopped, and goes on to the next one.
    fn step(&mut self, world: &mut World) {
        let event = self.next.take().expect("a step");
        if matches!(event, Event::Lock { .. }) && world.is_locked() {
            self.flow.fail(world.now, ErrorKind::Locked("another process has it".into()));
        } else {
            self.outcome = world.answer(&mut self.flow, event);
        }
        self.advance(world);
    }

    fn advance(&mut self, world: &mut World) {
        while self.outcome.is_none() {
            let event = self.flow.poll_event(world.now).expect("an event");
            if is_shared(&event) {
                self.next = Some(event);
                return;
            }
            self.outcome = world.answer(&mut self.flow, event);
        }
    }

    fn can_step(&self, world: &World) -> bool {
        match &self.next {
            Some(Event::Lock { .. }) => self.is_impatient || !world.is_locked(),
            next => next.is_some(),
        }
    }
}

/// Returns whether the order of this step and those of another flow matters.
fn is_shared(event: &Event) -> bool {
    match event {
        Event::Load { key }
        | Event::Lock { key }
        | Event::Save { key, .. }
        | Event::Replace { key, .. }
        | Event::Unlock { key } => key.starts_with("token"),
        Event::Fetch(fetch) => fetch.method == "POST" && !fetch.url.target().ends_with("/register"),
        _ => false,
    }
}

/// Runs flows in every order; `prepare` makes the world anew for each. Returns the number of orders.
fn in_every_order<const N: usize>(
    prepare: impl Fn() -> World,
    triggers: impl Fn(&World) -> [Trigger; N],
    check: impl Fn(&mut World, [Outcome; N]),
) -> usize {
    in_every_order_of(prepare, |world| triggers(world).map(|trigger| (trigger, false)), check)
}

/// The same with flows that may be impatient.
fn in_every_order_of<const N: usize>(
    prepare: impl Fn() -> World,
    triggers: impl Fn(&World) -> [(Trigger, bool); N],
    check: impl Fn(&mut World, [Outcome; N]),
) -> usize {
    // Each order is a list of the side that takes the next step; what it does not say is tried both ways.
    let mut orders: VecDeque<Vec<usize>> = VecDeque::from([Vec::new()]);
    let mut complete = 0;
    while let Some(mut order) = orders.pop_back() {
        let mut world = prepare();
        let mut sides = triggers(&world).map(|trigger| Side::new(&mut world, &config(), trigger));
        let mut at = 0;
        loop {
            let able: Vec<usize> = (0..N).filter(|side| sides[*side].can_step(&world)).collect();
            let Some(first) = able.first() else { break };
            if at == order.len() {
                orders.extend(able[1..].iter().map(|other| [&*order, &[*other]].concat()));
                order.push(*first);
            }
            sides[order[at]].step(&mut world);
            at += 1;
        }
        assert!(!world.is_locked(), "{order:?}");
        complete += 1;
        println!("order {order:?}");
        check(&mut world, sides.map(|side| side.outcome.expect("each flow ends")));
    }
    complete
}

fn logged_in(lifetime: u64) -> World {
    let mut world = World::new();
    world.unauthorized(&config()).token();
    world.wait(lifetime);
    world
}

fn login() -> Trigger {
    Trigger::LogIn { challenges: Vec::new() }
}

/// Checks that the stored tokens are alive: they can be refreshed.
fn check_alive(world: &mut World) {
    world.wait(4_000);
    world.run(&config(), Trigger::Connect).token();
    assert_eq!(world.grants("refresh_token").len(), 1);
}

// covers: AUTH-063
#[test]
fn a_login_beside_a_refresh_keeps_its_tokens() {
    let orders = in_every_order(
        || logged_in(4_000),
        |_| [login(), Trigger::Connect],
        |world, [login, _]| {
            // A refresh of the old grant was stored before it or not at all.
            assert_eq!(world.stored_token(), Some(login.token().token));
            check_alive(world);
        },
    );
    assert!(orders > 20, "{orders}");
}

// covers: AUTH-063
#[test]
fn a_login_beside_a_refused_refresh_keeps_its_tokens() {
    for trigger in [
        |_: &World| Trigger::Connect,
        |world: &World| Trigger::Unauthorized { challenges: Vec::new(), rejected: world.stored_token() },
    ] {
        let orders = in_every_order(
            || {
                let mut world = logged_in(4_000);
                world.issuer().revoke_all();
                world
            },
            |world| [login(), trigger(world)],
            |world, [login, _]| {
                login.token();
                check_alive(world);
            },
        );
        assert!(orders > 20, "{orders}");
    }
}

#[test]
fn a_login_beside_a_logout_keeps_its_tokens_or_is_logged_out() {
    let orders = in_every_order(
        || logged_in(10),
        |_| [login(), Trigger::LogOut],
        |world, [login, logout]| {
            login.token();
            assert!(matches!(logout, Outcome::NoToken));
            if world.record().is_some() {
                check_alive(world);
            }
        },
    );
    assert!(orders > 20, "{orders}");
}

// covers: AUTH-063
#[test]
fn two_refreshes_use_a_refresh_token_once() {
    in_every_order(
        || logged_in(4_000),
        |_| [Trigger::Connect, Trigger::Connect],
        |world, [first, second]| {
            assert_eq!(world.grants("refresh_token").len(), 1);
            assert_eq!(first.token().token, second.token().token);
            check_alive(world);
        },
    );
}

// covers: AUTH-063
#[test]
fn three_refreshes_use_a_refresh_token_once() {
    let orders = in_every_order(
        || logged_in(4_000),
        |_| [Trigger::Connect, Trigger::Connect, Trigger::Connect],
        |world, outcomes| {
            assert_eq!(world.grants("refresh_token").len(), 1);
            let stored = world.stored_token();
            assert!(outcomes.into_iter().all(|outcome| Some(outcome.token().token) == stored));
            check_alive(world);
        },
    );
    assert!(orders > 200, "{orders}");
}

/// Checks that a login which stores its tokens without the lock keeps them, in every order beside another flow.
fn check_impatient_login(prepare: impl Fn() -> World, trigger: impl Fn(&World) -> Trigger) {
    let orders = in_every_order_of(
        prepare,
        |world| [(login(), true), (trigger(world), false)],
        |world, [login, other]| {
            assert!(!matches!(other, Outcome::Failed(_)), "{other:?}");
            let token = login.token().token;
            // Under a lock that was free in time, a refresh of the new tokens or a logout may have followed.
            if !matches!(other, Outcome::NoToken) {
                assert_eq!(world.stored_token(), Some(token));
            }
            if world.record().is_some() {
                check_alive(world);
            }
        },
    );
    assert!(orders > 20, "{orders}");
}

// covers: AUTH-063
#[test]
fn a_login_that_found_the_lock_taken_is_not_undone_by_its_holder() {
    let revoked = || {
        let mut world = logged_in(4_000);
        world.issuer().revoke_all();
        world
    };
    let refused =
        |world: &World| Trigger::Unauthorized { challenges: Vec::new(), rejected: world.stored_token() };
    check_impatient_login(|| logged_in(4_000), |_| Trigger::Connect);
    check_impatient_login(|| logged_in(4_000), refused);
    check_impatient_login(revoked, |_| Trigger::Connect);
    check_impatient_login(|| logged_in(10), |_| Trigger::LogOut);
}
