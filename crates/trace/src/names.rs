//! Names that were nearly right.

/// The candidate with the fewest edits to `name`; the first of several.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates.into_iter().min_by_key(|candidate| edits(name, candidate))
}

/// serde's error about an unknown field or variant, which lists the known ones, with the nearest of them as a line of its own.
/// Other errors stay as they are.
pub fn with_nearest(error: &str) -> String {
    let text = error.trim_end();
    let at = ["unknown field `", "unknown variant `"].iter().find_map(|start| text.find(start));
    let names: Vec<&str> = text[at.unwrap_or(text.len())..].split('`').skip(1).step_by(2).collect();
    match names.split_first() {
        // The error may end with the place where it stands, `in `train``: no name of a field.
        Some((unknown, known)) if !known.is_empty() => {
            let listed = known.iter().copied().filter(|name| !text.ends_with(&format!("in `{name}`")));
            let nearest = nearest(unknown, listed).or_else(|| known.first().copied()).unwrap_or_default();
            format!("{text}\ndid you mean `{nearest}`?")
        }
        _ => text.to_owned(),
    }
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
