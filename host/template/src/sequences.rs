//! Filters of lists and maps: sorting, splitting and selecting.

use std::cmp::Ordering;

use minijinja::value::{DynObject, Kwargs, Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, State, Value};

use super::args::{
    attribute, bind, compare, defined, fits, flag, fold_case, invalid, items, length, sort_by_key,
};
use super::meter::{self, SLOT};
use super::weight::same;

/// Adds the filters to the environment.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("groupby", groupby);
    environment.add_filter("items", pairs);
    environment.add_filter("last", last);
    environment.add_filter("list", list);
    environment.add_filter("max", max);
    environment.add_filter("min", min);
    environment.add_filter("reverse", reverse);
    environment.add_filter("sort", sort);
    environment.add_filter("sum", sum);
    environment.add_filter("unique", unique);
    environment.add_filter("selectattr", selectattr);
    environment.add_filter("rejectattr", rejectattr);
    environment.add_filter("length", count);
    environment.add_filter("count", count);
    environment.add_filter("attr", attr);
    environment.add_filter("chain", chain);
    environment.add_filter("zip", zip);
}

/// `length`
fn count(value: &Value) -> Result<usize, Error> {
    meter::spend(value.as_str().map_or(0, str::len) / 8)?;
    minijinja::filters::length(value)
}

/// `attr(name)`
fn attr(value: &Value, name: &Value) -> Result<Value, Error> {
    meter::spend(value.as_str().map_or(0, str::len))?;
    minijinja::filters::attr(value, name)
}

/// `chain(*others)`. It builds the whole list: the engine's own is lazy, and is consumed inside
/// other operations.
fn chain(state: &State, value: Value, others: Rest<Value>) -> Result<Value, Error> {
    let chained = minijinja::filters::chain(state, value, others)?;
    match chained.kind() {
        ValueKind::Map => Ok(Value::from_pairs(pairs_of(&chained)?)),
        _ => list(&chained),
    }
}

/// `zip(*others)`. It builds the whole list, as `chain` does.
fn zip(state: &State, value: Value, others: Rest<Value>) -> Result<Value, Error> {
    list(&minijinja::filters::zip(state, value, others)?)
}

/// More parts than this are refused.
const MAX_PARTS: usize = 100_000;

fn parts(value: Option<Value>, name: &str) -> Result<usize, Error> {
    match length(value, 0)? {
        0 => Err(invalid(format!("`{name}` needs a count of at least 1"))),
        count if count > MAX_PARTS => Err(invalid(format!("`{name}` makes too many parts"))),
        count => Ok(count),
    }
}

/// `batch(linecount, fill_with=none)`
fn batch(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [count, fill] = bind(["linecount", "fill_with"], &args, &kwargs)?;
    let count = parts(count, "batch")?;
    let rows = items(value)?;
    meter::build(rows.len().next_multiple_of(count).saturating_mul(SLOT))?;
    let rows = rows.chunks(count).map(|row| {
        let mut row = row.to_vec();
        if let Some(fill) = fill.as_ref().filter(|fill| !fill.is_none()) {
            row.resize(count, fill.clone());
        }
        Value::from(row)
    });
    Ok(rows.collect())
}

/// `slice(slices, fill_with=none)`
fn slice(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [count, fill] = bind(["slices", "fill_with"], &args, &kwargs)?;
    let count = parts(count, "slice")?;
    let items = items(value)?;
    let (each, more) = (items.len() / count, items.len() % count);
    let mut rest = items.as_slice();
    let mut columns = Vec::with_capacity(count);
    for index in 0..count {
        let (column, after) = rest.split_at(each + usize::from(index < more));
        rest = after;
        let mut column = column.to_vec();
        if let Some(fill) = fill
            .as_ref()
            .filter(|fill| !fill.is_none() && index >= more)
        {
            column.push(fill.clone());
        }
        columns.push(Value::from(column));
    }
    Ok(Value::from(columns))
}

/// `default(default_value='', boolean=false)`
fn default(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [other, boolean] = bind(["default_value", "boolean"], &args, &kwargs)?;
    if value.is_undefined() || (flag(boolean, false)? && !value.is_true()) {
        return Ok(other.unwrap_or_else(|| Value::from("")));
    }
    Ok(value.clone())
}

