//! The decisions of a run: drawn from a seed, recorded, and played again.

/// Seeded xorshift64 generator. Equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        // The generator starts slowly from small numbers and never leaves zero, so the seed is spread first.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D | 1)
    }

    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns the upper 31 bits of the next number, which are less correlated than the lower ones.
    const fn next_high(&mut self) -> u64 {
        self.next() >> 33
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) const fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// All that was decided in a run: for each step the numbers that it drew. Equal decisions give equal runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// The numbers of each step, in order. A missing number is 0, which is always the simplest choice.
    pub steps: Vec<Vec<u32>>,
}

/// Source of the numbers of a run.
#[derive(Debug)]
pub struct Draws {
    source: Source,
    recorded: Decisions,
}

#[derive(Debug)]
enum Source {
    Seed { rng: Rng, steps_left: usize },
    Replay { decisions: Decisions, next_step: usize, next_draw: usize },
}

impl Draws {
    pub(crate) fn from_seed(seed: u64, steps: usize) -> Self {
        Self {
            source: Source::Seed { rng: Rng::new(seed), steps_left: steps },
            recorded: Decisions::default(),
        }
    }

    pub(crate) fn replay(decisions: Decisions) -> Self {
        Self {
            source: Source::Replay { decisions, next_step: 0, next_draw: 0 },
            recorded: Decisions::default(),
        }
    }

    /// Begins a step; returns false after the last one.
    pub(crate) fn begin_step(&mut self) -> bool {
        let is_left = match &mut self.source {
            Source::Seed { steps_left, .. } => {
                let is_left = *steps_left > 0;
                *steps_left = steps_left.saturating_sub(1);
                is_left
            }
            Source::Replay { decisions, next_step, next_draw } => {
                *next_draw = 0;
                *next_step += 1;
                *next_step <= decisions.steps.len()
            }
        };
        if is_left {
            self.recorded.steps.push(Vec::new());
        }
        is_left
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u32) -> u32 {
        let drawn = match &mut self.source {
            Source::Seed { rng, .. } => u32::try_from(rng.next_high()).unwrap_or(0),
            Source::Replay { decisions, next_step, next_draw } => {
                let step = next_step.checked_sub(1).and_then(|at| decisions.steps.get(at));
                *next_draw += 1;
                step.and_then(|step| step.get(*next_draw - 1)).copied().unwrap_or(0)
            }
        };
        let drawn = drawn % end.max(1);
        if let Some(step) = self.recorded.steps.last_mut() {
            step.push(drawn);
        }
        drawn
    }

    pub(crate) const fn recorded(&self) -> &Decisions {
        &self.recorded
    }
}
