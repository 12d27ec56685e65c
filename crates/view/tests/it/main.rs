//! The viewer on recorded runs: complete, hostile, truncated and from newer versions; over HTTP, and in a real browser.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod browser;
mod exports;
mod logs;
mod made;
mod online;
mod opening;
mod pages;
mod served;
mod webdriver;
