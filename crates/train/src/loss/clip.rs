//! PPO's clipped objective, with an asymmetric range and an optional cap on the loss of a bad token.

use std::cmp::Ordering;

use super::{BadLoss, Hyperparameters, Level, LossEntry, MakeLoss, Objective, Reduction, Surrogate, Term, Token};

pub(super) const CLIP: LossEntry = LossEntry {
    name: "clip",
    maths: "−min(ρA, clip(ρ, 1−clip_low, 1+clip_high)A), clips 0.2 and 0.2; token_mean.",
    advice: "PPO's clipped objective. `cap` bounds the loss of bad tokens (dual clip).",
    paper: Some("Schulman et al. 2017, Proximal Policy Optimization, arXiv:1707.06347"),
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            Ok(Objective::new(Clip::from_hyperparameters(hyperparameters, 0.2, 0.2), Reduction::TokenMean))
        },
    },
};

pub(super) const GRPO: LossEntry = LossEntry {
    name: "grpo",
    maths: "As clip; sequence_mean.",
    advice: "The original. Prefer dapo unless you are reproducing a GRPO result: the per-sequence mean favours long \
        bad replies.",
    paper: Some("Shao et al. 2024, DeepSeekMath, arXiv:2402.03300"),
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            Ok(Objective::new(Clip::from_hyperparameters(hyperparameters, 0.2, 0.2), Reduction::SequenceMean))
        },
    },
};

pub(super) const DAPO: LossEntry = LossEntry {
    name: "dapo",
    maths: "As clip, with clip_high 0.28; token_mean.",
    advice: "Start here. The wider upper clip keeps exploration alive.",
    paper: Some("Yu et al. 2025, DAPO, arXiv:2503.14476"),
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            Ok(Objective::new(Clip::from_hyperparameters(hyperparameters, 0.2, 0.28), Reduction::TokenMean))
        },
    },
};

pub(super) const BNPO: LossEntry = LossEntry {
    name: "bnpo",
    maths: "As clip; token_mean.",
    advice: "TRL's name for clip with a mean over one micro-batch, which changes with its size; here it is over the step.",
    paper: None,
    make: MakeLoss { hyperparameters: &[], build: CLIP.make.build },
};

pub(super) const DR_GRPO: LossEntry = LossEntry {
    name: "dr_grpo",
    maths: "As clip; constant_length, with `max_tokens`.",
    advice: "No length bias. Together with `credit = \"dr_grpo\"` also no difficulty bias.",
    paper: Some("Liu et al. 2025, Understanding R1-Zero-Like Training, arXiv:2503.20783"),
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            let length = constant_length(hyperparameters)?;
            Ok(Objective::new(Clip::from_hyperparameters(hyperparameters, 0.2, 0.2), length))
        },
    },
};

pub(super) const DUAL_CLIP: LossEntry = LossEntry {
    name: "dual_clip",
    maths: "As clip, and at most cap·|A| for A < 0, cap 3; token_mean.",
    advice: "Against the rare bad token whose ratio explodes, mostly in asynchronous runs.",
    paper: Some("Ye et al. 2019, Mastering Complex Control in MOBA Games, arXiv:1912.09729"),
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            let clip = Clip::from_hyperparameters(hyperparameters, 0.2, 0.2);
            Ok(Objective::new(Clip { cap: clip.cap.or(Some(3.0)), ..clip }, Reduction::TokenMean))
        },
    },
};

pub(super) const GSPO: LossEntry = LossEntry {
    name: "gspo",
    maths: "As clip with the sequence's ratio, clips 3e-4 and 4e-4; sequence_mean.",
    advice: "For long replies and mixtures of experts.",
    paper: Some("Zheng et al. 2025, Group Sequence Policy Optimization, arXiv:2507.18071"),
    make: MakeLoss { hyperparameters: &[], build: |hyperparameters| Ok(gspo(hyperparameters).at(Level::Sequence)) },
};

pub(super) const GSPO_TOKEN: LossEntry = LossEntry {
    name: "gspo_token",
    maths: "As gspo, each token's gradient through its own logprob.",
    advice: "GSPO where the tokens of a sequence have different advantages.",
    paper: GSPO.paper,
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| Ok(gspo(hyperparameters).at(Level::SequenceToken)),
    },
};

pub(super) const LUSPO: LossEntry = LossEntry {
    name: "luspo",
    maths: "As clip with the sequence's ratio; sequence_sum.",
    advice: "GSPO without its bias towards short replies; lower the learning rate, the sum grows with length.",
    paper: Some("Liu et al. 2026, Length-Unbiased Sequence Policy Optimization, arXiv:2602.05261"),
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            Ok(Objective::new(Clip::from_hyperparameters(hyperparameters, 0.2, 0.2), Reduction::SequenceSum)
                .at(Level::Sequence))
        },
    },
};

fn gspo(hyperparameters: &mut Hyperparameters) -> Objective {
    Objective::new(Clip::from_hyperparameters(hyperparameters, 3e-4, 4e-4), Reduction::SequenceMean)
}

/// Reduction by a constant length, the hyperparameter `max_tokens`.
pub(super) fn constant_length(hyperparameters: &mut Hyperparameters) -> Result<Reduction, BadLoss> {
    let option = "max_tokens";
    let length =
        hyperparameters.require(option, "sums are divided by it; take the limit on new tokens of an episode")?;
    if length > 0.0 {
        Ok(Reduction::ConstantLength(length))
    } else {
        Err(BadLoss::Range { option, value: length, must: "it must be over 0" })
    }
}

/// −min( min(ρ, cap) A, clip(ρ, 1−low, 1+high) A ).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    pub low: f64,
    pub high: f64,
    /// Bounds the loss of tokens with a negative advantage (dual clip, two-sided clip). `None`: unbounded.
    pub cap: Option<f64>,
}

impl Clip {
    pub(super) fn from_hyperparameters(hyperparameters: &mut Hyperparameters, low: f64, high: f64) -> Self {
        Self {
            low: hyperparameters.take("clip_low", low),
            high: hyperparameters.take("clip_high", high),
            cap: hyperparameters.take_optional("cap"),
        }
    }
}

impl Surrogate for Clip {
    fn term(&self, token: &Token) -> Term {
        let capped = self.cap.is_some_and(|cap| token.ratio > cap);
        let free = self.cap.map_or(token.ratio, |cap| token.ratio.min(cap)) * token.advantage;
        let clipped = token.ratio.clamp(1.0 - self.low, 1.0 + self.high) * token.advantage;
        let inside = (1.0 - self.low..=1.0 + self.high).contains(&token.ratio);
        // The smaller branch decides: the free one moves with the ratio unless capped, the clipped one only inside.
        let moves = match free.total_cmp(&clipped) {
            Ordering::Less => !capped,
            Ordering::Greater => inside,
            Ordering::Equal => true,
        };
        if moves { Term::weighted(token) } else { Term::flat(-free.min(clipped)) }
    }
}
