//! docs/formats.md matches the catalogue.

use std::path::Path;

#[test]
fn formats_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let page = hone_chat::parse::formats_page();
    if std::env::var_os("HONE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/formats.md is out of date; run `HONE_BLESS=1 cargo test -p hone-chat formats_page`");
}
