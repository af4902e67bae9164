//! The macro that makes a component of a type.

/// Exports a type as a plugin of one kind or of several.
///
/// The kinds are `adapter`, `parser`, `formatter`, `processor`, `simple_processor` and `policy`;
/// each requires the trait of that name. For several kinds, write several entries with the same
/// type: `export!(parser: Mine, policy: Mine)`; they share one instance. `body_pieces` is no kind,
/// but an ability that an adapter may have: `export!(adapter: Mine, body_pieces: Mine)`.
///
/// In native builds it only checks the traits, so that the crate can be tested natively.
#[macro_export]
macro_rules! export {
    (simple_processor: $type:ty $(,)?) => {
        const _: () = $crate::__private::is_simple_processor::<$type>();
        $crate::export!(processor: $crate::processor::Diffing<$type>);
    };
    ($first:ident: $type:ty $(, $kind:ident: $other:ty)* $(,)?) => {
        const _: () = {
            $crate::__export_check!($first, $type);
            $(
                $crate::__export_check!($kind, $other);
                // Fails to compile if the entries have different types.
                const _: fn($other) -> $type = |same| same;
            )*

            #[cfg(target_family = "wasm")]
            const _: () = {
                struct Component;

                ::std::thread_local! {
                    static INSTANCE: ::std::cell::RefCell<::std::option::Option<$type>> =
                        const { ::std::cell::RefCell::new(::std::option::Option::None) };
                }

                impl $crate::__private::Holder for Component {
                    type Instance = $type;

                    fn cell() -> &'static ::std::thread::LocalKey<
                        ::std::cell::RefCell<::std::option::Option<$type>>,
                    > {
                        &INSTANCE
                    }
                }

                $crate::__private::common::__mswea_export_common!(
                    Component with_types_in $crate::__private::common
                );
                $crate::__export_kind!($first);
                $($crate::__export_kind!($kind);)*
            };
        };
    };
}

/// Checks that a type implements the trait of its kind.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_check {
    (adapter, $type:ty) => {
        const _: () = $crate::__private::is_adapter::<$type>();
    };
    (body_pieces, $type:ty) => {
        const _: () = $crate::__private::is_body_pieces::<$type>();
    };
    (parser, $type:ty) => {
        const _: () = $crate::__private::is_parser::<$type>();
    };
    (formatter, $type:ty) => {
        const _: () = $crate::__private::is_formatter::<$type>();
    };
    (processor, $type:ty) => {
        const _: () = $crate::__private::is_processor::<$type>();
    };
    (policy, $type:ty) => {
        const _: () = $crate::__private::is_policy::<$type>();
    };
    (simple_processor, $type:ty) => {
        ::std::compile_error!("a `simple_processor` has to be the only kind of its plugin");
    };
    ($kind:ident, $type:ty) => {
        ::std::compile_error!(::std::concat!(
            "`",
            ::std::stringify!($kind),
            "` is no kind of plugin; the kinds are `adapter` (with or without \
             `body_pieces`), `parser`, `formatter`, `processor`, `simple_processor` and `policy`"
        ));
    };
}

/// Emits the exports of one kind for `Component`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_kind {
    (adapter) => {
        $crate::__private::adapter::__mswea_export_adapter!(
            Component with_types_in $crate::__private::adapter
        );
    };
    (body_pieces) => {
        $crate::__private::body_pieces::__mswea_export_body_pieces!(
            Component with_types_in $crate::__private::body_pieces
        );
    };
    (parser) => {
        $crate::__private::parser::__mswea_export_parser!(
            Component with_types_in $crate::__private::parser
        );
    };
    (formatter) => {
        $crate::__private::formatter::__mswea_export_formatter!(
            Component with_types_in $crate::__private::formatter
        );
    };
    (processor) => {
        $crate::__private::processor::__mswea_export_processor!(
            Component with_types_in $crate::__private::processor
        );
    };
    (policy) => {
        $crate::__private::policy::__mswea_export_policy!(
            Component with_types_in $crate::__private::policy
        );
    };
    ($other:ident) => {};
}
