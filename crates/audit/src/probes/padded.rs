use crate::filler::filler;
use crate::probe::{About, Probe, Role, Sweep, Variant};
use crate::scene::{Fill, Scene};

/// The solution with film trivia after it.
#[derive(Debug)]
pub(super) struct Padded;

const ADDED: [usize; 9] = [0, 4, 8, 16, 32, 64, 100, 150, 220];

impl Probe for Padded {
    fn about(&self) -> About {
        About {
            name: "padded",
            what: "The solution with 0 to 220 words of film trivia after it.",
            finds: "Length rewards that pay for padding: the right answer is too short for them.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let Some(answer) = scene.answer.as_ref().filter(|_| scene.has_text()) else { return Vec::new() };
        let with = |added: usize| {
            let text = format!("{} {}", answer.text, filler(added));
            let replies = scene.solved_but(&Fill { text: Some(text.trim_end()), ..Fill::default() })?;
            let label = format!("the solution and {added} words of film trivia");
            Some(Variant::new(label, Role::Dressed, replies).at(Sweep::PaddingWords, added as f64))
        };
        ADDED.into_iter().filter_map(with).collect()
    }
}
