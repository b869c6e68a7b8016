//! Reads and writes `torch.save` files since PyTorch 1.6: a zip archive with a pickle and the bytes of each storage.

use super::archive::{Member, members, write_archive};
use super::pickle::{Id, Pickle, Value};
use ms_core::DType;
use ms_core::tensor::{Array, HostArray, Layout, sized};
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// The dtypes and their storage classes.
const STORAGES: [(DType, &str); 10] = [
    (DType::Bool, "torch BoolStorage"),
    (DType::I8, "torch CharStorage"),
    (DType::I16, "torch ShortStorage"),
    (DType::I32, "torch IntStorage"),
    (DType::I64, "torch LongStorage"),
    (DType::U8, "torch ByteStorage"),
    (DType::F16, "torch HalfStorage"),
    (DType::BF16, "torch BFloat16Storage"),
    (DType::F32, "torch FloatStorage"),
    (DType::F64, "torch DoubleStorage"),
];

/// The maximum length of a path in bytes; a value that occurs in several dicts has several paths.
const MAX_PATH: usize = 1 << 12;

/// The supported globals. A call of one of them only wraps its arguments.
const DICT: &str = "collections OrderedDict";
const TENSOR: &str = "torch._utils _rebuild_tensor_v2";
const PARAMETER: &str = "torch._utils _rebuild_parameter";
const SIZE: &str = "torch Size";

/// The maximum nesting of dicts and lists.
const MAX_DEPTH: usize = 32;

/// The maximum number of visited values; a value that occurs several times counts each time.
const MAX_VALUES: usize = 1 << 20;

/// Reads the tensors of a file by name. Tensors in nested dicts and lists have paths: `model.fc.weight`, `layers[0]`.
/// Other values, such as numbers and text, are ignored.
///
/// # Errors
/// A description of the defect of the file.
pub fn read(file: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    let members = members(file).map_err(|why| format!("{why}; PyTorch before 1.6 wrote other files"))?;
    let is_pickle = |it: &&Member<'_>| it.name == "data.pkl" || it.name.ends_with("/data.pkl");
    let pickle = members.iter().find(is_pickle).ok_or("it has no `data.pkl`, so PyTorch did not save it")?;
    let folder = pickle.name.strip_suffix("data.pkl").expect("it was found by its end");
    let within = |it: &Member<'_>, why| format!("`{}`: {why}", it.name);
    let mut inside = HashMap::new();
    for member in &members {
        // The first of two members with one name is used.
        if let Some(name) = member.name.strip_prefix(folder) {
            inside.entry(name).or_insert(member);
        }
    }
    let content = |name: &str| {
        let member = inside.get(name);
        member.map(|it| it.content().map_err(|why| within(it, why))).transpose()
    };
    if content("byteorder")?.is_some_and(|it| *it != *b"little") || cfg!(target_endian = "big") {
        return Err("it has another order of bytes than this machine".to_owned());
    }
    let bytes = pickle.content().map_err(|why| within(pickle, why))?;
    let (pickle, root) = Pickle::read(&bytes)?;
    let mut reader = Reader { pickle, storages: HashMap::new(), made: BTreeMap::new(), values: 0 };
    reader.load_storages(|key| content(&format!("data/{key}"))?.ok_or_else(|| format!("it has no storage `{key}`")))?;
    if reader.visit(root, "", 0)? {
        return Err("it is of one tensor, which has no name".to_owned());
    }
    Ok(reader.made)
}

/// Returns PyTorch's storage class of a dtype. Unsigned integers of more than one byte have none.
pub fn storage_class(dtype: DType) -> Option<&'static str> {
    STORAGES.into_iter().find(|it| it.0 == dtype).map(|it| it.1)
}

/// Writes a dict of these arrays, each with its own storage.
///
/// # Errors
/// The errors of `out`.
///
/// # Panics
/// Panics for a dtype without a [storage class](storage_class).
pub fn write(arrays: &BTreeMap<String, HostArray<'_>>, out: &mut dyn Write) -> io::Result<()> {
    /// The format version, which is the same since PyTorch 1.6.
    const VERSION: &[u8] = b"3\n";
    const BYTE_ORDER: &[u8] = if cfg!(target_endian = "big") { b"big" } else { b"little" };
    let storage = |(at, it)| (format!("archive/data/{at}"), Cow::Borrowed(HostArray::bytes(it)));
    let mut files: BTreeMap<String, Cow<'_, [u8]>> = arrays.values().enumerate().map(storage).collect();
    files.insert("archive/data.pkl".to_owned(), pickled(arrays).into());
    files.insert("archive/version".to_owned(), VERSION.into());
    files.insert("archive/byteorder".to_owned(), BYTE_ORDER.into());
    write_archive(&files, out)
}

