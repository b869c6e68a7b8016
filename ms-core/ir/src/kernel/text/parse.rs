//! Parses kernels from text.

use super::super::names::{Form, Head};
use super::super::{
    Inst, Kernel, LaneAxis, Param, ParamId, Reducer, ReductionOrder, Role, Scope, Stage, StrideClass, Val,
};
use crate::data::DType;
use crate::error::Result;
use crate::text::{Token, Tokens, Value};
use rustc_hash::FxHashMap;

impl Kernel {
    /// Reads a kernel in the text form (see [`Kernel`]'s module).
    ///
    /// Values of the kernel are defined before they are used. [`Kernel::check`] verifies the rest.
    ///
    /// # Errors
    /// [`Code::Parse`](crate::Code::Parse) with line, column, and what was expected.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(&mut Tokens::new(text)?, &Token::End).map(|it| it.kernel)
    }

    /// Parses a kernel inside a larger text, up to the word `end`, which starts neither an instruction nor a stage.
    ///
    /// # Errors
    /// See [`Kernel::parse`].
    pub fn read<'a>(tokens: &mut Tokens<'a>, end: &Token<'_>) -> Result<NamedKernel<'a>> {
        let mut parser = Parser { tokens, params: FxHashMap::default(), values: FxHashMap::default() };
        let kernel = parser.kernel(end)?;
        Ok(NamedKernel { kernel, params: parser.params })
    }
}

/// A kernel with the names of its buffers in the text.
pub struct NamedKernel<'a> {
    /// The kernel.
    pub kernel: Kernel,
    /// The buffers by name, without `%`.
    pub params: FxHashMap<&'a str, ParamId>,
}

struct Parser<'t, 'a> {
    tokens: &'t mut Tokens<'a>,
    params: FxHashMap<&'a str, ParamId>,
    values: FxHashMap<&'a str, Val>,
}

impl Parser<'_, '_> {
    fn kernel(&mut self, end: &Token<'_>) -> Result<Kernel> {
        self.tokens.word("kernel")?;
        let par = self.setting("par", Self::small)?;
        let lanes = self.setting("lanes", |it| it.tokens.named("`parallel` or `reduced`", LaneAxis::from_name))?;
        let seq = self.setting("seq", Self::small)?;
        let (mut order, mut run) = (ReductionOrder::Lanes, 0);
        if self.tokens.token == Token::Word("order") {
            order = self.setting("order", |it| it.tokens.named("`lanes` or `blocks`", ReductionOrder::from_name))?;
            if self.tokens.token == Token::Word("run") {
                run = self.setting("run", Self::small)?;
            }
        }
        let (insts, types, stages) = (Vec::new(), Vec::new(), Vec::new());
        let mut kernel = Kernel { par, seq, lanes, order, run, params: Vec::new(), insts, types, stages };
        while let Token::Word(word) = self.tokens.token
            && let Some(role) = Role::from_name(word)
        {
            self.tokens.advance()?;
            self.param(&mut kernel, role)?;
        }
        while self.tokens.token != *end {
            let what = if kernel.params.is_empty() && kernel.stages.is_empty() {
                "`in`, `indexed`, `out`, `reloaded`, `scratch`, `pos`, `imm`, or a stage, `point`, `loop` or `repeat`"
            } else {
                "a stage, `point`, `loop` or `repeat`"
            };
            let scope = self.tokens.named(what, Scope::from_name)?;
            self.tokens.symbol(':', "its instructions")?;
            while let Token::Word(word) = self.tokens.token
                && Scope::from_name(word).is_none()
                && self.tokens.token != *end
            {
                self.inst(&mut kernel)?;
            }
            kernel.stages.push(Stage { scope, end: kernel.insts.len() as u32 });
            let ends = self.tokens.token == *end || matches!(self.tokens.token, Token::Word(_));
            if !ends {
                return Err(self.tokens.expected("an instruction or a stage"));
            }
        }
        Ok(kernel)
    }

    /// Parses `name = value`.
    fn setting<T>(&mut self, name: &str, value: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.tokens.word(name)?;
        self.tokens.symbol('=', "its value")?;
        value(self)
    }

    fn small(&mut self) -> Result<u8> {
        let at = self.tokens.at;
        let int = self.tokens.int()?;
        u8::try_from(int).map_err(|_| self.tokens.error(at, "expected a number from 0 to 255"))
    }

    fn param(&mut self, kernel: &mut Kernel, role: Role) -> Result<()> {
        let (Value { text: name, .. }, at) = self.tokens.value("a buffer")?;
        self.tokens.symbol(':', "its dtype")?;
        let dtype = self.dtype()?;
        let step = match role {
            Role::Immediate => StrideClass::Zero,
            _ => self.tokens.named("`unit`, `zero` or `any`", StrideClass::from_name)?,
        };
        if self.params.insert(name, ParamId(kernel.params.len() as u32)).is_some() {
            return Err(self.tokens.error(at, format!("`%{name}` is defined twice")));
        }
        kernel.params.push(Param { dtype, role, step });
        Ok(())
    }

