//! Puts bounds into a template. The engine offers no hook between its steps, so the template's
//! syntax tree is rebuilt: filters replace the operators that build texts and lists, and filters
//! that check the meter follow everything else that may take long.
//!
//! The work of every kind of node is bounded in one of these ways: it takes no time; or a filter
//! that reports to the meter does it; or a filter after it reports the result. Comparisons with
//! constants need no check.

mod statements;

use std::cell::Cell;

use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    BinOp, BinOpKind, Call, CallArg, Compare, CompareOp, CompareOpKind, Const, EmitRaw, Expr,
    Filter, GetAttr, GetItem, IfExpr, List, Map, Spanned, Stmt, Test, Tuple, UnaryOp, UnaryOpKind,
    Var,
};

use super::operators::{ADD, BUILT, CONCAT, CONTAINS, MULTIPLY, PERCENT, SLICE, SMALL, TICK};

/// Filters whose result contains values that their input does not.
const BUILDERS: &[&str] = &[
    "batch", "groupby", "map", "reject", "select", "slice", "sum", "zip", "chain",
];

/// Functions of the engine whose result is no larger than their input.
const PLAIN_CALLS: &[&str] = &["super", "loop", "range", "caller"];

/// Methods with a small result.
const PLAIN_METHODS: &[&str] = &[
    "get",
    "startswith",
    "endswith",
    "find",
    "rfind",
    "index",
    "rindex",
    "count",
    "strip",
    "lstrip",
    "rstrip",
    "lower",
    "upper",
];

/// At every operator the engine tests again whether everything below is constant. After this many
/// in a row, a filter that is not constant is put in to end the test.
const MAX_FOLDED: usize = 32;

/// Templates nested more deeply are refused, because rebuilding them recurses.
const MAX_NESTED: usize = 10_000;

fn spanned<T>(node: T, span: Span) -> Spanned<T> {
    Spanned::new(node, span)
}

fn filter<'s>(name: &'static str, expr: Expr<'s>, arg: Option<Expr<'s>>, span: Span) -> Expr<'s> {
    Expr::Filter(spanned(
        Filter {
            name,
            expr: Some(expr),
            args: arg.into_iter().map(CallArg::Pos).collect(),
        },
        span,
    ))
}

fn constant<'s>(value: impl Into<Value>, span: Span) -> Expr<'s> {
    let value = value.into();
    Expr::Const(spanned(Const { value }, span))
}

fn is_constant(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Const(_))
}

fn built(constant: bool, made: Expr<'_>, span: Span) -> Expr<'_> {
    match constant {
        true => made,
        false => filter(BUILT, made, None, span),
    }
}

/// The template with bounds; none if it is nested too deeply.
pub(super) fn guarded<'s>(template: &Stmt<'s>) -> Option<Stmt<'s>> {
    let guard = Guard::default();
    let made = guard.guarded(template);
    (!guard.too_deep.get()).then_some(made)
}

#[derive(Default)]
struct Guard {
    depth: Cell<usize>,
    too_deep: Cell<bool>,
}

impl Guard {
    /// Whether another level of nesting is allowed; [`Guard::leave`] ends it.
    fn enter(&self) -> bool {
        let depth = self.depth.get();
        if depth == MAX_NESTED {
            self.too_deep.set(true);
            return false;
        }
        self.depth.set(depth + 1);
        true
    }

    fn leave(&self) {
        self.depth.set(self.depth.get() - 1);
    }

