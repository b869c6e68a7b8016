//! Words that comments and pages do not use, with the words that replace them.

/// Phrases in lower case, with what to write instead. Each is a paraphrase of a term, or has no meaning without
/// context.
///
/// `docs/style.md` lists more: words that are refused only in one of their meanings, which no test can tell.
pub const WORDS: &[(&str, &str)] = &[
    // Vectors and matrix engines.
    ("by lanes", "vectorised, lane-wise"),
    ("group of terms", "K block"),
    ("groups of terms", "K blocks"),
    ("kept panel", "cached packed operand"),
    ("kept panels", "cached packed operands"),
    ("plane of an f32", "split component"),
    ("planes of an f32", "split components"),
    ("product of planes", "component product"),
    ("products of planes", "component products"),
    ("micro kernel", "micro-kernel"),
    ("microkernel", "micro-kernel"),
    ("what multiplies", "the micro-kernel, the matrix engine"),
    // Convolutions.
    ("in fewer products", "Winograd"),
    ("matrix of columns", "im2col buffer"),
    ("matrices of columns", "im2col buffers"),
    ("gradient for the input", "backward-data"),
    ("gradient for the weights", "backward-weights"),
    // Memory.
    ("cacheline", "cache line"),
    ("line of the cache", "cache line"),
    ("lines of the cache", "cache lines"),
    ("line of a cache", "cache line"),
    ("fetched", "prefetched"),
    ("in no memory", "not materialised"),
    // Numbers.
    ("below the normal ones", "subnormal"),
    ("denormal", "subnormal"),
    ("denormals", "subnormals"),
    ("numbers for zeros", "flushed to zero"),
    ("taken for zeros", "flushed to zero"),
    ("so many", "the number, or a name for it"),
    ("tree of tensors", "pytree"),
    ("trees of tensors", "pytrees"),
    ("roof", "roofline"),
    // Loops and calls.
    ("what is left", "the remainder, the tail"),
    ("what stays", "the remainder, the tail"),
    ("wanted", "used, live"),
    ("wants", "uses, needs"),
    ("granted", "allocated, allowed"),
    ("handed", "passed"),
    ("turned", "transposed, rotated, converted"),
    // Sentences.
    ("anew", "again"),
    ("in order to", "to"),
    ("in vain", "without a result"),
    ("is so stored", "is stored"),
    ("known of", "known about"),
    ("obviously", "nothing: the word adds no fact"),
    ("of course", "nothing: the word adds no fact"),
    ("of its own", "its own, separate"),
    ("of their own", "their own, separate"),
    ("of whose", "with"),
    ("other one", "the noun"),
    ("other ones", "the noun"),
    ("another one", "another, with the noun"),
    ("simply", "nothing: the word adds no fact"),
    ("the former", "the noun"),
    ("the latter", "the noun"),
];
