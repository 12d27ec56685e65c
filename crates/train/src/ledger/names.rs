//! Every metric a run writes, with one line each. docs/metrics.md is written from here, and a test holds a run against it.

use std::fmt::Write as _;

/// A metric, or a family of them: `{env}`, `{component}`, `{kind}` and `{n}` stand for names and numbers of the run.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    pub what: &'static str,
}

/// Metrics of one subject.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    pub title: &'static str,
    pub lead: &'static str,
    pub metrics: &'static [Metric],
}

macro_rules! metrics {
    ($($name:literal: $what:literal),+ $(,)?) => { &[$(Metric { name: $name, what: $what }),+] };
}

/// All of them, in the order of the page.
pub static SECTIONS: &[Section] = &[
    Section {
        title: "Where the tokens went",
        lead: "Every sampled token of a step is in exactly one of the places below `tokens/sampled`, the first that applies; they \
               add up to it. Where a batch is gone through several times, a token's place is shared out over the passes.",
        metrics: metrics! {
            "tokens/sampled": "tokens the policy sampled in this step",
            "tokens/faulted": "in episodes something outside the policy broke; they are in no statistics",
            "tokens/stale": "in episodes excluded because the policy that sampled them is too old",
            "tokens/excluded": "in episodes excluded for another reason",
            "tokens/unscored": "in episodes without a reward",
            "tokens/truncated": "in episodes a length limit cut short, where the recipe does not train on those",
            "tokens/zero_advantage": "with an advantage of 0 or none: all siblings earned the same, there was no sibling, or the mean was met exactly",
            "tokens/masked": "taken out of the loss by a mask or an off-policy correction",
            "tokens/clipped": "whose gradient the clip set to zero",
            "tokens/skipped": "in optimizer steps that were not taken, for example because the gradient was not finite",
            "tokens/trained": "whose advantage reached the gradient",
        },
    },
    Section {
        title: "Rewards",
        lead: "Over the traces that stayed in their groups. `reward/{env}/…` is the same per environment.",
        metrics: metrics! {
            "batch_reward/{component}": "mean of the component, `total` included, over the traces in which it was scored; events.jsonl has it per optimizer batch",
            "batch_reward/{component}/std": "its standard deviation (population)",
            "batch_reward/{component}/scored": "traces in which it was scored",
            "batch_reward/{component}/advantage_share": "its share of the advantages' variance: Σ xT / ΣT² within a group, x the weighted component and T the total (with gdpo: x over its deviation, T their sum), both centred on the group; groups averaged by their squared advantages. A component that pays an argument has the squared advantages of that argument's tokens, by their share of the trace. The shares and the rest add up to 1; a component below 0 pulls against the others",
            "batch_reward/{component}/signal_ratio": "for a component that pays an argument: share of groups in which that argument's tokens have an advantage other than 0",
            "batch_reward/{component}/argument_found": "the same: share of the traces it scored in which the argument's tokens are known; the others are credited as a whole",
            "reward/advantage_share_rest": "what no component explains: gates, and weights shared out for unscored components",
            "reward/avg_raw_reward": "mean total",
            "reward/mean_positive_reward": "mean of the total, values below 0 taken as 0",
            "reward/avg_pass_at_{n}": "share of groups with at least one success, over those whose n episodes were all scored: a group that lost some had fewer tries",
            "reward/success_rate": "share of the scored traces that succeed",
            "reward/variance_per_prompt": "mean over groups of the total's variance (population)",
            "reward/signal_ratio": "share of groups whose totals give an advantage other than 0; what pays an argument by itself has its own ratio",
            "reward/num_zero_variance_filtered": "groups that train nothing because all their traces earned the same",
            "reward/parse_failure_rate": "share of replies that are neither a valid call nor a plain reply, repaired ones included",
            "reward/parse_failure_rate/{kind}": "the same by kind of failure (the kinds of `hone parse`)",
            "reward/repaired_rate": "share of replies whose calls ran only after a repair",
            "reward/{env}/pass_at_{n}": "the same over the environment's groups",
            "reward/{env}/success_rate": "share of its scored traces that succeed",
            "reward/{env}/variance_per_prompt": "mean over its groups of the total's variance",
            "reward/{env}/signal_ratio": "share of its groups whose totals give an advantage other than 0; under 0.25 it is too hard or too easy",
            "reward/{env}/mean_positive_reward": "mean of its totals, values below 0 taken as 0",
            "loss/avg_raw_advantages": "mean advantage of the traces that have one, arguments paid by themselves aside",
            "loss/avg_raw_advantages_abs": "mean absolute advantage",
        },
    },
    Section {
        title: "Episodes",
        lead: "`rollouts/…` counts every episode; the others those that stayed in their groups.",
        metrics: metrics! {
            "rollouts/total": "episodes played",
            "rollouts/valid": "episodes that stayed in their groups",
            "rollouts/invalid": "episodes excluded, faults included",
            "rollouts/faulted": "episodes broken by something outside the policy",
            "rollouts/malformed": "episodes that ended with a reply that could not be read",
            "rollouts/truncated_overlong": "episodes cut short by a limit",
            "environment/total_episodes": "episodes counted below",
            "environment/avg_turns": "agent turns per episode",
            "environment/avg_tool_calls": "tool calls run per episode",
            "environment/tool_error_rate": "share of the calls run that were answered with an error",
            "environment/tool_calls_emitted": "tool calls in the replies",
            "environment/tool_calls_executed": "tool calls run",
            "environment/tool_calls_failed": "tool calls answered with an error",
            "environment/{env}/num_episodes": "episodes of the environment",
            "environment/{env}/avg_turns": "its agent turns per episode",
            "environment/{env}/min_turns": "the fewest",
            "environment/{env}/max_turns": "the most",
            "environment/{env}/avg_tool_calls": "its tool calls run per episode",
            "environment/{env}/tool_calls_per_turn": "its tool calls run per turn",
            "environment/{env}/avg_tool_errors": "its failed calls per episode",
            "environment/{env}/total_tool_errors": "its failed calls",
            "environment/{env}/tool_error_rate": "share of its calls that failed",
            "environment/{env}/parse_failure_rate": "share of its replies that could not be read",
            "generate/avg_num_tokens": "sampled tokens per episode: mean",
            "generate/std_num_tokens": "standard deviation",
            "generate/min_num_tokens": "least",
            "generate/max_num_tokens": "most",
            "generate/tokens_per_turn_mean": "sampled tokens per turn: mean",
            "generate/tokens_per_turn_std": "standard deviation",
            "generate/tokens_per_turn_max": "most",
            "generate/avg_tokens_non_zero_rewards": "sampled tokens of episodes with a total over 0",
            "generate/avg_tokens_zero_rewards": "sampled tokens of episodes with a total of 0 or less",
        },
    },
    Section {
        title: "Sampling",
        lead: "What the plan drew and left out, and how old the policy was that sampled. Passed-over tasks are written where the \
               recipe has a curriculum, the KL where it is in the reward.",
        metrics: metrics! {
            "plan/rounds": "how often the step sampled: more than once where groups without signal are replaced",
            "plan/left_out_groups": "groups sampled and left out of the batch because all their traces earned the same",
            "plan/unfilled_groups": "places of the batch that stayed empty",
            "plan/passed_over_tasks": "tasks the curriculum has passed over since the run began",
            "generate/stale_tokens": "sampled tokens whose policy was older than the one that learned from them; 0 in a synchronous run",
            "async/staleness_mean": "steps between the policy that sampled a token and the one that learned from it: mean",
            "async/staleness_max": "most; never over `async.staleness`",
            "loss/avg_kl": "mean KL per sampled token to the reference policy, paid for out of the reward",
            "loss/avg_kl_max": "the episode with the most per token",
            "reward/kl_coefficient": "what an episode pays for a KL of 1",
        },
    },
    Section {
        title: "Learning",
        lead: "Means over the optimizer steps of one step of the run; absent where nothing had signal.",
        metrics: metrics! {
            "policy/policy_loss": "the loss",
            "policy/policy_entropy": "mean entropy of the distributions the trained tokens were drawn from, in nats",
            "policy/policy_kl": "mean KL estimate to the reference policy, where the loss has one, else 0",
            "policy/kl_to_start": "mean KL per token to the policy as it began, after the step, on the step's episodes: the mean of w (r − 1 − ln r), r the start's probability over the policy's, w the policy's over the sampler's; with `train.kl_to_start` or `train.kl_within`",
            "policy/kl_rejected": "1 where the step was taken back because it went further from the start than the run of `train.kl_within` at that step",
            "policy/policy_lr": "learning rate",
            "policy/grad_norm": "norm of the gradient before clipping",
            "policy/skipped_steps": "optimizer steps not taken because the gradient was not finite",
            "policy/loss_metrics/clip_ratio": "share of the batch's tokens the clip took the gradient of; 0 by construction with one optimizer step a batch",
            "policy/loss_metrics/is_ratio_mean": "ratio of the token's probability now and when the batch was first seen: mean",
            "policy/loss_metrics/is_ratio_min": "least",
            "policy/loss_metrics/is_ratio_max": "most",
            "policy/rollout_train_logprobs_abs_diff_mean": "|learner's − sampler's logprob| of the trained tokens before the first optimizer step: mean; 0 on the native engine",
            "policy/rollout_train_logprobs_abs_diff_std": "standard deviation",
            "policy/rollout_train_logprobs_abs_diff_min": "least",
            "policy/rollout_train_logprobs_abs_diff_max": "most",
            "policy/rollout_train_logprobs_corr": "correlation of the two; well under 1 the learner is scoring other tokens or another prompt than was sampled",
            "trainer/global_step": "the step",
            "trainer/optimizer_steps": "optimizer steps taken in it",
        },
    },
    Section {
        title: "Time",
        lead: "Seconds on the wall clock. Everything else repeats to the bit.",
        metrics: metrics! {
            "timing/step": "the whole step, evaluation aside",
            "timing/generate": "playing and scoring episodes; in an asynchronous run only waiting for them",
            "timing/policy_train": "credit, packing and learning",
            "timing/save_checkpoints": "writing the newest checkpoint before this step",
            "timing/sampled_tokens_per_second": "sampled tokens per second of playing and scoring; of the whole step in an asynchronous run",
        },
    },
];

