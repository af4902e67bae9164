//! The generated bindings, one module per kind, all sharing the types of `common`.
//!
//! The worlds here are parts of those in `wit/worlds.wit`: `common` holds what every plugin has
//! (the types, the host's functions, `describe` and `configure`), and each kind adds only its own
//! export. Otherwise a plugin of two kinds would export `plugin` twice. The linker joins the parts,
//! and the resulting component fits the published worlds.
#![allow(missing_docs)]

/// The parts that every plugin has.
pub mod common {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: r"
            package mswea:sdk-common;
            world common {
                import mswea:plugin/types@0.1.0;
                import mswea:plugin/host@0.1.0;
                export mswea:plugin/plugin@0.1.0;
            }
        ",
        world: "mswea:sdk-common/common",
        additional_derives: [PartialEq],
        generate_all,
        pub_export_macro: true,
        export_macro_name: "__mswea_export_common",
        default_bindings_module: "mswea_sdk::__private::common",
        type_section_suffix: "common",
    });
}

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $inline:literal, $world:literal, $export:literal, $module:literal) => {
        $(#[$doc])*
        pub mod $name {
            wit_bindgen::generate!({
                path: "../../wit",
                inline: $inline,
                world: $world,
                additional_derives: [PartialEq],
                with: {
                    "mswea:plugin/types@0.1.0": crate::bindings::common::mswea::plugin::types,
                },
                generate_all,
                pub_export_macro: true,
                export_macro_name: $export,
                default_bindings_module: $module,
                type_section_suffix: $world,
            });
        }
    };
}

kind!(
    /// Parsers.
    parser,
    "package mswea:sdk-parser; world parser-kind { export mswea:plugin/action-parser@0.1.0; }",
    "mswea:sdk-parser/parser-kind",
    "__mswea_export_parser",
    "mswea_sdk::__private::parser"
);

kind!(
    /// Formatters.
    formatter,
    "package mswea:sdk-formatter; world formatter-kind { export mswea:plugin/observation-formatter@0.1.0; }",
    "mswea:sdk-formatter/formatter-kind",
    "__mswea_export_formatter",
    "mswea_sdk::__private::formatter"
);

kind!(
    /// Processors.
    processor,
    "package mswea:sdk-processor; world processor-kind { export mswea:plugin/history-processor@0.1.0; }",
    "mswea:sdk-processor/processor-kind",
    "__mswea_export_processor",
    "mswea_sdk::__private::processor"
);

kind!(
    /// Policies.
    policy,
    "package mswea:sdk-policy; world policy-kind { export mswea:plugin/action-policy@0.1.0; }",
    "mswea:sdk-policy/policy-kind",
    "__mswea_export_policy",
    "mswea_sdk::__private::policy"
);

kind!(
    /// Adapters.
    adapter,
    "package mswea:sdk-adapter; world adapter-kind { export mswea:plugin/model-adapter@0.1.0; }",
    "mswea:sdk-adapter/adapter-kind",
    "__mswea_export_adapter",
    "mswea_sdk::__private::adapter"
);

/// The optional interfaces of adapters.
pub mod body_pieces {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: r"
            package mswea:sdk-body-pieces;
            world body-pieces-ability { export mswea:plugin/body-pieces@0.1.0; }
        ",
        world: "mswea:sdk-body-pieces/body-pieces-ability",
        additional_derives: [PartialEq],
        generate_all,
        pub_export_macro: true,
        export_macro_name: "__mswea_export_body_pieces",
        default_bindings_module: "mswea_sdk::__private::body_pieces",
        type_section_suffix: "mswea:sdk-body-pieces/body-pieces-ability",
    });
}
