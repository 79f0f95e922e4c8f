//! Every interleaving of two to four processes with one store, and an authorization server that revokes a grant when a
//! refresh token comes twice. Any of them may be killed between any two steps, or lose its answer, or its lease before the
//! write.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Decision, Sight, StoredTokens, decide};
use crate::extent::exhaustive;

/// A refresh token: the grant that it belongs to, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    grant: usize,
    number: u8,
}

/// What is stored. `mark` is 0 if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    token: Token,
    is_fresh: bool,
    mark: u8,
}

/// What an authorization server does with the token that it has replaced last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    /// Revokes the grant.
    Strict,
    /// Issues another token beside the first one, until one of them was presented.
    Grace,
    /// Issues another token in place of the first one.
    Newest,
}

/// A grant at the authorization server. Bit `n` of `valid` stands for the token with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    is_revoked: bool,
    issued: u8,
    replaced: Option<u8>,
    valid: u32,
}

impl Grant {
    const NEW: Self = Self { is_revoked: false, issued: 0, replaced: None, valid: 1 };

    fn accepts(self, token: Token, reuse: Reuse) -> bool {
        let is_valid = self.valid & (1 << token.number) != 0;
        !self.is_revoked && (is_valid || (self.replaced == Some(token.number) && reuse != Reuse::Strict))
    }

    /// Takes a refresh token; `None` is `invalid_grant`.
    fn present(&mut self, token: Token, reuse: Reuse) -> Option<Token> {
        if !self.accepts(token, reuse) {
            self.is_revoked = true;
            return None;
        }
        self.issued += 1;
        let issued = 1 << self.issued;
        let is_again = self.valid & (1 << token.number) == 0;
        self.valid = if is_again && reuse == Reuse::Grace { self.valid | issued } else { issued };
        self.replaced = Some(token.number);
        Some(Token { number: self.issued, ..token })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Token,
    Asked,
    /// There was no answer.
    Failed,
    GaveUp,
}

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Load,
    Lock,
    Read,
    Mark(Record),
    Send(Record),
    Wait(Record),
    Save(Record, Token),
    Remove(Record),
    /// Releases the lock; then it takes it again, or ends.
    Unlock(Option<Outcome>),
    Ended(Outcome),
    Killed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    at: At,
    changes: u8,
    /// The token that was refused.
    refused: Option<Token>,
    /// Flows that it may start after this one.
    further: u8,
}

/// What may happen besides the steps of the processes, and what is left out to see the checks fail.
#[derive(Clone, Copy, Debug)]
struct Setting {
    processes: usize,
    /// Flows of each process.
    flows: u8,
    reuse: Reuse,
    lock: LockKind,
    /// Whether a user logs in, and the tokens are stored without the lock.
    may_log_in: bool,
    expiries: u8,
    without: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockKind {
    /// Ends with its holder, and not before.
    Exclusive,
    /// Outlives its holder, and may end too early: this often, between the answer and the write.
    Lease { early_ends: u8 },
}

/// A part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Lock,
    Mark,
    Compare,
}

/// Two processes, each with two flows, and an access token that expires again at any time.
const TWO: Setting = Setting {
    processes: 2,
    flows: 2,
    reuse: Reuse::Strict,
    lock: LockKind::Exclusive,
    may_log_in: false,
    expiries: 1,
    without: None,
};

/// Three processes with one flow each.
const THREE: Setting = Setting { processes: 3, flows: 1, ..TWO };

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    processes: Vec<Process>,
    store: Option<Record>,
    holder: Option<usize>,
    grants: Vec<Grant>,
    /// Requests on their way, in order of arrival. One whose sender no longer waits has none.
    requests: Vec<(Option<usize>, Token)>,
    marks: u8,
    expiries: u8,
    early_ends: u8,
    has_login: bool,
    /// Answers that may be lost, and locks that ended too early.
    losses: u8,
    /// Answers `invalid_grant`.
    refusals: u8,
}

