//! The Porter stemmer as NLTK ships it by default: Porter's 1980 rules with NLTK's departures.
//!
//! rouge-score stems with it, so ROUGE-L can only agree with rouge-score when every departure is here. Generic
//! Porter or Snowball crates differ in about one word of forty. The departures: irregular forms (`dying` → `die`),
//! words of at most two letters stay, four-letter `-ies` and `-ied` keep their `e`, `y` → `i` only after a consonant
//! that is not the first letter, `-alli` runs step 2 twice, `-bli`, `-fulli`, `-logi`, and a two-letter
//! vowel-consonant stem counts as consonant-vowel-consonant.
//!
//! Words are lower-case ASCII letters and digits; digits count as consonants. Work is linear in the word's length and
//! nothing recurses on its letters, so a megabyte of `y` costs a megabyte of work.

/// Stems `word` in place.
pub(super) fn stem(word: &mut Vec<u8>) {
    if let Some(form) = irregular(word) {
        word.clear();
        word.extend_from_slice(form);
        return;
    }
    if word.len() <= 2 {
        return;
    }
    step1a(word);
    step1b(word);
    step1c(word);
    step2(word);
    step3(word);
    step4(word);
    step5(word);
}

fn irregular(word: &[u8]) -> Option<&'static [u8]> {
    Some(match word {
        b"sky" | b"skies" => b"sky",
        b"dying" => b"die",
        b"lying" => b"lie",
        b"tying" => b"tie",
        b"news" => b"news",
        b"inning" | b"innings" => b"inning",
        b"outing" | b"outings" => b"outing",
        b"canning" | b"cannings" => b"canning",
        b"howe" => b"howe",
        b"proceed" => b"proceed",
        b"exceed" => b"exceed",
        b"succeed" => b"succeed",
        _ => return None,
    })
}

/// Consonants of a word: one flag per letter. A `y` is one at the start of a word and after a vowel.
fn consonants(word: &[u8]) -> impl Iterator<Item = bool> {
    word.iter().scan(false, |previous, letter| {
        *previous = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => !*previous,
            _ => true,
        };
        Some(*previous)
    })
}

/// The same for one letter. A run of `y`s alternates, so only the run and the letter before it matter.
fn is_consonant(word: &[u8], i: usize) -> bool {
    let run = word[..=i].iter().rev().take_while(|&&letter| letter == b'y').count();
    let after_consonant = (i + 1 > run) && !matches!(word[i - run], b'a' | b'e' | b'i' | b'o' | b'u');
    after_consonant ^ (run % 2 == 1)
}

/// Number of vowel-consonant sequences: Porter's m in [C](VC)^m[V].
fn measure(stem: &[u8]) -> usize {
    let mut after_vowel = false;
    consonants(stem)
        .filter(|&consonant| {
            let counts = consonant && after_vowel;
            after_vowel = !consonant;
            counts
        })
        .count()
}

fn contains_vowel(stem: &[u8]) -> bool {
    consonants(stem).any(|consonant| !consonant)
}

fn ends_double_consonant(word: &[u8]) -> bool {
    matches!(word, [.., a, b] if a == b) && is_consonant(word, word.len() - 1)
}

fn ends_cvc(word: &[u8]) -> bool {
    let n = word.len();
    let consonant = |back: usize| is_consonant(word, n - back);
    match n {
        0 | 1 => false,
        2 => !consonant(2) && consonant(1),
        _ => consonant(3) && !consonant(2) && consonant(1) && !matches!(word[n - 1], b'w' | b'x' | b'y'),
    }
}

/// Replaces the first suffix of `rules` the word ends with, if its stem passes `holds`; a first match that does not
/// pass ends the step.
fn replace_first(word: &mut Vec<u8>, rules: &[(&str, &str)], holds: impl Fn(&[u8], &str) -> bool) {
    let Some((suffix, replacement)) = rules.iter().find(|(suffix, _)| word.ends_with(suffix.as_bytes())) else {
        return;
    };
    let stem = word.len() - suffix.len();
    if holds(&word[..stem], suffix) {
        word.truncate(stem);
        word.extend_from_slice(replacement.as_bytes());
    }
}

/// Plurals.
fn step1a(word: &mut Vec<u8>) {
    if word.len() == 4 && word.ends_with(b"ies") {
        word.truncate(3);
        return;
    }
    replace_first(word, &[("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")], |_, _| true);
}

