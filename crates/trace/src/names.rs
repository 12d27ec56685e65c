//! Names that were nearly right, or that other programs use.

/// Foreign names: what other programs and papers call a key or a value, and its name here.
const FOREIGN: [(&str, &str); 25] = [
    ("lr", "learning_rate"),
    ("training", "train"),
    ("trainer", "train"),
    ("r", "rank"),
    ("lora_r", "rank"),
    ("lora_rank", "rank"),
    ("lora_alpha", "alpha"),
    ("max_steps", "steps"),
    ("warmup_steps", "warmup"),
    ("lr_scheduler_type", "decay"),
    ("lr_scheduler", "decay"),
    ("schedule", "decay"),
    ("num_generations", "group_size"),
    ("batch_size", "groups"),
    ("ppo_epochs", "epochs_per_batch"),
    ("num_iterations", "epochs_per_batch"),
    ("clip_grad", "max_grad_norm"),
    ("gradient_checkpointing", "recompute"),
    ("max_tokens", "max_new_tokens"),
    ("max_completion_length", "max_new_tokens"),
    ("model_name_or_path", "model"),
    ("evaluation", "eval"),
    ("environment", "env"),
    ("ppo", "clip"),
    ("params", "parameters"),
];

/// Names here of a name from elsewhere.
pub fn foreign(name: &str) -> impl Iterator<Item = &'static str> {
    FOREIGN.into_iter().filter(move |(theirs, _)| *theirs == name).map(|(_, ours)| ours)
}

/// The candidate with the fewest edits to `name`, the first of several; before them the one that others call so.
/// `None` if none is close: up to a third of its letters may differ, and always two.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    // A foreign name is no typo of another one.
    if foreign(name).next().is_some() && !candidates.contains(&name) {
        return foreign(name).find_map(|ours| candidates.iter().copied().find(|candidate| *candidate == ours));
    }
    let near = candidates.into_iter().map(|candidate| (edits(name, candidate), candidate));
    let near = near.filter(|(edits, candidate)| *edits <= (candidate.chars().count() / 3).max(2));
    near.min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// `did you mean "…"? ` if a candidate is close, else nothing.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|near| format!("did you mean {near:?}? ")).unwrap_or_default()
}

/// serde's error about an unknown field or variant, which lists the known ones, with the nearest of them on a separate
/// line. Other errors are returned in plain words.
pub fn with_nearest(error: &str) -> String {
    let text = &*plainly(error.trim_end());
    let at = ["unknown field `", "unknown variant `"].iter().find_map(|start| text.find(start));
    let names: Vec<&str> = text[at.unwrap_or(text.len())..].split('`').skip(1).step_by(2).collect();
    match names.split_first() {
        // The error may end with its location, `in `train``, which is not the name of a field.
        Some((unknown, known)) if !known.is_empty() => {
            let listed = known.iter().copied().filter(|name| !text.ends_with(&format!("in `{name}`")));
            nearest(unknown, listed).map_or_else(|| text.to_owned(), |near| format!("{text}\ndid you mean `{near}`?"))
        }
        _ => text.to_owned(),
    }
}

/// serde's error about a value of another type, with what to write instead. Other errors are returned in plain words.
pub fn with_type(error: &str) -> String {
    let error = plainly(error);
    let expected = error.split_once("invalid type: ").and_then(|(_, rest)| rest.split_once(", expected "));
    let expected = expected.map(|(_, rest)| rest.lines().next().unwrap_or_default());
    let advice = match expected {
        Some(plain @ (NUMBER | WHOLE | FLAG | TEXT)) => plain,
        Some(LIST) => "a list: [1, 2]",
        Some(TABLE) => "a table: its keys, each with a value",
        _ => return error,
    };
    format!("{error}\nhint: write {advice}")
}

const NUMBER: &str = "a number";
const WHOLE: &str = "a whole number";
const FLAG: &str = "true or false";
const TEXT: &str = "text in quotes";
const LIST: &str = "a list";
const TABLE: &str = "a table";

