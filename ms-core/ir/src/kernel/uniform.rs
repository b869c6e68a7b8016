//! Analyses which values are uniform over the lanes.

use super::{Inst, Kernel, LaneAxis, ParamId, Scope, StrideClass, Val};

impl Kernel {
    /// Returns for each value whether it is uniform over the lanes, whatever the operands. A carry is uniform if its
    /// first and next values are.
    pub fn uniform(&self) -> Vec<bool> {
        let mut varies = vec![false; self.insts.len()];
        loop {
            let uniform = self.uniform_unless(&varies);
            let mut is_known = true;
            for inst in &self.insts {
                if let Inst::Next(carry, value) = *inst
                    && !uniform[value.0 as usize]
                {
                    is_known &= std::mem::replace(&mut varies[carry.0 as usize], true);
                }
            }
            if is_known {
                return uniform;
            }
        }
    }

    /// Returns for each value whether it is uniform over the lanes, assuming that the values in `varies` are not.
    fn uniform_unless(&self, varies: &[bool]) -> Vec<bool> {
        let mut uniform: Vec<bool> = Vec::with_capacity(self.insts.len());
        for (stage, of) in self.stages.iter().enumerate() {
            let is_row = self.lanes == LaneAxis::Reduced && of.scope == Scope::Point;
            for at in self.stage_range(stage) {
                let inst = self.insts[at];
                let stays = |param: ParamId| self.params[param.0 as usize].step == StrideClass::Zero;
                let own = match inst {
                    Inst::Load(param) | Inst::Gather(param, _) => stays(param),
                    Inst::Index(axis) => axis != self.par,
                    _ => !varies[at],
                };
                let is_reduction = self.lanes == LaneAxis::Reduced && matches!(inst, Inst::Reduce(..));
                let of = |it: Val| uniform[it.0 as usize];
                uniform.push(is_row || is_reduction || own && inst.operands().all(of));
            }
        }
        uniform
    }
}
