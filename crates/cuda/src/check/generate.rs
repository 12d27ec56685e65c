//! Sampling against the softmax it draws from, and generation against the scores of the training path.

use half::bf16;

use super::{Measured, compare, step};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::generate::{Generator, Request, Room, Settings};
use crate::gpu::Gpu;
use crate::random::Random;
use crate::sample::{self, Rows, Sampled};
use crate::step::{Batch, Trainer};

const VOCAB: usize = 53;

fn holds(what: impl Into<String>, yes: bool) -> Measured {
    Measured { what: what.into(), error: f64::from(u8::from(!yes)), bound: 0.0 }
}

/// One draw per settings from the same logits.
fn draw(gpu: &Gpu, logits: &[f32], all: &[Settings]) -> Result<Vec<Sampled>> {
    let stride = logits.len().next_multiple_of(8);
    let mut row = logits.to_vec();
    // The padding after the vocabulary holds arbitrary values.
    row.resize(stride, f32::MAX);
    let device = Buffer::from_slice(gpu, &row.repeat(all.len()))?;
    let mut rows = Rows::new(gpu, all.len(), 1, 1)?;
    rows.begin(all, &vec![1; all.len()], &vec![vec![0]; all.len()])?;
    sample::sample(gpu, device.view(), logits.len(), &mut rows, all.len())?;
    rows.read(all.len())
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.iter().map(|x| (x - top).exp()).sum();
    logits.iter().map(|x| (x - top).exp() / total).collect()
}

/// Tokens left by top-k, top-p and min-p, as `kernels/sample.cu` states.
fn allowed(p: &[f64], settings: &Settings) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut keep = vec![false; p.len()];
    let mut mass = 0.0;
    for (rank, &v) in order.iter().enumerate() {
        let by_p = mass < f64::from(settings.top_p) || settings.top_p >= 1.0;
        let by_k = settings.top_k.is_none_or(|k| rank < k as usize);
        keep[v] = by_p && by_k && p[v] >= f64::from(settings.min_p) * p[order[0]];
        mass += p[v];
    }
    keep
}

pub(super) fn sampling(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut random = Random(77);
    let logits: Vec<f32> = random.normal(VOCAB, 2.0).into_iter().map(|x| x as f32).collect();
    let wide: Vec<f64> = logits.iter().map(|&x| f64::from(x)).collect();
    let plain = softmax(&wide);
    let mut all = Vec::new();
    let base = Settings::default();
    for (name, settings) in [
        ("plain", base),
        ("hot", Settings { temperature: 1.7, ..base }),
        ("min_p", Settings { min_p: 0.1, ..base }),
        ("top_k", Settings { top_k: Some(5), temperature: 0.8, ..base }),
        ("top_p", Settings { top_p: 0.7, ..base }),
        ("all gates", Settings { top_p: 0.9, top_k: Some(9), min_p: 0.05, temperature: 1.3, ..base }),
    ] {
        let scaled: Vec<f64> = wide.iter().map(|x| x / f64::from(settings.temperature)).collect();
        let p = softmax(&scaled);
        let keep = allowed(&p, &settings);
        let kept: f64 = p.iter().zip(&keep).filter(|(_, k)| **k).map(|(p, _)| p).sum();
        let seeds: Vec<Settings> = (0..4096).map(|seed| Settings { seed, ..settings }).collect();
        let drawn = draw(gpu, &logits, &seeds)?;
        let mut counts = vec![0.0; VOCAB];
        for s in &drawn {
            counts[s.tokens[0] as usize] += 1.0;
        }
        let n = drawn.len() as f64;
        // Every frequency within five standard deviations of its probability; the excluded never.
        let far = |v: usize| {
            let want = if keep[v] { p[v] / kept } else { 0.0 };
            (counts[v] - n * want).abs() > 5.0 * (n * want * (1.0 - want)).sqrt() + 1e-9
        };
        all.push(Measured {
            what: format!("{name}: tokens drawn too often or too rarely"),
            error: (0..VOCAB).filter(|&v| far(v)).count() as f64,
            bound: 0.0,
        });
        let got: Vec<f64> = drawn.iter().map(|s| f64::from(s.logprobs[0])).collect();
        let want: Vec<f64> = drawn.iter().map(|s| plain[s.tokens[0] as usize].ln()).collect();
        all.push(compare(format!("{name}: logprob"), &got, &want, 1e-5));
        let again = draw(gpu, &logits, &seeds[1000..1003])?;
        all.push(holds(format!("{name}: a seed draws another token in another batch"), again == drawn[1000..1003]));
    }
    let greedy = draw(gpu, &logits, &[Settings { temperature: 0.0, ..base }])?;
    let best = (0..VOCAB).max_by(|&a, &b| wide[a].total_cmp(&wide[b])).unwrap_or_default();
    all.push(holds("greedy: not the likeliest", greedy[0].tokens[0] as usize == best));
    let broken = draw(gpu, &[f32::NAN; VOCAB], &[base]);
    all.push(holds("logits that are not numbers: no error", broken.is_err()));
    Ok(all)
}