/// Pickles a dict of these arrays, with storages numbered in their order.
fn pickled(arrays: &BTreeMap<String, HostArray<'_>>) -> Vec<u8> {
    let text = |it: &str| {
        let length = u32::try_from(it.len()).expect("names have less than 4 GiB");
        [b"X", &length.to_le_bytes()[..], it.as_bytes()].concat()
    };
    let int = |it: usize| match i32::try_from(it) {
        Ok(it) => [b"J", &it.to_le_bytes()[..]].concat(),
        Err(_) => [b"\x8a\x08", &it.to_le_bytes()[..]].concat(),
    };
    let tuple = |items: &[Vec<u8>]| [b"(", &*items.concat(), b"t"].concat();
    let global = |it: &str| format!("c{}\n", it.replace(' ', "\n")).into_bytes();
    let no_hooks = [&global(DICT), &b")R"[..]].concat();
    let mut pickle = b"\x80\x02}(".to_vec();
    for (at, (name, array)) in arrays.iter().enumerate() {
        let class = storage_class(array.dtype()).expect("the caller refuses others");
        let parts = [text("storage"), global(class), text(&at.to_string()), text("cpu"), int(array.numel())];
        let storage = [tuple(&parts), b"Q".to_vec()].concat();
        let shape: Vec<_> = array.shape().iter().map(|it| int(*it)).collect();
        let strides: Vec<_> = array.layout().strides().iter().map(|it| int(it.unsigned_abs())).collect();
        let requires_grad = b"\x89".to_vec();
        let arguments = tuple(&[storage, int(0), tuple(&shape), tuple(&strides), requires_grad, no_hooks.clone()]);
        pickle.extend([text(name), global(TENSOR), arguments, b"R".to_vec()].concat());
    }
    pickle.extend(b"u.");
    pickle
}

/// The key of a value in its dict or list.
enum Key {
    Position(usize),
    Value(Id),
}

struct Reader {
    pickle: Pickle,
    /// The elements of each storage, by the value that refers to it. Tensors may share a storage.
    storages: HashMap<Id, Array>,
    made: BTreeMap<String, Array>,
    /// The number of visited values.
    values: usize,
}

