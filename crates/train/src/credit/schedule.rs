//! Schedule of credit: until `credit.arguments_from` the tokens of those arguments get no credit.

use std::fmt;

use hone_arena::rewards::{Rubric, TOTAL};
use hone_trace::{Advantage, Credit, Group, Seed};

use super::arguments::by_argument;
use super::recipe::{BadCredit, CreditRecipe};
use super::{Weights, mask_overlong};
use crate::penalty::KL;
use crate::recipe::Recipe;

/// The estimator of every step of a run.
pub struct Schedule {
    /// Estimator of the first steps and the last step it credits, if there are two.
    first: Option<(u64, Box<dyn Credit>)>,
    then: Box<dyn Credit>,
}

impl Schedule {
    /// The estimator of a recipe over its rubric: the rubric's total with its gates and products, or every component by
    /// itself where the estimator normalises them one by one; and the KL, where it is paid.
    pub fn of_recipe(recipe: &Recipe, rubric: &Rubric) -> Result<Self, BadCredit> {
        let mut paid: Vec<(String, f64)> = if recipe.credit.estimator()?.by_component {
            let weighted = rubric.weights().filter(|(_, weight)| *weight > 0.0);
            weighted.map(|(name, weight)| (name.to_owned(), weight)).collect()
        } else {
            vec![(TOTAL.to_owned(), 1.0)]
        };
        if recipe.kl_reward.is_some() {
            paid.push((KL.to_owned(), 1.0));
        }
        let components: Vec<_> = rubric.weights().collect();
        Self::new(&recipe.credit, recipe.train.steps, Weights::new(paid), &components)
    }

    /// Advantages of a step as they are trained on: overlong episodes without one, and a placebo's where the recipe has one.
    pub fn advantages(&self, recipe: &Recipe, groups: &[Group], step: u64) -> Vec<Vec<Advantage>> {
        let mut advantages = self.at(step).credit(groups);
        if recipe.overlong_filter {
            mask_overlong(groups, &mut advantages);
        }
        if let Some(placebo) = recipe.placebo {
            placebo.treat(&mut advantages, Seed::root(recipe.seed).with("placebo").at(step));
        }
        advantages
    }

    /// Reason of every trace of a group for having no signal. `None` if any of them has some.
    pub(crate) fn without_signal(&self, recipe: &Recipe, group: &Group, step: u64) -> Option<Vec<Advantage>> {
        let groups = std::slice::from_ref(group);
        let mut advantages = self.at(step).credit(groups);
        let none = advantages.iter().flatten().all(|advantage| matches!(advantage, Advantage::None { .. }));
        if recipe.overlong_filter {
            mask_overlong(groups, &mut advantages);
        }
        none.then(|| advantages.pop().unwrap_or_default())
    }

    /// For a run of `steps` steps, see [`by_argument`].
    pub fn new(
        recipe: &CreditRecipe,
        steps: u64,
        weights: Weights,
        components: &[(&str, f64)],
    ) -> Result<Self, BadCredit> {
        let build = |recipe: &CreditRecipe| by_argument(recipe, weights.clone(), components);
        let then = build(recipe)?;
        let first = match recipe.arguments_from {
            None => None,
            Some(share) => {
                let unpaid = CreditRecipe { argument_weight: Some(0.0), ..recipe.clone() };
                Some(((share * steps as f64) as u64, build(&unpaid)?))
            }
        };
        Ok(Self { first, then })
    }

    pub fn at(&self, step: u64) -> &dyn Credit {
        match &self.first {
            Some((last, first)) if step <= *last => first.as_ref(),
            _ => self.then.as_ref(),
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.first.as_ref().map(|(last, _)| last);
        f.debug_struct("Schedule").field("unpaid_until", &until).finish_non_exhaustive()
    }
}
