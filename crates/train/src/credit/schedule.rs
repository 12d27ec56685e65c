//! Schedule of credit: until `credit.arguments_from` the tokens of those arguments get no credit.

use std::fmt;

use hone_trace::Credit;

use super::Weights;
use super::arguments::by_argument;
use super::recipe::{BadCredit, CreditRecipe};

/// The estimator of every step of a run.
pub struct Schedule {
    /// Estimator of the first steps and the last step it credits, if there are two.
    first: Option<(u64, Box<dyn Credit>)>,
    then: Box<dyn Credit>,
}

impl Schedule {
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