/// `-ed` and `-ing`.
fn step1b(word: &mut Vec<u8>) {
    if word.ends_with(b"ied") {
        let keep = if word.len() == 4 { 1 } else { 2 };
        word.truncate(word.len() - keep);
        return;
    }
    if let Some(stem) = word.strip_suffix(b"eed") {
        if measure(stem) > 0 {
            word.pop();
        }
        return;
    }
    let Some(stem) = word.strip_suffix(b"ed").or_else(|| word.strip_suffix(b"ing")).filter(|stem| contains_vowel(stem))
    else {
        return;
    };
    word.truncate(stem.len());
    if [&b"at"[..], b"bl", b"iz"].iter().any(|suffix| word.ends_with(suffix)) {
        word.push(b'e');
    } else if ends_double_consonant(word) {
        if !matches!(word.last(), Some(b'l' | b's' | b'z')) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_cvc(word) {
        word.push(b'e');
    }
}

/// `y` to `i`.
fn step1c(word: &mut [u8]) {
    if let [stem @ .., last @ b'y'] = word
        && stem.len() > 1
        && is_consonant(stem, stem.len() - 1)
    {
        *last = b'i';
    }
}

/// Double suffixes to single ones.
fn step2(word: &mut Vec<u8>) {
    const RULES: [(&str, &str); 22] = [
        ("ational", "ate"),
        ("tional", "tion"),
        ("enci", "ence"),
        ("anci", "ance"),
        ("izer", "ize"),
        ("bli", "ble"),
        ("alli", "al"),
        ("entli", "ent"),
        ("eli", "e"),
        ("ousli", "ous"),
        ("ization", "ize"),
        ("ation", "ate"),
        ("ator", "ate"),
        ("alism", "al"),
        ("iveness", "ive"),
        ("fulness", "ful"),
        ("ousness", "ous"),
        ("aliti", "al"),
        ("iviti", "ive"),
        ("biliti", "ble"),
        ("fulli", "ful"),
        ("logi", "log"),
    ];
    while word.strip_suffix(b"alli").is_some_and(|stem| measure(stem) > 0) {
        word.truncate(word.len() - 2);
    }
    // The l of -logi counts with the stem, so that `geologi` is treated like `archaeologi`.
    let with_l = word.strip_suffix(b"ogi").map(measure);
    replace_first(word, &RULES, |stem, suffix| match with_l {
        Some(m) if suffix == "logi" => m > 0,
        _ => measure(stem) > 0,
    });
}

fn step3(word: &mut Vec<u8>) {
    const RULES: [(&str, &str); 7] =
        [("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];
    replace_first(word, &RULES, |stem, _| measure(stem) > 0);
}

/// Single suffixes after a long stem.
fn step4(word: &mut Vec<u8>) {
    const RULES: [(&str, &str); 19] = [
        ("al", ""),
        ("ance", ""),
        ("ence", ""),
        ("er", ""),
        ("ic", ""),
        ("able", ""),
        ("ible", ""),
        ("ant", ""),
        ("ement", ""),
        ("ment", ""),
        ("ent", ""),
        ("ion", ""),
        ("ou", ""),
        ("ism", ""),
        ("ate", ""),
        ("iti", ""),
        ("ous", ""),
        ("ive", ""),
        ("ize", ""),
    ];
    replace_first(word, &RULES, |stem, suffix| {
        measure(stem) > 1 && (suffix != "ion" || matches!(stem.last(), Some(b's' | b't')))
    });
}

/// A final `e`, then a final double `l`.
fn step5(word: &mut Vec<u8>) {
    if let Some(stem) = word.strip_suffix(b"e") {
        let m = measure(stem);
        if m > 1 || (m == 1 && !ends_cvc(stem)) {
            word.pop();
        }
    }
    if word.ends_with(b"ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stemmed(word: &str) -> String {
        let mut word = word.as_bytes().to_vec();
        stem(&mut word);
        String::from_utf8(word).unwrap()
    }

    #[test]
    fn follows_the_nltk_departures() {
        for (word, expected) in [
            ("skies", "sky"),
            ("dying", "die"),
            ("dies", "die"),
            ("spied", "spi"),
            ("died", "die"),
            ("enjoy", "enjoy"),
            ("by", "by"),
            ("happy", "happi"),
            ("geologically", "geolog"),
            ("geology", "geolog"),
            ("hopefully", "hope"),
            ("oed", "o"),
            ("relational", "relat"),
            ("generalizations", "gener"),
            ("controlling", "control"),
        ] {
            assert_eq!(stemmed(word), expected, "{word}");
        }
    }

    #[test]
    fn a_megabyte_of_y_is_no_trouble() {
        assert_eq!(stemmed(&"y".repeat(1 << 20)).len(), 1 << 20);
        assert_eq!(stemmed(&format!("{}ing", "y".repeat(1 << 20))).len(), 1 << 20);
    }
}
