//! Advantage estimators by name: `credit = "grpo"`, or a table with the name and the rewards of single turns.

use std::collections::BTreeMap;

use hone_trace::{Credit, documented};
use serde::{Deserialize, Serialize};

use super::negative::Negative;
use super::{CREDITS, TurnRewards, Weights};
use crate::catalogue::{UnknownName, find, name_or_table};

documented! {
    /// Credit assignment of a recipe. In TOML either `credit = "grpo"` or
    /// `credit = { name = "turn_rloo", discount = 0.5, failed_call = -0.5 }`.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(remote = "Self", deny_unknown_fields)]
    pub struct CreditRecipe {
        /// The estimator: a name from docs/algorithms.md.
        pub name: String,
        /// Factor on negative advantages; absent: 1. Use less than 1 for a policy that is nearly right: its failures
        /// are mostly right tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub negative: Option<f64> where real(0.0, 1.0),
        /// Discount per turn of later turns' returns, for per-turn estimators; absent: the estimator's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub discount: Option<f64> where real(0.0, 1.0),
        /// Reward of a turn whose reply cannot be parsed, for per-turn estimators; absent: 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parse_failure: Option<f64> where real(-1e6, 1e6),
        /// Reward of a turn whose call the environment answers with an error, for per-turn estimators; absent: 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub failed_call: Option<f64> where real(-1e6, 1e6),
        /// Arguments of calls whose tokens are credited by one reward component only, which has weight 0 in the rubric:
        /// `{ confidence = "calibration" }`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub arguments: BTreeMap<String, String>,
        /// Factor on the advantages of those tokens; absent: 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub argument_weight: Option<f64> where real(0.0, 1.0),
        /// Share of the steps after which those tokens are credited; absent: 0. A late start lets the rest of the reply
        /// settle first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub arguments_from: Option<f64> where real(0.0, 1.0),
        /// Outcome component (0 or 1) that a stated confidence refers to: a Brier score that credits an argument is
        /// then compared with what the batch's base rate would have earned. Absent: compared with episodes of the same
        /// reward.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub skill_over: Option<String>,
    }
}

/// Reason why an estimator cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCredit {
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    #[error("credit {name:?} has one advantage per trace and takes no {option}; use \"turn_rloo\" or \"turn_returns\"")]
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
    #[error("credit.{option} = {value} is out of range; use a value from 0 to 1")]
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

    /// Refuses an estimator that does not fit a rubric with these components and weights.
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

    pub(super) fn turn_rewards(&self) -> TurnRewards {
        TurnRewards { parse_failure: self.parse_failure.unwrap_or(0.0), failed_call: self.failed_call.unwrap_or(0.0) }
    }
}

name_or_table!(CreditRecipe, "the name of an estimator, or a table with `name`");

/// Catalogue entry of an estimator: its constructor, and the properties the rest of a run needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Estimator {
    pub(super) make: Make,
    /// It normalises each reward component separately, and gets the components instead of their total.
    pub by_component: bool,
    /// It gives every turn an advantage, and reads `discount`, `parse_failure` and `failed_call`.
    pub per_turn: bool,
}

/// Builds an estimator over these reward components.
type Make = fn(&CreditRecipe, Weights) -> Box<dyn Credit>;

impl Estimator {
    /// One advantage per trace, from its total.
    pub(super) const fn whole(make: Make) -> Self {
        Self { make, by_component: false, per_turn: false }
    }

    /// One advantage per turn.
    pub(super) const fn per_turn(make: Make) -> Self {
        Self { make, by_component: false, per_turn: true }
    }
}
