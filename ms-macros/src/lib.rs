//! Implements the attribute macros of `ms`, which turn Rust functions into graph-building functions.
//!
//! Only this file uses `proc_macro`. The rest works on `proc_macro2` tokens, so that ordinary unit tests cover it. The
//! macros refer to items of `ms::__rt` by name, and depend on none of their types.

mod args;
mod canon;
mod custom_op;
mod diag;
mod dims;
mod donate;
mod emit;
mod fallback;
mod fingerprint;
mod kernel;
mod names;
mod print;
mod reach;
mod refers;
mod resolve;
mod statics;
#[cfg(test)]
mod tests;
mod types;

use diag::Diags;
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;

/// Compiles a function or method: a call traces it once per signature, compiles the graph, and
/// runs it.
///
/// Arguments:
///
/// - Tensors and structures of tensors (`Tree`) are inputs, as are the parameters of cells.
/// - Integers, floats, bools, strings and `Static` values are part of the key.
/// - `#[dynamic] lr: f32` makes a scalar an input: it is a 0-d tensor in the body.
/// - `&mut` structures are inputs and outputs.
///
/// The result is a `Tree`, or a `Result` of one.
///
/// Options:
///
/// - `dims(x = [batch, 64, _])` declares the sizes of tensors. A name is a symbolic size, the same wherever it occurs:
///   one compilation serves all of them. A number is a size that every call has. A size `_` is part of the key.
/// - `donate(x)` gives up an argument that is taken by value, so that results may reuse its memory.
/// - `pure` promises that the result of tracing depends on the arguments alone. A later process then need not trace the
///   function again.
/// - `crate = path` names the library where it is renamed.
#[proc_macro_attribute]
pub fn jit(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(args, item, emit::func::expand)
}

/// Compiles a closure that captures nothing, as [`macro@jit`] does a function: `jit!(|x: &Tensor| ..)`, in
/// `ms::closure`.
#[proc_macro]
pub fn jit_closure(closure: TokenStream) -> TokenStream {
    derive(closure, emit::closure::expand)
}

/// Declares an op that the program implements, on slices of host memory.
///
/// `fn derivative(it: &Vjp<'_>, ..)` and `fn batching(lanes: &BatchedCall<'_>, ..)` are optional, as is
/// `const VERSION`: see `docs/custom_ops.md`.
#[proc_macro]
pub fn custom_op(declaration: TokenStream) -> TokenStream {
    derive(declaration, custom_op::expand)
}

/// Declares an op by a function of the elements of its operands. The function becomes one kernel.
///
/// Operands and results are `Float`, `Int`, `Bool`, or numbers of one dtype such as `I32`. Several results are a tuple.
/// Other arguments are host values, and are constants of the kernel. See `docs/custom_ops.md`.
#[proc_macro]
pub fn kernel(declaration: TokenStream) -> TokenStream {
    derive(declaration, kernel::expand)
}

/// Makes a struct a network, and an impl the code of one.
///
/// On a struct: implements `Arg` and `Cell`. The types of the fields show which are parameters, sub-cells, tensors and
/// host fields. `#[cell(skip)]` leaves a field out. A field that is a cell can be called like a method: `self.fc1(&x)`.
///
/// On an impl: `construct` compiles as a whole in graph mode, or everywhere under `#[jit]`. A generated `call` with the
/// same signature runs it. Under `#[jit]` there is `try_call`, too, which returns an error of the library as `Err`.
#[proc_macro_attribute]
pub fn cell(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(args, item, emit::cell::expand)
}

/// Makes a plain struct usable inside compiled functions, and its methods part of their graphs.
///
/// On a struct: implements `Arg`, so that it can be an argument or a field of a cell. On an impl with a method `call`:
/// a local `net` of this type can be called as `net(&x, &y)`.
#[proc_macro_attribute]
pub fn jit_class(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(args, item, emit::class::expand)
}

/// Marks a cell for lazy inlining: its sub-graph is traced and compiled once, and all equal calls share it.
///
/// Applies to a `#[cell]` struct, or to `fn new` in a `#[cell]` impl.
#[proc_macro_attribute]
pub fn lazy_inline(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(args, item, emit::marks::lazy_inline)
}

/// Prevents inlining. Every call of the cell or function inside compiled code stays a call in gradients, in optimised
/// graphs and in the plan.
///
/// Applies to a `#[cell]` struct, to `construct` in a `#[cell]` impl, or to a function with or without `#[jit]`. A
/// function without `#[jit]` runs eagerly where it is called outside compiled code.
#[proc_macro_attribute]
pub fn no_inline(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(args, item, emit::marks::no_inline)
}

/// Implements `Arg` and `Tree` for a structure of tensors and host values. Needs `Clone`.
#[proc_macro_derive(Tree)]
pub fn derive_tree(item: TokenStream) -> TokenStream {
    derive(item, emit::tree::expand_tree)
}

/// Implements `Arg` and `Tree` for a host value that is part of the key as a whole. Needs `Clone`.
#[proc_macro_derive(Static)]
pub fn derive_static(item: TokenStream) -> TokenStream {
    derive(item, emit::tree::expand_static)
}

type Attribute = fn(Tokens, Tokens, &mut Diags) -> Option<Tokens>;

/// Expands an attribute.
///
/// With errors, it emits an expansion about which rustc reports nothing else, or else the user's item. So editors keep
/// working, and rustc does not report uses of a missing item.
fn attribute(args: TokenStream, item: TokenStream, expand: Attribute) -> TokenStream {
    let mut diags = Diags::default();
    let item = Tokens::from(item);
    let (mut out, errors) = match expand(args.into(), item.clone(), &mut diags) {
        Some(expansion) => (print::traced(expansion), diags.after()),
        None => (fallback::plain(item), diags.all()),
    };
    out.extend(errors);
    out.into()
}

/// Expands a macro that only adds items; after an error it emits the errors alone.
fn derive(item: TokenStream, expand: fn(Tokens, &mut Diags) -> Option<Tokens>) -> TokenStream {
    let mut diags = Diags::default();
    match expand(item.into(), &mut diags) {
        Some(mut expansion) => {
            expansion.extend(diags.after());
            print::traced(expansion)
        }
        None => diags.all(),
    }
    .into()
}
