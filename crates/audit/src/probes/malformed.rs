use crate::probe::{About, Mark, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// The solution, mis-written.
#[derive(Debug)]
pub(super) struct Malformed;

impl Probe for Malformed {
    fn about(&self) -> About {
        About {
            name: "malformed",
            what: "The solution with one fault of form: a raw line break in a string, a trailing comma, an unknown tool, a \
                   missing argument, text around the call, two calls.",
            finds: "One parse gate over many components, and faults of form that are a way out of a component.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let Some(whole) = scene.solved_but(&Fill::default()) else { return Vec::new() };
        let (Some(answer), Some(last)) = (scene.answer.as_ref(), whole.last()) else { return Vec::new() };
        let Some(call) = &answer.call else { return Vec::new() };
        let with = |label: &str, reply: Option<String>| {
            let mut replies = whole.clone();
            *replies.last_mut()? = reply?;
            Some(Variant::new(label, Role::Broken, replies))
        };
        let repairable = |label, reply| Some(with(label, reply)?.marked(Mark::Repairable));
        let words: Vec<&str> = answer.text.splitn(2, ' ').collect();
        let raw_line = match words[..] {
            [first, _] if last.contains(&format!("{first} ")) => {
                Some(last.replacen(&format!("{first} "), &format!("{first}\n"), 1))
            }
            _ => None,
        };
        let comma = last.rfind("}}").map(|at| format!("{},{}", &last[..=at], &last[at + 1..]));
        let missing = call.arguments.keys().next().and_then(|key| {
            let mut call = call.clone();
            call.arguments.shift_remove(key);
            // The format refuses to write an invalid call, so it is cut out of the text.
            let value = serde_json::to_string(&answer.call.as_ref()?.arguments[key]).ok()?;
            let pair = format!("\"{key}\": {value}, ");
            last.contains(&pair).then(|| last.replacen(&pair, "", 1))
        });
        [
            repairable("a raw line break in a string", raw_line),
            repairable("a trailing comma", comma),
            with("an unknown tool", Some(last.replacen(&call.name, "finish_everything", 1))),
            with("a missing argument", missing),
            with("text around the call", Some(format!("Sure, here it is.\n{last}\nDone."))),
            with("the call twice", Some(format!("{last}\n{last}"))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