impl World {
    fn new(setting: &Setting) -> Self {
        let process = Process { at: At::Load, changes: 0, refused: None, further: setting.flows - 1 };
        Self {
            processes: alloc::vec![process; setting.processes],
            store: Some(Record { token: Token { grant: 0, number: 0 }, is_fresh: false, mark: 0 }),
            holder: None,
            grants: Vec::from([Grant::NEW]),
            requests: Vec::new(),
            marks: 0,
            expiries: setting.expiries,
            early_ends: match setting.lock {
                LockKind::Exclusive => 0,
                LockKind::Lease { early_ends } => early_ends,
            },
            has_login: !setting.may_log_in,
            losses: 0,
            refusals: 0,
        }
    }

    fn stored_tokens(&self, i: usize) -> StoredTokens {
        match self.store {
            Some(record) if record.is_fresh => StoredTokens::Usable,
            Some(record) if self.processes[i].refused != Some(record.token) => StoredTokens::Refreshable,
            _ => StoredTokens::Unusable,
        }
    }

    /// Takes the next step of a process; `None` if it has none now.
    fn step(&self, setting: &Setting, i: usize) -> Result<Option<Self>, &'static str> {
        let mut world = self.clone();
        let without = |part| setting.without == Some(part);
        let process = self.processes[i];
        let at = match process.at {
            At::Load => world.decided(i, Sight::Loaded),
            At::Lock if without(Part::Lock) => At::Read,
            At::Lock if self.holder.is_some() => return Ok(None),
            At::Lock => {
                world.holder = Some(i);
                At::Read
            }
            At::Read => world.decided(i, Sight::Locked),
            At::Mark(old) if without(Part::Mark) => At::Send(old),
            At::Mark(old) => {
                world.marks += 1;
                let marked = Record { mark: world.marks, ..old };
                match world.replace(setting, old, Some(marked)) {
                    true => At::Send(marked),
                    false => world.changed(i),
                }
            }
            At::Send(marked) => {
                world.requests.push((Some(i), marked.token));
                At::Wait(marked)
            }
            At::Wait(_) | At::Ended(_) | At::Killed => return Ok(None),
            At::Save(marked, token) => {
                let is_other = self.store.is_none_or(|record| record.token != marked.token);
                match world.replace(setting, marked, Some(Record { token, is_fresh: true, mark: 0 })) {
                    true if is_other => return Err("the tokens of another process are replaced"),
                    true => At::Unlock(Some(Outcome::Token)),
                    false => world.changed(i),
                }
            }
            At::Remove(marked) => {
                let is_valid = self.store.is_some_and(|record| {
                    self.grants[record.token.grant].accepts(record.token, setting.reuse)
                });
                match world.replace(setting, marked, None) {
                    true if is_valid => return Err("tokens that are valid are removed"),
                    true => At::Unlock(Some(Outcome::Asked)),
                    false => world.changed(i),
                }
            }
            At::Unlock(then) => {
                // Whoever holds the lock by now keeps it.
                world.holder = self.holder.filter(|holder| *holder != i);
                then.map_or(At::Lock, At::Ended)
            }
        };
        world.processes[i].at = at;
        Ok(Some(world))
    }

    fn decided(&self, i: usize, sight: Sight) -> At {
        match (decide(sight, self.stored_tokens(i)), self.store) {
            (Decision::HandOut, _) => At::Unlock(Some(Outcome::Token)),
            (Decision::Refresh, Some(record)) => At::Mark(record),
            (Decision::Refresh | Decision::Ask, _) => At::Unlock(Some(Outcome::Asked)),
            (Decision::Lock, _) if sight == Sight::Loaded => At::Lock,
            (Decision::Lock, _) => At::Unlock(None),
            (Decision::GiveUp, _) => At::Unlock(Some(Outcome::GaveUp)),
        }
    }

    fn changed(&mut self, i: usize) -> At {
        let times = self.processes[i].changes;
        self.processes[i].changes += 1;
        self.decided(i, Sight::Changed { times })
    }

    fn replace(&mut self, setting: &Setting, old: Record, new: Option<Record>) -> bool {
        // Time changes no text.
        let key = |record: Record| (record.token, record.mark);
        let is_same = self.store.map(key) == Some(key(old)) || setting.without == Some(Part::Compare);
        if is_same {
            self.store = new;
        }
        is_same
    }

    /// Lets the authorization server handle the request that arrived first.
    fn serve(&self, setting: &Setting) -> Option<Self> {
        let mut world = self.clone();
        let (sender, token) = *self.requests.first()?;
        world.requests.remove(0);
        let answer = world.grants[token.grant].present(token, setting.reuse);
        let Some(i) = sender else { return Some(world) };
        world.refusals += u8::from(answer.is_none());
        if let At::Wait(marked) = self.processes[i].at {
            world.processes[i].refused = answer.is_none().then_some(token);
            world.processes[i].at = match answer {
                Some(token) => At::Save(marked, token),
                None => At::Remove(marked),
            };
        }
        Some(world)
    }

    /// Ends the wait of a process for its answer, whatever becomes of the request.
    fn abandon(&mut self, i: usize, at: At) {
        for (sender, _) in &mut self.requests {
            *sender = sender.filter(|sender| *sender != i);
        }
        self.processes[i].at = at;
    }

    fn kill(&self, setting: &Setting, i: usize) -> Option<Self> {
        let at = self.processes[i].at;
        let mut world = self.clone();
        world.abandon(i, At::Killed);
        // Between the request and the write: an answer is lost, be it tokens or a refusal.
        world.losses += u8::from(matches!(at, At::Wait(_) | At::Save(..) | At::Remove(_)));
        if setting.lock == LockKind::Exclusive {
            world.holder = self.holder.filter(|holder| *holder != i);
        }
        (!matches!(at, At::Ended(_) | At::Killed)).then_some(world)
    }

    /// Ends the lease of a process that has ended, or of one that has its answer and has not written it.
    fn end_lease(&self) -> Option<Self> {
        let mut world = self.clone();
        world.holder = None;
        match self.processes[self.holder?].at {
            At::Killed => Some(world),
            At::Save(..) | At::Remove(_) => {
                world.early_ends = self.early_ends.checked_sub(1)?;
                world.losses += 1;
                Some(world)
            }
            _ => None,
        }
    }

    /// Returns everything that may happen next.
    fn next(&self, setting: &Setting) -> Result<Vec<Self>, &'static str> {
        let mut worlds = Vec::new();
        for i in 0..self.processes.len() {
            worlds.extend(self.step(setting, i)?);
            worlds.extend(self.kill(setting, i));
            let Process { at, further, .. } = self.processes[i];
            if matches!(at, At::Wait(_)) {
                let mut world = self.clone();
                world.abandon(i, At::Unlock(Some(Outcome::Failed)));
                world.losses += 1;
                worlds.push(world);
            }
            if matches!(at, At::Ended(_)) && further > 0 {
                let mut world = self.clone();
                world.processes[i] =
                    Process { at: At::Load, changes: 0, refused: None, further: further - 1 };
                worlds.push(world);
            }
        }
        worlds.extend(self.serve(setting));
        worlds.extend(self.end_lease());
        if let Some(record) = self.store.filter(|record| record.is_fresh && self.expiries > 0) {
            let mut world = self.clone();
            world.expiries -= 1;
            world.store = Some(Record { is_fresh: false, ..record });
            worlds.push(world);
        }
        if !self.has_login {
            let mut world = self.clone();
            world.has_login = true;
            world.grants.push(Grant::NEW);
            let token = Token { grant: world.grants.len() - 1, number: 0 };
            world.store = Some(Record { token, is_fresh: true, mark: 0 });
            worlds.push(world);
        }
        Ok(worlds)
    }

    /// Checks what holds at any time.
    fn check(&self, setting: &Setting) -> Result<(), &'static str> {
        if self.refusals > self.losses || (self.refusals > 0 && setting.reuse != Reuse::Strict) {
            return Err("`invalid_grant` that could be avoided");
        }
        let has = |outcome| self.processes.iter().any(|process| process.at == At::Ended(outcome));
        if has(Outcome::Asked) && self.refusals == 0 {
            return Err("a login that could be avoided");
        }
        if has(Outcome::GaveUp) && setting.lock == LockKind::Exclusive {
            return Err("given up under a lock that excludes everybody");
        }
        Ok(())
    }

    /// Checks what is left when nothing more happens.
    fn check_end(&self, setting: &Setting) -> Result<(), &'static str> {
        let is_over = |process: &Process| matches!(process.at, At::Ended(_) | At::Killed);
        if !self.processes.iter().all(is_over) {
            return Err("a process waits without end");
        }
        let is_valid = |record: Record| self.grants[record.token.grant].accepts(record.token, setting.reuse);
        match self.store {
            Some(record) if is_valid(record) => Ok(()),
            _ if self.losses > 0 && setting.reuse == Reuse::Strict => Ok(()),
            _ => Err("the store has no token that is valid"),
        }
    }
}

