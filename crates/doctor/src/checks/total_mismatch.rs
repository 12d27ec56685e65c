use hone_arena::rewards::TOTAL;
use hone_trace::Reward;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "total_mismatch",
    what: "The total that is trained on does not follow from the components: a verdict is recorded and never paid, or \
           paid and not recorded.",
    measure: "The rubric's total over the recorded components of probed episodes, against the recorded total. Error \
              from 1 %.",
    fix: "Score again with `hone score`, and compare the rubric of the recipe with the one that ran.",
    explains: &["reward_without_success", "dead_component", "no_signal"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Ok(rubric) = run.recipe.rubric.build() else { return Looked::skipped("a rubric that can be built") };
    let names: Vec<String> = rubric.weights().map(|(name, _)| name.to_owned()).collect();
    let products: Vec<&str> = run.recipe.rubric.product.iter().map(|product| product.name.as_str()).collect();
    let (mut all, mut wrong) = (0, Vec::new());
    for (number, trace) in run.probed()? {
        let components: Option<Vec<Reward>> = names
            .iter()
            .filter(|name| !products.contains(&name.as_str()))
            .map(|name| trace.rewards.iter().find(|reward| reward.component == *name).cloned())
            .collect();
        let Some(components) = components.filter(|_| trace.outcome.is_scorable()) else { continue };
        let (said, made) = (trace.reward(TOTAL), rubric.weigh(components).total.value());
        if said.is_none() && made.is_none() {
            continue;
        }
        all += 1;
        let agree = said.zip(made).is_some_and(|(said, made)| (made - said).abs() <= 1e-6 * made.abs().max(1.0));
        if !agree {
            wrong.push((number, said, made));
        }
    }
    if all == 0 {
        return Looked::skipped("episodes with every component of the recipe's rubric");
    }
    let rate = wrong.len() as f64 / all as f64;
    let Some((number, said, made)) = wrong.first().filter(|_| rate >= 0.01) else { return Ok(Looked::Healthy) };
    let worth = |value: &Option<f64>| value.map_or_else(|| "nothing".to_owned(), |value| format!("{value:.4}"));
    let (said, made) = (worth(said), worth(made));
    Finding::new(
        Severity::Error,
        format!("the total of {} episodes is not the sum of their components", share(wrong.len(), all)),
    )
    .line(format!("episode {number}: {said} is recorded, and the rubric makes {made}"))
    .traces(wrong.iter().map(|(number, ..)| *number))
    .into()
}
