//! The table of the epilogues that a target runs.

use ms_ir::data::{DType, Op};
use ms_ir::{Contraction, Precision};

/// A row of the table of epilogues: kernels that a target compiles together with the step whose result they read.
///
/// The limits are those of all kernels of one step together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EpilogueSupport {
    /// The steps that have these epilogues.
    pub producers: Producers,
    /// Whether results are bit-identical to those of separate kernels, so that strict precision has these epilogues too.
    pub strict: bool,
    /// The kinds of kernels.
    pub kinds: &'static [EpilogueKind],
    /// The ops of which bodies consist; `None` if bodies are arbitrary.
    pub ops: Option<&'static [Op]>,
    /// The maximum numbers of operands other than the result of the step.
    pub operands: EpilogueOperands,
    /// The maximum number of results.
    pub results: usize,
    /// The maximum number of kernels that read the result of the step.
    pub kernels: usize,
    /// The minimum number of elements of the result of the step.
    pub elements: usize,
    /// The maximum length of a row of a contraction's result, for kernels that need tiles with whole rows: all kinds but
    /// [`EpilogueKind::Elements`].
    pub longest_row: usize,
    /// The minimum number of terms of a contraction's sums for each instruction of a kernel. A kernel that takes long
    /// compared to the sums is better partitioned separately.
    pub terms: usize,
}

/// The steps that have epilogues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Producers {
    /// Contractions of operands of these dtypes, with at most one m and one n axis; of all dtypes if `None`.
    Contractions(Option<&'static [DType]>),
    /// Library ops on images.
    Library(&'static [Op]),
}

/// A step whose result kernels compute with.
#[derive(Clone, Copy, Debug)]
pub enum Producer<'a> {
    /// A contraction.
    Contraction(&'a Contraction),
    /// A library op.
    Library {
        /// The op.
        op: Op,
        /// The [axes](crate::lower::image_axes) of the result.
        axes: &'a [usize],
        /// The precision of the code.
        precision: Precision,
    },
}

impl Producer<'_> {
    fn precision(self) -> Precision {
        match self {
            Self::Contraction(it) => it.precision,
            Self::Library { precision, .. } => precision,
        }
    }

    fn elements(self) -> usize {
        let product = |sizes: &mut dyn Iterator<Item = usize>| sizes.fold(1, usize::saturating_mul);
        match self {
            Self::Contraction(it) => product(&mut it.axes_of(2).map(|it| it.size)),
            Self::Library { axes, .. } => product(&mut axes.iter().copied()),
        }
    }
}

/// How an epilogue iterates over the result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EpilogueKind {
    /// Element by element.
    Elements,
    /// Element by element, with reductions of rows.
    Reduction,
    /// Row by row. It does not read the result, but what other epilogues wrote, also at other columns of the row.
    Rows,
}

/// Numbers of operands of epilogues, by the axes of the result along which they vary. Operands of one element are not
/// limited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EpilogueOperands {
    /// Operands that vary along the last axis only, such as a bias of a product's columns.
    pub columns: usize,
    /// Operands that vary along other axes only, such as a scale of each row.
    pub rows: usize,
    /// All others, such as a residual.
    pub elements: usize,
}

impl EpilogueOperands {
    /// Any number of operands.
    pub const UNLIMITED: Self = Self { columns: usize::MAX, rows: usize::MAX, elements: usize::MAX };

    /// Counts an operand that varies along the last axis or not, and along the others or not.
    pub(crate) fn count(&mut self, columns: bool, rows: bool) {
        match (columns, rows) {
            (false, false) => {}
            (true, false) => self.columns += 1,
            (false, true) => self.rows += 1,
            (true, true) => self.elements += 1,
        }
    }
}

