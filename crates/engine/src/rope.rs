//! RoPE (rotary position embedding): frequencies as transformers computes them, and the table of their angles.
//!
//! Frequencies are rounded to single precision at the same places as in the reference, because an angle is a
//! frequency times a position: at position 30,000 the last bit of the frequency is visible in the logits.

use std::sync::{Arc, Mutex};

/// RoPE scaling: the method by which frequencies are stretched for long contexts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    None,
    Linear {
        factor: f64,
    },
    /// NTK-aware: the base grows with the length of the sequence once that exceeds the trained length.
    Dynamic {
        factor: f64,
        trained: usize,
    },
    Yarn {
        factor: f64,
        trained: f64,
        beta_fast: f64,
        beta_slow: f64,
        truncate: bool,
        attention_factor: f64,
    },
    Llama3 {
        factor: f64,
        trained: f64,
        low: f64,
        high: f64,
    },
}

/// RoPE settings of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    pub theta: f64,
    pub dim: usize,
    pub scaling: Scaling,
}

impl Rope {
    /// The length that decides the frequencies of a sequence of `len` tokens. Sequences with the same key share one
    /// table; it is 0 for all of them unless the frequencies are dynamic.
    pub fn key(&self, len: usize) -> usize {
        match self.scaling {
            Scaling::Dynamic { trained, .. } if len > trained => len,
            _ => 0,
        }
    }

    /// Frequency of each pair of dimensions, and the factor on cosine and sine.
    pub(crate) fn frequencies(&self, key: usize) -> (Vec<f32>, f32) {
        let plain =
            |theta: f64| -> Vec<f32> { (0..self.dim / 2).map(|i| 1.0 / power(theta, 2 * i, self.dim)).collect() };
        match self.scaling {
            Scaling::None => (plain(self.theta), 1.0),
            Scaling::Linear { factor } => (plain(self.theta).iter().map(|f| f / factor as f32).collect(), 1.0),
            Scaling::Dynamic { factor, trained } => {
                let stretch = (factor * key.max(trained) as f64 / trained as f64) as f32 - (factor - 1.0) as f32;
                let exponent = self.dim as f64 / (self.dim as f64 - 2.0);
                (plain(self.theta * f64::from(f64::from(stretch).powf(exponent) as f32)), 1.0)
            }
            Scaling::Llama3 { factor, trained, low, high } => {
                (plain(self.theta).into_iter().map(|f| llama3(f, factor, trained, low, high)).collect(), 1.0)
            }
            Scaling::Yarn { factor, trained, beta_fast, beta_slow, truncate, attention_factor } => {
                let (first, last) = self.yarn_range(trained, beta_fast, beta_slow, truncate);
                let frequency = |i: usize| {
                    let wave = power(self.theta, 2 * i, self.dim);
                    let ramp = ((i as f32 - first as f32) / (last - first) as f32).clamp(0.0, 1.0);
                    let keep = 1.0 - ramp;
                    1.0 / (factor as f32 * wave) * (1.0 - keep) + 1.0 / wave * keep
                };
                ((0..self.dim / 2).map(frequency).collect(), attention_factor as f32)
            }
        }
    }

    /// The dimensions between which YaRN blends from unscaled to scaled.
    fn yarn_range(&self, trained: f64, fast: f64, slow: f64, truncate: bool) -> (f64, f64) {
        let dim = self.dim as f64;
        let dimension =
            |rotations: f64| dim * (trained / (rotations * 2.0 * std::f64::consts::PI)).ln() / (2.0 * self.theta.ln());
        let (mut first, mut last) = (dimension(fast), dimension(slow));
        if truncate {
            first = first.floor();
            last = last.ceil();
        }
        let (first, mut last) = (first.max(0.0), last.min(dim - 1.0));
        if first == last {
            last += 0.001;
        }
        (first, last)
    }
}

/// theta^(n / dim), rounded to f32 where the reference rounds.
fn power(theta: f64, n: usize, dim: usize) -> f32 {
    let exponent = n as f32 / dim as f32;
    f64::from(theta as f32).powf(f64::from(exponent)) as f32
}

fn llama3(frequency: f32, factor: f64, trained: f64, low: f64, high: f64) -> f32 {
    let wave = (2.0 * std::f64::consts::PI) as f32 / frequency;
    if wave < (trained / high) as f32 {
        frequency
    } else if wave > (trained / low) as f32 {
        frequency / factor as f32
    } else {
        let smooth = (trained as f32 / wave - low as f32) / (high - low) as f32;
        (1.0 - smooth) * frequency / factor as f32 + smooth * frequency
    }
}

/// Cosines and sines by position: `dim / 2` cosines, then as many sines.
#[derive(Debug)]
pub struct Table {
    dim: usize,
    values: Vec<f32>,
}

impl Table {
    pub fn new(rope: &Rope, key: usize, positions: usize) -> Self {
        let (frequencies, factor) = rope.frequencies(key);
        let mut values = Vec::with_capacity(positions * rope.dim);
        for position in 0..positions {
            let angles = frequencies.iter().map(|f| f64::from(position as f32 * f));
            values.extend(angles.clone().map(|a| a.cos() as f32 * factor));
            values.extend(angles.map(|a| a.sin() as f32 * factor));
        }
        Self { dim: rope.dim, values }
    }

    /// Rows of all positions, one after the other.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    pub fn positions(&self) -> usize {
        self.values.len() / self.dim
    }

    /// Cosines and sines of one position.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        self.values[position * self.dim..][..self.dim].split_at(self.dim / 2)
    }
}

/// Table shared by all sequences, grown for longer ones.
#[derive(Debug)]
pub struct Tables {
    rope: Rope,
    plain: Mutex<Arc<Table>>,
}

impl Tables {
    pub fn new(rope: Rope) -> Self {
        Self { rope, plain: Mutex::new(Arc::new(Table::new(&rope, 0, 0))) }
    }

    /// A table for sequences of up to `positions` tokens with this key.
    pub fn get(&self, key: usize, positions: usize) -> Arc<Table> {
        if key != 0 {
            return Arc::new(Table::new(&self.rope, key, positions));
        }
        // A poisoned lock only means that another thread ran out of memory here: the table in it is intact.
        let mut table = self.plain.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if table.positions() < positions {
            *table = Arc::new(Table::new(&self.rope, 0, positions.next_power_of_two().max(256)));
        }
        Arc::clone(&table)
    }
}