/// The documented metric a written name belongs to.
pub fn find(name: &str) -> Option<&'static Metric> {
    let all = || SECTIONS.iter().flat_map(|section| section.metrics);
    // A name in full before a family: `reward/success_rate` is no component.
    all().find(|metric| metric.name == name).or_else(|| all().find(|metric| matches(metric.name, name)))
}

/// Whether `name` is one of the family: part by part, with `{n}` a number and the others anything.
fn matches(family: &str, name: &str) -> bool {
    let (family, name): (Vec<_>, Vec<_>) = (family.split('/').collect(), name.split('/').collect());
    family.len() == name.len() && family.iter().zip(&name).all(|(pattern, part)| part_matches(pattern, part))
}

fn part_matches(pattern: &str, part: &str) -> bool {
    match pattern.split_once('{') {
        None => pattern == part,
        Some((before, "n}")) => part.strip_prefix(before).is_some_and(|rest| rest.parse::<u32>().is_ok()),
        Some((before, _)) => part.starts_with(before),
    }
}

/// docs/metrics.md.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\nWhat a line of `metrics.jsonl` says about one step. Written from `crates/train/src/ledger/names.rs`; change \
         it there and run\n`HONE_BLESS=1 cargo test -p hone-train metrics_page`.\n\nA value that is not known is absent, never 0.\n",
    );
    for Section { title, lead, metrics } in SECTIONS {
        let _ = write!(page, "\n## {title}\n\n{lead}\n\n| metric | is |\n|---|---|\n");
        for Metric { name, what } in *metrics {
            let _ = writeln!(page, "| `{name}` | {} |", what.replace('|', "\\|"));
        }
    }
    page
}
