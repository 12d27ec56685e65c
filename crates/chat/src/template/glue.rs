//! jinja2 compatibility: makes minijinja behave like jinja2 under `apply_chat_template`, by replacing filters, tests,
//! functions and methods that differ with ones that have Python's semantics.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::meter::{self, MAX_VALUES};
use super::methods;
use super::python::{self, JsonStyle};
use super::rewrite::{ITERABLE_FILTER, ONE};
use super::value::{DictView, WideFloat};

/// Raised by a template through `raise_exception`: its author's message, not a fault of the renderer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

pub(super) fn install(env: &mut Environment<'static>) {
    env.set_formatter(|out, _, value| {
        let text = python::to_str(value)?;
        meter::charge(text.len())?;
        out.write_str(&text).map_err(|_| Error::new(ErrorKind::WriteFailure, "cannot write the prompt"))
    });
    env.set_unknown_method_callback(methods::call);
    env.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        let message = python::to_str(message)?;
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    env.add_global(ONE, 1);
    // It prints every value, as often as it is reached; in Jinja it is only an extension.
    env.remove_global("debug");
    add_filters(env);
    add_bounds(env);
    add_tests(env);
}

/// Filters of the engine that may build more than they are given, bounded by the limits of a render.
fn add_bounds(env: &mut Environment<'static>) {
    use minijinja::filters;
    env.add_filter("list", |state: &State<'_, '_>, value: Value| {
        check_count(value.len().unwrap_or(0))?;
        filters::list(state, value)
    });
    env.add_filter("batch", |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
        check_count(count)?;
        filters::batch(state, value, count, fill)
    });
    env.add_filter("slice", |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
        check_count(count)?;
        filters::slice(state, value, count, fill)
    });
    env.add_filter("indent", indent);
    env.add_filter("sum", sum);
    env.add_filter("pprint", |value: &Value| python::to_str(value));
}

fn check_count(count: usize) -> Result<(), Error> {
    if count > MAX_VALUES { Err(meter::Excess::Values.into()) } else { Ok(()) }
}

fn add_filters(env: &mut Environment<'static>) {
    env.add_filter(ITERABLE_FILTER, iterable);
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: &Value| python::to_str(value));
    env.add_filter("trim", trim);
    env.add_filter("upper", |value: &Value| Ok::<_, Error>(python::to_str(value)?.to_uppercase()));
    env.add_filter("lower", |value: &Value| Ok::<_, Error>(python::to_str(value)?.to_lowercase()));
    env.add_filter("capitalize", |value: &Value| Ok::<_, Error>(methods::capitalize(&python::to_str(value)?)));
    env.add_filter("replace", replace);
    env.add_filter("format", format_printf);
    env.add_filter("join", join);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("items", items);
    env.add_filter("dictsort", dictsort);
    // No auto-escaping happens here, so marking a string as safe changes nothing.
    env.add_filter("safe", |value: &Value| python::to_str(value));
}

fn add_tests(env: &mut Environment<'static>) {
    // In Python None cannot be iterated, an undefined value can (it is empty).
    env.add_test("iterable", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable
        )
    });
    // In Jinja a sequence is anything with a length and an index: strings and dicts too, but not a dict's items.
    env.add_test("sequence", |value: &Value| match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map => true,
        ValueKind::Iterable => value.downcast_object_ref::<DictView>().is_none() && value.len().is_some(),
        _ => false,
    });
    // bool is an int in Python.
    env.add_test("number", |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || is_wide_float(value)
    });
    env.add_test("float", |value: &Value| {
        (value.kind() == ValueKind::Number && !value.is_integer()) || is_wide_float(value)
    });
    env.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain && !is_wide_float(value));
}

fn is_wide_float(value: &Value) -> bool {
    value.downcast_object_ref::<WideFloat>().is_some()
}

