//! JSON as values of the component model, and back. Lenient, for input that is typed by hand:
//! missing fields are empty, names may be written with `_`, and a list of parts may be one text.

use serde_json::{Map, Value};
use wasmtime::component::Val;
use wasmtime::component::types::Type;

/// The position of an error in the JSON, and the error.
type JsonProblem = (String, String);

/// The arguments of a call.
pub fn arguments(params: &[(String, Type)], given: &Value) -> Result<Vec<Val>, JsonProblem> {
    match (params, given) {
        ([], Value::Null) => Ok(Vec::new()),
        ([], _) => Err(problem(
            "the arguments",
            "this function has no parameters: leave the JSON out",
        )),
        (params, Value::Null) => {
            let names: Vec<String> = params.iter().map(|(name, _)| format!("`{name}`")).collect();
            let text = format!(
                "the arguments are missing: give {} as JSON, or `-` to read them from stdin",
                names.join(" and ")
            );
            Err(problem("the arguments", &text))
        }
        ([(name, ty)], given) => {
            // Either the parameter's value itself, or an object with the parameter's name.
            let named = match given {
                Value::Object(object) if object.len() == 1 => {
                    find(object, name).filter(|_| !has_field(ty, name))
                }
                _ => None,
            };
            Ok(vec![to_val(ty, named.unwrap_or(given), name)?])
        }
        (params, Value::Object(object)) => {
            known_only(
                object,
                params.iter().map(|(name, _)| name.as_str()),
                "the arguments",
            )?;
            params
                .iter()
                .map(|(name, ty)| match find(object, name) {
                    Some(value) => to_val(ty, value, name),
                    None => empty(ty, name),
                })
                .collect()
        }
        (params, _) => {
            let names: Vec<String> = params.iter().map(|(name, _)| format!("`{name}`")).collect();
            Err(problem(
                "the arguments",
                &format!("an object is needed, with {}", names.join(", ")),
            ))
        }
    }
}

fn problem(at: &str, text: &str) -> JsonProblem {
    (at.to_owned(), text.to_owned())
}

fn find<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object
        .get(name)
        .or_else(|| object.get(&name.replace('-', "_")))
}

fn has_field(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Record(record) => record.fields().any(|field| field.name == name),
        Type::Variant(variant) => variant.cases().any(|case| case.name == name),
        _ => false,
    }
}

fn known_only<'a>(
    object: &Map<String, Value>,
    known: impl Iterator<Item = &'a str> + Clone,
    at: &str,
) -> Result<(), JsonProblem> {
    for key in object.keys() {
        let kebab = key.replace('_', "-");
        if known.clone().any(|name| name == kebab) {
            continue;
        }
        let near = mswea_text::nearest(&kebab, known.clone());
        let names: Vec<String> = known.map(|name| format!("`{name}`")).collect();
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", names.join(", ")),
        };
        return Err(problem(at, &format!("unknown key `{key}`: {hint}")));
    }
    Ok(())
}

