use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText};

/// A scorer that is down scores nothing.
#[derive(Debug)]
pub(super) struct HasValues;

impl Law for HasValues {
    fn about(&self) -> LawText {
        LawText {
            name: "has_values",
            law: "A component that is paid has a value for some episode: one that scores nothing is a scorer that is down, or \
                  one that does not fit the environment.",
            measure: "Paid components without a value in every episode, the solutions included. The weight is shared out to \
                      the others, so that the total looks whole.",
            repair: "Run the scorer by itself with `hone score` and do what its reason says (a program that ends or writes \
                     NaN, a judge without a key), or leave the component out.",
            explains: &[],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let scored = |name: &str| evidence.episodes().any(|played| played.value(name).is_some());
        if !evidence.components.iter().any(|component| scored(&component.name)) {
            return Checked::Skipped("an episode that any component scored".into());
        }
        let mut breaches = Vec::new();
        for name in evidence.paid().filter(|name| !scored(name)) {
            let rewards = evidence.episodes().flat_map(|played| &played.trace.rewards);
            let why: Vec<&str> =
                rewards.filter(|reward| reward.component == name).map(hone_trace::Reward::why).collect();
            let says = format!("`{name}` has no value for any of {} episodes", why.len());
            let line = format!("the first one's reason: {}", why.first().copied().unwrap_or("none is recorded"));
            breaches.push(Breach::new(crate::law::Severity::Error, name, says).line(line));
        }
        Checked::of(breaches)
    }
}
