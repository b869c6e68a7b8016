//! Reads files with a kernel, calls of it, and their results: `tests/kernels/*.kernel`.
//!
//! ```text
//! // interpreted: avx2                      instruction sets without code for this kernel
//! kernel par=1 lanes=parallel seq=0
//!   in %x: f32 any
//!   out %y: f32 unit
//!   point:
//!     x = load %x
//!     y = neg x
//!     store %y, y
//!
//! run [2, 3]
//!   %x = (1.0, -0.0, nan, 2.5, inf, -7.0) strides [1, 2]
//!   %y -> (-1.0, nan, -inf, 0.0, -2.5, 7.0)
//!
//! run [2, *]
//!   %y -> hash 0x0123456789abcdef
//! ```
//!
//! A run lists the extents of all loops. `*` for the lanes stands for each of [`LANES`]. The operands follow, as
//! `%name = elements` with optional strides in elements, or as `%output over %input` for an output that overwrites an
//! input. The results of the outputs come last, in memory order.
//!
//! ```text
//! run      = "run" "[" (int | "*") {"," (int | "*")} "]" {operand} {result}
//! operand  = "%" name "=" elements ["strides" "[" [int {"," int}] "]"] ["axis" int "by" int]
//!          | "%" name "over" "%" name
//! elements = "(" element {"," element} ")"      all, in the order of memory
//!          | "(" element "," ".." ")"           all elements are equal
//!          | "iota"                             0, 1, 2..
//!          | "random" int                       determined by the number
//!          | "unwritten"                        of an output, to give it strides
//!          | "from" int                         of positions, the smallest one; zero by default
//! result   = "%" name "->" ("(" [element {"," element}] ")" | "hash" "0x" digits)
//! ```
//!
//! An input that a run does not name is random. An operand without strides has distinct elements for all steps of the
//! loops that it depends on. The axis of an indexed input has a number of positions, by default five, and a stride in
//! elements. An immediate is an operand of one element. The hash is FNV-1a over the bytes of all elements in memory
//! order, for one number of lanes after the other.

use super::call::{Axis, Call, Form, LANES, element};
use ms_ir::data::{DType, Scalar};
use ms_ir::error::Result;
use ms_ir::math::expand_all;
use ms_ir::testing::Random;
use ms_ir::text::{Token, Tokens, Value, write_element};
use ms_ir::{Kernel, ParamId, Role, StrideClass};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// The maximum number of elements that are listed. Longer results are written as a hash.
const LONGEST_LIST: usize = 40;

/// The contents of guards.
const GUARD: u64 = 0xc3c3_c3c3_c3c3_c3c3;

/// A parsed file.
pub struct File<'a> {
    /// The kernel.
    pub kernel: Kernel,
    /// The names of instruction sets that have no code for the kernel.
    pub interpreted: Vec<&'a str>,
    text: &'a str,
    /// The names of the buffers.
    names: Vec<&'a str>,
    runs: Vec<Run>,
}

/// The calls of one `run` item.
struct Run {
    /// The extent of each loop. `None` stands for each of [`LANES`].
    extents: Vec<Option<usize>>,
    operands: Vec<Operand>,
    /// The expected contents of each buffer, if the file specifies them.
    wanted: Vec<Option<Wanted>>,
    /// The offsets of the ends of the operands and of the results in the text.
    ends: [usize; 2],
}

#[derive(Clone, Default)]
struct Operand {
    elements: Option<Elements>,
    form: Form,
    over: Option<ParamId>,
}

#[derive(Clone)]
enum Elements {
    All(Vec<u64>),
    Same(u64),
    Iota,
    Random(u64),
    Unwritten,
    /// Positions, of which this is the smallest.
    From(u64),
}

#[derive(Clone, PartialEq)]
enum Wanted {
    Elements(Vec<u64>),
    Hash(u64),
}

/// The calls of all runs of a file, after their execution.
pub struct Results(Vec<Vec<Call>>);

impl<'a> File<'a> {
    /// Parses a file.
    ///
    /// # Errors
    /// [`Code::Parse`](ms_ir::Code::Parse) with line and column, and errors of [`Kernel::check`].
    pub fn parse(text: &'a str) -> Result<Self> {
        let setting = |line: &'a str| line.strip_prefix("// interpreted:");
        let interpreted =
            text.lines().find_map(setting).map_or(Vec::new(), |it| it.split(',').map(str::trim).collect());
        let mut tokens = Tokens::new(text)?;
        let named = Kernel::read(&mut tokens, &Token::Word("run"))?;
        named.kernel.check()?;
        let mut names = vec![""; named.kernel.params.len()];
        named.params.iter().for_each(|(name, param)| names[param.0 as usize] = name);
        let mut parser = Parser { tokens, kernel: &named.kernel, params: &named.params };
        let mut runs = Vec::new();
        while parser.tokens.token != Token::End {
            runs.push(parser.run()?);
        }
        Ok(Self { interpreted, text, names, runs, kernel: expand_all(named.kernel) })
    }

