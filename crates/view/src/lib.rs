//! Viewer: a path from a curve to the token that explains it.
//!
//! [`run::Run`] opens a run directory for viewing: offsets and columns, traces on demand, tolerant of truncated and
//! newer records. [`text`] prints it in the terminal; [`pages`] renders it as HTML and SVG, which [`server`] serves
//! and [`export`] puts into one file; [`exports`] writes it for other tools. It knows no engine and no recipe: only
//! records.
//!
//! Model output is hostile input. Text reaches a terminal through [`text::clean`], and a page through [`html::Html`], where
//! only literals of this program can be markup.

mod align;
mod beside;
pub mod export;
pub mod exports;
mod fates;
pub mod html;
mod judged;
mod number;
pub mod pages;
mod prometheus;
pub mod run;
pub mod server;
pub mod site;
mod svg;
pub mod text;
