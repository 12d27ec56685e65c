//! docs/algorithms.md is what the doc comments say.

#[test]
fn algorithms_page_is_up_to_date() {
    let page = hone_train::catalogue::markdown();
    hone_testdata::page_is("algorithms.md", &page, "cargo test -p hone-train algorithms_page");
}
