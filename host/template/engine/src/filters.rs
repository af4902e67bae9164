//! Filters and tests of Jinja2 that minijinja lacks or implements differently. `random` and `lipsum` are
//! left out, because a replayed run must render the same text.

use minijinja::value::{DynObject, Kwargs, ObjectRepr, Rest, ValueKind};
use minijinja::{Environment, Error, State, Value};
use minijinja_contrib::{filters as contrib, globals};
use mswea_python::{is_space, splitlines};

use crate::args::{bind, defined, flag, given_text, int, invalid, items, length, printed, text};
use crate::python::{repr, to_str};
use crate::tojson::tojson;

/// Adds them to the environment.
pub(crate) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", tojson);
    environment.add_filter("int", to_int);
    environment.add_filter("float", to_float);
    environment.add_filter("replace", replace);
    environment.add_filter("string", |value: &Value| match defined(value)?.as_str() {
        Some(_) => Ok(value.clone()),
        None => Ok::<_, Error>(Value::from(to_str(value))),
    });
    environment.add_filter("join", join);
    environment.add_filter("items", pairs);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("batch", batch);
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
    environment.add_filter("lower", |value: &Value| {
        printed(value).map(|it| it.to_lowercase())
    });
    environment.add_filter("upper", |value: &Value| {
        printed(value).map(|it| it.to_uppercase())
    });
    environment.add_filter("title", |value: &Value| printed(value).map(|it| title(&it)));
    environment.add_filter("capitalize", |value: &Value| {
        printed(value).map(|it| capitalize(&it))
    });
    environment.add_filter("trim", trim);
    environment.add_filter(
        "center",
        |value: &Value, args: Rest<Value>, kwargs: Kwargs| {
            let [width] = bind(["width"], &args, &kwargs)?;
            Ok::<_, Error>(centered(&printed(value)?, length(width, 80)?, ' '))
        },
    );
    environment.add_filter("indent", indent);
    environment.add_filter("truncate", truncate);
    environment.add_filter("wordcount", |value: &Value| {
        let text = printed(value)?;
        let words = text.split(|char: char| !char.is_alphanumeric() && char != '_');
        Ok::<_, Error>(words.filter(|word| !word.is_empty()).count())
    });
    environment.add_filter("wordwrap", wordwrap);
    environment.add_filter("striptags", |value: &Value| {
        printed(value).map(contrib::striptags)
    });
    environment.add_filter(
        "filesizeformat",
        |bytes: f64, args: Rest<Value>, kwargs: Kwargs| {
            let [binary] = bind(["binary"], &args, &kwargs)?;
            Ok::<_, Error>(contrib::filesizeformat(bytes, Some(flag(binary))))
        },
    );
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("pprint", |value: &Value| repr(value));
    environment.add_filter(
        "sort",
        |state: &mut State, value: Value, args: Rest<Value>, kwargs: Kwargs| {
            let named = named(["reverse", "case_sensitive", "attribute"], &args, &kwargs)?;
            minijinja::filters::sort(state, value, named)
        },
    );
    environment.add_filter(
        "dictsort",
        |value: &Value, args: Rest<Value>, kwargs: Kwargs| {
            let named = named(["case_sensitive", "by", "reverse"], &args, &kwargs)?;
            minijinja::filters::dictsort(value, named)
        },
    );
    environment.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    environment.add_function("joiner", globals::joiner);
    environment.add_test("callable", |value: &Value| {
        let object = value.as_object();
        object.is_some_and(|object| object.repr() == ObjectRepr::Plain)
    });
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String
        )
    });
    environment.add_test("odd", |value: &Value| {
        Ok::<_, Error>(!divides(value, 2.0)? && number(value)?.fract() == 0.0)
    });
    environment.add_test("even", |value: &Value| divides(value, 2.0));
    environment.add_test("divisibleby", |value: &Value, by: &Value| {
        divides(value, number(by)?)
    });
}

/// A number; a boolean counts as one, as in Python.
fn number(value: &Value) -> Result<f64, Error> {
    match defined(value)?.kind() {
        ValueKind::Bool => Ok(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()),
        kind => Err(invalid(format!("a {kind} can't be divided"))),
    }
}

