//! Sampling on the device, and the state of the sequences it advances. Formulas and layout: `kernels/sample.cu`.

#![expect(unsafe_code, reason = "launches a kernel; shapes are checked first")]

use crate::buffer::{Buffer, View};
use crate::error::{CudaError, Result, ensure};
use crate::gpu::{Arg, Gpu, Launch};

/// Settings of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Temperature; 0: greedy.
    pub temperature: f32,
    /// Min-p; 0: off.
    pub min_p: f32,
    /// Top-p (nucleus); 1: off.
    pub top_p: f32,
    /// Top-k; `None`: off.
    pub top_k: Option<u32>,
    pub seed: u64,
    /// Maximum number of new tokens.
    pub new_tokens: usize,
    /// Stop token, the last of the sequence.
    pub stop: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { temperature: 1.0, min_p: 0.0, top_p: 1.0, top_k: None, seed: 0, new_tokens: 1, stop: None }
    }
}

impl Settings {
    fn check(&self) -> Result<()> {
        let shares = (0.0..=1.0).contains(&self.min_p) && self.top_p > 0.0 && self.top_p <= 1.0;
        let fits = self.temperature >= 0.0 && self.temperature.is_finite() && shares;
        ensure(fits && self.top_k != Some(0) && self.new_tokens > 0, "sampling", || {
            format!("{self:?}: temperature from 0, min_p from 0 to 1, top_p over 0 to 1, top_k and new_tokens from 1")
        })
    }

    fn floats(&self) -> [f32; 4] {
        [self.temperature, self.min_p, self.top_p, 0.0]
    }

    fn integers(&self) -> [i32; 4] {
        let whole = |x: Option<u32>, none: i32| x.map_or(none, |x| i32::try_from(x).unwrap_or(i32::MAX));
        [whole(self.top_k, 0), i32::try_from(self.new_tokens).unwrap_or(i32::MAX), whole(self.stop, -1), 0]
    }

    fn seed(&self) -> [i32; 2] {
        [self.seed as u32 as i32, (self.seed >> 32) as u32 as i32]
    }
}

/// Sequences on the device, one row each: read by the decoding step and advanced by [`sample`].
#[derive(Debug)]
pub(crate) struct Rows {
    settings: Buffer<f32>,
    limits: Buffer<i32>,
    seeds: Buffer<i32>,
    pub(crate) table: Buffer<i32>,
    /// Pages per row of the table.
    pub(crate) stride: usize,
    pub(crate) id: Buffer<i32>,
    pub(crate) position: Buffer<i32>,
    pub(crate) length: Buffer<i32>,
    pub(crate) slot: Buffer<i32>,
    count: Buffer<i32>,
    done: Buffer<i32>,
    tokens: Buffer<i32>,
    logprobs: Buffer<f32>,
    /// Maximum number of new tokens per row.
    capacity: usize,
    sequences: usize,
}

/// New tokens of one sequence and their log-probabilities (temperature 1, nothing excluded).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampled {
    pub tokens: Vec<u32>,
    pub logprobs: Vec<f32>,
}

impl Rows {
    pub(crate) fn new(gpu: &Gpu, rows: usize, stride: usize, capacity: usize) -> Result<Self> {
        let zeros = |len| Buffer::<i32>::zeros(gpu, len);
        Ok(Self {
            settings: Buffer::zeros(gpu, rows * 4)?,
            limits: zeros(rows * 4)?,
            seeds: zeros(rows * 2)?,
            table: zeros(rows * stride)?,
            stride,
            id: zeros(rows)?,
            position: zeros(rows)?,
            length: zeros(rows)?,
            slot: zeros(rows)?,
            count: zeros(rows)?,
            done: zeros(rows)?,
            tokens: zeros(rows * capacity)?,
            logprobs: Buffer::zeros(gpu, rows * capacity)?,
            capacity,
            sequences: rows,
        })
    }