/// Binds positional and keyword arguments to parameter names, as a Python call does.
pub(super) fn bind<const N: usize>(args: &[Value], names: [&str; N]) -> Result<[Option<Value>; N], Error> {
    let (positional, keywords) = match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => (rest, Some(Kwargs::try_from(last.clone())?)),
        _ => (args, None),
    };
    if positional.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut bound = [const { None }; N];
    for (index, name) in names.into_iter().enumerate() {
        bound[index] = match (positional.get(index), &keywords) {
            (Some(value), _) => Some(value.clone()),
            (None, Some(keywords)) if keywords.has(name) => Some(keywords.get::<Value>(name)?),
            _ => None,
        };
    }
    if let Some(keywords) = keywords {
        keywords.assert_all_used()?;
    }
    Ok(bound)
}

/// Wraps the iterable of a `for`: where Python raises, minijinja would run the loop zero times.
fn iterable(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("cannot loop over a value of type {} (Python raises TypeError here too)", value.kind()),
        )),
        ValueKind::String => {
            check_count(value.len().unwrap_or(0))?;
            Ok(value.clone())
        }
        _ => Ok(value.clone()),
    }
}

/// Jinja's `indent`: every line but the first, and none that is blank, unless asked to.
fn indent(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [width, first, blank] = bind(&args.into_values(), ["width", "first", "blank"])?;
    let by = match &width {
        Some(width) if width.as_str().is_some() => width.as_str().unwrap_or_default().to_owned(),
        Some(width) => {
            let width = width.as_usize().ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "indent: no width"))?;
            meter::check_string(width)?;
            " ".repeat(width)
        }
        None => " ".repeat(4),
    };
    let truthy = |flag: Option<Value>| flag.is_some_and(|flag| flag.is_true());
    let (first, blank) = (truthy(first), truthy(blank));
    let text = python::to_str(value)?;
    let mut out = String::new();
    // A trailing newline adds a line.
    for (at, line) in methods::lines(&format!("{text}\n"), false).into_iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&by);
        }
        out.push_str(line);
        meter::check_string(out.len())?;
    }
    Ok(out)
}

/// Maximum number of lists joined by `sum`: each is added to a copy of those before it.
const MAX_SUMMED: usize = 10_000;

fn sum(state: &State<'_, '_>, value: Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [attribute, start] = bind(&args.into_values(), ["attribute", "start"])?;
    match &start {
        Some(start) if start.kind() == ValueKind::String => {
            return Err(Error::new(ErrorKind::InvalidOperation, "sum: strings are joined with join"));
        }
        Some(start) if !start.is_number() && value.len().is_none_or(|len| len > MAX_SUMMED) => {
            return Err(meter::Excess::Values.into());
        }
        _ => {}
    }
    let attribute = attribute.as_ref().and_then(Value::as_str);
    minijinja::filters::sum(state, value, attribute, start, Kwargs::from_iter::<[(&str, Value); 0]>([]))
}

fn tojson(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [ensure_ascii, indent, separators, sort_keys] =
        bind(&args.into_values(), ["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = indent.filter(|indent| !indent.is_none()).map(|indent| match indent.as_str() {
        Some(text) => text.chars().take(64).collect(),
        None => " ".repeat(indent.as_usize().unwrap_or(0).min(64)),
    });
    let separators = match separators.filter(|pair| !pair.is_none()) {
        Some(pair) => {
            Some((python::to_str(&pair.get_item_by_index(0)?)?, python::to_str(&pair.get_item_by_index(1)?)?))
        }
        None => None,
    };
    let truthy = |flag: Option<Value>| flag.is_some_and(|flag| flag.is_true());
    python::dumps(
        value,
        &JsonStyle { ensure_ascii: truthy(ensure_ascii), indent, separators, sort_keys: truthy(sort_keys) },
    )
}

fn trim(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [chars] = bind(&args.into_values(), ["chars"])?;
    let text = python::to_str(value)?;
    Ok(methods::strip(&text, chars.as_ref().and_then(Value::as_str), true, true).to_owned())
}

