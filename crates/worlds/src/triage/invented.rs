//! Invented products and fixes, in the shape of the catalogue's. A policy that sees different words in every knowledge
//! base has to copy what it reads; one that always sees the same words memorises them.

use hone_trace::Rng;

/// A product: `Zolmar Proxy`, `Tredine KXT`.
pub(super) fn product(rng: &mut Rng) -> String {
    let name = word(rng);
    let (first, rest) = name.split_at(1);
    let kind = match rng.below(3) {
        0 => capitals(rng),
        1 => {
            let kind = word(rng);
            kind[..1].to_uppercase() + &kind[1..]
        }
        _ => one(rng, &KINDS).to_owned(),
    };
    format!("{}{rest} {kind}", first.to_uppercase())
}

/// A sentence with `{value}` and, half the time, `{service}`.
pub(super) fn fix(rng: &mut Rng) -> String {
    let verb = one(rng, &VERBS);
    let object: Vec<String> = (0..=rng.below(3)).map(|_| noun(rng)).collect();
    let value = match rng.below(4) {
        0 => "to {value}".to_owned(),
        1 => format!("to {{value}} {}", noun(rng)),
        2 => format!("with {} {{value}}", noun(rng)),
        _ => format!("in {} {{value}}", noun(rng)),
    };
    let place = match rng.below(4) {
        0 => format!(" on {{service}} and {} it", one(rng, &VERBS).to_lowercase()),
        1 => " of {service}".to_owned(),
        2 => format!(" before the {}", noun(rng)),
        _ => String::new(),
    };
    format!("{verb} the {} {value}{place}.", object.join(" "))
}

/// A common word or an invented one.
fn noun(rng: &mut Rng) -> String {
    if rng.below(2) == 0 { one(rng, &NOUNS).to_owned() } else { word(rng) }
}

/// Two or three syllables, or arbitrary letters, which make a policy copy tokens that rarely occur together.
fn word(rng: &mut Rng) -> String {
    if rng.below(3) == 0 {
        return (0..3 + rng.below(4)).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
    }
    let syllables = 2 + rng.below(2);
    let mut word: String = (0..syllables).flat_map(|_| [one(rng, &ONSETS), one(rng, &VOWELS)]).collect();
    word.push_str(one(rng, &CODAS));
    word
}

/// Two to four capital letters.
fn capitals(rng: &mut Rng) -> String {
    (0..2 + rng.below(3)).map(|_| char::from(b'A' + rng.below(26) as u8)).collect()
}

fn one(rng: &mut Rng, items: &[&'static str]) -> &'static str {
    items[rng.below(items.len())]
}

const ONSETS: [&str; 32] = [
    "b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "br", "cl", "dr", "fl",
    "gr", "pl", "qu", "sc", "sh", "st", "th", "tr", "ch", "y",
];
const VOWELS: [&str; 10] = ["a", "e", "i", "o", "u", "ea", "ie", "ou", "ai", "oo"];
const CODAS: [&str; 16] = ["", "", "n", "r", "s", "t", "l", "m", "x", "ck", "nd", "st", "ng", "sh", "te", "ne"];
const KINDS: [&str; 24] = [
    "Proxy", "Router", "Mail", "Vault", "Cluster", "Scanner", "Broker", "Portal", "Agent", "Bridge", "Monitor",
    "Registry", "Backup", "Ledger", "Console", "Relay", "Planner", "Index", "Shield", "Tunnel", "Loader", "Mirror",
    "Archive", "Hub",
];
const VERBS: [&str; 20] = [
    "Set", "Lower", "Raise", "Move", "Point", "Reset", "Replace", "Extend", "Limit", "Rotate", "Pin", "Rebuild",
    "Renew", "Disable", "Restart", "Widen", "Drain", "Grant", "Import", "Trim",
];
const NOUNS: [&str; 48] = [
    "timer", "queue", "limit", "cache", "policy", "token", "index", "pool", "table", "share", "backup", "volume",
    "route", "port", "filter", "lease", "window", "buffer", "thread", "signal", "record", "zone", "node", "quota",
    "seconds", "minutes", "bytes", "percent", "copies", "days", "rule", "group", "role", "key", "list", "level",
    "number", "profile", "update", "session", "server", "disk", "user", "change", "region", "image", "batch", "clock",
];

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Seed;
    use std::collections::HashSet;

    #[test]
    fn invented_texts_have_the_catalogues_shape_and_hardly_repeat() {
        let mut rng = Seed::root(3).rng();
        let products: HashSet<String> = (0..1000).map(|_| product(&mut rng)).collect();
        assert!(products.len() > 990, "{}", products.len());
        assert!(products.iter().all(|name| name.split(' ').count() == 2), "{products:?}");
        let fixes: HashSet<String> = (0..1000).map(|_| fix(&mut rng)).collect();
        assert!(fixes.len() > 990, "{}", fixes.len());
        for fix in &fixes {
            assert!(fix.ends_with('.') && fix.matches("{value}").count() == 1, "{fix}");
            assert!(fix.matches("{service}").count() <= 1, "{fix}");
        }
    }
}
