//! A component's imports and exports as WIT, and the tools with which it was made, according to its
//! file.
//!
//! The text comes from the engine's types of the component; names of types are found by comparing
//! them.

use std::fmt::Write as _;

use wasmtime::Engine;
use wasmtime::component::types::{self, ComponentItem, Type};

/// Prints the world of a component.
pub fn print(engine: &Engine, component: &types::Component) -> String {
    let mut out = String::from("world root {\n");
    let mut interfaces = String::new();
    // The interface that defines a type names it; exports refer to imported types.
    let mut named: Vec<(Type, String)> = Vec::new();
    let imports = component
        .imports(engine)
        .map(|(name, item)| ("import", name, item));
    let exports = component
        .exports(engine)
        .map(|(name, item)| ("export", name, item));
    for (direction, name, item) in imports.chain(exports) {
        match &item.ty {
            ComponentItem::ComponentInstance(instance) => {
                let _ = writeln!(out, "  {direction} {name};");
                // WASI's interfaces are left out, as they have their own documentation.
                if !name.starts_with("wasi:") {
                    interface(engine, name, instance, &mut named, &mut interfaces);
                }
            }
            ComponentItem::ComponentFunc(function) => {
                let _ = writeln!(
                    out,
                    "  {direction} {name}: {};",
                    signature(function, &named)
                );
            }
            _ => {
                let _ = writeln!(out, "  {direction} {name};");
            }
        }
    }
    out.push_str("}\n");
    out + &interfaces
}

fn interface(
    engine: &Engine,
    name: &str,
    instance: &types::ComponentInstance,
    named: &mut Vec<(Type, String)>,
    out: &mut String,
) {
    let _ = writeln!(out, "\ninterface {name} {{");
    for (name, item) in instance.exports(engine) {
        match &item.ty {
            ComponentItem::Type(ty) => {
                let known = named.iter().find(|(known, _)| known == ty);
                let is_plain = known.is_none()
                    && !matches!(
                        ty,
                        Type::Record(_) | Type::Variant(_) | Type::Enum(_) | Type::Flags(_)
                    );
                match known {
                    Some((_, known)) if known == name => {
                        let _ = writeln!(out, "  use {name};");
                    }
                    Some((_, known)) => {
                        let _ = writeln!(out, "  type {name} = {known};");
                    }
                    None => {
                        define(name, ty, named, out);
                        // Otherwise every `string` would be printed as `json`.
                        if !is_plain {
                            named.push((ty.clone(), name.to_owned()));
                        }
                    }
                }
            }
            ComponentItem::ComponentFunc(function) => {
                let _ = writeln!(out, "  {name}: {};", signature(function, named));
            }
            ComponentItem::Resource(_) => {
                let _ = writeln!(out, "  resource {name};");
            }
            _ => {}
        }
    }
    out.push_str("}\n");
}

fn define(name: &str, ty: &Type, named: &[(Type, String)], out: &mut String) {
    let (word, items): (&str, Vec<String>) = match ty {
        Type::Record(record) => (
            "record",
            record
                .fields()
                .map(|field| format!("{}: {}", field.name, show(&field.ty, named)))
                .collect(),
        ),
        Type::Variant(variant) => (
            "variant",
            variant
                .cases()
                .map(|case| match &case.ty {
                    Some(ty) => format!("{}({})", case.name, show(ty, named)),
                    None => case.name.to_owned(),
                })
                .collect(),
        ),
        Type::Enum(names) => ("enum", names.names().map(str::to_owned).collect()),
        Type::Flags(names) => ("flags", names.names().map(str::to_owned).collect()),
        other => {
            let _ = writeln!(out, "  type {name} = {};", show(other, named));
            return;
        }
    };
    let _ = writeln!(out, "  {word} {name} {{");
    for item in items {
        let _ = writeln!(out, "    {item},");
    }
    out.push_str("  }\n");
}

fn signature(function: &types::ComponentFunc, named: &[(Type, String)]) -> String {
    let params: Vec<String> = function
        .params()
        .map(|(name, ty)| format!("{name}: {}", show(&ty, named)))
        .collect();
    let results: Vec<String> = function.results().map(|ty| show(&ty, named)).collect();
    let params = params.join(", ");
    match results.first() {
        Some(result) => format!("func({params}) -> {result}"),
        None => format!("func({params})"),
    }
}

fn show(ty: &Type, named: &[(Type, String)]) -> String {
    if let Some((_, name)) = named.iter().find(|(known, _)| known == ty) {
        return name.clone();
    }
    let simple = match ty {
        Type::Bool => "bool",
        Type::S8 => "s8",
        Type::U8 => "u8",
        Type::S16 => "s16",
        Type::U16 => "u16",
        Type::S32 => "s32",
        Type::U32 => "u32",
        Type::S64 => "s64",
        Type::U64 => "u64",
        Type::Float32 => "f32",
        Type::Float64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::List(list) => return format!("list<{}>", show(&list.ty(), named)),
        Type::Option(option) => return format!("option<{}>", show(&option.ty(), named)),
        Type::Tuple(tuple) => {
            let types: Vec<String> = tuple.types().map(|ty| show(&ty, named)).collect();
            return format!("tuple<{}>", types.join(", "));
        }
        Type::Result(result) => {
            let side = |ty: Option<Type>| ty.map(|ty| show(&ty, named));
            return match (side(result.ok()), side(result.err())) {
                (Some(ok), Some(err)) => format!("result<{ok}, {err}>"),
                (None, Some(err)) => format!("result<_, {err}>"),
                (Some(ok), None) => format!("result<{ok}>"),
                (None, None) => "result".to_owned(),
            };
        }
        Type::Record(_) => "record",
        Type::Variant(_) => "variant",
        Type::Enum(_) => "enum",
        Type::Flags(_) => "flags",
        Type::Own(_) | Type::Borrow(_) => "resource",
        _ => "?",
    };
    simple.to_owned()
}

