//! Algorithm tuning: a trial of cuBLASLt's proposals for a product at first use, whose choice is kept on disk.
//!
//! It is kept because another algorithm may add in another order: on one machine every process makes the same choices and
//! computes the same bits.

use std::collections::HashMap;
use std::path::PathBuf;
use std::{fs, io};

use super::Product;
use super::plan::{Key, PROPOSALS};
use crate::compile::cache_folder;
use crate::error::Result;
use crate::gpu::Gpu;

/// Least number of elements of a weight matrix for which a trial pays.
const WEIGHTS: usize = 1_000_000;
/// Share of the first proposal's time that another must save: less is noise.
const SAVED: f64 = 0.005;
/// Number of rounds in which every proposal is timed, of which its fastest counts.
const ROUNDS: usize = 8;

/// Ranks by product, as on disk: a line per product, `name<tab>rank`.
#[derive(Debug, Default)]
pub(super) struct Choices {
    ranks: HashMap<String, usize>,
    file: Option<PathBuf>,
}

/// Key of a product in the tuning cache. The number of tokens, which differs in every batch, is rounded up to a power
/// of two, and accumulating products share an entry with overwriting ones, so that one trial serves them all.
fn name(key: &Key) -> String {
    let Key { product, mut m, n, mut k, input, output, .. } = *key;
    let tokens = if product == Product::AtB { &mut k } else { &mut m };
    *tokens = tokens.next_power_of_two();
    format!("{product:?} {m}x{n}x{k} {input} {output}")
}

/// Elements of the weight matrix, or of its gradient.
fn weights(key: &Key) -> usize {
    if key.product == Product::AtB { key.m * key.n } else { key.n * key.k }
}

pub(super) fn worthwhile(key: &Key) -> bool {
    weights(key) >= WEIGHTS
}

/// Launches per timing: short kernels are timed several at once, a millisecond or two of them.
fn launches(key: &Key) -> usize {
    let operations = 2.0 * key.m as f64 * key.n as f64 * key.k as f64;
    (1e12 / operations).clamp(1.0, 10.0) as usize
}

impl Choices {
    /// Stored choices for a device; unreadable lines are skipped.
    pub(super) fn load(device: &str) -> Self {
        let file = cache_folder().map(|folder| {
            let plain: String = device.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            folder.join(format!("tuned-{plain}.txt"))
        });
        let text = file.as_ref().and_then(|f| fs::read_to_string(f).ok()).unwrap_or_default();
        Self { ranks: parse(&text), file }
    }

    pub(super) fn get(&self, key: &Key) -> Option<usize> {
        self.ranks.get(&name(key)).copied()
    }

    pub(super) fn put(&mut self, key: &Key, rank: usize) {
        self.ranks.insert(name(key), rank);
        // A home directory that is full or read-only costs a trial at every start, not the run.
        let _ = self.save();
    }

    fn save(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut lines: Vec<String> = self.ranks.iter().map(|(name, rank)| format!("{name}\t{rank}\n")).collect();
        lines.sort();
        let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&temporary, lines.concat())?;
        fs::rename(temporary, file)
    }
}

fn parse(text: &str) -> HashMap<String, usize> {
    let line = |line: &str| {
        let (name, rank) = line.split_once('\t')?;
        let rank = rank.parse().ok().filter(|&r| r < PROPOSALS)?;
        Some((name.to_owned(), rank))
    };
    text.lines().filter_map(line).collect()
}

/// Rank of the fastest proposal; proposals that do not run are skipped. They take turns, so that a clock that changes meanwhile
/// changes for all.
pub(super) fn fastest(gpu: &Gpu, key: &Key, mut run: impl FnMut(usize) -> Result<()>) -> Result<usize> {
    let mut times = [Some(f64::INFINITY); PROPOSALS];
    for round in 0..=ROUNDS {
        for (rank, best) in times.iter_mut().enumerate() {
            let Some(before) = *best else { continue };
            let from = gpu.mark()?;
            if (0..launches(key)).try_for_each(|_| run(rank)).is_err() {
                *best = None;
                continue;
            }
            let to = gpu.mark()?;
            let ms = f64::from(Gpu::milliseconds(&from, &to)?);
            // The first round warms up.
            if round > 0 {
                *best = Some(before.min(ms));
            }
        }
    }
    Ok(pick(&times.map(|best| best.unwrap_or(f64::INFINITY))))
}

/// Index of the fastest, or 0 if the first is about as fast.
fn pick(times: &[f64]) -> usize {
    let best = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b])).unwrap_or(0);
    if times.first().is_none_or(|&first| times[best] > first * (1.0 - SAVED)) { 0 } else { best }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::Store;

    #[test]
    fn the_favourite_stays_unless_another_saves_enough() {
        assert_eq!(pick(&[1.0, 0.996, 1.2]), 0);
        assert_eq!(pick(&[1.0, 1.1, 0.9]), 2);
        assert_eq!(pick(&[f64::INFINITY, 1.0]), 1);
        assert_eq!(pick(&[]), 0);
    }

    #[test]
    fn choices_come_back_from_disk_and_damage_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key {
            product: Product::ABt,
            into: Store::Set,
            m: 16384,
            n: 4096,
            k: 1024,
            strides: [1024, 1024, 4096],
            input: "bf16",
            output: "bf16",
            alignment: 256,
            choice: 0,
        };
        let file = folder.path().join("new").join("products.txt");
        let mut choices = Choices { ranks: HashMap::new(), file: Some(file.clone()) };
        choices.put(&key, 4);
        assert_eq!(parse(&fs::read_to_string(&file).unwrap()), choices.ranks);
        assert_eq!(choices.get(&Key { choice: 7, ..key }), Some(4), "a choice is of the product, not of a trial");
        assert_eq!(choices.get(&Key { m: 12_345, ..key }), Some(4), "batches of about the same size share a choice");
        assert_eq!(choices.get(&Key { into: Store::Add, ..key }), Some(4));
        for other in [Key { m: 8192, ..key }, Key { n: 4097, ..key }, Key { output: "f32", ..key }] {
            assert_eq!(choices.get(&other), None);
        }
        assert_eq!(parse("a\t3\nb\nc\tx\nd\t99\n"), HashMap::from([("a".to_owned(), 3)]));
    }
}
