//! Defines the axes over which arguments and results are mapped, and their structure.

use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{Parameter, Tensor};
use ms_trace::trace::{Name, Sink, Visitor, tuples_of};

/// The axes over which the tensors of a structure are mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Axes {
    /// This axis of every tensor, counted from the end when negative.
    Axis(isize),
    /// No axis: the lanes share the value.
    Shared,
    /// Axes for each part.
    Each(Vec<Axes>),
}

impl Axes {
    /// Visits the axes with `sink`, as a part of a key.
    pub(super) fn sign(&self, sink: &mut Sink<'_>) {
        match self {
            Self::Axis(axis) => {
                sink.fixed(0);
                sink.fixed(*axis as u64);
            }
            Self::Shared => sink.fixed(1),
            Self::Each(parts) => {
                sink.fixed(2);
                sink.fixed(parts.len() as u64);
                parts.iter().for_each(|it| it.sign(sink));
            }
        }
    }
}

/// A conversion to [`Axes`]: from an axis, or `None` for values that the lanes share. Tuples, arrays and vectors of
/// these are for the parts of a structure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no axis",
    label = "expected an axis, `None`, or a structure of these",
    note = "an axis is an integer, counted from the end when negative; `None` stands for a value that the lanes share"
)]
pub trait IntoLanes {
    /// Returns the axes.
    fn into_lanes(self) -> Axes;
}

impl IntoLanes for Axes {
    fn into_lanes(self) -> Axes {
        self
    }
}

impl IntoLanes for Option<isize> {
    fn into_lanes(self) -> Axes {
        self.map_or(Axes::Shared, Axes::Axis)
    }
}

impl<T: IntoLanes> IntoLanes for Vec<T> {
    fn into_lanes(self) -> Axes {
        Axes::Each(self.into_iter().map(T::into_lanes).collect())
    }
}

impl<T: IntoLanes, const N: usize> IntoLanes for [T; N] {
    fn into_lanes(self) -> Axes {
        Axes::Each(self.into_iter().map(T::into_lanes).collect())
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl IntoLanes for $ty {
            fn into_lanes(self) -> Axes {
                // A number beyond `isize` is not an axis of any tensor.
                Axes::Axis(isize::try_from(self).unwrap_or(isize::MAX))
            }
        }
    )*};
}

integers! { i32 i64 isize usize }

macro_rules! tuples {
    ($(($($t:ident $i:tt),+);)*) => {$(
        impl<$($t: IntoLanes),+> IntoLanes for ($($t,)+) {
            fn into_lanes(self) -> Axes {
                Axes::Each(vec![$(self.$i.into_lanes()),+])
            }
        }
    )*};
}

tuples_of!(tuples);

/// A part of a structure. Tensors and parameters are represented by their positions.
#[derive(Clone, Debug)]
enum ArgTree {
    Tensor(usize),
    Parameter(usize),
    Each(Vec<ArgTree>),
}

/// A structure with its content.
pub(super) struct Seen {
    pub tensors: Vec<Tensor>,
    pub parameters: Vec<Parameter>,
    /// The open parts. For each element, whether it is a separate part.
    open: Vec<Vec<(ArgTree, bool)>>,
    /// Whether the innermost open part is an argument.
    in_argument: bool,
}

/// The axis of every tensor and parameter of a structure, if it has one.
pub(super) struct Assigned {
    pub tensors: Vec<Option<isize>>,
    pub parameters: Vec<Option<isize>>,
}