/// The tools with which a file was made: pairs of a field (`language`, `processed-by`, `sdk`) and a
/// tool with its version.
pub type Producers = Vec<(String, String)>;

/// Reads the `producers` sections of a component and of the modules in it.
pub fn producers(component: &[u8]) -> Producers {
    let mut found = Producers::new();
    let bytes = component.get(8..).unwrap_or_default();
    let mut names = Vec::new();
    module_names(bytes, &mut names);
    sections(bytes, &mut found, 0, &names);
    // A component with an interpreter does not name the author's language.
    let python = names.iter().find_map(|(_, name)| {
        let version = name.strip_prefix("libpython")?.strip_suffix(".so")?;
        Some(("language".to_owned(), format!("Python {version}")))
    });
    found.extend(python);
    found.sort();
    found.dedup();
    found
}

/// The names that a component gives to the modules in it, by index.
fn module_names(mut bytes: &[u8], names: &mut Vec<(usize, String)>) {
    while let Some((&id, rest)) = bytes.split_first() {
        let Some((section, after)) = sized(rest) else {
            return;
        };
        if id == 0
            && let Some((name, mut rest)) = sized(section)
            && name == b"component-name"
        {
            while let Some((&kind, body)) = rest.split_first() {
                let Some((body, after)) = sized(body) else {
                    return;
                };
                // Of the names of definitions, those of core modules.
                if kind == 1
                    && let Some(list) = body.strip_prefix(&[0x00, 0x11])
                {
                    let _ = name_map(list, names);
                }
                rest = after;
            }
        }
        bytes = after;
    }
}

fn name_map(bytes: &[u8], names: &mut Vec<(usize, String)>) -> Option<()> {
    let (count, mut rest) = number(bytes)?;
    for _ in 0..count.min(1000) {
        let (index, after) = number(rest)?;
        let (name, after) = sized(after)?;
        let name = mswea_text::harmless(&String::from_utf8_lossy(name));
        names.push((index, name));
        rest = after;
    }
    Some(())
}

/// Visits the sections of a component or a module. Sections that can't be read are left out, since
/// the result is only shown to people. So is the adapter for preview 1 of WASI, which is written in
/// Rust whatever the plugin's language is.
fn sections(mut bytes: &[u8], found: &mut Producers, depth: usize, names: &[(usize, String)]) {
    let mut modules = 0;
    while let Some((&id, rest)) = bytes.split_first() {
        let Some((section, after)) = sized(rest) else {
            return;
        };
        // Custom sections (0); in components also core modules (1) and components (4).
        match id {
            0 => {
                let named = sized(section).filter(|(name, _)| *name == b"producers");
                if let Some((_, fields)) = named {
                    let _ = fields_of(fields, found);
                }
            }
            1 | 4 if section.starts_with(b"\0asm") && depth < 8 => {
                let place = modules;
                modules += usize::from(id == 1);
                let is_tools = |(at, name): &(usize, String)| {
                    id == 1 && *at == place && name.starts_with("wit-component:")
                };
                if !names.iter().any(is_tools) {
                    let inside = section.get(8..).unwrap_or_default();
                    sections(inside, found, depth + 1, &[]);
                }
            }
            _ => {}
        }
        bytes = after;
    }
}

fn fields_of(bytes: &[u8], found: &mut Producers) -> Option<()> {
    let (fields, mut bytes) = number(bytes)?;
    for _ in 0..fields.min(16) {
        let (field, rest) = sized(bytes)?;
        let (values, mut rest) = number(rest)?;
        for _ in 0..values.min(64) {
            let (name, after) = sized(rest)?;
            let (version, after) = sized(after)?;
            let text = |bytes: &[u8]| mswea_text::harmless(&String::from_utf8_lossy(bytes));
            let tool = format!("{} {}", text(name), text(version));
            found.push((text(field), tool.trim_end().to_owned()));
            rest = after;
        }
        bytes = rest;
    }
    Some(())
}

/// A length and that many bytes; returns them and the rest.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = number(bytes)?;
    rest.split_at_checked(len)
}

/// An unsigned LEB128 number of 32 bits.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_the_authors_and_not_that_of_what_tools_put_in() {
        let made = |text: &str| producers(&wat::parse_str(text).unwrap());
        let language = |name: &str| ("language".to_owned(), name.to_owned());
        let adapter = r#"(core module $wit-component:adapter:wasi_snapshot_preview1
            (@producers (language "Rust" "")))"#;
        let python = made(&format!(
            "(component (core module $main) {adapter} (core module $libpython3.14.so))"
        ));
        assert_eq!(python, [language("Python 3.14")]);
        let c = r#"(core module $main (@producers (language "C11" "")))"#;
        assert_eq!(
            made(&format!("(component {c} {adapter})")),
            [language("C11")]
        );
        let rust = r#"(component (core module $main (@producers (language "Rust" "2024"))))"#;
        assert_eq!(made(rust), [language("Rust 2024")]);
        assert_eq!(made("(component)"), []);
    }
}
