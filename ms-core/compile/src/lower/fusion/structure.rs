//! Deduplicates kernels by structure: everything that determines a group's kernel except the values that it accesses.
//! Groups of equal structure share one kernel, which is built once. Examples are the bodies of an unrolled loop and the
//! operands of a concatenation.

use crate::lower::fusion::domain::{AxisSet, Domain};
use crate::lower::fusion::emitted::{Arg, Emitted, ParamAccess};
use crate::lower::fusion::group::{Group, Groups};
use crate::lower::fusion::nest::Nest;
use crate::lower::fusion::slices::Stores;
use crate::lower::plan::{IndexedAxis, KernelId};
use crate::lower::rewrites::flat::{Access, Flat, Kind, NodeIndex, Origin, Source, ValueIndex};
use ms_ir::MapVec;
use ms_ir::Role;
use ms_ir::data::{Attr, Attrs, DType, Layout, Scalar};
use ms_ir::error::Result;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use std::rc::Rc;

/// The maximum number of memory locations of a group with a structure: computing one takes time in proportion.
const MAX_LOCATIONS: usize = 64;

/// The maximum number of members of a group with a structure: larger groups rarely recur.
const MAX_MEMBERS: usize = 256;

/// The kernels of groups, by structure; for one target, precision, and plan.
#[derive(Default)]
pub(in crate::lower) struct KnownKernels(FxHashMap<Box<[u64]>, Known>);

/// A kernel, and its arguments by location.
struct Known {
    kernel: KernelId,
    nest: Rc<Nest>,
    accesses: Rc<[ParamAccess]>,
    args: Box<[KnownArg]>,
}

struct KnownArg {
    location: usize,
    role: Role,
    axis: Option<IndexedAxis>,
    dense: Option<AxisSet>,
}

/// The structure of a group.
pub(in crate::lower) struct Structure {
    /// Equal for groups with equal kernels, nests, and roles of locations.
    words: Vec<u64>,
    /// The distinct locations that the group accesses, in order of occurrence: values, each with its first element.
    locations: Vec<(ValueIndex, usize)>,
}

impl KnownKernels {
    /// Returns whether no kernel is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the kernel of a group with this structure, and calls `build` if there is none yet.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn get_or_build(
        &mut self,
        structure: Option<Structure>,
        mut build: impl FnMut() -> Result<Emitted>,
    ) -> Result<Emitted> {
        let Some(structure) = structure else { return build() };
        if let Some(known) = self.get(&structure) {
            debug_assert!(build().is_ok_and(|it| it == known), "groups of equal structure have equal kernels");
            return Ok(known);
        }
        let built = build()?;
        self.add(structure, &built);
        Ok(built)
    }

    fn get(&self, structure: &Structure) -> Option<Emitted> {
        let Known { kernel, nest, accesses, args } = self.0.get(&*structure.words)?;
        let arg = |it: &KnownArg| {
            let (value, offset) = structure.locations[it.location];
            Arg { value, role: it.role, offset, axis: it.axis, dense: it.dense }
        };
        let args = args.map_vec(arg);
        Some(Emitted { kernel: *kernel, nest: nest.clone(), accesses: accesses.clone(), args })
    }

    /// Adds the kernel of a group with this structure, unless it accesses memory that other groups do not have.
    fn add(&mut self, structure: Structure, emitted: &Emitted) {
        let arg = |it: &Arg| {
            let location = structure.locations.iter().position(|at| *at == (it.value, it.offset))?;
            Some(KnownArg { location, role: it.role, axis: it.axis, dense: it.dense })
        };
        if let Some(args) = emitted.args.iter().map(arg).collect() {
            let Emitted { kernel, nest, accesses, .. } = emitted;
            let known = Known { kernel: *kernel, nest: nest.clone(), accesses: accesses.clone(), args };
            self.0.insert(structure.words.into(), known);
        }
    }
}

/// The number of occurrences of each outline. Groups of equal structure have equal outlines, which are cheaper to
/// compute than structures.
pub(in crate::lower) struct Outlines(FxHashMap<u64, u32>);

impl Outlines {
    /// Counts the outlines of the kernels among `groups`.
    pub fn of(flat: &Flat, groups: &Groups) -> Self {
        let mut counts = FxHashMap::default();
        for group in groups.list.iter().filter(|it| it.domain.is_some()) {
            *counts.entry(outline(flat, group)).or_insert(0) += 1;
        }
        Self(counts)
    }

    /// Returns whether another group may have the structure of this one.
    pub fn recurs(&self, flat: &Flat, group: &Group) -> bool {
        self.0.get(&outline(flat, group)).is_some_and(|&it| it > 1)
    }
}

/// Hashes the ops of a group's members.
fn outline(flat: &Flat, group: &Group) -> u64 {
    let mut out = FxHasher::default();
    for &index in &group.nodes {
        out.write_u64(match flat.nodes[index].kind {
            Kind::Map(op) | Kind::Generate(op) => u64::from(op.number()),
            Kind::Reduce(rule) => std::ptr::from_ref(rule) as u64,
            _ => u64::MAX,
        });
    }
    out.finish()
}