    /// The statement with bounds.
    fn guarded<'s>(&self, stmt: &Stmt<'s>) -> Stmt<'s> {
        if !self.enter() {
            let raw = spanned(EmitRaw { raw: "" }, Span::default());
            return Stmt::EmitRaw(raw);
        }
        let made = self.statement(stmt);
        self.leave();
        made
    }

    /// The target of an assignment.
    fn target<'s>(&self, node: &Expr<'s>) -> Expr<'s> {
        match node {
            Expr::List(node) => Expr::List(spanned(
                List {
                    items: node.items.iter().map(|node| self.target(node)).collect(),
                },
                node.span(),
            )),
            Expr::Tuple(node) => Expr::Tuple(spanned(
                Tuple {
                    items: node.items.iter().map(|node| self.target(node)).collect(),
                },
                node.span(),
            )),
            Expr::GetAttr(node) => Expr::GetAttr(spanned(
                GetAttr {
                    expr: self.target(&node.expr),
                    name: node.name,
                },
                node.span(),
            )),
            other => self.expr(other),
        }
    }

    fn expr<'s>(&self, node: &Expr<'s>) -> Expr<'s> {
        self.folded(node).0
    }

    fn optional<'s>(&self, node: Option<&Expr<'s>>) -> Option<Expr<'s>> {
        node.map(|node| self.expr(node))
    }

    /// The expression with bounds, and how many operators the engine visits to test whether it is
    /// constant.
    fn folded<'s>(&self, node: &Expr<'s>) -> (Expr<'s>, usize) {
        let span = node.span();
        if !self.enter() {
            return (constant("", span), 0);
        }
        let (made, depth) = match node {
            Expr::Var(var) => (Expr::Var(spanned(Var { id: var.id }, span)), 0),
            Expr::Const(constant) => (
                Expr::Const(spanned(
                    Const {
                        value: constant.value.clone(),
                    },
                    span,
                )),
                0,
            ),
            Expr::UnaryOp(op) => {
                let (operand, depth) = self.folded(&op.expr);
                #[expect(clippy::needless_match, reason = "the kind can't be copied")]
                let kind = match op.op {
                    UnaryOpKind::Not => UnaryOpKind::Not,
                    UnaryOpKind::Neg => UnaryOpKind::Neg,
                };
                let op = UnaryOp {
                    op: kind,
                    expr: operand,
                };
                (Expr::UnaryOp(spanned(op, span)), depth + 1)
            }
            Expr::BinOp(op) => self.binary(op, span),
            Expr::Compare(chain) => (self.compared(chain, span), 0),
            other => (self.plain(other, span), 0),
        };
        self.leave();
        if depth > MAX_FOLDED {
            return (filter(TICK, made, None, span), 0);
        }
        (made, depth)
    }

    fn binary<'s>(&self, op: &BinOp<'s>, span: Span) -> (Expr<'s>, usize) {
        let ((left, left_depth), (right, right_depth)) =
            (self.folded(&op.left), self.folded(&op.right));
        let with_constant = is_constant(&left) || is_constant(&right);
        let name = match op.op {
            BinOpKind::Add => ADD,
            BinOpKind::Mul => MULTIPLY,
            BinOpKind::Concat => CONCAT,
            BinOpKind::In => CONTAINS,
            BinOpKind::Rem => PERCENT,
            _ => {
                let made = Expr::BinOp(spanned(
                    BinOp {
                        op: op.op,
                        left,
                        right,
                    },
                    span,
                ));
                let depth = left_depth.max(right_depth) + 1;
                return match op.op {
                    BinOpKind::Eq
                    | BinOpKind::Ne
                    | BinOpKind::Lt
                    | BinOpKind::Lte
                    | BinOpKind::Gt
                    | BinOpKind::Gte
                        if !with_constant =>
                    {
                        (filter(TICK, made, None, span), 0)
                    }
                    _ => (made, depth),
                };
            }
        };
        (filter(name, left, Some(right), span), 0)
    }

    /// `a < b < c`
    fn compared<'s>(&self, chain: &Compare<'s>, span: Span) -> Expr<'s> {
        let looks = chain
            .ops
            .iter()
            .any(|op| matches!(op.op, CompareOpKind::In | CompareOpKind::NotIn));
        let operand = |node: &Expr<'s>| {
            let made = self.expr(node);
            match looks && !is_constant(&made) {
                true => filter(SMALL, made, None, node.span()),
                false => made,
            }
        };
        let ops = chain.ops.iter().map(|op| CompareOp {
            op: op.op,
            expr: operand(&op.expr),
        });
        let made = Compare {
            expr: operand(&chain.expr),
            ops: ops.collect(),
        };
        filter(TICK, Expr::Compare(spanned(made, span)), None, span)
    }

    fn plain<'s>(&self, node: &Expr<'s>, span: Span) -> Expr<'s> {
        match node {
            Expr::Slice(slice) => {
                let bound = |bound: &Option<Expr<'s>>| {
                    CallArg::Pos(match bound {
                        Some(bound) => self.expr(bound),
                        None => constant((), span),
                    })
                };
                Expr::Filter(spanned(
                    Filter {
                        name: SLICE,
                        expr: Some(self.expr(&slice.expr)),
                        args: [&slice.start, &slice.stop, &slice.step].map(bound).into(),
                    },
                    span,
                ))
            }
            Expr::IfExpr(choice) => Expr::IfExpr(spanned(
                IfExpr {
                    test_expr: self.expr(&choice.test_expr),
                    true_expr: self.expr(&choice.true_expr),
                    false_expr: self.optional(choice.false_expr.as_ref()),
                },
                span,
            )),
            Expr::Filter(used) => {
                let made = Expr::Filter(spanned(
                    Filter {
                        name: used.name,
                        expr: self.optional(used.expr.as_ref()),
                        args: self.arguments(&used.args),
                    },
                    span,
                ));
                match BUILDERS.contains(&used.name) {
                    true => filter(BUILT, made, None, span),
                    false => made,
                }
            }
            Expr::Test(test) => Expr::Test(spanned(
                Test {
                    name: test.name,
                    expr: self.expr(&test.expr),
                    args: self.arguments(&test.args),
                },
                span,
            )),
            Expr::GetAttr(of) => Expr::GetAttr(spanned(
                GetAttr {
                    expr: self.expr(&of.expr),
                    name: of.name,
                },
                span,
            )),
            Expr::GetItem(of) => {
                // The engine counts from the beginning of a text.
                let near = match &of.subscript_expr {
                    Expr::Const(constant) => {
                        constant.value.as_str().is_some()
                            || constant.value.as_usize().is_some_and(|index| index < 4096)
                    }
                    _ => false,
                };
                let made = Expr::GetItem(spanned(
                    GetItem {
                        expr: self.expr(&of.expr),
                        subscript_expr: self.expr(&of.subscript_expr),
                    },
                    span,
                ));
                match near {
                    true => made,
                    false => filter(TICK, made, None, span),
                }
            }
            Expr::Call(call) => {
                let small = match &call.expr {
                    Expr::Var(function) => PLAIN_CALLS.contains(&function.id),
                    Expr::GetAttr(method) => {
                        let is_block = matches!(&method.expr, Expr::Var(var) if var.id == "self");
                        is_block || PLAIN_METHODS.contains(&method.name)
                    }
                    _ => false,
                };
                let made = Expr::Call(spanned(self.called(call), span));
                match small {
                    true => made,
                    false => filter(BUILT, made, None, span),
                }
            }
            Expr::List(list) => {
                let constant = list.items.iter().all(is_constant);
                let items = list.items.iter().map(|node| self.expr(node)).collect();
                built(constant, Expr::List(spanned(List { items }, span)), span)
            }
            Expr::Tuple(tuple) => {
                let constant = tuple.items.iter().all(is_constant);
                let items = tuple.items.iter().map(|node| self.expr(node)).collect();
                built(constant, Expr::Tuple(spanned(Tuple { items }, span)), span)
            }
            Expr::Map(map) => {
                let constant = map.keys.iter().chain(&map.values).all(is_constant);
                let made = Map {
                    keys: map.keys.iter().map(|node| self.expr(node)).collect(),
                    values: map.values.iter().map(|node| self.expr(node)).collect(),
                };
                built(constant, Expr::Map(spanned(made, span)), span)
            }
            Expr::Var(_)
            | Expr::Const(_)
            | Expr::UnaryOp(_)
            | Expr::BinOp(_)
            | Expr::Compare(_) => self.expr(node),
        }
    }

    fn called<'s>(&self, call: &Call<'s>) -> Call<'s> {
        Call {
            expr: self.expr(&call.expr),
            args: self.arguments(&call.args),
        }
    }

    fn arguments<'s>(&self, args: &[CallArg<'s>]) -> Vec<CallArg<'s>> {
        args.iter()
            .map(|arg| match arg {
                CallArg::Pos(value) => CallArg::Pos(self.expr(value)),
                CallArg::Kwarg(name, value) => CallArg::Kwarg(name, self.expr(value)),
                CallArg::PosSplat(value) => CallArg::PosSplat(self.expr(value)),
                CallArg::KwargSplat(value) => CallArg::KwargSplat(self.expr(value)),
            })
            .collect()
    }
}