/// A kernel that may be an epilogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EpilogueKernel {
    /// How it iterates over the result.
    pub kind: EpilogueKind,
    /// The elementwise ops of its body; `None` if the body has other ops.
    pub ops: Option<Vec<Op>>,
    /// The cost of its body in instructions.
    pub insts: usize,
    /// The number of elements in a row for which the body runs.
    pub columns: usize,
    /// The operands other than the result of the step.
    pub operands: EpilogueOperands,
    /// The number of values that it writes.
    pub results: usize,
}

impl EpilogueKernel {
    /// A kernel of a kind without instructions and operands. Targets that take no such kernel take none of the kind.
    pub(crate) fn empty(kind: EpilogueKind, columns: usize) -> Self {
        let (operands, ops) = (EpilogueOperands::default(), Some(Vec::new()));
        Self { kind, ops, insts: 0, columns, operands, results: 0 }
    }
}

impl EpilogueSupport {
    /// Any elementwise kernels on the results of all contractions.
    pub const ELEMENTWISE: Self = Self {
        producers: Producers::Contractions(None),
        strict: true,
        kinds: &[EpilogueKind::Elements],
        ops: None,
        operands: EpilogueOperands::UNLIMITED,
        results: usize::MAX,
        kernels: usize::MAX,
        elements: 0,
        longest_row: 0,
        terms: 0,
    };

    /// Any kernels on the results of all contractions.
    pub const ALL: Self = Self {
        kinds: &[EpilogueKind::Elements, EpilogueKind::Reduction, EpilogueKind::Rows],
        longest_row: usize::MAX,
        ..Self::ELEMENTWISE
    };

    /// Returns whether a step has these kernels as epilogues, on a target that processes `width` adjacent elements at a
    /// time.
    pub(super) fn admits(&self, producer: Producer<'_>, kernels: &[EpilogueKernel], width: usize) -> bool {
        let is_exact = self.strict || producer.precision().is_relaxed();
        is_exact
            && producer.elements() >= self.elements
            && self.admits_producer(producer, kernels, width)
            && kernels.iter().filter(|it| it.kind != EpilogueKind::Rows).count() <= self.kernels
            && kernels.iter().all(|it| self.kinds.contains(&it.kind) && self.admits_ops(it))
            && self.admits_numbers(kernels)
    }

    fn admits_producer(&self, producer: Producer<'_>, kernels: &[EpilogueKernel], width: usize) -> bool {
        match (producer, self.producers) {
            (Producer::Contraction(it), Producers::Contractions(dtypes)) => {
                let row = it.n.last().or(it.m.last()).map_or(1, |it| it.size);
                let of_row = |it: &EpilogueKernel| it.insts.saturating_mul(it.columns);
                let insts = kernels.iter().map(of_row).fold(0, usize::saturating_add);
                // A tile of a product whose result has more axes is not computed in the order of the whole.
                it.m.len() <= 1
                    && it.n.len() <= 1
                    && dtypes.is_none_or(|all| [it.types.a, it.types.b].iter().all(|it| all.contains(it)))
                    && kernels.iter().all(|it| it.columns >= width)
                    && (row <= self.longest_row || kernels.iter().all(|it| it.kind == EpilogueKind::Elements))
                    && row >= width
                    && Contraction::size(&it.k).saturating_mul(row) >= insts.saturating_mul(self.terms)
            }
            (Producer::Library { op, .. }, Producers::Library(ops)) => ops.contains(&op),
            _ => false,
        }
    }

    fn admits_ops(&self, kernel: &EpilogueKernel) -> bool {
        let Some(all) = self.ops else { return true };
        kernel.ops.as_ref().is_some_and(|ops| ops.iter().all(|it| all.contains(it)))
    }

    fn admits_numbers(&self, kernels: &[EpilogueKernel]) -> bool {
        let sum = |of: fn(&EpilogueKernel) -> usize| kernels.iter().map(of).sum::<usize>();
        sum(|it| it.operands.columns) <= self.operands.columns
            && sum(|it| it.operands.rows) <= self.operands.rows
            && sum(|it| it.operands.elements) <= self.operands.elements
            && sum(|it| it.results) <= self.results
    }
}
