//! Bounds the number of functions in the executable of this crate's unit tests, which links the crates below. Each
//! instance of a generic function counts, so the number follows the build time of these crates.

use std::fs;

/// The largest number of functions: 2 % above the number when it was last set. `docs/contributing.md` says how to list
/// the instances of generic functions.
const LIMIT: usize = 57_500;

/// Counts the functions in the symbol table of an ELF executable; `None` if it has none.
fn count_functions(file: &[u8]) -> Option<usize> {
    const SYMBOLS: u32 = 2;
    const FUNCTION: u8 = 2;
    let word = |at: usize, size: usize| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(file.get(at..)?.get(..size)?);
        Some(u64::from_le_bytes(bytes) as usize)
    };
    let (headers, size, count) = (word(0x28, 8)?, word(0x3a, 2)?, word(0x3c, 2)?);
    for header in (0..count).map(|it| headers + it * size) {
        if word(header + 4, 4)? as u32 != SYMBOLS {
            continue;
        }
        let (first, bytes) = (word(header + 0x18, 8)?, word(header + 0x20, 8)?);
        let symbols = file.get(first..)?.get(..bytes)?.chunks_exact(24);
        // A symbol of section 0 is defined in another file.
        return Some(symbols.filter(|it| it[4] & 15 == FUNCTION && it[6..8] != [0, 0]).count());
    }
    None
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ms_sanitize)))]
#[cfg_attr(not(debug_assertions), ignore = "optimised code has other functions")]
fn the_number_of_functions_is_bounded() {
    let path = std::env::current_exe().expect("the program has a path");
    let count = count_functions(&fs::read(path).expect("the program is readable")).expect("it has symbols");
    assert!(count <= LIMIT, "{count} functions, of {LIMIT}: see the section on generic code in docs/style.md");
    assert!(count > LIMIT / 10 * 9, "{count} functions, of {LIMIT}: lower the limit");
}

#[test]
fn files_without_symbols_have_no_number() {
    for file in [&b""[..], b"\x7fELF", &[0; 64]] {
        assert_eq!(count_functions(file), None);
    }
}