/// Sampled log-probabilities against those of the training path; prompts of awkward lengths, ended by a stop token and by count.
pub(super) fn generation(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for dim in [64, 128] {
        let shape = step::small(dim);
        let mut random = Random(5);
        let trainer = Trainer::<bf16>::random(gpu, shape, 128, 3)?;
        let requests: Vec<Request> = [1usize, 15, 16, 17, 40]
            .iter()
            .enumerate()
            .map(|(i, &length)| Request {
                prompt: (0..length).map(|_| random.below(shape.vocab) as u32).collect(),
                settings: Settings { seed: i as u64, new_tokens: 30 + i, ..Settings::default() },
            })
            .collect();
        let room = Room { rows: 8, length: 80, new_tokens: 40, pages: 64 };
        let mut generator = Generator::new(gpu, &shape, room)?;
        let sampled = generator.generate(trainer.model(), &requests)?;
        let counts = sampled.iter().zip(&requests).all(|(s, r)| s.tokens.len() == r.settings.new_tokens);
        all.push(holds("new tokens of another number than asked for", counts));
        let again = generator.generate(trainer.model(), &requests)?;
        all.push(holds("the same requests sampled otherwise by the recorded step", again == sampled));
        let whole: Vec<Vec<u32>> =
            requests.iter().zip(&sampled).map(|(r, s)| [&r.prompt[..], &s.tokens].concat()).collect();
        let scores = trainer.model().score(&Batch::packed(gpu, &whole, shape.vocab)?)?.logprob.read()?;
        let mut at = 0;
        let (mut got, mut want) = (Vec::new(), Vec::new());
        for (request, s) in requests.iter().zip(&sampled) {
            // A token's score is at the position before it.
            let from = at + request.prompt.len() - 1;
            want.extend(scores[from..from + s.tokens.len()].iter().map(|&x| f64::from(x)));
            got.extend(s.logprobs.iter().map(|&x| f64::from(x)));
            at += request.prompt.len() + s.tokens.len();
        }
        all.push(compare(format!("logprobs of sampler and learner, heads of {dim}"), &got, &want, 5e-3));
        // A stop token ends its sequence there, and the others are as before.
        let mut stopping = requests.clone();
        stopping[2].settings.stop = Some(sampled[2].tokens[7]);
        let stopped = generator.generate(trainer.model(), &stopping)?;
        let end = sampled[2].tokens.iter().position(|&t| t == sampled[2].tokens[7]).unwrap_or_default();
        all.push(holds("not ended by its stop token", stopped[2].tokens[..] == sampled[2].tokens[..=end]));
        all.push(holds("changed by the end of another", stopped[3] == sampled[3] && stopped[4] == sampled[4]));
    }
    Ok(all)
}