fn pairs_of(value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    meter::build(value.len().unwrap_or(0).saturating_mul(2 * SLOT))?;
    let pairs = value.as_object().and_then(DynObject::try_iter_pairs);
    Ok(pairs.into_iter().flatten().collect())
}

fn pair(key: Value, value: Value) -> Value {
    Value::from(Tuple::from([key, value]))
}

/// `dictsort(case_sensitive=false, by='key', reverse=false)`
fn dictsort(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [case, by, reverse] = bind(["case_sensitive", "by", "reverse"], &args, &kwargs)?;
    let (case, reverse) = (flag(case, false)?, flag(reverse, false)?);
    if defined(value)?.kind() != ValueKind::Map {
        return Err(invalid("`dictsort` takes a map"));
    }
    let place = match by.as_ref().map(|by| by.as_str()) {
        None | Some(Some("key")) => 0,
        Some(Some("value")) => 1,
        Some(_) => return Err(invalid("`by` of `dictsort` is 'key' or 'value'")),
    };
    let rows = pairs_of(value)?
        .into_iter()
        .map(|(key, value)| pair(key, value));
    let sorted = sort_by_key(rows.collect(), reverse, |row| {
        fold_case(row.get_item_by_index(place)?, case)
    })?;
    Ok(Value::from(sorted))
}

/// `items`; empty for an undefined value.
fn pairs(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if value.kind() != ValueKind::Map {
        return Err(invalid("`items` takes a map"));
    }
    let rows = pairs_of(value)?.into_iter();
    Ok(rows.map(|(key, value)| pair(key, value)).collect())
}

fn last(value: &Value) -> Result<Value, Error> {
    if let Some(text) = defined(value)?.as_str() {
        return Ok(text
            .chars()
            .next_back()
            .map_or(Value::UNDEFINED, Value::from));
    }
    Ok(items(value)?.pop().unwrap_or(Value::UNDEFINED))
}

fn list(value: &Value) -> Result<Value, Error> {
    items(value).map(Value::from)
}

