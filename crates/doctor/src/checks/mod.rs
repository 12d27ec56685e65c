//! The checks, one file each. The order is that of a pipeline: an earlier fault explains a later one.

use hone_trace::entries;

use crate::check::Check;

entries! {
    /// All checks.
    pub static CHECKS: [Check];
    mod repeated_episodes: CHECK;
    mod records: CHECK;
    mod mixed_groups: CHECK;
    mod faults_scored: CHECK;
    mod faulted: CHECK;
    mod unscored: CHECK;
    mod scorer_errors: CHECK;
    mod metrics_mismatch: CHECK;
    mod total_mismatch: CHECK;
    mod advantage_sign: CHECK;
    mod advantage_mismatch: CHECK;
    mod tools_in_prompt: CHECK;
    mod tool_results: CHECK;
    mod calls_as_text: CHECK;
    mod parse_failures: CHECK;
    mod calls_not_run: CHECK;
    mod unanswered_calls: CHECK;
    mod reasoning_budget: CHECK;
    mod repeated_calls: CHECK;
    pub(crate) mod truncated: CHECK;
    mod identical_rollouts: CHECK;
    mod sampling_mismatch: CHECK;
    mod learning_rate: CHECK;
    mod no_signal: CHECK;
    mod nothing_trained: CHECK;
    mod padded_logprobs: CHECK;
    mod served_name: CHECK;
    mod policy_frozen: CHECK;
    mod logprob_mismatch: CHECK;
    mod staleness: CHECK;
    mod gradients: CHECK;
    mod kl_runaway: CHECK;
    mod success_cliff: CHECK;
    mod entropy_collapse: CHECK;
    mod dead_component: CHECK;
    mod shared_gate: CHECK;
    mod constant_confidence: CHECK;
    mod length_paid: CHECK;
    mod reward_without_success: CHECK;
    mod rejection_weighted: CHECK;
    mod extended: CHECK;
    mod held_out_overlap: CHECK;
    mod held_out_changed: CHECK;
    mod decoding_filter: CHECK;
    mod do_nothing: CHECK;
    mod scripted_shortcut: CHECK;
    mod no_recovery: CHECK;
    mod tools_not_read: CHECK;
    mod sharpening: CHECK;
    mod placebo_collapse: CHECK;
    mod too_few_tasks: CHECK;
}

/// A share in words: `12 of 128 (9.4 %)`.
pub(crate) fn share(part: usize, of: usize) -> String {
    format!("{part} of {of} ({:.1} %)", 100.0 * part as f64 / of.max(1) as f64)
}
