//! Near-duplicates of texts, by MinHash: 64 minima of one hash over three-word shingles, looked up in 16 bands of 4.
//!
//! A signature takes 128 bytes, whatever the text's length. Texts of which 8 of 10 shingles are shared meet in some
//! band in 9,998 of 10,000 cases; candidates are then compared by whole signatures.

use crate::hash::hash64;

const BINS: usize = 64;
const ROWS: usize = 4;
const BANDS: usize = BINS / ROWS;
/// In a bucket with thousands of texts, only the first and the latest this many are compared.
const COMPARED: usize = 8;

/// Minima of a text's shingles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature([u16; BINS]);

impl Signature {
    pub(super) fn of(text: &str) -> Self {
        let words: Vec<String> =
            text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
        let mut minima: [Option<u16>; BINS] = [None; BINS];
        let mut add = |shingle: &[String]| {
            let hash = hash64(shingle.join(" ").as_bytes());
            // Six bits choose the bin, sixteen others are the value.
            let (bin, value) = ((hash >> 58) as usize, (hash >> 40) as u16);
            minima[bin] = Some(minima[bin].map_or(value, |least| least.min(value)));
        };
        if words.len() < 3 {
            add(&words);
        }
        words.windows(3).for_each(&mut add);
        // A bin that no shingle fell into takes the next one's value, shifted by the distance so that short texts that
        // share a value do not seem to share its neighbours by chance.
        let filled = |at: usize| {
            (0..BINS).find_map(|step| minima[(at + step) % BINS].map(|value| value.wrapping_add(step as u16 * 977)))
        };
        Self(std::array::from_fn(|at| filled(at).unwrap_or(0)))
    }

    /// Share of equal minima: an estimate of the Jaccard similarity of the shingles.
    pub(super) fn similarity(&self, other: &Self) -> f64 {
        let same = self.0.iter().zip(&other.0).filter(|(a, b)| a == b).count();
        same as f64 / BINS as f64
    }

    fn band(&self, band: usize) -> u64 {
        self.0[band * ROWS..(band + 1) * ROWS].iter().fold(0, |key, value| key << 16 | u64::from(*value))
    }
}

/// Two standard errors of the estimate at a similarity of 0.9, subtracted because a missed pair may end up on both
/// sides, while a false pair only shares a side.
const MARGIN: f64 = 0.08;

/// Pairs (later, earlier) of texts at least this similar, sorted. Position in `signatures` is the order.
pub(super) fn near_pairs(signatures: &[Signature], least: f64) -> Vec<(u32, u32)> {
    let least = if least < 1.0 { least - MARGIN } else { least };
    let mut pairs = Vec::new();
    for band in 0..BANDS {
        let mut keys: Vec<(u64, u32)> =
            signatures.iter().enumerate().map(|(at, signature)| (signature.band(band), at as u32)).collect();
        keys.sort_unstable();
        for bucket in keys.chunk_by(|a, b| a.0 == b.0).filter(|bucket| bucket.len() > 1) {
            for (at, &(_, later)) in bucket.iter().enumerate().skip(1) {
                let latest = at.saturating_sub(COMPARED).max(COMPARED.min(at));
                let compared = bucket[..COMPARED.min(at)].iter().chain(&bucket[latest..at]);
                let near =
                    |earlier: &u32| signatures[later as usize].similarity(&signatures[*earlier as usize]) >= least;
                pairs.extend(compared.map(|&(_, earlier)| earlier).filter(near).map(|earlier| (later, earlier)));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_texts_are_found_and_others_are_not() {
        let words = |start: u32, count: u32| (start..start + count).map(|n| format!("word{n}")).collect::<Vec<_>>();
        let long = words(0, 100);
        let mut edited = long.clone();
        edited[50] = "changed".into();
        let texts =
            [long.join(" "), words(1000, 100).join(" "), edited.join(" "), "Hi.".into(), "hi".into(), "Bye".into()];
        let signatures: Vec<Signature> = texts.iter().map(|text| Signature::of(text)).collect();
        assert_eq!(near_pairs(&signatures, 0.8), [(2, 0), (4, 3)]);
        assert_eq!(near_pairs(&[], 0.8), []);
    }

    #[test]
    fn a_bucket_of_thousands_is_no_quadratic_work_and_every_member_has_a_neighbour() {
        let signatures = vec![Signature::of("the very same words again and again"); 5000];
        let pairs = near_pairs(&signatures, 0.9);
        assert!(pairs.len() <= 5000 * 2 * COMPARED);
        let with: std::collections::HashSet<u32> = pairs.iter().map(|pair| pair.0).collect();
        assert_eq!(with.len(), 4999);
    }
}
