//! Catalogues of modules: a new entry is one file and one line.

/// Declares the modules of a catalogue and lists their exports. A line is `mod NAME: ITEM;`, with several items after
/// the colon if one file has several entries; the order of the lines is the order of the catalogue.
///
/// `[T]` lists constants by value, `[&T]` lists references, to trait objects as well:
///
/// ```text
/// entries! {
///     /// All checks, causes before consequences.
///     pub static CHECKS: [Check];
///     mod records: CHECK;
///     mod truncated: CHECK;
/// }
/// ```
///
/// rustfmt does not follow modules that a macro declares; it is given the files by name (CONTRIBUTING.md, Style).
#[macro_export]
macro_rules! entries {
    (
        $(#[$meta:meta])* $vis:vis static $list:ident: [& $type:ty];
        $($shown:vis mod $module:ident: $($item:ident),+;)+
    ) => {
        $($shown mod $module;)+

        $(#[$meta])*
        $vis static $list: &[& $type] = &[$($(&$module::$item),+),+];
    };
    (
        $(#[$meta:meta])* $vis:vis static $list:ident: [$type:ty];
        $($shown:vis mod $module:ident: $($item:ident),+;)+
    ) => {
        $($shown mod $module;)+

        $(#[$meta])*
        $vis static $list: &[$type] = &[$($($module::$item),+),+];
    };
}