fn divides(value: &Value, by: f64) -> Result<bool, Error> {
    if let (Ok(value), true) = (
        i128::try_from(value.clone()),
        by != 0.0 && by.fract() == 0.0,
    ) {
        return Ok(value % by as i128 == 0);
    }
    let value = number(value)?;
    match by == 0.0 {
        true => Err(invalid("nothing is divisible by 0")),
        false => Ok(value % by == 0.0),
    }
}

/// The same arguments, all by name.
fn named<const N: usize>(
    names: [&'static str; N],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Kwargs, Error> {
    let bound = bind(names, args, kwargs)?;
    let given = names.into_iter().zip(bound);
    Ok(given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect())
}

/// `int(default=0, base=10)`: a text that is not a number gives the default.
fn to_int(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [default, base] = bind(["default", "base"], &args, &kwargs)?;
    let base = u32::try_from(int(base, 10)?).unwrap_or(1);
    let default = default.unwrap_or_else(|| Value::from(0));
    let float = match (defined(value)?.kind(), value.as_str()) {
        (_, Some(text)) => match parse_int(text, base) {
            Some(number) => return Ok(Value::from(number)),
            None => parse_float(text).filter(|number| number.is_finite()),
        },
        (ValueKind::Number, _) if value.is_integer() => return Ok(value.clone()),
        (ValueKind::Number | ValueKind::Bool, _) => {
            Some(number(value)?).filter(|number| !number.is_nan())
        }
        _ => None,
    };
    match float {
        // beyond 2^127 the cast would saturate to a wrong number without an error
        Some(number) if number.abs() >= 1.7e38 => Err(invalid("number is too large for `int`")),
        Some(number) => Ok(Value::from(number as i128)),
        None => Ok(default),
    }
}

/// `float(default=0.0)`
fn to_float(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [default] = bind(["default"], &args, &kwargs)?;
    let number = match (defined(value)?.kind(), value.as_str()) {
        (_, Some(text)) => parse_float(text),
        (ValueKind::Number | ValueKind::Bool, _) => Some(number(value)?),
        _ => None,
    };
    Ok(number.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from))
}

/// Python's `int(text, base)`.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    if base != 0 && !(2..=36).contains(&base) {
        return None;
    }
    let text = text.trim_matches(is_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefix = |wanted: u32, letters: [char; 2]| {
        let rest = digits.strip_prefix('0')?.strip_prefix(letters)?;
        (base == wanted || base == 0).then_some((wanted, rest.strip_prefix('_').unwrap_or(rest)))
    };
    let (base, digits) = prefix(16, ['x', 'X'])
        .or_else(|| prefix(8, ['o', 'O']))
        .or_else(|| prefix(2, ['b', 'B']))
        .unwrap_or((if base == 0 { 10 } else { base }, digits));
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i128::from_str_radix(&without_underscores(digits)?, base).ok()?;
    Some(if text.starts_with('-') {
        -number
    } else {
        number
    })
}

/// Python's `float(text)`.
fn parse_float(text: &str) -> Option<f64> {
    without_underscores(text.trim_matches(is_space))?
        .parse()
        .ok()
}

/// Python allows single underscores between digits.
fn without_underscores(text: &str) -> Option<String> {
    let between = |part: &str| {
        part.starts_with(char::is_alphanumeric) && part.ends_with(char::is_alphanumeric)
    };
    let allowed = !text.contains('_') || text.split('_').all(between);
    allowed.then(|| text.replace('_', ""))
}

/// `replace(old, new, count=none)`
fn replace(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [old, new, count] = bind(["old", "new", "count"], &args, &kwargs)?;
    let (Some(old), Some(new)) = (old, new) else {
        return Err(invalid("`replace` takes two texts"));
    };
    let most = usize::try_from(int(count, -1)?).unwrap_or(usize::MAX);
    Ok(printed(value)?.replacen(&to_str(&old), &to_str(&new), most))
}

