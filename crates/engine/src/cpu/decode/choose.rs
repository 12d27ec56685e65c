//! Token sampling: temperature, top-k, top-p and min-p, from logits to a token.
//!
//! Order, as in transformers: the gate's mask, temperature, top-k, top-p (over what top-k left), min-p (relative to the
//! likeliest token). Each of them keeps a prefix of the tokens sorted by likelihood, so only that prefix is ever
//! sorted. Ties are ranked by id, lowest first; top-k keeps exactly k. One random number is drawn per token: the choice
//! depends only on the logits and the request's own stream.
//!
//! The logprob is that of the whole vocabulary at the request's temperature, computed by the learner's own code. At
//! temperature 0 (greedy decoding) it is the logprob at temperature 1.

#![expect(clippy::inline_always, reason = "a kernel is compiled into the function that has its instructions enabled")]

use std::cell::RefCell;

use hone_trace::{Rng, SamplingParams};

use crate::cpu::kernels::head;
use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};
use crate::generate::step::{Choice, Refusal};

/// Buffers of [`choose`], kept between calls.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    weights: Vec<f32>,
    sums: Vec<f64>,
    kept: Vec<u64>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// This thread's buffers.
pub(super) fn with_scratch<R>(body: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(body)
}

/// Chooses the next token. `logits` is overwritten; `allowed` is one flag per token where a mask is on.
pub(super) fn choose(
    isa: Isa,
    logits: &mut [f32],
    params: &SamplingParams,
    allowed: Option<&[bool]>,
    rng: &mut Rng,
    scratch: &mut Scratch,
) -> Result<Choice, Refusal> {
    let greedy = params.temperature == 0.0;
    let stats = head::row(isa, logits, if greedy { 1.0 } else { 1.0 / params.temperature });
    if stats.lse().is_nan() || stats.lse().is_infinite() {
        return Err(Refusal::NotFinite);
    }
    // The mask hides tokens from the choice, not from the logprob: the sampled token's own logit is never hidden.
    let mut max = stats.max();
    if let Some(allowed) = allowed {
        hide(logits, allowed);
        max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if max == f32::NEG_INFINITY {
            return Err(Refusal::NothingAllowed);
        }
    }
    let chosen = |token: usize, sampling_logprob| Choice {
        token: token as u32,
        logprob: stats.logprob(logits[token]),
        sampling_logprob,
    };
    if greedy {
        let likeliest = logits.iter().position(|&z| z == max).unwrap_or(0);
        return Ok(chosen(likeliest, 0.0));
    }
    scratch.weigh(isa, logits, max);
    let (token, total) = if params.truncates() {
        let total = scratch.truncate(logits, params);
        (scratch.draw_kept(rng.unit() * total), total)
    } else {
        let total = scratch.sums.iter().sum();
        (scratch.draw(rng.unit() * total), total)
    };
    if allowed.is_none() && !params.truncates() {
        // Nothing was hidden: the same distribution, to the bit.
        return Ok(chosen(token, stats.logprob(logits[token])));
    }
    let left = f64::from(logits[token]) - f64::from(max) - total.ln();
    Ok(chosen(token, left.min(0.0) as f32))
}

fn hide(logits: &mut [f32], allowed: &[bool]) {
    for (z, &allowed) in logits.iter_mut().zip(allowed) {
        if !allowed {
            *z = f32::NEG_INFINITY;
        }
    }
    // Ids the mask does not cover do not exist for the gate.
    if let Some(rest) = logits.get_mut(allowed.len()..) {
        rest.fill(f32::NEG_INFINITY);
    }
}

/// Tokens whose weights are summed together: the first step of a draw looks at sums only.
const BLOCK: usize = 256;

impl Scratch {
    /// e^(z - max) of every token, and sums of blocks of them.
    fn weigh(&mut self, isa: Isa, logits: &[f32], max: f32) {
        self.weights.resize(logits.len(), 0.0);
        self.sums.clear();
        for (z, weights) in logits.chunks(BLOCK).zip(self.weights.chunks_mut(BLOCK)) {
            self.sums.push(f64::from(isa.run(Weigh { logits: z, max, weights })));
        }
    }