/// Makes a value of this type from JSON.
#[allow(clippy::too_many_lines)] // one arm a type
pub fn to_val(ty: &Type, value: &Value, at: &str) -> Result<Val, JsonProblem> {
    let wrong = |wanted: &str| {
        let shown: String = value.to_string().chars().take(40).collect();
        problem(at, &format!("{wanted} is needed, not `{shown}`"))
    };
    macro_rules! integer {
        ($variant:ident, $type:ty) => {
            value
                .as_i64()
                .map(i128::from)
                .or_else(|| value.as_u64().map(i128::from))
                .and_then(|number| <$type>::try_from(number).ok())
                .map(Val::$variant)
                .ok_or_else(|| {
                    wrong(&format!(
                        "an integer of {} to {}",
                        <$type>::MIN,
                        <$type>::MAX
                    ))
                })
        };
    }
    match ty {
        Type::Bool => value
            .as_bool()
            .map(Val::Bool)
            .ok_or_else(|| wrong("true or false")),
        Type::S8 => integer!(S8, i8),
        Type::U8 => integer!(U8, u8),
        Type::S16 => integer!(S16, i16),
        Type::U16 => integer!(U16, u16),
        Type::S32 => integer!(S32, i32),
        Type::U32 => integer!(U32, u32),
        Type::S64 => integer!(S64, i64),
        Type::U64 => integer!(U64, u64),
        #[allow(clippy::cast_possible_truncation)] // the value is meant for 32 bits
        Type::Float32 => value
            .as_f64()
            .map(|number| Val::Float32(number as f32))
            .ok_or_else(|| wrong("a number")),
        Type::Float64 => value
            .as_f64()
            .map(Val::Float64)
            .ok_or_else(|| wrong("a number")),
        Type::Char => value
            .as_str()
            .and_then(|text| text.parse().ok())
            .map(Val::Char)
            .ok_or_else(|| wrong("one character")),
        Type::String => match value {
            Value::String(text) => Ok(Val::String(text.clone())),
            // Many texts of the contract are JSON.
            Value::Object(_) | Value::Array(_) => Ok(Val::String(value.to_string())),
            _ => Err(wrong("a text (or, where it holds JSON, an object)")),
        },
        Type::List(list) => {
            let item = list.ty();
            match (value, &item) {
                (Value::String(text), Type::U8) => {
                    Ok(Val::List(text.bytes().map(Val::U8).collect()))
                }
                (Value::String(_), Type::Variant(variant))
                    if variant.cases().any(|case| case.name == "text") =>
                {
                    let part = serde_json::json!({ "text": value });
                    Ok(Val::List(vec![to_val(&item, &part, at)?]))
                }
                (Value::Array(items), _) => items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| to_val(&item, value, &format!("{at}[{index}]")))
                    .collect::<Result<_, _>>()
                    .map(Val::List),
                (Value::Object(map), Type::Tuple(_)) => map
                    .iter()
                    .map(|(key, value)| {
                        let pair = serde_json::json!([key, value]);
                        to_val(&item, &pair, &format!("{at}.{key}"))
                    })
                    .collect::<Result<_, _>>()
                    .map(Val::List),
                _ => Err(wrong("a list")),
            }
        }
        Type::Record(record) => {
            let Value::Object(object) = value else {
                return Err(wrong("an object"));
            };
            let names: Vec<&str> = record.fields().map(|field| field.name).collect();
            known_only(object, names.iter().copied(), at)?;
            record
                .fields()
                .map(|field| {
                    let at = format!("{at}.{}", field.name);
                    let value = match find(object, field.name) {
                        Some(value) => to_val(&field.ty, value, &at)?,
                        None => empty(&field.ty, &at)?,
                    };
                    Ok((field.name.to_owned(), value))
                })
                .collect::<Result<_, _>>()
                .map(Val::Record)
        }
        Type::Tuple(tuple) => match value {
            Value::Array(items) if items.len() == tuple.types().len() => tuple
                .types()
                .zip(items)
                .enumerate()
                .map(|(index, (ty, value))| to_val(&ty, value, &format!("{at}[{index}]")))
                .collect::<Result<_, _>>()
                .map(Val::Tuple),
            _ => Err(wrong(&format!("a list of {}", tuple.types().len()))),
        },
        Type::Variant(variant) => {
            let names: Vec<String> = variant
                .cases()
                .map(|case| format!("`{}`", case.name))
                .collect();
            let wanted = format!("an object with one of {}", names.join(", "));
            let (name, payload) = match value {
                Value::String(name) => (name.replace('_', "-"), None),
                Value::Object(object) if object.len() == 1 => {
                    let (name, payload) = object.iter().next().ok_or_else(|| wrong(&wanted))?;
                    (name.replace('_', "-"), Some(payload))
                }
                _ => return Err(wrong(&wanted)),
            };
            let case = variant.cases().find(|case| case.name == name);
            let case = case.ok_or_else(|| wrong(&wanted))?;
            let payload = match (case.ty, payload) {
                (None, _) => None,
                (Some(ty), Some(payload)) => {
                    Some(Box::new(to_val(&ty, payload, &format!("{at}.{name}"))?))
                }
                (Some(_), None) => return Err(wrong(&wanted)),
            };
            Ok(Val::Variant(name, payload))
        }
        Type::Enum(names) => match value {
            Value::String(name) if names.names().any(|known| known == name) => {
                Ok(Val::Enum(name.clone()))
            }
            _ => {
                let known: Vec<String> = names.names().map(|name| format!("`{name}`")).collect();
                Err(wrong(&format!("one of {}", known.join(", "))))
            }
        },
        Type::Option(option) => match value {
            Value::Null => Ok(Val::Option(None)),
            value => Ok(Val::Option(Some(Box::new(to_val(
                &option.ty(),
                value,
                at,
            )?)))),
        },
        _ => Err(problem(at, "values of this type can't be given by hand")),
    }
}

