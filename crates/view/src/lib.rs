//! A run for the eye: one path from a curve to the token that explains it.
//!
//! [`run::Run`] opens a run directory for looking at: offsets and columns, no trace before it is asked for, nothing that a cut
//! or newer record could break. [`text`] prints it in the terminal. It knows no engine and no recipe: only records.
//!
//! Model output is hostile input. Text reaches a terminal through [`text::clean`].

pub mod align;
pub mod number;
pub mod run;
pub mod text;
