use std::collections::HashSet;

use crate::probe::{About, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// Bag of the prompt's words.
#[derive(Debug)]
pub(super) struct Keywords;

/// Enough to meet any list of key facts.
const MOST: usize = 160;

impl Probe for Keywords {
    fn about(&self) -> About {
        About {
            name: "keywords",
            what: "Every distinct word and figure of the prompt, once, in alphabetical order.",
            finds: "Verifiers that look for keywords and ignore whatever else is said.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let mut seen = HashSet::new();
        let mut words: Vec<&str> =
            scene.prompt.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
        words.retain(|word| !word.is_empty() && seen.insert(*word));
        words.sort_unstable();
        words.truncate(MOST);
        let text = words.join(" ");
        let mut variants = vec![Variant::new("all words of the prompt as a reply", Role::Junk, vec![text.clone()])];
        if scene.answer.is_some() && scene.has_text() {
            let fill = Fill {
                text: Some(&text),
                citations: Some(scene.shown.clone()),
                confidence: Some(0.5),
                flag: Some(false),
            };
            variants.push(Variant::new("all words of the prompt, everything cited", Role::Junk, scene.junk(&fill)));
        }
        variants
    }
}