    /// Creates all calls, and passes each to `run`.
    pub fn run(&self, mut run: impl FnMut(&mut Call)) -> Results {
        let calls = |it: &Run| {
            let mut calls = it.calls(&self.kernel);
            calls.iter_mut().for_each(&mut run);
            calls
        };
        Results(self.runs.iter().map(calls).collect())
    }

    /// Returns the first difference of the results from the expected ones, if any.
    pub fn difference(&self, results: &Results) -> Option<String> {
        for (number, (run, calls)) in self.runs.iter().zip(&results.0).enumerate() {
            for (param, name) in self.outputs() {
                let dtype = self.kernel.params[param.0 as usize].dtype;
                let Some(want) = &run.wanted[param.0 as usize] else {
                    return Some(format!("run {number}: the file does not say what %{name} holds"));
                };
                let got = match want {
                    Wanted::Elements(_) => Wanted::Elements(elements(calls, param)),
                    Wanted::Hash(_) => Wanted::Hash(hash(calls, param, dtype)),
                };
                if got != *want {
                    let (got, want) = (got.text(dtype), want.text(dtype));
                    return Some(format!("run {number}: %{name} is {got}, not {want}"));
                }
            }
        }
        None
    }

    /// Returns the text of the file with the expected results replaced by `results`.
    pub fn blessed(&self, results: &Results) -> String {
        let (mut out, mut copied) = (String::new(), 0);
        for (run, calls) in self.runs.iter().zip(&results.0) {
            out += &self.text[copied..run.ends[0]];
            copied = run.ends[1];
            for (param, name) in self.outputs() {
                let dtype = self.kernel.params[param.0 as usize].dtype;
                let all = elements(calls, param);
                let several = calls.len() > 1 || all.len() > LONGEST_LIST;
                let wanted = if several { Wanted::Hash(hash(calls, param, dtype)) } else { Wanted::Elements(all) };
                out += &format!("\n  %{name} -> {}", wanted.text(dtype));
            }
        }
        out + &self.text[copied..]
    }

    fn outputs(&self) -> impl Iterator<Item = (ParamId, &str)> {
        let all = self.kernel.params.iter().zip(&self.names).enumerate();
        all.filter(|(_, (it, _))| matches!(it.role, Role::Output | Role::Reloaded))
            .map(|(at, (_, name))| (ParamId(at as u32), *name))
    }
}

impl Results {
    /// Returns the first difference from other results of the same file, if any.
    pub fn difference(&self, want: &Self) -> Option<String> {
        let runs = self.0.iter().zip(&want.0).enumerate();
        let differs = |(run, (got, want)): (usize, (&Vec<Call>, &Vec<Call>))| {
            let what = got.iter().zip(want).find_map(|(got, want)| got.difference(want))?;
            Some(format!("run {run}, {what}"))
        };
        runs.map(differs).find_map(|it| it)
    }
}

fn elements(calls: &[Call], param: ParamId) -> Vec<u64> {
    calls.iter().flat_map(|it| it.elements(param)).collect()
}