fn replace(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [old, new, count] = bind(&args.into_values(), ["old", "new", "count"])?;
    let required = |value: Option<Value>| value.ok_or_else(|| Error::from(ErrorKind::MissingArgument));
    let (old, new) = (python::to_str(&required(old)?)?, python::to_str(&required(new)?)?);
    let text = python::to_str(value)?;
    let count = count.and_then(|count| count.as_usize());
    let places = text.matches(old.as_str()).take(count.unwrap_or(usize::MAX)).count();
    meter::check_string(text.len().saturating_add(places.saturating_mul(new.len())))?;
    Ok(match count {
        Some(count) => text.replacen(&old, &new, count),
        None => text.replace(&old, &new),
    })
}

fn join(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [separator, attribute] = bind(&args.into_values(), ["d", "attribute"])?;
    let separator = separator.map(|separator| python::to_str(&separator)).transpose()?.unwrap_or_default();
    let mut out = String::new();
    for (index, item) in iterable(value)?.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        let item = match &attribute {
            Some(attribute) if !attribute.is_none() => item.get_item(attribute)?,
            _ => item,
        };
        out.push_str(&python::to_str(&item)?);
        meter::check_string(out.len())?;
    }
    Ok(out)
}

/// Maximum digits of a width in a format: a wider field is a page of spaces.
const WIDTH_DIGITS: usize = 4;

pub(super) fn check_widths(format: &str) -> Result<(), Error> {
    let mut runs = format.split(|ch: char| !ch.is_ascii_digit());
    if runs.any(|run| run.len() > WIDTH_DIGITS) {
        return Err(Error::new(ErrorKind::InvalidOperation, "a format asks for a field of 10000 characters or more"));
    }
    Ok(())
}

fn format_printf(state: &mut State<'_, '_>, format: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    check_widths(format.as_str().unwrap_or_default())?;
    minijinja::filters::format(state, format, args)
}

fn default(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [default, boolean] = bind(&args.into_values(), ["default_value", "boolean"])?;
    let replaces = value.is_undefined() || (boolean.is_some_and(|flag| flag.is_true()) && !value.is_true());
    Ok(if replaces { default.unwrap_or_else(|| Value::from("")) } else { value.clone() })
}

fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| {
        Error::new(ErrorKind::InvalidOperation, format!("a value of type {} has no length", value.kind()))
    })
}

fn items(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(Value::from(Vec::<Value>::new())),
        ValueKind::Map => Ok(Value::from(pairs(value)?)),
        kind => Err(Error::new(ErrorKind::InvalidOperation, format!("items: a value of type {kind} is not a mapping"))),
    }
}

fn pairs(value: &Value) -> Result<Vec<Value>, Error> {
    value.try_iter()?.map(|key| Ok(Value::from((key.clone(), value.get_item(&key)?)))).collect()
}

fn dictsort(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [case_sensitive, by, reverse] = bind(&args.into_values(), ["case_sensitive", "by", "reverse"])?;
    let truthy = |flag: &Option<Value>| flag.as_ref().is_some_and(Value::is_true);
    let index = usize::from(by.as_ref().and_then(Value::as_str) == Some("value"));
    let fold = !truthy(&case_sensitive);
    if value.kind() != ValueKind::Map {
        return Err(Error::new(ErrorKind::InvalidOperation, "dictsort: the value is not a mapping"));
    }
    let mut keyed = Vec::new();
    for pair in pairs(value)? {
        let key = pair.get_item_by_index(index)?;
        let key = match key.as_str() {
            Some(text) if fold => Value::from(text.to_lowercase()),
            _ => key,
        };
        keyed.push((key, pair));
    }
    keyed.sort_by(|a, b| if truthy(&reverse) { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) });
    Ok(keyed.into_iter().map(|(_, pair)| pair).collect())
}
