//! Prepares contractions, library steps and checks, with their operands, epilogues and workspaces.

use super::Loader;
use crate::exec::runner::check::malformed;
use crate::exec::runner::program::{CallWords, Epilogue, OperandWord, Step};
use crate::exec::{ArrayLayout, Check, Driver, EpilogueCode, LibraryCall, Prepared};
use crate::lower::{BufferLocation, ContractionResult, ContractionStep, KernelId, PlanStep, Span, View};
use ms_ir::data::Layout;
use ms_ir::error::Result;
use ms_ir::op::definition;
use smallvec::SmallVec;
use std::sync::Arc;

impl<D: Driver> Loader<'_, D> {
    /// Prepares a contraction.
    pub(super) fn contraction(&mut self, step: &ContractionStep) -> Result<Step<D>> {
        let ContractionStep { contraction, a, b, result } = step;
        let mut add = |operand, span: &Span| {
            self.check.check_operand(contraction, operand, span)?;
            self.operand_word(span)
        };
        let operands = [add(0, a)?, add(1, b)?].into();
        let mut results = SmallVec::new();
        let mut epilogues = Vec::new();
        match result {
            ContractionResult::Stored(out) => results.push(add(2, out)?.word),
            ContractionResult::Epilogues(all) if all.is_empty() => return Err(malformed("something reads a result")),
            ContractionResult::Epilogues(all) => {
                epilogues =
                    all.iter().map(|it| Ok((it.kernel, self.epilogue(contraction, it)?))).collect::<Result<_>>()?;
            }
        }
        let prepared = self.driver.prepare_contraction(contraction, &self.codes(&epilogues)?)?;
        let workspace = (prepared.workspace > 0).then(|| self.workspace(prepared.workspace));
        let (code, call) = Self::call(prepared, operands, results, epilogues, workspace);
        Ok(Step::Contraction { contraction: Box::new(contraction.clone()), code, call })
    }

    /// Prepares a library step.
    pub(super) fn library(&mut self, step: &PlanStep) -> Result<Step<D>> {
        let &PlanStep::Library { op, ref attrs, precision, ref inputs, ref outputs, node, ref epilogues } = step else {
            unreachable!("the caller passes library steps")
        };
        let mut words = SmallVec::new();
        let mut add = |view: &View| {
            let (word, layout) = self.view_word(view)?;
            words.push(word);
            Ok(layout)
        };
        let operands = inputs.iter().map(&mut add).collect::<Result<_>>()?;
        let results = outputs.iter().map(&mut add).collect::<Result<_>>()?;
        let step = Arc::new(LibraryCall { op: op.0, attrs: attrs.clone(), precision, node, operands, results });
        let results = words.drain(inputs.len()..).map(|it: OperandWord| it.word).collect();
        let epilogues = epilogues.iter().map(|it| Ok((it.kernel, self.epilogue_of_op(outputs, it)?)));
        let epilogues: Vec<_> = epilogues.collect::<Result<_>>()?;
        let prepared = self.driver.prepare_library(&step, &self.codes(&epilogues)?)?;
        let order = self.stream_order(definition(step.op).effects, inputs, outputs)?;
        let workspace = self.workspace_of(&order, prepared.workspace);
        let (code, call) = Self::call(prepared, words, results, epilogues, workspace);
        Ok(Step::Library { step, code, call, order })
    }

    /// Prepares a check.
    pub(super) fn run_time_check(&mut self, step: &PlanStep) -> Result<Step<D>> {
        let &PlanStep::Check { op, ref attrs, ref operands, ref record, ref views, node } = step else {
            unreachable!("the caller passes checks")
        };
        let mut words = SmallVec::new();
        let mut add = |view: &View| {
            let (OperandWord { word, .. }, layout) = self.view_word(view)?;
            words.push(word);
            Ok(layout)
        };
        let views = views.iter().map(&mut add).collect::<Result<_>>()?;
        let check = Check { op: op.0, attrs: attrs.clone(), operands: operands.clone(), views, node };
        let record = self.address(record, size_of::<i64>())?;
        Ok(Step::Check { check: Arc::new(check), record, views: words })
    }

    /// Returns epilogues as a driver prepares them.
    fn codes<'s>(&'s self, epilogues: &'s [(KernelId, Epilogue<D>)]) -> Result<Vec<EpilogueCode<'s, D::Kernel>>> {
        let code = |&(id, Epilogue { ref code, ref block, words }): &'s (KernelId, Epilogue<D>)| {
            let (kernel, _) = self.kernel(id)?;
            Ok(EpilogueCode { kernel, code, block: &self.words.template[block.clone()], words })
        };
        epilogues.iter().map(code).collect()
    }

    /// Returns the code of a step and the words of its calls.
    fn call<C>(
        prepared: Prepared<C>,
        operands: SmallVec<[OperandWord; 2]>,
        results: SmallVec<[usize; 1]>,
        epilogues: Vec<(KernelId, Epilogue<D>)>,
        workspace: Option<usize>,
    ) -> (Arc<C>, CallWords<D>) {
        let epilogues = epilogues.into_iter().map(|it| it.1).collect();
        (Arc::new(prepared.code), CallWords { operands, results, epilogues, workspace })
    }

    /// Adds a word with the address of the first element of an operand or a result.
    fn operand_word(&mut self, span: &Span) -> Result<OperandWord> {
        let is_input = matches!(self.check.buffer(span.buffer)?.place, BufferLocation::Input(_));
        let word = self.next_word();
        self.push_address(span.buffer, span.offset)?;
        Ok(OperandWord { word, is_input })
    }

    /// Adds a word with the address of the first element of a view in memory. Returns the layout relative to it.
    fn view_word(&mut self, view: &View) -> Result<(OperandWord, ArrayLayout)> {
        self.check.check_view(view)?;
        let View { buffer, dtype, ref layout } = *view;
        let (first, _) = layout.range();
        let word = self.operand_word(&Span { buffer, offset: first * dtype.size() })?;
        let (shape, strides) = (layout.shape().into(), layout.strides().into());
        // An empty view has no elements, so any offset is as good.
        let offset = layout.offset().saturating_sub(first);
        Ok((word, ArrayLayout { dtype, layout: Layout::new(shape, strides, offset) }))
    }
}
