//! Rules: the range of a number, the keys of an inner table.

use std::fmt;

use super::{Documented, Key};

/// Constraint on a value beyond its type.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub shape: Shape,
    /// The key as users write it, where the field has another name.
    pub(super) name: Option<&'static str>,
    /// The reason for a bound that is not obvious, as in "since …".
    pub why: Option<&'static str>,
    /// True for a key whose table makes no sense without it, although serde has a default for it.
    pub required: bool,
    /// True if a resumed run may change the key.
    pub may_change: bool,
}

/// The forms of a rule.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Text, a truth value, a name: constrained by its type only.
    Open,
    /// A path, relative to the recipe.
    Path,
    /// Working directory of the program under this key of the same table, relative to the recipe; absent: the recipe's
    /// directory.
    Home(&'static str),
    /// A whole number, or a list of them.
    Whole { min: i64, max: i64 },
    /// A number, or a list of them. Never infinite or not a number.
    Real(Bounds),
    /// A table with these keys.
    Table(&'static [&'static [Key]]),
    /// Tables under names of the user's own.
    Named(&'static [&'static [Key]]),
    /// Table, or list of tables, whose keys depend on its contents.
    Chosen(Choose),
    /// Keys in the same table as the others; the field itself is no key.
    Flat(&'static [Key]),
    /// All other keys of the table, which are read elsewhere, and those of them that are known here; the field itself is no
    /// key.
    Others(&'static [Key]),
}

/// Bounds of a number; `over` and `under` leave the bound itself out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub min: f64,
    pub max: f64,
    pub over: bool,
    pub under: bool,
}

/// Keys of a table, given its strings by key. A value that is not a string reads as the empty one.
pub type Choose = for<'a> fn(&dyn Fn(&str) -> Option<&'a str>) -> Vec<&'static [Key]>;

impl Rule {
    pub const OPEN: Self = Self::of(Shape::Open);

    const fn of(shape: Shape) -> Self {
        Self { shape, name: None, why: None, required: false, may_change: false }
    }

    /// Marks a key that the table needs although serde has a default for it.
    #[must_use]
    pub const fn needed(self) -> Self {
        Self { required: true, ..self }
    }

    /// Marks a key that a resumed run may change.
    #[must_use]
    pub const fn may_change(self) -> Self {
        Self { may_change: true, ..self }
    }

    /// True for a path that is relative to the recipe.
    pub const fn is_path(&self) -> bool {
        matches!(self.shape, Shape::Path | Shape::Home(_))
    }

    /// Gives the reason for a bound: "since …".
    #[must_use]
    pub const fn because(self, why: &'static str) -> Self {
        Self { why: Some(why), ..self }
    }

    /// Gives the key as users write it.
    #[must_use]
    pub const fn key(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }

    /// True for the range of a number.
    pub const fn is_range(&self) -> bool {
        matches!(self.shape, Shape::Whole { .. } | Shape::Real(_))
    }

    /// The range as a requirement: "a whole number from 1 to 8".
    pub fn required(&self) -> String {
        let why = self.why.map(|why| format!(", since {why}")).unwrap_or_default();
        match self.shape {
            Shape::Whole { max: i64::MAX, min } => format!("a whole number of at least {min}{why}"),
            Shape::Whole { min, max } => format!("a whole number from {min} to {max}{why}"),
            Shape::Real(bounds) => format!("a number {}{why}", bounds.in_words(" and ")),
            _ => format!("any value{why}"),
        }
    }
}

/// The range as a column of a reference page; empty if there is none.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::Whole { max: i64::MAX, min } => write!(f, "at least {min}"),
            Shape::Whole { min, max } => write!(f, "from {min} to {max}"),
            Shape::Real(bounds) => f.write_str(bounds.in_words(", ").trim_start_matches("of ")),
            _ => Ok(()),
        }
    }
}

impl Bounds {
    pub fn contain(&self, value: f64) -> bool {
        let low = if self.over { value > self.min } else { value >= self.min };
        let high = if self.under { value < self.max } else { value <= self.max };
        // What is not a number satisfies neither.
        low && high
    }

    fn in_words(&self, and: &str) -> String {
        let Self { min, max, .. } = *self;
        match (self.over, self.under) {
            (false, false) => format!("from {min} to {max}"),
            (true, false) => format!("over {min}{and}at most {max}"),
            (false, true) => format!("of at least {min}{and}under {max}"),
            (true, true) => format!("over {min}{and}under {max}"),
        }
    }
}

/// Any value of the type; for further properties, as in `open().may_change()`.
pub const fn open() -> Rule {
    Rule::OPEN
}

/// A path, relative to the recipe.
pub const fn path() -> Rule {
    Rule::of(Shape::Path)
}

/// Working directory of the program that the key `program` names, by default the recipe's directory.
pub const fn home_of(program: &'static str) -> Rule {
    Rule::of(Shape::Home(program))
}

/// A whole number from `min` to `max`.
pub const fn whole(min: i64, max: i64) -> Rule {
    Rule::of(Shape::Whole { min, max })
}

/// A seed: any whole number that TOML can write and that is not negative.
pub const fn seed() -> Rule {
    whole(0, i64::MAX)
}

/// A finite number from `min` to `max`.
pub const fn real(min: f64, max: f64) -> Rule {
    Rule::of(Shape::Real(Bounds { min, max, over: false, under: false }))
}

/// A finite number over `min` and at most `max`.
pub const fn over(min: f64, max: f64) -> Rule {
    Rule::of(Shape::Real(Bounds { min, max, over: true, under: false }))
}

/// A finite number of at least `min` and under `max`.
pub const fn under(min: f64, max: f64) -> Rule {
    Rule::of(Shape::Real(Bounds { min, max, over: false, under: true }))
}

/// A table whose keys `T` documents.
pub const fn table<T: Documented>() -> Rule {
    Rule::of(Shape::Table(const { &[T::KEYS] }))
}

/// A table with all of these keys.
pub const fn table_of(keys: &'static [&'static [Key]]) -> Rule {
    Rule::of(Shape::Table(keys))
}

/// Tables under names of the user's own, each with the keys that `T` documents.
pub const fn tables_by_name<T: Documented>() -> Rule {
    Rule::of(Shape::Named(const { &[T::KEYS] }))
}

/// Table, or list of tables, whose keys depend on its contents.
pub const fn named(choose: Choose) -> Rule {
    Rule::of(Shape::Chosen(choose))
}

/// Keys in the same table as the struct's other fields.
pub const fn flat(keys: &'static [Key]) -> Rule {
    Rule::of(Shape::Flat(keys))
}

/// All other keys of the table: read elsewhere. `T` documents some of them.
pub const fn others<T: Documented>() -> Rule {
    Rule::of(Shape::Others(T::KEYS))
}