impl Seen {
    /// Collects the content that `visit` visits.
    pub fn of(visit: impl FnOnce(&mut Sink<'_>)) -> Self {
        let (tensors, parameters) = (Vec::new(), Vec::new());
        let mut seen = Self { tensors, parameters, open: vec![Vec::new()], in_argument: false };
        visit(&mut Sink::new(&mut seen));
        seen.end_argument();
        seen
    }

    fn end_argument(&mut self) {
        if std::mem::take(&mut self.in_argument) {
            self.end();
        }
    }

    fn add(&mut self, part: ArgTree, own: bool) {
        self.open.last_mut().expect("the outermost part is open").push((part, own));
    }

    /// Returns a single element, or the parts of a structure.
    fn part(mut inside: Vec<(ArgTree, bool)>) -> ArgTree {
        match &inside[..] {
            [(_, false)] => inside.remove(0).0,
            _ => ArgTree::Each(inside.into_iter().map(|it| it.0).collect()),
        }
    }

    /// Returns the axes of all content. `subject` names the structure, and `parts` its parts.
    ///
    /// # Errors
    /// [`Code::Axes`] if `axes` has another structure.
    pub fn assign(&self, axes: &Axes, subject: &str, parts: &str) -> Result<Assigned> {
        let mut assigned =
            Assigned { tensors: vec![None; self.tensors.len()], parameters: vec![None; self.parameters.len()] };
        let part = Self::part(self.open[0].clone());
        if let (Axes::Each(axes), ArgTree::Each(given)) = (axes, &part)
            && axes.len() != given.len()
        {
            let message = format!("`{subject}` has {} entries for {} {parts}", axes.len(), given.len());
            return Err(Error::new(Code::Axes, message).with_op("vmap"));
        }
        assigned.fill(axes, &part, subject)?;
        Ok(assigned)
    }

    /// Returns the tensors of every argument, by position.
    pub fn arguments(&self) -> Vec<Vec<usize>> {
        fn tensors(part: &ArgTree, out: &mut Vec<usize>) {
            match part {
                ArgTree::Tensor(at) => out.push(*at),
                ArgTree::Parameter(_) => {}
                ArgTree::Each(parts) => parts.iter().for_each(|it| tensors(it, out)),
            }
        }
        let of = |(part, _): &(ArgTree, bool)| {
            let mut out = Vec::new();
            tensors(part, &mut out);
            out
        };
        self.open[0].map_vec(of)
    }
}

impl Assigned {
    fn fill(&mut self, axes: &Axes, part: &ArgTree, subject: &str) -> Result<()> {
        match (part, axes) {
            (ArgTree::Tensor(at), Axes::Axis(axis)) => self.tensors[*at] = Some(*axis),
            (ArgTree::Parameter(at), Axes::Axis(axis)) => self.parameters[*at] = Some(*axis),
            (ArgTree::Tensor(_) | ArgTree::Parameter(_), Axes::Shared) => {}
            (ArgTree::Tensor(_) | ArgTree::Parameter(_), Axes::Each(entries)) => {
                let message = format!("`{subject}` has {} entries for a tensor, which takes one axis", entries.len());
                return Err(Error::new(Code::Axes, message).with_op("vmap"));
            }
            (ArgTree::Each(parts), Axes::Each(entries)) => {
                if parts.len() != entries.len() {
                    let message =
                        format!("`{subject}` has {} entries for a structure of {} parts", entries.len(), parts.len());
                    return Err(Error::new(Code::Axes, message).with_op("vmap"));
                }
                for (part, axes) in parts.iter().zip(entries) {
                    self.fill(axes, part, subject)?;
                }
            }
            (ArgTree::Each(parts), one) => parts.iter().try_for_each(|part| self.fill(one, part, subject))?,
        }
        Ok(())
    }
}

impl Visitor for Seen {
    fn tensor(&mut self, tensor: &Tensor) {
        self.tensors.push(tensor.clone());
        self.add(ArgTree::Tensor(self.tensors.len() - 1), false);
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.parameters.push(parameter.clone());
        self.add(ArgTree::Parameter(self.parameters.len() - 1), false);
    }

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, _: &'static str) {
        self.end_argument();
        self.begin(Name::Index(0));
        self.in_argument = true;
    }

    fn begin(&mut self, _: Name<'_>) {
        self.open.push(Vec::new());
    }

    fn end(&mut self) {
        let inside = self.open.pop().expect("a part that ends has begun");
        self.add(Self::part(inside), true);
    }
}

/// Returns the index of an axis in a tensor of `rank` axes.
///
/// # Errors
/// [`Code::Axes`] outside `-rank..rank`.
pub(super) fn place(axis: isize, rank: usize, subject: &str) -> Result<usize> {
    let signed = rank as isize;
    if (-signed..signed).contains(&axis) {
        return Ok(axis.rem_euclid(signed) as usize);
    }
    let message = format!("axis {axis} in `{subject}` of a tensor of {rank} axes");
    let error = Error::new(Code::Axes, message).with_op("vmap");
    Err(match rank {
        0 => error.help("a tensor without axes is shared by the lanes: `None`"),
        _ => error.help(format!("axes of this tensor go from -{rank} to {}", rank - 1)),
    })
}