impl Structure {
    /// Returns the structure of a group; `None` if its kernel is unlikely to be shared.
    pub fn of(flat: &Flat, groups: &Groups, group: &Group, stores: &Stores) -> Option<Self> {
        if group.nodes.len() > MAX_MEMBERS {
            return None;
        }
        let domain = group.domain.as_ref().expect("only kernels have a structure");
        let mut out = Self { words: Vec::with_capacity(64), locations: Vec::new() };
        out.domain(domain);
        out.words.extend([u64::from(group.op.is_some()), group.rows.map_or(0, |it| 1 + it as u64)]);
        for &index in &group.nodes {
            let node = &flat.nodes[index];
            out.kind(node.kind)?;
            out.attrs(&node.attrs)?;
            out.words.extend([u64::from(groups.levels[index]), node.inputs.len() as u64]);
            for access in &node.inputs {
                out.operand(flat, &group.nodes, access)?;
            }
            out.words.push(node.outputs.len() as u64);
            for &value in &node.outputs {
                out.result(flat, value, stores)?;
            }
        }
        Some(out)
    }

    fn domain(&mut self, domain: &Domain) {
        self.words.push(domain.axes().len() as u64);
        self.words.extend(domain.axes().iter().flat_map(|it| [it.size as u64, u64::from(it.reduced)]));
    }

    fn kind(&mut self, kind: Kind) -> Option<()> {
        self.words.extend(match kind {
            Kind::Copy => [0, 0, 0],
            Kind::Map(op) => [1, u64::from(op.number()), 0],
            Kind::Generate(op) => [2, u64::from(op.number()), 0],
            Kind::Reduce(rule) => [3, std::ptr::from_ref(rule) as u64, 0],
            Kind::Gather { axis, .. } => [4, axis.stride as u64, axis.extent as u64],
            Kind::Check(_) | Kind::Contraction(_) | Kind::Library(_) | Kind::Slices(_) | Kind::Region(_) => {
                return None;
            }
        });
        Some(())
    }

    fn attrs(&mut self, attrs: &Attrs) -> Option<()> {
        self.words.push(attrs.as_slice().len() as u64);
        for attr in attrs.as_slice() {
            match attr {
                Attr::Bool(it) => self.words.extend([0, u64::from(*it)]),
                Attr::Int(it) => self.words.extend([1, *it as u64]),
                Attr::Float(it) => self.words.extend([2, it.to_bits()]),
                Attr::DType(it) => self.words.extend([3, *it as u64]),
                Attr::Ints(all) => {
                    self.words.extend([4, all.len() as u64]);
                    self.words.extend(all.iter().map(|&it| it as u64));
                }
                Attr::Size(_) | Attr::Sizes(_) | Attr::Str(_) | Attr::Literal(_) => return None,
            }
        }
        Some(())
    }

    fn operand(&mut self, flat: &Flat, members: &[NodeIndex], access: &Access) -> Option<()> {
        let dtype = access.dtype as u64;
        let value = match access.source {
            Source::Splat(scalar) => {
                let (variant, bits) = match scalar {
                    Scalar::Bool(it) => (0, u64::from(it)),
                    Scalar::Int(it) => (1, it as u64),
                    Scalar::UInt(it) => (2, it),
                    Scalar::Float(it) => (3, it.to_bits()),
                };
                self.words.extend([0, dtype, variant, bits]);
                return Some(());
            }
            Source::Value(value) => value,
        };
        let producer = flat.producer(value).and_then(|it| members.binary_search(&it).ok());
        match producer {
            // No member has several results.
            Some(member) => self.words.extend([1, dtype, member as u64, access.layout.offset() as u64]),
            None => {
                let is_position = u64::from(flat.values[value].origin == Origin::Position);
                self.words.extend([2, is_position]);
                self.location(flat, value, access.dtype, &access.layout)?;
            }
        }
        self.layout(&access.layout);
        Some(())
    }

    fn result(&mut self, flat: &Flat, value: ValueIndex, stores: &Stores) -> Option<()> {
        let (own, slices) = (stores.has_own(value), stores.slices(value));
        let of = &flat.values[value];
        self.words.extend([of.dtype as u64, u64::from(own), slices.len() as u64, of.shape.len() as u64]);
        self.words.extend(of.shape.iter().map(|&it| it as u64));
        if own {
            self.add(value, 0)?;
        }
        for slice in slices {
            self.location(flat, slice.whole, of.dtype, &slice.layout)?;
            self.layout(&slice.layout);
        }
        Some(())
    }

    /// Adds the location of an access to a value.
    fn location(&mut self, flat: &Flat, value: ValueIndex, dtype: DType, layout: &Layout) -> Option<()> {
        // Whether an access is dense depends on the number of elements of the value, and on whether it begins at the
        // first.
        self.words.extend([dtype as u64, flat.numel(value) as u64, u64::from(layout.offset() == 0)]);
        self.add(value, layout.offset())
    }

    fn add(&mut self, value: ValueIndex, offset: usize) -> Option<()> {
        let known = self.locations.iter().position(|it| *it == (value, offset));
        let number = known.unwrap_or(self.locations.len());
        if known.is_none() {
            self.locations.push((value, offset));
        }
        self.words.push(number as u64);
        (number < MAX_LOCATIONS).then_some(())
    }

    fn layout(&mut self, layout: &Layout) {
        self.words.push(layout.rank() as u64);
        self.words.extend(layout.shape().iter().map(|&it| it as u64));
        self.words.extend(layout.strides().iter().map(|&it| it as u64));
    }
}
