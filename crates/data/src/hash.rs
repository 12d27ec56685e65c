//! A 64-bit hash that is the same on every machine and in every release: for comparing, never for splitting.

/// FNV-1a over the bytes, finished with SplitMix64's mixing so that all bits count.
pub(crate) fn hash64(bytes: &[u8]) -> u64 {
    let mut hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

pub(crate) fn of_json(value: &impl serde::Serialize) -> u64 {
    hash64(&serde_json::to_vec(value).unwrap_or_default())
}
