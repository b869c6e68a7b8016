//! Reads Python pickles as data, protocols 2 to 5 (the opcodes are documented in `pickletools`). Nothing that a pickle
//! names is looked up or run. Values are numbered and refer to each other by number, so deep nesting cannot overflow
//! the stack.

use super::bytes::{take, take_array};
use std::collections::HashMap;

/// The maximum length of a module name or of a name in it.
const MAX_NAME: usize = 1 << 8;

/// The number of a value.
pub type Id = usize;

/// A value of a pickle.
#[derive(Debug, PartialEq)]
pub enum Value {
    /// None, bytes, and numbers other than 64-bit integers.
    Other,
    Int(i64),
    Text(String),
    /// A tuple or a list.
    Items(Vec<Id>),
    /// A dict: keys and values.
    Dict(Vec<[Id; 2]>),
    /// A global: a module and a name in it, such as `torch Size`.
    Global(String),
    /// The call of a global with a tuple of arguments.
    Call(Id, Id),
    /// A persistent id: a reference to an object outside of the pickle.
    Persistent(Id),
}

/// The values of a pickle, and the state of the unpickler.
#[derive(Default)]
pub struct Pickle {
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl Pickle {
    /// Reads a pickle. Returns its values and the root.
    ///
    /// # Errors
    /// A description of the defect.
    pub fn read(mut bytes: &[u8]) -> Result<(Self, Id), String> {
        let mut pickle = Self::default();
        loop {
            let [opcode] = take_array(&mut bytes)?;
            if opcode == b'.' {
                let root = pickle.pop()?;
                return Ok((pickle, root));
            }
            pickle.step(opcode, &mut bytes)?;
        }
    }

    /// Returns a value.
    pub fn value(&self, id: Id) -> &Value {
        &self.values[id]
    }

    /// Returns the persistent ids, each with the value that describes its target.
    pub fn persistent(&self) -> impl Iterator<Item = (Id, Id)> {
        self.values.iter().enumerate().filter_map(|(at, it)| match it {
            Value::Persistent(of) => Some((at, *of)),
            _ => None,
        })
    }

    /// Executes an opcode; its argument is at the front of `bytes`.
    fn step(&mut self, opcode: u8, bytes: &mut &[u8]) -> Result<(), String> {
        match opcode {
            // Protocol and frame headers carry no data.
            0x80 => _ = take(bytes, 1)?,
            0x95 => _ = take(bytes, 8)?,
            b'N' => self.push(Value::Other),
            0x88 => self.push(Value::Int(1)),
            0x89 => self.push(Value::Int(0)),
            b'J' => self.push(Value::Int(i32::from_le_bytes(take_array(bytes)?).into())),
            b'K' => self.push(Value::Int(u8::from_le_bytes(take_array(bytes)?).into())),
            b'M' => self.push(Value::Int(u16::from_le_bytes(take_array(bytes)?).into())),
            b'G' => {
                take(bytes, 8)?;
                self.push(Value::Other);
            }
            0x8a => {
                let [length] = take_array(bytes)?;
                let digits = take(bytes, length.into())?;
                self.push(long(digits));
            }
            b'X' | 0x8c => {
                let text = take_sized(bytes, if opcode == b'X' { 4 } else { 1 })?;
                let text = String::from_utf8(text.to_vec()).map_err(|_| "a text in its pickle is none")?;
                self.push(Value::Text(text));
            }
            b'B' | b'C' => {
                take_sized(bytes, if opcode == b'B' { 4 } else { 1 })?;
                self.push(Value::Other);
            }
            b')' | b']' => self.push(Value::Items(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b'(' => self.marks.push(self.stack.len()),
            b't' | b'l' => {
                let items = self.pop_marked()?;
                self.push(Value::Items(items));
            }
            0x85..=0x87 => {
                let first = self.stack.len().checked_sub(usize::from(opcode - 0x84)).ok_or_else(underflow)?;
                let items = self.stack.split_off(first);
                self.push(Value::Items(items));
            }
            b'd' => {
                let items = self.pop_marked()?;
                self.push(Value::Dict(Vec::new()));
                self.set_items(&items)?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' => {
                let items = self.pop_marked()?;
                self.append(&items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_marked()?;
                self.set_items(&items)?;
            }
            b'c' => {
                let [module, name] = [take_line(bytes)?, take_line(bytes)?];
                self.push(Value::Global(format!("{module} {name}")));
            }
            0x93 => {
                let [name, module] = [self.pop()?, self.pop()?].map(|it| &self.values[it]);
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err("a name in its pickle is no text".to_owned());
                };
                // Bounds memory, since a memoised text may be used many times.
                if module.len().max(name.len()) > MAX_NAME {
                    return Err("a name in its pickle is too long".to_owned());
                }
                self.push(Value::Global(format!("{module} {name}")));
            }
            b'R' | 0x81 => {
                let (arguments, of) = (self.pop()?, self.pop()?);
                self.push(Value::Call(of, arguments));
            }
            // Ignores the state of an object, such as the metadata of a state dict.
            b'b' => {
                self.pop()?;
                self.top()?;
            }
            b'Q' => {
                let of = self.pop()?;
                self.push(Value::Persistent(of));
            }
            b'q' | b'r' | 0x94 => {
                let at = match opcode {
                    b'q' => u8::from_le_bytes(take_array(bytes)?).into(),
                    b'r' => u32::from_le_bytes(take_array(bytes)?),
                    _ => self.memo.len() as u32,
                };
                self.memo.insert(at, self.top()?);
            }
            b'h' | b'j' => {
                let at = match opcode {
                    b'h' => u8::from_le_bytes(take_array(bytes)?).into(),
                    _ => u32::from_le_bytes(take_array(bytes)?),
                };
                let known = self.memo.get(&at).ok_or("its pickle refers to nothing")?;
                self.stack.push(*known);
            }
            b'0' => _ = self.pop()?,
            b'1' => _ = self.pop_marked()?,
            _ => return Err(format!("its pickle has the opcode {opcode:#04x}, which no weights need")),
        }
        Ok(())
    }

    fn push(&mut self, value: Value) {
        self.stack.push(self.values.len());
        self.values.push(value);
    }

    /// Returns the value on top of the stack, above the last mark.
    fn top(&self) -> Result<Id, String> {
        let above = self.stack.len() > self.marks.last().copied().unwrap_or(0);
        self.stack.last().copied().filter(|_| above).ok_or_else(underflow)
    }

    fn pop(&mut self) -> Result<Id, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Pops the values above the last mark, and the mark.
    fn pop_marked(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or_else(underflow)?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn append(&mut self, items: &[Id]) -> Result<(), String> {
        let list = self.top()?;
        match &mut self.values[list] {
            Value::Items(all) => all.extend_from_slice(items),
            _ => return Err("its pickle appends to what is no list".to_owned()),
        }
        Ok(())
    }

    /// Adds alternating keys and values to a dict.
    fn set_items(&mut self, items: &[Id]) -> Result<(), String> {
        let dict = self.top()?;
        if let Value::Call(of, _) = self.values[dict]
            && self.values[of] == Value::Global("collections OrderedDict".to_owned())
        {
            self.values[dict] = Value::Dict(Vec::new());
        }
        let (pairs, []) = items.as_chunks::<2>() else { return Err("its pickle has a key without a value".to_owned()) };
        match &mut self.values[dict] {
            Value::Dict(all) => all.extend_from_slice(pairs),
            _ => return Err("its pickle has items of what is no dict".to_owned()),
        }
        Ok(())
    }
}

fn underflow() -> String {
    "its pickle takes a value that is not there".to_owned()
}

/// Decodes a little-endian integer.
fn long(digits: &[u8]) -> Value {
    let is_negative = digits.last().is_some_and(|it| it & 0x80 != 0);
    let mut whole = [if is_negative { 0xff } else { 0 }; 8];
    let Some(to) = whole.get_mut(..digits.len()) else { return Value::Other };
    to.copy_from_slice(digits);
    Value::Int(i64::from_le_bytes(whole))
}

/// Splits off bytes that are preceded by their count, an integer of `size` bytes.
fn take_sized<'a>(bytes: &mut &'a [u8], size: usize) -> Result<&'a [u8], String> {
    let mut length = [0; 8];
    length[..size].copy_from_slice(take(bytes, size)?);
    take(bytes, u64::from_le_bytes(length) as usize)
}

/// Splits off a line of text.
fn take_line<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, String> {
    let end = bytes.iter().position(|it| *it == b'\n').ok_or("a name in its pickle has no end")?;
    let line = take(bytes, end + 1)?;
    std::str::from_utf8(&line[..end]).map_err(|_| "a name in its pickle is no text".to_owned())
}
