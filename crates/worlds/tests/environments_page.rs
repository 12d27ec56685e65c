//! docs/environments-reference.md matches the entries.

use hone_testdata::page_is;
use hone_worlds::BUILTINS;
use hone_worlds::registry::page;

#[test]
fn environments_page_is_up_to_date() {
    let command = "cargo test -p hone-worlds --test environments_page";
    page_is("environments-reference.md", &page().unwrap(), command);
}

#[test]
fn every_key_says_what_it_means_and_every_entry_when_to_take_it() {
    for entry in BUILTINS {
        assert!(!entry.about.is_empty() && !entry.advice.is_empty(), "{}", entry.name);
        for key in entry.options.keys.iter().copied().flatten() {
            assert!(!key.meaning.trim().is_empty(), "{}.{}", entry.name, key.name);
        }
    }
}