    /// Begins new sequences, one per settings: prompts of `prompts` tokens are in the cache, in the pages of `tables`. Rows
    /// beyond them are done from the start.
    pub(crate) fn begin(&mut self, all: &[Settings], prompts: &[usize], tables: &[Vec<usize>]) -> Result<()> {
        let fits = all.len() <= self.sequences && prompts.len() == all.len() && tables.len() == all.len();
        ensure(fits, "sampling", || format!("{} sequences for {} rows", all.len(), self.sequences))?;
        for ((settings, &prompt), pages) in all.iter().zip(prompts).zip(tables) {
            settings.check()?;
            let whole = prompt + settings.new_tokens;
            let room = pages.len() <= self.stride && whole <= pages.len() * crate::decode::PAGE;
            ensure(room && prompt > 0 && settings.new_tokens <= self.capacity, "sampling", || {
                format!("{whole} tokens in {} pages, {} new ones at most", pages.len(), self.capacity)
            })?;
        }
        // The tail of every array represents rows without a sequence.
        let padded = |mut x: Vec<i32>, width: usize, tail: i32| {
            x.resize(self.sequences * width, tail);
            x
        };
        let mut floats: Vec<f32> = all.iter().flat_map(Settings::floats).collect();
        floats.resize(self.sequences * 4, 0.0);
        self.settings.write(&floats)?;
        self.limits.write(&padded(all.iter().flat_map(Settings::integers).collect(), 4, 0))?;
        self.seeds.write(&padded(all.iter().flat_map(Settings::seed).collect(), 2, 0))?;
        let wide =
            |p: &Vec<usize>| -> Vec<i32> { (0..self.stride).map(|i| p.get(i).map_or(0, |&p| p as i32)).collect() };
        self.table.write(&padded(tables.iter().flat_map(wide).collect(), self.stride, 0))?;
        self.position.write(&padded(prompts.iter().map(|&p| p as i32 - 1).collect(), 1, 0))?;
        self.length.write(&padded(prompts.iter().map(|&p| p as i32).collect(), 1, 0))?;
        self.id.write(&vec![0; self.sequences])?;
        self.slot.write(&vec![-1; self.sequences])?;
        self.count.write(&vec![0; self.sequences])?;
        self.done.write(&padded(vec![0; all.len()], 1, 1))
    }

    /// True if every sequence has ended. Waits for the device.
    pub(crate) fn all_done(&self) -> Result<bool> {
        Ok(self.done.read()?.iter().all(|&d| d != 0))
    }

    /// Tokens that the first `count` sequences have drawn.
    pub(crate) fn read(&self, count: usize) -> Result<Vec<Sampled>> {
        let (counts, tokens, logprobs) = (self.count.read()?, self.tokens.read()?, self.logprobs.read()?);
        (0..count)
            .map(|row| {
                let at = row * self.capacity..row * self.capacity + counts[row] as usize;
                let drawn: std::result::Result<Vec<u32>, _> =
                    tokens[at.clone()].iter().map(|&t| t.try_into()).collect();
                let tokens = drawn.map_err(|_| CudaError::NotFinite {
                    what: format!("the logits of sequence {row} at its new token {}", at.len()),
                })?;
                Ok(Sampled { tokens, logprobs: logprobs[at].to_vec() })
            })
            .collect()
    }
}

/// Draws one token for each row of `logits` ([rows, stride] f32) and advances the rows.
pub(crate) fn sample(gpu: &Gpu, logits: View<'_, f32>, vocab: usize, rows: &mut Rows, count: usize) -> Result<()> {
    let stride = vocab.next_multiple_of(8);
    ensure(count <= rows.sequences && logits.len == count * stride, "sampling", || {
        format!("{} logits for {count} of {} rows", logits.len, rows.sequences)
    })?;
    let launch = Launch { module: "sample", kernel: "sample", grid: (count as u32, 1), block: 1024, shared: 0 };
    let written = |b: &mut Buffer<i32>| -> Arg { (&b.view_mut()).into() };
    let args = [
        logits.into(),
        vocab.into(),
        stride.into(),
        rows.settings.view().into(),
        rows.limits.view().into(),
        rows.seeds.view().into(),
        rows.table.view().into(),
        rows.stride.into(),
        written(&mut rows.id),
        written(&mut rows.position),
        written(&mut rows.length),
        written(&mut rows.slot),
        written(&mut rows.count),
        written(&mut rows.done),
        written(&mut rows.tokens),
        (&rows.logprobs.view_mut()).into(),
        rows.capacity.into(),
    ];
    // SAFETY: as sample.cu declares; arrays have an entry per row, and `begin` checked that pages and counts cover it.
    unsafe { gpu.launch(launch, &args) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_and_the_rest_goes_to_the_device_whole() {
        let good = Settings { top_k: Some(40), stop: Some(7), seed: 0x0123_4567_89ab_cdef, ..Settings::default() };
        assert!(good.check().is_ok());
        assert_eq!(good.integers(), [40, 1, 7, 0]);
        assert_eq!(good.seed().map(|x| x as u32), [0x89ab_cdef, 0x0123_4567]);
        assert_eq!(Settings::default().integers()[2], -1, "no token has the id that stands for no stop");
        for bad in [
            Settings { temperature: -0.1, ..good },
            Settings { temperature: f32::NAN, ..good },
            Settings { temperature: f32::INFINITY, ..good },
            Settings { min_p: 1.5, ..good },
            Settings { top_p: 0.0, ..good },
            Settings { top_p: f32::NAN, ..good },
            Settings { top_k: Some(0), ..good },
            Settings { new_tokens: 0, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
