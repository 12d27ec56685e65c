//! docs/rewards.md matches the entries.

use hone_arena::rewards::COMPONENTS;
use hone_arena::rewards::catalogue::page;
use hone_testdata::page_is;

#[test]
fn rewards_page_is_up_to_date() {
    page_is("rewards.md", &page().unwrap(), "cargo test -p hone-arena --test rewards_page");
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