    /// The token at `point` of the cumulative weights.
    fn draw(&self, mut point: f64) -> usize {
        let mut block = 0;
        // Rounding error at the end falls to the last block with any weight.
        for (i, &sum) in self.sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
            block = i;
            if point < sum {
                break;
            }
            point -= sum;
        }
        let first = block * BLOCK;
        let weights = &self.weights[first..self.weights.len().min(first + BLOCK)];
        first + draw(weights.iter().map(|&w| f64::from(w)), point)
    }

    /// The token at `point` of the cumulative weights of the kept ones.
    fn draw_kept(&self, point: f64) -> usize {
        let weights = self.kept.iter().map(|&key| f64::from(self.weights[token_of(key)]));
        token_of(self.kept[draw(weights, point)])
    }

    /// Leaves the kept tokens in `kept`, likeliest first where that mattered, and returns their weight.
    fn truncate(&mut self, logits: &[f32], params: &SamplingParams) -> f64 {
        let Self { weights, sums, kept } = self;
        let weight = |key: u64| f64::from(weights[token_of(key)]);
        let mut total: f64 = sums.iter().sum();
        // Tokens that together weigh less than 1 - top_p cannot be in the nucleus, whichever they are. The slack
        // covers rounding.
        let bound = match params.top_k {
            0 => (1.0 - f64::from(params.top_p)) / logits.len() as f64 * total * 0.999,
            _ => 0.0,
        };
        kept.clear();
        let tokens =
            logits.iter().zip(&*weights).enumerate().filter(|(_, (_, w))| **w > 0.0 && f64::from(**w) >= bound);
        kept.extend(tokens.map(|(token, (&z, _))| key(z, token)));
        let k = params.top_k as usize;
        if k > 0 {
            keep_largest(kept, k);
            total = kept.iter().map(|&key| weight(key)).sum();
        }
        if params.top_p < 1.0 {
            keep_nucleus(kept, f64::from(params.top_p) * total, weight);
        }
        if params.min_p > 0.0 {
            // The likeliest weighs 1.
            kept.retain(|&key| weight(key) >= f64::from(params.min_p));
        }
        kept.sort_unstable_by(|a, b| b.cmp(a));
        kept.iter().map(|&key| weight(key)).sum()
    }
}

/// Index of the weight at `point` of the running sum; the last positive one where rounding runs past the end.
fn draw(weights: impl Iterator<Item = f64>, mut point: f64) -> usize {
    let mut last = 0;
    for (i, weight) in weights.enumerate().filter(|(_, w)| *w > 0.0) {
        last = i;
        if point < weight {
            break;
        }
        point -= weight;
    }
    last
}

/// A key that sorts by logit, then by id, lowest id highest.
fn key(z: f32, token: usize) -> u64 {
    let bits = z.to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(!(token as u32))
}

fn token_of(key: u64) -> usize {
    !(key as u32) as usize
}

/// Keeps the `k` largest keys, in no order.
fn keep_largest(keys: &mut Vec<u64>, k: usize) {
    if k < keys.len() {
        keys.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
        keys.truncate(k);
    }
}

/// Keeps the largest keys up to a weight of `mass`, at least one. Sorts ever larger prefixes, because the nucleus is
/// usually a handful of tokens out of a large vocabulary.
fn keep_nucleus(keys: &mut Vec<u64>, mass: f64, weight: impl Fn(u64) -> f64) {
    let (mut sorted, mut sum) = (0, 0.0);
    while sorted < keys.len() {
        let next = (sorted * 4).clamp(64, keys.len().max(64)).min(keys.len());
        let rest = &mut keys[sorted..];
        if next - sorted < rest.len() {
            rest.select_nth_unstable_by(next - sorted - 1, |a, b| b.cmp(a));
        }
        rest[..next - sorted].sort_unstable_by(|a, b| b.cmp(a));
        for at in sorted..next {
            sum += weight(keys[at]);
            if sum >= mass {
                keys.truncate(at + 1);
                return;
            }
        }
        sorted = next;
    }
}

struct Weigh<'a> {
    logits: &'a [f32],
    max: f32,
    weights: &'a mut [f32],
}

impl Kernel for Weigh<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let max = s.splat(self.max);
        let mut sum = s.splat(0.0);
        let (body, tail) = self.logits.as_chunks::<LANES>();
        let (out, out_tail) = self.weights.as_chunks_mut::<LANES>();
        for (z, w) in body.iter().zip(out) {
            let e = s.exp_negative(s.sub(s.load(z), max));
            s.store(w, e);
            sum = s.add(sum, e);
        }
        if !tail.is_empty() {
            let mut last = [f32::NEG_INFINITY; LANES];
            last[..tail.len()].copy_from_slice(tail);
            let e = s.exp_negative(s.sub(s.load(&last), max));
            s.store_part(out_tail, e);
            sum = s.add(sum, e);
        }
        s.sum(sum)
    }
}

#[cfg(test)]
mod tests;
