//! Reading the parts of a file from its front.

/// The first bytes of a slice, which then starts after them.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) =
        bytes.split_at_checked(count).ok_or_else(|| format!("it ends {} bytes early", count - bytes.len()))?;
    *bytes = rest;
    Ok(taken)
}

/// The first bytes of a slice as an array, which then starts after them.
pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    Ok(take(bytes, N)?.try_into().expect("so many were taken"))
}