/// Expectations in serde's words, which are Rust's, and in a user's.
const EXPECTED: [(&str, &str); 18] = [
    ("usize", WHOLE),
    ("u64", WHOLE),
    ("u32", WHOLE),
    ("u16", WHOLE),
    ("u8", WHOLE),
    ("isize", WHOLE),
    ("i64", WHOLE),
    ("i32", WHOLE),
    ("i16", WHOLE),
    ("i8", WHOLE),
    ("f64", NUMBER),
    ("f32", NUMBER),
    ("a boolean", FLAG),
    ("a string", TEXT),
    ("path string", TEXT),
    ("a sequence", LIST),
    ("a map", TABLE),
    ("a tuple", LIST),
];

/// serde's error with its expectation in a user's words: `expected u64` is `expected a whole number`.
pub fn plainly(error: &str) -> String {
    const EXPECTS: &str = ", expected ";
    if let Some((before, _)) = error.split_once("data did not match any variant of untagged enum ") {
        return format!("{before}the value has none of the forms that can be read");
    }
    let Some(at) = error.rfind(EXPECTS).filter(|at| error[..*at].contains("invalid ")) else { return error.to_owned() };
    let (before, expected) = error.split_at(at + EXPECTS.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for start in ["struct ", "tuple struct ", "enum ", "internally tagged enum ", "adjacently tagged enum "] {
        if let Some(named) = expected.strip_prefix(start) {
            return format!("{before}{TABLE}{}", named.trim_start_matches(is_word));
        }
    }
    let plain = EXPECTED.iter().find_map(|(theirs, ours)| {
        let rest = expected.strip_prefix(theirs).filter(|rest| !rest.starts_with(is_word))?;
        Some(format!("{before}{ours}{rest}"))
    });
    plain.unwrap_or_else(|| error.to_owned())
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_said_without_types_of_rust() {
        for (error, plain) in [
            ("invalid type: integer `5`, expected struct TrainRecipe\nin `train`", "expected a table\nin `train`"),
            (
                "invalid type: string \"x\", expected u64 at line 1 column 5",
                "expected a whole number at line 1 column 5",
            ),
            ("invalid value: integer `-1`, expected usize", "expected a whole number"),
            ("invalid type: null, expected f64", "expected a number"),
            ("invalid type: integer `1`, expected a boolean", "expected true or false"),
            ("invalid type: integer `1`, expected a string", "expected text in quotes"),
            ("invalid type: map, expected a sequence", "expected a list"),
            ("invalid length 1, expected a tuple of size 2", "expected a list of size 2"),
            ("data did not match any variant of untagged enum Ids", "none of the forms that can be read"),
            ("invalid type: integer `5`, expected a string or a table", "expected text in quotes or a table"),
        ] {
            assert!(plainly(error).ends_with(plain), "{}", plainly(error));
            assert_eq!(plainly(&plainly(error)), plainly(error));
        }
        for other in ["the answer, expected f64", "unknown field `u64`, expected `a`"] {
            assert_eq!(plainly(other), other);
        }
        let hint = with_type("invalid type: integer `5`, expected struct TrainRecipe\nin `train`");
        assert!(hint.ends_with("\nhint: write a table: its keys, each with a value"), "{hint}");
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = ["learning_rate", "steps", "groups"];
        assert_eq!(nearest("learning_rat", names), Some("learning_rate"));
        assert_eq!(nearest("step", names), Some("steps"));
        assert_eq!(nearest("dropout", names), None);
        assert_eq!(nearest("lr", names), Some("learning_rate"));
        assert_eq!(nearest("lr", ["steps", "groups"]), None, "a foreign name is known where its own is");
        assert_eq!(
            (did_you_mean("group", names).as_str(), did_you_mean("x", names).as_str()),
            ("did you mean \"groups\"? ", "")
        );
    }
}
