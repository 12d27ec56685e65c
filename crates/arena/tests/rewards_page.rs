//! docs/rewards.md matches the entries.

use std::path::Path;

use hone_arena::rewards::COMPONENTS;
use hone_arena::rewards::catalogue::page;

#[test]
fn rewards_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rewards.md");
    let page = page().unwrap();
    if std::env::var_os("HONE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/rewards.md is out of date; run `HONE_BLESS=1 cargo test -p hone-arena --test rewards_page`"
    );
}

#[test]
fn every_key_says_what_it_means_and_every_entry_when_to_take_it() {
    for entry in COMPONENTS {
        assert!(!entry.about.is_empty() && !entry.advice.is_empty(), "{}", entry.name);
        for key in entry.options.keys.iter().copied().flatten() {
            assert!(!key.meaning.trim().is_empty(), "{}.{}", entry.name, key.name);
        }
    }
}