/// Explores everything that can happen, and returns the number of steps. The error is what is wrong, and where.
fn explore(setting: &Setting) -> Result<usize, Box<(&'static str, World)>> {
    let (mut known, mut steps) = (BTreeSet::new(), 0);
    explore_from(setting, World::new(setting), &mut known, &mut steps)?;
    Ok(steps)
}

/// Explores what follows a world, unless it is known.
fn explore_from(
    setting: &Setting,
    world: World,
    known: &mut BTreeSet<World>,
    steps: &mut usize,
) -> Result<(), Box<(&'static str, World)>> {
    if known.contains(&world) {
        return Ok(());
    }
    let next = world
        .check(setting)
        .and_then(|()| world.next(setting))
        .map_err(|why| Box::new((why, world.clone())))?;
    if next.is_empty() {
        world.check_end(setting).map_err(|why| Box::new((why, world.clone())))?;
    }
    known.insert(world);
    *steps += next.len();
    next.into_iter().try_for_each(|world| explore_from(setting, world, known, steps))
}

const LEASE: LockKind = LockKind::Lease { early_ends: 1 };

/// Returns the settings, those with few worlds first: nine tenths of all steps are in the last ones of two and three processes.
fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    for base in [TWO, THREE, Setting { processes: 4, ..THREE }] {
        for lock in [LockKind::Exclusive, LEASE] {
            for reuse in [Reuse::Strict, Reuse::Grace, Reuse::Newest] {
                let logins = [false, true].into_iter().filter(|may_log_in| base.processes < 4 || !may_log_in);
                all.extend(logins.map(|may_log_in| Setting { lock, reuse, may_log_in, ..base }));
            }
        }
    }
    let is_long = |setting: &Setting| setting.lock == LEASE || setting.reuse != Reuse::Strict;
    all.sort_by_key(|setting| (setting.processes == 4, setting.may_log_in && is_long(setting)));
    all
}