impl Reader {
    /// Loads the storages that the pickle refers to.
    fn load_storages<'a>(&mut self, content: impl Fn(&str) -> Result<Cow<'a, [u8]>, String>) -> Result<(), String> {
        let mut known: HashMap<(&str, DType), Array> = HashMap::new();
        for (id, of) in self.pickle.persistent() {
            let Value::Items(parts) = self.pickle.value(of) else { return Err(odd("reference")) };
            let [kind, class, key, _, _] = parts[..] else { return Err(odd("reference")) };
            let (Value::Text(kind), Value::Global(class), Value::Text(key)) =
                (self.pickle.value(kind), self.pickle.value(class), self.pickle.value(key))
            else {
                return Err(odd("reference"));
            };
            if kind != "storage" {
                return Err(format!("it refers to a `{kind}`"));
            }
            let dtype = STORAGES.into_iter().find(|it| it.1 == class).map(|it| it.0);
            let dtype = dtype.ok_or_else(|| format!("there is no dtype here for `{class}`"))?;
            let elements = match known.entry((key, dtype)) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(place) => {
                    let bytes = content(key)?;
                    let count = bytes.len() / dtype.size();
                    let whole = &bytes[..count * dtype.size()];
                    place.insert(Array::from_bytes(&[count], dtype, whole)).clone()
                }
            };
            self.storages.insert(id, elements);
        }
        Ok(())
    }

    /// Collects the tensors in the value at this path; returns whether the value itself is a tensor.
    fn visit(&mut self, id: Id, path: &str, depth: usize) -> Result<bool, String> {
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES || path.len() > MAX_PATH {
            return Err("its values are too many, or nested too deeply".to_owned());
        }
        let parts: Vec<(Key, Id)> = match self.pickle.value(id) {
            Value::Items(items) => items.iter().enumerate().map(|(at, it)| (Key::Position(at), *it)).collect(),
            Value::Dict(items) => items.iter().map(|&[key, value]| (Key::Value(key), value)).collect(),
            Value::Call(..) => match self.call(id)? {
                (TENSOR, arguments) => {
                    let array = self.tensor(arguments).map_err(|why| format!("`{path}`: {why}"))?;
                    if self.made.insert(path.to_owned(), array).is_some() {
                        return Err(format!("two tensors are named `{path}`"));
                    }
                    return Ok(true);
                }
                (PARAMETER, [data, ..]) => {
                    let data = *data;
                    return self.visit(data, path, depth + 1);
                }
                (DICT, []) | (SIZE, _) => Vec::new(),
                (name, _) => return Err(no_tensor(name)),
            },
            Value::Persistent(_) | Value::Other | Value::Int(_) | Value::Text(_) => Vec::new(),
            Value::Global(name) => return Err(no_tensor(name)),
        };
        for (key, id) in parts {
            let dot = if path.is_empty() { "" } else { "." };
            let path = match key {
                Key::Position(at) => format!("{path}[{at}]"),
                Key::Value(key) => match self.pickle.value(key) {
                    // Bounds memory, since one long key may be shared by many values.
                    Value::Text(key) if key.len() > MAX_PATH => return Err("it has too long a name".to_owned()),
                    Value::Text(key) => format!("{path}{dot}{key}"),
                    Value::Int(key) => format!("{path}{dot}{key}"),
                    _ => return Err(odd("key")),
                },
            };
            self.visit(id, &path, depth + 1)?;
        }
        Ok(false)
    }

    /// Returns the global and the arguments of a call.
    fn call(&self, id: Id) -> Result<(&str, &[Id]), String> {
        let Value::Call(of, arguments) = self.pickle.value(id) else { return Err(odd("call")) };
        match (self.pickle.value(*of), self.pickle.value(*arguments)) {
            (Value::Global(name), Value::Items(arguments)) => Ok((name, arguments)),
            _ => Err(odd("call")),
        }
    }

    /// Returns the numbers of a tuple or shape, none of which is negative.
    fn sizes(&self, id: Id) -> Result<Vec<usize>, String> {
        let items = match self.call(id) {
            Ok((SIZE, &[items])) => items,
            _ => id,
        };
        let Value::Items(items) = self.pickle.value(items) else { return Err(odd("shape")) };
        items.iter().map(|it| self.size(*it)).collect()
    }

    fn size(&self, id: Id) -> Result<usize, String> {
        match self.pickle.value(id) {
            Value::Int(it) => usize::try_from(*it).map_err(|_| format!("{it} is no size")),
            _ => Err(odd("size")),
        }
    }

    /// Builds a tensor from its arguments: storage, offset, shape and strides.
    fn tensor(&self, arguments: &[Id]) -> Result<Array, String> {
        let [storage, offset, shape, strides, ..] = *arguments else { return Err(odd("tensor")) };
        let elements = self.storages.get(&storage).ok_or_else(|| odd("tensor"))?;
        let (dtype, count) = (elements.dtype(), elements.numel());
        let (offset, shape, strides) = (self.size(offset)?, self.sizes(shape)?, self.sizes(strides)?);
        let (_, size) = sized(dtype, &shape)?;
        if strides.len() != shape.len() {
            return Err(odd("tensor"));
        }
        if size == 0 {
            return Ok(Array::from_bytes(&shape, dtype, &[]));
        }
        let outside = || format!("{dtype}{shape:?} is not within its storage of {count} elements");
        let reach = |last: usize, (size, stride): (&usize, &usize)| last.checked_add(stride.checked_mul(size - 1)?);
        let last = shape.iter().zip(&strides).try_fold(offset, reach).ok_or_else(outside)?;
        if last >= count {
            return Err(outside());
        }
        // A strided view avoids a copy, which could take far more memory than the file: tensors may share a storage, or
        // repeat its elements.
        let strides = strides.iter().map(|&it| it as isize).collect();
        Ok(elements.with_layout(Layout::new(shape.into_iter().collect(), strides, offset)))
    }
}

/// Describes the defect of an unsupported object.
fn no_tensor(name: &str) -> String {
    format!("it has a `{name}`, which is no tensor; save the `state_dict()`")
}

