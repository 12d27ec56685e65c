use crate::probe::{About, Probe, Role, Sweep, Variant};
use crate::scene::{Fill, Scene};

/// Right citations, given again and again.
#[derive(Debug)]
pub(super) struct RepeatedCitations;

impl Probe for RepeatedCitations {
    fn about(&self) -> About {
        About {
            name: "repeated_citations",
            what: "The solution with each of its citations given 1, 2, 4 and 8 times.",
            finds: "Citation counts over lists instead of sets.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let cites = scene.answer.as_ref().is_some_and(|answer| answer.slots.list.is_some());
        if !cites || scene.gold.is_empty() {
            return Vec::new();
        }
        let times = |times: usize| {
            let citations = std::iter::repeat_n(&scene.gold, times).flatten().cloned().collect();
            let replies = scene.solved_but(&Fill { citations: Some(citations), ..Fill::default() })?;
            let variant = Variant::new(format!("right citations {times} times"), Role::Dressed, replies);
            Some(variant.at(Sweep::RepeatedCitations, times as f64))
        };
        [1, 2, 4, 8].into_iter().filter_map(times).collect()
    }
}