/// `join(d='', attribute=none)`: items print as Python prints them.
fn join(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [joiner, path] = bind(["d", "attribute"], &args, &kwargs)?;
    let joiner = joiner.as_ref().map(to_str).unwrap_or_default();
    let parts = items(value)?.into_iter().map(|item| match &path {
        Some(path) => {
            let path = to_str(path);
            let found = path
                .split('.')
                .try_fold(item, |item, name| match name.parse::<usize>() {
                    Ok(index) => item.get_item(&Value::from(index)),
                    Err(_) => item.get_item(&Value::from(name)),
                });
            printed(&found?)
        }
        None => printed(&item),
    });
    Ok(parts.collect::<Result<Vec<_>, _>>()?.join(&joiner))
}

/// `items`; empty for an undefined value.
fn pairs(value: &Value) -> Result<Value, Error> {
    match value.is_undefined() {
        true => Ok(Value::from(Vec::<Value>::new())),
        false => minijinja::filters::items(value),
    }
}

/// `default(default_value='', boolean=false)`
fn default(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let boolean = match args.get(1) {
        Some(boolean) => Some(boolean.clone()),
        None => kwargs.get("boolean")?,
    };
    let other: Option<Value> = match args.first() {
        Some(other) => Some(other.clone()),
        None => kwargs.get("default_value")?,
    };
    kwargs.assert_all_used()?;
    match value.is_undefined() || (flag(boolean) && !value.is_true()) {
        true => Ok(other.unwrap_or_else(|| Value::from(""))),
        false => Ok(value.clone()),
    }
}

/// `batch(linecount, fill_with=none)`
fn batch(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [count, fill] = bind(["linecount", "fill_with"], &args, &kwargs)?;
    let count = length(count, 0)?;
    if count == 0 {
        return Err(invalid("`batch` needs a count of at least 1"));
    }
    let rows = items(value)?;
    let rows = rows.chunks(count).map(|row| {
        let mut row = row.to_vec();
        if let Some(fill) = &fill {
            row.resize(count, fill.clone());
        }
        Value::from(row)
    });
    Ok(rows.collect())
}

/// `escape`: the entities of MarkupSafe.
fn escape(value: &Value) -> Result<Value, Error> {
    if defined(value)?.is_safe() {
        return Ok(value.clone());
    }
    let mut out = String::new();
    for char in to_str(value).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(char),
        }
    }
    Ok(Value::from_safe_string(out))
}

/// `str.capitalize`
pub(crate) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.collect::<String>() + &chars.as_str().to_lowercase()
}

/// `title`: words begin after white space, `-` and opening brackets.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut starts = true;
    for char in text.chars() {
        match starts {
            true => out.extend(char.to_uppercase()),
            false => out.extend(char.to_lowercase()),
        }
        starts = is_space(char) || matches!(char, '-' | '(' | '{' | '[' | '<');
    }
    out
}

/// `trim(chars=none)`
fn trim(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [chars] = bind(["chars"], &args, &kwargs)?;
    let source = printed(value)?;
    let set = chars.map(|chars| text(Some(chars), "")).transpose()?;
    let trimmed = source.trim_matches(|char| match &set {
        Some(set) => set.contains(char),
        None => is_space(char),
    });
    Ok(trimmed.to_owned())
}

/// `str.center`
pub(crate) fn centered(text: &str, width: usize, fill: char) -> String {
    let total = width.saturating_sub(text.chars().count());
    // which side CPython gives the odd character depends on the parity of the width
    let left = total / 2 + (total & 1 & width);
    let pad = |count| std::iter::repeat_n(fill, count).collect::<String>();
    format!("{}{text}{}", pad(left), pad(total - left))
}

