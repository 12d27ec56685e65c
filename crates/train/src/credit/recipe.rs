//! Estimators by name: `credit = "grpo"`, or a table with the name and what turns earn by themselves.

use std::collections::BTreeMap;

use hone_trace::{Credit, documented};
use serde::{Deserialize, Serialize};

use super::negative::Negative;
use super::{Gdpo, Grpo, MaxRl, ReinforcePlusPlus, Rloo, Scale, TurnReturns, TurnRewards, TurnRloo, Weights};
use crate::catalogue::{Entry, UnknownName, catalogue, find, name_or_table};

documented! {
    /// What a recipe says of credit. In TOML either `credit = "grpo"` or
    /// `credit = { name = "turn_rloo", discount = 0.5, failed_call = -0.5 }`.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(remote = "Self", deny_unknown_fields)]
    pub struct CreditRecipe {
        /// The estimator: a name of docs/algorithms.md.
        pub name: String,
        /// Factor on advantages under 0; absent: 1. Less than 1 for a policy that is nearly right: its failures
        /// are mostly right tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub negative: Option<f64> where real(0.0, 1.0),
        /// Discount of a later turn's return in the turn before it, for estimators per turn; absent: the estimator's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub discount: Option<f64> where real(0.0, 1.0),
        /// Reward of a turn whose reply cannot be read, for estimators per turn; absent: 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parse_failure: Option<f64> where real(-1e6, 1e6),
        /// Reward of a turn whose call the environment answers with an error, for estimators per turn; absent: 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub failed_call: Option<f64> where real(-1e6, 1e6),
        /// Arguments of calls whose tokens one reward component pays alone, of weight 0 in the rubric:
        /// `{ confidence = "calibration" }`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub arguments: BTreeMap<String, String>,
        /// Factor on the advantages of those tokens; absent: 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub argument_weight: Option<f64> where real(0.0, 1.0),
        /// The share of the steps after which those tokens are paid, nothing before; 0 where it is not given. Later than that
        /// they stay open until the rest has settled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub arguments_from: Option<f64> where real(0.0, 1.0),
        /// The component of 0 or 1 that says what a stated confidence was about: a Brier score that pays an argument is then
        /// compared with what the batch's base rate would have earned. Not given: with episodes of the same reward.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub skill_over: Option<String>,
    }
}