/// Describes a part that PyTorch does not write.
fn odd(what: &str) -> String {
    format!("a {what} in it is not as PyTorch writes it")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that PyTorch 2.15 saved: a state dict, a training run, and a whole module.
    const STATE: &[u8] = include_bytes!("../../tests/data/state_dict.pt");
    const RUN: &[u8] = include_bytes!("../../tests/data/run.pt");
    const MODULE: &[u8] = include_bytes!("../../tests/data/module.pt");

    #[track_caller]
    fn check(file: &[u8], want: &[&str]) {
        let arrays = read(file).expect("PyTorch saved it");
        let value =
            |it: &Array| it.on_host().expect("it is here").scalars().iter().map(|it| it.as_f64()).collect::<Vec<_>>();
        let text = |(name, it): (&String, &Array)| format!("{name} {}{:?} {:?}", it.dtype(), it.shape(), value(it));
        assert_eq!(arrays.iter().map(text).collect::<Vec<_>>(), want);
    }

    #[test]
    fn files_of_pytorch() {
        check(
            STATE,
            &[
                "brain bf16[3] [1.5, -2.0, 0.25]",
                "d f64[1] [0.125]",
                "fc.row f32[4] [1.0, 1.25, 1.5, 1.75]",
                "fc.turned f32[4, 3] [0.0, 1.0, 2.0, 0.25, 1.25, 2.25, 0.5, 1.5, 2.5, 0.75, 1.75, 2.75]",
                "fc.weight f32[2, 3] [0.0, 0.25, 0.5, 1.0, 1.25, 1.5]",
                "half f16[2] [1.5, -2.0]",
                "mask bool[2] [1.0, 0.0]",
                "none f32[0, 3] []",
                "num i64[] [7.0]",
                "u u8[2] [0.0, 255.0]",
            ],
        );
        check(
            RUN,
            &[
                "model.bias f32[1] [2.0]",
                "model.weight f32[1, 2] [0.5, -1.0]",
                "optimizer.state.0.exp_avg f32[1, 2] [0.10000000149011612, 0.10000000149011612]",
                "optimizer.state.0.exp_avg_sq f32[1, 2] [0.0010000000474974513, 0.0010000000474974513]",
                "optimizer.state.0.step f32[] [1.0]",
                "optimizer.state.1.exp_avg f32[1] [0.10000000149011612]",
                "optimizer.state.1.exp_avg_sq f32[1] [0.0010000000474974513]",
                "optimizer.state.1.step f32[] [1.0]",
            ],
        );
    }

    /// Builds an archive with these members.
    fn archive(pickle: &[u8], storage: &[u8]) -> Vec<u8> {
        let members = [("x/data.pkl", pickle), ("x/data/0", storage)];
        let members = members.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
        let mut archive = Vec::new();
        write_archive(&members.into(), &mut archive).expect("nothing fails");
        archive
    }

    /// Builds the pickle of a dict with one tensor of this shape and these strides, over a storage of floats.
    fn pickle(shape: u8, stride: u8) -> Vec<u8> {
        let storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ";
        let call = b"ctorch._utils\n_rebuild_tensor_v2\n(";
        let rest = [b'K', 0, b'K', shape, 0x85, b'K', stride, 0x85, 0x89, b'}', b't', b'R'];
        [b"\x80\x02}X\x01\0\0\0w", &call[..], storage, &rest, b"s."].concat()
    }

    /// PyTorch 2.15 loads this pickle, also with `weights_only=True`.
    #[test]
    fn pickles() {
        let matrix = Array::from_bytes(&[2, 1], DType::F32, &[0; 8]).into_host().expect("it is here");
        let want: [&[u8]; 7] = [
            b"\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(",
            b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuJ\x02\0\0\0tQ",
            b"J\0\0\0\0",
            b"(J\x02\0\0\0J\x01\0\0\0t",
            b"(J\x01\0\0\0J\x01\0\0\0t",
            b"\x89ccollections\nOrderedDict\n)R",
            b"tRu.",
        ];
        let got = pickled(&BTreeMap::from([("w".to_owned(), matrix)]));
        assert_eq!(got.escape_ascii().to_string(), want.concat().escape_ascii().to_string());
    }

    /// Tensors that repeat elements, as `expand` makes them.
    #[test]
    fn expanded_tensors() {
        check(&archive(&pickle(3, 0), &[0; 8]), &["w f32[3] [0.0, 0.0, 0.0]"]);
        let mut expanded = pickle(200, 0);
        let ones = [1.0f32, 2.0].map(f32::to_le_bytes).concat();
        check(&archive(&expanded, &ones), &[&format!("w f32[200] {:?}", [1.0; 200])]);
        let kind = expanded.iter().rposition(|it| *it == b'K').expect("it has a stride");
        expanded[kind + 1] = 1;
        assert!(read(&archive(&expanded, &ones)).is_err());
    }

    /// Small files of many values take memory and time in proportion to their size.
    #[test]
    fn many_values() {
        let begin = std::time::Instant::now();
        let text = |it: &str| [b"X", &(it.len() as u32).to_le_bytes()[..], it.as_bytes()].concat();
        let long = "k".repeat(1 << 20);
        let same_key =
            [b"\x80\x02}(".to_vec(), text(&long), b"q\0K\x01".to_vec(), b"h\0K\x01".repeat(20_000), b"u.".to_vec()];
        assert!(read(&archive(&same_key.concat(), &[])).is_err_and(|it| it.contains("too long a name")));
        let module = [b"\x80\x02".to_vec(), text(&long), b"q\0".to_vec(), b"h\0h\0\x93".repeat(20_000), b".".to_vec()];
        assert!(read(&archive(&module.concat(), &[])).is_err_and(|it| it.contains("too long")));
        // Tensors that share a storage.
        let whole = pickle(2, 1);
        let at = whole.iter().position(|it| *it == b'c').expect("it has a call");
        let tensor = &whole[at..whole.len() - 2];
        let items = |count: usize, tensor: &dyn Fn(usize) -> Vec<u8>| {
            let items = (0..count).flat_map(|it| [text(&format!("w{it}")), tensor(it)].concat());
            [b"\x80\x02}(".to_vec(), items.collect(), b"u.".to_vec()].concat()
        };
        let arrays = read(&archive(&items(6000, &|_| tensor.to_vec()), &vec![0; 1 << 20])).expect("it is a dict");
        let first = &arrays["w0"];
        assert_eq!(arrays.len(), 6000);
        assert!(arrays.values().all(|it| std::sync::Arc::ptr_eq(it.storage(), first.storage())));
        // Tensors with one storage each.
        let key = b"X\x01\0\0\x000";
        let place = tensor.windows(key.len()).position(|it| it == key).expect("it has a key");
        let own = |it: usize| [&tensor[..place], &text(&it.to_string()), &tensor[place + key.len()..]].concat();
        let mut files: BTreeMap<String, Vec<u8>> = (0..20_000).map(|it| (format!("x/data/{it}"), vec![0; 8])).collect();
        files.insert("x/data.pkl".to_owned(), items(20_000, &own));
        let mut file = Vec::new();
        write_archive(&files, &mut file).expect("nothing fails");
        assert_eq!(read(&file).expect("it is a dict").len(), 20_000);
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        check(&archive(&pickle(2, 1), &[0; 8]), &["w f32[2] [0.0, 0.0]"]);
        let nested = |count: usize| [vec![b']'; 1], vec![0x85; count], b".".to_vec()].concat();
        let class = b"FloatStorage";
        let whole = pickle(2, 1);
        let at = whole.windows(class.len()).position(|it| it == class).expect("it has a storage");
        let complex = [&whole[..at], b"ComplexFloatStorage", &whole[at + class.len()..]].concat();
        let cases: [(&[u8], &str); 8] = [
            (&archive(&complex, &[0; 8]), "no dtype here for `torch ComplexFloatStorage`"),
            (MODULE, "`__main__ E`"),
            (b"PK", "no zip archive"),
            (&archive(b"cos\nsystem\nX\x02\0\0\0ls\x85R.", &[]), "`os system`"),
            (&archive(&pickle(3, 1), &[0; 8]), "not within its storage"),
            (&archive(&nested(100_000), &[]), "nested too deeply"),
            (&archive(b"]q\0h\0a.", &[]), "nested too deeply"),
            (&archive(b"X\xff\xff\xff\xff", &[]), "early"),
        ];
        for (file, why) in cases {
            let error = read(file).expect_err("it is refused");
            assert!(error.contains(why), "{error:?} instead of {why:?}");
        }
    }

    /// Truncated or changed files are rejected or read as different data; none makes the process fail.
    #[test]
    fn damage() {
        for file in [STATE, RUN, MODULE] {
            for len in (0..file.len()).step_by(7) {
                assert!(read(&file[..len]).is_err());
            }
        }
        // These changes are covered by valid checksums.
        for at in 0..pickle(2, 1).len() {
            for change in [1, 2, 0x40, 0x80, 0xff] {
                let mut pickle = pickle(2, 1);
                pickle[at] ^= change;
                let _ = read(&archive(&pickle, &[0; 8]));
            }
        }
    }
}
