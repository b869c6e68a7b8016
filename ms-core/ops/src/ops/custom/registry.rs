//! The registry of custom ops: the declarations of this program and their numbers.

use crate::ops::{Arrays, Batching, Derivative, Effects, Lowering, OpDef, TransformRules, Types};
use crate::tensor::{Array, AttrInfo, Attrs, Op, OpInfo, Type};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, subgraphs};
use std::sync::OnceLock;

/// The declaration of a custom op.
pub struct Declaration {
    /// The module that contains the declaration.
    pub module: &'static str,
    /// The name of the function.
    pub name: &'static str,
    /// A hash of the tokens of the declaration.
    pub source: u64,
    /// Whether the declaration states a version. The program then promises to change it whenever code that the rules
    /// call changes.
    pub versioned: bool,
    /// The attributes of the op.
    pub attrs: &'static [AttrInfo],
    /// Returns the rules of the op.
    pub rules: fn() -> Rules,
}

/// The rules of a custom op.
pub struct Rules {
    /// [`OpDef::infer`].
    pub infer: fn(&Attrs, &[&Type]) -> Result<Types>,
    /// [`OpDef::eval`].
    pub eval: fn(&Attrs, &[&Array]) -> Result<Arrays>,
    /// [`TransformRules::derivative`].
    pub derivative: Derivative,
    /// [`TransformRules::batching`].
    pub batching: Batching,
}

/// The entry of a declaration in the list that `inventory` collects at link time.
pub struct Registered(pub &'static Declaration);

inventory::collect!(Registered);

/// A declaration with its definition.
struct Entry {
    declaration: &'static Declaration,
    def: &'static OpDef,
}

/// Returns the custom ops sorted by name and source; their numbers ascend in this order.
fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let mut all: Vec<(String, &Declaration)> =
            inventory::iter::<Registered>.into_iter().map(|it| (it.0.path(), it.0)).collect();
        all.sort_by(|a, b| (&a.0, a.1.source).cmp(&(&b.0, b.1.source)));
        assert!(all.len() <= usize::from(Op::FIRST_CUSTOM), "a program has fewer custom ops than there are numbers");
        Op::set_custom_sources(all.map_vec(|it| it.1.source));
        let numbered = all.into_iter().zip(Op::FIRST_CUSTOM..);
        numbered.map(|((path, it), number)| Entry { declaration: it, def: it.define(number, path) }).collect()
    })
}

impl Declaration {
    /// Returns the path of the function, which is the name in the text form and in messages.
    pub(super) fn path(&self) -> String {
        format!("{}.{}", self.module.replace("::", "."), self.name)
    }

    /// Creates the definition, which lives as long as the process.
    fn define(&self, number: u16, path: String) -> &'static OpDef {
        let Rules { infer, eval, derivative, batching } = (self.rules)();
        let transforms =
            Box::leak(Box::new(TransformRules { derivative, finite_derivatives: false, batching, body: None }));
        Box::leak(Box::new(OpDef {
            info: OpInfo { number, name: path.leak(), attrs: self.attrs },
            infer,
            eval,
            // The function may fail for some values.
            effects: Effects::HOST.and(Effects::MAY_FAIL),
            lowering: Lowering::Library,
            samples: Vec::new,
            transforms,
        }))
    }

    /// Returns the op.
    ///
    /// # Errors
    /// [`Code::CustomOp`] if another declaration has the same path and source, such as one in another function of the
    /// module. Stored data could not distinguish the two. [`Code::CustomOp`] also if the program's list lacks the
    /// declaration, as in a library that is loaded at run time.
    pub fn op(&'static self) -> Result<Op> {
        let (path, entries) = (self.path(), entries());
        let first = entries.partition_point(|it| (it.def.name(), it.declaration.source) < (&path, self.source));
        let same = |it: &&Entry| it.def.name() == path && it.declaration.source == self.source;
        let mut equal = entries[first..].iter().take_while(same);
        match (equal.next(), equal.next()) {
            (Some(entry), None) => Ok(entry.def.op()),
            (Some(_), Some(_)) => {
                let message = format!("there are several custom ops `{path}` with the same text");
                Err(Error::new(Code::CustomOp, message).help("give them different names"))
            }
            (None, _) => {
                let message = format!("the custom op `{path}` is not in the list of the program");
                Err(Error::new(Code::CustomOp, message)
                    .help("libraries with custom ops are linked statically, and not loaded while the program runs"))
            }
        }
    }
}

/// Returns the custom op with a number.
#[cold]
pub fn by_number(number: u16) -> Option<&'static OpDef> {
    let at = number.checked_sub(Op::FIRST_CUSTOM)?;
    entries().get(usize::from(at)).map(|it| it.def)
}

/// Returns the custom op with a name; `None` if several have it.
pub fn by_name(name: &str) -> Option<&'static OpDef> {
    let mut named = entries().iter().filter(|it| it.def.name() == name);
    named.next().filter(|_| named.next().is_none()).map(|it| it.def)
}

/// Returns the custom op with a name and a hash of its source.
pub fn by_source(name: &str, source: u64) -> Option<&'static OpDef> {
    let found = entries().iter().find(|it| it.def.name() == name && it.declaration.source == source)?;
    // `op` fails if a second declaration matches as well.
    found.declaration.op().is_ok().then_some(found.def)
}

/// Whether the graph or one of its subgraphs contains a custom op that states no version.
pub fn has_unversioned(graph: &Graph) -> bool {
    let is_unversioned = |op: Op| {
        let at = op.number().checked_sub(Op::FIRST_CUSTOM);
        at.is_some_and(|at| !entries()[usize::from(at)].declaration.versioned)
    };
    let has = |graph: &Graph| graph.nodes().any(|(_, node)| is_unversioned(node.op));
    has(graph) || subgraphs(graph).into_iter().any(|it| has(it))
}
