//! docs/algorithms.md is what the doc comments say.

use std::path::Path;

#[test]
fn algorithms_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/algorithms.md");
    let page = hone_train::catalogue::markdown();
    if std::env::var_os("HONE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/algorithms.md is out of date; run `HONE_BLESS=1 cargo test -p hone-train algorithms_page`"
    );
}
