//! The contract as Rust types, generated from `wit/`: one module per interface that a plugin may
//! export, so that each kind of a component can be checked on its own.
#![allow(missing_docs)] // the docs are in `wit/`

/// The exports of every plugin, and the shared types.
pub mod base {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "
            package mswea:kinds;
            world base {
                import mswea:plugin/host@0.1.0;
                export mswea:plugin/plugin@0.1.0;
            }
        ",
        imports: { "mswea:plugin/host@0.1.0.render": async },
        exports: { default: async },
        anyhow: true,
    });
}

/// The contract's shared records.
pub use base::mswea::plugin::types;

macro_rules! kind {
    ($module:ident, $doc:literal, $inline:literal) => {
        #[doc = $doc]
        pub mod $module {
            wasmtime::component::bindgen!({
                path: "../../wit",
                inline: $inline,
                exports: { default: async },
                with: { "mswea:plugin/types@0.1.0": crate::bindings::types },
                anyhow: true,
            });
        }
    };
}

kind!(
    adapter,
    "`model-adapter`.",
    "package mswea:kinds; world adapter-kind { export mswea:plugin/model-adapter@0.1.0; }"
);
kind!(
    parser,
    "`action-parser`.",
    "package mswea:kinds; world parser-kind { export mswea:plugin/action-parser@0.1.0; }"
);
kind!(
    formatter,
    "`observation-formatter`.",
    "package mswea:kinds; world formatter-kind { export mswea:plugin/observation-formatter@0.1.0; }"
);
kind!(
    processor,
    "`history-processor`.",
    "package mswea:kinds; world processor-kind { export mswea:plugin/history-processor@0.1.0; }"
);
kind!(
    policy,
    "`action-policy`.",
    "package mswea:kinds; world policy-kind { export mswea:plugin/action-policy@0.1.0; }"
);

/// `body-pieces`, an optional interface of adapters.
pub mod body_pieces {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package mswea:kinds; world body-pieces-ability { export mswea:plugin/body-pieces@0.1.0; }",
        exports: { default: async },
        anyhow: true,
    });
}
