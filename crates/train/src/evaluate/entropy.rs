//! Entropy of a sampled evaluation, computed from its traces.

use hone_trace::Trace;

/// Mean per-token entropy: minus the mean logprob under the sampling distribution, an unbiased estimate of the mean
/// entropy of the contexts visited. `None` for greedy decoding, which draws from nothing, and without tokens.
pub fn entropy<'a>(traces: impl IntoIterator<Item = &'a Trace>) -> Option<f64> {
    let (mut sum, mut tokens) = (0.0, 0usize);
    for trace in traces.into_iter().filter(|trace| trace.sampling.temperature > 0.0) {
        for sampled in trace.nodes().iter().filter_map(|node| node.as_sampled()) {
            let drawn = sampled.sampling_logprobs.as_ref().unwrap_or(&sampled.logprobs);
            sum -= drawn.iter().map(|logprob| f64::from(*logprob)).sum::<f64>();
            tokens += drawn.len();
        }
    }
    (tokens > 0).then(|| sum / tokens as f64)
}