    fn inst(&mut self, kernel: &mut Kernel) -> Result<()> {
        let mut defined = None;
        if let Token::Word(name) = self.tokens.token
            && !Head::from_name(name).is_some_and(Head::is_statement)
        {
            defined = Some((name, self.tokens.at));
            self.tokens.advance()?;
            self.tokens.symbol('=', "the value's instruction")?;
        }
        let at = self.tokens.at;
        let head = self
            .tokens
            .named("an instruction", |it| Head::from_name(it).filter(|it| defined.is_none() || !it.is_statement()))?;
        let (inst, written) = self.operands(head)?;
        let Some(dtype) = written.or_else(|| kernel.result(&inst)) else {
            return Err(self.tokens.error(at, "this dtype has no bitcast"));
        };
        if let Some((name, at)) = defined
            && self.values.insert(name, Val(kernel.insts.len() as u32)).is_some()
        {
            return Err(self.tokens.error(at, format!("`{name}` is defined twice")));
        }
        kernel.insts.push(inst);
        kernel.types.push(dtype);
        Ok(())
    }

    /// Parses the instruction with the mnemonic `head`, and its dtype if it is written.
    fn operands(&mut self, head: Head) -> Result<(Inst, Option<DType>)> {
        let inst = match head {
            Head::Form(Form::Load) => Inst::Load(self.buffer()?),
            Head::Form(Form::Gather) => {
                let param = self.buffer()?;
                self.tokens.symbol(',', "the position")?;
                Inst::Gather(param, self.value()?)
            }
            Head::Form(Form::Store) => {
                let param = self.buffer()?;
                self.tokens.symbol(',', "the value")?;
                Inst::Store(param, self.value()?)
            }
            Head::Form(Form::Const) => {
                let dtype = self.dtype()?;
                return Ok((Inst::Const(self.tokens.element(dtype)?), Some(dtype)));
            }
            Head::Form(Form::Index) => Inst::Index(self.small()?),
            Head::Form(Form::Fma) => {
                let [a, b, c] = self.values()?;
                Inst::Fma(a, b, c)
            }
            Head::Form(Form::Select) => {
                let [condition, then, other] = self.values()?;
                Inst::Select(condition, then, other)
            }
            Head::Form(Form::Cast) => {
                let value = self.value()?;
                self.tokens.word("to")?;
                Inst::Cast { value, to: self.dtype()? }
            }
            Head::Form(Form::Reduce) => {
                let reducer = self.tokens.named("a reducer", Reducer::from_name)?;
                Inst::Reduce(reducer, self.value()?)
            }
            Head::Form(Form::Carry) => Inst::Carry(self.value()?),
            Head::Form(Form::While) => Inst::While(self.value()?),
            Head::Form(Form::Next) => {
                let [carry, value] = self.values()?;
                Inst::Next(carry, value)
            }
            Head::Unary(op) => Inst::Unary(op, self.value()?),
            Head::Binary(op) => {
                let [a, b] = self.values()?;
                Inst::Binary(op, a, b)
            }
            Head::Math(math) if math.arity() == 1 => Inst::Math(math, self.value()?, None),
            Head::Math(math) => {
                let [a, b] = self.values()?;
                Inst::Math(math, a, Some(b))
            }
            Head::Compare(op) => {
                let [a, b] = self.values()?;
                Inst::Compare(op, a, b)
            }
        };
        Ok((inst, None))
    }

    fn dtype(&mut self) -> Result<DType> {
        self.tokens.named("a dtype", DType::from_name)
    }

    fn buffer(&mut self) -> Result<ParamId> {
        let (Value { text: name, .. }, at) = self.tokens.value("a buffer")?;
        let param = self.params.get(name).copied();
        param.ok_or_else(|| self.tokens.error(at, format!("there is no buffer `%{name}`")))
    }

    fn value(&mut self) -> Result<Val> {
        let Token::Word(name) = self.tokens.token else {
            return Err(self.tokens.expected("a value"));
        };
        let at = self.tokens.at;
        self.tokens.advance()?;
        let value = self.values.get(name).copied();
        value.ok_or_else(|| self.tokens.error(at, format!("`{name}` is not defined before this")))
    }

    /// Parses values separated by commas.
    fn values<const N: usize>(&mut self) -> Result<[Val; N]> {
        let mut values = [Val(0); N];
        for (i, value) in values.iter_mut().enumerate() {
            if i > 0 {
                self.tokens.symbol(',', "the next operand")?;
            }
            *value = self.value()?;
        }
        Ok(values)
    }
}