/// `reverse`; the result for a text is a text.
fn reverse(value: &Value) -> Result<Value, Error> {
    if let Some(text) = defined(value)?.as_str() {
        fits(text.len())?;
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = items(value)?;
    items.reverse();
    Ok(Value::from(items))
}

fn min(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    extreme(value, &args, &kwargs, Ordering::Less)
}

fn max(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    extreme(value, &args, &kwargs, Ordering::Greater)
}

/// `min` and `max(case_sensitive=false, attribute=none)`: the first of equal ones.
fn extreme(
    value: &Value,
    args: &[Value],
    kwargs: &Kwargs,
    wanted: Ordering,
) -> Result<Value, Error> {
    let [case, path] = bind(["case_sensitive", "attribute"], args, kwargs)?;
    let case = flag(case, false)?;
    let mut best: Option<(Value, Value)> = None;
    for item in items(value)? {
        let key = match &path {
            Some(path) if !path.is_none() => attribute(&item, path)?,
            _ => item.clone(),
        };
        let key = fold_case(key, case)?;
        let better = match &best {
            Some((known, _)) => compare(&key, known)? == wanted,
            None => true,
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

/// `sort(reverse=false, case_sensitive=false, attribute=none)`; several attributes with `,`.
fn sort(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let names = ["reverse", "case_sensitive", "attribute"];
    let [reverse, case, path] = bind(names, &args, &kwargs)?;
    let (reverse, case) = (flag(reverse, false)?, flag(case, false)?);
    let paths: Vec<Value> = match &path {
        Some(path) if path.is_none() => Vec::new(),
        Some(path) => match path.as_str() {
            Some(text) => text.split(',').map(Value::from).collect(),
            None => vec![path.clone()],
        },
        None => Vec::new(),
    };
    let sorted = sort_by_key(items(value)?, reverse, |item| {
        if paths.is_empty() {
            return fold_case(item.clone(), case);
        }
        let keys = paths
            .iter()
            .map(|path| fold_case(attribute(item, path)?, case));
        Ok(Value::from(keys.collect::<Result<Vec<_>, Error>>()?))
    })?;
    Ok(Value::from(sorted))
}

/// `sum(attribute=none, start=0)`
fn sum(
    state: &mut State,
    value: &Value,
    args: Rest<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let [path, start] = bind(["attribute", "start"], &args, &kwargs)?;
    let mut numbers = items(value)?;
    if let Some(path) = path.filter(|path| !path.is_none()) {
        numbers = numbers
            .iter()
            .map(|item| attribute(item, &path))
            .collect::<Result<_, _>>()?;
    }
    numbers.insert(0, start.unwrap_or_else(|| Value::from(0)));
    if numbers[0].kind() == ValueKind::Seq {
        let mut all = Vec::new();
        for part in &numbers {
            all.extend(items(part)?);
        }
        return Ok(Value::from(all));
    }
    for number in &numbers {
        defined(number)?;
    }
    let whole = numbers.into_iter().map(|number| match number.kind() {
        ValueKind::Bool => Value::from(i64::from(number.is_true())),
        _ => number,
    });
    let none = Kwargs::from_iter([] as [(&str, Value); 0]);
    minijinja::filters::sum(state, whole.collect(), None, None, none)
}

/// `unique(case_sensitive=false, attribute=none)`
fn unique(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [case, path] = bind(["case_sensitive", "attribute"], &args, &kwargs)?;
    let case = flag(case, false)?;
    let mut seen = std::collections::HashSet::new();
    let mut kept = Vec::new();
    for item in items(value)? {
        let key = match &path {
            Some(path) if !path.is_none() => attribute(&item, path)?,
            _ => item.clone(),
        };
        defined(&key)?;
        let unhashable = match key.kind() {
            ValueKind::Map => true,
            ValueKind::Seq => !key.is_tuple(),
            _ => false,
        };
        if unhashable {
            return Err(invalid("lists and maps can't be compared for `unique`"));
        }
        let key = match key.kind() {
            // as in Python, where `True` equals `1`
            ValueKind::Bool => Value::from(i64::from(key.is_true())),
            _ => fold_case(key, case)?,
        };
        if seen.insert(key) {
            kept.push(item);
        }
    }
    Ok(Value::from(kept))
}

/// `groupby(attribute, default=none, case_sensitive=false)`
fn groupby(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let names = ["attribute", "default", "case_sensitive"];
    let [path, default, case] = bind(names, &args, &kwargs)?;
    let case = flag(case, false)?;
    let Some(path) = path else {
        return Err(invalid("`groupby` needs an attribute"));
    };
    let key = |item: &Value| {
        let key = attribute(item, &path)?;
        Ok::<_, Error>(match &default {
            Some(default) if key.is_undefined() => default.clone(),
            _ => key,
        })
    };
    let sorted = sort_by_key(items(value)?, false, |item| fold_case(key(item)?, case))?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for item in sorted {
        let name = fold_case(key(&item)?, case)?;
        match groups.last_mut() {
            Some((known, group)) if same(known, &name)? => group.push(item),
            _ => groups.push((name, vec![item])),
        }
    }
    let groups = groups.into_iter().map(|(name, group)| {
        // the key of the first item in its own case, as in Jinja2
        let name = group.first().map_or(Ok(name), key)?;
        Ok(Value::from_object(super::group::Group {
            name,
            items: Value::from(group),
        }))
    });
    groups.collect::<Result<Vec<_>, Error>>().map(Value::from)
}

fn selectattr(state: &mut State, value: &Value, args: Rest<Value>) -> Result<Value, Error> {
    by_attribute(state, value, &args, true)
}

fn rejectattr(state: &mut State, value: &Value, args: Rest<Value>) -> Result<Value, Error> {
    by_attribute(state, value, &args, false)
}

/// `selectattr(attribute, test=none, *args)`
fn by_attribute(
    state: &mut State,
    value: &Value,
    args: &[Value],
    wanted: bool,
) -> Result<Value, Error> {
    let Some((path, test)) = args.split_first() else {
        return Err(invalid("the name of an attribute is missing"));
    };
    let mut kept = Vec::new();
    for item in items(value)? {
        let found = attribute(&item, path)?;
        let passes = match test.split_first() {
            None => defined(&found)?.is_true(),
            Some((name, args)) => {
                let name = name
                    .as_str()
                    .ok_or_else(|| invalid("a test is named by a text"))?;
                let mut all = vec![found];
                all.extend_from_slice(args);
                state.perform_test(name, &all)?
            }
        };
        if passes == wanted {
            kept.push(item);
        }
    }
    Ok(Value::from(kept))
}