/// Why there is no such estimator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCredit {
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    #[error(
        "credit {name:?} gives a trace one advantage and does not read {option}; \"turn_rloo\" and \"turn_returns\" do"
    )]
    NotPerTurn { name: String, option: &'static str },
    #[error(
        "credit {name:?} gives every turn an advantage and does not read arguments; the estimators of whole traces do"
    )]
    PerTurnArguments { name: String },
    #[error("credit.arguments.{argument} names the component {component:?}; the rubric has {there}")]
    NoComponent { argument: String, component: String, there: String },
    #[error(
        "{component} pays the tokens of {argument} (credit.arguments) and counts in the total too; give it weight = 0 in the \
         rubric"
    )]
    PaidTwice { argument: String, component: String },
    #[error("credit.skill_over names the component {component:?}; the rubric has {there}")]
    NoOutcome { component: String, there: String },
    #[error("credit.{option} is given and credit.arguments is not; say which arguments it is for, or leave it out")]
    NoArguments { option: &'static str },
    #[error("credit.{option} = {value} is out of range: it lies between 0 and 1")]
    Range { option: &'static str, value: String },
}

impl CreditRecipe {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The estimator over these reward components.
    pub fn build(&self, weights: Weights) -> Result<Box<dyn Credit>, BadCredit> {
        let estimator = self.estimator()?;
        let given =
            [("discount", self.discount), ("parse_failure", self.parse_failure), ("failed_call", self.failed_call)];
        if let Some((option, _)) = given.iter().find(|(_, value)| value.is_some())
            && !estimator.per_turn
        {
            return Err(BadCredit::NotPerTurn { name: self.name.clone(), option });
        }
        if let Some(discount) = self.discount.filter(|discount| !(0.0..=1.0).contains(discount)) {
            return Err(BadCredit::Range { option: "discount", value: discount.to_string() });
        }
        let credit = (estimator.make)(self, weights);
        match self.negative {
            None => Ok(credit),
            Some(weight) if (0.0..=1.0).contains(&weight) => Ok(Box::new(Negative { inner: credit, weight })),
            Some(weight) => Err(BadCredit::Range { option: "negative", value: weight.to_string() }),
        }
    }

    /// Whether there is such an estimator over a rubric with these components and weights.
    pub fn check(&self, components: &[(&str, f64)]) -> Result<(), BadCredit> {
        self.build(Weights::default())?;
        let estimator = self.estimator()?;
        for (option, value) in [("argument_weight", self.argument_weight), ("arguments_from", self.arguments_from)] {
            match value {
                Some(_) if self.arguments.is_empty() => return Err(BadCredit::NoArguments { option }),
                Some(value) if !(0.0..=1.0).contains(&value) => {
                    return Err(BadCredit::Range { option, value: value.to_string() });
                }
                _ => {}
            }
        }
        let there = || components.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        if let Some(component) = &self.skill_over {
            if self.arguments.is_empty() {
                return Err(BadCredit::NoArguments { option: "skill_over" });
            }
            if !components.iter().any(|(name, _)| name == component) {
                return Err(BadCredit::NoOutcome { component: component.clone(), there: there() });
            }
        }
        if !self.arguments.is_empty() && estimator.per_turn {
            return Err(BadCredit::PerTurnArguments { name: self.name.clone() });
        }
        for (argument, component) in &self.arguments {
            let (argument, component) = (argument.clone(), component.clone());
            match components.iter().find(|(name, _)| *name == component) {
                None => return Err(BadCredit::NoComponent { argument, component, there: there() }),
                Some((_, weight)) if *weight != 0.0 => return Err(BadCredit::PaidTwice { argument, component }),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The estimator by its name, in any spelling that the catalogue knows.
    pub fn estimator(&self) -> Result<&'static Estimator, UnknownName> {
        Ok(&find("credit", CREDITS, &self.name)?.make)
    }

    fn turn_rewards(&self) -> TurnRewards {
        TurnRewards { parse_failure: self.parse_failure.unwrap_or(0.0), failed_call: self.failed_call.unwrap_or(0.0) }
    }
}

name_or_table!(CreditRecipe, "the name of an estimator, or a table with `name`");

/// An estimator in the catalogue: how it is built, and what the rest of a run has to know of it.
#[derive(Debug, Clone, Copy)]
pub struct Estimator {
    make: Make,
    /// It normalises every reward component by itself, and is given them one by one instead of their total.
    pub by_component: bool,
    /// It gives every turn an advantage, and reads `discount`, `parse_failure` and `failed_call`.
    pub per_turn: bool,
}

/// Builds an estimator over these reward components.
type Make = fn(&CreditRecipe, Weights) -> Box<dyn Credit>;

/// One advantage a trace, from totals.
const fn whole(make: Make) -> Estimator {
    Estimator { make, by_component: false, per_turn: false }
}

/// One advantage a trace, from components.
const fn by_component(make: Make) -> Estimator {
    Estimator { make, by_component: true, per_turn: false }
}

/// One advantage a turn.
const fn per_turn(make: Make) -> Estimator {
    Estimator { make, by_component: false, per_turn: true }
}

/// The estimators and their names.
pub static CREDITS: &[Entry<Estimator>] = catalogue! {
    /// A = (R − mean of the group) / (sample deviation of the group + 1e-4).
    /// The default. Division by the deviation makes easy and hard tasks push equally hard.
    "grpo" => whole(|_, weights| Box::new(Grpo::new(weights, Scale::Group)));
    /// A = (R − mean of the group) / (sample deviation of the batch + 1e-4).
    /// As grpo, steadier for small groups.
    "grpo_batch" => whole(|_, weights| Box::new(Grpo::new(weights, Scale::Batch)));
    /// A = R − mean of the group.
    /// No difficulty bias: the gradient is that of the mean reward. With `loss = "dr_grpo"` also no length bias.
    "dr_grpo" => whole(|_, weights| Box::new(Grpo::new(weights, Scale::None)));
    /// A = R − mean of the others in the group.
    /// Unbiased whatever the group's size.
    "rloo" => whole(|_, weights| Box::new(Rloo { weights }));
    /// A = (R − mean of the group) / (mean of the group + 1e-6).
    /// For rewards of at least 0, best 0 or 1: rarely solved tasks push hardest.
    "maxrl" => whole(|_, weights| Box::new(MaxRl { weights, epsilon: 1e-6 }));
    /// A = (R − mean) / deviation, over all sampled tokens of the batch.
    /// No groups needed. Tasks of unequal difficulty compete; use the baseline variant for those.
    "reinforce++" => whole(|_, weights| Box::new(ReinforcePlusPlus { weights, baseline: false, epsilon: 1e-8 }));
    /// As reinforce++ after taking the mean of the group off.
    /// As grpo_batch, whitened over tokens.
    "reinforce++_baseline" => whole(|_, weights| Box::new(ReinforcePlusPlus { weights, baseline: true, epsilon: 1e-8 }));
    /// S = Σ weight × (r − mean of the group) / (deviation of the group + 1e-4) over components; A = S whitened over the batch.
    /// For several rewards of different scale or sparsity.
    "gdpo" => by_component(|_, weights| Box::new(Gdpo { weights, epsilon: 1e-4 }));
    /// A of turn k = G(k) − mean of the others' G(k); G is the return from turn k on, discounted by `discount` (1) a turn.
    /// For episodes with errors inside them: give `parse_failure` and `failed_call` a price and each turn answers for its own. With an outcome reward alone it is rloo.
    "turn_rloo" => per_turn(|recipe, weights| {
        let discount = recipe.discount.unwrap_or(1.0);
        Box::new(TurnRloo { weights, discount, turn_rewards: recipe.turn_rewards() })
    });
    /// A of turn k = G(k) − mean of G over the group's turns, G discounted by `discount` (0.95) a turn.
    /// Prefers short successes and blames late turns for failures.
    "turn_returns" => per_turn(|recipe, weights| {
        let discount = recipe.discount.unwrap_or(0.95);
        Box::new(TurnReturns { weights, discount, turn_rewards: recipe.turn_rewards() })
    });
};