/// The value of a field that is left out.
fn empty(ty: &Type, at: &str) -> Result<Val, JsonProblem> {
    let json = match ty {
        Type::Bool => Value::Bool(false),
        Type::String => Value::String(String::new()),
        Type::List(_) => Value::Array(Vec::new()),
        Type::Option(_) => Value::Null,
        Type::Record(_) => Value::Object(Map::new()),
        Type::Variant(_) | Type::Enum(_) | Type::Char | Type::Tuple(_) => {
            return Err(problem(at, "it is missing"));
        }
        _ => Value::from(0),
    };
    to_val(ty, &json, at)
}

/// A value as JSON: records become objects with the contract's names, written with `_`, without
/// options that are none; cases become an object with one key, or their name.
pub fn from_val(value: &Val) -> Value {
    match value {
        Val::Bool(value) => (*value).into(),
        Val::S8(value) => (*value).into(),
        Val::U8(value) => (*value).into(),
        Val::S16(value) => (*value).into(),
        Val::U16(value) => (*value).into(),
        Val::S32(value) => (*value).into(),
        Val::U32(value) => (*value).into(),
        Val::S64(value) => (*value).into(),
        Val::U64(value) => (*value).into(),
        Val::Float32(value) => (*value).into(),
        Val::Float64(value) => (*value).into(),
        Val::Char(value) => value.to_string().into(),
        Val::String(value) => value.as_str().into(),
        Val::List(values) | Val::Tuple(values) | Val::FixedLengthList(values) => {
            // Bytes that are valid UTF-8 are shown as text.
            let bytes: Option<Vec<u8>> = values
                .iter()
                .map(|value| match value {
                    Val::U8(byte) => Some(*byte),
                    _ => None,
                })
                .collect();
            match bytes
                .filter(|bytes| !bytes.is_empty())
                .map(String::from_utf8)
            {
                Some(Ok(text)) => text.into(),
                _ => values.iter().map(from_val).collect(),
            }
        }
        Val::Record(fields) => fields
            .iter()
            .filter(|(_, value)| !matches!(value, Val::Option(None)))
            .map(|(name, value)| {
                let shown = match is_json(name) {
                    true => parsed(from_val(value)),
                    false => from_val(value),
                };
                (name.replace('-', "_"), shown)
            })
            .collect::<Map<_, _>>()
            .into(),
        Val::Variant(name, None) | Val::Enum(name) => name.as_str().into(),
        Val::Variant(name, Some(value)) => {
            Map::from_iter([(name.replace('-', "_"), from_val(value))]).into()
        }
        Val::Option(value) => value.as_deref().map_or(Value::Null, from_val),
        Val::Result(Ok(value)) => one("ok", value.as_deref()),
        Val::Result(Err(value)) => one("err", value.as_deref()),
        Val::Flags(names) => names.iter().map(String::as_str).collect(),
        Val::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| Value::Array(vec![from_val(key), from_val(value)]))
            .collect(),
        other => format!("{other:?}").into(),
    }
}

/// Whether a field holds JSON according to the contract; its type is a text.
fn is_json(field: &str) -> bool {
    matches!(
        field,
        "extra" | "details" | "parameters" | "config-schema" | "data" | "response"
    )
}

/// The value of a text that is JSON; any other value unchanged.
fn parsed(value: Value) -> Value {
    match &value {
        Value::String(text) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    }
}

fn one(name: &str, value: Option<&Val>) -> Value {
    let value = value.map_or(Value::Null, from_val);
    Map::from_iter([(name.to_owned(), value)]).into()
}
