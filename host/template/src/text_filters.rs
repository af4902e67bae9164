//! Filters of texts: case, white space, width.

use minijinja::value::{DynObject, Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::args::{bind, defined, fits, flag, int, invalid, items, length, printed, text};
use super::printf::{Arguments, format_percent};
use super::python::{is_space, repr, splitlines, to_str};

/// Wider texts are refused: they multiply.
const MAX_WIDTH: usize = 1 << 20;

/// Adds the filters to the environment.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("capitalize", |value: &Value| {
        printed(value).map(|text| capitalize(&text))
    });
    environment.add_filter("center", center);
    environment.add_filter("filesizeformat", filesizeformat);
    environment.add_filter("forceescape", |value: &Value| {
        printed(value).map(|text| Value::from_safe_string(super::filters::escaped(&text)))
    });
    environment.add_filter("format", format);
    environment.add_filter("indent", indent);
    environment.add_filter("lower", |value: &Value| {
        printed(value).map(|text| text.to_lowercase())
    });
    environment.add_filter("pprint", |value: &Value| {
        if value.is_undefined() {
            "Undefined".to_owned()
        } else {
            repr(&sorted(value))
        }
    });
    environment.add_filter("striptags", |value: &Value| {
        printed(value).map(|text| striptags(&text))
    });
    environment.add_filter("title", |value: &Value| {
        printed(value).map(|text| title(&text))
    });
    environment.add_filter("trim", trim);
    environment.add_filter("truncate", truncate);
    environment.add_filter("upper", |value: &Value| {
        printed(value).map(|text| text.to_uppercase())
    });
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("wordwrap", wordwrap);
}

/// A character at the beginning of a word, in title case.
pub(super) fn titled(char: char, out: &mut String) {
    match char {
        'Ǆ'..='ǆ' => out.push('ǅ'),
        'Ǉ'..='ǉ' => out.push('ǈ'),
        'Ǌ'..='ǌ' => out.push('ǋ'),
        'Ǳ'..='ǳ' => out.push('ǲ'),
        _ => {
            let mut upper = char.to_uppercase();
            out.extend(upper.next());
            // `ß` becomes `Ss`
            out.extend(upper.flat_map(char::to_lowercase));
        }
    }
}

/// `str.capitalize`
pub(super) fn capitalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    if let Some(first) = chars.next() {
        titled(first, &mut out);
        out.push_str(&chars.as_str().to_lowercase());
    }
    out
}

/// `title`: words begin after white space, `-` and opening brackets.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut starts = true;
    for char in text.chars() {
        if is_space(char) || matches!(char, '-' | '(' | '{' | '[' | '<') {
            out.push(char);
            starts = true;
        } else if starts {
            out.extend(char.to_uppercase());
            starts = false;
        } else {
            out.extend(char.to_lowercase());
        }
    }
    out
}

/// `center(width=80)`
fn center(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [width] = bind(["width"], &args, &kwargs)?;
    let width = length(width, 80)?;
    centered(&printed(value)?, width, ' ')
}

/// `str.center`
pub(super) fn centered(text: &str, width: usize, fill: char) -> Result<String, Error> {
    if width > MAX_WIDTH {
        return Err(invalid(format!(
            "a width of {width} is too much; the limit is {MAX_WIDTH}"
        )));
    }
    let total = width.saturating_sub(text.chars().count());
    // which side CPython gives the odd character depends on the parity of the width
    let left = total / 2 + (total & 1 & width);
    let pad = |count| std::iter::repeat_n(fill, count).collect::<String>();
    Ok(format!("{}{text}{}", pad(left), pad(total - left)))
}

/// `format(*args, **kwargs)`: `%` with these arguments.
fn format(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let names: Vec<(String, Value)> = kwargs
        .args()
        .map(|name| Ok((name.to_owned(), kwargs.get::<Value>(name)?)))
        .collect::<Result<_, Error>>()?;
    let arguments = match (names.is_empty(), args.is_empty()) {
        (true, _) => Arguments::Tuple(args.0),
        (false, true) => Arguments::One(Value::from_pairs(names)),
        (false, false) => {
            return Err(invalid(
                "`format` takes arguments by place or by name, not both",
            ));
        }
    };
    format_percent(&printed(value)?, &arguments)
}

