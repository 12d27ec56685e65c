//! The metrics themselves: constant, name, meaning. A number in brackets says how many names a family leaves open.

use super::{Better, Family, Metric, Section, open};

metrics! {
    "Token accounting", "Every sampled token of a step is in exactly one of the categories below `tokens/sampled`, \
        the first that applies; they add up to it. With several passes over a batch, a token is divided among its \
        categories in each pass." {
        TOKENS_SAMPLED = "tokens/sampled": "tokens the policy sampled in this step",
        TOKENS_FAULTED = "tokens/faulted" (Lower): "in episodes broken by something outside the policy; they are in no \
            statistics",
        TOKENS_UNSCORED = "tokens/unscored" (Lower): "in episodes without a reward",
        TOKENS_TRUNCATED = "tokens/truncated": "in episodes truncated by a length limit, if the recipe does not \
            train on those",
        TOKENS_ZERO_ADVANTAGE = "tokens/zero_advantage": "with an advantage of 0 or none: all siblings earned the same, there was no sibling, or the mean was met exactly",
        TOKENS_MASKED = "tokens/masked": "excluded from the loss by a mask or an off-policy correction",
        TOKENS_CLIPPED = "tokens/clipped": "whose gradient the clip set to zero",
        TOKENS_SKIPPED = "tokens/skipped" (Lower): "in optimizer steps that were not taken, for example because the gradient was not finite",
        TOKENS_TRAINED = "tokens/trained" (Higher): "whose advantage reached the gradient",
    }
    "Rewards", "Over the traces that stayed in their groups. `reward/{env}/…` is the same per environment." {
        BATCH_REWARD_COMPONENT[1] = "batch_reward/{component}" (Higher): "mean of the component, `total` included, over the traces in which it was scored; events.jsonl has it per optimizer batch",
        BATCH_REWARD_COMPONENT_STD[1] = "batch_reward/{component}/std": "its standard deviation (population)",
        BATCH_REWARD_COMPONENT_SCORED[1] = "batch_reward/{component}/scored": "traces in which it was scored",
        BATCH_REWARD_COMPONENT_ADVANTAGE_SHARE[1] = "batch_reward/{component}/advantage_share": "its share of the advantages' variance: Σ xT / ΣT² within a group, x the weighted component and T the total (with gdpo: x over its deviation, T their sum), both centred on the group; groups averaged by their squared advantages. A component that pays an argument has the squared advantages of that argument's tokens, by their share of the trace. The shares and the rest add up to 1; a component below 0 pulls against the others",
        BATCH_REWARD_COMPONENT_SIGNAL_RATIO[1] = "batch_reward/{component}/signal_ratio" (Higher): "for a component that \
            credits an argument: share of groups in which that argument's tokens have an advantage other than 0",
        BATCH_REWARD_COMPONENT_ARGUMENT_FOUND[1] = "batch_reward/{component}/argument_found": "the same: share of the traces it scored in which the argument's tokens are known; the others are credited as a whole",
        REWARD_ADVANTAGE_SHARE_REST = "reward/advantage_share_rest": "the unexplained rest: gates, and weights \
            redistributed from unscored components",
        REWARD_AVG_RAW_REWARD = "reward/avg_raw_reward" (Higher): "mean total",
        REWARD_MEAN_POSITIVE_REWARD = "reward/mean_positive_reward" (Higher): "mean of the total, values below 0 taken as 0",
        REWARD_AVG_PASS_AT_N[1] = "reward/avg_pass_at_{n}" (Higher): "share of groups with at least one success, over those \
            whose n episodes were all scored: a group that lost some had fewer attempts",
        REWARD_SUCCESS_RATE = "reward/success_rate" (Higher): "share of the scored traces that succeed",
        REWARD_VARIANCE_PER_PROMPT = "reward/variance_per_prompt": "mean over groups of the total's variance (population)",
        REWARD_SIGNAL_RATIO = "reward/signal_ratio" (Higher): "share of groups whose totals give an advantage other than 0; \
            components that credit an argument have their own ratio",
        REWARD_NUM_ZERO_VARIANCE_FILTERED = "reward/num_zero_variance_filtered" (Lower): "groups that train nothing because all their traces earned the same",
        REWARD_PARSE_FAILURE_RATE = "reward/parse_failure_rate" (Lower): "share of replies that are neither a valid call nor a plain reply, repaired ones included",
        REWARD_PARSE_FAILURE_RATE_KIND[1] = "reward/parse_failure_rate/{kind}" (Lower): "the same by kind of failure (the kinds of `hone parse`)",
        REWARD_REPAIRED_RATE = "reward/repaired_rate" (Lower): "share of replies whose calls ran only after a repair",
        REWARD_ENV_PASS_AT_N[2] = "reward/{env}/pass_at_{n}" (Higher): "the same over the environment's groups",
        REWARD_ENV_SUCCESS_RATE[1] = "reward/{env}/success_rate" (Higher): "share of its scored traces that succeed",
        REWARD_ENV_VARIANCE_PER_PROMPT[1] = "reward/{env}/variance_per_prompt": "mean over its groups of the total's variance",
        REWARD_ENV_SIGNAL_RATIO[1] = "reward/{env}/signal_ratio" (Higher): "share of its groups whose totals give an advantage other than 0; under 0.25 it is too hard or too easy",
        REWARD_ENV_MEAN_POSITIVE_REWARD[1] = "reward/{env}/mean_positive_reward" (Higher): "mean of its totals, values below 0 taken as 0",
        LOSS_AVG_RAW_ADVANTAGES = "loss/avg_raw_advantages": "mean advantage of the traces that have one, excluding \
            separately credited arguments",
        LOSS_AVG_RAW_ADVANTAGES_ABS = "loss/avg_raw_advantages_abs": "mean absolute advantage",
    }
    "Episodes", "`rollouts/…` counts every episode; the others those that stayed in their groups." {
        ROLLOUTS_TOTAL = "rollouts/total": "episodes played",
        ROLLOUTS_VALID = "rollouts/valid": "episodes that stayed in their groups",
        ROLLOUTS_INVALID = "rollouts/invalid" (Lower): "episodes excluded from their groups: those that broke",
        ROLLOUTS_FAULTED = "rollouts/faulted" (Lower): "episodes broken by something outside the policy",
        ROLLOUTS_MALFORMED = "rollouts/malformed" (Lower): "episodes that ended with a reply that could not be read",
        ROLLOUTS_TRUNCATED_OVERLONG = "rollouts/truncated_overlong" (Lower): "episodes cut short by a limit",
        ENVIRONMENT_TOTAL_EPISODES = "environment/total_episodes": "episodes counted below",
        ENVIRONMENT_AVG_TURNS = "environment/avg_turns": "agent turns per episode",
        ENVIRONMENT_AVG_TOOL_CALLS = "environment/avg_tool_calls": "tool calls run per episode",
        ENVIRONMENT_TOOL_ERROR_RATE = "environment/tool_error_rate" (Lower): "share of the calls run that were answered with an error",
        ENVIRONMENT_TOOL_CALLS_EMITTED = "environment/tool_calls_emitted": "tool calls in the replies",
        ENVIRONMENT_TOOL_CALLS_EXECUTED = "environment/tool_calls_executed": "tool calls run",
        ENVIRONMENT_TOOL_CALLS_FAILED = "environment/tool_calls_failed" (Lower): "tool calls answered with an error",
        ENVIRONMENT_DEFUSED_TOKENS = "environment/defused_tokens": "special tokens spelled out in tools and in messages of \
            users and tools, kept as text",
        ENVIRONMENT_ENV_NUM_EPISODES[1] = "environment/{env}/num_episodes": "episodes of the environment",
        ENVIRONMENT_ENV_AVG_TURNS[1] = "environment/{env}/avg_turns": "its agent turns per episode",
        ENVIRONMENT_ENV_MIN_TURNS[1] = "environment/{env}/min_turns": "the fewest",
        ENVIRONMENT_ENV_MAX_TURNS[1] = "environment/{env}/max_turns": "the most",
        ENVIRONMENT_ENV_AVG_TOOL_CALLS[1] = "environment/{env}/avg_tool_calls": "its tool calls run per episode",
        ENVIRONMENT_ENV_TOOL_CALLS_PER_TURN[1] = "environment/{env}/tool_calls_per_turn": "its tool calls run per turn",
        ENVIRONMENT_ENV_AVG_TOOL_ERRORS[1] = "environment/{env}/avg_tool_errors" (Lower): "its failed calls per episode",
        ENVIRONMENT_ENV_TOTAL_TOOL_ERRORS[1] = "environment/{env}/total_tool_errors" (Lower): "its failed calls",
        ENVIRONMENT_ENV_TOOL_ERROR_RATE[1] = "environment/{env}/tool_error_rate" (Lower): "share of its calls that failed",
        ENVIRONMENT_ENV_PARSE_FAILURE_RATE[1] = "environment/{env}/parse_failure_rate" (Lower): "share of its replies that could not be read",
        GENERATE_AVG_NUM_TOKENS = "generate/avg_num_tokens": "sampled tokens per episode: mean",
        GENERATE_STD_NUM_TOKENS = "generate/std_num_tokens": "standard deviation",
        GENERATE_MIN_NUM_TOKENS = "generate/min_num_tokens": "least",
        GENERATE_MAX_NUM_TOKENS = "generate/max_num_tokens": "most",
        GENERATE_TOKENS_PER_TURN_MEAN = "generate/tokens_per_turn_mean": "sampled tokens per turn: mean",
        GENERATE_TOKENS_PER_TURN_STD = "generate/tokens_per_turn_std": "standard deviation",
        GENERATE_TOKENS_PER_TURN_MAX = "generate/tokens_per_turn_max": "most",
        GENERATE_AVG_TOKENS_NON_ZERO_REWARDS = "generate/avg_tokens_non_zero_rewards": "sampled tokens of episodes with a total over 0",
        GENERATE_AVG_TOKENS_ZERO_REWARDS = "generate/avg_tokens_zero_rewards": "sampled tokens of episodes with a total of 0 or less",
    }
    "Sampling", "The tasks drawn and excluded, and the staleness of the sampling policy. Skipped tasks are written \
        if the recipe has a curriculum, the KL if it is in the reward." {
        PLAN_ROUNDS = "plan/rounds": "sampling rounds of the step: more than one if groups without signal are replaced",
        PLAN_LEFT_OUT_GROUPS = "plan/left_out_groups": "groups sampled and excluded from the batch because none of their \
            traces has signal: all earned the same, none was scored, or one alone was left; the traces' lessons say which",
        PLAN_UNFILLED_GROUPS = "plan/unfilled_groups": "groups missing from the batch",
        PLAN_PASSED_OVER_TASKS = "plan/passed_over_tasks": "tasks the curriculum has skipped since the run began",
        GENERATE_STALE_TOKENS = "generate/stale_tokens": "stale tokens: sampled by an older policy than the one that \
            learned from them; 0 in a synchronous run",
        ASYNC_STALENESS_MEAN = "async/staleness_mean": "staleness: steps between the policy that sampled a token and \
            the one that learned from it: mean; absent if no token was sampled",
        ASYNC_STALENESS_MAX = "async/staleness_max": "maximum staleness; never over `async.staleness`",
        LOSS_AVG_KL = "loss/avg_kl": "mean KL per sampled token from the reference policy, subtracted from the \
            reward as a penalty; absent if no token was sampled",
        LOSS_AVG_KL_MAX = "loss/avg_kl_max": "largest mean KL per token of one episode",
        REWARD_KL_COEFFICIENT = "reward/kl_coefficient": "coefficient of the KL penalty",
    }
    "Learning", "Means over the optimizer steps of one step of the run; absent without signal." {
        POLICY_POLICY_LOSS = "policy/policy_loss": "the loss",
        POLICY_POLICY_ENTROPY = "policy/policy_entropy": "mean entropy of the distributions the trained tokens were drawn from, in nats",
        POLICY_POLICY_KL = "policy/policy_kl": "mean KL estimate from the reference policy; absent if the loss \
            has no KL",
        POLICY_KL_TO_START = "policy/kl_to_start": "mean KL per token to the policy as it began, after the step, on the step's episodes: the mean of w (r − 1 − ln r), r the start's probability over the policy's, w the policy's over the sampler's; with `train.kl_to_start` or `train.kl_within`",
        POLICY_KL_REJECTED = "policy/kl_rejected": "1 if the step was undone because it moved further from the start \
            than the run of `train.kl_within` did at that step",
        POLICY_POLICY_LR = "policy/policy_lr": "learning rate",
        POLICY_GRAD_NORM = "policy/grad_norm": "norm of the gradient before clipping",
        POLICY_SKIPPED_STEPS = "policy/skipped_steps" (Lower): "optimizer steps not taken because the gradient was not finite",
        POLICY_LOSS_METRICS_CLIP_RATIO = "policy/loss_metrics/clip_ratio": "share of the batch's tokens whose \
            gradient was clipped to 0; 0 by construction in a synchronous run with one optimizer step per batch",
        POLICY_LOSS_METRICS_IS_RATIO_MEAN = "policy/loss_metrics/is_ratio_mean": "importance ratio of a token: its \
            probability now over that of the policy that sampled it: mean",
        POLICY_LOSS_METRICS_IS_RATIO_MIN = "policy/loss_metrics/is_ratio_min": "least",
        POLICY_LOSS_METRICS_IS_RATIO_MAX = "policy/loss_metrics/is_ratio_max": "most",
        POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN = "policy/rollout_train_logprobs_abs_diff_mean": "|learner's − sampler's logprob| of the trained tokens before the first optimizer step: mean; 0 on the CPU engine",
        POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_STD = "policy/rollout_train_logprobs_abs_diff_std": "standard deviation",
        POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MIN = "policy/rollout_train_logprobs_abs_diff_min": "least",
        POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MAX = "policy/rollout_train_logprobs_abs_diff_max": "most",
        POLICY_ROLLOUT_TRAIN_LOGPROBS_CORR = "policy/rollout_train_logprobs_corr": "correlation of the two; well \
            below 1, the learner is scoring different tokens or a different prompt from the sampler's",
        TRAINER_GLOBAL_STEP = "trainer/global_step": "the step",
        TRAINER_OPTIMIZER_STEPS = "trainer/optimizer_steps": "optimizer steps taken in it",
    }
    "Time", "Wall-clock seconds. On the CPU everything else is reproducible bit for bit." {
        TIMING_STEP = "timing/step": "the whole step, without evaluation",
        TIMING_GENERATE = "timing/generate": "sampling and scoring episodes; in an asynchronous run only the time \
            waiting for them",
        TIMING_ROOM_MEAN = "timing/room_mean": "waiting for room in the KV cache, per episode; absent if none waited. Such \
            conversations would evict each other",
        TIMING_POLICY_TRAIN = "timing/policy_train": "credit, packing and learning",
        TIMING_SAVE_CHECKPOINTS = "timing/save_checkpoints": "writing the newest checkpoint before this step",
        TIMING_SAMPLED_TOKENS_PER_SECOND = "timing/sampled_tokens_per_second" (Higher): "sampled tokens per second of \
            sampling and scoring; of the whole step in an asynchronous run",
    }
}
