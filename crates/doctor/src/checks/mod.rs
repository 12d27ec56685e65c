//! The checks, one file each. The order is that of a pipeline: an earlier fault explains a later one.

mod calls_as_text;
mod calls_not_run;
mod constant_confidence;
mod dead_component;
mod decoding_filter;
mod do_nothing;
mod entropy_collapse;
mod faulted;
mod faults_scored;
mod gradients;
mod held_out_changed;
mod held_out_overlap;
mod identical_rollouts;
mod kl_runaway;
mod learning_rate;
mod length_paid;
mod logprob_mismatch;
mod mixed_groups;
mod no_recovery;
mod no_signal;
mod nothing_trained;
mod padded_logprobs;
mod parse_failures;
mod placebo_collapse;
mod policy_frozen;
mod reasoning_budget;
mod records;
mod rejection_weighted;
mod repeated_calls;
mod reward_without_success;
mod scorer_errors;
mod scripted_shortcut;
mod shared_gate;
mod sharpening;
mod staleness;
mod success_cliff;
mod too_few_tasks;
mod tools_not_read;
mod total_mismatch;
pub(crate) mod truncated;
mod unanswered_calls;
mod unscored;

use crate::check::Check;

/// All checks.
pub static CHECKS: &[Check] = &[
    records::CHECK,
    mixed_groups::CHECK,
    faults_scored::CHECK,
    faulted::CHECK,
    unscored::CHECK,
    scorer_errors::CHECK,
    total_mismatch::CHECK,
    calls_as_text::CHECK,
    parse_failures::CHECK,
    calls_not_run::CHECK,
    unanswered_calls::CHECK,
    reasoning_budget::CHECK,
    repeated_calls::CHECK,
    truncated::CHECK,
    identical_rollouts::CHECK,
    learning_rate::CHECK,
    no_signal::CHECK,
    nothing_trained::CHECK,
    padded_logprobs::CHECK,
    policy_frozen::CHECK,
    logprob_mismatch::CHECK,
    staleness::CHECK,
    gradients::CHECK,
    kl_runaway::CHECK,
    success_cliff::CHECK,
    entropy_collapse::CHECK,
    dead_component::CHECK,
    shared_gate::CHECK,
    constant_confidence::CHECK,
    length_paid::CHECK,
    reward_without_success::CHECK,
    rejection_weighted::CHECK,
    held_out_overlap::CHECK,
    held_out_changed::CHECK,
    decoding_filter::CHECK,
    do_nothing::CHECK,
    scripted_shortcut::CHECK,
    no_recovery::CHECK,
    tools_not_read::CHECK,
    sharpening::CHECK,
    placebo_collapse::CHECK,
    too_few_tasks::CHECK,
];

/// A share in words: `12 of 128 (9.4 %)`.
pub(crate) fn share(part: usize, of: usize) -> String {
    format!("{part} of {of} ({:.1} %)", 100.0 * part as f64 / of.max(1) as f64)
}
