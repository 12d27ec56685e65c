//! Credit: rewards to advantages. One estimator per file, all pure; a new one is one file and one line of [`CREDITS`].
//!
//! A trace without a reward has no advantage and is in no mean; excluded traces never get here (they left their
//! [`Group`]). A group without variance gives the reason instead of zeros: those tokens are not trained.

mod arguments;
mod negative;
mod overlong;
mod recipe;
mod schedule;
mod stats;
mod total;
mod turns;

pub use arguments::by_argument;
pub use grpo::{Grpo, Scale};
pub use overlong::mask_overlong;
pub use recipe::{BadCredit, CreditRecipe, Estimator};
pub use rloo::Rloo;
pub use schedule::Schedule;
pub use total::Weights;
pub use turn_returns::TurnReturns;
pub use turn_rloo::TurnRloo;
pub use turns::TurnRewards;

use hone_trace::{Advantage, Group, NoSignal, entries};

use crate::catalogue::Entry;

pub(crate) type CreditEntry = Entry<Estimator>;

entries! {
    /// The estimators and their names.
    pub static CREDITS: [CreditEntry];
    mod grpo: GRPO, GRPO_BATCH, DR_GRPO;
    mod rloo: RLOO;
    mod maxrl: MAXRL;
    mod reinforce_pp: REINFORCE_PP, REINFORCE_PP_BASELINE;
    mod gdpo: GDPO;
    mod turn_rloo: TURN_RLOO;
    mod turn_returns: TURN_RETURNS;
}

/// Credits each group separately: `values` maps the rewards of the scored traces to their advantages, or to the reason
/// why there are none. It is only called for groups with variance.
fn per_group(
    groups: &[Group],
    weights: &Weights,
    values: impl Fn(&[f64]) -> Result<Vec<f64>, NoSignal>,
) -> Vec<Vec<Advantage>> {
    let credit_group = |group: &Group| {
        let totals = weights.totals(group);
        let scored: Vec<f64> = totals.iter().copied().flatten().collect();
        let values = stats::check_spread(&scored).and_then(|()| values(&scored));
        match values {
            Err(why) => totals.iter().map(|total| no_signal(*total, why)).collect(),
            Ok(values) => {
                let mut values = values.into_iter();
                totals.iter().map(|total| whole(total.and_then(|_| values.next()))).collect()
            }
        }
    };
    groups.iter().map(credit_group).collect()
}

/// An unscored trace is marked as such, regardless of its group.
fn no_signal(total: Option<f64>, why: NoSignal) -> Advantage {
    Advantage::None { why: if total.is_some() { why } else { NoSignal::Unscored } }
}

fn whole(value: Option<f64>) -> Advantage {
    value.map_or(Advantage::None { why: NoSignal::Unscored }, |value| Advantage::Whole { value })
}
