//! `break`, `continue`, `return`: where control leaves a region.

use syn::visit::{self, Visit};
use syn::{Expr, ExprAsync, ExprClosure, ExprConst, ExprIf, Item, Label};

/// Whether control leaves one of the arms other than at its end.
pub fn leave_if(it: &ExprIf) -> bool {
    leaves(|look| look.visit_expr_if(it))
}

fn leaves(look: impl FnOnce(&mut Leaves)) -> bool {
    let mut leaves = Leaves::default();
    look(&mut leaves);
    leaves.found
}

/// Looks for jumps out of what it visits.
#[derive(Default)]
struct Leaves {
    loops: usize,
    labels: Vec<String>,
    found: bool,
}

impl Leaves {
    fn inside(&mut self, label: Option<&Label>, look: impl FnOnce(&mut Self)) {
        let labels = self.labels.len();
        self.labels.extend(label.map(|it| it.name.to_string()));
        look(self);
        self.labels.truncate(labels);
    }

    fn jump(&mut self, label: Option<&syn::Lifetime>) {
        self.found |= match label {
            Some(label) => !self.labels.contains(&label.to_string()),
            None => self.loops == 0,
        };
    }
}

impl<'ast> Visit<'ast> for Leaves {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Return(_) => self.found = true,
            Expr::Break(it) => self.jump(it.label.as_ref()),
            Expr::Continue(it) => self.jump(it.label.as_ref()),
            _ => {}
        }
        let (label, is_loop) = match expr {
            Expr::While(it) => (it.label.as_ref(), true),
            Expr::Loop(it) => (it.label.as_ref(), true),
            Expr::ForLoop(it) => (it.label.as_ref(), true),
            Expr::Block(it) => (it.label.as_ref(), false),
            _ => return visit::visit_expr(self, expr),
        };
        self.loops += is_loop as usize;
        self.inside(label, |this| visit::visit_expr(this, expr));
        self.loops -= is_loop as usize;
    }

    fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}

    fn visit_expr_async(&mut self, _: &'ast ExprAsync) {}

    fn visit_expr_const(&mut self, _: &'ast ExprConst) {}

    fn visit_item(&mut self, _: &'ast Item) {}
}
