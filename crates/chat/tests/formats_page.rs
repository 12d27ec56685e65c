//! docs/formats.md matches the catalogue.

#[test]
fn formats_page_is_up_to_date() {
    let page = hone_chat::parse::formats_page();
    hone_testdata::page_is("formats.md", &page, "cargo test -p hone-chat formats_page");
}
