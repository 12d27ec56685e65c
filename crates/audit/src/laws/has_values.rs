use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText};

/// A scorer that is down scores nothing.
#[derive(Debug)]
pub(super) struct HasValues;

impl Law for HasValues {
    fn about(&self) -> LawText {
        LawText {
            name: "has_values",
            law: "A paid component has a value for at least one episode: if it never has one, its scorer is down or \
                  does not fit the environment.",
            measure: "A paid component without a value in any episode, the solutions included. Its weight goes to the \
                      others, so the total looks complete.",
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