fn hash(calls: &[Call], param: ParamId, dtype: DType) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for bits in calls.iter().flat_map(|it| it.elements(param)) {
        for byte in &bits.to_le_bytes()[..dtype.size()] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

impl Wanted {
    fn text(&self, dtype: DType) -> String {
        let mut text = String::new();
        match self {
            Self::Hash(hash) => write!(text, "hash {hash:#018x}"),
            Self::Elements(all) => all.iter().enumerate().try_for_each(|(at, &bits)| {
                text.push_str(if at == 0 { "" } else { ", " });
                write_element(bits, dtype, &mut text)
            }),
        }
        .expect("a string takes any text");
        if matches!(self, Self::Hash(_)) { text } else { format!("({text})") }
    }
}

impl Run {
    /// Returns a call for each number of lanes.
    fn calls(&self, kernel: &Kernel) -> Vec<Call> {
        let call = |mut call: Call| {
            for (at, operand) in self.operands.iter().enumerate() {
                let (param, dtype) = (ParamId(at as u32), kernel.params[at].dtype);
                if let Some(input) = operand.over {
                    call.overwrite(param, input);
                }
                let chosen = match kernel.params[at].role {
                    Role::Input | Role::Indexed | Role::Immediate => {
                        operand.elements.clone().unwrap_or(Elements::Random(at as u64))
                    }
                    Role::Output | Role::Reloaded | Role::Scratch => Elements::Unwritten,
                    Role::Iota => operand.elements.clone().unwrap_or(Elements::From(0)),
                };
                match chosen {
                    Elements::All(all) => call.fill(param, |at| all[at]),
                    Elements::Same(bits) => call.fill(param, |_| bits),
                    Elements::Iota => call.fill(param, |at| Scalar::Int(at as i64).to_bits(dtype)),
                    Elements::Random(seed) => {
                        let random = &mut Random::Seed(seed);
                        call.fill(param, |_| element(random, dtype));
                    }
                    Elements::Unwritten => {}
                    Elements::From(start) => call.count_from(param, start),
                }
            }
            call
        };
        self.forms(kernel).map(call).collect()
    }

    /// Returns the calls with uninitialised operands.
    fn forms(&self, kernel: &Kernel) -> impl Iterator<Item = Call> {
        let forms: Vec<Option<Form>> = self.operands.iter().map(|it| Some(it.form.clone())).collect();
        let lanes: &[usize] = if self.extents.contains(&None) { &LANES } else { &[0] };
        lanes.iter().map(move |&lanes| {
            let extents: Vec<usize> = self.extents.iter().map(|it| it.unwrap_or(lanes)).collect();
            Call::new(kernel, &extents, &forms, GUARD)
        })
    }
}

struct Parser<'a, 'k> {
    tokens: Tokens<'a>,
    kernel: &'k Kernel,
    params: &'k FxHashMap<&'a str, ParamId>,
}

impl Parser<'_, '_> {
    fn run(&mut self) -> Result<Run> {
        let start = self.tokens.at;
        self.tokens.word("run")?;
        let extents = self.list(|it| if it.tokens.eat('*')? { Ok(None) } else { it.size().map(Some) })?;
        let lanes = self.kernel.par as usize;
        if extents.len() != self.kernel.loops() {
            let message = format!("expected {} extents, one for each loop", self.kernel.loops());
            return Err(self.tokens.error(start, message));
        }
        if (0..extents.len()).any(|at| at != lanes && extents[at].is_none()) {
            return Err(self.tokens.error(start, "only the lanes, behind the parallel loops, are given as `*`"));
        }
        let count = self.kernel.params.len();
        let mut run =
            Run { extents, operands: vec![Operand::default(); count], wanted: vec![None; count], ends: [0; 2] };
        run.ends[0] = self.tokens.end;
        let mut wanted = false;
        while matches!(self.tokens.token, Token::Value(_)) {
            let (param, at) = self.param()?;
            if self.tokens.token == Token::Arrow {
                self.tokens.advance()?;
                run.wanted[param.0 as usize] = Some(self.wanted(param)?);
                wanted = true;
                continue;
            }
            if wanted {
                return Err(self.tokens.error(at, "operands stand before results"));
            }
            run.operands[param.0 as usize] = self.operand(param)?;
            self.fits(&run, param, at)?;
            run.ends[0] = self.tokens.end;
        }
        run.ends[1] = self.tokens.end;
        if !matches!(self.tokens.token, Token::Word("run") | Token::End) {
            return Err(self.tokens.expected("an operand, a result, or `run`"));
        }
        Ok(run)
    }

    /// Checks that an operand fits the kernel and the extents.
    fn fits(&self, run: &Run, param: ParamId, at: usize) -> Result<()> {
        let operand = &run.operands[param.0 as usize];
        let info = |param: ParamId| self.kernel.params[param.0 as usize];
        let refuse = |message: String| Err(self.tokens.error(at, message));
        if operand.form.axis.is_some() && info(param).role != Role::Indexed {
            return refuse("only an indexed input has an axis".into());
        }
        if operand.form.strides.is_some() && info(param).role == Role::Immediate {
            return refuse("an immediate has no strides".into());
        }
        if let Some(strides) = &operand.form.strides {
            if strides.len() != self.kernel.loops() {
                return refuse(format!("expected {} strides, one for each loop", self.kernel.loops()));
            }
            let (step, lanes) = (info(param).step, strides[self.kernel.par as usize]);
            if (step == StrideClass::Unit && lanes != 1) || (step == StrideClass::Zero && lanes != 0) {
                return refuse(format!("the stride of the lanes is not that of `{}`", step.name()));
            }
        }
        if let Some(input) = operand.over {
            let pair = [info(param), info(input)].map(|it| (it.role, it.dtype, it.step));
            if pair[0].0 != Role::Output || pair[1] != (Role::Input, pair[0].1, pair[0].2) {
                return refuse("an output lies where an input of its dtype and step lies".into());
            }
        } else if info(param).role.is_written() && !matches!(operand.elements, Some(Elements::Unwritten)) {
            return refuse("an output is `unwritten` before".into());
        }
        let counts = info(param).role == Role::Iota;
        if counts && !matches!(operand.elements, Some(Elements::From(_))) {
            return refuse("positions count `from` one of them".into());
        } else if !counts && matches!(operand.elements, Some(Elements::From(_))) {
            return refuse("only positions count `from` one of them".into());
        }
        if let Some(Elements::All(all)) = &operand.elements {
            let counts = run.forms(self.kernel).map(|it| it.count(param));
            if let Some(count) = counts.into_iter().find(|&it| it != all.len()) {
                return refuse(format!("expected {count} elements, found {}", all.len()));
            }
        }
        Ok(())
    }

    fn operand(&mut self, param: ParamId) -> Result<Operand> {
        if self.tokens.token == Token::Word("over") {
            self.tokens.advance()?;
            let over = Some(self.param()?.0);
            return Ok(Operand { over, ..Operand::default() });
        }
        self.tokens.symbol('=', "its elements")?;
        let dtype = self.kernel.params[param.0 as usize].dtype;
        let elements = match self.tokens.token {
            Token::Symbol('(') => match self.elements(dtype)? {
                (all, false) => Elements::All(all),
                (one, true) => Elements::Same(one[0]),
            },
            Token::Word("iota") => {
                self.tokens.advance()?;
                Elements::Iota
            }
            Token::Word("random") => {
                self.tokens.advance()?;
                Elements::Random(self.tokens.int()? as u64)
            }
            Token::Word("from") => {
                self.tokens.advance()?;
                Elements::From(self.tokens.int()? as u64)
            }
            Token::Word("unwritten") => {
                self.tokens.advance()?;
                Elements::Unwritten
            }
            _ => return Err(self.tokens.expected("`(`, `iota`, `random` or `unwritten`")),
        };
        let mut form = Form::default();
        if self.tokens.token == Token::Word("strides") {
            self.tokens.advance()?;
            form.strides = Some(self.list(|it| it.tokens.int())?);
        }
        if self.tokens.token == Token::Word("axis") {
            self.tokens.advance()?;
            let extent = self.size()?;
            self.tokens.word("by")?;
            form.axis = Some(Axis { extent, stride: self.tokens.int()? });
        }
        Ok(Operand { elements: Some(elements), form, over: None })
    }

    fn wanted(&mut self, param: ParamId) -> Result<Wanted> {
        if self.tokens.token != Token::Word("hash") {
            return Ok(Wanted::Elements(self.elements(self.kernel.params[param.0 as usize].dtype)?.0));
        }
        self.tokens.advance()?;
        let hash = match self.tokens.token {
            Token::Hex(digits) => u64::from_str_radix(digits, 16).ok(),
            _ => None,
        };
        let hash = hash.ok_or_else(|| self.tokens.expected("a hash of 64 bits, as `0x..`"))?;
        self.tokens.advance()?;
        Ok(Wanted::Hash(hash))
    }

    /// Parses elements in parentheses. Also returns whether `..` follows a single element.
    fn elements(&mut self, dtype: DType) -> Result<(Vec<u64>, bool)> {
        let mut all = Vec::new();
        self.tokens.symbol('(', "elements")?;
        if self.tokens.eat(')')? {
            return Ok((all, false));
        }
        loop {
            all.push(self.tokens.element(dtype)?);
            if !self.tokens.more(')')? {
                return Ok((all, false));
            }
            if all.len() == 1 && self.tokens.token == Token::Rest {
                self.tokens.advance()?;
                self.tokens.symbol(')', "the end of the elements")?;
                return Ok((all, true));
            }
        }
    }

    fn param(&mut self) -> Result<(ParamId, usize)> {
        let (Value { text: name, .. }, at) = self.tokens.value("a buffer")?;
        let param = self.params.get(name).copied();
        Ok((param.ok_or_else(|| self.tokens.error(at, format!("there is no buffer `%{name}`")))?, at))
    }

    fn size(&mut self) -> Result<usize> {
        let at = self.tokens.at;
        let int = self.tokens.int()?;
        let size = usize::try_from(int).ok().filter(|it| *it <= 1 << 24);
        size.ok_or_else(|| self.tokens.error(at, "expected an extent from 0 to 2^24"))
    }

    /// Parses a list of items in brackets, separated by commas.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        self.tokens.symbol('[', "a list")?;
        if !self.tokens.eat(']')? {
            loop {
                items.push(item(self)?);
                if !self.tokens.more(']')? {
                    break;
                }
            }
        }
        Ok(items)
    }
}