#[test]
fn exhaustive_decisions_lose_nothing_avoidable_in_any_interleaving() {
    exhaustive(
        "refreshes: no token is lost, and no user asked, where that can be avoided, whoever dies, waits or loses an answer",
        "steps of all interleavings of 2 to 4 processes, with 2 kinds of locks, 3 of servers, with and without a login, settings",
        [14, 24, 30],
        |most| {
            let count = |setting: &Setting| {
                explore(setting).unwrap_or_else(|found| panic!("{}: {setting:?} {:#?}", found.0, found.1))
            };
            settings().iter().take(most).map(count).sum::<usize>() as u64
        },
    );
}

#[test]
fn each_part_is_needed() {
    for (part, setting, expected) in [
        (Part::Lock, TWO, "`invalid_grant` that could be avoided"),
        (
            Part::Compare,
            Setting { may_log_in: true, reuse: Reuse::Grace, ..TWO },
            "the tokens of another process are replaced",
        ),
        (Part::Compare, Setting { may_log_in: true, ..TWO }, "tokens that are valid are removed"),
        (
            Part::Mark,
            Setting { lock: LEASE, reuse: Reuse::Newest, ..TWO },
            "the store has no token that is valid",
        ),
    ] {
        let found = explore(&Setting { without: Some(part), ..setting });
        assert_eq!(found.map(|_| ()).map_err(|found| found.0), Err(expected), "without {part:?}");
    }
}

#[test]
fn record_that_others_change_is_locked_again_a_few_times() {
    for (times, decision) in [
        (0, Decision::Lock),
        (super::MAX_CHANGES - 1, Decision::Lock),
        (super::MAX_CHANGES, Decision::GiveUp),
    ] {
        assert_eq!(decide(Sight::Changed { times }, StoredTokens::Refreshable), decision, "{times}");
    }
}