/// `indent(width=4, first=false, blank=false)`
fn indent(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [width, first, blank] = bind(["width", "first", "blank"], &args, &kwargs)?;
    let prefix = match width {
        Some(width) if width.as_str().is_some() => text(Some(width), "")?,
        width => match length(width, 4)? {
            width if width <= MAX_WIDTH >> 8 => " ".repeat(width),
            width => return Err(invalid(format!("an indent of {width} is too much"))),
        },
    };
    let (first, blank) = (flag(first, false)?, flag(blank, false)?);
    let Some(source) = defined(value)?.as_str() else {
        return Err(invalid(format!(
            "`indent` takes a text, not a {}",
            value.kind()
        )));
    };
    // lines are joined by ` `, and the text after the last line end is a line too
    let source = format!("{source}\n");
    let lines = splitlines(&source, false);
    let most = source
        .len()
        .saturating_add(lines.len().saturating_mul(prefix.len()));
    fits(most)?;
    let mut out = String::with_capacity(most);
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let wanted = if index == 0 {
            first
        } else {
            blank || !line.is_empty()
        };
        if wanted {
            out.push_str(&prefix);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// `trim(chars=none)`
fn trim(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [chars] = bind(["chars"], &args, &kwargs)?;
    let source = printed(value)?;
    Ok(match chars.filter(|chars| !chars.is_none()) {
        Some(chars) => {
            let set = text(Some(chars), "")?;
            source.trim_matches(|char| set.contains(char)).to_owned()
        }
        None => source.trim_matches(is_space).to_owned(),
    })
}

/// `truncate(length=255, killwords=false, end='...', leeway=5)`
fn truncate(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let names = ["length", "killwords", "end", "leeway"];
    let [limit, kill_words, end, leeway] = bind(names, &args, &kwargs)?;
    let limit = length(limit, 255)?;
    let kill_words = flag(kill_words, false)?;
    let end = text(end, "...")?;
    let leeway = length(leeway.filter(|leeway| !leeway.is_none()), 5)?;
    let Some(room) = limit.checked_sub(end.chars().count()) else {
        return Err(invalid("`length` of `truncate` is shorter than `end`"));
    };
    let Some(count) = defined(value)?.len() else {
        return Err(invalid(format!("a {} has no length", value.kind())));
    };
    if count <= limit.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let Some(source) = value.as_str() else {
        return Err(invalid(format!(
            "`truncate` takes a text, not a {}",
            value.kind()
        )));
    };
    let mut kept: String = source.chars().take(room).collect();
    if !kill_words && let Some(space) = kept.rfind(' ') {
        kept.truncate(space);
    }
    Ok(Value::from(kept + &end))
}

/// Removes every part from `open` to `close`, also parts that arise by a removal, up to one without
/// an end.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        kept.push(char);
        rest = &rest[char.len_utf8()..];
        if !kept.ends_with(open) {
            continue;
        }
        // `open` and `close` may overlap: `<!-->` is complete
        let shared = (1..close.len()).rev().find(|shared| {
            open.ends_with(&close[..*shared]) && rest.starts_with(&close[*shared..])
        });
        let end = match shared {
            Some(shared) => Some(close.len() - shared),
            None => rest.find(close).map(|at| at + close.len()),
        };
        let Some(end) = end else {
            break;
        };
        kept.truncate(kept.len() - open.len());
        rest = &rest[end..];
    }
    kept + rest
}

/// `striptags`: without comments and tags, runs of white space as one blank, entities decoded.
fn striptags(source: &str) -> String {
    let plain = without(&without(source, "<!--", "-->"), "<", ">");
    let words: Vec<&str> = plain
        .split(is_space)
        .filter(|word| !word.is_empty())
        .collect();
    // only decodes the entities: there are no tags left
    minijinja_contrib::filters::striptags(words.join(" ").replace('<', "&lt;"))
}

const QUOTED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~');

const QUOTED_IN_PATH: &AsciiSet = &QUOTED.remove(b'/');

