use crate::filler::filler;
use crate::probe::{About, Probe, Role, Sweep, Variant};
use crate::scene::{Fill, Scene};

/// A valid form with nothing in it.
#[derive(Debug)]
pub(super) struct FormatOnly;

impl Probe for FormatOnly {
    fn about(&self) -> About {
        About {
            name: "format_only",
            what: "A valid answer whose fields say nothing: one letter, one word, a line of trivia.",
            finds: "Format rewards that read the content, and totals that pay for form alone.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let Some(answer) = scene.answer.as_ref().filter(|answer| answer.slots.text.is_some()) else {
            return Vec::new();
        };
        let length = answer.text.split_whitespace().count();
        let contents = ["x".to_owned(), "resolved".to_owned(), filler(4), filler(length), filler(2 * length + 8)];
        let with = |(place, text): (usize, &String)| {
            let fill = Fill { text: Some(text), citations: Some(Vec::new()), confidence: Some(0.5), flag: Some(false) };
            let label = match place {
                0 | 1 => format!("a valid form that says {text:?}"),
                2 => "a valid form with four words of trivia".to_owned(),
                3 => "a valid form with trivia of the solution's length".to_owned(),
                _ => "a valid form with trivia of over twice the solution's length".to_owned(),
            };
            Variant::new(label, Role::Junk, scene.junk(&fill)).at(Sweep::Contents, place as f64)
        };
        contents.iter().enumerate().map(with).collect()
    }
}