/// `indent(width=4, first=false, blank=false)`
fn indent(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [width, first, blank] = bind(["width", "first", "blank"], &args, &kwargs)?;
    let prefix = match width {
        Some(width) if width.as_str().is_some() => to_str(&width),
        width => " ".repeat(length(width, 4)?),
    };
    let (first, blank) = (flag(first), flag(blank));
    // the text after the last line end is a line, too
    let source = format!("{}\n", given_text(value)?);
    let mut out = String::with_capacity(source.len());
    for (index, line) in splitlines(&source, false).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if (index == 0 && first) || (index > 0 && (blank || !line.is_empty())) {
            out.push_str(&prefix);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// `truncate(length=255, killwords=false, end='...', leeway=5)`
fn truncate(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let names = ["length", "killwords", "end", "leeway"];
    let [limit, kill_words, end, leeway] = bind(names, &args, &kwargs)?;
    let (limit, end) = (length(limit, 255)?, text(end, "...")?);
    let Some(room) = limit.checked_sub(end.chars().count()) else {
        return Err(invalid("`length` of `truncate` is shorter than `end`"));
    };
    if defined(value)?.len().unwrap_or(usize::MAX) <= limit + length(leeway, 5)? {
        return Ok(value.clone());
    }
    let source = given_text(value)?;
    let mut kept: String = source.chars().take(room).collect();
    if !flag(kill_words)
        && let Some(space) = kept.rfind(' ')
    {
        kept.truncate(space);
    }
    Ok(Value::from(kept + &end))
}

/// `wordwrap(width=79, break_long_words=true, wrapstring='\n', break_on_hyphens=true)`; only blanks
/// separate words here.
fn wordwrap(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let names = [
        "width",
        "break_long_words",
        "wrapstring",
        "break_on_hyphens",
    ];
    let [width, long, joiner, _] = bind(names, &args, &kwargs)?;
    let (width, joiner) = (length(width, 79)?, text(joiner, "\n")?);
    let long = long.is_none_or(|long| long.is_true());
    if width == 0 {
        return Err(invalid("`width` of `wordwrap` must be at least 1"));
    }
    let mut lines: Vec<String> = Vec::new();
    for source in splitlines(given_text(value)?, false) {
        let first = lines.len();
        // blanks, then the word after them
        let mut rest = source;
        lines.push(String::new());
        while !rest.is_empty() {
            let word = rest.find(|char| !is_space(char)).unwrap_or(rest.len());
            let end = word + rest[word..].find(is_space).unwrap_or(rest.len() - word);
            let (blanks, next) = (&rest[..word], &rest[word..end]);
            rest = &rest[end..];
            let line = lines.len() - 1;
            let used = lines[line].chars().count();
            if used + blanks.chars().count() + next.chars().count() <= width {
                lines[line].push_str(blanks);
                lines[line].push_str(next);
                continue;
            }
            let mut next: Vec<char> = next.chars().collect();
            if used > 0 {
                lines.push(String::new());
            } else if line == first {
                lines[line].push_str(blanks);
            }
            while long && next.len() > width {
                let tail = next.split_off(width);
                lines
                    .last_mut()
                    .into_iter()
                    .for_each(|line| line.extend(&next));
                lines.push(String::new());
                next = tail;
            }
            lines
                .last_mut()
                .into_iter()
                .for_each(|line| line.extend(&next));
        }
        let line = lines.len() - 1;
        let end = lines[line].trim_end_matches(is_space).len();
        lines[line].truncate(end);
    }
    Ok(lines.join(&joiner))
}

fn urlencode(value: &Value) -> Result<String, Error> {
    if value.as_str().is_some() || value.is_none() || defined(value)?.try_iter().is_err() {
        return Ok(quoted(&to_str(value), "/", "%20"));
    }
    let pairs: Vec<Vec<Value>> = match value.as_object().and_then(DynObject::try_iter_pairs) {
        Some(pairs) if value.kind() == ValueKind::Map => {
            pairs.map(|(key, it)| vec![key, it]).collect()
        }
        _ => items(value)?.iter().map(items).collect::<Result<_, _>>()?,
    };
    let parts = pairs.iter().map(|pair| match &**pair {
        [key, value] => Ok(format!(
            "{}={}",
            quoted(&printed(key)?, "", "+"),
            quoted(&printed(value)?, "", "+")
        )),
        _ => Err(invalid("`urlencode` takes pairs")),
    });
    Ok(parts.collect::<Result<Vec<_>, _>>()?.join("&"))
}

fn quoted(text: &str, kept: &str, blank: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let char = char::from(byte);
        match char {
            ' ' => out.push_str(blank),
            _ if char.is_ascii_alphanumeric() || "_.-~".contains(char) || kept.contains(char) => {
                out.push(char);
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
