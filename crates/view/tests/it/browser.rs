//! In a real browser: click from a curve to a token, filter, search, compare, follow a run, open a file from disk.

use serde_json::json;

use crate::made::Made;
use crate::served::serve;
use crate::webdriver::Browser;

/// No model output was executed.
fn inert(browser: &Browser) {
    assert_eq!(browser.run("return window.pwned ?? null"), json!(null), "at {}", browser.run("return location.href"));
    assert_eq!(browser.run("return document.querySelectorAll('img, main script').length"), json!(0));
}

#[test]
#[ignore = "needs chromium and chromedriver: apt install chromium chromium-driver"]
fn from_a_curve_to_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let (_runtime, addr) = serve(directory.path(), None);
    let browser = Browser::start();
    browser.open(&format!("http://{addr}/"));
    browser.until("return document.querySelectorAll('svg.chart').length > 5");
    // Hovering shows the values; a click in the middle of six steps opens the third or the fourth.
    browser.pointer("figure:first-child svg.chart", (0, 0), None);
    browser.until("return !document.querySelector('#tip').hidden && document.querySelector('#tip').textContent.startsWith('step ')");
    browser.pointer("figure:first-child svg.chart", (0, 0), Some((0, 0)));
    browser.until("return /^\\/r\\/0\\/step-[34]$/.test(location.pathname) && document.readyState === 'complete'");
    assert!(browser.text("h1").starts_with("step "));
    browser.click("tr[data-item] td.task a");
    browser.until("return /\\/1$/.test(location.pathname) && document.querySelector('.beside') !== null");
    inert(&browser);
    assert_eq!(browser.run("return document.querySelectorAll('.beside thead th').length"), json!(4));
    browser.click(".beside thead th:nth-child(3) a");
    browser.until("return document.querySelector('.talk') !== null");
    assert!(browser.text(".talk").contains("<script>window.pwned=1</script>"), "what the model said is there to read");
    inert(&browser);
    browser.click("a[href*='view=tokens']");
    browser.until("return document.querySelectorAll('.tokens .t').length > 20");
    browser.click(".tokens .t.trained");
    browser.until("return document.querySelector('#tip').textContent.includes('its advantage reached the gradient')");
    inert(&browser);
    browser.click("a[href*='colour=entropy']");
    browser.until("return document.querySelectorAll('.tokens .t.q4').length > 0");
    browser.keys("u");
    browser.until("return document.querySelector('.beside') !== null");
}

#[test]
#[ignore = "needs chromium and chromedriver: apt install chromium chromium-driver"]
fn filters_search_zoom_and_keys() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let (_runtime, addr) = serve(directory.path(), None);
    let browser = Browser::start();
    browser.open(&format!("http://{addr}/"));
    browser.until("return document.querySelectorAll('svg.chart').length > 5");
    browser.pointer("figure:first-child svg.chart", (-80, 0), Some((60, 0)));
    browser.until("return location.search.includes('from=') && document.querySelector('#whole') !== null");
    browser.click("#whole");
    browser.until_at("/");
    browser.click("a[href*='smooth=0.9']");
    browser.until("return document.querySelector('.line .raw') !== null");
    browser.open(&format!("http://{addr}/r/0/step-2"));
    browser.until("return document.querySelectorAll('table.groups tbody tr').length === 4");
    browser.keys("/");
    browser.until("return document.activeElement?.id === 'q'");
    browser.keys("refund\u{e007}");
    browser.until("return location.search.includes('q=refund') && document.querySelector('main').textContent.includes('12 rollouts that match')");
    browser.open(&format!("http://{addr}/r/0/step-2?outcome=fault"));
    browser.until("return document.querySelector('main').textContent.includes('the shop is closed')");
    browser.open(&format!("http://{addr}/r/0/step-2"));
    browser.keys("jj");
    browser.until("return document.querySelectorAll('tr.here').length === 1 && document.querySelectorAll('[data-item]')[1].classList.contains('here')");
    browser.keys("\u{e007}");
    browser.until_at("/r/0/step-2/2");
}

#[test]
#[ignore = "needs chromium and chromedriver: apt install chromium chromium-driver"]
fn two_checkpoints_are_compared_task_by_task() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    Made::reports(directory.path());
    let (_runtime, addr) = serve(directory.path(), None);
    let browser = Browser::start();
    browser.open(&format!("http://{addr}/compare"));
    browser.until("return document.querySelector('main').textContent.includes('4 tasks are in both: 3 better in B')");
    browser.click("table a[href*='task=task-']");
    browser.until("return document.querySelectorAll('.beside thead th').length === 2");
    inert(&browser);
    for page in ["/r/0/eval", "/r/0/doctor", "/r/0/metrics", "/r/0/data", "/r/0/audit"] {
        browser.open(&format!("http://{addr}{page}"));
        browser.until("return document.querySelector('main h1') !== null");
        inert(&browser);
    }
    // A curve of the audit shows its axis, and does not link to a step.
    browser.pointer("figure:first-child svg.chart", (0, 0), Some((0, 0)));
    browser.until("return document.querySelector('#tip').textContent.startsWith('confidence in % ')");
    browser.until_at("/r/0/audit");
    browser.open(&format!("http://{addr}/r/0/data"));
    browser.click("tr[data-item] a");
    browser.until("return location.pathname === '/r/0/trace/4'");
}

#[test]
#[ignore = "needs chromium and chromedriver: apt install chromium chromium-driver"]
fn a_page_follows_a_run_that_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut made = Made::begin(directory.path());
    made.step(1);
    let (_runtime, addr) = serve(directory.path(), None);
    let browser = Browser::start();
    browser.open(&format!("http://{addr}/"));
    browser.until("return document.querySelectorAll('table.steps tbody tr').length === 1");
    made.step(2);
    browser.until("return document.querySelectorAll('table.steps tbody tr').length === 2");
    made.step(3);
    browser.until("return document.querySelectorAll('table.steps tbody tr').length === 3");
    assert_eq!(browser.text("#live"), "● live");
}

#[test]
#[ignore = "needs chromium and chromedriver: apt install chromium chromium-driver"]
fn the_report_opens_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(&directory.path().join("run"));
    let site = hone_view::site::Site::open(&[directory.path().join("run")]).unwrap();
    let file = directory.path().join("report.html");
    std::fs::write(&file, hone_view::export::report(site, 6).unwrap().as_str()).unwrap();
    let browser = Browser::start();
    browser.open(&format!("file://{}", file.display()));
    browser.until("return document.querySelectorAll('svg.chart').length > 5 && document.querySelectorAll('details.trace').length === 6");
    inert(&browser);
    browser.pointer("figure:first-child svg.chart", (0, 0), None);
    browser.until("return !document.querySelector('#tip').hidden");
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })");
    assert!(browser.text("main").contains("<script>window.pwned=1</script>"));
    inert(&browser);
    let style = browser.run("return getComputedStyle(document.querySelector('.t')).borderRadius");
    assert_eq!(style, json!("2px"), "its style is inside");
}
