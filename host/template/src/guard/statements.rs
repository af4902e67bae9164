//! Statements with bounds; their expressions are those of the parent module.

use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    AutoEscape, Block, Break, CallBlock, Continue, Do, EmitExpr, EmitRaw, Expr, Extends,
    FilterBlock, ForLoop, FromImport, IfCond, Import, Include, Macro, Set, SetBlock, Stmt,
    Template, WithBlock,
};

use super::super::operators::{HELD, TICK};
use super::{Guard, constant, filter, spanned};

impl Guard {
    pub(super) fn statement<'s>(&self, stmt: &Stmt<'s>) -> Stmt<'s> {
        match stmt {
            Stmt::Template(node) => Stmt::Template(spanned(
                Template {
                    children: self.body(&node.children),
                },
                node.span(),
            )),
            Stmt::EmitExpr(node) => Stmt::EmitExpr(spanned(
                EmitExpr {
                    expr: self.expr(&node.expr),
                },
                node.span(),
            )),
            Stmt::EmitRaw(node) => Stmt::EmitRaw(spanned(EmitRaw { raw: node.raw }, node.span())),
            Stmt::ForLoop(node) => Stmt::ForLoop(spanned(
                ForLoop {
                    target: self.target(&node.target),
                    iter: self.expr(&node.iter),
                    filter_expr: node.filter_expr.as_ref().map(|condition| {
                        filter(TICK, self.expr(condition), None, condition.span())
                    }),
                    recursive: node.recursive,
                    body: self.repeated(&node.body, node.span()),
                    else_body: self.body(&node.else_body),
                },
                node.span(),
            )),
            Stmt::IfCond(node) => Stmt::IfCond(spanned(
                IfCond {
                    expr: self.expr(&node.expr),
                    true_body: self.body(&node.true_body),
                    false_body: self.body(&node.false_body),
                },
                node.span(),
            )),
            Stmt::WithBlock(node) => Stmt::WithBlock(spanned(
                WithBlock {
                    assignments: node
                        .assignments
                        .iter()
                        .map(|(to, value)| (self.target(to), self.expr(value)))
                        .collect(),
                    body: self.body(&node.body),
                },
                node.span(),
            )),
            Stmt::Set(node) => Stmt::Set(spanned(
                Set {
                    target: self.target(&node.target),
                    expr: match node.target {
                        Expr::Var(_) => self.expr(&node.expr),
                        _ => filter(HELD, self.expr(&node.expr), None, node.expr.span()),
                    },
                },
                node.span(),
            )),
            Stmt::SetBlock(node) => Stmt::SetBlock(spanned(
                SetBlock {
                    target: self.target(&node.target),
                    filter: node.filter.as_ref().map(|node| self.expr(node)),
                    body: self.body(&node.body),
                },
                node.span(),
            )),
            Stmt::AutoEscape(node) => Stmt::AutoEscape(spanned(
                AutoEscape {
                    enabled: self.expr(&node.enabled),
                    body: self.body(&node.body),
                },
                node.span(),
            )),
            Stmt::FilterBlock(node) => Stmt::FilterBlock(spanned(
                FilterBlock {
                    filter: self.expr(&node.filter),
                    body: self.body(&node.body),
                },
                node.span(),
            )),
            Stmt::Block(node) => Stmt::Block(spanned(
                Block {
                    name: node.name,
                    required: node.required,
                    body: self.repeated(&node.body, node.span()),
                },
                node.span(),
            )),
            Stmt::Import(node) => Stmt::Import(spanned(
                Import {
                    expr: self.expr(&node.expr),
                    name: self.target(&node.name),
                },
                node.span(),
            )),
            Stmt::FromImport(node) => Stmt::FromImport(spanned(
                FromImport {
                    expr: self.expr(&node.expr),
                    names: node
                        .names
                        .iter()
                        .map(|(name, alias)| {
                            (
                                self.target(name),
                                alias.as_ref().map(|node| self.target(node)),
                            )
                        })
                        .collect(),
                },
                node.span(),
            )),
            Stmt::Extends(node) => Stmt::Extends(spanned(
                Extends {
                    name: self.expr(&node.name),
                },
                node.span(),
            )),
            Stmt::Include(node) => Stmt::Include(spanned(
                Include {
                    name: self.expr(&node.name),
                    ignore_missing: node.ignore_missing,
                },
                node.span(),
            )),
            Stmt::Macro(node) => {
                Stmt::Macro(spanned(self.declared(node, node.span()), node.span()))
            }
            Stmt::CallBlock(node) => Stmt::CallBlock(spanned(
                CallBlock {
                    call: spanned(self.called(&node.call), node.call.span()),
                    macro_decl: spanned(
                        self.declared(&node.macro_decl, node.macro_decl.span()),
                        node.macro_decl.span(),
                    ),
                },
                node.span(),
            )),
            Stmt::Continue(node) => Stmt::Continue(spanned(Continue, node.span())),
            Stmt::Break(node) => Stmt::Break(spanned(Break, node.span())),
            Stmt::Do(node) => Stmt::Do(spanned(
                Do {
                    call: spanned(self.called(&node.call), node.call.span()),
                },
                node.span(),
            )),
        }
    }

    pub(super) fn body<'s>(&self, stmts: &[Stmt<'s>]) -> Vec<Stmt<'s>> {
        stmts.iter().map(|node| self.guarded(node)).collect()
    }

    /// A body that runs more than once begins with a check of the meter.
    pub(super) fn repeated<'s>(&self, stmts: &[Stmt<'s>], span: Span) -> Vec<Stmt<'s>> {
        let expr = filter(TICK, constant("", span), None, span);
        let look = Stmt::EmitExpr(spanned(EmitExpr { expr }, span));
        std::iter::once(look)
            .chain(stmts.iter().map(|node| self.guarded(node)))
            .collect()
    }

    fn declared<'s>(&self, node: &Macro<'s>, span: Span) -> Macro<'s> {
        Macro {
            name: node.name,
            args: node.args.iter().map(|node| self.target(node)).collect(),
            defaults: node.defaults.iter().map(|node| self.expr(node)).collect(),
            body: self.repeated(&node.body, span),
        }
    }
}