fn urlencode(value: &Value) -> Result<String, Error> {
    if value.as_str().is_some() || defined(value)?.try_iter().is_err() || value.is_none() {
        return Ok(utf8_percent_encode(&to_str(value), QUOTED_IN_PATH).to_string());
    }
    let pairs: Vec<(Value, Value)> = if value.kind() == ValueKind::Map {
        let pairs = value.as_object().and_then(DynObject::try_iter_pairs);
        pairs.into_iter().flatten().collect()
    } else {
        let pair = |item: &Value| {
            let halves = items(item)?;
            match halves.as_slice() {
                [key, value] => Ok((key.clone(), value.clone())),
                _ => Err(invalid("`urlencode` takes pairs")),
            }
        };
        items(value)?.iter().map(pair).collect::<Result<_, _>>()?
    };
    let parts: Vec<String> = pairs
        .iter()
        .map(|(key, value)| {
            // A `%` of the text itself becomes `%25`, so each `%20` is a blank.
            let quoted = |text: &str| {
                utf8_percent_encode(text, QUOTED)
                    .to_string()
                    .replace("%20", "+")
            };
            let part = |value: &Value| printed(value).map(|text| quoted(&text));
            Ok(format!("{}={}", part(key)?, part(value)?))
        })
        .collect::<Result<_, Error>>()?;
    Ok(parts.join("&"))
}

/// `filesizeformat(binary=false)`
fn filesizeformat(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [binary] = bind(["binary"], &args, &kwargs)?;
    let binary = flag(binary, false)?;
    let bytes: f64 = printed(value)?
        .trim()
        .parse()
        .map_err(|_| invalid("`filesizeformat` takes a number"))?;
    let (base, names) = if binary {
        (
            1024.0,
            ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"],
        )
    } else {
        (1000.0, ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"])
    };
    if bytes == 1.0 {
        return Ok("1 Byte".to_owned());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", bytes.trunc()));
    }
    let mut unit = base;
    for name in names {
        if bytes < unit * base || name.starts_with('Y') {
            return Ok(format!("{:.1} {name}", bytes / unit));
        }
        unit *= base;
    }
    Ok(String::new())
}

/// `wordwrap(width=79, break_long_words=true, wrapstring='\n', break_on_hyphens=true)`
fn wordwrap(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let names = [
        "width",
        "break_long_words",
        "wrapstring",
        "break_on_hyphens",
    ];
    let [width, long, joiner, hyphens] = bind(names, &args, &kwargs)?;
    let width = int(width, 79)?;
    let (long, hyphens) = (flag(long, true)?, flag(hyphens, true)?);
    let joiner = text(joiner.filter(|joiner| !joiner.is_none()), "\n")?;
    let Some(source) = defined(value)?.as_str() else {
        return Err(invalid(format!(
            "`wordwrap` takes a text, not a {}",
            value.kind()
        )));
    };
    let Some(width) = usize::try_from(width).ok().filter(|width| *width > 0) else {
        return Err(invalid("`width` of `wordwrap` must be at least 1"));
    };
    let lines: Vec<String> = splitlines(source, false)
        .into_iter()
        .map(|line| {
            let parts = super::wrap::wrap(line, width, long, hyphens)?;
            fits(parts.len().saturating_mul(joiner.len()))?;
            Ok(parts.join(&joiner))
        })
        .collect::<Result<_, Error>>()?;
    fits(lines.iter().map(|line| line.len() + joiner.len()).sum())?;
    Ok(lines.join(&joiner))
}

/// Maps sorted by key, as `pprint` prints them.
fn sorted(value: &Value) -> Value {
    match value.kind() {
        ValueKind::Map => {
            let pairs = value.as_object().and_then(DynObject::try_iter_pairs);
            let mut pairs: Vec<(Value, Value)> = pairs
                .into_iter()
                .flatten()
                .map(|(key, value)| (key, sorted(&value)))
                .collect();
            pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::from_pairs(pairs)
        }
        ValueKind::Seq if !value.is_tuple() => value
            .try_iter()
            .into_iter()
            .flatten()
            .map(|item| sorted(&item))
            .collect(),
        _ => value.clone(),
    }
}
